//! Random sessions against a simple model of where each statement has to run.
//!
//! The model knows two rules: what a session has begun keeps everything on the connection where it began
//! until it ends; otherwise plain reads run on replicas and the rest on the one main connection.

use std::collections::BTreeSet;

use fastrand::Rng;
use pool_core::failover::Isolation;
use pool_mysql::{Failed, Session};

use crate::bench::{Bench, left_nothing, within};

/// A connection of the cluster: host and id.
type Place = (usize, u32);

/// What is open, and where.
#[derive(Debug, Default)]
struct Model {
    main: Option<Place>,
    /// Where the session is bound. Meaningless while nothing is open.
    bound: Option<Place>,
    transaction: bool,
    autocommit_off: bool,
    locks: Vec<char>,
    tables: BTreeSet<char>,
    lasting: bool,
}

impl Model {
    fn is_bound(&self) -> bool {
        self.transaction
            || self.autocommit_off
            || self.lasting
            || !self.locks.is_empty()
            || !self.tables.is_empty()
    }

    /// A text that runs as it is: where it may run, and what it opens and closes if it succeeds.
    fn ran(&mut self, step: &Step, place: Place, succeeded: bool) {
        if self.is_bound() {
            assert_eq!(Some(place), self.bound, "bound: {self:?}");
        } else if step.to_replica() {
            assert_ne!(place.0, 0, "{self:?}");
        } else {
            assert_eq!(place.0, 0, "{self:?}");
            assert_eq!(*self.main.get_or_insert(place), place, "one main connection");
        }
        let was_bound = self.is_bound();
        self.apply(step, succeeded);
        if !was_bound {
            self.bound = Some(place);
        }
    }

