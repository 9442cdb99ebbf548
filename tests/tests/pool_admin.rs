//! Operations on a running pool, and the events they send.
#![allow(clippy::unwrap_used)]

mod support;

use futures_util::poll;
use pool_core::access::Access;
use pool_core::balance::endpoint::EndpointMode;
use pool_core::config::Roles;
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::host::{Host, Role};
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted, hosts};
use support::{builder, connects, counts, eventually, ms, open, secs, sent};
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_pause_hands_out_nothing_keeps_deadlines_and_ends_with_a_resume() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).acquire_timeout(secs(5)).build().unwrap();
    drop(pool.get().await.unwrap());
    let mut events = pool.events();
    pool.pause();
    let started = Instant::now();
    let error = pool.get().await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (ErrorKind::Timeout, secs(5)));

    let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(pool.get())).collect();
    for waiter in &mut waiters {
        assert!(poll!(waiter).is_pending());
    }
    pool.resume();
    for waiter in waiters {
        assert!(waiter.await.is_ok());
    }
    assert_eq!(sent(&mut events), [Event::Paused, Event::Resumed]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_joins_a_paused_pool_is_paused_too() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    pool.pause();
    pool.add_host(Host::new("127.0.0.1", 2).named("late").with_role(Role::Replica)).unwrap();
    assert!(timeout(secs(1), pool.get_host("late")).await.is_err());
    pool.resume();
    assert_eq!(pool.get_host("late").await.unwrap().host().name(), "late");
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_leases_and_takes_no_new_work() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    let lease = pool.get_host("h2").await.unwrap();
    drop(pool.get_host("h2").await.unwrap());
    let mut events = pool.events();
    let started = Instant::now();
    let drain = tokio::spawn({
        let pool = pool.clone();
        async move { pool.drain("h2", secs(10)).await.unwrap().abandoned }
    });
    eventually("the drain has begun", || pool.status().host("h2").unwrap().draining).await;
    assert_eq!((counts(&pool, "h2").idle, counts(&pool, "h2").in_use), (0, 1));
    for _ in 0..10 {
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    }
    assert_eq!(pool.get_host("h2").await.unwrap_err().kind(), ErrorKind::Refused);
    sleep(secs(3)).await;
    drop(lease);
    assert_eq!(drain.await.unwrap(), 0);
    assert!(started.elapsed() < secs(4), "it does not wait for longer than the lease");
    let name = || "h2".into();
    assert_eq!(
        sent(&mut events),
        [Event::Draining { host: name(), in_use: 1 }, Event::Drained { host: name() }]
    );
    eventually("its connections are closed", || open(&driver.host("h2")) == 0).await;

    pool.undrain("h2").unwrap();
    assert_eq!(pool.get_host("h2").await.unwrap().host().name(), "h2");
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_runs_out_of_time_says_how_many_are_out() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let leases = [pool.get_host("h2").await.unwrap(), pool.get_host("h2").await.unwrap()];
    let mut events = pool.events();
    let started = Instant::now();
    assert_eq!(pool.drain("h2", secs(2)).await.unwrap().abandoned, 2);
    assert_eq!(started.elapsed(), secs(2));
    drop(leases);
    let host = || "h2".into();
    assert_eq!(
        sent(&mut events),
        [
            Event::Draining { host: host(), in_use: 2 },
            Event::DrainTimedOut { host: host(), in_use: 2 }
        ]
    );
    eventually("closed on return", || open(&driver.host("h2")) == 0).await;
    assert_eq!(pool.drain("nobody", secs(1)).await.unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_drained_source_takes_no_writes_even_though_its_probes_say_it_could() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(1))).build().unwrap();
    drop(pool.get().await.unwrap());
    assert_eq!(pool.drain("h1", secs(1)).await.unwrap().abandoned, 0);
    let mut events = pool.events();
    sleep(secs(5)).await;
    assert_eq!(sent(&mut events), []);
    assert!(pool.status().writer().is_none());
    driver.host("h2").role(Role::Source);
    assert_eq!(pool.get().await.unwrap().host().name(), "h2");
}

