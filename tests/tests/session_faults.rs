//! What a session does when hosts die, fall silent or turn read-only, over real TCP: the gaps that no
//! upstream test asserts (reference `mysql-failover`, section 11), and the measured times.

#![allow(clippy::unwrap_used)]

mod session_support;

use std::error::Error as _;
use std::time::Duration;

use pool_core::failover::{Failure, GiveUp, Isolation, Statement};
use pool_core::verdict::Verdict;
use pool_mysql::Session;
use pool_tests::mysql::{Cluster, Fault, Outcome};
use session_support::*;
use tokio::time::{Instant, timeout};

const EXHAUSTED: Result<(), Failure> = Err(Failure::FailoverFailed(GiveUp::Exhausted));
/// What the connect deadline of [`options`] is.
const CONNECT: Duration = Duration::from_millis(1000);
/// What a failover may cost beyond the connects it needs.
const MARGIN: Duration = Duration::from_millis(50);

#[tokio::test]
async fn everything_down_is_the_table() {
    // hosts, turns, then the histories of a first connect and of losing H1, H2, H3
    let rows: [(usize, u32, [&str; 4]); 5] = [
        (2, 0, [r"\H1 \H2", r"\H2", r"\H2", ""]),
        (2, 1, [r"\H1 \H2 \H1", r"\H2 \H1", r"\H2 \H1", ""]),
        (2, 2, [r"\H1 \H2 \H1 \H2 \H1", r"\H2 \H1 \H2 \H1", r"\H2 \H1 \H2 \H1", ""]),
        (3, 0, [r"\H1 \H2", r"\H2", r"\H3", r"\H2"]),
        (3, 1, [r"\H1 \H2 \H3 \H1", r"\H2 \H3 \H1", r"\H3 \H2", r"\H2 \H3 \H1"]),
    ];
    for (hosts, turns, histories) in rows {
        let all: Vec<usize> = (1..=hosts).collect();
        for (from, history) in histories.into_iter().enumerate().filter(|(at, _)| *at <= hosts) {
            let mut bench = Bench::new(hosts, &format!("retriesAllDown={turns}")).await;
            if from > 0 {
                assert_eq!(bench.connect().await, OK);
                for before in 1..from {
                    assert_eq!(bench.down(&[before]).await.query().await, UNKNOWN);
                }
                assert_eq!(bench.host(), Some(from));
                bench.fresh();
            }
            bench.down(&all).await;
            let started = Instant::now();
            let end = if from == 0 { bench.connect().await } else { bench.query().await };
            assert_eq!(end, EXHAUSTED);
            assert_eq!(bench.fresh(), history, "{hosts} hosts, {turns} turns, from {from}");
            // One pause after each turn, the last included.
            let pauses = Duration::from_millis(250) * turns;
            let took = started.elapsed();
            assert!(took >= pauses, "{took:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_failover_carries_the_first_error_and_each_hosts_last_cause() {
    let mut bench = Bench::new(2, "retriesAllDown=1").await;
    assert_eq!(bench.connect().await, OK);
    bench.cluster.host(1).reject_logins(true);
    let h1 = bench.session.host().unwrap().shared_name();
    bench.down(&[1]).await;
    let error = bench.session.query_drop("SELECT 1").await.unwrap_err();
    // A refused password on a later host ends the walk.
    assert_eq!(error.failure, Failure::FailoverFailed(GiveUp::Permanent));
    assert_eq!((error.host.clone(), error.now_on.clone()), (Some(h1), None));
    assert!(error.error.is_some() && error.source().is_some());
    let causes: Vec<Verdict> =
        error.hosts.iter().map(|report| report.cause.as_ref().unwrap().0.verdict).collect();
    assert_eq!(causes, [Verdict::ConnectionLost, Verdict::Permanent]);
    let text = error.to_string();
    for part in ["no host could be reached", "1045", "; 127.0.0.1:"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains(bench.cluster.password()), "{text}");
    // The session goes on once a host can be reached, and says that the link was lost.
    bench.cluster.host(1).reject_logins(false);
    assert_eq!(bench.query().await, SWITCHED);
    assert_eq!(bench.query().await, OK);
}

#[tokio::test]
async fn a_refused_password_on_the_source_is_passed_over_at_the_first_connect_only() {
    let mut bench = Bench::new(2, "").await;
    bench.cluster.host(0).reject_logins(true);
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.host(), Some(2));
    bench.cluster.host(1).reject_logins(true);
    let ended = bench.down(&[2]).await.query().await;
    assert_eq!(ended, Err(Failure::FailoverFailed(GiveUp::Permanent)));
    assert_eq!(bench.history(), r"\H1 /H2 \H2 \H1");
}

#[tokio::test]
async fn a_walk_ends_at_its_deadline_when_hosts_are_silent() {
    let keys = "failoverDeadline=700&connectTimeout=300&retriesAllDown=120";
    let (mut times, mut histories) = ([Duration::ZERO; 3], Vec::new());
    for run in &mut times {
        let mut bench = Bench::new(3, keys).await;
        for host in bench.cluster.hosts() {
            host.hang();
        }
        let started = Instant::now();
        let error = bench.session.connect().await.unwrap_err();
        *run = started.elapsed();
        assert_eq!(error.failure, Failure::FailoverFailed(GiveUp::TimedOut));
        histories.push(bench.history());
        assert!(*run >= Duration::from_millis(650), "{run:?}");
    }
    // The last host gets the 100 ms that are left: on a busy machine perhaps none.
    let whole = histories.iter().filter(|history| *history == r"\H1 \H2 \H3").count();
    assert!(whole >= 2, "{histories:?}");
    // Three connect limits and three pauses would be far more.
    let took = middle("all hosts silent", times);
    assert!(took < Duration::from_millis(890), "{took:?}");
}

#[tokio::test]
async fn the_state_is_carried_and_what_is_lost_is_lost_loudly() {
    let cluster = Cluster::builder(2).database("shop").start().await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let mut bench = Bench::on(cluster, "", |_| ()).await;
    done(bench.session.set_database("shop").await).unwrap();
    done(bench.session.set_isolation(Isolation::ReadCommitted).await).unwrap();
    done(bench.session.set_autocommit(false).await).unwrap();
    assert_eq!(bench.run("SET @mine = 7").await, OK);
    let old = bench.session.prepare("SELECT 1").await.unwrap();
    bench.queries(1).await;
    assert_eq!(bench.down(&[1]).await.query().await, LOST);
    assert_eq!(done(bench.session.rollback().await), OK);
    let sql = "SELECT DATABASE(), @@transaction_isolation, @@autocommit, @mine";
    let row: (String, String, i64, Option<i64>) =
        bench.session.query_first(sql).await.unwrap().unwrap();
    assert_eq!(row, ("shop".to_owned(), "READ-COMMITTED".to_owned(), 0, None));
    let stale = bench.session.run::<i64>(&old, ()).await.unwrap_err();
    assert_eq!(stale.failure, Failure::StaleStatement);
    // Cached values stay readable when all is over.
    bench.session.close();
    assert_eq!(bench.query().await, Err(Failure::Closed));
    assert_eq!(bench.session.state().database(), Some("shop"));
    assert!(!bench.session.state().autocommit());
}

#[tokio::test]
async fn what_a_text_sets_is_carried_like_what_a_method_sets() {
    let cluster = Cluster::builder(2).database("shop").start().await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let mut bench = Bench::on(cluster, "", |_| ()).await;
    assert_eq!(bench.run("USE `shop`").await, OK);
    assert_eq!(bench.run("SET autocommit = 0").await, OK);
    assert_eq!(bench.down(&[1]).await.query().await, SWITCHED);
    let row: (String, i64) =
        bench.session.query_first("SELECT DATABASE(), @@autocommit").await.unwrap().unwrap();
    assert_eq!(row, ("shop".to_owned(), 0));
}

#[tokio::test]
async fn what_a_session_changed_does_not_reach_the_next_user_of_the_pool() {
    let cluster = Cluster::builder(1).database("shop").start().await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let mut bench = Bench::on(cluster, "maxPoolSize=1", |_| ()).await;
    done(bench.session.set_database("shop").await).unwrap();
    done(bench.session.set_isolation(Isolation::Serializable).await).unwrap();
    assert_eq!(done(bench.session.begin().await), OK);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
    drop(bench.session);
    let mut next = Session::new(&bench.pool, Default::default());
    let sql = "SELECT DATABASE(), @@transaction_isolation, (SELECT COUNT(*) FROM t)";
    let row: (String, String, i64) = next.query_first(sql).await.unwrap().unwrap();
    assert_eq!(row, ("app".to_owned(), "REPEATABLE-READ".to_owned(), 0));
}

#[tokio::test]
async fn a_demoted_source_is_left_and_the_write_did_not_run() {
    let mut bench = Bench::new(3, "queriesBeforeRetrySource=2").await;
    assert_eq!(bench.connect().await, OK);
    bench.cluster.host(0).set_super_read_only(true);
    bench.queries(3).await;
    assert_eq!(bench.host(), Some(1), "reads do not notice");
    let error = bench.session.query_drop("INSERT INTO t VALUES (1)").await.unwrap_err();
    assert_eq!(error.failure, Failure::NotWritable);
    assert!(error.safe_to_retry() && error.error.is_some());
    assert_eq!(bench.at(), (Some(2), "ro"));
    // It is not returned to before it is writable again.
    bench.queries(2).await;
    assert_eq!(bench.host(), Some(2));
    bench.cluster.host(0).set_read_only(false);
    bench.queries(2).await;
    assert_eq!(bench.at(), (Some(1), "rw"));
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
}

#[tokio::test]
async fn a_demoted_source_is_kept_if_configured() {
    let mut bench = Bench::new(3, "leaveDemotedSource=false").await;
    assert_eq!(bench.connect().await, OK);
    bench.cluster.host(0).set_read_only(true);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, NOT_WRITABLE);
    assert_eq!(bench.query().await, OK);
    bench.cluster.host(0).set_read_only(false);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
    assert_eq!(bench.history(), "/H1");
}

#[tokio::test]
async fn a_demotion_inside_a_transaction_loses_it() {
    let mut bench = Bench::new(2, "").await;
    assert_eq!(done(bench.session.begin().await), OK);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
    bench.cluster.host(0).set_super_read_only(true);
    assert_eq!(bench.run("INSERT INTO t VALUES (2)").await, NOT_WRITABLE);
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.query().await, LOST);
    assert_eq!(done(bench.session.rollback().await), OK);
    let count: Option<i64> = bench.session.query_first(READ).await.unwrap();
    assert_eq!(count, Some(0));
}

