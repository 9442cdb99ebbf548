//! One failover suite for every pool: ours, `bb8`'s and `deadpool`'s, over any cluster that fails over.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pool_core::builder::PoolBuilder;
use pool_core::driver::Driver;
use pool_core::event::Event;
use pool_core::interop::FailoverManager;
use pool_core::pool::Pool;
use pool_mssql::{MsSql, MsSqlOptions};
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::{MySql, MySqlOptions};
use pool_tests::mssql::MirroredPair;
use pool_tests::mysql::Cluster;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// What connects here, and how its connections are used.
pub(crate) trait Asked: Driver {
    /// Writes something and answers which server took it.
    fn write(conn: &mut Self::Conn) -> impl Future<Output = Result<String, String>> + Send;
}

impl Asked for MsSql {
    async fn write(conn: &mut Self::Conn) -> Result<String, String> {
        let text = |error: pool_mssql::tiberius::error::Error| error.to_string();
        conn.execute("INSERT INTO uses VALUES (1)", &[]).await.map_err(text)?;
        let row = conn.simple_query("SELECT @@SERVERNAME").await.map_err(text)?;
        let row = row.into_row().await.map_err(text)?.unwrap();
        Ok(row.get::<&str, _>(0).unwrap().to_owned())
    }
}

impl Asked for MySql {
    async fn write(conn: &mut Self::Conn) -> Result<String, String> {
        let text = |error: pool_mysql::mysql_async::Error| error.to_string();
        conn.query_drop("INSERT INTO uses VALUES (1)").await.map_err(text)?;
        let name: Option<String> = conn.query_first("SELECT @@hostname").await.map_err(text)?;
        Ok(name.unwrap())
    }
}

/// A cluster of two that fails over.
pub(crate) trait Backend: Send + Sync + Sized + 'static {
    type Driver: Asked;

    fn start() -> impl Future<Output = Self> + Send;
    fn settings(&self) -> PoolBuilder<Self::Driver>;
    /// The name of the server that takes writes.
    fn writer(&self) -> String;
    /// The other server takes over; the connections to the old one end.
    fn fail_over(&self) -> impl Future<Output = ()> + Send;
    /// Connections that the servers hold.
    fn open(&self) -> u64;
}

/// A mirrored pair behind the SQL Server driver.
pub(crate) struct OnPair(pub(crate) MirroredPair);

impl OnPair {
    pub(crate) async fn pair() -> MirroredPair {
        let pair = MirroredPair::start().await.unwrap();
        let options = MsSqlOptions::from_ado(&pair.a().ado_string()).unwrap();
        let pool = options.pool_builder().unwrap().probe_interval(None).build().unwrap();
        let mut lease = pool.get().await.unwrap();
        lease.execute("CREATE TABLE uses (n INT)", &[]).await.unwrap();
        drop((lease, pool));
        pair.a().wait_for(SOON, |counts| counts.open_connections == 0).await.unwrap();
        pair
    }
}

impl Backend for OnPair {
    type Driver = MsSql;

    async fn start() -> Self {
        Self(Self::pair().await)
    }

    fn settings(&self) -> PoolBuilder<MsSql> {
        MsSqlOptions::from_ado(&self.0.ado_string()).unwrap().pool_builder().unwrap()
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

/// A MySQL cluster behind the MySQL driver.
pub(crate) struct OnCluster(pub(crate) Cluster);

impl OnCluster {
    pub(crate) async fn cluster() -> Cluster {
        let cluster = Cluster::start(2).await.unwrap();
        cluster.execute("CREATE TABLE uses (n INT)").await.unwrap();
        cluster
    }

    /// The source crashes, and the replica is promoted. The one that crashed before is back as a replica.
    pub(crate) async fn crash_source(cluster: &Cluster) {
        let old = cluster.source();
        let new = cluster.host(1 - old.index());
        new.start().await.unwrap();
        old.stop().await;
        cluster.promote(new.index()).await.unwrap();
    }
}

impl Backend for OnCluster {
    type Driver = MySql;

    async fn start() -> Self {
        Self(Self::cluster().await)
    }

    fn settings(&self) -> PoolBuilder<MySql> {
        let options = MySqlOptions::from_url(&self.0.url("test")).unwrap();
        options.fail_over_read_only(false).pool_builder().unwrap()
    }

    fn writer(&self) -> String {
        format!("db{}", self.0.source().index() + 1)
    }

    async fn fail_over(&self) {
        Self::crash_source(&self.0).await;
    }

    fn open(&self) -> u64 {
        self.0.hosts().map(|host| host.counters().open).sum()
    }
}

/// Whose pool holds the connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bb8,
    Deadpool,
    Ours,
}

/// A pool of one of the kinds.
enum AnyPool<D: Driver> {
    Bb8(bb8::Pool<FailoverManager<D>>),
    Deadpool(deadpool::managed::Pool<FailoverManager<D>>),
    Ours(Pool<D>),
}

struct Under<D: Driver> {
    pool: AnyPool<D>,
    /// Who walks.
    core: Pool<D>,
}

/// Why a use failed.
#[derive(Debug)]
enum Failed {
    /// No connection was handed out.
    Get(String),
    /// The one that was handed out failed.
    Use(String),
}

impl<D: Asked> Under<D> {
    fn build(kind: Kind, settings: PoolBuilder<D>, size: usize) -> Self {
        if let Kind::Ours = kind {
            let core = settings.max_size(size).build().unwrap();
            return Self { pool: AnyPool::Ours(core.clone()), core };
        }
        let manager = FailoverManager::new(settings).unwrap();
        let core = manager.pool().clone();
        let pool = match kind {
            Kind::Bb8 => AnyPool::Bb8(
                bb8::Pool::builder()
                    .max_size(u32::try_from(size).unwrap())
                    .connection_timeout(SOON)
                    .build_unchecked(manager),
            ),
            _ => {
                let builder = deadpool::managed::Pool::builder(manager).max_size(size);
                AnyPool::Deadpool(builder.build().unwrap())
            }
        };
        Self { pool, core }
    }

