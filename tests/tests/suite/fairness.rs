//! Many callers, few connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::site::Site;
use super::{assert_whole, builder, soon};

const TASKS: usize = 200;
const CONNECTIONS: usize = 10;

/// How long to go on: `POOL_TESTS_SOAK` in seconds, or else `default`.
pub fn soak(default: u64) -> Duration {
    let seconds = std::env::var("POOL_TESTS_SOAK").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(default))
}

/// 200 callers on 10 connections: the one that has waited longest is always next, and nobody waits in
/// vain.
///
/// On one thread, which wakes callers in the order in which the pool called them: so the order in which
/// they go on is the pool's own. There are always more callers than connections, hence a queue, except at
/// the start, and then everybody asks in order as well.
pub async fn the_oldest_waiter_is_always_next(site: &impl Site, time: Duration) {
    let pool = builder(site).max_size(CONNECTIONS).build().unwrap();
    drop(soon("a lease", pool.get()).await.unwrap());
    let until = Instant::now() + time;
    let asked = Rc::new(Cell::new(0_u64));
    let served = Rc::new(RefCell::new(Vec::new()));
    let local = LocalSet::new();
    for _ in 0..TASKS {
        let (pool, asked, served) = (pool.clone(), Rc::clone(&asked), Rc::clone(&served));
        local.spawn_local(async move {
            while Instant::now() < until {
                let ticket = asked.replace(asked.get() + 1);
                // Polled at once: the place in the queue is that of the ticket.
                let mut lease = pool.get().await.expect("nobody waits in vain");
                served.borrow_mut().push(ticket);
                lease.query_drop("DO 1").await.unwrap();
            }
        });
    }
    local.await;
    let served = served.take();
    println!("{} leases in {time:?}", served.len());
    assert_eq!(served.len() as u64, asked.get());
    let late = served.iter().enumerate().find(|(place, ticket)| *place as u64 != **ticket);
    assert_eq!(late, None, "(place, ticket) of the first caller that was not served in its turn");
    assert!(served.len() > 10 * TASKS, "hardly any turns");
    assert_whole(&pool, &site.name(0)).await;
}
