//! A pool that follows a source of hosts, in simulated time.
#![allow(clippy::unwrap_used)]

mod support;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use parking_lot::Mutex;
use pool_core::discovery::{Discovery, StaticHosts};
use pool_core::event::Event;
use pool_core::host::{Host, Role};
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Scripted, hosts};
use support::{builder, event, eventually, ms, open, secs, sent};
use tokio::time::{Instant, sleep};

/// What the list says when it is asked.
#[derive(Clone, Debug)]
enum Says {
    Error,
    Hosts(Vec<Host>),
    Silence,
}

/// A discovery as a user writes it: here the test is the registry.
#[derive(Clone, Debug)]
struct Registry {
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    fn new() -> Self {
        Self { says: Arc::new(Mutex::new(Says::Error)), asked: Arc::default() }
    }

    fn say(&self, says: Says) {
        *self.says.lock() = says;
    }

    fn list(&self, hosts: impl IntoIterator<Item = Host>) {
        self.say(Says::Hosts(hosts.into_iter().collect()));
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// Waits until it is asked once more.
    async fn next(&self) {
        let before = self.asked();
        eventually("the list is asked for", || self.asked() > before).await;
    }
}

#[async_trait]
impl Discovery for Registry {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
        self.asked.fetch_add(1, SeqCst);
        let says = self.says.lock().clone();
        match says {
            Says::Error => Err("no answer".into()),
            Says::Hosts(hosts) => Ok(hosts),
            Says::Silence => std::future::pending().await,
        }
    }
}

/// The host `hN` of [`hosts`].
fn host(driver: &Scripted, n: usize) -> Host {
    hosts(driver, n).pop().unwrap()
}

fn members(pool: &Pool<Scripted>) -> Vec<String> {
    pool.status().hosts.iter().map(|host| host.name.to_string()).collect()
}

fn name(host: &str) -> Arc<str> {
    host.into()
}

#[tokio::test(start_paused = true)]
async fn listed_hosts_join_before_unlisted_ones_leave_and_no_lease_is_disturbed() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let registry = Registry::new();
    registry.list([host(&driver, 1), host(&driver, 3)]);
    let held = pool.get_host("h2").await.unwrap();
    let mut events = pool.events();
    let started = Instant::now();
    pool.follow(registry.clone(), secs(30));
    event(&mut events, |event| matches!(event, Event::HostAdded { host } if &**host == "h3")).await;
    assert!(started.elapsed() < ms(5), "asked at once");
    eventually("h2 has left", || members(&pool) == ["h1", "h3"]).await;
    let host = || name("h2");
    assert_eq!(
        sent(&mut events),
        [
            Event::Draining { host: host(), in_use: 1 },
            Event::DrainTimedOut { host: host(), in_use: 1 },
            Event::HostRemoved { host: host() },
        ],
        "after h3 had joined"
    );
    for _ in 0..4 {
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    }
    assert_eq!((held.host().name(), open(&driver.host("h2"))), ("h2", 1));
    drop(held);
    eventually("its connection is closed on return", || open(&driver.host("h2")) == 0).await;
    // The same list again changes nothing.
    registry.next().await;
    sleep(secs(1)).await;
    assert_eq!(sent(&mut events), []);
}