#[tokio::test]
async fn a_write_in_a_read_only_transaction_of_the_caller_says_nothing_about_the_source() {
    let mut bench = Bench::new(2, "").await;
    assert_eq!(bench.run("START TRANSACTION READ ONLY").await, OK);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, Err(Failure::Statement));
    assert_eq!(done(bench.session.rollback().await), OK);
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
    assert_eq!(bench.history(), "/H1");
}

#[tokio::test]
async fn a_return_waits_for_the_end_of_a_transaction_begun_as_text() {
    let mut bench = Bench::new(2, "queriesBeforeRetrySource=2").await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    bench.up(&[1]).await;
    // Through `execute`, so that only the server's flag can tell.
    let begin = bench.session.execute(Statement::Plain, |conn| {
        Box::pin(pool_mysql::mysql_async::prelude::Queryable::query_drop(conn, "BEGIN"))
    });
    begin.await.unwrap();
    bench.queries(5).await;
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.run("COMMIT").await, OK);
    assert_eq!(bench.host(), Some(1));
}

#[tokio::test]
async fn a_statement_whose_answer_is_lost_is_not_sent_again() {
    let mut bench = Bench::new(2, "failOverReadOnly=false").await;
    assert_eq!(bench.connect().await, OK);
    bench.cluster.log_statements(true);
    bench.cluster.host(0).inject_matching(1, "VALUES (1)", Fault::DropAfter);
    bench.cluster.host(0).inject_matching(1, "VALUES (2)", Fault::DropBefore);
    for number in [1, 2] {
        assert_eq!(bench.run(&format!("INSERT INTO t VALUES ({number})")).await, UNKNOWN);
        bench = Bench::on(bench.cluster, "failOverReadOnly=false", |_| ()).await;
    }
    let sent = bench.cluster.statements();
    let ran = |text: &str| {
        let mine = sent.iter().filter(|entry| entry.text.contains(text));
        mine.map(|entry| entry.outcome == Outcome::Ran).collect::<Vec<_>>()
    };
    assert_eq!(ran("VALUES (1)"), [true]);
    assert!(ran("VALUES (2)").len() <= 1);
    let rows = bench.cluster.query("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(format!("{rows:?}"), "[[Integer(1)]]");
}

#[tokio::test]
async fn the_outcome_of_a_commit_whose_answer_is_lost_is_unknown() {
    for (fault, committed) in [(Fault::DropAfter, 1), (Fault::DropBefore, 0)] {
        let mut bench = Bench::new(2, "").await;
        assert_eq!(done(bench.session.begin().await), OK);
        assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
        bench.cluster.host(0).inject_matching(1, "COMMIT", fault);
        assert_eq!(done(bench.session.commit().await), UNKNOWN);
        // The transaction is over one way or the other: nothing is to be acknowledged.
        let count: Option<i64> = bench.session.query_first(READ).await.unwrap();
        assert_eq!((count, bench.host()), (Some(committed), Some(2)));
    }
}

#[tokio::test]
async fn a_call_dropped_in_the_middle_costs_the_connection_and_never_shows_its_rows() {
    for in_transaction in [false, true] {
        let mut bench = Bench::new(2, "").await;
        assert_eq!(bench.connect().await, OK);
        let before = bench.session.connection().unwrap().id();
        if in_transaction {
            assert_eq!(done(bench.session.begin().await), OK);
            assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
        }
        let cut = Duration::from_millis(50);
        let slow = bench.session.query::<i64>("SELECT SLEEP(2)");
        assert!(timeout(cut, slow).await.is_err());
        let next = bench.session.query_first::<i64>("SELECT 1").await.unwrap_err();
        let expected = if in_transaction { LOST } else { SWITCHED };
        assert_eq!(Err(next.failure), expected);
        if in_transaction {
            assert_eq!(done(bench.session.rollback().await), OK);
        }
        let one: Option<i64> = bench.session.query_first("SELECT 1").await.unwrap();
        assert_eq!(one, Some(1));
        let now = bench.session.connection().map(|conn| conn.id());
        assert_ne!(now, Some(before));
        let cluster = &bench.cluster;
        let gone = || cluster.hosts().all(|host| !host.connections().contains(&before));
        eventually("the old connection is closed", gone).await;
    }
}

#[tokio::test]
async fn a_call_dropped_during_the_walk_leaves_nothing_behind() {
    let mut bench = Bench::new(2, "maxPoolSize=1").await;
    assert_eq!(bench.connect().await, OK);
    bench.cluster.host(1).hang();
    bench.down(&[1]).await;
    let walking = bench.session.query::<i64>("SELECT 1");
    assert!(timeout(Duration::from_millis(100), walking).await.is_err());
    let status = bench.pool.status();
    let taken: usize = status.hosts.iter().map(|host| host.counts.total()).sum();
    assert_eq!(taken, 0, "{status:?}");
    bench.cluster.host(1).release();
    assert_eq!(bench.query().await, SWITCHED);
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.host(), Some(2));
}

