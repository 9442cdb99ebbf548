//! The MySQL driver and pools made from URLs, on the embedded cluster: round trips, reuse, notice.

#![allow(clippy::unwrap_used)]

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Error, OptsBuilder, TxOpts};
use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Driver, Lag, Liveness, Report, Reporter, Tidy};
use pool_core::event::Event;
use pool_core::host::{Host, HostId, Role};
use pool_core::verdict::Verdict;
use pool_mysql::{
    Conn, LagSource, MySql, MySqlOptions, OpenError, ReadOnlySessions, is_not_writable,
};
use pool_tests::mysql::Cluster;
use pool_tests::proxy::FaultProxy;
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Reports(Mutex<Vec<Verdict>>);

impl Report for Reports {
    fn report(&self, verdict: Verdict, _message: &dyn Display) {
        self.0.lock().unwrap().push(verdict);
    }
}

fn driver(cluster: &Cluster) -> MySql {
    let base = OptsBuilder::default().user(Some(cluster.user())).pass(Some(cluster.password()));
    MySql::new(base.db_name(Some("test")))
}

async fn open(driver: &MySql, port: u16, id: u32, reports: &Arc<Reports>) -> Conn {
    let host = Host::new("127.0.0.1", port).with_id(HostId::new(id));
    let request = ConnectRequest {
        host: &host,
        // The first host of the list is the source.
        access: if id == 0 { Access::Write } else { Access::Read },
        deadline: Instant::now() + SOON,
        reporter: Reporter::new(reports.clone()),
    };
    driver.connect(request).await.unwrap()
}

fn options(cluster: &Cluster) -> MySqlOptions {
    MySqlOptions::from_url(&cluster.url("test")).unwrap()
}

#[tokio::test]
async fn a_connect_takes_no_round_trip_beyond_the_login() {
    let cluster = Cluster::start(1).await.unwrap();
    let proxy = FaultProxy::start(cluster.host(0).addr()).await.unwrap();
    let reports = Arc::new(Reports::default());
    let driver = driver(&cluster);
    let mut conn = open(&driver, proxy.addr().port(), 0, &reports).await;
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    let login = proxy.counters().round_trips;
    assert_eq!(cluster.host(0).counters().statements, 0);

    // What the driver's own default does: one round trip more, for its settings.
    let opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(proxy.addr().port())
        .user(Some(cluster.user()))
        .pass(Some(cluster.password()))
        .db_name(Some("test"))
        .prefer_socket(false);
    let _plain = mysql_async::Conn::new(opts).await.unwrap();
    assert_eq!(proxy.counters().round_trips, 2 * login + 1);
    assert_eq!(cluster.host(0).counters().statements, 1);
}

#[tokio::test]
async fn looking_at_a_connection_takes_no_round_trip() {
    let cluster = Cluster::start(1).await.unwrap();
    let proxy = FaultProxy::start(cluster.host(0).addr()).await.unwrap();
    let reports = Arc::new(Reports::default());
    let driver = driver(&cluster);
    let mut conn = open(&driver, proxy.addr().port(), 0, &reports).await;
    conn.query_drop("SELECT 1").await.unwrap();
    let before = proxy.counters();
    for _ in 0..100 {
        assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    }
    drop(conn.query_iter("SELECT 1 UNION SELECT 2").await.unwrap());
    assert_eq!(driver.peek(&mut conn), Liveness::Dirty);
    assert_eq!(proxy.counters().round_trips, before.round_trips + 1);
}

