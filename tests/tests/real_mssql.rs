//! The SQL Server driver and pools on real servers: what the embedded ones can only claim.
//!
//! `tests/compose/mssql.yaml` starts two and says what to put into the environment:
//! `POOL_TESTS_MSSQL_URL`, an ADO.NET connection string with a database, and for the failover
//! `POOL_TESTS_MSSQL_PARTNER`, the `host,port` of the second. Without them the tests skip, loudly.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use pool_core::error::ErrorKind;
use pool_mssql::{Lease, MsSqlOptions, Pool, ResetMode};
use pool_tests::proxy::FaultProxy;
use pool_tests::real;

const SOON: Duration = Duration::from_secs(30);

/// The options of the server, if there is one.
fn server(test: &str) -> Option<MsSqlOptions> {
    match std::env::var("POOL_TESTS_MSSQL_URL") {
        Ok(text) => Some(MsSqlOptions::from_ado(&text).unwrap()),
        Err(_) => {
            real::skip(test, "needs POOL_TESTS_MSSQL_URL, see tests/compose/mssql.yaml");
            None
        }
    }
}

fn pool(options: &MsSqlOptions, size: usize) -> Pool {
    options.pool_builder().unwrap().max_size(size).probe_interval(None).build().unwrap()
}

async fn number(lease: &mut Lease, sql: &str) -> i32 {
    let row = lease.simple_query(sql).await.unwrap().into_row().await.unwrap();
    row.unwrap().get::<i32, _>(0).unwrap()
}

/// The number in the error behind a refused checkout.
async fn refused(options: &MsSqlOptions) -> (ErrorKind, Option<u32>) {
    let error = pool(options, 1).get().await.unwrap_err();
    let code = error.driver_error::<pool_mssql::Error>().and_then(pool_mssql::Error::code);
    (error.kind(), code)
}

#[tokio::test]
async fn statements_and_transactions_run() {
    let Some(options) = server("statements_and_transactions_run") else { return };
    let pool = pool(&options, 1);
    let mut lease = pool.get().await.unwrap();
    lease.simple_query("CREATE TABLE #t (id INT)").await.unwrap().into_results().await.unwrap();
    lease.begin_transaction().await.unwrap();
    assert_eq!(lease.execute("INSERT INTO #t VALUES (@P1)", &[&7]).await.unwrap().total(), 1);
    lease.commit_transaction().await.unwrap();
    assert_eq!(number(&mut lease, "SELECT MAX(id) FROM #t").await, 7);
    assert_eq!(lease.in_transaction(), Some(false));
}

#[tokio::test]
async fn what_a_caller_leaves_open_is_rolled_back() {
    let Some(options) = server("what_a_caller_leaves_open_is_rolled_back") else { return };
    let pool = pool(&options, 1);
    let mut lease = pool.get().await.unwrap();
    let spid = number(&mut lease, "SELECT CAST(@@SPID AS INT)").await;
    let begin = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION";
    lease.simple_query(begin).await.unwrap().into_results().await.unwrap();
    drop(lease);
    let mut lease = pool.get().await.unwrap();
    assert_eq!(number(&mut lease, "SELECT CAST(@@SPID AS INT)").await, spid, "the same connection");
    assert_eq!(number(&mut lease, "SELECT @@TRANCOUNT").await, 0);
    let level = "SELECT CAST(transaction_isolation_level AS INT) FROM sys.dm_exec_sessions \
                 WHERE session_id = @@SPID";
    assert_eq!(number(&mut lease, level).await, 2, "read committed again");
}

