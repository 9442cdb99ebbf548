//! Managers written for other pools, as drivers of ours: the failover suite over both databases.

#![allow(clippy::unwrap_used)]

mod interop_support;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use deadpool::managed::{Metrics, RecycleResult};
use interop_support::{Asked, Backend, Kind, OnCluster, OnPair, failover_suite};
use pool_core::builder::PoolBuilder;
use pool_core::failover::Mirrored;
use pool_core::host::{Host, Role};
use pool_core::interop::Foreign;
use pool_core::interop::bb8::Bb8Driver;
use pool_core::interop::deadpool::DeadpoolDriver;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_mssql::tiberius;
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::mysql_async::{self, OptsBuilder};
use pool_tests::mssql::MirroredPair;
use pool_tests::mysql::Cluster;
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

type TdsClient = tiberius::Client<Compat<TcpStream>>;

/// A manager as an application may have written it for `bb8`, long before.
struct TdsManager {
    address: SocketAddr,
    config: tiberius::Config,
}

struct TdsConn {
    client: TdsClient,
    broken: bool,
}

impl TdsConn {
    async fn first(&mut self, sql: &str) -> Result<Option<String>, tiberius::error::Error> {
        self.broken = true;
        let row = self.client.simple_query(sql).await?.into_row().await?;
        self.broken = false;
        Ok(row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned)))
    }
}

impl bb8::ManageConnection for TdsManager {
    type Connection = TdsConn;
    type Error = tiberius::error::Error;

    async fn connect(&self) -> Result<TdsConn, Self::Error> {
        let stream = TcpStream::connect(self.address).await?;
        let client = tiberius::Client::connect(self.config.clone(), stream.compat_write()).await?;
        Ok(TdsConn { client, broken: false })
    }

    async fn is_valid(&self, conn: &mut TdsConn) -> Result<(), Self::Error> {
        conn.first("SELECT 'valid'").await.map(drop)
    }

    fn has_broken(&self, conn: &mut TdsConn) -> bool {
        conn.broken
    }
}

fn tds_verdict(error: &tiberius::error::Error) -> Verdict {
    match error.code() {
        Some(4060 | 954) => Verdict::Inactive,
        Some(18456) => Verdict::Permanent,
        _ => Verdict::ConnectionLost,
    }
}

impl Asked for Bb8Driver<TdsManager> {
    async fn write(conn: &mut Foreign<TdsConn, TdsManager>) -> Result<String, String> {
        let mut write = async || {
            conn.first("INSERT INTO uses VALUES (1)").await?;
            conn.first("SELECT @@SERVERNAME").await
        };
        match write().await {
            Ok(name) => Ok(name.unwrap()),
            Err(error) => {
                conn.report(tds_verdict(&error), &error);
                Err(error.to_string())
            }
        }
    }
}

/// A mirrored pair behind a `bb8` manager.
struct ByBb8Manager(MirroredPair);

impl Backend for ByBb8Manager {
    type Driver = Bb8Driver<TdsManager>;

    async fn start() -> Self {
        Self(OnPair::pair().await)
    }

    fn settings(&self) -> PoolBuilder<Self::Driver> {
        let config = tiberius::Config::from_ado_string(&self.0.a().ado_string()).unwrap();
        let driver = Bb8Driver::new(move |host: &Host| {
            let ip = host.address().parse().unwrap();
            TdsManager { address: SocketAddr::new(ip, host.port()), config: config.clone() }
        });
        let limit = Duration::from_secs(5);
        let host = |address: SocketAddr| Host::new(&address.ip().to_string(), address.port());
        Pool::builder(driver.judge(tds_verdict))
            .host(host(self.0.a().address()))
            .host(host(self.0.b().address()))
            .failover(Mirrored::builder().login_timeout(limit).build().unwrap())
            .acquire_timeout(limit)
            .probe_interval(None)
    }

    fn writer(&self) -> String {
        self.0.server(self.0.principal()).name().to_owned()
    }

    async fn fail_over(&self) {
        self.0.failover().await;
    }

    fn open(&self) -> u64 {
        self.0.a().counts().open_connections + self.0.b().counts().open_connections
    }
}

/// A manager as an application may have written it for `deadpool`. It counts what it made.
struct MySqlManager {
    opts: mysql_async::Opts,
    made: Arc<AtomicUsize>,
}

impl deadpool::managed::Manager for MySqlManager {
    type Type = mysql_async::Conn;
    type Error = mysql_async::Error;

    async fn create(&self) -> Result<mysql_async::Conn, mysql_async::Error> {
        let conn = mysql_async::Conn::new(self.opts.clone()).await?;
        self.made.fetch_add(1, SeqCst);
        Ok(conn)
    }

    async fn recycle(
        &self,
        conn: &mut mysql_async::Conn,
        _: &Metrics,
    ) -> RecycleResult<mysql_async::Error> {
        Ok(conn.ping().await?)
    }
}

fn mysql_verdict(error: &mysql_async::Error) -> Verdict {
    match error {
        mysql_async::Error::Server(error) if error.code == 1290 => Verdict::Demoted,
        mysql_async::Error::Server(_) => Verdict::Statement,
        _ => Verdict::ConnectionLost,
    }
}

