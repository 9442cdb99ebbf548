//! Which host serves, when hosts fail, change roles and come back.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use futures_util::poll;
use pool_core::config::Roles;
use pool_core::driver::Lag;
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::host::Role;
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, HostScript, Scripted};
use support::{builder, connects, counts, event, eventually, ms, open, secs, sent};
use tokio::time::{Instant, sleep, timeout};

fn scripts(driver: &Scripted, count: usize) -> Vec<Arc<HostScript>> {
    (1..=count).map(|n| driver.host(&format!("h{n}"))).collect()
}

fn generation(pool: &Pool<Scripted>, host: &str) -> u64 {
    pool.status().host(host).unwrap().generation
}

async fn writer(pool: &Pool<Scripted>) -> String {
    pool.get().await.unwrap().host().name().to_owned()
}

/// A thousand callers, one walk: connects do not multiply with the callers.
#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_share_one_walk() {
    let driver = Scripted::new();
    let all = scripts(&driver, 3);
    let pool = builder(&driver, 3).build().unwrap();
    for script in &all {
        script.connect(Answer::Fail(Verdict::HostDown));
    }
    let callers: Vec<_> = (0..1000)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { writer(&pool).await })
        })
        .collect();
    sleep(secs(1)).await;
    for script in &all {
        assert_eq!(script.most_connecting.load(SeqCst), 1, "one attempt at a time");
        // Rounds at 0, 250 and 750 ms.
        assert_eq!(connects(script), 3);
    }
    all[2].up();
    all[2].role(Role::Source);
    let started = Instant::now();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), "h3");
    }
    assert!(started.elapsed() < secs(2), "one round later: {:?}", started.elapsed());
    assert!(connects(&all[0]) <= 4 && connects(&all[1]) <= 4);
    assert!(all[2].most_connecting.load(SeqCst) <= 2);
    assert!(open(&all[2]) <= 10);
}

#[tokio::test(start_paused = true)]
async fn a_walk_goes_on_when_the_caller_that_started_it_leaves() {
    let driver = Scripted::new();
    let all = scripts(&driver, 2);
    let pool = builder(&driver, 2).build().unwrap();
    all[0].connect(Answer::Hang);
    all[1].role(Role::Source);
    let first = {
        let pool = pool.clone();
        tokio::spawn(async move { pool.get().await.map(|_| ()) })
    };
    eventually("the walk is under way", || connects(&all[0]) == 1).await;
    let second = {
        let pool = pool.clone();
        tokio::spawn(async move { writer(&pool).await })
    };
    sleep(ms(10)).await;
    first.abort();
    assert_eq!(second.await.unwrap(), "h2");
    assert_eq!(connects(&all[0]), 1, "the second caller joined; it did not start over");
}

#[tokio::test(start_paused = true)]
async fn a_walk_ends_when_nobody_waits_for_it_and_a_later_caller_starts_anew() {
    let driver = Scripted::new();
    let all = scripts(&driver, 2);
    let pool = builder(&driver, 2).build().unwrap();
    for script in &all {
        script.connect(Answer::Fail(Verdict::HostDown));
    }
    assert!(timeout(secs(1), pool.get()).await.is_err());
    // The pause that it is in, and no further attempt.
    sleep(secs(10)).await;
    let before = connects(&all[0]) + connects(&all[1]);
    sleep(secs(60)).await;
    assert_eq!(connects(&all[0]) + connects(&all[1]), before);
    all[0].up();
    assert_eq!(writer(&pool).await, "h1");
}

