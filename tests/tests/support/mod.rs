//! What the tests on the scripted driver share.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use pool_core::builder::PoolBuilder;
use pool_core::event::Event;
use pool_core::pool::Pool;
use pool_core::status::Counts;
use pool_tests::scripted::{HostScript, Scripted, hosts};
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep};

/// A pool of `h1` (the source) and replicas `h2`, …, without probes: every connect is a caller's.
pub fn builder(driver: &Scripted, count: usize) -> PoolBuilder<Scripted> {
    Pool::builder(driver.clone()).hosts(hosts(driver, count)).probe_interval(None)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Waits, in small steps, until it is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < secs(100), "never happened: {what}");
        sleep(ms(1)).await;
    }
}

/// The events that were sent so far.
pub fn sent(events: &mut Receiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

/// The next event that fits, within simulated minutes.
pub async fn event(events: &mut Receiver<Event>, fits: impl Fn(&Event) -> bool) -> Event {
    let next = async {
        loop {
            let event = events.recv().await.expect("the pool is gone");
            if fits(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(secs(100), next).await.expect("the event was never sent")
}

pub fn counts(pool: &Pool<Scripted>, host: &str) -> Counts {
    pool.status().host(host).expect("a member").counts
}

/// Connections of this host that exist now, as the driver sees it.
pub fn open(script: &Arc<HostScript>) -> usize {
    script.open.load(SeqCst)
}

/// Connects begun on this host.
pub fn connects(script: &Arc<HostScript>) -> usize {
    script.connects.load(SeqCst)
}

/// A small deterministic generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}
