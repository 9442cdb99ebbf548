//! The MySQL driver on real servers: what it sees, what it tidies, what it tells the pool.

#![allow(clippy::unwrap_used)]

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::{Query, Queryable};
use mysql_async::{Error, OptsBuilder, TxOpts};
use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Driver, Lag, Liveness, Report, Reporter, Tidy};
use pool_core::host::{Host, HostId, Role};
use pool_core::verdict::Verdict;
use pool_mysql::{
    Conn, LagSource, MySql, MySqlOptions, ReadOnlySessions, ResetMode, is_not_writable,
};
use pool_tests::real::{self, Cluster, MariaDb, MySqlCluster, PASSWORD, STARTUP, Server, USER};
use tokio::time::{Instant, sleep, timeout};

/// A bound for everything that is expected to happen.
const SOON: Duration = Duration::from_secs(20);
/// A statement that is still running when it is abandoned.
const SLOW: &str = "SELECT SLEEP(30)";

#[derive(Default)]
struct Reports(Mutex<Vec<Verdict>>);

impl Report for Reports {
    fn report(&self, verdict: Verdict, _message: &dyn Display) {
        self.0.lock().unwrap().push(verdict);
    }
}

impl Reports {
    fn take(&self) -> Vec<Verdict> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// One server and the way to log in to it.
struct Bench<'a, S> {
    server: &'a S,
    reports: Arc<Reports>,
}

impl<S: Server> Bench<'_, S> {
    fn base(&self) -> OptsBuilder {
        OptsBuilder::default().user(Some(USER)).pass(Some(PASSWORD)).db_name(Some("test"))
    }

    fn driver(&self) -> MySql {
        MySql::new(self.base())
    }

    /// The server as host `id` of a list.
    fn host(&self, id: u32) -> Host {
        Host::new("127.0.0.1", self.server.port()).with_id(HostId::new(id))
    }

    async fn try_open(&self, driver: &MySql, id: u32) -> Result<Conn, Error> {
        driver
            .connect(ConnectRequest {
                host: &self.host(id),
                // The first host of the list is the source.
                access: if id == 0 { Access::Write } else { Access::Read },
                deadline: Instant::now() + SOON,
                reporter: Reporter::new(self.reports.clone()),
            })
            .await
    }

    async fn open(&self, driver: &MySql) -> Conn {
        self.try_open(driver, 0).await.unwrap()
    }

    async fn admin(&self, sql: &str) {
        let mut admin = self.server.admin().await.unwrap();
        admin.query_drop(sql).await.unwrap();
        admin.disconnect().await.unwrap();
    }

    /// Tidies `conn`, which has to be dirty, and expects it clean.
    async fn tidied(&self, driver: &MySql, conn: &mut Conn) {
        assert_eq!(driver.peek(conn), Liveness::Dirty);
        driver.tidy(conn, Tidy::Rollback).await.unwrap();
        assert_eq!(driver.peek(conn), Liveness::Clean);
    }
}

async fn number(conn: &mut Conn, sql: &str) -> i64 {
    conn.query_first(sql.to_owned()).await.unwrap().unwrap()
}

/// How many statements this session has prepared.
async fn prepared(conn: &mut Conn) -> String {
    let sql = "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'";
    let row: (String, String) = conn.query_first(sql).await.unwrap().unwrap();
    row.1
}

async fn a_connect_asks_no_settings_and_uses_tcp<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    // The driver would have sent a statement for the settings, and a USE or SET before this one.
    let row: (String, String) =
        conn.query_first("SHOW SESSION STATUS LIKE 'Questions'").await.unwrap().unwrap();
    assert_eq!(row.1, "1", "statements before the first one of the caller");
    // With `prefer_socket` the driver would have moved to the socket of the server next door.
    let client: String = conn.query_first("SELECT USER()").await.unwrap().unwrap();
    assert!(!client.ends_with("@localhost"), "{client}");
    driver.close(conn).await;
}