#[tokio::test]
async fn an_abandoned_statement_is_cancelled() {
    let Some(options) = server("an_abandoned_statement_is_cancelled") else { return };
    let pool = pool(&options, 1);
    let mut lease = pool.get().await.unwrap();
    let wait = lease.simple_query("WAITFOR DELAY '00:00:20'; SELECT 1");
    let wait = async { wait.await.unwrap().into_results().await };
    assert!(tokio::time::timeout(Duration::from_millis(300), wait).await.is_err());
    drop(lease);
    let started = Instant::now();
    let mut lease = pool.get().await.unwrap();
    assert_eq!(number(&mut lease, "SELECT 5").await, 5);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_full_reset_removes_temporary_tables() {
    let Some(options) = server("a_full_reset_removes_temporary_tables") else { return };
    let pool = pool(&options.reset_mode(ResetMode::Full), 1);
    let mut lease = pool.get().await.unwrap();
    lease.simple_query("CREATE TABLE #left (id INT)").await.unwrap().into_results().await.unwrap();
    drop(lease);
    let mut lease = pool.get().await.unwrap();
    let sql = "SELECT COALESCE(OBJECT_ID('tempdb..#left'), 0)";
    assert_eq!(number(&mut lease, sql).await, 0);
}

#[tokio::test]
async fn logins_are_judged_by_their_first_error() {
    let Some(options) = server("logins_are_judged_by_their_first_error") else { return };
    let wrong = options.clone().credentials("sa", "not-the-Passw0rd");
    assert_eq!(refused(&wrong).await, (ErrorKind::Permanent, Some(18456)));
    let missing = options.database("pool_tests_no_such_database");
    assert_eq!(refused(&missing).await, (ErrorKind::Permanent, Some(4060)));
}

#[tokio::test]
async fn a_killed_idle_connection_is_replaced_silently() {
    let Some(options) = server("a_killed_idle_connection_is_replaced_silently") else { return };
    let (pool, admin) = (pool(&options, 1), pool(&options, 1));
    let spid = {
        let mut lease = pool.get().await.unwrap();
        number(&mut lease, "SELECT CAST(@@SPID AS INT)").await
    };
    let mut admin = admin.get().await.unwrap();
    let kill = format!("KILL {spid}");
    admin.simple_query(kill).await.unwrap().into_results().await.unwrap();
    let gone = format!("SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE session_id = {spid}");
    let started = Instant::now();
    while number(&mut admin, &gone).await != 0 {
        assert!(started.elapsed() < SOON, "the session did not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut lease = pool.get().await.unwrap();
    assert_eq!(number(&mut lease, "SELECT 5").await, 5);
}

#[tokio::test]
async fn writes_move_to_the_partner_and_stay_until_it_fails() {
    const TEST: &str = "writes_move_to_the_partner_and_stay_until_it_fails";
    let Some(options) = server(TEST) else { return };
    let Ok(partner) = std::env::var("POOL_TESTS_MSSQL_PARTNER") else {
        real::skip(TEST, "needs POOL_TESTS_MSSQL_PARTNER, see tests/compose/mssql.yaml");
        return;
    };
    let initial = &options.hosts()[0];
    let at = async |host: &str, port: u16| {
        let address = tokio::net::lookup_host((host, port)).await.unwrap().next();
        FaultProxy::start(address.unwrap()).await.unwrap()
    };
    let (host, port) = partner.split_once(',').unwrap();
    let a = at(initial.address(), initial.port()).await;
    let b = at(host, port.parse().unwrap()).await;
    let text = std::env::var("POOL_TESTS_MSSQL_URL").unwrap();
    let mut parts: Vec<_> = text.split(';').map(str::to_owned).collect();
    for part in &mut parts {
        let key = part.split('=').next().unwrap().replace([' ', '_'], "").to_ascii_lowercase();
        if ["server", "datasource", "address", "addr", "networkaddress"].contains(&key.as_str()) {
            *part = format!("Server=tcp:127.0.0.1,{}", a.addr().port());
        }
    }
    let partner = format!("Failover Partner=tcp:127.0.0.1,{}", b.addr().port());
    let options = MsSqlOptions::from_ado(&format!("{};{partner}", parts.join(";"))).unwrap();
    let pool = pool(&options, 4);
    let mut expected = a.addr().port();
    for (down, up) in [(&a, &b), (&b, &a)] {
        assert_eq!(pool.get().await.unwrap().server().port(), Some(expected));
        down.refuse().await;
        down.reset().await;
        expected = up.addr().port();
        let mut lease = pool.get().await.unwrap();
        assert_eq!(lease.server().port(), Some(expected));
        assert_eq!(number(&mut lease, "SELECT 5").await, 5);
        drop(lease);
        down.accept().await.unwrap();
        assert_eq!(pool.get().await.unwrap().server().port(), Some(expected), "B is not left");
    }
}
