//! Hints that ask for what cannot be had.

use pool_core::failover::Failure;
use pool_core::route::hint::{AwsHints, MaxScaleHints};
use pool_core::route::{Refusal, StatementRouter};
use pool_mysql::{StatementError, Statements};

use crate::bench::Bench;

#[tokio::test]
async fn a_write_that_a_hint_sends_to_a_replica_is_refused_there_and_nothing_else_happens() {
    let keys = "failOverReadOnly=false";
    let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
    let name = bench.name(1);
    // Connections of others to that replica.
    let held = bench.pool.get_host(&name).await.unwrap();
    drop(bench.pool.get_host(&name).await.unwrap());
    let before = bench.pool.status().hosts[1].clone();
    for n in 0..3 {
        let sql = format!("/*FORCE_SLAVE*/ INSERT INTO t (v) VALUES ({n})");
        let refused = bench.session.query_drop(&sql).await.unwrap_err();
        assert_eq!(refused.failure, Failure::NotWritable, "{refused}");
        let refused = Statements::new(&bench.pool).query_drop(&sql).await.unwrap_err();
        assert!(matches!(refused, StatementError::NotWritable { .. }), "{refused}");
    }
    assert_eq!(bench.hosts("INSERT"), [1; 6], "no second try on the source");
    let after = bench.pool.status().hosts[1].clone();
    assert_eq!(after.generation, before.generation, "the connections of others are good");
    assert_eq!((after.role, after.blocked_for), (before.role, None));
    drop(held);
    assert_eq!(bench.read().await, 1);
    bench.run("INSERT INTO t (v) VALUES (9)").await;
    assert_eq!(bench.hosts("VALUES (9)"), [0]);
}

#[tokio::test]
async fn a_named_host_of_weight_0_is_refused_wherever_the_session_is() {
    let mut bench = Bench::new().await;
    let source = bench.name(0);
    let named = format!("/*force_node='{source}'*/ SELECT 1 AS named");
    for connected in [false, true] {
        if connected {
            bench.session.connect().await.unwrap();
        }
        let refused = bench.session.query_drop(&named).await.unwrap_err();
        assert_eq!(refused.failure, Failure::NoReader, "connected: {connected}: {refused}");
    }
    bench.pool.set_weight(&source, 1).unwrap();
    bench.run(&named).await;
    assert_eq!(bench.hosts("named"), [0]);
    bench.pool.set_weight(&source, 0).unwrap();
    let unknown = bench.session.query_drop("/*force_node='nobody:1'*/ SELECT 1").await.unwrap_err();
    assert_eq!(unknown.failure, Failure::NoReader, "{unknown}");
    assert_ne!(bench.read().await, 0);
}

#[tokio::test]
async fn a_hint_on_a_text_that_is_a_method_counts_as_a_hint() {
    let mut bench = Bench::new().await;
    for sql in ["/*FORCE_SLAVE*/ SET autocommit = 0", "/*FORCE_MASTER*/ SET autocommit = 1"] {
        let refused = bench.session.query_drop(sql).await.unwrap_err();
        assert_eq!(refused.failure, Failure::Refused(Refusal::HintOnSet), "{sql}");
    }
    assert!(bench.session.state().autocommit());
    // A comment that is no hint.
    bench.run("/* why */ SET autocommit = 0").await;
    assert!(!bench.session.state().autocommit());
}

#[tokio::test]
async fn a_hint_to_stay_stays_where_the_last_statement_ran() {
    let aws = StatementRouter::default().with_hints(AwsHints::new());
    let maxscale = StatementRouter::default().with_hints(MaxScaleHints::new());
    for (router, hint) in [(aws, "/*@keep*/"), (maxscale, "/* maxscale route to last */")] {
        let mut bench = Bench::with(3, "", router).await;
        let stay = format!("{hint} SELECT COUNT(*) AS stayed FROM t");
        bench.run(&stay).await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        bench.run(&stay).await;
        let read = bench.read().await;
        bench.run(&stay).await;
        bench.run(&stay).await;
        assert_eq!(bench.hosts("stayed"), [0, 0, read, read]);
        let last = bench.log("stayed").last().unwrap().connection;
        assert_eq!(bench.log("marked").last().unwrap().connection, last);
        // What begins there binds there.
        bench.run(&format!("{hint} DO GET_LOCK('a', 0)")).await;
        assert_eq!(bench.read().await, read);
        bench.run("DO RELEASE_LOCK('a')").await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        assert_eq!(bench.hosts("INSERT"), [0, 0]);
    }
}
