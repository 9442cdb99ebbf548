//! The embedded MySQL cluster, seen by a plain client.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use mysql_async::consts::StatusFlags;
use mysql_async::prelude::*;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Row};
use pool_tests::mysql::{AuthPlugin, Cluster, Ending, Fault, Outcome};
use pool_tests::sql::Value;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(10);

fn opts(cluster: &Cluster, host: usize) -> Opts {
    let opts = Opts::from_url(&cluster.url_of(host, "app")).unwrap();
    OptsBuilder::from_opts(opts)
        .prefer_socket(false)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(1000))
        .into()
}

async fn connect(cluster: &Cluster, host: usize) -> Conn {
    timeout(LONG, Conn::new(opts(cluster, host))).await.unwrap().unwrap()
}

async fn cluster_with_table(hosts: usize) -> Cluster {
    let cluster = Cluster::start(hosts).await.unwrap();
    cluster
        .execute("CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20)) ENGINE=InnoDB")
        .await
        .unwrap();
    cluster
}

fn code(error: &Error) -> u16 {
    match error {
        Error::Server(error) => error.code,
        other => panic!("not an error of the server: {other:?}"),
    }
}

fn status(conn: &Conn) -> StatusFlags {
    conn.last_ok_packet().unwrap().status_flags()
}

async fn count(cluster: &Cluster) -> i64 {
    match cluster.query("SELECT COUNT(*) FROM t").await.unwrap()[0][0] {
        Value::Integer(count) => count,
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn both_plugins_accept_the_password_and_nothing_else() {
    for plugin in [AuthPlugin::CachingSha2, AuthPlugin::Native] {
        for password in ["pw", ""] {
            let builder = Cluster::builder(1).auth_plugin(plugin).user("me").password(password);
            let cluster = builder.start().await.unwrap();
            let mut conn = connect(&cluster, 0).await;
            conn.ping().await.unwrap();
            conn.change_user(Default::default()).await.unwrap();
            let user: String = conn.query_first("SELECT CURRENT_USER()").await.unwrap().unwrap();
            assert_eq!(user, "me@localhost");
            conn.disconnect().await.unwrap();
            let wrong = OptsBuilder::from_opts(opts(&cluster, 0)).pass(Some("wrong"));
            assert_eq!(code(&Conn::new(wrong).await.unwrap_err()), 1045, "{plugin:?} {password}");
            let missing = OptsBuilder::from_opts(opts(&cluster, 0)).db_name(Some("missing"));
            assert_eq!(code(&Conn::new(missing).await.unwrap_err()), 1049);
            let counters = cluster.host(0).counters();
            assert_eq!((counters.logins, counters.rejected_logins, counters.pings), (1, 2, 1));
        }
    }
}

#[tokio::test]
async fn a_driver_with_all_defaults_connects() {
    let cluster = Cluster::start(1).await.unwrap();
    let conn = timeout(LONG, Conn::from_url(cluster.url_of(0, "app"))).await.unwrap().unwrap();
    assert_eq!(conn.server_version().0, 8);
}

#[tokio::test]
async fn text_and_prepared_results_agree() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    conn.query_drop("CREATE TABLE v (i BIGINT, d DOUBLE, s VARCHAR(9), b BLOB, w DATETIME, n INT)")
        .await
        .unwrap();
    conn.exec_drop(
        "INSERT INTO v VALUES (?, ?, ?, ?, ?, ?)",
        (-7i64, 2.5f64, "it's", vec![0u8, 255], "2024-02-29 12:13:14", None::<i32>),
    )
    .await
    .unwrap();
    type Found = (i64, f64, String, Vec<u8>, mysql_async::Value, Option<i32>);
    let text: Found = conn.query_first("SELECT * FROM v").await.unwrap().unwrap();
    let binary: Found =
        conn.exec_first("SELECT * FROM v WHERE i = ?", (-7,)).await.unwrap().unwrap();
    assert_eq!(
        (text.0, text.1, &text.2, &text.3, text.5),
        (-7, 2.5, &"it's".into(), &vec![0, 255], None)
    );
    assert_eq!(text.4, mysql_async::Value::Bytes(b"2024-02-29 12:13:14".to_vec()));
    assert_eq!((binary.0, binary.1, &binary.2, &binary.3), (-7, 2.5, &text.2, &text.3));
    assert_eq!(binary.4, mysql_async::Value::Date(2024, 2, 29, 12, 13, 14, 0));
}

#[tokio::test]
async fn columns_have_mysqls_names() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut conn = connect(&cluster, 0).await;
    let row: Row = conn.query_first("SELECT @@read_only, 1+1, 2 AS two").await.unwrap().unwrap();
    let names: Vec<_> = row.columns_ref().iter().map(|column| column.name_str()).collect();
    assert_eq!(names, ["@@read_only", "1+1", "two"]);
    assert_eq!(mysql_async::from_row::<(bool, i32, i32)>(row), (false, 2, 2));
}

