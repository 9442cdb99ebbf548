//! Errors and broken links before, during and after statements, on the main connection and beside it.

use pool_core::failover::{Failure, Statement};
use pool_core::route::{Pin, StatementRouter};
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::{Queries, Session, StatementError, Statements};
use pool_tests::mysql::{Cluster, Ending, Fault};

use crate::bench::{Bench, free};

async fn rows(cluster: &Cluster) -> usize {
    cluster.query("SELECT id FROM t").await.unwrap().len()
}

#[tokio::test]
async fn a_commit_beside_whose_answer_is_lost_is_unknown() {
    for by_method in [true, false] {
        let mut bench = Bench::new().await;
        let source = bench.name(0);
        bench.pool.set_weight(&source, 1).unwrap();
        bench.run(&format!("/*force_node='{source}'*/ START TRANSACTION")).await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        bench.cluster.host(0).inject_matching(1, "COMMIT", Fault::DropAfter);
        let lost = match by_method {
            true => bench.session.commit().await.unwrap_err(),
            false => bench.session.query::<i64>("COMMIT").await.unwrap_err(),
        };
        assert_eq!(lost.failure, Failure::OutcomeUnknown, "{lost}");
        assert_eq!(rows(&bench.cluster).await, 1);
        if !by_method {
            bench.session.rollback().await.unwrap();
        }
        assert!(bench.session.pins().is_empty());
        bench.run("INSERT INTO t (v) VALUES (2)").await;
        assert_eq!(bench.hosts("COMMIT"), [0], "once");
    }
}

#[tokio::test]
async fn a_write_whose_link_breaks_is_sent_once() {
    for fault in [Fault::DropBefore, Fault::DropAfter] {
        for (host, hint, text) in [
            (0, "", "INSERT INTO t (v) VALUES (1)"),
            (0, "", "SELECT v FROM t FOR UPDATE"),
            (1, "/*force_node='NAME'*/ ", "DO SLEEP(0)"),
        ] {
            let bench = Bench::new().await;
            let sql = format!("{}{text}", hint.replace("NAME", &bench.name(host)));
            let mut session = bench.fresh().retry_reads(true);
            session.connect().await.unwrap();
            bench.cluster.host(host).inject_matching(2, text, fault.clone());
            let lost = session.query_drop(&sql).await.unwrap_err();
            assert_eq!(lost.failure, Failure::OutcomeUnknown, "{sql}: {lost}");
            assert_eq!(bench.hosts(text), [host], "{sql}");
            let mut statements = Statements::new(&bench.pool).retry_reads(true);
            let lost = statements.query_drop(&sql).await.unwrap_err();
            assert!(matches!(lost, StatementError::Driver { .. }), "{sql}: {lost}");
            assert_eq!(bench.hosts(text), [host, host], "{sql}");
        }
    }
}

#[tokio::test]
async fn a_write_that_a_hint_sends_to_a_replica_is_sent_once() {
    let bench = Bench::new().await;
    let mut session = bench.fresh().retry_reads(true);
    for fault in [Fault::DropBefore, Fault::DropAfter] {
        for host in [1, 2] {
            bench.cluster.host(host).inject_matching(1, "SLEEP(0)", fault.clone());
        }
        let before = bench.log("SLEEP(0)").len();
        let lost = session.query_drop("/*FORCE_SLAVE*/ DO SLEEP(0)").await.unwrap_err();
        assert_eq!(lost.failure, Failure::OutcomeUnknown, "{lost}");
        assert_eq!(bench.log("SLEEP(0)").len(), before + 1);
        for host in [1, 2] {
            bench.cluster.host(host).clear_faults();
        }
    }
}

#[tokio::test]
async fn a_statement_that_fails_while_it_begins_something_keeps_the_session_where_it_is() {
    let error = Fault::Error { code: 1205, message: "Lock wait timeout exceeded".to_owned() };
    for (begin, end) in [
        ("SELECT GET_LOCK('a', 0)", Some("DO RELEASE_LOCK('a')")),
        // The next success says that there is no transaction.
        ("BEGIN", None),
        ("START TRANSACTION", None),
    ] {
        let mut bench = Bench::new().await;
        bench.session.connect().await.unwrap();
        assert_ne!(bench.read().await, 0);
        bench.cluster.host(0).inject_matching(1, begin, error.clone());
        let failed = bench.session.query::<i64>(begin).await.unwrap_err();
        assert_eq!(failed.failure, Failure::Statement, "{failed}");
        assert_eq!(bench.read().await, 0, "{begin}");
        if let Some(end) = end {
            bench.run(end).await;
        }
        assert_ne!(bench.read().await, 0, "{begin}");
    }
}

#[tokio::test]
async fn after_an_error_in_a_transaction_the_next_success_says_what_is_open() {
    let mut bench = Bench::new().await;
    bench.run("BEGIN").await;
    let deadlock = Fault::Error { code: 1213, message: "Deadlock found".to_owned() };
    bench.cluster.host(0).inject_matching(1, "INSERT", deadlock);
    let failed = bench.session.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap_err();
    assert_eq!(failed.failure, Failure::Statement);
    assert!(bench.session.pins().contains(Pin::Transaction));
    assert_eq!(bench.read().await, 0, "it is still open here");
    bench.session.rollback().await.unwrap();
    assert_ne!(bench.read().await, 0);
}