async fn an_abandoned_statement_leaves_a_dead_connection<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    let short = Duration::from_millis(50);
    assert!(timeout(short, conn.query_drop(SLOW)).await.is_err());
    assert_eq!(driver.peek(&mut conn), Liveness::Dead);
    assert_eq!(driver.peek(&mut conn), Liveness::Dead);

    let mut conn = bench.open(&driver).await;
    let cancel = conn.cancel_handle();
    let id = conn.id();
    assert!(timeout(short, conn.query_drop(SLOW)).await.is_err());
    cancel.kill_query(Instant::now() + SOON).await.unwrap();
    let mut admin = bench.server.admin().await.unwrap();
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL"
    );
    let busy =
        async { while admin.query_first::<i64, _>(sql.as_str()).await.unwrap() != Some(0) {} };
    timeout(SOON, busy).await.unwrap();
    // Nothing is wrong with the host.
    assert_eq!(bench.reports.take(), []);
}

async fn an_unread_result_is_read_away<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    let rows = conn.query_iter("SELECT 1 UNION SELECT 2; SELECT 3").await.unwrap();
    drop(rows);
    bench.tidied(&driver, &mut conn).await;
    assert_eq!(number(&mut conn, "SELECT 4").await, 4);

    let mut rows = conn.query_iter("SELECT 1 UNION SELECT 2").await.unwrap();
    let all: Vec<i64> = rows.collect().await.unwrap();
    assert_eq!(all, [1, 2]);
    drop(rows);
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);

    // The error that nobody read is not taken for the answer to the clean-up.
    drop(conn.query_iter("SELECT 1; SELECT * FROM nowhere").await.unwrap());
    bench.tidied(&driver, &mut conn).await;
    assert_eq!(number(&mut conn, "SELECT 5").await, 5);
}

async fn a_dropped_transaction_is_rolled_back_and_statements_stay_cached<S: Server>(
    bench: &Bench<'_, S>,
) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    conn.query_drop("CREATE TABLE IF NOT EXISTS tidy (id INT PRIMARY KEY)").await.unwrap();
    conn.query_drop("DELETE FROM tidy").await.unwrap();
    conn.exec_drop("INSERT INTO tidy VALUES (?)", (1,)).await.unwrap();
    assert_eq!(prepared(&mut conn).await, "1");

    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    transaction.exec_drop("INSERT INTO tidy VALUES (?)", (2,)).await.unwrap();
    drop(transaction);
    bench.tidied(&driver, &mut conn).await;
    assert_eq!(number(&mut conn, "SELECT COUNT(*) FROM tidy").await, 1);
    // The row lock is gone: another session takes the key.
    let mut other = bench.open(&driver).await;
    other.exec_drop("INSERT INTO tidy VALUES (?)", (2,)).await.unwrap();

    // An error inside, so that the flags are unknown when the transaction is dropped.
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    transaction.exec_drop("INSERT INTO tidy VALUES (?)", (3,)).await.unwrap();
    let twice = transaction.exec_drop("INSERT INTO tidy VALUES (?)", (3,)).await;
    assert!(matches!(twice, Err(Error::Server(error)) if error.code == 1062));
    drop(transaction);
    bench.tidied(&driver, &mut conn).await;

    // As text.
    conn.query_drop("BEGIN").await.unwrap();
    assert_eq!(conn.in_transaction(), Some(true));
    conn.exec_drop("INSERT INTO tidy VALUES (?)", (3,)).await.unwrap();
    bench.tidied(&driver, &mut conn).await;
    assert_eq!(number(&mut conn, "SELECT COUNT(*) FROM tidy").await, 2);
    assert_eq!(prepared(&mut conn).await, "1", "the statement was prepared again");

    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    transaction.exec_drop("INSERT INTO tidy VALUES (?)", (3,)).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    assert_eq!(number(&mut conn, "SELECT COUNT(*) FROM tidy").await, 3);
    assert_eq!(bench.reports.take(), []);
}