#[tokio::test]
async fn several_statements_give_several_results() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    let mut result = conn
        .query_iter(
            "INSERT INTO t (a) VALUES ('x;y'), ('z'); SELECT a FROM t ORDER BY id; SELECT 5",
        )
        .await
        .unwrap();
    assert_eq!((result.affected_rows(), result.last_insert_id()), (2, Some(1)));
    result.collect::<Row>().await.unwrap();
    assert_eq!(result.collect::<String>().await.unwrap(), ["x;y", "z"]);
    assert_eq!(result.collect::<i64>().await.unwrap(), [5]);
    assert!(result.is_empty());
    drop(result);
    // An error ends the rest.
    let mut result = conn.query_iter("SELECT 1; SELECT * FROM missing; SELECT 2").await.unwrap();
    result.collect::<i64>().await.unwrap();
    assert_eq!(code(&result.collect::<i64>().await.unwrap_err()), 1146);
    drop(result);
    conn.ping().await.unwrap();
    assert_eq!(cluster.host(0).counters().statements, 5);
}

#[tokio::test]
async fn status_flags_follow_transactions() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    let (auto, trans, ro) = (
        StatusFlags::SERVER_STATUS_AUTOCOMMIT,
        StatusFlags::SERVER_STATUS_IN_TRANS,
        StatusFlags::SERVER_STATUS_IN_TRANS_READONLY,
    );
    for (sql, expected) in [
        ("SELECT 1", auto),
        ("BEGIN", auto | trans),
        ("SELECT 1", auto | trans),
        ("INSERT INTO t (a) VALUES ('x')", auto | trans),
        ("COMMIT", auto),
        ("START TRANSACTION READ ONLY", auto | trans | ro),
        ("ROLLBACK", auto),
        ("SET SESSION TRANSACTION READ ONLY", auto),
        ("BEGIN", auto | trans | ro),
        ("COMMIT AND CHAIN", auto | trans | ro),
        ("COMMIT", auto),
        ("START TRANSACTION READ WRITE", auto | trans),
        ("COMMIT", auto),
        ("SET SESSION TRANSACTION READ WRITE", auto),
        ("SET TRANSACTION READ ONLY", auto),
        ("BEGIN", auto | trans | ro),
        ("COMMIT", auto),
        ("SET autocommit=0", StatusFlags::empty()),
        ("SELECT 1", StatusFlags::empty()),
        ("SELECT * FROM t", trans),
        ("COMMIT", StatusFlags::empty()),
        ("UPDATE t SET a = 'y'", trans),
        ("SET autocommit = 1", auto),
    ] {
        conn.query_drop(sql).await.unwrap();
        assert_eq!(status(&conn), expected, "after {sql}");
    }
    conn.query_drop("BEGIN").await.unwrap();
    conn.exec_drop("SELECT ?", (1,)).await.unwrap();
    assert_eq!(status(&conn), auto | trans);
    assert!(conn.reset().await.unwrap());
    assert_eq!(status(&conn), auto);
    assert_eq!(cluster.host(0).counters().resets, 1);
}

#[tokio::test]
async fn transactions_are_isolated_and_roll_back() {
    let cluster = cluster_with_table(2).await;
    let mut writer = connect(&cluster, 0).await;
    let mut reader = connect(&cluster, 1).await;
    writer.query_drop("BEGIN").await.unwrap();
    writer.query_drop("INSERT INTO t (a) VALUES ('x')").await.unwrap();
    let seen: i64 = reader.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap();
    assert_eq!(seen, 0);
    writer.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(count(&cluster).await, 0);
    reader.query_drop("BEGIN").await.unwrap();
    let before: i64 = reader.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap();
    writer.query_drop("INSERT INTO t (a) VALUES ('y')").await.unwrap();
    let during: i64 = reader.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap();
    reader.query_drop("COMMIT").await.unwrap();
    let after: i64 = reader.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap();
    assert_eq!((before, during, after), (0, 0, 1));
}

#[tokio::test]
async fn savepoints_undo_what_followed_them() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    for sql in [
        "BEGIN",
        "INSERT INTO t (a) VALUES ('kept')",
        "SAVEPOINT one",
        "INSERT INTO t (a) VALUES ('lost')",
        "ROLLBACK TO SAVEPOINT one",
        "COMMIT",
    ] {
        conn.query_drop(sql).await.unwrap();
    }
    let rows = cluster.query("SELECT a FROM t").await.unwrap();
    assert_eq!(rows, [[Value::Text("kept".to_owned())]]);
}