#[tokio::test(start_paused = true)]
async fn a_walk_that_finds_nobody_ends_with_the_deadline_and_names_every_host() {
    let driver = Scripted::new();
    for script in scripts(&driver, 2) {
        script.connect(Answer::Fail(Verdict::HostDown));
    }
    let pool = builder(&driver, 2).acquire_timeout(secs(3)).build().unwrap();
    let started = Instant::now();
    let error = pool.get().await.unwrap_err();
    assert_eq!(started.elapsed(), secs(3));
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = error.to_string();
    assert!(text.contains("while walking") && text.contains("h1: ") && text.contains("h2: "));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_panics_stops_neither_the_walk_nor_the_monitor() {
    let driver = Scripted::new();
    let all = scripts(&driver, 2);
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    let mut events = pool.events();
    all[0].connect(Answer::Panic);
    all[0].ping(Answer::Panic);
    all[1].role(Role::Source);
    assert_eq!(writer(&pool).await, "h2");
    eventually("h1 is left out", || pool.status().host("h1").unwrap().blocked_for.is_some()).await;
    all[0].up();
    all[0].role(Role::Replica);
    event(&mut events, |event| matches!(event, Event::HostUp { host } if &**host == "h1")).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_voids_its_siblings_at_once_and_late_reports_do_nothing() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let mut events = pool.events();
    let mut leases = Vec::new();
    for _ in 0..5 {
        leases.push(pool.get().await.unwrap());
    }
    let (first, late) = (leases.pop().unwrap(), leases.pop().unwrap());
    drop(leases);
    assert_eq!((counts(&pool, "h1").idle, generation(&pool, "h1")), (3, 0));

    first.fail(Verdict::ConnectionLost);
    assert_eq!((counts(&pool, "h1").idle, generation(&pool, "h1")), (0, 1));
    // Well inside the window, and yet nothing of the old generation is handed out.
    let lease = pool.get().await.unwrap();
    assert_eq!(lease.serial, 6);
    drop(lease);

    late.fail(Verdict::ConnectionLost);
    assert_eq!((counts(&pool, "h1").idle, generation(&pool, "h1")), (1, 1));
    drop((first, late));
    assert_eq!(pool.get().await.unwrap().serial, 6);
    let voided = Event::Voided { host: "h1".into(), generation: 1 };
    assert_eq!(sent(&mut events), [voided]);
    eventually("only one is open", || open(&driver.host("h1")) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_statement_and_an_ended_connection_void_nothing() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let (a, b) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    drop(a);
    b.fail(Verdict::Statement);
    assert_eq!(generation(&pool, "h1"), 0);
    b.fail(Verdict::ConnectionEnded);
    drop(b);
    assert_eq!((counts(&pool, "h1").idle, generation(&pool, "h1")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_demotes_the_host_and_the_next_one_goes_where_writes_are_taken() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    let lease = pool.get().await.unwrap();
    assert!(lease.is_writable());
    driver.host("h1").role(Role::Replica);
    driver.host("h2").role(Role::Source);
    let mut events = pool.events();
    lease.fail(Verdict::Demoted);
    assert!(!lease.is_writable());
    drop(lease);
    assert_eq!(writer(&pool).await, "h2");
    let host = || "h1".into();
    assert_eq!(
        sent(&mut events),
        [
            Event::Voided { host: host(), generation: 1 },
            Event::Demoted { host: host() },
            Event::Failover { from: Some(host()), to: "h2".into() },
        ]
    );
    let status = pool.status();
    assert_eq!(&*status.writer().unwrap().name, "h2");
    assert_eq!(status.host("h1").unwrap().role, Role::Replica);
}

/// Who already waits in the queue of the host that lost the writes goes with them.
#[tokio::test(start_paused = true)]
async fn a_caller_in_the_queue_of_a_demoted_host_is_served_by_the_new_source() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let mut waiter = Box::pin(pool.get());
    assert!(poll!(&mut waiter).is_pending());
    driver.host("h1").role(Role::Replica);
    driver.host("h2").role(Role::Source);
    lease.fail(Verdict::Demoted);
    let started = Instant::now();
    assert_eq!(waiter.await.unwrap().host().name(), "h2");
    assert_eq!(started.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn a_caller_in_the_queue_of_the_old_source_follows_a_promotion() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).max_size(1).build().unwrap();
    let _held = pool.get().await.unwrap();
    let mut waiter = Box::pin(pool.get());
    assert!(poll!(&mut waiter).is_pending());
    pool.promote("h2").unwrap();
    assert_eq!(waiter.await.unwrap().host().name(), "h2");
}

#[tokio::test(start_paused = true)]
async fn a_read_in_the_queue_of_a_host_that_goes_down_moves_on() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).max_size(1).probe_interval(Some(secs(1))).build().unwrap();
    drop(pool.get().await.unwrap());
    let _full = [pool.get_host("h2").await.unwrap(), pool.get_host("h3").await.unwrap()];
    let mut reads: Vec<_> = (0..2).map(|_| Box::pin(pool.get_read())).collect();
    for read in &mut reads {
        assert!(poll!(read).is_pending());
    }
    let waiting = |host: &str| counts(&pool, host).waiting;
    assert_eq!((waiting("h2"), waiting("h3")), (2, 2), "each of them at both");
    driver.host("h2").down(Verdict::HostDown);
    driver.host("h3").down(Verdict::HostDown);
    let started = Instant::now();
    for read in reads {
        assert_eq!(read.await.unwrap().host().name(), "h1");
    }
    assert!(started.elapsed() < secs(3), "{:?}", started.elapsed());
}

/// Takes connects, fails every probe and check: callers are not sent in circles.
#[tokio::test(start_paused = true)]
async fn a_host_that_only_takes_connects_serves_or_fails_within_the_deadline() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2)
        .bypass_window(ms(0))
        .max_size(2)
        .probe_interval(Some(secs(1)))
        .build()
        .unwrap();
    drop(pool.get().await.unwrap());
    for host in ["h1", "h2"] {
        driver.host(host).ping(Answer::Fail(Verdict::HostDown));
    }
    let callers = (0..20).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let started = Instant::now();
            if let Ok(lease) = pool.get_within(secs(2)).await {
                sleep(ms(5)).await;
                drop(lease);
            }
            assert!(started.elapsed() <= ms(2006), "{:?}", started.elapsed());
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let dialled = connects(&driver.host("h1"));
    assert!(dialled < 200, "{dialled} connects for twenty callers");
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_host_by_name_waits_on_when_its_role_changes() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).max_size(1).build().unwrap();
    let lease = pool.get_host("h1").await.unwrap();
    drop(pool.get_host("h2").await.unwrap());
    let mut named = Box::pin(pool.get_host("h1"));
    assert!(poll!(&mut named).is_pending());
    lease.fail(Verdict::Demoted);
    assert!(poll!(&mut named).is_pending());
    drop(lease);
    assert_eq!(named.await.unwrap().host().name(), "h1");
}