async fn what_a_user_changed_is_put_back<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    conn.query_drop("CREATE TABLE IF NOT EXISTS locked (id INT PRIMARY KEY)").await.unwrap();

    let missing = conn.query_drop("SELECT * FROM nowhere").await.unwrap_err();
    assert_eq!(driver.verdict(&missing), Verdict::Statement);
    bench.tidied(&driver, &mut conn).await;

    // The driver closes a connection over this mistake of the caller's.
    let mut mistaken = bench.open(&driver).await;
    let mismatch = mistaken.exec_drop("SELECT ?", (1, 2)).await.unwrap_err();
    assert_eq!(driver.verdict(&mismatch), Verdict::Statement);
    assert_eq!(driver.peek(&mut mistaken), Liveness::Dead);
    assert!(mistaken.query_drop("SELECT 1").await.is_err());
    assert_eq!(bench.reports.take(), [Verdict::ConnectionEnded]);

    // The answer to a PREPARE has no status flags.
    conn.query_drop("BEGIN").await.unwrap();
    let _statement = conn.prep("SELECT 1").await.unwrap();
    assert_eq!(conn.in_transaction(), None);
    bench.tidied(&driver, &mut conn).await;

    conn.query_drop("SET autocommit = 0").await.unwrap();
    assert_eq!(conn.autocommit(), Some(false));
    bench.tidied(&driver, &mut conn).await;
    assert_eq!(number(&mut conn, "SELECT @@autocommit").await, 1);

    conn.query_drop("USE mysql").await.unwrap();
    bench.tidied(&driver, &mut conn).await;
    let database: String = conn.query_first("SELECT DATABASE()").await.unwrap().unwrap();
    assert_eq!(database, "test");

    conn.query_drop("LOCK TABLES locked WRITE").await.unwrap();
    bench.tidied(&driver, &mut conn).await;
    let mut other = bench.open(&driver).await;
    other.query_drop("DELETE FROM locked").await.unwrap();

    conn.set_read_only(true).await.unwrap();
    assert!(conn.is_read_only());
    bench.tidied(&driver, &mut conn).await;
    assert!(!conn.is_read_only());
    conn.query_drop("DELETE FROM locked").await.unwrap();

    // Nothing was wrong with the host in all this.
    assert_eq!(bench.reports.take(), []);

    // Without a database of its own the session goes back to none.
    let homeless = MySql::new(bench.base().db_name(None::<String>));
    let mut conn = bench.open(&homeless).await;
    conn.query_drop("USE test").await.unwrap();
    bench.tidied(&homeless, &mut conn).await;
    let database: Option<String> = conn.query_first("SELECT DATABASE()").await.unwrap().unwrap();
    assert_eq!(database, None);
}

async fn statements_of_the_setup_run_in_order_and_again_after_a_reset<S: Server>(
    bench: &Bench<'_, S>,
) {
    let base = bench
        .base()
        .init(vec!["SET @trace = 'init'"])
        .setup(vec!["SET @trace = CONCAT(COALESCE(@trace, '-'), ' one')", "SET @two = @trace"]);
    let driver = MySql::new(base).with_reset_mode(ResetMode::Full);
    let mut conn = bench.open(&driver).await;
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    let two: String = conn.query_first("SELECT @two").await.unwrap().unwrap();
    assert_eq!(two, "init one");

    conn.exec_drop("SET @mine = ?", (1,)).await.unwrap();
    bench.tidied(&driver, &mut conn).await;
    let row: (String, Option<i64>) = conn.query_first("SELECT @two, @mine").await.unwrap().unwrap();
    assert_eq!(row, ("- one".to_owned(), None));
}

