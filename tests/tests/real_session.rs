//! Sessions under load on real MySQL while their source is killed, paused, cut off and restarted: no
//! acknowledged commit is missing, nothing ran twice, every error says what became of the statement, and
//! the sessions are back on the source in time.
//!
//! `POOL_TESTS_ROUNDS` sets the number of faults. Defaults to 50.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::access::AccessMode;
use pool_core::failover::{Failure, SessionOptions};
use pool_mysql::{Failed, MySqlOptions, Pool, Session};
use pool_tests::real::{self, MySqlCluster, MySqlHost, STARTUP, Server};
use pool_tests::stalls::Stalls;
use tokio::time::{Instant, sleep, timeout};

const SESSIONS: usize = 32;
/// `secondsBeforeRetrySource`.
const RETRY: Duration = Duration::from_secs(1);
/// What the return may take beyond that.
const GRACE: Duration = Duration::from_secs(2);
/// A thread of this process that wakes up so late says that the machine stood still: a connect may have timed
/// out for that, and the return was put off. Such a return does not count.
const BUSY: Duration = Duration::from_millis(100);
/// A call that takes longer hangs.
const HANG: Duration = Duration::from_secs(60);

/// What the caller was told about one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was committed.
    Acknowledged,
    /// It did not run, or was rolled back.
    Undone,
    /// It may have been committed.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    Disconnect,
    Kill,
    Pause,
    Restart,
}

/// Restarts are rare: with replicas attached a shutdown takes some 10 s.
const BLOWS: [Blow; 10] = [
    Blow::Pause,
    Blow::Disconnect,
    Blow::Kill,
    Blow::Pause,
    Blow::Disconnect,
    Blow::Kill,
    Blow::Disconnect,
    Blow::Pause,
    Blow::Restart,
    Blow::Disconnect,
];

/// What all workers share.
#[derive(Default)]
struct Load {
    ids: AtomicU64,
    /// Sessions that are on the source, each counted by its own worker.
    on_source: AtomicUsize,
    over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_survive_every_blow_to_their_source() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let rounds =
        std::env::var("POOL_TESTS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let cluster = MySqlCluster::start(2).await.unwrap();
    let mut admin = cluster.host(0).admin().await.unwrap();
    // No key: a statement that runs twice is seen, not refused.
    admin.query_drop("CREATE TABLE test.work (id BIGINT NOT NULL)").await.unwrap();
    drop(admin);
    cluster.replication_caught_up().await.unwrap();

    let url = format!(
        "{}?secondsBeforeRetrySource={}&queriesBeforeRetrySource=0&connectTimeout=500\
         &socketTimeout=1500&maxPoolSize={SESSIONS}&probeInterval=0",
        cluster.url("test"),
        RETRY.as_secs(),
    );
    let options = MySqlOptions::from_url(&url).unwrap();
    let pool = options.connect_later().await.unwrap();
    let load = Arc::new(Load::default());
    let source = cluster.host(0).port();
    let workers: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let options = options.session_options().unwrap();
            tokio::spawn(work(pool.clone(), options, source, Arc::clone(&load)))
        })
        .collect();

    all_on_source(&load).await;
    let mut returns: BTreeMap<Blow, Duration> = BTreeMap::new();
    let stalls = Stalls::watch();
    let (mut round, mut uncounted) = (0, Vec::new());
    let started = Instant::now();
    while round < rounds {
        let blow = BLOWS[round % BLOWS.len()];
        sleep(Duration::from_millis(fastrand::u64(0..120))).await;
        strike(cluster.host(0), blow).await;
        stalls.take();
        let back = all_on_source(&load).await;
        if back > RETRY + GRACE && stalls.take() > BUSY && uncounted.len() < 5 {
            uncounted.push((blow, back));
            continue;
        }
        let longest = returns.entry(blow).or_default();
        *longest = back.max(*longest);
        round += 1;
    }
    let took = started.elapsed();
    load.over.store(true, SeqCst);
    let mut fates = HashMap::new();
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    for worker in workers {
        let told = timeout(HANG, worker).await.unwrap().unwrap();
        fates.extend(told.fates);
        for failure in told.failures {
            *failures.entry(failure).or_default() += 1;
        }
    }
    let count = |fate| fates.values().filter(|told| **told == fate).count();
    println!(
        "{rounds} rounds in {took:.1?}: {} statements acknowledged, {} undone, {} unknown; errors \
         {failures:?}; last session back after {returns:.2?}; while the machine stood still {uncounted:.2?}",
        count(Fate::Acknowledged),
        count(Fate::Undone),
        count(Fate::Unknown),
    );
    check(&cluster, &fates).await;
    for (blow, back) in returns {
        assert!(back <= RETRY + GRACE, "back {back:?} after {blow:?}");
    }
}

