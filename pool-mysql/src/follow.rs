//! Keeping a pool's hosts as a DNS service lists them.

use std::time::Duration;

use pool_core::event::Event;
use pool_core::host::Host;
use pool_core::pool::WeakPool;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, timeout_at};

use crate::driver::MySql;
use crate::pool::Pool;
use crate::srv::SrvService;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);

/// The shortest time between two look-ups, however many hosts fail.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Asks `service` again at an interval and when a host fails, until the pool is gone.
pub(crate) fn spawn(
    pool: &Pool,
    service: SrvService,
    hosts: Vec<Host>,
    interval: Option<Duration>,
) {
    let events = pool.events();
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    tokio::spawn(follow(pool.downgrade(), events, service, hosts, interval));
}

async fn follow(
    pool: WeakPool<MySql>,
    mut events: Receiver<Event>,
    service: SrvService,
    mut known: Vec<Host>,
    interval: Duration,
) {
    loop {
        sleep(SHORTEST_PAUSE.min(interval)).await;
        if !wait(&mut events, Instant::now() + interval).await {
            return;
        }
        let listed = match service.resolve().await {
            Ok(listed) => listed,
            // An answer that is missing or empty takes no host away.
            Err(error) => {
                tracing::debug!(%error, "the hosts stay as they were");
                continue;
            }
        };
        let Some(pool) = pool.upgrade() else { return };
        apply(&pool, &known, &listed).await;
        known = listed;
    }
}

/// Waits until `deadline` or until a host fails. `false`: the pool is gone.
async fn wait(events: &mut Receiver<Event>, deadline: Instant) -> bool {
    loop {
        match timeout_at(deadline, events.recv()).await {
            Err(_) | Ok(Ok(Event::HostDown { .. } | Event::WalkFailed { .. })) => return true,
            Ok(Ok(Event::Closed { .. }) | Err(RecvError::Closed)) => return false,
            Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
        }
    }
}

async fn apply(pool: &Pool, known: &[Host], listed: &[Host]) {
    let missing =
        |host: &Host, list: &[Host]| !list.iter().any(|other| other.name() == host.name());
    // New hosts first: the pool is never without one.
    for host in listed.iter().filter(|host| missing(host, known)) {
        if let Err(error) = pool.add_host(host.clone()) {
            tracing::warn!(%error, "a host that DNS lists was not added");
        }
    }
    for host in known.iter().filter(|host| missing(host, listed)) {
        // Leases that are still out end when they are returned.
        if let Err(error) = pool.remove_host(host.name(), Duration::ZERO).await {
            tracing::debug!(%error, "a host that DNS no longer lists was gone already");
        }
    }
}