#[tokio::test]
async fn a_session_on_a_secondary_costs_one_statement_at_connect_and_none_later() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    // The server itself would take writes: only the session refuses them.
    cluster.host(1).set_read_only(false);
    let which = ReadOnlySessions { on_secondaries: true, ..ReadOnlySessions::default() };
    let driver = driver(&cluster).with_read_only_sessions(which);
    let reports = Arc::new(Reports::default());
    let _source = open(&driver, cluster.host(0).port(), 0, &reports).await;
    let mut conn = open(&driver, cluster.host(1).port(), 1, &reports).await;
    assert_eq!(cluster.host(0).counters().statements, 0);
    assert_eq!(cluster.host(1).counters().statements, 1);

    for how in [Tidy::Rollback, Tidy::Full, Tidy::Rollback] {
        let refused = conn.query_drop("INSERT INTO t VALUES (1)").await.unwrap_err();
        assert!(matches!(&refused, Error::Server(error) if error.code == 1792), "{refused}");
        assert!(is_not_writable(&refused));
        driver.tidy(&mut conn, how).await.unwrap();
        assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    }
    assert!(reports.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_clean_up_rolls_back_and_keeps_prepared_statements() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let reports = Arc::new(Reports::default());
    let driver = driver(&cluster);
    let mut conn = open(&driver, cluster.host(0).port(), 0, &reports).await;
    for id in 1..=3 {
        let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
        transaction.exec_drop("INSERT INTO t VALUES (?)", (id,)).await.unwrap();
        drop(transaction);
        assert_eq!(driver.peek(&mut conn), Liveness::Dirty);
        driver.tidy(&mut conn, Tidy::Rollback).await.unwrap();
        assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    }
    // One that the driver knows nothing of.
    conn.query_drop("BEGIN").await.unwrap();
    conn.exec_drop("INSERT INTO t VALUES (?)", (4,)).await.unwrap();
    assert_eq!(driver.peek(&mut conn), Liveness::Dirty);
    driver.tidy(&mut conn, Tidy::Rollback).await.unwrap();
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    assert_eq!(cluster.host(0).counters().prepares, 1);
    assert_eq!(cluster.host(0).counters().resets, 0);
    assert_eq!(cluster.query("SELECT COUNT(*) FROM t").await.unwrap()[0][0], 0.into());

    driver.tidy(&mut conn, Tidy::Full).await.unwrap();
    conn.exec_drop("INSERT INTO t VALUES (?)", (4,)).await.unwrap();
    assert_eq!(cluster.host(0).counters().resets, 1);
    assert_eq!(cluster.host(0).counters().prepares, 2);
}

#[tokio::test]
async fn nobody_sees_the_rows_of_an_abandoned_statement() {
    let cluster = Cluster::start(1).await.unwrap();
    let pool = options(&cluster).max_pool_size(2).pool_builder().unwrap().build().unwrap();
    for round in 0..100_u32 {
        let mut lease = pool.get().await.unwrap();
        let abandoned = lease.query_first::<u32, _>("SELECT SLEEP(30)");
        assert!(timeout(Duration::from_millis(2), abandoned).await.is_err());
        drop(lease);
        let mut lease = pool.get().await.unwrap();
        let sql = format!("SELECT {}", round + 1000);
        let answer: Option<u32> = timeout(SOON, lease.query_first(sql)).await.unwrap().unwrap();
        assert_eq!(answer, Some(round + 1000));
    }
}

#[tokio::test]
async fn a_demoted_source_is_noticed_by_the_statement_that_it_refuses() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let options = options(&cluster).fail_over_read_only(false).probe_interval(SOON * 10);
    let pool = options.open().await.unwrap();
    let mut lease = pool.get().await.unwrap();
    let first = lease.host().name().to_owned();
    let mut events = pool.events();

    cluster.promote(1).await.unwrap();
    let refused = lease.query_drop("INSERT INTO t VALUES (1)").await.unwrap_err();
    assert!(is_not_writable(&refused), "{refused}");
    // Before the lease is back, and long before the next probe.
    let demoted = async {
        loop {
            if let Event::Demoted { host } = events.recv().await.unwrap() {
                return host;
            }
        }
    };
    assert_eq!(*timeout(SOON, demoted).await.unwrap(), *first);
    drop(lease);
    let mut lease = pool.get().await.unwrap();
    assert_ne!(lease.host().name(), first);
    lease.query_drop("INSERT INTO t VALUES (1)").await.unwrap();
}