async fn a_session_on_a_secondary_refuses_writes<S: Server>(bench: &Bench<'_, S>) {
    let which = ReadOnlySessions { on_secondaries: true, ..ReadOnlySessions::default() };
    let driver = bench.driver().with_read_only_sessions(which);
    let mut on_source = bench.open(&driver).await;
    on_source.query_drop("CREATE TABLE IF NOT EXISTS modes (id INT PRIMARY KEY)").await.unwrap();

    let mut conn = bench.try_open(&driver, 1).await.unwrap();
    assert!(conn.is_read_only());
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    for how in [Tidy::Rollback, Tidy::Full, Tidy::Rollback] {
        let refused = conn.query_drop("INSERT INTO modes VALUES (1)").await.unwrap_err();
        assert!(matches!(&refused, Error::Server(error) if error.code == 1792), "{refused}");
        assert!(is_not_writable(&refused));
        driver.tidy(&mut conn, how).await.unwrap();
        assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    }
    // A wish for read/write is granted and does not outlive the lease.
    conn.set_read_only(false).await.unwrap();
    conn.query_drop("DELETE FROM modes").await.unwrap();
    bench.tidied(&driver, &mut conn).await;
    assert!(conn.query_drop("DELETE FROM modes").await.is_err());

    // So does one that the caller asked for.
    let mut read_only = TxOpts::default();
    read_only.with_readonly(true);
    let mut transaction = on_source.start_transaction(read_only).await.unwrap();
    let refused = transaction.query_drop("INSERT INTO modes VALUES (2)").await.unwrap_err();
    assert!(is_not_writable(&refused));
    transaction.rollback().await.unwrap();
    assert_eq!(driver.peek(&mut on_source), Liveness::Clean);
    assert_eq!(bench.reports.take(), []);
}

async fn a_demoted_server_is_noticed_and_probed<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    let mut monitor = bench.open(&driver).await;
    conn.query_drop("CREATE TABLE IF NOT EXISTS demoted (id INT PRIMARY KEY)").await.unwrap();
    let probe = driver.probe(&mut monitor).await.unwrap();
    assert_eq!((probe.role, probe.lag), (Role::Source, Lag::NotAsked));
    assert_eq!(driver.peek(&mut monitor), Liveness::Clean);

    bench.server.set_read_only(true).await.unwrap();
    let refused = conn.query_drop("INSERT INTO demoted VALUES (1)").await.unwrap_err();
    assert!(is_not_writable(&refused), "{refused}");
    assert_eq!(bench.reports.take(), [Verdict::Demoted]);
    assert_eq!(driver.peek(&mut conn), Liveness::Dead);
    assert_eq!(driver.probe(&mut monitor).await.unwrap().role, Role::Replica);
    bench.server.set_read_only(false).await.unwrap();
    assert_eq!(driver.probe(&mut monitor).await.unwrap().role, Role::Source);
}

async fn a_killed_connection_is_over_and_reported_once<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver();
    let mut conn = bench.open(&driver).await;
    bench.admin(&format!("KILL {}", conn.id())).await;
    let error = timeout(SOON, async {
        loop {
            if let Err(error) = conn.query_drop("SELECT 1").await {
                return error;
            }
        }
    })
    .await
    .unwrap();
    assert!(!driver.verdict(&error).keeps_connection(), "{error}");
    assert!(conn.query_drop("SELECT 1").await.is_err());
    assert_eq!(driver.peek(&mut conn), Liveness::Dead);
    assert_eq!(bench.reports.take().len(), 1);
}

async fn a_statement_that_takes_too_long_ends_its_connection<S: Server>(bench: &Bench<'_, S>) {
    let driver = bench.driver().with_statement_timeout(Some(Duration::from_millis(100)));
    let mut conn = bench.open(&driver).await;
    let error = conn.query_drop(SLOW).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::ConnectionLost, "{error}");
    assert_eq!(driver.peek(&mut conn), Liveness::Dead);
    assert_eq!(bench.reports.take(), [Verdict::ConnectionLost]);
}

async fn a_refused_login_is_permanent<S: Server>(bench: &Bench<'_, S>) {
    let wrong = MySql::new(bench.base().pass(Some("wrong")));
    let nowhere = MySql::new(bench.base().db_name(Some("nowhere")));
    for driver in [wrong, nowhere] {
        let error = bench.try_open(&driver, 0).await.unwrap_err();
        assert_eq!(driver.verdict(&error), Verdict::Permanent, "{error}");
        assert!(!error.to_string().contains(PASSWORD));
    }
}

