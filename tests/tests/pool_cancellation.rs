//! A caller may leave at any moment, a driver may fail in any way: nothing leaks, and the pool heals.
#![allow(clippy::unwrap_used)]

mod support;

use std::panic;
use std::sync::Once;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::poll;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{Random, builder, connects, counts, eventually, ms, open, secs};
use tokio::time::{Instant, sleep, timeout};

/// Keeps scripted panics out of the output; every other one is shown.
fn hide_scripted_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"scripted panic") {
                usual(info);
            }
        }));
    });
}

fn answers() -> [Answer; 5] {
    [
        Answer::Ok,
        Answer::Fail(Verdict::HostDown),
        Answer::Hang,
        Answer::Slow(ms(120)),
        Answer::Panic,
    ]
}

/// One caller: asks, may leave at any moment, and gives back in some state.
async fn call(pool: Pool<Scripted>, mut random: Random) {
    sleep(ms(random.below(300))).await;
    let read = random.below(3) == 0;
    let asked = async { if read { pool.get_read().await } else { pool.get().await } };
    let Ok(Ok(lease)) = timeout(ms(random.below(900)), asked).await else { return };
    sleep(ms(random.below(60))).await;
    match random.below(6) {
        0 => lease.soil(),
        1 => lease.kill(),
        2 => lease.fail(Verdict::ConnectionLost),
        3 => lease.discard(),
        _ => {}
    }
}

/// Every way to fail of connect, check and tidying, with callers that come and go; then all is well
/// again: a fresh caller is served, and the counts are those of reality.
async fn matrix(hosts: usize, probes: Option<Duration>) {
    hide_scripted_panics();
    let mut seed = 0;
    for connect in answers() {
        for check in answers() {
            for tidy in answers() {
                seed += 1;
                let case = format!("connect {connect:?}, check {check:?}, tidy {tidy:?}");
                one_case(hosts, probes, seed, [&connect, &check, &tidy], &case).await;
            }
        }
    }
}