#[tokio::test]
async fn a_second_writer_waits_and_then_gets_1205() {
    let builder = Cluster::builder(1).lock_wait_timeout(Duration::from_millis(50));
    let cluster = builder.start().await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let mut first = connect(&cluster, 0).await;
    let mut second = connect(&cluster, 0).await;
    first.query_drop("BEGIN").await.unwrap();
    first.query_drop("INSERT INTO t VALUES (1)").await.unwrap();
    let error = second.query_drop("INSERT INTO t VALUES (2)").await.unwrap_err();
    assert_eq!(code(&error), 1205);
    // A client that vanishes leaves no lock.
    drop(first);
    second.query_drop("SET innodb_lock_wait_timeout = 10").await.unwrap();
    second.query_drop("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(count(&cluster).await, 1);
}

#[tokio::test]
async fn a_transaction_may_read_before_it_writes() {
    let cluster = cluster_with_table(1).await;
    cluster.execute("INSERT INTO t VALUES (1, '0')").await.unwrap();
    let add = |mut conn: Conn| async move {
        for _ in 0..10 {
            conn.query_drop("BEGIN").await.unwrap();
            conn.query_drop("SELECT a FROM t WHERE id = 1 FOR UPDATE").await.unwrap();
            conn.query_drop("UPDATE t SET a = a + 1 WHERE id = 1").await.unwrap();
            conn.query_drop("COMMIT").await.unwrap();
        }
    };
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(tokio::spawn(add(connect(&cluster, 0).await)));
    }
    for task in tasks {
        timeout(LONG, task).await.unwrap().unwrap();
    }
    let rows = cluster.query("SELECT CAST(a AS SIGNED) FROM t").await.unwrap();
    assert_eq!(rows, [[Value::Integer(40)]]);
}

#[tokio::test]
async fn errors_have_mysqls_numbers() {
    let cluster = cluster_with_table(2).await;
    let mut conn = connect(&cluster, 0).await;
    conn.query_drop("CREATE TABLE u (a INT PRIMARY KEY, b INT NOT NULL)").await.unwrap();
    conn.query_drop("INSERT INTO u VALUES (1, 1)").await.unwrap();
    for (sql, expected, state) in [
        ("SELECT * FROM missing", 1146, "42S02"),
        ("SELEC 1", 1064, "42000"),
        ("SELECT FROM", 1064, "42000"),
        ("INSERT INTO u VALUES (1, 2)", 1062, "23000"),
        ("INSERT INTO u VALUES (2, NULL)", 1048, "23000"),
        ("SELECT nocolumn FROM u", 1054, "42S22"),
        ("CREATE TABLE u (a INT)", 1050, "42S01"),
        ("SELECT @@nothing", 1193, "HY000"),
        ("SET nothing = 1", 1193, "HY000"),
        ("USE nowhere", 1049, "42000"),
        ("KILL 4000000000", 1094, "HY000"),
        ("SELECT nofunction(1)", 1305, "42000"),
        ("", 1065, "42000"),
    ] {
        let Error::Server(error) = conn.query_drop(sql).await.unwrap_err() else { panic!("{sql}") };
        assert_eq!((error.code, error.state.as_str()), (expected, state), "{sql}: {error}");
        // After an error the client knows nothing about the state.
        assert!(conn.last_ok_packet().is_none());
    }
    let prepared = conn.exec_drop("SELECT * FROM missing WHERE a = ?", (1,)).await.unwrap_err();
    assert_eq!(code(&prepared), 1146);
    conn.query_drop("START TRANSACTION READ ONLY").await.unwrap();
    assert_eq!(code(&conn.query_drop("DELETE FROM u").await.unwrap_err()), 1792);
    conn.query_drop("ROLLBACK").await.unwrap();
    let mut replica = connect(&cluster, 1).await;
    let Error::Server(error) = replica.query_drop("DELETE FROM u").await.unwrap_err() else {
        panic!()
    };
    assert_eq!(error.code, 1290);
    assert!(error.message.contains("--read-only"), "{}", error.message);
    cluster.host(1).set_super_read_only(true);
    let Error::Server(error) = replica.query_drop("DELETE FROM u").await.unwrap_err() else {
        panic!()
    };
    assert!(error.message.contains("--super-read-only"), "{}", error.message);
}

