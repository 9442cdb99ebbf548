//! What a failed checkout tells: phase, numbers per host, each host's last cause; and what a builder refuses.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use pool_core::error::{Error, ErrorKind, Phase};
use pool_core::host::Host;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted, ScriptedError, hosts};
use support::{builder, connects, ms, secs};
use tokio::time::{Instant, sleep};

fn must_say(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert!(!text.contains('\n'));
}

#[tokio::test(start_paused = true)]
async fn a_time_out_in_the_queue_says_that_all_are_in_use() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 1).name("orders").max_size(2).acquire_timeout(secs(3)).build().unwrap();
    let _leases = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    let started = Instant::now();
    let error = pool.get().await.unwrap_err();
    assert_eq!(started.elapsed(), secs(3));
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Timeout, Phase::Waiting));
    assert_eq!(error.elapsed(), secs(3));
    assert!(error.is_transient());
    must_say(
        &error,
        &[
            "pool orders: write checkout: timed out while waiting after 3000 ms",
            "h1: total 2/2 idle 0 in use 2 tending 0 connecting 0 waiting ",
        ],
    );
    assert_eq!(error.hosts()[0].counts.in_use, 2);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_while_dialling_names_the_phase() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Hang);
    let pool = builder(&driver, 1).acquire_timeout(secs(2)).build().unwrap();
    let error = pool.get().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Timeout, Phase::Dialling));
    must_say(&error, &["while dialling after 2000 ms", "connecting 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_while_a_check_is_awaited_names_the_phase() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).check_timeout(secs(9)).build().unwrap();
    drop(pool.get().await.unwrap());
    sleep(secs(1)).await;
    driver.host("h1").ping(Answer::Hang);
    let error = pool.get_within(secs(2)).await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Timeout, Phase::Validating));
}

#[tokio::test(start_paused = true)]
async fn a_time_out_carries_each_hosts_last_cause_and_its_age() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Hang);
    driver.host("h2").connect(Answer::Fail(Verdict::HostDown));
    let pool = builder(&driver, 2).acquire_timeout(secs(8)).build().unwrap();
    let error = pool.get().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Timeout, Phase::Walking));
    must_say(
        &error,
        &[
            "h1: total ",
            "last host-down error 3000 ms ago while walking: no answer within 5000 ms",
            "h2: total ",
            "while walking: scripted host-down",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_comes_at_once_and_carries_the_drivers_error() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    driver.host("h1").connect(Answer::Fail(Verdict::Permanent));
    let started = Instant::now();
    // Also while the slow retry pauses: nobody waits for what cannot help.
    for round in 0..50 {
        let error = pool.get().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permanent, "round {round}: {error}");
        assert!(!error.is_transient());
        must_say(&error, &["permanent error while dialling", "scripted permanent"]);
        assert_eq!(error.driver_error::<ScriptedError>().unwrap().0, Verdict::Permanent);
    }
    assert!(started.elapsed() < ms(50), "{:?}", started.elapsed());
    assert!(connects(&driver.host("h1")) < 6, "a wrong password is not tried at every call");
    driver.host("h1").up();
    sleep(secs(5)).await;
    assert!(pool.get().await.is_ok(), "and the retry goes on");
}