#[tokio::test]
async fn links_that_break_between_statements_are_told_and_lose_nothing_else() {
    for ending in [Ending::Fin, Ending::Reset] {
        let mut bench = Bench::new().await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        // The main connection breaks: reads go on.
        bench.cluster.host(0).kill_connections(ending).await;
        assert_ne!(bench.read().await, 0);
        let lost = bench.session.query_drop("INSERT INTO t (v) VALUES (2)").await.unwrap_err();
        assert!(matches!(lost.failure, Failure::OutcomeUnknown | Failure::Switched), "{lost}");

        // A read beside breaks: the main connection goes on.
        let mut bench = Bench::new().await;
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        assert_ne!(bench.read().await, 0);
        for host in [1, 2] {
            bench.cluster.host(host).kill_connections(ending).await;
        }
        bench.run("INSERT INTO t (v) VALUES (2)").await;
        assert_eq!(bench.log("VALUES (1)")[0].connection, bench.log("VALUES (2)")[0].connection);

        // In a read-only transaction everything is refused until it is acknowledged.
        bench.session.begin_read_only().await.unwrap();
        let host = bench.hosts("START TRANSACTION READ ONLY")[0];
        bench.cluster.host(host).kill_connections(ending).await;
        let lost = bench.session.commit().await.unwrap_err();
        assert_eq!(lost.failure, Failure::TransactionLost, "{lost}");
        let lost = bench.session.query_drop("INSERT INTO t (v) VALUES (3)").await.unwrap_err();
        assert_eq!(lost.failure, Failure::TransactionLost, "{lost}");
        bench.session.rollback().await.unwrap();
        bench.run("INSERT INTO t (v) VALUES (3)").await;
        assert_eq!(rows(&bench.cluster).await, 3);
    }
}

#[tokio::test]
async fn a_read_beside_outlives_the_failover_of_the_main_connection() {
    let mut bench = Bench::new().await;
    bench.run("INSERT INTO t (v) VALUES (7)").await;
    bench.session.begin_read_only().await.unwrap();
    let host = bench.hosts("START TRANSACTION READ ONLY")[0];
    bench.cluster.host(0).stop().await;
    for _ in 0..3 {
        assert_eq!(bench.read().await, host);
    }
    bench.session.commit().await.unwrap();
    let lost = bench.session.query_drop("INSERT INTO t (v) VALUES (8)").await.unwrap_err();
    assert!(matches!(lost.failure, Failure::OutcomeUnknown | Failure::Switched), "{lost}");
}

#[tokio::test]
async fn with_automatic_reconnection_the_same_things_bind() {
    let keys = "autoReconnect=true";
    let mut bench = Bench::with(3, keys, StatementRouter::default()).await;
    let options = pool_mysql::MySqlOptions::from_url(&bench.cluster.url("app")).unwrap();
    let mut options = options.session_options().unwrap();
    options.auto_reconnect = true;
    options.route_statements = true;
    bench.session = Session::new(&bench.pool, options);
    bench.run("BEGIN").await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.cluster.host(0).kill_connections(Ending::Reset).await;
    let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(lost.failure, Failure::TransactionLost, "{lost}");
    let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(lost.failure, Failure::TransactionLost, "{lost}");
    bench.session.rollback().await.unwrap();
    assert_ne!(bench.read().await, 0);
    assert_eq!(rows(&bench.cluster).await, 0);
}

#[tokio::test]
async fn autocommit_that_was_switched_off_beside_can_be_switched_on_again() {
    let mut bench = Bench::new().await;
    bench.session.begin_read_only().await.unwrap();
    let _: Vec<i64> = bench.session.query("SET autocommit = 0").await.unwrap();
    bench.session.commit().await.unwrap();
    assert!(bench.session.pins().contains(Pin::AutocommitOff));
    bench.run("SET autocommit = 1").await;
    assert!(bench.session.pins().is_empty());
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert_eq!(bench.hosts("INSERT"), [0]);
}

#[tokio::test]
async fn a_text_that_switches_autocommit_follows_the_session_as_the_method_does() {
    let mut bench = Bench::with(2, "", StatementRouter::default()).await;
    let _: Vec<i64> = bench.session.query("SET autocommit = 0").await.unwrap();
    bench.cluster.host(0).kill_connections(Ending::Reset).await;
    let _ = bench.session.query_drop("DO 1").await.unwrap_err();
    assert_eq!(bench.number("SELECT @@autocommit").await, 0, "also on its next connection");
    let _: Vec<i64> = bench.session.query("SET autocommit = 1").await.unwrap();
    assert!(bench.session.pins().is_empty());
}

#[tokio::test]
async fn a_write_that_stands_for_itself_is_committed_without_autocommit_too() {
    let off = |options: pool_mysql::MySqlOptions| options.setup("SET autocommit = 0");
    let bench = Bench::set_up(2, "", StatementRouter::default(), off).await;
    bench.pool.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
    bench.pool.exec_drop("INSERT INTO t (v) VALUES (?)", (2,)).await.unwrap();
    bench.pool.execute("INSERT INTO t (v) VALUES (?)", (3,)).await.unwrap();
    assert_eq!(rows(&bench.cluster).await, 3);
    let mut lease = bench.pool.get().await.unwrap();
    let autocommit: Option<i64> = lease.query_first("SELECT @@autocommit").await.unwrap();
    assert_eq!(autocommit, Some(0), "others find it as it was set up");
}

#[tokio::test]
async fn work_that_is_given_up_before_it_begins_leaves_no_lock_to_others() {
    let mut bench = Bench::new().await;
    let name = bench.name(2);
    bench.run(&format!("/*force_node='{name}'*/ DO GET_LOCK('a', 0)")).await;
    let session: &mut pool_core::session::Session<_> = &mut bench.session;
    let idles = session.run("SELECT 1", Statement::Plain, |_conn: &mut pool_mysql::Conn, _text| {
        Box::pin(std::future::pending::<Result<(), _>>())
    });
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(10), idles).await;
    assert!(given_up.is_err());
    let mut other = bench.pool.get_host(&name).await.unwrap();
    free(&mut other, 'a', "the lock").await;
    let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(lost.failure, Failure::Switched, "{lost}");
}