#[tokio::test]
async fn a_session_can_be_read_only_on_a_writable_host() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    conn.query_drop("SET SESSION TRANSACTION READ ONLY").await.unwrap();
    let insert = "INSERT INTO t (a) VALUES ('x')";
    assert_eq!(code(&conn.query_drop(insert).await.unwrap_err()), 1792);
    let on: i64 =
        conn.query_first("SELECT @@session.transaction_read_only").await.unwrap().unwrap();
    assert_eq!(on, 1);
    conn.query_drop("START TRANSACTION READ WRITE").await.unwrap();
    conn.query_drop(insert).await.unwrap();
    conn.query_drop("COMMIT").await.unwrap();
    assert!(conn.reset().await.unwrap());
    conn.query_drop(insert).await.unwrap();
    assert_eq!(count(&cluster).await, 2);
}

#[tokio::test]
async fn variables_tell_who_the_host_is() {
    let cluster = Cluster::start(2).await.unwrap();
    let mut conn = connect(&cluster, 1).await;
    let (name, id, port, read_only, super_read_only): (String, u32, u16, bool, bool) = conn
        .query_first(
            "SELECT @@hostname, @@server_id, @@port, @@global.read_only, @@global.super_read_only",
        )
        .await
        .unwrap()
        .unwrap();
    assert_eq!((name.as_str(), id, port), ("db2", 2, cluster.host(1).port()));
    assert_eq!((read_only, super_read_only), (true, false));
    let (own, database): (u32, String) =
        conn.query_first("SELECT CONNECTION_ID(), DATABASE()").await.unwrap().unwrap();
    assert_eq!((own, database.as_str()), (conn.id(), "app"));
    assert_eq!(cluster.host(1).connections(), [own]);
    cluster.host(1).claim_read_only(Some(false));
    let claim: bool = conn.query_first("SELECT @@read_only").await.unwrap().unwrap();
    assert!(!claim && cluster.host(1).is_read_only());
    let shown: (String, String) =
        conn.query_first("SHOW GLOBAL VARIABLES LIKE 'super\\_read%'").await.unwrap().unwrap();
    assert_eq!(shown, ("super_read_only".to_owned(), "OFF".to_owned()));
    conn.query_drop("SET @x = 4, @y := @x + 1").await.unwrap();
    let (x, y): (i64, i64) = conn.query_first("SELECT @x, @y := @y * 2").await.unwrap().unwrap();
    assert_eq!((x, y), (4, 10));
}

#[tokio::test]
async fn insert_ids_belong_to_the_connection() {
    let cluster = cluster_with_table(1).await;
    let mut one = connect(&cluster, 0).await;
    let mut two = connect(&cluster, 0).await;
    one.exec_drop("INSERT INTO t (a) VALUES (?)", ("x",)).await.unwrap();
    two.query_drop("INSERT INTO t (a) VALUES ('y'), ('z')").await.unwrap();
    assert_eq!((one.last_insert_id(), two.last_insert_id()), (Some(1), Some(2)));
    assert_eq!(two.affected_rows(), 2);
    let id: u64 = one.query_first("SELECT LAST_INSERT_ID()").await.unwrap().unwrap();
    assert_eq!(id, 1);
    one.query_drop("UPDATE t SET a = 'w' WHERE id > 1").await.unwrap();
    let rows: i64 = one.query_first("SELECT ROW_COUNT()").await.unwrap().unwrap();
    assert_eq!(rows, 2);
    one.query_drop("SELECT * FROM t").await.unwrap();
    let found: i64 = one.query_first("SELECT FOUND_ROWS()").await.unwrap().unwrap();
    assert_eq!(found, 3);
}

#[tokio::test]
async fn a_running_statement_can_be_killed() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut sleeper = connect(&cluster, 0).await;
    let mut killer = connect(&cluster, 0).await;
    let id = sleeper.id();
    let running = tokio::spawn(async move {
        let error = sleeper.query_drop("SELECT SLEEP(60)").await.unwrap_err();
        assert_eq!(code(&error), 1317);
        // The connection is still good.
        sleeper.ping().await.unwrap();
        sleeper
    });
    wait_until_running(&mut killer, id).await;
    killer.query_drop(format!("KILL QUERY {id}")).await.unwrap();
    let mut sleeper = timeout(LONG, running).await.unwrap().unwrap();
    let running = tokio::spawn(async move { sleeper.query_drop("SELECT SLEEP(60)").await });
    wait_until_running(&mut killer, id).await;
    killer.query_drop(format!("KILL {id}")).await.unwrap();
    let ended = timeout(LONG, running).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::Io(_))), "{ended:?}");
}

