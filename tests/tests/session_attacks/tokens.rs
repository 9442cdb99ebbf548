//! Reading one's own writes, whatever way they were written.

use std::time::Duration;

use pool_core::failover::Failure;
use pool_core::route::{Pin, StatementRouter};
use pool_mysql::{Consistency, Session, Statements};
use pool_tests::mysql::{Fault, LoggedStatement, Outcome};
use tokio::time::Instant;

use crate::bench::{Bench, until, within};

const PATIENCE: Consistency = Consistency::Token(Duration::from_millis(10));
const POSITION: &str = "gtid_executed";

/// A source and a replica that is an hour behind; a session that wants to see its own writes.
async fn bench() -> Bench {
    let mut bench = Bench::with(2, "", StatementRouter::default()).await;
    bench.cluster.host(1).set_lag(Some(Duration::from_secs(3600))).await.unwrap();
    bench.session = bench.fresh().consistency(PATIENCE);
    bench
}

async fn count(session: &mut Session) -> i64 {
    session.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap()
}

#[tokio::test]
async fn a_rollback_does_not_forget_what_was_committed_before_it() {
    for (commits, undoes) in [("BEGIN", "ROLLBACK"), ("COMMIT AND CHAIN", "ROLLBACK")] {
        let mut bench = bench().await;
        bench.run("BEGIN").await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        bench.run(commits).await;
        bench.run(undoes).await;
        assert_eq!(count(&mut bench.session).await, 1, "{commits}");
    }
}

#[tokio::test]
async fn writes_on_a_named_host_are_seen_once_they_are_committed() {
    for by_method in [true, false] {
        let mut bench = bench().await;
        let source = bench.name(0);
        bench.pool.set_weight(&source, 1).unwrap();
        let named = format!("/*force_node='{source}'*/ START TRANSACTION");
        bench.run(&named).await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        if by_method {
            bench.session.commit().await.unwrap();
        } else {
            let _: Vec<i64> = bench.session.query("COMMIT").await.unwrap();
        }
        bench.pool.set_weight(&source, 0).unwrap();
        assert_eq!(count(&mut bench.session).await, 1, "{by_method}");
    }
}

#[tokio::test]
async fn a_statement_on_a_replica_does_not_take_the_position_back() {
    let bench = bench().await;
    let mut own = Statements::new(&bench.pool).consistency(PATIENCE);
    own.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
    let token = own.token().unwrap().clone();
    let replica = bench.name(1);
    own.query_drop(&format!("/*force_node='{replica}'*/ KILL QUERY 1000000")).await.ok();
    own.query_drop(&format!("/*force_node='{replica}'*/ DO 1")).await.unwrap();
    assert_eq!(own.token(), Some(&token));
    let seen: Option<i64> = own.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(seen, Some(1));
}

#[tokio::test]
async fn a_main_connection_on_a_replica_does_not_take_the_position_back() {
    let mut bench = bench().await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    let token = bench.session.token().unwrap().clone();
    bench.cluster.host(0).stop().await;
    let _ = bench.session.query_drop("DO 1").await.unwrap_err();
    assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(1).port());
    bench.run("DO 1").await;
    assert_eq!(bench.session.token(), Some(&token));
}

#[tokio::test]
async fn a_write_whose_position_cannot_be_had_has_succeeded_and_is_seen() {
    let code = 1227;
    let message = "Access denied; you need SUPER".to_owned();
    for (fault, lost) in [
        (Fault::Error { code, message }, false),
        (Fault::DropBefore, true),
        (Fault::DropAfter, true),
        (Fault::Hang, true),
    ] {
        let mut bench = bench().await;
        bench.cluster.host(0).inject_matching(1, POSITION, fault.clone());
        let insert = bench.session.query_drop("INSERT INTO t (v) VALUES (1)");
        within("the insert", insert).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        let seen = bench.session.query_first::<i64>("SELECT COUNT(*) FROM t").await;
        if lost {
            // The read could not run: nothing is unknown about it.
            assert_eq!(seen.unwrap_err().failure, Failure::Switched, "{fault:?}");
            assert_eq!(count(&mut bench.session).await, 1, "{fault:?}");
        } else {
            assert_eq!(seen.unwrap(), Some(1));
        }
        assert_eq!(bench.hosts("COUNT(*) FROM t").last(), Some(&0));
    }
}

#[tokio::test]
async fn a_write_beside_whose_position_cannot_be_had_ends_what_was_bound_there() {
    let mut bench = bench().await;
    let source = bench.name(0);
    bench.pool.set_weight(&source, 1).unwrap();
    bench.run(&format!("/*force_node='{source}'*/ DO GET_LOCK('a', 0)")).await;
    bench.cluster.host(0).inject_matching(1, POSITION, Fault::DropBefore);
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert!(bench.session.pins().contains(Pin::NamedLock));
    let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(lost.failure, Failure::Switched, "the lock is gone, and that is told: {lost}");
    bench.pool.set_weight(&source, 0).unwrap();
    assert_eq!(count(&mut bench.session).await, 1);
}

#[tokio::test]
async fn a_write_of_unknown_outcome_counts_as_done() {
    let mut bench = bench().await;
    bench.run("BEGIN").await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.cluster.host(0).inject_matching(1, "COMMIT", Fault::DropAfter);
    let unknown = bench.session.commit().await.unwrap_err();
    assert_eq!(unknown.failure, Failure::OutcomeUnknown, "{unknown}");
    assert_eq!(count(&mut bench.session).await, 1);
}