#[tokio::test(start_paused = true)]
async fn a_dirty_connection_of_a_drained_host_is_closed_and_not_tidied() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).build().unwrap();
    let lease = pool.get_host("h2").await.unwrap();
    let _ = pool.drain("h2", ms(1)).await.unwrap();
    lease.soil();
    drop(lease);
    assert_eq!(counts(&pool, "h2").total(), 0);
    assert_eq!(driver.host("h2").tidied.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_joins_serves_and_leaves() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(5))).build().unwrap();
    drop(pool.get().await.unwrap());
    let mut events = pool.events();
    let h3 = || Host::new("127.0.0.1", 3).named("h3").with_role(Role::Replica);
    driver.host("h3").role(Role::Replica);
    pool.add_host(h3()).unwrap();
    assert!(pool.add_host(h3()).unwrap_err().to_string().contains("h3 is a member already"));
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(pool.get_read().await.unwrap().host().name().to_owned());
    }
    assert!(seen.contains(&"h2".to_owned()) && seen.contains(&"h3".to_owned()), "{seen:?}");

    let held = pool.get_host("h2").await.unwrap();
    assert_eq!(pool.remove_host("h2", secs(1)).await.unwrap().abandoned, 1);
    assert!(pool.status().host("h2").is_none());
    for _ in 0..4 {
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    }
    assert_eq!(held.host().name(), "h2");
    drop(held);
    // Its background tasks end at once, and with them the connection of its probes.
    let removed = Instant::now();
    eventually("nothing of it is left", || open(&driver.host("h2")) == 0).await;
    assert!(removed.elapsed() < ms(100), "{:?}", removed.elapsed());
    let before = connects(&driver.host("h2"));
    sleep(secs(30)).await;
    assert_eq!(connects(&driver.host("h2")), before);
    assert_eq!(
        sent(&mut events),
        [
            Event::HostAdded { host: "h3".into() },
            Event::Draining { host: "h2".into(), in_use: 1 },
            Event::DrainTimedOut { host: "h2".into(), in_use: 1 },
            Event::HostRemoved { host: "h2".into() },
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_weight_counts_from_the_next_read_on() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).build().unwrap();
    let mut events = pool.events();
    pool.set_weight("h2", 0).unwrap();
    for _ in 0..10 {
        assert_eq!(pool.get_read().await.unwrap().host().name(), "h3");
    }
    assert_eq!(sent(&mut events), [Event::WeightChanged { host: "h2".into(), weight: 0 }]);
    assert_eq!(pool.status().host("h2").unwrap().weight, 0);
    let error = pool.set_weight("h2", 10_001).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("10001"), "{error}");
    assert_eq!(pool.set_weight("h9", 1).unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_moves_the_writes_and_voids_what_was_opened_before() {
    for roles in [Roles::Probed, Roles::Static] {
        let driver = Scripted::new();
        let pool = builder(&driver, 2).roles(roles).build().unwrap();
        let held = pool.get().await.unwrap();
        drop(pool.get().await.unwrap());
        drop(pool.get_host("h2").await.unwrap());
        let mut events = pool.events();
        pool.promote("h2").unwrap();
        assert_eq!(counts(&pool, "h1").idle, 0, "{roles:?}");
        let lease = pool.get().await.unwrap();
        assert_eq!((lease.host().name(), lease.access()), ("h2", Access::Write));
        assert_eq!(held.host().name(), "h1", "a lease is never switched");
        drop(held);
        assert_eq!(counts(&pool, "h1").total(), 0, "{roles:?}");
        let seen = sent(&mut events);
        let last = Event::Failover { from: Some("h1".into()), to: "h2".into() };
        assert_eq!(seen.last(), Some(&last), "{roles:?}");
        let voided = Event::Voided { host: "h1".into(), generation: 1 };
        assert!(seen.contains(&voided), "{roles:?}");
        let of_h1 = |e: &&Event| matches!(e, Event::Voided { host, .. } if &**host == "h1");
        assert_eq!(seen.iter().filter(of_h1).count(), 1, "{roles:?}: once");
        assert_eq!(pool.promote("h9").unwrap_err().kind(), ErrorKind::Refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_promoted_host_is_the_one_that_writes_return_to() {
    let driver = Scripted::new();
    let pool =
        builder(&driver, 2).roles(Roles::Static).probe_interval(Some(secs(1))).build().unwrap();
    drop(pool.get().await.unwrap());
    pool.promote("h2").unwrap();
    let roles = pool.status().hosts.iter().map(|host| host.role).collect::<Vec<_>>();
    assert_eq!(roles, [Role::Replica, Role::Source]);
    // Longer than the rule that brings writes back to the source after a failover.
    sleep(secs(60)).await;
    let lease = pool.get().await.unwrap();
    assert_eq!(lease.host().name(), "h2");
    assert_eq!(pool.get_read().await.unwrap().host().name(), "h1");

    let mut events = pool.events();
    driver.host("h2").down(Verdict::HostDown);
    lease.fail(Verdict::ConnectionLost);
    drop(lease);
    assert_eq!(pool.get().await.unwrap().host().name(), "h1");
    driver.host("h2").up();
    let back = support::event(&mut events, |e| matches!(e, Event::ReturnedToSource { .. })).await;
    assert_eq!(back, Event::ReturnedToSource { from: "h1".into(), to: "h2".into() });
}

#[tokio::test(start_paused = true)]
async fn a_close_refuses_callers_waits_for_leases_and_counts_the_abandoned() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).max_size(2).probe_interval(Some(secs(5))).build().unwrap();
    let (returned, kept) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let mut waiter = Box::pin(pool.get());
    assert!(poll!(&mut waiter).is_pending());
    let mut events = pool.events();
    let started = Instant::now();
    let close = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(secs(5)).await.abandoned }
    });
    assert_eq!(waiter.await.unwrap_err().kind(), ErrorKind::Closed);
    for result in [pool.get().await, pool.get_read().await, pool.get_host("h2").await] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed);
    }
    let late = Host::new("127.0.0.1", 3).named("late");
    assert!(pool.add_host(late).unwrap_err().to_string().contains("closed"));
    sleep(secs(1)).await;
    drop(returned);
    assert_eq!(close.await.unwrap(), 1);
    assert_eq!(started.elapsed(), secs(5));
    assert_eq!(sent(&mut events), [Event::Closed { abandoned: 1 }]);
    assert_eq!(open(&driver.host("h1")), 1);
    drop(kept);
    for host in ["h1", "h2"] {
        eventually("all are closed", || open(&driver.host(host)) == 0).await;
    }
    assert_eq!(pool.close(secs(1)).await.abandoned, 0, "closing again is fine");
}