/// A probe sees the new source while the walk still dials the dead one: nobody waits for the dial.
#[tokio::test(start_paused = true)]
async fn a_walk_ends_when_a_probe_finds_the_new_source() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    drop(pool.get().await.unwrap());
    driver.host("h1").connect(Answer::Hang);
    driver.host("h1").ping(Answer::Hang);
    let lease = pool.get().await.unwrap();
    lease.fail(Verdict::Demoted);
    drop(lease);
    let started = Instant::now();
    let caller = tokio::spawn({
        let pool = pool.clone();
        async move { writer(&pool).await }
    });
    sleep(ms(100)).await;
    driver.host("h2").role(Role::Source);
    assert_eq!(caller.await.unwrap(), "h2");
    assert!(started.elapsed() <= ms(1100), "{:?}", started.elapsed());
    eventually("the dial was given up", || counts(&pool, "h1").connecting == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_demotion_that_only_a_probe_sees_moves_the_writes_as_well() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    assert_eq!(writer(&pool).await, "h1");
    let mut events = pool.events();
    driver.host("h1").role(Role::Replica);
    driver.host("h2").role(Role::Source);
    event(&mut events, |event| matches!(event, Event::Failover { to, .. } if &**to == "h2")).await;
    assert_eq!(writer(&pool).await, "h2");
}