    fn apply(&mut self, step: &Step, succeeded: bool) {
        match step {
            // What may have begun has begun, what may have ended has not.
            Step::Lock(name) => self.locks.push(*name),
            Step::Table(name) => drop(self.tables.insert(*name)),
            Step::Variable => self.lasting = true,
            _ if !succeeded => {}
            Step::Unlock(name) => {
                if let Some(at) = self.locks.iter().position(|open| open == name) {
                    self.locks.swap_remove(at);
                }
            }
            Step::DropTable(name) => drop(self.tables.remove(name)),
            Step::Begin | Step::BeginReadOnly => self.transaction = true,
            Step::End(_) => self.transaction = false,
            Step::Autocommit(on) => {
                // Switched on, it commits what is open; if it is on, it does nothing.
                self.transaction &= !(*on && self.autocommit_off);
                self.autocommit_off = !on;
            }
            // Without autocommit, whatever touches a table opens a transaction, which is bound anyway.
            Step::Chain
            | Step::Master
            | Step::Missing
            | Step::Read
            | Step::Savepoint
            | Step::Slave
            | Step::Two
            | Step::Write => {}
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Autocommit(bool),
    Begin,
    BeginReadOnly,
    Chain,
    DropTable(char),
    /// By this word.
    End(&'static str),
    Lock(char),
    Master,
    Missing,
    Read,
    Savepoint,
    Slave,
    Table(char),
    Two,
    Unlock(char),
    Variable,
    Write,
}

impl Step {
    fn random(rng: &mut Rng) -> Self {
        let name = if rng.bool() { 'a' } else { 'b' };
        match rng.u32(..60) {
            0..=15 => Self::Read,
            16..=18 => Self::Master,
            19..=21 => Self::Slave,
            22..=28 => Self::Write,
            29..=32 => Self::Begin,
            33..=35 => Self::BeginReadOnly,
            36..=39 => Self::End("COMMIT"),
            40..=42 => Self::End("ROLLBACK"),
            43 => Self::Chain,
            44 => Self::Autocommit(false),
            45..=46 => Self::Autocommit(true),
            47..=48 => Self::Lock(name),
            49..=51 => Self::Unlock(name),
            52 => Self::Table(name),
            53..=54 => Self::DropTable(name),
            55 => Self::Savepoint,
            56..=57 => Self::Two,
            58 => Self::Missing,
            _ if rng.u32(..8) == 0 => Self::Variable,
            _ => Self::Read,
        }
    }

    fn to_replica(&self) -> bool {
        matches!(self, Self::Read | Self::Slave | Self::Missing | Self::BeginReadOnly)
    }

    fn text(&self) -> String {
        match self {
            Self::Autocommit(on) => format!("SET autocommit = {}", i32::from(*on)),
            Self::Begin => "BEGIN".to_owned(),
            Self::BeginReadOnly => "START TRANSACTION READ ONLY".to_owned(),
            Self::Chain => "COMMIT AND CHAIN".to_owned(),
            Self::DropTable(name) => format!("DROP TEMPORARY TABLE IF EXISTS x{name}"),
            Self::End(word) => (*word).to_owned(),
            Self::Lock(name) => format!("DO GET_LOCK('{name}', 5)"),
            Self::Master => "/*FORCE_MASTER*/ SELECT COUNT(*) FROM t".to_owned(),
            Self::Missing => "SELECT * FROM missing".to_owned(),
            Self::Read => "SELECT COUNT(*) FROM t".to_owned(),
            Self::Savepoint => "SAVEPOINT s".to_owned(),
            Self::Slave => "/*FORCE_SLAVE*/ SELECT COUNT(*) FROM t".to_owned(),
            Self::Table(name) => format!("CREATE TEMPORARY TABLE x{name} (a INT)"),
            Self::Two => "INSERT INTO t (v) VALUES (1); SELECT 1".to_owned(),
            Self::Unlock(name) => format!("DO RELEASE_LOCK('{name}')"),
            Self::Variable => "SET @a = 1".to_owned(),
            Self::Write => "INSERT INTO t (v) VALUES (2)".to_owned(),
        }
    }

    fn is_method(&self) -> bool {
        matches!(self, Self::Autocommit(_) | Self::Begin | Self::End(_))
    }
}

async fn send(session: &mut Session, sql: &str, how: u32) -> Result<(), Failed> {
    match how {
        0 => session.query_drop(sql).await,
        1 => session.query::<i64>(sql).await.map(drop),
        2 => session.query_first::<i64>(sql).await.map(drop),
        _ => session.exec_drop(sql, ()).await,
    }
}

async fn walk(bench: &mut Bench, seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let mut session = bench.fresh();
    let mut model = Model::default();
    let mut history = Vec::new();
    for number in 0..60 {
        let step = Step::random(rng);
        // A chained commit outside a transaction begins none.
        if step == Step::Chain && !model.transaction {
            continue;
        }
        // Here (unlike in MySQL) a rollback brings a dropped temporary table back.
        if matches!(step, Step::DropTable(_)) && (model.transaction || model.autocommit_off) {
            continue;
        }
        let how = match step {
            Step::Read | Step::Write | Step::Slave | Step::Master => rng.u32(..4),
            _ => rng.u32(..3),
        };
        history.push((step.clone(), how));
        let from = bench.cluster.statements().len();
        if how == 0 && step.is_method() {
            method(bench, &mut session, &mut model, &step, from, &history).await;
            continue;
        }
        let text = match step {
            Step::Two => step.text().replace(';', &format!("/*m{number}*/;")),
            _ => format!("{} /*m{number}*/", step.text()),
        };
        let sent = within("a statement", send(&mut session, &text, how)).await;
        let log = bench.cluster.statements();
        let mark = format!("/*m{number}*/");
        let mut places: Vec<Place> = log[from..]
            .iter()
            .filter(|line| line.text.contains(&mark))
            .map(|line| (line.host, line.connection))
            .collect();
        places.dedup();
        let [place] = places.as_slice() else {
            panic!("seed {seed}: ran on {places:?} ({sent:?}): {history:?}");
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            model.ran(&step, *place, sent.is_ok());
        }));
        assert!(outcome.is_ok(), "seed {seed}: {sent:?}, {:?}: {history:?}", session.pins());
        assert_eq!(!session.pins().is_empty(), model.is_bound(), "seed {seed}: {history:?}");
    }
    drop(session);
    let why = format!("seed {seed}: {history:?}");
    assert_eq!(bench.in_use(), 0, "{why}");
    left_nothing(bench, &why).await;
}

/// A text that is a method of the session.
async fn method(
    bench: &Bench,
    session: &mut Session,
    model: &mut Model,
    step: &Step,
    from: usize,
    history: &[(Step, u32)],
) {
    let beside = model.is_bound() && model.bound.is_some_and(|bound| Some(bound) != model.main);
    let done = within("a method", session.query_drop(&step.text())).await;
    let moves = *step == Step::Begin
        && beside
        && model.transaction
        && !(model.autocommit_off || model.lasting)
        && model.locks.is_empty()
        && model.tables.is_empty();
    if let (true, Step::Autocommit(_), Err(_)) = (beside, step, &done) {
        // Refused, to be done on the main connection alone.
        return;
    }
    let why = format!("{model:?} {done:?}: {history:?}");
    assert!(done.is_ok(), "{why}");
    let log = bench.cluster.statements();
    let word = match step {
        Step::Autocommit(_) => "SET autocommit",
        Step::Begin => "START TRANSACTION",
        Step::End(word) => word,
        _ => unreachable!(),
    };
    let ran: Vec<Place> = log[from..]
        .iter()
        .filter(|line| line.text.starts_with(word))
        .map(|line| (line.host, line.connection))
        .collect();
    let was_bound = model.is_bound() && !moves;
    if was_bound {
        let expected = model.bound.unwrap();
        // Setting what is set already is not sent.
        let silent = matches!(step, Step::Autocommit(_)) && ran.is_empty();
        assert!(silent || ran.contains(&expected), "{ran:?}: {why}");
    } else if let Some(main) = model.main {
        let silent = matches!(step, Step::Autocommit(_)) && ran.is_empty();
        assert!(silent || ran.contains(&main), "{ran:?}: {why}");
    } else {
        model.main = ran.iter().copied().find(|place| place.0 == 0);
    }
    if moves {
        model.transaction = false;
    }
    model.apply(step, true);
    if !was_bound {
        model.bound = model.main;
    }
    assert_eq!(!session.pins().is_empty(), model.is_bound(), "{why}");
}

#[tokio::test]
async fn every_statement_runs_where_a_simple_model_says() {
    let seeds = std::env::var("ATTACK_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds: Vec<u64> = (0..seeds.unwrap_or(40)).collect();
    for some in seeds.chunks(20) {
        let mut bench = Bench::new().await;
        for seed in some {
            walk(&mut bench, *seed).await;
        }
    }
}

#[tokio::test]
async fn what_methods_set_binds_for_good() {
    for isolation in [false, true] {
        let mut bench = Bench::new().await;
        assert_ne!(bench.read().await, 0);
        if isolation {
            bench.session.set_isolation(Isolation::ReadCommitted).await.unwrap();
        } else {
            bench.session.set_database("app").await.unwrap();
        }
        for _ in 0..3 {
            assert_eq!(bench.read().await, 0);
        }
    }
}