/// Another error in between does not hide what is wrong.
#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_told_even_if_another_error_came_later() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let lease = pool.get().await.unwrap();
    driver.host("h1").connect(Answer::Fail(Verdict::Permanent));
    lease.fail(Verdict::ConnectionLost);
    drop(pool.get_within(ms(100)).await.unwrap_err());
    lease.fail(Verdict::ConnectionEnded);
    drop(lease);
    for _ in 0..20 {
        let error = pool.get_within(ms(100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
        must_say(&error, &["scripted permanent", "connection-ended error 0 ms ago while in use"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_in_a_walk_ends_it_with_that_cause() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Fail(Verdict::Permanent));
    let pool = builder(&driver, 2).build().unwrap();
    let started = Instant::now();
    let error = pool.get().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Permanent, Phase::Walking));
    assert_eq!(error.driver_error::<ScriptedError>().unwrap().0, Verdict::Permanent);
    assert_eq!(started.elapsed(), ms(0));
}

/// Whatever hangs, and wherever: no caller waits for longer than its deadline.
#[tokio::test(start_paused = true)]
async fn no_deadline_is_ever_exceeded() {
    for hosts in [1, 3] {
        for (connect, ping) in [
            (Answer::Hang, Answer::Ok),
            (Answer::Ok, Answer::Hang),
            (Answer::Hang, Answer::Hang),
            (Answer::Slow(ms(4990)), Answer::Slow(ms(1990))),
        ] {
            let driver = Scripted::new();
            let pool = builder(&driver, hosts)
                .bypass_window(Duration::ZERO)
                .acquire_timeout(ms(2500))
                .build()
                .unwrap();
            drop(pool.get().await.unwrap());
            for n in 1..=hosts {
                driver.host(&format!("h{n}")).connect(connect.clone());
                driver.host(&format!("h{n}")).ping(ping.clone());
            }
            let callers = (0..30).map(|n| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    sleep(ms(n * 37)).await;
                    let started = Instant::now();
                    let limit = match n % 3 {
                        0 => pool.get().await.map(drop).map_or(ms(2500), |()| ms(2500)),
                        1 => pool.get_read().await.map(drop).map_or(ms(2500), |()| ms(2500)),
                        _ => pool.get_within(ms(700)).await.map(drop).map_or(ms(700), |()| ms(700)),
                    };
                    let took = started.elapsed();
                    assert!(took <= limit + ms(1), "{took:?} of {limit:?}");
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                caller.await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_builder_names_the_options_that_contradict_each_other() {
    let driver = Scripted::new();
    let build =
        |change: fn(B) -> B| change(builder(&driver, 1)).build().map(drop).unwrap_err().to_string();
    type B = pool_core::builder::PoolBuilder<Scripted>;
    let zero = Duration::ZERO;
    assert_eq!(zero, ms(0));
    for (text, parts) in [
        (build(|b| b.max_size(0)), ["max_size", "at least 1"]),
        (build(|b| b.max_size(2).min_idle(3)), ["min_idle", "max_size"]),
        (build(|b| b.max_connecting(0)), ["max_connecting", "at least 1"]),
        (build(|b| b.acquire_timeout(ms(0))), ["acquire_timeout", "longer than zero"]),
        (build(|b| b.connect_timeout(ms(0))), ["connect_timeout", "longer than zero"]),
        (build(|b| b.check_timeout(ms(0))), ["check_timeout", "longer than zero"]),
        (build(|b| b.probe_interval(Some(ms(0)))), ["probe_interval", "longer than zero"]),
        (build(|b| b.probe_failures(0)), ["probe_failures", "at least 1"]),
        (build(|b| b.max_lifetime(secs(1)).keepalive(secs(2))), ["keepalive", "max_lifetime"]),
        (
            build(|b| b.connect_backoff(secs(2), secs(1))),
            ["connect_backoff", "connect_backoff_max"],
        ),
        (build(|b| b.host(Host::new("x", 1).named("h1"))), ["hosts", "h1 is listed twice"]),
        (build(|b| b.host(Host::new("x", 1).with_weight(10_001))), ["weight", "10000"]),
    ] {
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in: {text}");
    }
    let none = Pool::builder(driver.clone()).build().unwrap_err();
    assert_eq!(none.option(), "hosts");
}

#[test]
fn a_builder_outside_a_runtime_says_so() {
    let driver = Scripted::new();
    let error = Pool::builder(driver.clone()).hosts(hosts(&driver, 1)).build().unwrap_err();
    assert_eq!(error.option(), "runtime");
}