#[tokio::test(start_paused = true)]
async fn of_two_sources_the_current_one_keeps_the_writes_and_it_is_said_once() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    assert_eq!(writer(&pool).await, "h1");
    let mut events = pool.events();
    driver.host("h2").role(Role::Source);
    sleep(secs(20)).await;
    let two = Event::TwoSources { current: "h1".into(), other: "h2".into() };
    assert_eq!(sent(&mut events), [two]);
    assert_eq!(writer(&pool).await, "h1");
}

#[tokio::test(start_paused = true)]
async fn with_static_roles_writes_leave_a_dead_source_and_return_when_the_rule_says_so() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 2).roles(Roles::Static).probe_interval(Some(secs(1))).build().unwrap();
    assert_eq!(writer(&pool).await, "h1");
    let mut events = pool.events();
    driver.host("h1").down(Verdict::HostDown);
    let lease = pool.get().await.unwrap();
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    let left = Instant::now();
    assert_eq!(writer(&pool).await, "h2");
    driver.host("h1").up();
    // 30 seconds after the source was left, not when it comes back.
    sleep(secs(25)).await;
    assert_eq!(writer(&pool).await, "h2");
    let held = pool.get().await.unwrap();
    event(&mut events, |event| matches!(event, Event::ReturnedToSource { .. })).await;
    assert!((secs(30)..secs(32)).contains(&left.elapsed()), "{:?}", left.elapsed());
    assert_eq!(writer(&pool).await, "h1");
    // The lease on the stand-in finishes undisturbed, and is not kept for writes.
    assert_eq!(held.host().name(), "h2");
    drop(held);
    assert_eq!(counts(&pool, "h2").idle, 0);
}

#[tokio::test(start_paused = true)]
async fn a_source_still_dead_when_the_return_is_due_is_asked_again_a_whole_interval_later() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 2).roles(Roles::Static).probe_interval(Some(secs(1))).build().unwrap();
    assert_eq!(writer(&pool).await, "h1");
    let mut events = pool.events();
    driver.host("h1").down(Verdict::HostDown);
    pool.get().await.unwrap().fail(Verdict::ConnectionLost);
    let left = Instant::now();
    assert_eq!(writer(&pool).await, "h2");
    // Due at 30 s, and down: put off. Up again at 35 s, but not due before 60 s.
    sleep(secs(35)).await;
    driver.host("h1").up();
    event(&mut events, |event| matches!(event, Event::ReturnedToSource { .. })).await;
    assert!((secs(60)..secs(63)).contains(&left.elapsed()), "{:?}", left.elapsed());
}

#[tokio::test(start_paused = true)]
async fn reads_go_on_without_a_failed_replica_and_at_last_on_the_source() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    drop(pool.get().await.unwrap());
    let read = async || pool.get_read().await.unwrap().host().name().to_owned();
    let both = [read().await, read().await];
    assert!(both.contains(&"h2".to_owned()) && both.contains(&"h3".to_owned()), "{both:?}");

    let lease = pool.get_host("h2").await.unwrap();
    driver.host("h2").down(Verdict::HostDown);
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    for _ in 0..20 {
        assert_eq!(read().await, "h3", "no error reaches the caller");
    }
    let lease = pool.get_host("h3").await.unwrap();
    driver.host("h3").down(Verdict::HostDown);
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    assert_eq!(read().await, "h1");
}

