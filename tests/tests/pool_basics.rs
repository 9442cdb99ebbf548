//! The pool on a scripted driver: checkout, return, waiting, failing.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use pool_core::error::ErrorKind;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted, hosts};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_returned_connection_is_handed_out_again() {
    let driver = Scripted::new();
    let pool = Pool::builder(driver.clone()).hosts(hosts(&driver, 1)).build().unwrap();
    let first = pool.get().await.unwrap().serial;
    let second = pool.get().await.unwrap().serial;
    assert_eq!(first, second);
    assert_eq!(pool.status().total().idle, 1);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_fails_all_waiters_at_once() {
    let driver = Scripted::new();
    driver.host("h1").down(Verdict::Permanent);
    let pool = Pool::builder(driver.clone()).hosts(hosts(&driver, 1)).build().unwrap();
    let started = Instant::now();
    let get = || {
        let pool = pool.clone();
        tokio::spawn(async move { pool.get().await })
    };
    let waiters: Vec<_> = (0..20).map(|_| get()).collect();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Permanent);
    }
    assert!(started.elapsed() < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_walk_finds_the_promoted_replica() {
    let driver = Scripted::new();
    let pool = Pool::builder(driver.clone()).hosts(hosts(&driver, 3)).build().unwrap();
    assert_eq!(pool.get().await.unwrap().host().name(), "h1");
    driver.host("h1").down(Verdict::HostDown);
    driver.host("h3").role(pool_core::host::Role::Source);
    let lease = pool.get().await.unwrap();
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    assert_eq!(pool.get().await.unwrap().host().name(), "h3");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_connect_ends_with_the_callers_deadline() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Hang);
    let pool = Pool::builder(driver.clone())
        .hosts(hosts(&driver, 1))
        .acquire_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let started = Instant::now();
    let error = pool.get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_millis(2010));
    println!("{error}");
    assert!(driver.host("h1").most_connecting.load(SeqCst) <= 3);
}