#[tokio::test]
async fn many_switches_leak_no_connections() {
    let mut bench = Bench::new(2, "maxPoolSize=1").await;
    assert_eq!(bench.connect().await, OK);
    for round in 0..20 {
        let (from, to) = (round % 2 + 1, (round + 1) % 2 + 1);
        bench.up(&[to]).await.down(&[from]).await;
        assert_eq!(bench.query().await, UNKNOWN, "round {round}");
        assert_eq!(bench.host(), Some(to));
        let cluster = &bench.cluster;
        let open = || cluster.hosts().map(|host| host.counters().open).sum::<u64>() == 1;
        eventually("one connection is left", open).await;
    }
    bench.session.close();
    let total = |bench: &Bench| -> usize {
        bench.pool.status().hosts.iter().map(|host| host.counts.in_use).sum()
    };
    assert_eq!(total(&bench), 0);
}

#[tokio::test]
async fn a_host_of_one_connection_can_be_reopened_by_the_session_that_lost_it() {
    let mut bench = Bench::new(1, "maxPoolSize=1").await;
    assert_eq!(bench.connect().await, OK);
    let id = bench.session.connection().unwrap().id();
    assert!(bench.cluster.host(0).kill(id).await);
    assert_eq!(bench.query().await, UNKNOWN);
    assert_eq!(bench.query().await, OK);
}