#[tokio::test(start_paused = true)]
async fn an_error_an_empty_list_and_silence_take_no_host_away() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).acquire_timeout(secs(5)).build().unwrap();
    let registry = Registry::new();
    let mut events = pool.events();
    let started = Instant::now();
    pool.follow(registry.clone(), secs(10));
    for says in [Says::Error, Says::Hosts(Vec::new()), Says::Silence] {
        registry.say(says.clone());
        registry.next().await;
        sleep(secs(6)).await;
        assert_eq!(members(&pool), ["h1", "h2"], "{says:?}");
    }
    assert_eq!(sent(&mut events), []);
    // Silence ended with the acquire timeout, so the next interval began then.
    registry.list([host(&driver, 1)]);
    registry.next().await;
    let asked_at = started.elapsed();
    assert!((secs(35)..secs(35) + ms(5)).contains(&asked_at), "{asked_at:?}");
    eventually("h2 has left", || members(&pool) == ["h1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_is_reason_to_ask_soon_but_not_in_a_loop() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    let registry = Registry::new();
    pool.follow(registry.clone(), secs(600));
    sleep(secs(5)).await;
    assert_eq!(registry.asked(), 1, "at the start");
    for host in ["h2", "h3"] {
        driver.host(host).down(Verdict::HostDown);
        assert!(pool.get_host(host).await.is_err());
    }
    let failed = Instant::now();
    eventually("the list is asked for", || registry.asked() == 2).await;
    assert!(failed.elapsed() < ms(5), "{:?}", failed.elapsed());
    eventually("it is asked for again", || registry.asked() == 3).await;
    assert!(failed.elapsed() > secs(1) - ms(5), "{:?}", failed.elapsed());
    sleep(secs(60)).await;
    assert_eq!(registry.asked(), 3, "once more for each host");
}

#[tokio::test(start_paused = true)]
async fn a_listed_weight_is_set_when_the_list_changes_it() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let registry = Registry::new();
    let weighed = |weight| [host(&driver, 1), host(&driver, 2).with_weight(weight)];
    let weight = || pool.status().host("h2").map(|host| host.weight);
    let mut events = pool.events();
    registry.list(weighed(30));
    pool.follow(registry.clone(), secs(10));
    eventually("h2 has joined with its weight", || weight() == Some(30)).await;
    registry.list(weighed(70));
    eventually("its weight has changed", || weight() == Some(70)).await;
    // An operator's order holds while the list stays as it is.
    pool.set_weight("h2", 5).unwrap();
    registry.next().await;
    registry.next().await;
    assert_eq!(weight(), Some(5));
    // A list that no longer says leaves it, and one that cannot be meets no harm.
    registry.list([host(&driver, 1), host(&driver, 2)]);
    registry.next().await;
    registry.list(weighed(10_001));
    registry.next().await;
    registry.next().await;
    assert_eq!((weight(), members(&pool).len()), (Some(5), 2));
    let changed = |weight| Event::WeightChanged { host: name("h2"), weight };
    assert_eq!(sent(&mut events), [Event::HostAdded { host: name("h2") }, changed(70), changed(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_moves_under_the_same_name_is_replaced() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let held = pool.get_host("h2").await.unwrap();
    let registry = Registry::new();
    let moved = Host::new("127.0.0.2", 9).named("h2").with_role(Role::Replica);
    registry.list([host(&driver, 1), moved]);
    let mut events = pool.events();
    pool.follow(registry.clone(), secs(10));
    event(&mut events, |event| matches!(event, Event::HostRemoved { .. })).await;
    event(&mut events, |event| matches!(event, Event::HostAdded { .. })).await;
    let lease = pool.get_host("h2").await.unwrap();
    assert_eq!((lease.host().address(), lease.host().port()), ("127.0.0.2", 9));
    assert_eq!(held.host().address(), "127.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn following_ends_with_the_pool() {
    let driver = Scripted::new();
    for closed in [true, false] {
        let pool = builder(&driver, 2).build().unwrap();
        let registry = Registry::new();
        pool.follow(registry.clone(), secs(10));
        registry.next().await;
        if closed {
            let _ = pool.close(secs(1)).await;
        } else {
            drop(pool);
        }
        // The task is gone, and with it its copy of the registry.
        eventually("the task has ended", || Arc::strong_count(&registry.asked) == 1).await;
        assert_eq!(registry.asked(), 1, "closed: {closed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_list_brings_back_what_was_removed_only_if_it_was_not_known() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    pool.follow(StaticHosts(hosts(&driver, 2)), secs(10));
    eventually("h2 has joined", || members(&pool) == ["h1", "h2"]).await;
    // Removed by hand: the list did not change, so the order stands.
    let _ = pool.remove_host("h2", secs(1)).await.unwrap();
    sleep(secs(60)).await;
    assert_eq!(members(&pool), ["h1"]);
}
