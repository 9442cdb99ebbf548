//! The hot path: an idle connection is lent and taken back without an allocation, a timer or a task.
#![allow(clippy::unwrap_used)]

mod support;

use allocation_counter::{AllocationInfo, measure};
use futures_util::FutureExt;
use pool_core::balance::{LeastActive, RoundRobin, Weighted};
use pool_core::builder::PoolBuilder;
use pool_core::pool::Pool;
use pool_tests::scripted::Scripted;
use support::{builder, connects};
use tokio::runtime::Handle;

const ROUNDS: usize = 100;

/// Runs `lend` a hundred times without ever giving way to another task; what it allocated. Nothing that
/// it spawned could end in between, so every task would still be there.
fn on_the_spot(lend: impl Fn()) -> AllocationInfo {
    lend();
    let tasks = Handle::current().metrics().num_alive_tasks();
    let info = measure(|| (0..ROUNDS).for_each(|_| lend()));
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks, "a task was spawned");
    info
}

fn must_be_free(info: &AllocationInfo) {
    // A timer of tokio's is an allocation as well once it is registered; a task always is.
    assert_eq!((info.count_total, info.bytes_total), (0, 0), "{info:?}");
}

/// A pool of three hosts, each with two idle connections.
async fn stocked(
    driver: &Scripted,
    change: impl Fn(PoolBuilder<Scripted>) -> PoolBuilder<Scripted>,
) -> Pool<Scripted> {
    let pool = change(builder(driver, 3)).build().unwrap();
    drop(pool.get().await.unwrap());
    for host in ["h1", "h2", "h3"] {
        let _two = [pool.get_host(host).await.unwrap(), pool.get_host(host).await.unwrap()];
    }
    pool
}

#[tokio::test(start_paused = true)]
async fn a_write_checkout_and_its_return_are_free() {
    let driver = Scripted::new();
    let pool = stocked(&driver, |b| b).await;
    let before = connects(&driver.host("h1"));
    must_be_free(&on_the_spot(|| {
        let lease = pool.get().now_or_never().expect("no wait").unwrap();
        assert_eq!(lease.host().name(), "h1");
    }));
    assert_eq!(connects(&driver.host("h1")), before);
}

#[tokio::test(start_paused = true)]
async fn a_read_checkout_among_three_hosts_is_free_under_each_policy() {
    let driver = Scripted::new();
    for pool in [
        stocked(&driver, |b| b.balance(Weighted::default())).await,
        stocked(&driver, |b| b.balance(RoundRobin::default())).await,
        stocked(&driver, |b| b.balance(LeastActive::default())).await,
    ] {
        must_be_free(&on_the_spot(|| {
            let lease = pool.get_read().now_or_never().expect("no wait").unwrap();
            assert_ne!(lease.host().name(), "h1");
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkout_of_a_named_host_is_free() {
    let driver = Scripted::new();
    let pool = stocked(&driver, |b| b).await;
    must_be_free(&on_the_spot(|| {
        drop(pool.get_host("h3").now_or_never().expect("no wait").unwrap());
    }));
}

/// The measure measures: a caller that has to wait does allocate.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_pays_for_it() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let _lease = pool.get().await.unwrap();
    let info = on_the_spot(|| assert!(pool.get().now_or_never().is_none()));
    assert!(info.count_total >= ROUNDS as u64, "{info:?}");
}