async fn one_case(
    hosts: usize,
    probes: Option<Duration>,
    seed: u64,
    [connect, check, tidy]: [&Answer; 3],
    case: &str,
) {
    let driver = Scripted::new();
    let pool = builder(&driver, hosts)
        .probe_interval(probes)
        .max_size(3)
        .bypass_window(Duration::ZERO)
        .acquire_timeout(secs(8))
        .connect_timeout(ms(400))
        .check_timeout(ms(200))
        .tidy_timeout(ms(200))
        .build()
        .unwrap();
    // Something to check and to tidy, before it goes wrong.
    let early = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    early[0].soil();
    drop(early);
    let scripts: Vec<_> = (1..=hosts).map(|n| driver.host(&format!("h{n}"))).collect();
    for script in &scripts {
        script.connect(connect.clone());
        script.ping(check.clone());
        script.tidy(tidy.clone());
    }
    let callers: Vec<_> =
        (0..24).map(|n| tokio::spawn(call(pool.clone(), Random(seed * 1000 + n)))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    for script in &scripts {
        script.up();
        script.tidy(Answer::Ok);
    }
    let fresh = pool.get().await;
    assert!(fresh.is_ok(), "{case}: {fresh:?}");
    assert!(pool.get_read().await.is_ok(), "{case}");
    drop(fresh);
    let all = ["h1", "h2", "h3"];
    for (script, host) in scripts.iter().zip(all) {
        let settled = || {
            let counts = counts(&pool, host);
            let monitors = usize::from(probes.is_some());
            counts.in_use + counts.tending + counts.connecting + counts.waiting == 0
                && counts.idle + monitors == open(script)
                && counts.idle <= 3
        };
        eventually(&format!("{case}: exact counts on {host}"), settled).await;
    }
    let settled = pool.close(secs(1)).await;
    assert_eq!(settled.abandoned, 0, "{case}");
    for script in &scripts {
        eventually(&format!("{case}: all closed"), || open(script) == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_host_heals_from_every_failure_with_callers_leaving() {
    matrix(1, None).await;
}

#[tokio::test(start_paused = true)]
async fn a_probed_cluster_heals_from_every_failure_with_callers_leaving() {
    matrix(3, Some(secs(1))).await;
}

#[tokio::test(start_paused = true)]
async fn a_connect_survives_its_caller_and_joins_the_pool() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Slow(ms(300)));
    let pool = builder(&driver, 1).build().unwrap();
    assert!(timeout(ms(100), pool.get()).await.is_err());
    assert_eq!(counts(&pool, "h1").waiting, 0);
    eventually("the connection is in the store", || counts(&pool, "h1").idle == 1).await;
    let before = Instant::now();
    assert_eq!(pool.get().await.unwrap().serial, 1);
    assert_eq!(before.elapsed(), ms(0));
    assert_eq!(connects(&driver.host("h1")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_its_way_to_a_caller_that_left_reaches_the_next() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let mut first = Box::pin(pool.get());
    let mut second = Box::pin(pool.get());
    assert!(poll!(&mut first).is_pending());
    assert!(poll!(&mut second).is_pending());
    drop(lease);
    // It is in the channel of the first now, which never looks.
    drop(first);
    let before = Instant::now();
    assert_eq!(second.await.unwrap().serial, 1);
    assert_eq!(before.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn no_caller_sleeps_beside_an_idle_connection_while_a_connect_hangs() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).connect_timeout(secs(20)).build().unwrap();
    let lease = pool.get().await.unwrap();
    driver.host("h1").connect(Answer::Hang);
    assert!(timeout(ms(10), pool.get()).await.is_err());
    assert_eq!(counts(&pool, "h1").connecting, 1);
    drop(lease);
    // Long enough to need a check.
    sleep(secs(1)).await;
    let before = Instant::now();
    assert_eq!(pool.get().await.unwrap().serial, 1);
    assert!(before.elapsed() < ms(5), "waited {:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn at_most_two_connects_to_a_host_are_under_way() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Slow(ms(50)));
    let pool = builder(&driver, 1).max_size(20).build().unwrap();
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let lease = pool.get().await.unwrap();
                sleep(secs(2)).await;
                drop(lease);
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(connects(&driver.host("h1")), 20);
    assert_eq!(driver.host("h1").most_connecting.load(SeqCst), 2);
}

/// A check that its caller does not wait for any more still ends, and its connection is not lost.
#[tokio::test(start_paused = true)]
async fn a_check_survives_its_caller() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    drop(pool.get().await.unwrap());
    sleep(secs(1)).await;
    driver.host("h1").ping(Answer::Slow(ms(300)));
    assert!(timeout(ms(100), pool.get()).await.is_err());
    assert_eq!(counts(&pool, "h1").tending, 1);
    eventually("it is idle again", || counts(&pool, "h1").idle == 1).await;
    assert_eq!(pool.get().await.unwrap().serial, 1);
}

/// Real threads, real time: callers leave at random moments, and nobody else is forgotten for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_leaving_callers_take_nothing_with_them() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(2).acquire_timeout(secs(20)).build().unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut random = Random(task);
                for _ in 0..300 {
                    if random.below(2) == 0 {
                        // Polled once, and left with whatever is on its way.
                        let mut left = Box::pin(pool.get());
                        let _ = poll!(&mut left);
                        tokio::task::yield_now().await;
                        continue;
                    }
                    let lease = pool.get().await.unwrap();
                    tokio::task::yield_now().await;
                    drop(lease);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let counts = counts(&pool, "h1");
    assert_eq!((counts.in_use, counts.waiting), (0, 0), "{counts:?}");
}

/// The runtime of a pool goes away: callers elsewhere get an error, not a hang, and no panic.
#[test]
fn a_runtime_that_shut_down_leaves_an_error_and_no_hang() {
    let driver = Scripted::new();
    let home =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // However slow the machine: what is idle needs no check, which nobody would carry out.
    let build = async { builder(&driver, 1).bypass_window(secs(600)).build().unwrap() };
    let pool = home.block_on(build);
    let lease = home.block_on(pool.get()).unwrap();
    home.shutdown_background();
    drop(lease);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        let first = pool.get().await.map(|lease| lease.serial);
        assert!(matches!(first, Ok(1)), "{first:?}");
        let _lease = pool.get().await.unwrap();
        // A second connection would have to be opened where no task runs any more.
        let started = std::time::Instant::now();
        let second = timeout(secs(10), pool.get()).await.expect("no hang");
        assert!(second.is_err());
        assert!(started.elapsed() < secs(5));
        assert_eq!(counts(&pool, "h1").connecting, 0);
    });
}