    async fn write(&self) -> Result<String, Failed> {
        let get = |error: String| Failed::Get(error);
        match &self.pool {
            AnyPool::Bb8(pool) => {
                let mut conn = pool.get().await.map_err(|error| get(format!("{error:?}")))?;
                D::write(&mut conn).await
            }
            AnyPool::Deadpool(pool) => {
                let mut conn = pool.get().await.map_err(|error| get(error.to_string()))?;
                D::write(&mut conn).await
            }
            AnyPool::Ours(pool) => {
                let mut conn = pool.get().await.map_err(|error| get(error.to_string()))?;
                D::write(&mut conn).await
            }
        }
        .map_err(Failed::Use)
    }
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Writes until the server that takes writes has taken one; answers the failures on the way.
async fn reach<D: Asked>(under: &Under<D>, writer: &str) -> usize {
    let mut failures = 0;
    let reached = async {
        loop {
            match under.write().await {
                Ok(name) if name == writer => return,
                Ok(name) => panic!("{name} took a write that belongs to {writer}"),
                Err(Failed::Use(_)) => failures += 1,
                Err(Failed::Get(error)) => panic!("{error}"),
            }
        }
    };
    timeout(SOON, reached).await.unwrap();
    failures
}

/// There and back, again and again; in the end every connection is closed.
pub(crate) async fn follows_there_and_back_and_leaks_nothing<B: Backend>(kind: Kind) {
    const SIZE: usize = 4;
    let backend = B::start().await;
    let under = Under::build(kind, backend.settings(), SIZE);
    reach(&under, &backend.writer()).await;
    for turn in 0..10 {
        backend.fail_over().await;
        let failures = reach(&under, &backend.writer()).await;
        assert!(failures <= SIZE, "{failures} dead connections were handed out in turn {turn}");
    }
    drop(under);
    eventually("every connection is closed", || backend.open() == 0).await;
}

/// Many tasks, one walk: after the first failure nothing dead and nothing old is handed out.
pub(crate) async fn fails_over_once_for_every_task<B: Backend>(kind: Kind) {
    const SIZE: usize = 8;
    const TASKS: usize = 32;
    let backend = B::start().await;
    let under = Arc::new(Under::build(kind, backend.settings(), SIZE));
    reach(&under, &backend.writer()).await;
    let mut events = under.core.events();
    let (failed, used) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let old = backend.writer();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (under, failed, used) = (Arc::clone(&under), Arc::clone(&failed), Arc::clone(&used));
        let old = old.clone();
        tasks.spawn(async move {
            let mut moved = 0;
            while moved < 5 {
                // Read before the checkout begins: whatever it gets was handed out after the failure.
                let after_failure = failed.load(SeqCst);
                let result = under.write().await;
                used.fetch_add(1, SeqCst);
                match result {
                    Ok(name) if name == old => assert!(!after_failure, "{name} came back"),
                    Ok(_) => moved += 1,
                    Err(Failed::Use(error)) => {
                        assert!(!after_failure, "a dead connection was handed out: {error}");
                        failed.store(true, SeqCst);
                    }
                    Err(Failed::Get(error)) => panic!("{error}"),
                }
            }
        });
    }
    // `bb8` serves whoever asks last: a task may get its first connection only when others are done.
    eventually("the pool is in use", || used.load(SeqCst) >= 5 * TASKS).await;
    backend.fail_over().await;
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    timeout(SOON, all).await.expect("every task is served by the new server");
    let moved: Vec<_> = std::iter::from_fn(|| events.try_recv().ok())
        .filter_map(|event| match event {
            Event::Failover { to, .. } | Event::ReturnedToSource { to, .. } => Some(to),
            _ => None,
        })
        .collect();
    assert_eq!(moved.len(), 1, "{moved:?}");
}

/// The suite for one pool over one cluster.
macro_rules! failover_suite {
    ($name:ident, $kind:expr, $backend:ty) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn follows_there_and_back_and_leaks_nothing() {
                interop_support::follows_there_and_back_and_leaks_nothing::<$backend>($kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn fails_over_once_for_every_task() {
                interop_support::fails_over_once_for_every_task::<$backend>($kind).await;
            }
        }
    };
}
pub(crate) use failover_suite;