async fn wait_until_running(conn: &mut Conn, id: u32) {
    let start = Instant::now();
    loop {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE ID = ? AND COMMAND = 'Query'";
        let running: i64 = conn.exec_first(sql, (id,)).await.unwrap().unwrap();
        if running == 1 {
            return;
        }
        assert!(start.elapsed() < LONG);
    }
}

#[tokio::test]
async fn a_stopped_host_refuses_and_comes_back_on_its_port() {
    let cluster = cluster_with_table(2).await;
    let mut conn = connect(&cluster, 0).await;
    conn.query_drop("BEGIN").await.unwrap();
    conn.query_drop("INSERT INTO t (a) VALUES ('x')").await.unwrap();
    for _ in 0..20 {
        cluster.host(0).stop().await;
        assert_eq!(cluster.host(0).counters().open, 0);
        let Err(Error::Io(error)) = Conn::new(opts(&cluster, 0)).await else { panic!() };
        assert!(error.to_string().contains("refused"), "{error}");
        cluster.host(0).start().await.unwrap();
        connect(&cluster, 0).await;
    }
    let lost = conn.query_drop("COMMIT").await.unwrap_err();
    assert!(matches!(lost, Error::Io(_)), "{lost:?}");
    assert_eq!(count(&cluster).await, 0);
    assert_eq!(cluster.host(1).counters().accepts, 0);
}

#[tokio::test]
async fn a_refusing_host_keeps_its_connections() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut conn = connect(&cluster, 0).await;
    cluster.host(0).refuse().await;
    assert!(Conn::new(opts(&cluster, 0)).await.is_err());
    conn.ping().await.unwrap();
    cluster.host(0).start().await.unwrap();
    connect(&cluster, 0).await;
}

#[tokio::test]
async fn a_hanging_host_says_nothing_until_it_is_released() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    cluster.host(0).hang();
    let silent = Duration::from_millis(50);
    let insert = "INSERT INTO t (a) VALUES ('x')";
    {
        let mut running = Box::pin(conn.query_drop(insert));
        assert!(timeout(silent, &mut running).await.is_err());
        let mut dialling = Box::pin(Conn::new(opts(&cluster, 0)));
        assert!(timeout(silent, &mut dialling).await.is_err());
        assert_eq!(count(&cluster).await, 0);
        cluster.host(0).release();
        timeout(LONG, running).await.unwrap().unwrap();
        timeout(LONG, dialling).await.unwrap().unwrap();
    }
    assert_eq!(count(&cluster).await, 1);
    // Silence can also be ended by the end of the host.
    cluster.host(0).freeze();
    let mut running = Box::pin(conn.query_drop(insert));
    assert!(timeout(silent, &mut running).await.is_err());
    cluster.host(0).stop().await;
    assert!(timeout(LONG, running).await.unwrap().is_err());
}

#[tokio::test]
async fn new_connections_can_be_reset_closed_slow_or_too_many() {
    let cluster = Cluster::start(1).await.unwrap();
    let host = cluster.host(0);
    let mut conn = connect(&cluster, 0).await;
    host.reset_new_connections();
    assert!(matches!(Conn::new(opts(&cluster, 0)).await, Err(Error::Io(_))));
    host.close_new_connections();
    assert!(matches!(Conn::new(opts(&cluster, 0)).await, Err(Error::Io(_))));
    host.release();
    host.set_max_connections(Some(1));
    assert_eq!(code(&Conn::new(opts(&cluster, 0)).await.unwrap_err()), 1040);
    host.set_max_connections(None);
    host.reject_logins(true);
    assert_eq!(code(&Conn::new(opts(&cluster, 0)).await.unwrap_err()), 1045);
    host.reject_logins(false);
    host.reject_databases(true);
    assert_eq!(code(&Conn::new(opts(&cluster, 0)).await.unwrap_err()), 1049);
    host.reject_databases(false);
    let delay = Duration::from_millis(60);
    host.set_connect_delay(delay);
    let start = Instant::now();
    connect(&cluster, 0).await;
    assert!(start.elapsed() >= delay);
    host.set_statement_delay(delay);
    let start = Instant::now();
    conn.query_drop("SELECT 1").await.unwrap();
    assert!(start.elapsed() >= delay);
    assert_eq!(host.counters().accepts, 7);
}