/// Hits the source, and returns when it serves again.
async fn strike(source: &MySqlHost, blow: Blow) {
    let hold = Duration::from_millis(fastrand::u64(200..1200));
    match blow {
        Blow::Disconnect => {
            source.disconnect().await.unwrap();
            sleep(hold).await;
            source.connect().await.unwrap();
        }
        Blow::Kill => {
            source.kill().await.unwrap();
            source.start().await.unwrap();
        }
        Blow::Pause => {
            source.pause().await.unwrap();
            // Some of these are longer than the socket timeout, some are not.
            sleep(hold * 2).await;
            source.unpause().await.unwrap();
        }
        Blow::Restart => source.restart().await.unwrap(),
    }
    source.wait_until_up(STARTUP).await.unwrap();
}

/// How long it takes until every session is on the source.
async fn all_on_source(load: &Load) -> Duration {
    let started = Instant::now();
    while load.on_source.load(SeqCst) < SESSIONS {
        assert!(started.elapsed() < HANG, "{} sessions are back", load.on_source.load(SeqCst));
        sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}

/// Compares what the callers were told with what the source has.
async fn check(cluster: &MySqlCluster, fates: &HashMap<u64, Fate>) {
    let mut admin = cluster.host(0).admin().await.unwrap();
    let rows: Vec<u64> = admin.query("SELECT id FROM test.work").await.unwrap();
    let mut times: HashMap<u64, usize> = HashMap::new();
    for id in rows {
        *times.entry(id).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    let strange: Vec<_> = times.keys().filter(|id| !fates.contains_key(id)).collect();
    assert!(strange.is_empty(), "never sent: {strange:?}");
    for (fate, present) in [(Fate::Acknowledged, true), (Fate::Undone, false)] {
        let told = fates.iter().filter(|(_, told)| **told == fate).map(|(id, _)| id);
        let wrong: Vec<_> = told.filter(|id| times.contains_key(id) != present).collect();
        assert!(wrong.is_empty(), "{fate:?}, but not so on the source: {wrong:?}");
    }
    assert!(fates.values().any(|fate| *fate == Fate::Acknowledged), "no work was done");
    cluster.replication_caught_up().await.unwrap();
    for replica in &cluster.hosts()[1..] {
        let mut admin = replica.admin().await.unwrap();
        let count: Option<usize> =
            admin.query_first("SELECT COUNT(*) FROM test.work").await.unwrap();
        assert_eq!(count, Some(times.len()));
    }
}

/// What one worker was told.
#[derive(Default)]
struct Told {
    fates: Vec<(u64, Fate)>,
    failures: Vec<&'static str>,
}

async fn work(pool: Pool, options: SessionOptions, source: u16, load: Arc<Load>) -> Told {
    let mut session = Session::new(&pool, options);
    let mut told = Told::default();
    let mut counted = false;
    while !load.over.load(SeqCst) {
        let on_secondary = session.state().mode() == Some(AccessMode::ReadOnly);
        let outcome = timeout(HANG, async {
            match fastrand::u8(0..10) {
                // Now and then a write where none is taken.
                0..9 if on_secondary => session.query_drop("SELECT 1").await,
                0..5 => alone(&mut session, &load, &mut told).await,
                _ => together(&mut session, &load, &mut told).await,
            }
        });
        let outcome = outcome.await.expect("a call hangs");
        if let Err(error) = outcome {
            told.failures.push(error.failure.as_str());
            settle(&mut session, &mut told).await;
        }
        let now = session.host().is_some_and(|host| host.port() == source);
        if now != std::mem::replace(&mut counted, now) {
            if now {
                load.on_source.fetch_add(1, SeqCst)
            } else {
                load.on_source.fetch_sub(1, SeqCst)
            };
        }
        sleep(Duration::from_millis(fastrand::u64(5..40))).await;
    }
    told
}

/// One statement that is a transaction of its own.
async fn alone(session: &mut Session, load: &Load, told: &mut Told) -> Result<(), Failed> {
    let id = load.ids.fetch_add(1, SeqCst);
    let outcome = session.query_drop(&format!("INSERT INTO work VALUES ({id})")).await;
    let fate = match &outcome {
        Ok(()) => Fate::Acknowledged,
        Err(error) => match error.failure {
            Failure::NotWritable | Failure::Switched | Failure::TransactionLost => Fate::Undone,
            Failure::Statement => interrupted(error),
            _ => Fate::Unknown,
        },
    };
    told.fates.push((id, fate));
    outcome
}

/// A transaction of some statements, with one commit, or one rollback, at its end.
async fn together(session: &mut Session, load: &Load, told: &mut Told) -> Result<(), Failed> {
    session.begin().await?;
    let mut ids = Vec::new();
    let commits = fastrand::u8(0..4) > 0;
    let mut outcome = Ok(());
    for _ in 0..fastrand::usize(1..4) {
        let id = load.ids.fetch_add(1, SeqCst);
        ids.push(id);
        outcome = session.exec_drop("INSERT INTO work VALUES (?)", (id,)).await;
        if outcome.is_err() {
            break;
        }
    }
    let fate = match &outcome {
        Ok(()) if commits => {
            outcome = session.commit().await;
            match &outcome {
                Ok(()) => Fate::Acknowledged,
                Err(error) => match error.failure {
                    Failure::Switched | Failure::TransactionLost => Fate::Undone,
                    _ => Fate::Unknown,
                },
            }
        }
        Ok(()) => {
            outcome = session.rollback().await;
            Fate::Undone
        }
        Err(error) if error.failure == Failure::Statement => interrupted(error),
        // Nobody has sent a commit.
        Err(error) => {
            assert_ne!(error.failure, Failure::OutcomeUnknown, "inside a transaction: {error}");
            Fate::Undone
        }
    };
    told.fates.extend(ids.into_iter().map(|id| (id, fate)));
    outcome
}

/// A server that shuts down interrupts statements (1317): they are undone. No other error of a statement
/// is expected.
fn interrupted(error: &Failed) -> Fate {
    let code = match &error.error {
        Some(mysql_async::Error::Server(server)) => server.code,
        _ => 0,
    };
    assert_eq!(code, 1317, "none of the outcomes: {error}");
    Fate::Undone
}

/// Acknowledges what was lost, and opens again if no host was reachable.
async fn settle(session: &mut Session, told: &mut Told) {
    let settled = timeout(HANG, async {
        loop {
            let outcome = if session.state().is_closed() {
                session.connect().await
            } else if session.state().transaction_lost() || session.state().in_transaction() {
                session.rollback().await
            } else {
                return;
            };
            if let Err(error) = outcome {
                told.failures.push(error.failure.as_str());
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    settled.await.expect("a session does not settle");
    for failure in &told.failures {
        let one_of = ["FailoverFailed", "NotWritable", "OutcomeUnknown", "Statement", "Switched"];
        assert!(one_of.contains(failure) || *failure == "TransactionLost", "{failure}");
    }
}
