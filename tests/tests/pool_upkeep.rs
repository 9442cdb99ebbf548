//! What happens to connections that nobody uses: checks, ends, replacements.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::poll;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{builder, connects, counts, eventually, ms, open, secs};
use tokio::time::{Instant, sleep};

/// Makes this many connections idle.
async fn stock(pool: &Pool<Scripted>, count: usize) {
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(pool.get().await.unwrap());
    }
}

fn pings(driver: &Scripted) -> usize {
    driver.host("h1").pings.load(SeqCst)
}

#[tokio::test(start_paused = true)]
async fn the_minimum_is_opened_without_a_caller_and_kept_through_idle_timeouts() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).min_idle(2).idle_timeout(secs(60)).build().unwrap();
    eventually("the minimum is there", || counts(&pool, "h1").idle == 2).await;
    // Six in use, and the minimum beside them.
    stock(&pool, 6).await;
    eventually("all are idle", || counts(&pool, "h1").idle == 8).await;
    sleep(ms(59_500)).await;
    assert_eq!(counts(&pool, "h1").idle, 8);
    sleep(secs(2)).await;
    assert_eq!(counts(&pool, "h1").idle, 2);
    let opened = connects(&driver.host("h1"));
    sleep(secs(600)).await;
    assert_eq!(counts(&pool, "h1").idle, 2);
    assert_eq!(connects(&driver.host("h1")), opened, "nothing is closed only to be opened again");
}

#[tokio::test(start_paused = true)]
async fn lifetimes_end_at_different_times_within_a_tenth() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1)
        .max_size(40)
        .max_connecting(40)
        .max_lifetime(secs(1000))
        .idle_timeout(secs(5000))
        .keepalive(secs(1000))
        .build()
        .unwrap();
    stock(&pool, 40).await;
    sleep(secs(899)).await;
    assert_eq!(open(&driver.host("h1")), 40);
    sleep(secs(51)).await;
    let half = open(&driver.host("h1"));
    assert!((5..35).contains(&half), "{half} of 40 at 95 % of the lifetime");
    sleep(secs(51)).await;
    assert_eq!(open(&driver.host("h1")), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_asked_for_a_sign_of_life_every_two_minutes() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    stock(&pool, 3).await;
    sleep(secs(119)).await;
    assert_eq!(pings(&driver), 0);
    sleep(secs(4)).await;
    assert_eq!(pings(&driver), 3);
    sleep(secs(116)).await;
    assert_eq!(pings(&driver), 3);
    sleep(secs(4)).await;
    assert_eq!((pings(&driver), counts(&pool, "h1").idle), (6, 3));
}

#[tokio::test(start_paused = true)]
async fn a_keepalive_that_hangs_closes_its_connection_and_voids_the_rest() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    stock(&pool, 5).await;
    driver.host("h1").ping(Answer::Hang);
    sleep(secs(121)).await;
    assert_eq!((counts(&pool, "h1").tending, counts(&pool, "h1").idle), (2, 3));
    sleep(secs(3)).await;
    assert_eq!(counts(&pool, "h1").total(), 0);
    eventually("all are closed", || open(&driver.host("h1")) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_found_closed_while_idle_is_never_handed_out() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let kill = lease.killer();
    drop(lease);
    kill();
    assert_eq!(pool.get().await.unwrap().serial, 2);
    assert_eq!(pings(&driver), 0, "a look suffices");
}

#[tokio::test(start_paused = true)]
async fn a_check_is_made_only_outside_the_window() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    drop(pool.get().await.unwrap());
    sleep(ms(499)).await;
    drop(pool.get().await.unwrap());
    assert_eq!(pings(&driver), 0);
    sleep(ms(500)).await;
    assert_eq!(pool.get().await.unwrap().serial, 1);
    assert_eq!(pings(&driver), 1);
}

