//! What the pool promises on every kind of server: one suite, run on real and on embedded clusters.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod cancelled;
pub mod fairness;
pub mod killed;
pub mod read_only;
pub mod silence;
pub mod site;
pub mod transactions;

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use pool_core::builder::PoolBuilder;
use pool_core::event::Event;
use pool_core::status::HostStatus;
use pool_mysql::{MySql, MySqlOptions, Pool};
use site::Site;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep, timeout};

/// A bound for everything that is expected to happen, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// What a busy machine may add to a deadline of the pool before a caller runs again.
pub const SLACK: Duration = Duration::from_millis(250);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pool over all hosts of `site`, source first, with every default of a URL.
pub fn builder(site: &impl Site) -> PoolBuilder<MySql> {
    MySqlOptions::from_url(&site.url()).unwrap().pool_builder().unwrap()
}

/// A connection of the application's user, around any pool.
pub async fn direct(site: &impl Site, host: usize) -> Conn {
    let opts = OptsBuilder::from_opts(Opts::from_url(&site.url_of(host)).unwrap());
    soon("connect around the pool", Conn::new(opts.prefer_socket(false))).await.unwrap()
}

/// Runs statements on the source around any pool.
pub async fn prepare(site: &impl Site, statements: &[&str]) {
    let mut conn = direct(site, 0).await;
    for statement in statements {
        soon(statement, conn.query_drop(*statement)).await.unwrap();
    }
    conn.disconnect().await.unwrap();
    site.caught_up().await;
}

/// Awaits `work`, which has to end.
pub async fn soon<T>(what: impl Debug, work: impl Future<Output = T>) -> T {
    match timeout(SOON, work).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("never ended: {what:?}"),
    }
}

/// Waits, in small steps, until it is so; how long that took.
pub async fn eventually(what: &str, pool: &Pool, is_so: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "never happened: {what}; {}", pool.status());
        sleep(ms(2)).await;
    }
    started.elapsed()
}

pub fn host_status(pool: &Pool, name: &str) -> HostStatus {
    pool.status().host(name).unwrap().clone()
}

/// The events sent so far.
pub fn sent(events: &mut Receiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

/// Asserts that the pool serves as on its first day: writes on `source`, reads, nobody blocked, no
/// connection out, lost or half-way.
pub async fn assert_whole(pool: &Pool, source: &str) {
    soon("a write", async {
        loop {
            let mut lease = pool.get().await.unwrap();
            if lease.host().name() == source && lease.query_drop("SELECT 1").await.is_ok() {
                return;
            }
            drop(lease);
            sleep(ms(5)).await;
        }
    })
    .await;
    let mut lease = pool.get_read().await.unwrap();
    lease.query_drop("SELECT 1").await.unwrap();
    drop(lease);
    eventually("a whole pool", pool, || {
        let status = pool.status();
        let settled = |host: &HostStatus| {
            let counts = host.counts;
            host.blocked_for.is_none() && counts.in_use + counts.tending + counts.waiting == 0
        };
        status.writer().is_some_and(|writer| &*writer.name == source)
            && status.hosts.iter().all(settled)
    })
    .await;
}

/// Middle and largest of some times.
pub fn spread(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}
