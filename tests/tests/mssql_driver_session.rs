//! Used connections of the SQL Server driver: peek, tidy, errors after login, round trips.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use std::time::Duration;

use futures_util::TryStreamExt;
use mssql_support::{Reports, options, request, soon};
use pool_core::access::Access;
use pool_core::driver::{Driver, Liveness, Tidy};
use pool_core::verdict::Verdict;
use pool_mssql::{Conn, Encrypt, MsSql, MsSqlOptions, ResetMode};
use pool_tests::mssql::{Close, Encryption, MirroredPair, MssqlServer, SqlError};
use pool_tests::proxy::FaultProxy;

/// A server, a driver for it, and one connection whose reports are kept.
struct Bench {
    server: MssqlServer,
    driver: MsSql,
    conn: Conn,
    reports: Reports,
}

impl Bench {
    async fn start() -> Self {
        let server = MssqlServer::launch().await.unwrap();
        let options = options(&server.ado_string());
        Self::over(server, &options).await
    }

    async fn encrypted() -> Self {
        let server =
            MssqlServer::builder().encryption(Encryption::Required).launch().await.unwrap();
        let options = options(&server.ado_string())
            .encrypt(Encrypt::Mandatory)
            .trust_server_certificate(false)
            .trust_ca_bundle(MssqlServer::certificate_pem().unwrap());
        Self::over(server, &options).await
    }

    async fn over(server: MssqlServer, options: &MsSqlOptions) -> Self {
        let driver = options.driver().unwrap();
        let reports = Reports::default();
        let host = options.hosts().remove(0);
        let mut wanted = request(&host, Access::Write);
        wanted.reporter = reports.reporter();
        let conn = driver.connect(wanted).await.unwrap();
        server.clear_records();
        Self { server, driver, conn, reports }
    }

    fn peek(&mut self) -> Liveness {
        self.driver.peek(&mut self.conn)
    }

    async fn tidy(&mut self) {
        self.driver.tidy(&mut self.conn, Tidy::Rollback).await.unwrap();
        assert_eq!(self.peek(), Liveness::Clean);
    }

    async fn one(&mut self, sql: &str) -> i32 {
        let row = self.conn.simple_query(sql.to_owned()).await.unwrap().into_row().await.unwrap();
        row.unwrap().get(0).unwrap()
    }

    /// Starts a statement that the server answers late, and drops it.
    async fn drop_a_query(&mut self) {
        self.server.switches().set_request_delay(Duration::from_secs(30));
        let before = self.server.counts().batches;
        {
            let query = self.conn.simple_query("SELECT 7");
            let sent = self.server.wait_for(soon(), |counts| counts.batches > before);
            tokio::select! {
                _ = query => panic!("the server answered at once"),
                sent = sent => { sent.unwrap(); }
            }
        }
        self.server.switches().set_request_delay(Duration::ZERO);
    }
}

#[tokio::test]
async fn a_fresh_and_a_cleanly_used_connection_need_no_tidying() {
    for mut bench in [Bench::start().await, Bench::encrypted().await] {
        assert_eq!(bench.peek(), Liveness::Clean);
        assert_eq!(bench.one("SELECT 1").await, 1);
        bench.conn.execute("SELECT @P1", &[&1]).await.unwrap();
        assert_eq!(bench.peek(), Liveness::Clean);
        bench.conn.begin_transaction().await.unwrap();
        bench.conn.commit_transaction().await.unwrap();
        assert_eq!(bench.peek(), Liveness::Clean);
        bench.conn.simple_query("SELECT * FROM nowhere").await.unwrap_err();
        assert_eq!(bench.peek(), Liveness::Clean);
        assert_eq!(bench.reports.take(), [Verdict::Statement]);
    }
}

#[tokio::test]
async fn a_fin_and_a_reset_are_found_before_hand_out() {
    for how in [Close::Fin, Close::Rst] {
        for mut bench in [Bench::start().await, Bench::encrypted().await] {
            assert_eq!(bench.peek(), Liveness::Clean);
            assert_eq!(bench.server.kill_connections(how).await, 1);
            // Under TLS a farewell record may hide the FIN: then a round trip has to tell.
            match bench.peek() {
                Liveness::Dead => {}
                Liveness::Dirty => {
                    bench.driver.tidy(&mut bench.conn, Tidy::Rollback).await.unwrap_err();
                }
                Liveness::Clean => panic!("{how:?} was not seen"),
            }
            assert_ne!(bench.peek(), Liveness::Clean);
        }
    }
}

