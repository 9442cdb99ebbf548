//! What binds a session, where, and that it ends with the session.

use pool_core::failover::{Failure, Statement};
use pool_core::route::hint::VitessHints;
use pool_core::route::{Pin, StatementRouter};
use pool_mysql::mysql_async::prelude::Queryable;
use pool_tests::mysql::Ending;

use crate::bench::{Bench, free, within};

#[tokio::test]
async fn what_a_session_holds_beside_its_main_connection_ends_with_the_session() {
    for closes in [false, true] {
        let mut bench = Bench::new().await;
        let name = bench.name(2);
        bench.run(&format!("/*force_node='{name}'*/ DO GET_LOCK('a', 0)")).await;
        assert!(bench.session.pins().contains(Pin::NamedLock));
        let owner = bench.log("GET_LOCK")[0].connection;
        if closes {
            bench.session.close();
        } else {
            bench.session = bench.fresh();
        }
        assert_eq!(bench.in_use(), 0);
        let gone = async {
            while bench.cluster.host(2).connections().contains(&owner) {
                tokio::task::yield_now().await;
            }
        };
        within("the connection with the lock is closed", gone).await;
        let mut other = bench.pool.get_host(&name).await.unwrap();
        free(&mut other, 'a', "the lock").await;
    }
}

#[tokio::test]
async fn a_write_that_asks_for_a_value_of_the_read_before_it_goes_to_the_source() {
    let mut bench = Bench::new().await;
    for write in [
        "INSERT INTO t (v) VALUES (ROW_COUNT())",
        "UPDATE t SET v = FOUND_ROWS()",
        "SELECT FOUND_ROWS(); INSERT INTO t (v) VALUES (1)",
        "DELETE FROM t WHERE v = ROW_COUNT()",
    ] {
        assert_ne!(bench.read().await, 0);
        bench.run(write).await;
        let last = write.rsplit("; ").next().unwrap();
        assert_eq!(bench.hosts(last), [0], "{write}");
    }
}

#[tokio::test]
async fn what_is_done_past_the_router_binds_as_well() {
    let mut bench = Bench::new().await;
    // Left open by a read: its connection is still held.
    assert_ne!(bench.read().await, 0);
    bench
        .session
        .execute(Statement::EndsTransaction, |conn| Box::pin(conn.query_drop("BEGIN")))
        .await
        .unwrap();
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert_eq!(bench.hosts("INSERT"), [0]);
    assert_eq!(bench.read().await, 0);
    bench.run("COMMIT").await;

    assert_ne!(bench.read().await, 0);
    bench.session.note_database("app");
    bench.run("INSERT INTO t (v) VALUES (2)").await;
    assert_eq!(bench.hosts("INSERT"), [0, 0]);
}

#[tokio::test]
async fn a_session_that_is_moved_is_bound_where_it_moved_to() {
    let router = StatementRouter::default().with_hints(VitessHints::new());
    let mut bench = Bench::with(3, "", router).await;
    bench.run("USE app@primary").await;
    assert_eq!(bench.read().await, 0);
    bench.run("USE app@replica").await;
    let moved = bench.log("USE app").last().unwrap().clone();
    assert_ne!(moved.host, 0);
    for _ in 0..3 {
        assert_eq!(bench.read().await, moved.host);
        assert_eq!(bench.log("marked").last().unwrap().connection, moved.connection);
    }
    bench.run("USE app@primary").await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert_eq!(bench.hosts("INSERT"), [0]);
    assert_eq!(bench.read().await, 0);
    // By method as well.
    bench.session.set_database("app").await.unwrap();
    bench.run("USE app@rdonly").await;
    assert_ne!(bench.read().await, 0);
}

#[tokio::test]
async fn a_transaction_begun_after_a_read_only_one_is_on_the_source() {
    let mut bench = Bench::new().await;
    bench.session.begin_read_only().await.unwrap();
    assert_ne!(bench.read().await, 0);
    bench.session.begin().await.unwrap();
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.session.commit().await.unwrap();
    assert_eq!(bench.hosts("INSERT"), [0]);
    assert_ne!(bench.read().await, 0);
}

#[tokio::test]
async fn reads_on_connections_without_autocommit_bind_nothing() {
    let off = |options: pool_mysql::MySqlOptions| options.setup("SET autocommit = 0");
    let mut bench = Bench::set_up(3, "", StatementRouter::default(), off).await;
    for n in 0..4 {
        assert_ne!(bench.read().await, 0);
        assert!(bench.session.pins().is_empty(), "{:?}", bench.session.pins());
        bench.run(&format!("INSERT INTO t (v) VALUES ({n})")).await;
    }
    assert_eq!(bench.hosts("INSERT"), [0; 4]);
    bench.session = bench.fresh();
    assert_eq!(bench.number("/*FORCE_MASTER*/ SELECT COUNT(*) FROM t").await, 4);
}

#[tokio::test]
async fn a_bound_session_does_not_return_to_the_source() {
    let keys = "queriesBeforeRetrySource=1&secondsBeforeRetrySource=0&failOverReadOnly=false";
    let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
    bench.session.connect().await.unwrap();
    bench.cluster.host(0).stop().await;
    let lost = bench.session.query_drop("DO 1").await.unwrap_err();
    assert!(matches!(lost.failure, Failure::OutcomeUnknown | Failure::Switched), "{lost}");
    assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(1).port());
    bench.run("SET @a = 7").await;
    bench.cluster.host(0).start().await.unwrap();
    for _ in 0..4 {
        assert_eq!(bench.number("SELECT @a").await, 7, "the variable is still there");
    }
}

#[tokio::test]
async fn what_was_bound_beside_and_is_lost_is_told_once() {
    let mut bench = Bench::new().await;
    let name = bench.name(2);
    bench.run(&format!("/*force_node='{name}'*/ DO GET_LOCK('a', 0)")).await;
    bench.cluster.host(2).kill_connections(Ending::Reset).await;
    let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(lost.failure, Failure::Switched, "{lost}");
    assert!(bench.session.pins().is_empty());
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert_eq!(bench.hosts("INSERT"), [0]);
}
