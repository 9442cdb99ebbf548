//! What the pool costs on the wire, counted by a proxy between it and a server.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use pool_core::builder::PoolBuilder;
use pool_mysql::{MySql, MySqlOptions, Pool};
use pool_tests::mysql::Cluster;
use pool_tests::proxy::{FaultProxy, ProxyCounters};
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(600);

struct Bench {
    cluster: Cluster,
    proxy: FaultProxy,
}

impl Bench {
    async fn start() -> Self {
        let cluster = Cluster::start(1).await.unwrap();
        let proxy = FaultProxy::start(cluster.host(0).addr()).await.unwrap();
        Self { cluster, proxy }
    }

    fn url(&self) -> String {
        let (user, password) = (self.cluster.user(), self.cluster.password());
        format!("mysql://{user}:{password}@{}/test", self.proxy.addr())
    }

    /// A pool that sends nothing of its own accord.
    fn builder(&self) -> PoolBuilder<MySql> {
        let options = MySqlOptions::from_url(&self.url()).unwrap();
        let builder = options.pool_builder().unwrap().probe_interval(None);
        builder.bypass_window(LONG).keepalive(LONG)
    }

    /// What goes over the wire meanwhile.
    async fn cost(&self, work: impl Future<Output = ()>) -> Cost {
        let before = self.proxy.counters();
        timeout(LONG, work).await.unwrap();
        Cost::between(&before, &self.proxy.counters())
    }
}

#[derive(Debug, PartialEq)]
struct Cost {
    connections: u64,
    round_trips: u64,
    bytes: u64,
}

impl Cost {
    const NOTHING: Self = Self { connections: 0, round_trips: 0, bytes: 0 };

    fn between(before: &ProxyCounters, after: &ProxyCounters) -> Self {
        Self {
            connections: after.connections - before.connections,
            round_trips: after.round_trips - before.round_trips,
            bytes: after.to_server + after.to_client - before.to_server - before.to_client,
        }
    }
}

async fn warm(pool: &Pool) {
    let mut lease = pool.get().await.unwrap();
    let _: Option<i64> = lease.exec_first("SELECT 1 + ?", (1,)).await.unwrap();
}

#[tokio::test]
async fn a_lease_of_an_idle_connection_sends_nothing() {
    let bench = Bench::start().await;
    let pool = bench.builder().build().unwrap();
    warm(&pool).await;
    let cost = bench
        .cost(async {
            for _ in 0..100 {
                drop(pool.get().await.unwrap());
                drop(pool.get_read().await.unwrap());
            }
        })
        .await;
    // Bytes that are under way arrive before the answer to a ping that follows them.
    assert_eq!(cost, Cost::NOTHING);
    let ping = bench.cost(async { pool.get().await.unwrap().ping().await.unwrap() }).await;
    assert_eq!((ping.connections, ping.round_trips), (0, 1));
    let again = bench.cost(async { pool.get().await.unwrap().ping().await.unwrap() }).await;
    assert_eq!(again, ping);
}

#[tokio::test]
async fn a_prepared_statement_is_one_round_trip_in_every_lease_but_the_first() {
    let bench = Bench::start().await;
    let pool = bench.builder().build().unwrap();
    warm(&pool).await;
    let cost = bench
        .cost(async {
            for _ in 0..20 {
                warm(&pool).await;
            }
        })
        .await;
    assert_eq!((cost.connections, cost.round_trips), (0, 20));
    assert_eq!(bench.cluster.host(0).counters().prepares, 1);
}

#[tokio::test]
async fn a_new_connection_costs_what_the_driver_needs_for_a_login() {
    let bench = Bench::start().await;
    let opts = OptsBuilder::from_opts(Opts::from_url(&bench.url()).unwrap())
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 20))
        .wait_timeout(Some(60));
    // The first login with this user may take longer than all later ones.
    Conn::new(opts.clone()).await.unwrap().disconnect().await.unwrap();
    // Its goodbye is not to count among what follows.
    let gone = async {
        while bench.proxy.counters().open > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(30), gone).await.unwrap();
    let mut conn = None;
    let least = bench.cost(async { conn = Some(Conn::new(opts).await.unwrap()) }).await;
    let pool = bench.builder().build().unwrap();
    let mut lease = None;
    let cost = bench.cost(async { lease = Some(pool.get().await.unwrap()) }).await;
    assert_eq!((cost.connections, cost.round_trips), (1, least.round_trips));
    assert_eq!(bench.cluster.host(0).counters().statements, 0);
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_costs_one_round_trip_to_check() {
    let bench = Bench::start().await;
    let pool = bench.builder().bypass_window(Duration::ZERO).build().unwrap();
    warm(&pool).await;
    // Its age is counted in whole steps of the pool's clock.
    sleep(Duration::from_millis(50)).await;
    for _ in 0..3 {
        let cost = bench.cost(async { drop(pool.get().await.unwrap()) }).await;
        assert_eq!((cost.connections, cost.round_trips), (0, 1));
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bench.cluster.host(0).counters().pings, 3);
}

#[tokio::test]
async fn an_open_transaction_costs_one_round_trip_when_it_is_given_back() {
    let bench = Bench::start().await;
    let pool = bench.builder().max_size(1).build().unwrap();
    warm(&pool).await;
    let cost = bench
        .cost(async {
            let mut lease = pool.get().await.unwrap();
            lease.query_drop("BEGIN").await.unwrap();
            drop(lease);
            // Waits for the tidying, and gets the same connection.
            drop(pool.get().await.unwrap());
        })
        .await;
    assert_eq!((cost.connections, cost.round_trips), (0, 2));
    assert_eq!(bench.cluster.host(0).counters().rollbacks, 1);
}

#[tokio::test]
async fn a_reset_of_every_used_connection_is_one_round_trip_and_none_of_an_unused_one() {
    let bench = Bench::start().await;
    let options = MySqlOptions::from_url(&bench.url()).unwrap();
    let options = options.reset_mode(pool_mysql::ResetMode::Full);
    let builder = options.pool_builder().unwrap().probe_interval(None);
    let pool = builder.max_size(1).bypass_window(LONG).keepalive(LONG).build().unwrap();
    drop(pool.get().await.unwrap());
    let unused = bench
        .cost(async {
            drop(pool.get().await.unwrap());
            drop(pool.get().await.unwrap());
        })
        .await;
    assert_eq!(unused, Cost::NOTHING);
    let used = bench
        .cost(async {
            pool.get().await.unwrap().query_drop("SELECT 1").await.unwrap();
            drop(pool.get().await.unwrap());
        })
        .await;
    assert_eq!((used.connections, used.round_trips), (0, 2));
    assert_eq!(bench.cluster.host(0).counters().resets, 1);
}