impl Asked for DeadpoolDriver<MySqlManager> {
    async fn write(conn: &mut Self::Conn) -> Result<String, String> {
        let mut write = async || {
            conn.query_drop("INSERT INTO uses VALUES (1)").await?;
            conn.query_first::<String, _>("SELECT @@hostname").await
        };
        match write().await {
            Ok(name) => Ok(name.unwrap()),
            Err(error) => {
                conn.report(mysql_verdict(&error), &error);
                Err(error.to_string())
            }
        }
    }
}

/// A MySQL cluster behind a `deadpool` manager.
struct ByDeadpoolManager(Cluster, Arc<AtomicUsize>);

impl ByDeadpoolManager {
    fn driver(&self) -> DeadpoolDriver<MySqlManager> {
        let (user, password) = (self.0.user().to_owned(), self.0.password().to_owned());
        let made = Arc::clone(&self.1);
        let driver = DeadpoolDriver::new(move |host: &Host| {
            let opts = OptsBuilder::default()
                .ip_or_hostname(host.address())
                .tcp_port(host.port())
                .user(Some(&user))
                .pass(Some(&password))
                .db_name(Some("test"))
                .prefer_socket(false);
            MySqlManager { opts: opts.into(), made: Arc::clone(&made) }
        });
        driver.judge(mysql_verdict).ask_role(|conn| {
            Box::pin(async move {
                let read_only: Option<u8> = conn.query_first("SELECT @@read_only").await?;
                Ok(if read_only == Some(0) { Role::Source } else { Role::Replica })
            })
        })
    }

    fn pool(
        &self,
        driver: DeadpoolDriver<MySqlManager>,
    ) -> PoolBuilder<DeadpoolDriver<MySqlManager>> {
        let hosts = self.0.hosts().map(|host| Host::new("127.0.0.1", host.port()));
        Pool::builder(driver).hosts(hosts)
    }
}

impl Backend for ByDeadpoolManager {
    type Driver = DeadpoolDriver<MySqlManager>;

    async fn start() -> Self {
        Self(OnCluster::cluster().await, Arc::default())
    }

    fn settings(&self) -> PoolBuilder<Self::Driver> {
        self.pool(self.driver().trust_returns())
    }

    fn writer(&self) -> String {
        format!("db{}", self.0.source().index() + 1)
    }

    async fn fail_over(&self) {
        OnCluster::crash_source(&self.0).await;
    }

    fn open(&self) -> u64 {
        self.0.hosts().map(|host| host.counters().open).sum()
    }
}

failover_suite!(a_bb8_manager_on_a_mirrored_pair, Kind::Ours, ByBb8Manager);
failover_suite!(a_deadpool_manager_on_a_mysql_cluster, Kind::Ours, ByDeadpoolManager);

#[tokio::test]
async fn a_returned_connection_is_closed_unless_returns_are_trusted() {
    let backend = ByDeadpoolManager::start().await;
    for trusted in [false, true] {
        backend.1.store(0, SeqCst);
        let driver = backend.driver();
        let driver = if trusted { driver.trust_returns() } else { driver };
        let pool = backend.pool(driver).probe_interval(None).max_size(1).build().unwrap();
        for _ in 0..3 {
            let mut lease = pool.get().await.unwrap();
            lease.query_drop("SELECT 1").await.unwrap();
        }
        assert_eq!(backend.1.load(SeqCst), if trusted { 1 } else { 3 });
    }
}

#[tokio::test]
async fn an_abandoned_statement_is_read_away_before_the_next_caller() {
    let backend = ByDeadpoolManager::start().await;
    let driver = backend.driver().trust_returns();
    let pool = backend.pool(driver).probe_interval(None).max_size(1).build().unwrap();
    for n in 0..20 {
        let mut lease = pool.get().await.unwrap();
        drop(lease.query_iter("SELECT 1 UNION SELECT 2").await.unwrap());
        drop(lease);
        let mut lease = pool.get().await.unwrap();
        let sql = format!("SELECT {n}");
        assert_eq!(lease.query_first::<u32, _>(sql).await.unwrap(), Some(n));
    }
}

#[tokio::test]
async fn a_connection_says_which_role_its_server_has() {
    let backend = ByDeadpoolManager::start().await;
    let pool = backend.pool(backend.driver()).build().unwrap();
    let replica = pool.get_read().await.unwrap();
    let source = pool.get().await.unwrap();
    assert_eq!(source.host().port(), backend.0.host(0).port());
    assert_ne!(replica.host().port(), 0);
    backend.0.promote(1).await.unwrap();
    drop((source, replica));
    // Nobody reports anything: the role is asked at the next probe.
    let port = backend.0.host(1).port();
    let moved = async {
        while pool.status().writer().is_none_or(|writer| !writer.name.ends_with(&port.to_string()))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(interop_support::SOON, moved).await.unwrap();
}

impl fmt::Debug for TdsManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TdsManager").field("address", &self.address).finish_non_exhaustive()
    }
}
