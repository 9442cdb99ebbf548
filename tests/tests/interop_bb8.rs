//! `FailoverManager` inside `bb8`: what that pool cannot express must not become a fault.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bb8::{ManageConnection, RunError};
use pool_core::error::{Error, ErrorKind};
use pool_core::interop::FailoverManager;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{builder, connects, ms, open, secs};
use tokio::time::{Instant, timeout};

type Bb8 = bb8::Pool<FailoverManager<Scripted>>;

/// A `bb8` pool over `h1` and `h2`, a connection checked when it was idle for 100 ms; the pool that walks.
fn pool(driver: &Scripted, size: u32, timeout: Duration) -> (Bb8, Pool<Scripted>) {
    let settings = builder(driver, 2).bypass_window(ms(100)).check_timeout(secs(2));
    let manager = FailoverManager::new(settings).unwrap();
    let core = manager.pool().clone();
    let pool = bb8::Pool::builder().max_size(size).connection_timeout(timeout);
    (pool.build_unchecked(manager), core)
}

/// Until idle connections need a check.
async fn rest() {
    tokio::time::sleep(ms(100)).await;
}

async fn serial(pool: &Bb8) -> u64 {
    pool.get().await.unwrap().serial
}

/// The serials of so many connections held at once, which are all back afterwards.
async fn serials(pool: &Bb8, count: usize) -> Vec<u64> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(pool.get().await.unwrap());
    }
    held.iter().map(|conn| conn.serial).collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_socket_in_a_pool_of_one_is_never_requeued() {
    let driver = Scripted::new();
    // The caller's patience ends before the check does: the check is cut off in the middle.
    let (pool, _) = pool(&driver, 1, ms(500));
    let first = serial(&pool).await;
    rest().await;
    driver.host("h1").ping(Answer::Hang);
    let started = Instant::now();
    assert!(matches!(pool.get().await, Err(RunError::TimedOut)));
    assert_eq!(started.elapsed(), ms(500));
    driver.host("h1").ping(Answer::Ok);
    assert_ne!(serial(&pool).await, first);
    assert_eq!((pool.state().connections, open(&driver.host("h1"))), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_costs_its_deadline_and_the_connection() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 1, secs(30));
    let first = serial(&pool).await;
    rest().await;
    driver.host("h1").ping(Answer::Hang);
    let started = Instant::now();
    assert_ne!(serial(&pool).await, first);
    assert_eq!(started.elapsed(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_spares_the_other_connections_theirs() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 5, secs(30));
    let old = serials(&pool, 5).await;
    let h1 = driver.host("h1");
    rest().await;
    h1.ping(Answer::Hang);
    let pings = h1.pings.load(SeqCst);
    let new = serials(&pool, 5).await;
    assert!(new.iter().all(|serial| !old.contains(serial)), "{old:?} {new:?}");
    assert_eq!(h1.pings.load(SeqCst) - pings, 1, "four were refused without a round trip");
    assert_eq!(open(&h1), 5);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_reported_voids_the_idle_without_a_round_trip() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 4, secs(30));
    let old = serials(&pool, 4).await;
    let h1 = driver.host("h1");
    pool.get().await.unwrap().fail(Verdict::ConnectionLost);
    rest().await;
    let pings = h1.pings.load(SeqCst);
    let new = serials(&pool, 4).await;
    assert!(new.iter().all(|serial| !old.contains(serial)), "{old:?} {new:?}");
    assert_eq!(h1.pings.load(SeqCst), pings);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_or_is_discarded_is_closed_on_return() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 2, secs(30));
    let mut conn = pool.get().await.unwrap();
    conn.kill();
    drop(conn);
    assert_eq!((pool.state().connections, open(&driver.host("h1"))), (0, 0));
    conn = pool.get().await.unwrap();
    conn.discard();
    drop(conn);
    assert_eq!((pool.state().connections, open(&driver.host("h1"))), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_while_idle_is_replaced_without_a_round_trip() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 1, secs(30));
    let conn = pool.get().await.unwrap();
    let (first, kill) = (conn.serial, conn.killer());
    drop(conn);
    kill();
    rest().await;
    let pings = driver.host("h1").pings.load(SeqCst);
    assert_ne!(serial(&pool).await, first);
    assert_eq!(driver.host("h1").pings.load(SeqCst), pings);
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_left_behind_is_tidied_before_the_next() {
    let driver = Scripted::new();
    let (pool, _) = pool(&driver, 1, secs(30));
    let h1 = driver.host("h1");
    let conn = pool.get().await.unwrap();
    let first = conn.serial;
    conn.soil();
    drop(conn);
    assert_eq!(h1.tidied.load(SeqCst), 0, "nothing can be awaited on return");
    let conn = pool.get().await.unwrap();
    assert_eq!((conn.serial, h1.tidied.load(SeqCst)), (first, 1));
    conn.soil();
    drop(conn);
    h1.tidy(Answer::Hang);
    let started = Instant::now();
    assert_ne!(serial(&pool).await, first);
    assert_eq!(started.elapsed(), secs(2), "the tidy deadline");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_connection_is_not_checked() {
    let driver = Scripted::new();
    let settings = builder(&driver, 1).bypass_window(ms(500));
    let pool =
        bb8::Pool::builder().max_size(1).build_unchecked(FailoverManager::new(settings).unwrap());
    let first = serial(&pool).await;
    let pings = || driver.host("h1").pings.load(SeqCst);
    let before = pings();
    for _ in 0..3 {
        tokio::time::sleep(ms(499)).await;
        assert_eq!(serial(&pool).await, first);
    }
    assert_eq!(pings(), before, "the return counts as the last word");
    tokio::time::sleep(ms(500)).await;
    assert_eq!(serial(&pool).await, first);
    assert_eq!(pings(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn the_cause_of_a_time_out_is_kept_and_goes_to_the_error_sink() {
    let driver = Scripted::new();
    for host in ["h1", "h2"] {
        driver.host(host).down(Verdict::Permanent);
    }
    let manager = FailoverManager::new(builder(&driver, 2)).unwrap();
    let error = manager.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    let kept = manager.last_error().unwrap();
    assert_eq!((kept.kind(), kept.to_string()), (error.kind(), error.to_string()));

    #[derive(Clone, Debug)]
    struct Sink(tokio::sync::mpsc::UnboundedSender<ErrorKind>);
    impl bb8::ErrorSink<Error> for Sink {
        fn sink(&self, error: Error) {
            self.0.send(error.kind()).unwrap();
        }
        fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<Error>> {
            Box::new(self.clone())
        }
    }
    let (sender, mut errors) = tokio::sync::mpsc::unbounded_channel();
    let pool = bb8::Pool::builder()
        .connection_timeout(secs(1))
        .error_sink(Box::new(Sink(sender)))
        .build_unchecked(manager);
    assert!(matches!(pool.get().await, Err(RunError::TimedOut)));
    assert_eq!(errors.recv().await, Some(ErrorKind::Permanent));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_left_by_one_walk() {
    let driver = Scripted::new();
    let (pool, core) = pool(&driver, 8, secs(30));
    serials(&pool, 8).await;
    let (h1, h2) = (driver.host("h1"), driver.host("h2"));
    let before = connects(&h1);
    rest().await;
    h1.down(Verdict::HostDown);
    h2.role(pool_core::host::Role::Source);
    let new = serials(&pool, 8).await;
    assert_eq!((new.len(), open(&h1), open(&h2)), (8, 0, 8));
    assert_eq!(core.status().writer().unwrap().name.as_ref(), "h2");
    // Eight connections to replace, and no storm on the host that fails.
    assert!(connects(&h1) - before <= 8, "{}", connects(&h1) - before);
}

#[tokio::test(start_paused = true)]
async fn reads_have_a_manager_of_their_own() {
    let driver = Scripted::new();
    let manager = FailoverManager::for_reads(builder(&driver, 3)).unwrap();
    let pool = bb8::Pool::builder().max_size(6).build_unchecked(manager);
    serials(&pool, 6).await;
    let opened = ["h1", "h2", "h3"].map(|host| open(&driver.host(host)));
    assert_eq!(opened, [0, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_a_connection_is_opened_wastes_nothing() {
    let driver = Scripted::new();
    let (pool, core) = pool(&driver, 1, secs(30));
    driver.host("h1").connect(Answer::Slow(ms(300)));
    assert!(timeout(ms(100), pool.get()).await.is_err());
    let conn = pool.get().await.unwrap();
    assert_eq!((conn.serial, connects(&driver.host("h1"))), (1, 1));
    assert_eq!(core.status().total().total(), 0, "the walking pool keeps nothing");
}