async fn statements_run_through_a_lease<S: Server>(bench: &Bench<'_, S>) {
    let pool = MySqlOptions::from_url(&bench.server.url("test")).unwrap().open().await.unwrap();
    let mut lease = pool.get().await.unwrap();
    let one: Option<i64> = lease.query_first("SELECT 1").await.unwrap();
    let two: Option<i64> = lease.exec_first("SELECT ?", (2,)).await.unwrap();
    let three: Vec<i64> = "SELECT 3".fetch(&mut *lease).await.unwrap();
    let mut transaction = lease.start_transaction(TxOpts::default()).await.unwrap();
    let four: Vec<i64> = transaction.query_map("SELECT 4", |n| n).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!((one, two, three, four), (Some(1), Some(2), vec![3], vec![4]));
}

/// Every promise, one after the other: a server takes longer to start than all of them take.
async fn keeps_its_promises<S: Server>(cluster: &Cluster<S>) {
    let reports = Arc::new(Reports::default());
    let bench = Bench { server: cluster.host(0), reports };
    macro_rules! each {
        ($($promise:ident),+ $(,)?) => {$(
            println!("{}", stringify!($promise));
            timeout(STARTUP, $promise(&bench)).await.expect(stringify!($promise));
            bench.reports.take();
        )+};
    }
    each!(
        a_connect_asks_no_settings_and_uses_tcp,
        an_abandoned_statement_leaves_a_dead_connection,
        an_unread_result_is_read_away,
        a_dropped_transaction_is_rolled_back_and_statements_stay_cached,
        what_a_user_changed_is_put_back,
        statements_of_the_setup_run_in_order_and_again_after_a_reset,
        a_session_on_a_secondary_refuses_writes,
        a_demoted_server_is_noticed_and_probed,
        a_killed_connection_is_over_and_reported_once,
        a_statement_that_takes_too_long_ends_its_connection,
        a_refused_login_is_permanent,
        statements_run_through_a_lease,
    );
    // What was written above may still be on its way.
    cluster.replication_caught_up().await.unwrap();
    let replica = Bench { server: cluster.host(1), reports: bench.reports.clone() };
    lag_of_a_replica_is_measured(&replica).await;
}

async fn lag_of_a_replica_is_measured<S: Server>(bench: &Bench<'_, S>) {
    let by_query = LagSource::Query { sql: "SELECT 1.5".to_owned() };
    let missing = LagSource::Heartbeat { table: "test.no_heartbeat".to_owned() };
    let half = Duration::from_millis(1500);
    let rows =
        [(LagSource::Off, Lag::NotAsked), (by_query, Lag::Known(half)), (missing, Lag::Unknown)];
    for (source, expected) in rows {
        let driver = bench.driver().with_lag_source(source.clone());
        let mut conn = bench.open(&driver).await;
        let probe = driver.probe(&mut conn).await.unwrap();
        assert_eq!((probe.role, probe.lag), (Role::Replica, expected), "{source:?}");
    }
    let driver = bench.driver().with_lag_source(LagSource::Status);
    let mut conn = bench.open(&driver).await;
    // MySQL counts from the last event until its next checkpoint, 300 ms later: 1 s if a second ends between.
    let none = async {
        loop {
            let probe = driver.probe(&mut conn).await.unwrap();
            assert_eq!(probe.role, Role::Replica);
            match probe.lag {
                Lag::Known(Duration::ZERO) => return,
                Lag::Known(_) => sleep(Duration::from_millis(20)).await,
                unknown => panic!("a replica that runs: {unknown:?}"),
            }
        }
    };
    timeout(SOON, none).await.expect("a replica that has caught up has no lag");
    bench.admin("STOP REPLICA").await;
    assert_eq!(driver.probe(&mut conn).await.unwrap().lag, Lag::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_keeps_its_promises_on_mariadb() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MariaDb::start_with_replicas(1).await.unwrap();
    keeps_its_promises(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_keeps_its_promises_on_mysql() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(1).await.unwrap();
    keeps_its_promises(&cluster).await;
}