#[tokio::test(start_paused = true)]
async fn a_close_refuses_callers_of_a_walk_at_once() {
    let driver = Scripted::new();
    for host in ["h1", "h2"] {
        driver.host(host).connect(Answer::Hang);
    }
    let pool = builder(&driver, 2).build().unwrap();
    let mut caller = Box::pin(pool.get());
    assert!(poll!(&mut caller).is_pending());
    eventually("the walk dials", || connects(&driver.host("h1")) == 1).await;
    let started = Instant::now();
    assert_eq!(pool.close(secs(1)).await.abandoned, 0);
    assert_eq!(caller.await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(started.elapsed() < ms(5), "{:?}", started.elapsed());
    assert_eq!(counts(&pool, "h1").connecting, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_closes_the_pool_and_leases_end_on_return() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2).probe_interval(Some(secs(5))).build().unwrap();
    let clone = pool.clone();
    let lease = pool.get().await.unwrap();
    drop(pool.get().await.unwrap());
    drop(pool);
    assert!(clone.get().await.is_ok());
    drop(clone);
    eventually("only the lease is open", || open(&driver.host("h1")) == 1).await;
    assert_eq!(open(&driver.host("h2")), 0);
    lease.fail(Verdict::ConnectionLost);
    lease.soil();
    drop(lease);
    eventually("nothing is open", || open(&driver.host("h1")) == 0).await;
}

#[test]
fn a_lease_may_end_outside_a_runtime_and_after_it() {
    let driver = Scripted::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (pool, leases) = runtime.block_on(async {
        let pool = Pool::builder(driver.clone()).hosts(hosts(&driver, 1)).build().unwrap();
        let mut leases = Vec::new();
        for _ in 0..6 {
            leases.push(pool.get().await.unwrap());
        }
        (pool, leases)
    });
    let mut leases = leases.into_iter();
    let mut next = || leases.next().unwrap();
    drop(next());
    let dirty = next();
    dirty.soil();
    drop(dirty);
    next().discard();
    drop(runtime);
    let dirty = next();
    dirty.soil();
    drop(dirty);
    next().discard();
    drop(next());
    let counts = counts(&pool, "h1");
    assert_eq!((counts.in_use, counts.tending), (0, 0), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn detach_and_discard_free_the_place_at_once() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let conn = pool.get().await.unwrap().detach();
    assert_eq!(counts(&pool, "h1").total(), 0);
    pool.get().await.unwrap().discard();
    assert_eq!(counts(&pool, "h1").total(), 0);
    assert_eq!(pool.get().await.unwrap().serial, 3);
    eventually("discarded means closed", || open(&driver.host("h1")) == 2).await;
    assert_eq!(conn.serial, 1);
    drop(conn);
    assert_eq!(counts(&pool, "h1").idle, 1, "what is detached is no business of the pool");
}

#[tokio::test(start_paused = true)]
async fn a_discard_serves_a_waiter_with_a_new_connection() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let mut waiter = Box::pin(pool.get());
    assert!(poll!(&mut waiter).is_pending());
    lease.discard();
    assert_eq!(waiter.await.unwrap().serial, 2);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_endpoint_never_lends_for_writes() {
    let driver = Scripted::new();
    let pool = builder(&driver, 2)
        .endpoint_mode(EndpointMode::ReadOnly)
        .probe_interval(Some(secs(1)))
        .build()
        .unwrap();
    sleep(secs(3)).await;
    drop(pool.get_host("h1").await.unwrap());
    let refused = pool.get().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotWritable);
    assert!(refused.to_string().contains("the endpoint is read-only"), "{refused}");
    assert_eq!(pool.get_read().await.unwrap().host().name(), "h2");
}

#[tokio::test(start_paused = true)]
async fn the_source_of_a_read_only_endpoint_has_no_weight_and_serves_no_hint() {
    let driver = Scripted::new();
    let read_only = || builder(&driver, 2).endpoint_mode(EndpointMode::ReadOnly);
    let pool = read_only().build().unwrap();
    let refused = pool.set_weight("h1", 50).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("\"h1\" is the source of a read-only"), "{refused}");
    pool.set_weight("h1", 0).unwrap();
    pool.set_weight("h2", 50).unwrap();
    // A replica with a weight that becomes the source takes no part either.
    pool.promote("h2").unwrap();
    let hint = "/*force_node='h2'*/ SELECT 1";
    let refused = pool.get_for(hint).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("\"h2\" is not a replica"), "{refused}");
    assert_eq!(pool.explain(hint).pick, None);

    let source = |weight| Host::new("h9", 1).with_role(Role::Source).with_weight(weight);
    let error = read_only().host(source(1)).build().unwrap_err();
    assert!(error.to_string().contains("h9:1"), "{error}");
    assert!(read_only().host(source(0)).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_knows_its_age_and_how_long_it_was_idle() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).build().unwrap();
    let lease = pool.get().await.unwrap();
    assert_eq!((lease.age(), lease.idle_before(), lease.held()), (ms(0), ms(0), ms(0)));
    sleep(ms(100)).await;
    drop(lease);
    sleep(ms(200)).await;
    let lease = pool.get().await.unwrap();
    sleep(ms(30)).await;
    assert_eq!((lease.age(), lease.idle_before(), lease.held()), (ms(330), ms(200), ms(30)));
}
