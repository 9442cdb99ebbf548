//! Drains step by step: progress, the end of the grace period, leases that are ended by force.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use pool_core::admin::{Drain, Settled};
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::lease::Lease;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{builder, counts, event, eventually, ms, open, secs, sent};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

fn h2() -> Arc<str> {
    "h2".into()
}

async fn leases(pool: &Pool<Scripted>, count: usize) -> Vec<Lease<Scripted>> {
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(pool.get_host("h2").await.unwrap());
    }
    leases
}

/// Drains `h2` in a task of its own, which has begun when this returns.
async fn drain(
    pool: &Pool<Scripted>,
    how: impl Into<Drain>,
) -> JoinHandle<Result<Settled, pool_core::error::Error>> {
    let (other, how) = (pool.clone(), how.into());
    let drain = tokio::spawn(async move { other.drain("h2", how).await });
    eventually("the drain has begun", || pool.status().host("h2").unwrap().draining).await;
    drain
}

#[tokio::test(start_paused = true)]
async fn each_lease_that_comes_back_to_a_draining_host_is_an_event() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let mut out = leases(&pool, 3).await;
    let mut events = pool.events();
    let drain = drain(&pool, Drain::default()).await;
    for in_use in [2, 1] {
        sleep(secs(2)).await;
        drop(out.pop());
        let progress = event(&mut events, |e| matches!(e, Event::DrainProgress { .. })).await;
        assert_eq!(progress, Event::DrainProgress { host: h2(), in_use });
    }
    // A lease of another host is no progress.
    drop(pool.get().await.unwrap());
    out.pop().unwrap().discard();
    assert_eq!(drain.await.unwrap().unwrap(), Settled { abandoned: 0, ended: 0 });
    let rest = sent(&mut events);
    assert_eq!(rest.last(), Some(&Event::Drained { host: h2() }), "{rest:?}");
    assert!(!rest.iter().any(|event| matches!(event, Event::DrainProgress { .. })), "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn the_default_grace_is_that_of_the_rules() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let out = leases(&pool, 1).await;
    let started = Instant::now();
    assert_eq!(pool.drain("h2", Drain::default()).await.unwrap().abandoned, 1);
    assert_eq!(started.elapsed(), secs(15));
    drop(out);
}

#[tokio::test(start_paused = true)]
async fn a_forced_drain_ends_what_is_left_and_waits_for_its_return() {
    let driver = Scripted::new();
    driver.host("h2").end_sessions(Answer::Ok);
    let pool = builder(&driver, 2).build().unwrap();
    // One of the connections was tidied before.
    let soiled = pool.get_host("h2").await.unwrap();
    soiled.soil();
    drop(soiled);
    eventually("it is clean", || counts(&pool, "h2").idle == 1).await;
    let mut out = leases(&pool, 3).await;
    let mut events = pool.events();
    let started = Instant::now();
    let drain = drain(&pool, Drain::within(secs(10)).force()).await;
    sleep(secs(1)).await;
    drop(out.pop());
    event(&mut events, |event| matches!(event, Event::LeasesEnded { .. })).await;
    assert_eq!(started.elapsed(), secs(10));
    // A lease stays in the hands of its caller, who finds out at the next statement.
    assert_eq!(counts(&pool, "h2").in_use, 2);
    for lease in &out {
        assert!(lease.is_ended());
        lease.fail(Verdict::ConnectionLost);
    }
    sleep(secs(1)).await;
    drop(out);
    assert_eq!(drain.await.unwrap().unwrap(), Settled { abandoned: 0, ended: 2 });
    assert_eq!(started.elapsed(), secs(11));
    eventually("nothing is open", || open(&driver.host("h2")) == 0).await;
    assert_eq!(sent(&mut events).last(), Some(&Event::Drained { host: h2() }));
}

#[tokio::test(start_paused = true)]
async fn a_forced_drain_is_bounded_and_says_what_is_left() {
    // How the server ends connections, how many are over, how long it takes after the grace period.
    for (answer, ended) in
        [(Some(Answer::Ok), 2), (Some(Answer::Hang), 0), (Some(Answer::Panic), 0), (None, 0)]
    {
        let driver = Scripted::new();
        if let Some(answer) = answer.clone() {
            driver.host("h2").end_sessions(answer);
        }
        let pool = builder(&driver, 2).build().unwrap();
        let out = leases(&pool, 2).await;
        let mut events = pool.events();
        let started = Instant::now();
        let how = Drain::within(secs(1)).force_within(secs(3));
        let settled = pool.drain("h2", how).await.unwrap();
        assert_eq!(settled, Settled { abandoned: 2, ended }, "{answer:?}");
        assert_eq!(started.elapsed(), secs(4), "{answer:?}");
        assert_eq!(
            sent(&mut events),
            [
                Event::Draining { host: h2(), in_use: 2 },
                Event::DrainTimedOut { host: h2(), in_use: 2 },
                Event::LeasesEnded { host: h2(), ended, of: 2 },
            ],
            "{answer:?}"
        );
        drop(out);
        eventually("closed on return", || open(&driver.host("h2")) == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_called_off_forces_and_removes_nothing() {
    let driver = Scripted::new();
    driver.host("h2").end_sessions(Answer::Ok);
    let pool = builder(&driver, 2).build().unwrap();
    let out = leases(&pool, 1).await;
    let mut events = pool.events();
    let removal = tokio::spawn({
        let pool = pool.clone();
        async move { pool.remove_host("h2", Drain::within(secs(10)).force()).await }
    });
    eventually("the drain has begun", || pool.status().host("h2").unwrap().draining).await;
    pool.undrain("h2").unwrap();
    let error = removal.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("taken back into service"), "{error}");
    sleep(secs(20)).await;
    assert!(pool.status().host("h2").is_some());
    assert!(!out[0].is_ended());
    assert_eq!(sent(&mut events), [Event::Draining { host: h2(), in_use: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn leases_are_ended_step_by_step_and_only_those() {
    let driver = Scripted::new();
    driver.host("h2").end_sessions(Answer::Ok);
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    let mut out = leases(&pool, 4).await;
    let detached = out.pop().unwrap().detach();
    let serial = out[0].serial;
    drop(out.pop());
    let tended = out.pop().unwrap();
    driver.host("h2").tidy(Answer::Hang);
    tended.soil();
    drop(tended);
    let mut events = pool.events();
    // The steps of the document: weight 0, wait, end the rest, remove.
    pool.set_weight("h2", 0).unwrap();
    assert_eq!((counts(&pool, "h2").in_use, counts(&pool, "h2").idle), (1, 1));
    assert_eq!(pool.end_leases("h2", secs(1)).await.unwrap(), 1);
    assert_eq!(
        sent(&mut events),
        [
            Event::WeightChanged { host: h2(), weight: 0 },
            Event::LeasesEnded { host: h2(), ended: 1, of: 1 }
        ]
    );
    assert!(out[0].is_ended() && !detached.is_ended());
    assert_eq!(counts(&pool, "h2").idle, 0, "what was idle is closed");
    // The host serves on, and what was ended is never handed out again.
    drop(out);
    let lease = pool.get_host("h2").await.unwrap();
    assert!(lease.serial > serial && !lease.is_ended());
    drop(lease);
    let mut errors = pool.events();
    sleep(secs(10)).await;
    let seen = sent(&mut errors);
    assert_eq!(seen, [], "the connection of its probes was spared");
    assert_eq!(pool.remove_host("h2", ms(1)).await.unwrap().abandoned, 0);
    assert_eq!(pool.end_leases("h2", ms(1)).await.unwrap_err().kind(), ErrorKind::Refused);
}