#[tokio::test]
async fn closing_the_pool_ends_its_sessions() {
    let mut bench = Bench::new(2, "").await;
    assert_eq!(bench.connect().await, OK);
    let pool = bench.pool.clone();
    let closing = tokio::spawn(async move { pool.close(SOON).await });
    let refused = async {
        loop {
            match bench.query().await {
                Ok(()) => tokio::task::yield_now().await,
                refused => return refused,
            }
        }
    };
    assert_eq!(timeout(SOON, refused).await.unwrap(), Err(Failure::Closed));
    drop(bench.session);
    assert_eq!(timeout(SOON, closing).await.unwrap().unwrap().abandoned, 0);
}

/// The times of three runs. The machine may be busy in one of them: the middle one counts.
fn middle(what: &str, mut runs: [Duration; 3]) -> Duration {
    runs.sort();
    println!("{what}: {runs:.2?}");
    runs[1]
}

#[tokio::test]
async fn the_first_read_after_the_source_refuses_comes_within_one_connect_and_50_ms() {
    let mut beyond = [Duration::ZERO; 3];
    for run in &mut beyond {
        let mut bench = Bench::new(2, "").await;
        let name = bench.pool.status().hosts[1].name.to_string();
        let started = Instant::now();
        bench.pool.get_host(&name).await.unwrap().discard();
        let one_connect = started.elapsed();
        bench.session.connect().await.unwrap();
        bench.down(&[1]).await;
        let started = Instant::now();
        let first = bench.session.query_first::<i64>(READ).await.unwrap_err();
        let count: Option<i64> = bench.session.query_first(READ).await.unwrap();
        *run = started.elapsed().saturating_sub(one_connect);
        assert_eq!((first.failure, count), (Failure::OutcomeUnknown, Some(0)));
    }
    assert!(middle("source refuses, beyond one connect", beyond) < MARGIN);
}

