//! `FailoverManager` inside `deadpool`: what that pool cannot express must not become a fault.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use deadpool::managed::{Object, PoolError};
use pool_core::error::ErrorKind;
use pool_core::host::Role;
use pool_core::interop::FailoverManager;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{builder, connects, ms, open, secs};
use tokio::time::{Instant, timeout};

type Deadpool = deadpool::managed::Pool<FailoverManager<Scripted>>;

/// A `deadpool` pool over `h1` and `h2`, each connection checked on every checkout.
fn pool(driver: &Scripted, size: usize) -> Deadpool {
    let settings = builder(driver, 2).bypass_window(Duration::ZERO).check_timeout(secs(2));
    let manager = FailoverManager::new(settings).unwrap();
    deadpool::managed::Pool::builder(manager).max_size(size).build().unwrap()
}

async fn serial(pool: &Deadpool) -> u64 {
    pool.get().await.unwrap().serial
}

/// The serials of so many connections held at once, which are all back afterwards.
async fn serials(pool: &Deadpool, count: usize) -> Vec<u64> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(pool.get().await.unwrap());
    }
    held.iter().map(|conn| conn.serial).collect()
}

#[tokio::test(start_paused = true)]
async fn a_check_that_was_cut_off_costs_the_connection_its_place() {
    let driver = Scripted::new();
    let pool = pool(&driver, 1);
    let first = serial(&pool).await;
    driver.host("h1").ping(Answer::Hang);
    assert!(timeout(ms(500), pool.get()).await.is_err());
    assert_eq!((pool.status().size, open(&driver.host("h1"))), (0, 0));
    driver.host("h1").ping(Answer::Ok);
    assert_ne!(serial(&pool).await, first);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_costs_its_deadline_and_spares_the_other_connections_theirs() {
    let driver = Scripted::new();
    let pool = pool(&driver, 5);
    let old = serials(&pool, 5).await;
    let h1 = driver.host("h1");
    h1.ping(Answer::Hang);
    let (pings, started) = (h1.pings.load(SeqCst), Instant::now());
    let new = serials(&pool, 5).await;
    assert!(new.iter().all(|serial| !old.contains(serial)), "{old:?} {new:?}");
    assert_eq!(started.elapsed(), secs(2));
    assert_eq!(h1.pings.load(SeqCst) - pings, 1, "four were refused without a round trip");
    assert_eq!(open(&h1), 5);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_reported_voids_the_idle_without_a_round_trip() {
    let driver = Scripted::new();
    let pool = pool(&driver, 4);
    let old = serials(&pool, 4).await;
    let h1 = driver.host("h1");
    pool.get().await.unwrap().fail(Verdict::ConnectionLost);
    let pings = h1.pings.load(SeqCst);
    let new = serials(&pool, 4).await;
    assert!(new.iter().all(|serial| !old.contains(serial)), "{old:?} {new:?}");
    assert_eq!(h1.pings.load(SeqCst), pings);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_or_is_discarded_is_not_handed_out_again() {
    let driver = Scripted::new();
    let pool = pool(&driver, 1);
    let mut conn = pool.get().await.unwrap();
    let first = conn.serial;
    conn.kill();
    drop(conn);
    conn = pool.get().await.unwrap();
    let second = conn.serial;
    assert_ne!(second, first);
    conn.discard();
    drop(conn);
    assert_ne!(serial(&pool).await, second);
    assert_eq!(open(&driver.host("h1")), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_that_are_void_can_be_swept_out() {
    let driver = Scripted::new();
    let pool = pool(&driver, 4);
    serials(&pool, 4).await;
    pool.get().await.unwrap().fail(Verdict::ConnectionLost);
    assert_eq!(pool.status().size, 4, "this pool does not look at idle connections by itself");
    let swept = pool.retain(|conn, _| !conn.is_void());
    assert_eq!((swept.removed.len(), pool.status().size), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_left_behind_is_tidied_before_the_next() {
    let driver = Scripted::new();
    let pool = pool(&driver, 1);
    let h1 = driver.host("h1");
    let conn = pool.get().await.unwrap();
    let first = conn.serial;
    conn.soil();
    drop(conn);
    let conn = pool.get().await.unwrap();
    assert_eq!((conn.serial, h1.tidied.load(SeqCst)), (first, 1));
    conn.soil();
    drop(conn);
    h1.tidy(Answer::Fail(Verdict::Statement));
    assert_ne!(serial(&pool).await, first);
}

#[tokio::test(start_paused = true)]
async fn the_cause_goes_to_the_caller_and_is_kept() {
    let driver = Scripted::new();
    for host in ["h1", "h2"] {
        driver.host(host).down(Verdict::Permanent);
    }
    let pool = pool(&driver, 1);
    match pool.get().await {
        Err(PoolError::Backend(error)) => {
            assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
            let kept = pool.manager().last_error().unwrap();
            assert_eq!(kept.to_string(), error.to_string());
        }
        other => panic!("{:?}", other.map(|_| "a connection")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_left_by_one_walk() {
    let driver = Scripted::new();
    let pool = pool(&driver, 8);
    serials(&pool, 8).await;
    let (h1, h2) = (driver.host("h1"), driver.host("h2"));
    let before = connects(&h1);
    h1.down(Verdict::HostDown);
    h2.role(Role::Source);
    serials(&pool, 8).await;
    assert_eq!((open(&h1), open(&h2)), (0, 8));
    assert_eq!(pool.manager().pool().status().writer().unwrap().name.as_ref(), "h2");
    assert!(connects(&h1) - before <= 2, "{}", connects(&h1) - before);
}

#[tokio::test(start_paused = true)]
async fn a_connection_taken_out_of_the_pool_lives_on() {
    let driver = Scripted::new();
    let pool = pool(&driver, 1);
    let mut conn = Object::take(pool.get().await.unwrap());
    assert!(!conn.is_broken());
    drop(pool);
    // Its pool and its walk are gone: it may be used, and not be handed out.
    assert!(conn.is_broken());
    assert_eq!(open(&driver.host("h1")), 1);
}