#[tokio::test]
async fn all_connections_can_be_killed_at_once() {
    let cluster = Cluster::start(1).await.unwrap();
    for ending in [Ending::Fin, Ending::Reset] {
        let mut conns = Vec::new();
        for _ in 0..5 {
            conns.push(connect(&cluster, 0).await);
        }
        assert_eq!(cluster.host(0).kill_connections(ending).await, 5);
        assert!(cluster.host(0).connections().is_empty());
        for mut conn in conns {
            assert!(matches!(conn.ping().await, Err(Error::Io(_))));
        }
    }
    let mut one = connect(&cluster, 0).await;
    assert!(cluster.host(0).kill(one.id()).await);
    let ended = one.ping().await;
    assert!(matches!(ended, Err(Error::Io(_))), "{ended:?}");
    assert!(!cluster.host(0).kill(one.id()).await);
}

#[tokio::test]
async fn chosen_statements_fail_and_the_log_knows_what_ran() {
    let cluster = cluster_with_table(1).await;
    let host = cluster.host(0);
    let mut conn = connect(&cluster, 0).await;
    cluster.log_statements(true);
    host.fail_next(1, 1213, "Deadlock found");
    let insert = "INSERT INTO t (a) VALUES ('x')";
    assert_eq!(code(&conn.query_drop(insert).await.unwrap_err()), 1213);
    conn.query_drop(insert).await.unwrap();
    host.inject_matching(1, "insert", Fault::DropAfter);
    conn.query_drop("SELECT 1").await.unwrap();
    assert!(matches!(conn.query_drop(insert).await, Err(Error::Io(_))));
    assert_eq!(count(&cluster).await, 2);
    host.inject(1, Fault::DropBefore);
    let mut conn = connect(&cluster, 0).await;
    assert!(matches!(conn.exec_drop(insert, ()).await, Err(Error::Io(_))));
    assert_eq!(count(&cluster).await, 2);
    let outcomes: Vec<_> = cluster
        .statements()
        .iter()
        .filter(|statement| statement.text == insert)
        .map(|statement| (statement.outcome, statement.prepared))
        .collect();
    assert_eq!(
        outcomes,
        [
            (Outcome::Failed(1213), false),
            (Outcome::Ran, false),
            (Outcome::Ran, false),
            (Outcome::Running, true)
        ]
    );
    host.inject(1, Fault::Hang);
    let mut conn = connect(&cluster, 0).await;
    assert!(timeout(Duration::from_millis(50), conn.query_drop("SELECT 1")).await.is_err());
    let mut other = connect(&cluster, 0).await;
    other.query_drop("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_promoted_replica_takes_over_and_the_old_source_says_1290() {
    let cluster = cluster_with_table(2).await;
    let mut old = connect(&cluster, 0).await;
    let mut new = connect(&cluster, 1).await;
    let insert = "INSERT INTO t (a) VALUES ('x')";
    old.query_drop("BEGIN").await.unwrap();
    old.query_drop(insert).await.unwrap();
    cluster.promote(1).await.unwrap();
    // The uncommitted write of the old source does not block the new one.
    new.query_drop(insert).await.unwrap();
    assert_eq!(code(&old.query_drop("COMMIT").await.unwrap_err()), 1290);
    assert_eq!(code(&old.query_drop(insert).await.unwrap_err()), 1290);
    let seen: i64 = old.query_first("SELECT COUNT(*) FROM t").await.unwrap().unwrap();
    assert_eq!(seen, 1);
    assert!(cluster.source().index() == 1 && !cluster.host(0).is_source());
    let role: bool = old.query_first("SELECT @@global.read_only").await.unwrap().unwrap();
    assert!(role);
}

#[tokio::test]
async fn a_frozen_source_blocks_nobody_after_a_promotion() {
    let cluster = cluster_with_table(2).await;
    let mut old = connect(&cluster, 0).await;
    old.query_drop("BEGIN").await.unwrap();
    old.query_drop("INSERT INTO t (a) VALUES ('x')").await.unwrap();
    cluster.host(0).hang();
    cluster.promote(1).await.unwrap();
    let mut new = connect(&cluster, 1).await;
    new.query_drop("INSERT INTO t (a) VALUES ('y')").await.unwrap();
    cluster.host(0).release();
    assert_eq!(code(&old.query_drop("COMMIT").await.unwrap_err()), 1290);
    assert_eq!(count(&cluster).await, 1);
}

#[tokio::test]
async fn a_lagging_replica_shows_old_rows_and_old_gtids() {
    let cluster = cluster_with_table(3).await;
    let mut source = connect(&cluster, 0).await;
    let mut replica = connect(&cluster, 1).await;
    let insert = "INSERT INTO t (a) VALUES ('x')";
    source.query_drop(insert).await.unwrap();
    cluster.host(1).set_lag(Some(Duration::from_secs(3600))).await.unwrap();
    source.query_drop(insert).await.unwrap();
    let gtids: String = source.query_first("SELECT @@gtid_executed").await.unwrap().unwrap();
    assert_eq!(gtids, format!("{}:1-3", cluster.host(0).uuid()));
    let rows = "SELECT COUNT(*) FROM t";
    let seen: i64 = replica.query_first(rows).await.unwrap().unwrap();
    assert_eq!(seen, 1);
    let wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 0.05)";
    let late: i64 = replica.exec_first(wait, (&gtids,)).await.unwrap().unwrap();
    assert_eq!(late, 1);
    let status: Row = replica.query_first("SHOW REPLICA STATUS").await.unwrap().unwrap();
    assert_eq!(status.get::<i64, _>("Seconds_Behind_Source"), Some(3600));
    // The other replica has it.
    let mut other = connect(&cluster, 2).await;
    let now: i64 = other.exec_first(wait, (&gtids,)).await.unwrap().unwrap();
    assert_eq!(now, 0);
    cluster.host(1).set_lag(Some(Duration::from_millis(1))).await.unwrap();
    let done: i64 = replica
        .exec_first("SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 10)", (&gtids,))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(done, 0);
    let seen: i64 = replica.query_first(rows).await.unwrap().unwrap();
    assert_eq!(seen, 2);
    cluster.host(1).stop_replication().await.unwrap();
    source.query_drop("DELETE FROM t").await.unwrap();
    let seen: i64 = replica.query_first(rows).await.unwrap().unwrap();
    assert_eq!(seen, 2);
    let status: Row = replica.query_first("SHOW SLAVE STATUS").await.unwrap().unwrap();
    assert_eq!(status.get::<Option<i64>, _>("Seconds_Behind_Master"), Some(None));
    cluster.host(1).set_lag(None).await.unwrap();
    let seen: i64 = replica.query_first(rows).await.unwrap().unwrap();
    assert_eq!(seen, 0);
    assert!(source.query_first::<Row, _>("SHOW REPLICA STATUS").await.unwrap().is_none());
}