#[tokio::test]
async fn an_open_transaction_is_rolled_back_however_it_was_begun() {
    let mut bench = Bench::start().await;
    bench.conn.simple_query("CREATE TABLE t (a INT)").await.unwrap().into_results().await.unwrap();
    bench.conn.begin_transaction().await.unwrap();
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    let batch = bench.conn.simple_query("BEGIN TRAN; INSERT INTO t VALUES (1)").await.unwrap();
    batch.into_results().await.unwrap();
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    assert_eq!(bench.server.counts().rollbacks, 2);
    assert_eq!(bench.one("SELECT COUNT(*) FROM t").await, 0);
}

#[tokio::test]
async fn a_dropped_query_is_cancelled_and_the_connection_used_again() {
    for mut bench in [Bench::start().await, Bench::encrypted().await] {
        bench.drop_a_query().await;
        assert_eq!(bench.peek(), Liveness::Dirty);
        bench.tidy().await;
        assert_eq!(bench.server.counts().attentions, 1);
        assert_eq!(bench.one("SELECT 8").await, 8);
    }
}

#[tokio::test]
async fn a_half_read_answer_is_tidied_and_the_connection_used_again() {
    let mut bench = Bench::start().await;
    {
        let mut rows = bench.conn.simple_query("SELECT 1; SELECT 2").await.unwrap();
        rows.try_next().await.unwrap();
    }
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    assert_eq!(bench.one("SELECT 3").await, 3);
}

#[tokio::test]
async fn a_server_that_ignores_the_cancellation_costs_the_connection() {
    let server = MssqlServer::launch().await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    let mut bench = through(&proxy, server).await;
    bench.drop_a_query().await;
    proxy.stall();
    let error = bench.driver.tidy(&mut bench.conn, Tidy::Rollback).await.unwrap_err();
    assert!(error.to_string().contains("not acknowledged"), "{error}");
    assert_ne!(bench.peek(), Liveness::Clean);
}

#[tokio::test]
async fn what_runs_on_the_bare_client_is_tidied() {
    let mut bench = Bench::start().await;
    let client: &mut pool_mssql::Client = &mut bench.conn;
    client.simple_query("SELECT 1").await.unwrap().into_results().await.unwrap();
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    let client: &mut pool_mssql::Client = &mut bench.conn;
    drop(client.simple_query("BEGIN TRAN; SELECT 1; SELECT 2").await.unwrap());
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    assert_eq!(bench.one("SELECT @@TRANCOUNT").await, 0);
}

