//! Routing on real MySQL: lag, own writes, and taking a replica out under load.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::balance::RoundRobin;
use pool_core::event::Event;
use pool_mysql::{Consistency, LagSource, MySqlOptions, Pool, Statements};
use pool_tests::real::{self, MySqlCluster, Server};

const DELAY: Duration = Duration::from_secs(5);
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

    let mut strict = options.clone().lag_source(LagSource::Status);
    strict = strict.user("admin").password("admin-pw");
    let pool = strict
        .pool_builder()
        .unwrap()
        .balance(RoundRobin::default())
        .name("lag")
        .probe_interval(Some(Duration::from_millis(200)))
        .max_lag(Some(Duration::from_secs(1)))
        .build()
        .unwrap();
    // The replica counts its lag from the writes above, of which there are some every second.
    let writer = pool.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(SeqCst) {
                let update = "UPDATE t SET v = v + 1 WHERE id = 0";
                Statements::new(&writer).query_drop(update).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    let (fresh, late) = (name(&cluster, 1), name(&cluster, 2));
    // An automatic weight would be 0 on a replica that is kept behind on purpose. Here lag has to tell.
    pool.set_weight(&late, 100).unwrap();
    until("the lag is seen", || {
        let status = pool.status();
        status.host(&late).unwrap().lag.is_some_and(|lag| lag > Duration::from_secs(1))
            && status.host(&fresh).unwrap().lag.is_some_and(|lag| lag <= Duration::from_secs(1))
    })
    .await;
    let mut on_fresh = 0;
    for _ in 0..500 {
        let lease = pool.get_read().await.unwrap();
        assert_ne!(lease.host().name(), late);
        on_fresh += usize::from(lease.host().name() == fresh);
    }
    assert!(on_fresh > 0);
    stop.store(true, SeqCst);
    writing.await.unwrap();
    assert_eq!(pool.close(Duration::from_secs(5)).await.abandoned, 0);
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
