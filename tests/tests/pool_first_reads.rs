//! Reads of a pool that is so young that its hosts were not asked yet what they are.
#![allow(clippy::unwrap_used)]

mod support;

use pool_core::balance::endpoint::EndpointMode;
use pool_core::balance::{BalancePolicy, Eligible};
use pool_core::builder::PoolBuilder;
use pool_core::driver::Lag;
use pool_core::error::ErrorKind;
use pool_core::host::{HostId, Role};
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted, hosts};
use support::{ms, secs};
use tokio::time::{Instant, sleep};

/// A source and two replicas that nobody declared to be that, connects taking 20 ms.
fn undeclared(driver: &Scripted) -> PoolBuilder<Scripted> {
    for (host, role) in [("h1", Role::Source), ("h2", Role::Replica), ("h3", Role::Replica)] {
        let script = driver.host(host);
        script.role(role);
        script.connect(Answer::Slow(ms(20)));
        script.lag(Lag::Known(ms(0)));
    }
    let hosts = hosts(driver, 3).into_iter().map(|host| host.with_role(Role::Unknown));
    Pool::builder(driver.clone()).hosts(hosts).probe_interval(Some(secs(1)))
}

#[tokio::test(start_paused = true)]
async fn a_first_read_waits_for_the_first_probe_if_that_decides_who_may_serve() {
    let driver = Scripted::new();
    let read_only = undeclared(&driver).endpoint_mode(EndpointMode::ReadOnly);
    let limited = undeclared(&driver).max_lag(Some(secs(1)));
    for pool in [read_only.build().unwrap(), limited.build().unwrap()] {
        let started = Instant::now();
        assert_ne!(pool.get_read().await.unwrap().host().name(), "h1");
        assert!(started.elapsed() < ms(100), "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_read_waits_for_no_host_that_does_not_answer() {
    let driver = Scripted::new();
    let pool = undeclared(&driver).endpoint_mode(EndpointMode::ReadOnly).build().unwrap();
    driver.host("h2").connect(Answer::Hang);
    let started = Instant::now();
    assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    assert!(started.elapsed() < ms(100), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_first_read_fails_once_every_probe_has_failed() {
    let driver = Scripted::new();
    let pool = undeclared(&driver).endpoint_mode(EndpointMode::ReadOnly).build().unwrap();
    driver.host("h2").down(Verdict::HostDown);
    driver.host("h3").connect(Answer::Hang);
    let started = Instant::now();
    let error = pool.get_read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoHost, "{error}");
    assert_eq!(started.elapsed(), secs(5), "the connect timeout, not that of the checkout");
    assert_eq!(pool.get_read().await.unwrap_err().kind(), ErrorKind::NoHost);
    assert_eq!(started.elapsed(), secs(5), "and no second time");
}

#[tokio::test(start_paused = true)]
async fn a_first_read_ends_with_its_deadline() {
    let driver = Scripted::new();
    let builder = undeclared(&driver).endpoint_mode(EndpointMode::ReadOnly);
    let pool = builder.acquire_timeout(ms(10)).build().unwrap();
    let started = Instant::now();
    assert_eq!(pool.get_read().await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(started.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn without_probes_nothing_is_waited_for() {
    let driver = Scripted::new();
    let pool = undeclared(&driver).max_lag(Some(secs(1))).probe_interval(None).build().unwrap();
    let started = Instant::now();
    assert_eq!(pool.get_read().await.unwrap_err().kind(), ErrorKind::NoHost);
    assert_eq!(started.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn a_first_read_ends_when_the_pool_is_closed() {
    let driver = Scripted::new();
    let pool = undeclared(&driver).endpoint_mode(EndpointMode::ReadOnly).build().unwrap();
    for host in ["h1", "h2", "h3"] {
        driver.host(host).connect(Answer::Hang);
    }
    let started = Instant::now();
    let closing = async {
        sleep(ms(10)).await;
        pool.close(ms(0)).await
    };
    let (read, _) = tokio::join!(pool.get_read(), closing);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(started.elapsed(), ms(10));
}

/// A user's policy that picks nobody.
#[derive(Debug)]
struct Nobody;

impl BalancePolicy for Nobody {
    fn pick(&self, _: &Eligible<'_>) -> Option<HostId> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_picks_nobody_ends_the_read() {
    let driver = Scripted::new();
    let pool = undeclared(&driver).balance(Nobody).build().unwrap();
    assert_eq!(pool.get_read().await.unwrap_err().kind(), ErrorKind::NoHost);
}
