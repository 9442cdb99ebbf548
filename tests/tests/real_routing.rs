//! Routing on real MySQL: lag, own writes, and taking a replica out under load.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::balance::RoundRobin;
use pool_core::builder::PoolBuilder;
use pool_core::event::Event;
use pool_core::host::DEFAULT_WEIGHT;
use pool_mysql::{Consistency, LagSource, MySql, MySqlOptions, Pool, Statements};
use pool_tests::real::{self, MySqlCluster, Server};

const DELAY: Duration = Duration::from_secs(5);
/// The largest lag of a replica that serves reads.
const LIMIT: Duration = Duration::from_secs(1);
const PAIRS: usize = 10_000;
const WRITERS: usize = 16;

async fn cluster() -> MySqlCluster {
    let cluster = MySqlCluster::start(2).await.unwrap();
    let mut admin = cluster.host(0).admin().await.unwrap();
    admin.query_drop("CREATE TABLE test.t (id INT PRIMARY KEY, v INT)").await.unwrap();
    admin.query_drop("INSERT INTO test.t VALUES (0, 0)").await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    cluster
}

fn name(cluster: &MySqlCluster, index: usize) -> String {
    format!("127.0.0.1:{}", cluster.host(index).port())
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect(what);
}

async fn write_then_read(
    pool: &Pool,
    consistency: Consistency,
    first: usize,
    count: usize,
) -> usize {
    let stale = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|task| {
            let (pool, stale) = (pool.clone(), Arc::clone(&stale));
            tokio::spawn(async move {
                let mut statements = Statements::new(&pool).consistency(consistency);
                for n in (first..first + count).skip(task).step_by(WRITERS) {
                    let insert = "INSERT INTO t VALUES (?, ?)";
                    statements.exec_drop(insert, (n, n)).await.unwrap();
                    let select = "SELECT v FROM t WHERE id = ?";
                    let seen: Option<usize> = statements.exec_first(select, (n,)).await.unwrap();
                    stale.fetch_add(usize::from(seen != Some(n)), SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    stale.load(SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_replica_gets_no_reads_and_own_writes_are_always_seen() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = cluster().await;
    cluster.host(2).delay_replication(DELAY).await.unwrap();
    let options = MySqlOptions::from_url(&cluster.url("test")).unwrap();
    let build = || options.pool_builder().unwrap().balance(RoundRobin::default());

    let pool = build().name("own-writes").max_size(20).build().unwrap();
    let patient = Consistency::Token(Duration::from_millis(20));
    assert_eq!(write_then_read(&pool, patient, 1, PAIRS).await, 0, "every write is seen");
    let stale = write_then_read(&pool, Consistency::Eventual, PAIRS + 1, 200).await;
    assert!(stale > 0, "without a token old data is read, so this test can fail");
    assert_eq!(pool.close(Duration::from_secs(5)).await.abandoned, 0);

    lag_keeps_reads_away(&cluster, &options).await;
    a_delay_that_the_status_tells_takes_the_weight(&cluster, options).await;
}

/// By a heartbeat: a delayed replica has a weight like any other, and only its lag tells.
async fn lag_keeps_reads_away(cluster: &MySqlCluster, options: &MySqlOptions) {
    let mut admin = cluster.host(0).admin().await.unwrap();
    let table = "CREATE TABLE test.heartbeat (id INT PRIMARY KEY, ts DATETIME(6) NOT NULL)";
    admin.query_drop(table).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let beating = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(SeqCst) {
                let beat = "REPLACE INTO test.heartbeat VALUES (1, UTC_TIMESTAMP(6))";
                admin.query_drop(beat).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    let table = "test.heartbeat".to_owned();
    let strict = options.clone().lag_source(LagSource::Heartbeat { table });
    let pool = watched(&strict, "lag").max_lag(Some(LIMIT)).build().unwrap();
    let (fresh, late) = (name(cluster, 1), name(cluster, 2));
    until("the lag is seen", || {
        let status = pool.status();
        let lag = |host| status.host(host).unwrap().lag;
        lag(&late).is_some_and(|lag| lag > LIMIT) && lag(&fresh).is_some_and(|lag| lag <= LIMIT)
    })
    .await;
    assert_eq!(pool.status().host(&late).unwrap().weight, DEFAULT_WEIGHT);
    let mut on_fresh = 0;
    for _ in 0..500 {
        let lease = pool.get_read().await.unwrap();
        assert_ne!(lease.host().name(), late);
        on_fresh += usize::from(lease.host().name() == fresh);
    }
    assert!(on_fresh > 0);
    stop.store(true, SeqCst);
    beating.await.unwrap();
    assert_eq!(pool.close(Duration::from_secs(5)).await.abandoned, 0);
}

/// `rds-read-weights`, procedure, notes: a replica that is kept behind on purpose cannot have a weight.
async fn a_delay_that_the_status_tells_takes_the_weight(
    cluster: &MySqlCluster,
    options: MySqlOptions,
) {
    let telling =
        options.lag_source(LagSource::Status).user(real::ADMIN_USER).password(real::ADMIN_PASSWORD);
    let pool = watched(&telling, "delay").build().unwrap();
    let late = name(cluster, 2);
    until("the delay is seen", || pool.status().host(&late).unwrap().delayed).await;
    assert!(pool.set_weight(&late, 100).is_err());
    for _ in 0..500 {
        assert_ne!(pool.get_read().await.unwrap().host().name(), late);
    }
    assert_eq!(pool.close(Duration::from_secs(5)).await.abandoned, 0);
}

fn watched(options: &MySqlOptions, name: &str) -> PoolBuilder<MySql> {
    let builder = options.pool_builder().unwrap().name(name).balance(RoundRobin::default());
    builder.probe_interval(Some(Duration::from_millis(200)))
}

/// `rds-read-weights`, appendix 2: weight 0, wait until nothing is active, remove.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_leaves_step_by_step_under_readers_without_an_error() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = cluster().await;
    let options = MySqlOptions::from_url(&cluster.url("test")).unwrap();
    let pool = options.pool_builder().unwrap().name("drain").build().unwrap();
    let mut events = pool.events();
    let leaving = name(&cluster, 2);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let (pool, stop) = (pool.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut reads = 0_u64;
                while !stop.load(SeqCst) {
                    let mut lease = pool.get_read().await.unwrap();
                    lease.query_drop("SELECT SLEEP(0.005)").await.unwrap();
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    let in_use = |pool: &Pool| pool.status().host(&leaving).map_or(0, |host| host.counts.in_use);
    until("readers are on the replica", || in_use(&pool) > 0).await;

    pool.set_weight(&leaving, 0).unwrap();
    until("nothing is active there", || in_use(&pool) == 0).await;
    let settled = pool.remove_host(&leaving, Duration::from_secs(15)).await.unwrap();
    assert_eq!(settled.abandoned, 0);
    assert!(pool.status().host(&leaving).is_none());

    stop.store(true, SeqCst);
    let mut reads = 0;
    for reader in readers {
        reads += reader.await.expect("no reader saw an error");
    }
    assert!(reads > 0);
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event {
            Event::WeightChanged { weight: 0, .. } => seen.push("weight 0"),
            Event::Draining { .. } => seen.push("draining"),
            Event::Drained { .. } => seen.push("drained"),
            Event::HostRemoved { .. } => seen.push("removed"),
            _ => {}
        }
    }
    assert_eq!(seen, ["weight 0", "draining", "drained", "removed"]);
}