#[tokio::test]
async fn the_first_read_while_the_source_is_silent_comes_within_the_connect_deadline_and_50_ms() {
    let mut times = [Duration::ZERO; 3];
    for run in &mut times {
        let mut bench = Bench::new(2, "").await;
        bench.cluster.host(0).hang();
        let started = Instant::now();
        let count: Option<i64> = bench.session.query_first(READ).await.unwrap();
        *run = started.elapsed();
        assert_eq!((count, bench.history().as_str()), (Some(0), r"\H1 /H2"));
    }
    assert!(middle("source silent at connect", times) < CONNECT + MARGIN);
}

#[tokio::test]
async fn a_session_whose_source_falls_silent_moves_at_the_socket_timeout() {
    let limit = Duration::from_secs(1);
    let mut times = [Duration::ZERO; 3];
    for run in &mut times {
        let mut bench = Bench::new(2, "socketTimeout=1000").await;
        assert_eq!(bench.connect().await, OK);
        bench.cluster.host(0).hang();
        let started = Instant::now();
        let first = bench.session.query_first::<i64>(READ).await.unwrap_err();
        let count: Option<i64> = bench.session.query_first(READ).await.unwrap();
        *run = started.elapsed() - limit;
        assert_eq!((first.failure, count), (Failure::OutcomeUnknown, Some(0)));
        assert_eq!(bench.history(), "/H1 /H2");
    }
    assert!(middle("source falls silent, beyond the socket timeout", times) < CONNECT + MARGIN);
}