#[tokio::test]
async fn the_isolation_level_does_not_leak() {
    const LEVEL: &str = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions";
    let mut bench = Bench::start().await;
    let level = |row: Option<tiberius::Row>| row.unwrap().get::<i16, _>(0).unwrap();
    for change in
        ["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "set transaction isolation level snapshot"]
    {
        bench.conn.simple_query(change).await.unwrap().into_results().await.unwrap();
        assert_eq!(bench.peek(), Liveness::Dirty);
        bench.tidy().await;
        let row = bench.conn.simple_query(LEVEL).await.unwrap().into_row().await.unwrap();
        assert_eq!(level(row), 2, "READ COMMITTED");
    }
    let serializable = tiberius::IsolationLevel::Serializable;
    bench.conn.begin_transaction_with_isolation(serializable).await.unwrap();
    bench.conn.commit_transaction().await.unwrap();
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    let row = bench.conn.simple_query(LEVEL).await.unwrap().into_row().await.unwrap();
    assert_eq!(level(row), 2, "READ COMMITTED");
}

#[tokio::test]
async fn full_reset_mode_resets_after_every_use_and_falls_back_on_refusal() {
    let server = MssqlServer::launch().await.unwrap();
    let options = options(&server.ado_string()).reset_mode(ResetMode::Full);
    let mut bench = Bench::over(server, &options).await;
    assert_eq!(bench.peek(), Liveness::Clean);
    bench.one("SELECT 1").await;
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    assert_eq!(bench.server.counts().resets, 1);
    bench.conn.begin_transaction().await.unwrap();
    bench.tidy().await;
    assert_eq!((bench.server.counts().resets, bench.server.counts().rollbacks), (2, 1));

    bench.one("SELECT 1").await;
    bench.server.switches().fail_next_requests(1, &SqlError::new(2812, 16));
    bench.tidy().await;
    let log = bench.server.statements();
    assert!(log.last().unwrap().contains("USE [app]"), "{log:?}");
    bench.one("SELECT 1").await;
    bench.tidy().await;
    assert_eq!(bench.server.counts().resets, 2, "not asked again");
}

#[tokio::test]
async fn errors_after_login_are_reported_and_decide_over_the_connection() {
    let table = [
        (SqlError::known(3906), Verdict::Demoted, false),
        (SqlError::known(6005), Verdict::Demoted, false),
        (SqlError::new(596, 21), Verdict::ConnectionLost, false),
        (SqlError::new(50_000, 20), Verdict::ConnectionLost, false),
        (SqlError::new(50_000, 16), Verdict::Statement, true),
        (SqlError::known(1205), Verdict::Statement, true),
    ];
    for (error, verdict, kept) in table {
        let mut bench = Bench::start().await;
        bench.server.switches().fail_next_requests(1, &error);
        let seen = bench.conn.execute("SELECT 1", &[]).await.unwrap_err();
        assert_eq!(seen.code(), Some(error.number()));
        assert_eq!(bench.reports.take(), [verdict], "{error:?}");
        assert_eq!(bench.peek() != Liveness::Dead, kept, "{error:?}");
    }
}

#[tokio::test]
async fn a_statement_has_a_total_time_and_its_connection_survives_it() {
    let server = MssqlServer::launch().await.unwrap();
    let options = options(&server.ado_string()).command_timeout(Some(Duration::from_millis(50)));
    let mut bench = Bench::over(server, &options).await;
    bench.server.switches().set_request_delay(Duration::from_secs(30));
    let error = bench.conn.simple_query("SELECT 1").await.unwrap_err();
    assert!(error.to_string().contains("command timeout"), "{error}");
    bench.server.switches().set_request_delay(Duration::ZERO);
    assert_eq!(bench.reports.take(), [Verdict::Statement]);
    assert_eq!(bench.peek(), Liveness::Dirty);
    bench.tidy().await;
    assert_eq!(bench.one("SELECT 2").await, 2);
}

#[tokio::test]
async fn roles_are_told_by_every_probe() {
    use pool_core::host::Role;
    use pool_mssql::RoleProbe::{Mirroring, PrimaryReplica, Updateability};
    let pair = MirroredPair::start().await.unwrap();
    for kind in [Mirroring, PrimaryReplica, Updateability] {
        let options = options(&pair.ado_string()).role_probe(kind);
        let driver = options.driver().unwrap();
        let host = options.hosts().remove(0);
        let mut conn = driver.connect(request(&host, Access::Host(host.id()))).await.unwrap();
        assert_eq!(driver.probe(&mut conn).await.unwrap().role, Role::Source, "{kind:?}");
        driver.ping(&mut conn).await.unwrap();
        assert_eq!(driver.peek(&mut conn), Liveness::Clean, "{kind:?}");
    }
}

/// A bench whose connection goes through the proxy.
async fn through(proxy: &FaultProxy, server: MssqlServer) -> Bench {
    let text = server.ado_string();
    let at = proxy.addr();
    let options = options(&text).server(&format!("{},{}", at.ip(), at.port())).unwrap();
    Bench::over(server, &options).await
}

#[tokio::test]
async fn a_use_costs_the_round_trips_of_its_statements_and_no_more() {
    let server = MssqlServer::launch().await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    let mut bench = through(&proxy, server).await;
    let before = proxy.counters().round_trips;
    for turn in 0..10 {
        assert_eq!(bench.peek(), Liveness::Clean);
        assert_eq!(bench.one(&format!("SELECT {turn}")).await, turn);
        bench.conn.execute("SELECT @P1", &[&turn]).await.unwrap();
        assert_eq!(bench.peek(), Liveness::Clean);
    }
    assert_eq!(proxy.counters().round_trips - before, 20);
}

#[tokio::test]
async fn a_pooled_use_costs_no_round_trip_more_than_the_bare_client() {
    let server = MssqlServer::launch().await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    let at = format!("{},{}", proxy.addr().ip(), proxy.addr().port());
    let options = options(&server.ado_string()).server(&at).unwrap();
    let pool = options.pool_builder().unwrap().probe_interval(None).build().unwrap();
    drop(pool.get().await.unwrap());
    let before = proxy.counters().round_trips;
    for turn in 0..20 {
        let mut lease = pool.get().await.unwrap();
        lease.query("SELECT @P1", &[&turn]).await.unwrap().into_row().await.unwrap();
    }
    assert_eq!(proxy.counters().round_trips - before, 20);
    assert_eq!(proxy.counters().connections, 1);
}

#[tokio::test]
async fn a_look_at_a_used_connection_allocates_nothing() {
    let mut bench = Bench::start().await;
    bench.one("SELECT 1").await;
    let mut found = Liveness::Dead;
    let allocations = allocation_counter::measure(|| found = bench.driver.peek(&mut bench.conn));
    assert_eq!((found, allocations.count_total), (Liveness::Clean, 0));
}