#[tokio::test]
async fn a_replica_that_refuses_a_write_is_not_demoted() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let options = options(&cluster).fail_over_read_only(false).probe_interval(SOON * 10);
    let pool = options.open().await.unwrap();
    let replica = pool.status().hosts[1].name.clone();
    let probed = async {
        while pool.status().hosts[1].role != Role::Replica {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, probed).await.unwrap();
    let mut idle = pool.get_host(&replica).await.unwrap();
    let mut lease = pool.get_host(&replica).await.unwrap();
    let id = idle.id();
    idle.query_drop("SELECT 1").await.unwrap();
    drop(idle);

    let refused = lease.query_drop("INSERT INTO t VALUES (1)").await.unwrap_err();
    assert!(is_not_writable(&refused), "{refused}");
    drop(lease);
    let status = pool.status();
    assert_eq!((status.hosts[1].role, status.hosts[1].generation), (Role::Replica, 0));
    assert_eq!(pool.get_host(&replica).await.unwrap().id(), id, "the idle connection was voided");
}

#[tokio::test]
async fn probes_tell_role_and_lag() {
    let cluster = Cluster::start(2).await.unwrap();
    let reports = Arc::new(Reports::default());
    let driver = driver(&cluster).with_lag_source(LagSource::Status);
    let mut source = open(&driver, cluster.host(0).port(), 0, &reports).await;
    let mut replica = open(&driver, cluster.host(1).port(), 1, &reports).await;
    let probe = driver.probe(&mut source).await.unwrap();
    assert_eq!((probe.role, probe.lag), (Role::Source, Lag::NotAsked));
    let probe = driver.probe(&mut replica).await.unwrap();
    assert_eq!((probe.role, probe.lag), (Role::Replica, Lag::Known(Duration::ZERO)));
    cluster.host(1).set_lag(Some(Duration::from_secs(7))).await.unwrap();
    let probe = driver.probe(&mut replica).await.unwrap();
    assert_eq!(probe.lag, Lag::Known(Duration::from_secs(7)));
    cluster.host(1).stop_replication().await.unwrap();
    assert_eq!(driver.probe(&mut replica).await.unwrap().lag, Lag::Unknown);
    for conn in [&mut source, &mut replica] {
        assert_eq!(driver.peek(conn), Liveness::Clean);
    }
}

#[tokio::test]
async fn a_pool_opens_without_a_side_only_if_that_is_allowed() {
    let cluster = Cluster::start(3).await.unwrap();
    let url = cluster.url("test").replacen("mysql://", "mysql:replication://", 1);
    let base = MySqlOptions::from_url(&url)
        .unwrap()
        .connect_timeout(Duration::from_millis(500))
        .acquire_timeout(Duration::from_secs(3));
    base.open().await.unwrap();

    for replica in [1, 2] {
        cluster.host(replica).refuse().await;
    }
    assert!(matches!(base.open().await, Err(OpenError::Pool(_))));
    base.clone().allow_replica_down_connections(true).open().await.unwrap();
    assert!(base.clone().allow_source_down_connections(true).open().await.is_err());

    cluster.host(2).start().await.unwrap();
    cluster.host(0).refuse().await;
    assert!(base.open().await.is_err());
    let pool = base.clone().allow_source_down_connections(true).open().await.unwrap();
    assert_eq!(pool.get_read().await.unwrap().host().port(), cluster.host(2).port());
    assert!(base.clone().allow_replica_down_connections(true).open().await.is_err());

    cluster.host(2).refuse().await;
    let all = base.clone().allow_source_down_connections(true).allow_replica_down_connections(true);
    assert!(all.open().await.is_err());
}

#[tokio::test]
async fn an_ordered_list_opens_while_any_host_is_there() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.host(0).refuse().await;
    let options = options(&cluster).acquire_timeout(Duration::from_secs(3));
    let pool = options.open().await.unwrap();
    assert_eq!(pool.get_read().await.unwrap().host().port(), cluster.host(1).port());
    cluster.host(1).refuse().await;
    assert!(options.retries_all_down(1).open().await.is_err());
}