#[tokio::test(start_paused = true)]
async fn reads_that_nobody_may_serve_fail_at_once_with_a_reason_for_each_host() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 3).read_fallback_primary(false).max_lag(Some(secs(5))).build().unwrap();
    driver.host("h2").down(Verdict::HostDown);
    driver.host("h3").lag(Lag::Known(secs(60)));
    driver.host("h1").role(Role::Replica);
    // The walk finds h3, and how far it is behind.
    driver.host("h3").role(Role::Source);
    drop(pool.get().await.unwrap());
    driver.host("h3").role(Role::Replica);
    let started = Instant::now();
    let error = pool.get_read().await.unwrap_err();
    assert_eq!(started.elapsed(), ms(0));
    assert_eq!(error.kind(), ErrorKind::NoHost);
    let reasons: Vec<_> =
        error.hosts().iter().map(|host| (&*host.host, host.refused.unwrap())).collect();
    assert_eq!(reasons[1], ("h2", "blocked"));
    assert!(error.to_string().contains("refused: blocked"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_replica_costs_a_read_one_connect_timeout_and_no_more() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).connect_timeout(secs(1)).build().unwrap();
    driver.host("h2").connect(Answer::Hang);
    for _ in 0..4 {
        let started = Instant::now();
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
        assert!(started.elapsed() <= secs(1), "{:?}", started.elapsed());
    }
    assert_eq!(connects(&driver.host("h2")), 1, "left out after the first");
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_a_wrong_password_is_passed_over() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    driver.host("h2").connect(Answer::Fail(Verdict::Permanent));
    for _ in 0..10 {
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    }
    for name in ["h1", "h3"] {
        driver.host(name).connect(Answer::Fail(Verdict::Permanent));
    }
    let lease = pool.get_host("h3").await.unwrap();
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    let started = Instant::now();
    let error = pool.get_read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert_eq!(started.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_comes_back_is_found_without_a_caller() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    let lease = pool.get_host("h2").await.unwrap();
    let mut events = pool.events();
    driver.host("h2").down(Verdict::HostDown);
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    let of_h2 = |wanted: bool| {
        move |event: &Event| match event {
            Event::HostDown { host, .. } => !wanted && &**host == "h2",
            Event::HostUp { host } => wanted && &**host == "h2",
            _ => false,
        }
    };
    event(&mut events, of_h2(false)).await;
    driver.host("h2").up();
    let healed = Instant::now();
    event(&mut events, of_h2(true)).await;
    assert!(healed.elapsed() <= secs(1));
    assert_eq!(pool.get_read().await.unwrap().host().name(), "h2");
}

/// The source dies under 32 tasks and comes back: reads see no error, every write ends in time with a
/// lease or a typed error, and afterwards all is as before, without help.
#[tokio::test(start_paused = true)]
async fn a_source_that_dies_under_load_comes_back_whole() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 3).probe_interval(Some(secs(1))).acquire_timeout(secs(2)).build().unwrap();
    drop(pool.get().await.unwrap());
    let end = Instant::now() + secs(16);
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut failed = 0;
                while Instant::now() < end {
                    let started = Instant::now();
                    if task % 2 == 0 {
                        drop(pool.get_read().await.expect("reads see no error"));
                        assert!(started.elapsed() < ms(50));
                    } else {
                        match pool.get().await {
                            Ok(_lease) => sleep(ms(3)).await,
                            Err(error) => {
                                failed += 1;
                                assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                            }
                        }
                        assert!(started.elapsed() < ms(2010), "{:?}", started.elapsed());
                    }
                    sleep(ms(5)).await;
                }
                failed
            })
        })
        .collect();
    sleep(secs(2)).await;
    let lease = pool.get().await.unwrap();
    driver.host("h1").down(Verdict::HostDown);
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    sleep(secs(6)).await;
    driver.host("h1").up();
    let mut failed = 0;
    for task in tasks {
        failed += task.await.unwrap();
    }
    assert!(failed > 0, "writes were refused while nobody took them");
    assert_eq!(writer(&pool).await, "h1");
    for host in ["h1", "h2", "h3"] {
        let counts = counts(&pool, host);
        assert_eq!(counts.total(), counts.idle, "{host}: {counts:?}");
        assert_eq!(open(&driver.host(host)), counts.idle + 1, "{host}: one more for its probes");
    }
}
