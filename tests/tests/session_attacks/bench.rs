//! An embedded cluster, a pool on it, and who ran what.

use std::future::Future;
use std::time::Duration;

use pool_core::failover::SessionOptions;
use pool_core::route::StatementRouter;
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::{Lease, MySqlOptions, Pool, Session};
use pool_tests::mysql::{Cluster, LoggedStatement};
use pool_tests::roles_are_known;

/// Longer than anything here takes on a slow machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) pool: Pool,
    pub(crate) session: Session,
}

impl Bench {
    /// A source, two replicas, and a session on the pool's defaults.
    pub(crate) async fn new() -> Self {
        Self::with(3, "", StatementRouter::default()).await
    }

    pub(crate) async fn with(hosts: usize, keys: &str, router: StatementRouter) -> Self {
        Self::set_up(hosts, keys, router, |options| options).await
    }

    pub(crate) async fn set_up(
        hosts: usize,
        keys: &str,
        router: StatementRouter,
        set: impl FnOnce(MySqlOptions) -> MySqlOptions,
    ) -> Self {
        let cluster = Cluster::start(hosts).await.unwrap();
        cluster.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)").await.unwrap();
        cluster.log_statements(true);
        let url = format!("{}?probeInterval=100&{keys}", cluster.url("app"));
        let options = set(MySqlOptions::from_url(url.trim_end_matches('&')).unwrap());
        let pool = options.pool_builder().unwrap().router(router).build().unwrap();
        roles_are_known(&pool).await;
        let session = Session::new(&pool, options.session_options().unwrap());
        let mut bench = Self { cluster, pool, session };
        bench.session = bench.fresh();
        bench
    }

    /// Another session, that routes its statements.
    pub(crate) fn fresh(&self) -> Session {
        Session::new(&self.pool, SessionOptions::default())
    }

    pub(crate) fn name(&self, host: usize) -> String {
        self.cluster.host(host).addr().to_string()
    }

    pub(crate) async fn run(&mut self, sql: &str) {
        self.session.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let number = self.session.query_first(sql).await;
        number.unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap()
    }

    /// Runs a marked read; the host that served it.
    pub(crate) async fn read(&mut self) -> usize {
        let before = self.cluster.statements().len();
        let _ = self.number("SELECT COUNT(*) AS marked FROM t").await;
        let log = self.cluster.statements();
        let mut ran = log[before..].iter().filter(|line| line.text.contains("marked"));
        let host = ran.next().unwrap().host;
        assert!(ran.next().is_none(), "it ran once");
        host
    }

    /// What got to the servers with this in its text.
    pub(crate) fn log(&self, text: &str) -> Vec<LoggedStatement> {
        let log = self.cluster.statements();
        log.into_iter().filter(|line| line.text.contains(text)).collect()
    }

    /// The hosts that got a text with this in it.
    pub(crate) fn hosts(&self, text: &str) -> Vec<usize> {
        self.log(text).iter().map(|line| line.host).collect()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.pool.status().hosts.iter().map(|host| host.counts.in_use).sum()
    }
}

/// Waits for something that happens by itself.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let holds = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(what, holds).await;
}

/// Fails if it takes for ever.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(SOON, work).await;
    done.unwrap_or_else(|_| panic!("for ever: {what}"))
}

/// Nobody finds anything of the session on a connection of the pool, or on a server.
pub(crate) async fn left_nothing(bench: &Bench, why: &str) {
    for host in 0..3 {
        let name = bench.name(host);
        let idle = bench.pool.status().hosts[host].counts;
        let mut leases = Vec::new();
        for _ in 0..(idle.idle + idle.tending).max(1) {
            let mut lease = bench.pool.get_host(&name).await.unwrap();
            assert_eq!(lease.in_transaction(), Some(false), "{why}");
            let variable: Option<Option<i64>> = lease.query_first("SELECT @a").await.unwrap();
            assert_eq!(variable.flatten(), None, "{why}");
            let autocommit: Option<i64> = lease.query_first("SELECT @@autocommit").await.unwrap();
            assert_eq!(autocommit, Some(1), "{why}");
            for table in ["xa", "xb"] {
                let table = lease.query_drop(format!("SELECT * FROM {table}")).await;
                assert!(table.is_err(), "{why}");
            }
            lease.query_drop("SELECT 1").await.unwrap();
            leases.push(lease);
        }
        for name in ['a', 'b'] {
            free(&mut leases[0], name, why).await;
        }
    }
}

/// Waits until nobody holds the named lock, not even the connection that asks.
pub(crate) async fn free(lease: &mut Lease, name: char, why: &str) {
    let free = async {
        let sql = format!("SELECT IS_USED_LOCK('{name}')");
        while lease.query_first::<Option<i64>, _>(&sql).await.unwrap().flatten().is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(why, free).await;
}