/// One silent check ends the others: a caller does not try dead connections in turn.
#[tokio::test(start_paused = true)]
async fn after_an_outage_a_caller_waits_for_one_check_and_no_more() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    stock(&pool, 5).await;
    sleep(secs(1)).await;
    driver.host("h1").ping(Answer::Hang);
    let started = Instant::now();
    assert_eq!(pool.get().await.unwrap().serial, 6);
    assert_eq!(started.elapsed(), secs(2));
    assert_eq!(pings(&driver), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_panics_costs_its_connection_only() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    stock(&pool, 1).await;
    sleep(secs(1)).await;
    driver.host("h1").ping(Answer::Panic);
    let started = Instant::now();
    assert_eq!(pool.get().await.unwrap().serial, 2);
    assert!(started.elapsed() < ms(5));
    assert_eq!(open(&driver.host("h1")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_connection_is_tidied_in_the_background_and_serves_again() {
    let driver = Scripted::new();
    driver.host("h1").tidy(Answer::Slow(ms(100)));
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    lease.soil();
    let started = Instant::now();
    drop(lease);
    assert_eq!(started.elapsed(), ms(0), "the caller does not wait for it");
    assert_eq!(counts(&pool, "h1").tending, 1);
    assert_eq!(pool.get().await.unwrap().serial, 1);
    assert_eq!(started.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_tidying_that_fails_hangs_or_panics_is_replaced_within_its_deadline() {
    for (answer, within) in [
        (Answer::Fail(Verdict::ConnectionEnded), ms(1)),
        (Answer::Panic, ms(1)),
        (Answer::Hang, ms(2001)),
    ] {
        let driver = Scripted::new();
        driver.host("h1").tidy(answer.clone());
        let pool = builder(&driver, 1).max_size(1).build().unwrap();
        let lease = pool.get().await.unwrap();
        lease.soil();
        drop(lease);
        let started = Instant::now();
        assert_eq!(pool.get().await.unwrap().serial, 2, "{answer:?}");
        assert!(started.elapsed() <= within, "{answer:?}: {:?}", started.elapsed());
        eventually("the old one is closed", || open(&driver.host("h1")) == 1).await;
    }
}

/// The back-off after an overload is some milliseconds; no caller waits for the next tick instead.
#[tokio::test(start_paused = true)]
async fn a_postponed_connect_is_made_when_the_back_off_is_over() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    driver.host("h1").connect(Answer::Fail(Verdict::Overloaded));
    let call = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(|lease| lease.serial) }
    });
    sleep(ms(100)).await;
    let made = connects(&driver.host("h1"));
    assert!((4..12).contains(&made), "{made} connects: 10, 20, 40, 80 ms, less the jitter");
    driver.host("h1").up();
    let healed = Instant::now();
    assert_eq!(call.await.unwrap().unwrap(), 1);
    assert!(healed.elapsed() <= ms(161), "{:?}", healed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_during_the_back_off_waits_for_its_end_and_no_longer() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    driver.host("h1").connect(Answer::Fail(Verdict::Overloaded));
    // Asks for a connect and leaves: when that fails, upkeep has nobody to come back for.
    let mut left = Box::pin(pool.get());
    assert!(poll!(&mut left).is_pending());
    drop(left);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((connects(&driver.host("h1")), counts(&pool, "h1").connecting), (1, 0));
    driver.host("h1").up();
    let started = Instant::now();
    assert_eq!(pool.get().await.unwrap().serial, 1);
    assert!((ms(5)..=ms(11)).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_hangs_ends_with_its_deadline_and_frees_its_place() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).connect_timeout(secs(3)).build().unwrap();
    driver.host("h1").connect(Answer::Hang);
    let started = Instant::now();
    let call = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(|lease| lease.serial) }
    });
    sleep(secs(1)).await;
    driver.host("h1").up();
    assert_eq!(call.await.unwrap().unwrap(), 1);
    assert!(started.elapsed() < secs(4), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn limits_without_end_are_no_trouble() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2)
        .acquire_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .check_timeout(Duration::MAX)
        .tidy_timeout(Duration::MAX)
        .close_timeout(Duration::MAX)
        .idle_timeout(Duration::MAX)
        .max_lifetime(Duration::MAX)
        .keepalive(Duration::MAX)
        .bypass_window(Duration::MAX)
        .connect_backoff(ms(10), Duration::MAX)
        .probe_interval(Some(Duration::MAX))
        .build()
        .unwrap();
    let lease = pool.get().await.unwrap();
    lease.soil();
    drop(lease);
    eventually("it is tidy", || counts(&pool, "h1").idle == 1).await;
    sleep(secs(3000)).await;
    assert_eq!(counts(&pool, "h1").idle, 1);
    drop(pool.get().await.unwrap());
    assert_eq!(pool.close(Duration::MAX).await.abandoned, 0);
}
