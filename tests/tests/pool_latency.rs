//! Reads that follow the latencies of the hosts.
#![allow(clippy::unwrap_used)]

mod support;

use pool_core::balance::LeastLatency;
use pool_core::pool::Pool;
use pool_tests::scripted::Scripted;
use support::{builder, ms, secs};
use tokio::time::sleep;

/// One read that takes this long; the host that served it.
async fn read(pool: &Pool<Scripted>, millis: u64) -> String {
    let lease = pool.get_read().await.unwrap();
    sleep(ms(millis)).await;
    lease.host().name().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_slow_once_is_tried_again_when_that_has_faded() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).balance(LeastLatency::new()).build().unwrap();
    assert_eq!(read(&pool, 10_000).await, "h2", "nothing is measured yet");
    for _ in 0..1000 {
        assert_eq!(read(&pool, 10).await, "h3");
    }
    // 10 s of latency fade to less than 10 ms within 10 s × ln 1000, about 69 s.
    sleep(secs(40)).await;
    assert_eq!(read(&pool, 10).await, "h3");
    let mut reads = 0;
    while read(&pool, 10).await != "h2" {
        reads += 1;
        assert!(reads < 3000, "h2 is never tried again");
    }
    // The old peak counts for a while yet, but less with every new measurement.
    let mut again = 0;
    for _ in 0..2000 {
        again += usize::from(read(&pool, 10).await == "h2");
    }
    assert!(again >= 3, "{again}");
}
