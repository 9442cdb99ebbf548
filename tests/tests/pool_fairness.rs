//! Who waits longest is served first, whatever happens around.
#![allow(clippy::unwrap_used)]

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures_util::poll;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{Random, builder, counts, eventually, ms, open, secs};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

/// 200 tasks on 10 connections for 30 s: strictly first come, first served; no time-out.
#[tokio::test(start_paused = true)]
async fn two_hundred_tasks_on_ten_connections_are_served_in_order() {
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Slow(ms(5)));
    let pool = builder(&driver, 1).build().unwrap();
    let end = Instant::now() + secs(30);
    let asked = Rc::new(RefCell::new(0_u64));
    let served = Rc::new(RefCell::new(Vec::new()));
    let tasks = LocalSet::new();
    for task in 0..200 {
        let (pool, asked, served) = (pool.clone(), Rc::clone(&asked), Rc::clone(&served));
        tasks.spawn_local(async move {
            let mut random = Random(task);
            let mut longest = ms(0);
            while Instant::now() < end {
                let turn = {
                    let mut asked = asked.borrow_mut();
                    *asked += 1;
                    *asked
                };
                let started = Instant::now();
                let lease = pool.get().await.unwrap();
                served.borrow_mut().push(turn);
                longest = longest.max(started.elapsed());
                sleep(ms(1 + random.below(20))).await;
                if random.below(50) == 0 {
                    lease.kill();
                }
                drop(lease);
            }
            // 200 tasks, 10 connections, 20 ms each at most, and a few connects.
            assert!(longest < ms(600), "waited {longest:?}");
        });
    }
    tasks.await;
    let served = served.borrow();
    assert!(served.len() > 20_000, "only {} turns", served.len());
    let first = served.iter().zip(1..).find(|(turn, place)| *turn != place);
    assert_eq!(first, None, "turn and place differ");
    assert!(driver.host("h1").most_connecting.load(SeqCst) <= 2);
}

/// A task that gives its connection back and asks again has to queue like everybody else.
#[tokio::test(start_paused = true)]
async fn nobody_barges_in_front_of_a_waiter() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let mut waiter = Box::pin(pool.get());
    assert!(poll!(&mut waiter).is_pending());
    drop(lease);
    let mut newcomer = Box::pin(pool.get());
    assert!(poll!(&mut newcomer).is_pending());
    let lease = waiter.await.unwrap();
    assert!(poll!(&mut newcomer).is_pending());
    drop(lease);
    assert!(newcomer.await.is_ok());
}

/// A waiter whose connection turns out dead keeps its place in front of later ones.
#[tokio::test(start_paused = true)]
async fn a_dead_connection_does_not_cost_the_waiter_its_place() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(1).build().unwrap();
    let lease = pool.get().await.unwrap();
    let kill = lease.killer();
    let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(pool.get())).collect();
    for waiter in &mut waiters {
        assert!(poll!(waiter).is_pending());
    }
    drop(lease);
    // Dies between the look on return and the look of the waiter.
    kill();
    for waiter in waiters {
        let before = Instant::now();
        let lease = waiter.await.unwrap();
        assert_eq!(lease.serial, 2, "the replacement goes to everyone, in order");
        assert!(before.elapsed() < ms(5));
    }
}

/// Real threads: no wake-up is lost, no connection is lent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_every_caller_is_served() {
    let driver = Scripted::new();
    let pool = builder(&driver, 1).max_size(3).acquire_timeout(secs(20)).build().unwrap();
    let out = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let (pool, out) = (pool.clone(), Arc::clone(&out));
            tokio::spawn(async move {
                let mut random = Random(task);
                for _ in 0..500 {
                    let lease = pool.get().await.unwrap();
                    assert!(out.fetch_add(1, SeqCst) < 3, "more leases than connections");
                    if random.below(3) == 0 {
                        tokio::task::yield_now().await;
                    }
                    match random.below(40) {
                        0 => lease.kill(),
                        1 => lease.soil(),
                        _ => {}
                    }
                    out.fetch_sub(1, SeqCst);
                    drop(lease);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let counts = counts(&pool, "h1");
    assert_eq!((counts.in_use, counts.waiting), (0, 0));
    // What was killed is closed by a task of its own.
    eventually("the rest is closed", || open(&driver.host("h1")) <= 3).await;
}

/// Two full replicas: a read gets the first slot of either, and leaves nothing behind at the other.
#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_first_free_slot_of_any_host_that_could_serve() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3).max_size(1).acquire_timeout(secs(5)).build().unwrap();
    for free in ["h2", "h3"] {
        let mut held = vec![pool.get_read().await.unwrap(), pool.get_read().await.unwrap()];
        let mut read = Box::pin(pool.get_read());
        let mut later = Box::pin(pool.get_read());
        assert!(poll!(&mut read).is_pending() && poll!(&mut later).is_pending());
        sleep(secs(1)).await;
        held.retain(|lease| lease.host().name() != free);
        assert_eq!(read.await.unwrap().host().name(), free);
        assert_eq!(later.await.unwrap().host().name(), free, "in the order in which they came");
        drop(held);
        for host in ["h2", "h3"] {
            assert_eq!((counts(&pool, host).waiting, counts(&pool, host).in_use), (0, 0), "{host}");
        }
    }
    assert_eq!(counts(&pool, "h1").total(), 0, "the source was not asked");
}

/// A read that waits at two replicas goes on waiting at one when the other fails, and gives up both places
/// when it is given up.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_at_several_hosts_survives_the_failure_of_one() {
    let driver = Scripted::new();
    let pool = builder(&driver, 3)
        .max_size(1)
        .read_fallback_primary(false)
        .acquire_timeout(secs(20))
        .probe_interval(Some(secs(1)))
        .build()
        .unwrap();
    let (one, two) = (pool.get_read().await.unwrap(), pool.get_read().await.unwrap());
    let (failing, other) = (one.host().name().to_owned(), two.host().name().to_owned());
    let read = pool.get_read();
    let mut given_up = Box::pin(pool.get_read());
    assert!(poll!(&mut given_up).is_pending());
    let waiting = |host: &str| counts(&pool, host).waiting;
    assert_eq!((waiting(&failing), waiting(&other)), (1, 1));
    drop(given_up);
    assert_eq!((waiting(&failing), waiting(&other)), (0, 0));
    driver.host(&failing).down(Verdict::HostDown);
    let free = async {
        sleep(secs(10)).await;
        drop(one);
        drop(two);
    };
    let (read, ()) = tokio::join!(read, free);
    assert_eq!(read.unwrap().host().name(), other);
}