#[tokio::test]
async fn a_lagging_replica_applies_every_kind_of_change() {
    let cluster = cluster_with_table(2).await;
    let lag = Duration::from_millis(1);
    cluster.host(1).set_lag(Some(lag)).await.unwrap();
    for sql in [
        "INSERT INTO t (a) VALUES ('a'), ('b'), ('c')",
        "UPDATE t SET a = UPPER(a) WHERE id > 1",
        "DELETE FROM t WHERE id = 2",
        "CREATE TABLE u (a INT, b TEXT)",
        "INSERT INTO u VALUES (1, 'x'), (2, UUID())",
        "ALTER TABLE u ADD COLUMN c INT DEFAULT 5",
        "REPLACE INTO t VALUES (3, 'd')",
        "TRUNCATE TABLE u",
        "INSERT INTO u VALUES (9, RAND(), NULL)",
    ] {
        cluster.execute(sql).await.unwrap();
    }
    let mut source = connect(&cluster, 0).await;
    let mut replica = connect(&cluster, 1).await;
    let gtids: String = source.query_first("SELECT @@gtid_executed").await.unwrap().unwrap();
    let wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 10)";
    let done: i64 = replica.exec_first(wait, (&gtids,)).await.unwrap().unwrap();
    assert_eq!(done, 0);
    for sql in ["SELECT id, a FROM t ORDER BY id", "SELECT a, b FROM u"] {
        let there: Vec<(i64, String)> = source.query(sql).await.unwrap();
        let here: Vec<(i64, String)> = replica.query(sql).await.unwrap();
        assert!(!here.is_empty());
        assert_eq!(there, here);
    }
}

#[tokio::test]
async fn named_locks_belong_to_one_connection() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut one = connect(&cluster, 0).await;
    let mut two = connect(&cluster, 0).await;
    async fn get(conn: &mut Conn) -> mysql_async::Result<Option<i64>> {
        conn.query_first("SELECT GET_LOCK('a', 0)").await
    }
    assert_eq!(get(&mut one).await.unwrap(), Some(1));
    assert_eq!(get(&mut two).await.unwrap(), Some(0));
    assert!(one.reset().await.unwrap());
    assert_eq!(get(&mut two).await.unwrap(), Some(1));
    two.disconnect().await.unwrap();
    let taken = one.query_first::<i64, _>("SELECT GET_LOCK('a', 10)").await.unwrap();
    assert_eq!(taken, Some(1));
}

