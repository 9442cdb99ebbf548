//! Where the hosts of a pool come from, while it runs.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::driver::Driver;
use crate::event::Event;
use crate::host::Host;
use crate::pool::{Pool, WeakPool};

/// The shortest time between two look-ups, however many hosts fail.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// A source of hosts: DNS, the cluster itself, a registry, a file.
///
/// Roles are not its business: probes find out who takes writes. Hosts are told apart by their names, so it
/// must name them as the pool's configuration does.
#[async_trait]
pub trait Discovery: Debug + Send + Sync {
    /// The hosts that the pool should have now. The pool bounds the time that it takes.
    ///
    /// # Errors
    ///
    /// An error, or an empty list, leaves the pool as it is.
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn std::error::Error + Send + Sync>>;
}

/// A list that never changes.
#[derive(Clone, Debug, Default)]
pub struct StaticHosts(pub Vec<Host>);

#[async_trait]
impl Discovery for StaticHosts {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.clone())
    }
}

impl<D: Driver> Pool<D> {
    /// Keeps the hosts of this pool as `discovery` lists them: asked at `interval`, and soon after a host
    /// failed. New hosts join first; one that is no longer listed is drained and removed, and leases that
    /// are still out end on return. Ends with the pool.
    ///
    /// Call it inside the runtime of the pool.
    pub fn follow(&self, discovery: impl Discovery + 'static, interval: Duration) {
        let known = self.cluster().hosts.load().iter().map(|slots| slots.host.clone()).collect();
        let follower = Follower { pool: self.downgrade(), discovery, known, interval };
        let events = self.events();
        self.cluster().runtime.spawn(follower.run(events));
    }
}

struct Follower<D: Driver, S> {
    pool: WeakPool<D>,
    discovery: S,
    known: Vec<Host>,
    interval: Duration,
}

impl<D: Driver, S: Discovery> Follower<D, S> {
    async fn run(mut self, mut events: Receiver<Event>) {
        loop {
            sleep(SHORTEST_PAUSE.min(self.interval)).await;
            if !wait(&mut events, Instant::now() + self.interval).await {
                return;
            }
            let limit = match self.pool.upgrade() {
                Some(pool) => pool.cluster().config.acquire_timeout,
                None => return,
            };
            let listed = match timeout(limit, self.discovery.hosts()).await {
                Ok(Ok(listed)) if !listed.is_empty() => listed,
                // An answer that is missing or empty takes no host away.
                answer => {
                    tracing::debug!(?answer, "the hosts stay as they were");
                    continue;
                }
            };
            let Some(pool) = self.pool.upgrade() else { return };
            apply(&pool, &self.known, &listed).await;
            self.known = listed;
        }
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

async fn apply<D: Driver>(pool: &Pool<D>, known: &[Host], listed: &[Host]) {
    let missing =
        |host: &Host, list: &[Host]| !list.iter().any(|other| other.name() == host.name());
    // New hosts first: the pool is never without one.
    for host in listed.iter().filter(|host| missing(host, known)) {
        if let Err(error) = pool.add_host(host.clone()) {
            tracing::warn!(%error, "a listed host was not added");
        }
    }
    for host in known.iter().filter(|host| missing(host, listed)) {
        // Leases that are still out end when they are returned.
        if let Err(error) = pool.remove_host(host.name(), Duration::ZERO).await {
            tracing::debug!(%error, "a host that is no longer listed was gone already");
        }
    }
}