#[tokio::test]
async fn what_is_written_past_the_router_is_seen() {
    use pool_core::failover::Statement;
    use pool_mysql::mysql_async::prelude::Queryable;
    let mut bench = bench().await;
    let insert = "INSERT INTO t (v) VALUES (1)";
    bench
        .session
        .execute(Statement::Plain, |conn| Box::pin(conn.query_drop(insert)))
        .await
        .unwrap();
    assert_eq!(count(&mut bench.session).await, 1);
}

#[tokio::test]
async fn a_write_that_fell_back_to_the_source_is_seen() {
    let bench = bench().await;
    bench.pool.set_weight(&bench.name(1), 0).unwrap();
    let mut own = Statements::new(&bench.pool).consistency(PATIENCE);
    own.query_drop("/*FORCE_SLAVE*/ INSERT INTO t (v) VALUES (1)").await.unwrap();
    bench.pool.set_weight(&bench.name(1), 1).unwrap();
    let seen: Option<i64> = own.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(seen, Some(1));
}

#[tokio::test]
async fn no_patience_is_no_waiting() {
    let mut bench = bench().await;
    bench.session = bench.fresh().consistency(Consistency::Token(Duration::ZERO));
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    let started = Instant::now();
    assert_eq!(count(&mut bench.session).await, 1);
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    assert_eq!(bench.pool.status().hosts[1].counts.in_use, 0);
}

#[tokio::test]
async fn a_replica_that_does_not_answer_is_left_after_a_bound_and_its_connection_closed() {
    let mut bench = bench().await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.cluster.host(1).inject_matching(1, "WAIT_FOR_EXECUTED", Fault::Hang);
    assert_eq!(within("the read", count(&mut bench.session)).await, 1);
    let hung = bench.log("WAIT_FOR_EXECUTED")[0].connection;
    assert_eq!(bench.pool.status().hosts[1].counts.in_use, 0);
    let uses = |bench: &Bench| {
        let log = bench.cluster.statements();
        log.iter().filter(|line| line.connection == hung).count()
    };
    let before = uses(&bench);
    for _ in 0..3 {
        assert_eq!(count(&mut bench.session).await, 1);
    }
    assert_eq!(uses(&bench), before, "it is not used again");
}

#[tokio::test]
async fn a_token_counts_whatever_else_was_set() {
    let mut bench = bench().await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    let token = bench.session.token().unwrap().clone();
    let mut next = bench.fresh().at_least(token.clone());
    assert_eq!(count(&mut next).await, 1);
    let mut next = Statements::new(&bench.pool).at_least(token);
    let seen: Option<i64> = next.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(seen, Some(1));
}

#[tokio::test]
async fn the_source_is_not_asked_for_what_was_written_before_the_return_to_it() {
    // The second host takes writes, the first still believes that it is the source.
    let keys = "queriesBeforeRetrySource=2&secondsBeforeRetrySource=0&failOverReadOnly=false";
    let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
    bench.session = bench.fresh().consistency(PATIENCE);
    bench.session.connect().await.unwrap();
    bench.cluster.host(0).stop().await;
    let _ = bench.session.query_drop("DO 1").await.unwrap_err();
    bench.cluster.host(1).set_read_only(false);
    bench.cluster.host(0).start().await.unwrap();
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.run("INSERT INTO t (v) VALUES (2)").await;
    assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(0).port(), "it is back");
    let asked = bench.log(POSITION);
    assert!(asked.iter().all(|line| line.host != 0), "{asked:?}");
}

#[tokio::test]
async fn a_write_that_was_given_up_counts_as_done() {
    let mut bench = bench().await;
    bench.session.connect().await.unwrap();
    bench.cluster.host(0).set_statement_delay(Duration::from_millis(300));
    let (cluster, session) = (&bench.cluster, &mut bench.session);
    let is_there = || cluster.statements().iter().any(|line| line.text.contains("INSERT"));
    tokio::select! {
        biased;
        () = until("the insert arrives", is_there) => {}
        _ = session.query_drop("INSERT INTO t (v) VALUES (1)") => panic!("it takes longer"),
    }
    let is_done = |line: &LoggedStatement| line.outcome == Outcome::Ran;
    until("it is done", || bench.log("INSERT").iter().any(is_done)).await;
    bench.cluster.host(0).set_statement_delay(Duration::ZERO);
    let mut seen = bench.session.query_first::<i64>("SELECT COUNT(*) FROM t").await;
    if let Err(lost) = &seen {
        assert_eq!(lost.failure, Failure::Switched, "{lost}");
        seen = bench.session.query_first("SELECT COUNT(*) FROM t").await;
    }
    assert_eq!(seen.unwrap(), Some(1));
}

#[tokio::test]
async fn a_statement_whose_link_broke_counts_as_done() {
    let bench = bench().await;
    let mut own = Statements::new(&bench.pool).consistency(PATIENCE);
    bench.cluster.host(0).inject_matching(1, "INSERT", Fault::DropAfter);
    own.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap_err();
    let seen: Option<i64> = own.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(seen, Some(1));
}