#[tokio::test]
async fn temporary_tables_live_as_long_as_their_connection() {
    let cluster = Cluster::start(2).await.unwrap();
    // Allowed on a read-only host too.
    let mut conn = connect(&cluster, 1).await;
    conn.query_drop("CREATE TEMPORARY TABLE mine (a INT)").await.unwrap();
    conn.query_drop("INSERT INTO mine VALUES (1)").await.unwrap();
    let rows: i64 = conn.query_first("SELECT COUNT(*) FROM mine").await.unwrap().unwrap();
    assert_eq!(rows, 1);
    let mut other = connect(&cluster, 1).await;
    assert_eq!(code(&other.query_drop("SELECT * FROM mine").await.unwrap_err()), 1146);
    assert!(conn.reset().await.unwrap());
    assert_eq!(code(&conn.query_drop("SELECT * FROM mine").await.unwrap_err()), 1146);
}

#[tokio::test]
async fn the_group_knows_its_members() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.host(2).stop().await;
    let mut conn = connect(&cluster, 1).await;
    let members: Vec<(u16, String, String)> = conn
        .query(
            "SELECT MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE \
             FROM performance_schema.replication_group_members",
        )
        .await
        .unwrap();
    let member = |host: usize, state: &str, role: &str| {
        (cluster.host(host).port(), state.to_owned(), role.to_owned())
    };
    assert_eq!(
        members,
        [
            member(0, "ONLINE", "PRIMARY"),
            member(1, "ONLINE", "SECONDARY"),
            member(2, "UNREACHABLE", "SECONDARY")
        ]
    );
}

#[tokio::test]
async fn large_values_cross_packet_borders() {
    let cluster = Cluster::start(1).await.unwrap();
    let options = OptsBuilder::from_opts(opts(&cluster, 0)).max_allowed_packet(Some(64 << 20));
    let mut conn = Conn::new(options).await.unwrap();
    conn.query_drop("CREATE TABLE big (a LONGBLOB)").await.unwrap();
    let value = vec![7u8; 17 << 20];
    conn.exec_drop("INSERT INTO big VALUES (?)", (&value,)).await.unwrap();
    let back: Vec<u8> = conn.query_first("SELECT a FROM big").await.unwrap().unwrap();
    assert!(back == value);
    let back: Vec<u8> = conn.exec_first("SELECT a FROM big", ()).await.unwrap().unwrap();
    assert!(back == value);
}

#[tokio::test]
async fn a_statement_that_runs_while_the_host_freezes_is_answered_later() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut conn = connect(&cluster, 0).await;
    let mut other = connect(&cluster, 0).await;
    let id = conn.id();
    let running = tokio::spawn(async move {
        let slept = conn.query_first::<i64, _>("SELECT SLEEP(1)").await;
        (slept.unwrap(), conn)
    });
    wait_until_running(&mut other, id).await;
    cluster.host(0).freeze();
    let mut running = Box::pin(running);
    assert!(timeout(Duration::from_millis(1500), &mut running).await.is_err());
    cluster.host(0).release();
    let (slept, _conn) = timeout(LONG, running).await.unwrap().unwrap();
    assert_eq!(slept, Some(0));
}

#[tokio::test]
async fn killing_does_not_wait_for_a_long_statement() {
    let cluster = cluster_with_table(1).await;
    let mut conn = connect(&cluster, 0).await;
    let mut other = connect(&cluster, 0).await;
    conn.query_drop("BEGIN").await.unwrap();
    conn.query_drop("INSERT INTO t (a) VALUES ('x')").await.unwrap();
    let id = conn.id();
    let running = tokio::spawn(async move { conn.query_drop("SELECT SLEEP(600)").await });
    wait_until_running(&mut other, id).await;
    timeout(LONG, cluster.host(0).stop()).await.unwrap();
    assert!(timeout(LONG, running).await.unwrap().unwrap().is_err());
    // The write is undone and its lock is free.
    cluster.execute("INSERT INTO t (a) VALUES ('y')").await.unwrap();
    assert_eq!(count(&cluster).await, 1);
}

#[tokio::test]
async fn a_dropped_cluster_frees_its_ports_and_files() {
    let cluster = cluster_with_table(2).await;
    let mut conn = connect(&cluster, 0).await;
    let addr = cluster.host(0).addr();
    let host = cluster.host(1);
    let sleeping = tokio::spawn(async move { conn.query_drop("SELECT SLEEP(600)").await });
    let start = Instant::now();
    while cluster.host(0).counters().statements == 0 {
        tokio::task::yield_now().await;
        assert!(start.elapsed() < LONG);
    }
    drop(cluster);
    assert!(timeout(LONG, sleeping).await.unwrap().unwrap().is_err());
    drop(host);
    let start = Instant::now();
    while tokio::net::TcpStream::connect(addr).await.is_ok() {
        assert!(start.elapsed() < LONG);
    }
}
