//! What routing and balancing cost. Each call is timed in short runs, so that a run which was interrupted by
//! other work on the machine stands out; the median run is a round, and every case has a round in turn, so that
//! a busy minute falls on all of them alike. The median round counts. What has a limit must not allocate either.
//!
//! Run it with `cargo bench -p pool-tests --bench routing`. The limits are those of the design; the program
//! fails if a case is beyond its limit, or something allocates, and `POOL_BENCH_STRICT` is set.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use pool_core::balance::{
    BalancePolicy, Candidate, Eligible, LeastActive, LeastLatency, PowerOfTwoChoices, Random,
    RoundRobin, Weighted,
};
use pool_core::host::HostId;
use pool_core::route::{Dialect, RoutePolicy, SessionState, StatementRouter};

/// 100 bytes.
const SELECT: &str = "SELECT id, name, mail, created_at FROM customer WHERE tenant_id = ? \
                      AND status IN ('a', 'b') LIMIT 9";

/// Rounds of every case.
const ROUNDS: usize = 9;

/// One call to be timed.
struct Case<'a> {
    name: String,
    limit: Option<Duration>,
    /// Times that many calls in a row.
    time: Box<dyn FnMut(u32) -> Duration + 'a>,
    /// Nanoseconds of one call, a median of each round.
    rounds: Vec<f64>,
}

impl<'a> Case<'a> {
    fn new(name: String, limit: Option<Duration>, mut call: impl FnMut() + 'a) -> Self {
        let time = Box::new(move |calls| {
            let start = Instant::now();
            for _ in 0..calls {
                call();
            }
            start.elapsed()
        });
        Self { name, limit, time, rounds: Vec::new() }
    }

    /// The median of `runs` runs of `calls` calls.
    fn round(&mut self, runs: usize, calls: u32) {
        let times = (0..runs).map(|_| (self.time)(calls).as_nanos() as f64 / f64::from(calls));
        let round = median(times.collect());
        self.rounds.push(round);
    }

    fn median(&self) -> f64 {
        median(self.rounds.clone())
    }

    /// Prints the case; whether it is within its limit and does not allocate.
    fn report(&mut self) -> bool {
        let (typical, best) = (self.median(), self.rounds.iter().copied().fold(f64::MAX, f64::min));
        print!("{:<44} {typical:>12.1} ns   best round {best:>12.1} ns", self.name);
        let Some(limit) = self.limit else {
            println!();
            return true;
        };
        let is_within = typical <= limit.as_nanos() as f64;
        let allocations = measure(|| _ = (self.time)(1)).count_total;
        let verdict = if is_within { "ok" } else { "BEYOND" };
        println!("   limit {limit:?}: {verdict}, {allocations} allocations");
        is_within && allocations == 0
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> ExitCode {
    assert_eq!(SELECT.len(), 100);
    let routers = [Dialect::MySql, Dialect::TSql].map(StatementRouter::new);
    let mut cases = routes(&routers);
    for count in [3, 100] {
        cases.extend(picks(count));
    }
    cases.extend(picks_by_pool());
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(|case| case.round(501, 100));
    }
    let mut is_within = true;
    for case in &mut cases {
        is_within &= case.report();
    }
    long_texts();
    if is_within || std::env::var_os("POOL_BENCH_STRICT").is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn routes(routers: &[StatementRouter; 2]) -> Vec<Case<'_>> {
    let limit = Some(Duration::from_nanos(150));
    let statements = [
        ("SELECT of 100 bytes", SELECT.to_owned(), limit),
        ("the same with a hint", format!("/*FORCE_MASTER*/ {SELECT}"), None),
        ("SELECT 1", "SELECT 1".to_owned(), None),
        ("short UPDATE", "UPDATE customers SET name = 'x' WHERE id = 5".to_owned(), None),
        ("BEGIN", "BEGIN TRANSACTION".to_owned(), None),
    ];
    let mut cases = Vec::new();
    for (dialect, router) in ["mysql", "mssql"].into_iter().zip(routers) {
        for (what, sql, limit) in statements.clone() {
            let session = SessionState::new();
            cases.push(Case::new(format!("route, {dialect}, {what}"), limit, move || {
                black_box(router.route(black_box(&sql), &session));
            }));
        }
    }
    cases
}

fn candidates(count: u32) -> Vec<Candidate> {
    let candidate = |id| Candidate {
        id: HostId::new(id),
        weight: 100 + 100 * (id % 2),
        active: id % 5,
        latency: Some(Duration::from_micros(500 + u64::from(id))),
    };
    (0..count).map(candidate).collect()
}

fn picks(count: u32) -> Vec<Case<'static>> {
    let limit = Some(Duration::from_nanos(if count == 3 { 20 } else { 400 }));
    vec![
        pick("weighted", count, limit, Weighted::new()),
        pick("least active", count, limit, LeastActive::new()),
        pick("round robin", count, limit, RoundRobin::new()),
        pick("random", count, limit, Random::new(7)),
        pick("least latency", count, limit, LeastLatency::new()),
        pick("power of two choices", count, limit, PowerOfTwoChoices::new(7)),
    ]
}

fn pick<P: BalancePolicy + 'static>(
    name: &str,
    count: u32,
    limit: Option<Duration>,
    policy: P,
) -> Case<'static> {
    let hosts = candidates(count);
    Case::new(format!("pick of {count}, {name}"), limit, move || {
        black_box(policy.pick(&Eligible::new(black_box(&hosts))));
    })
}

/// The same through a pointer to any policy, which is how the pool calls it: nothing can be inlined.
fn picks_by_pool() -> Vec<Case<'static>> {
    let policies: [(&str, Arc<dyn BalancePolicy>); 6] = [
        ("weighted", Arc::new(Weighted::new())),
        ("least active", Arc::new(LeastActive::new())),
        ("round robin", Arc::new(RoundRobin::new())),
        ("random", Arc::new(Random::new(7))),
        ("least latency", Arc::new(LeastLatency::new())),
        ("power of two choices", Arc::new(PowerOfTwoChoices::new(7))),
    ];
    let case = |(name, policy): (&str, Arc<dyn BalancePolicy>)| {
        let (hosts, policy) = (candidates(3), black_box(policy));
        Case::new(format!("pick of 3 by the pool, {name}"), None, move || {
            black_box(policy.pick(&Eligible::new(black_box(&hosts))));
        })
    };
    policies.into_iter().map(case).collect()
}

/// Time must grow with the length and no faster: 16 times the text in about 16 times the time.
fn long_texts() {
    let router = StatementRouter::default();
    let session = SessionState::new();
    for (what, piece) in [
        ("numbers", "(1, 23, 456), "),
        ("long strings", "('a text that goes on and on, as texts in databases do', 'x'), "),
        ("doubled quotes", "'''''''', "),
        ("blanks", "        "),
        ("stars in comments", "/* ** * ** */ "),
        ("words", "a b c d e f g h "),
        ("function calls", "f(g(h(1))), "),
    ] {
        let mut last = None;
        for length in [1 << 16, 1 << 20] {
            let body = piece.repeat(length / piece.len());
            let sql = format!("SELECT * FROM t WHERE a IN ({body} 1)");
            let name = format!("route, {length} bytes of {what}");
            let mut case = Case::new(name, None, || {
                black_box(router.route(black_box(&sql), &session));
            });
            (0..ROUNDS).for_each(|_| case.round(5, 1));
            case.report();
            if let Some(short) = last.replace(case.median()) {
                let ratio = case.median() / short;
                println!("{:<44} {ratio:>12.1} times", "   16 times the length");
            }
        }
    }
}
