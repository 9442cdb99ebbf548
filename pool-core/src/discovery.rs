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

/// The shortest interval that is kept.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// A source of hosts: DNS, the cluster itself, a registry, a file.
///
/// | source | by |
/// |---|---|
/// | a static list | [`StaticHosts`]; or no discovery: the hosts given to the pool's builder |
/// | DNS SRV records | `pool_mysql::srv::SrvService`, or a URL that begins with `mysql+srv://` |
/// | the role probe | no discovery: see below |
/// | MySQL Group Replication | `pool_mysql::GroupMembers` |
/// | the replicas of a MySQL source | `pool_mysql::Replicas` |
/// | anything else | your own type |
///
/// A discovery says which hosts there are, not what they are. Roles are found by probes: with
/// [`Roles::Probed`](crate::config::Roles), the default, every host is asked at
/// [`PoolBuilder::probe_interval`](crate::builder::PoolBuilder::probe_interval) whether it takes writes, and
/// how far it is behind, and the pool follows a switchover among the hosts that it has. So a known list of
/// hosts needs no discovery at all. The role of a listed [`Host`] is only what is assumed until then.
///
/// A read weight is part of the list: a host joins with it, and when the list gives it another one later,
/// that is set as by [`Pool::set_weight`]. A weight that was set by hand stays while the list stays the same.
///
/// Hosts are told apart by their names, so a discovery must name them as the pool's configuration does.
///
/// ```
/// use std::error::Error;
/// use async_trait::async_trait;
/// use pool_core::discovery::Discovery;
/// use pool_core::host::Host;
///
/// /// One `address:port` on each line of a file.
/// #[derive(Debug)]
/// struct HostsFile(std::path::PathBuf);
///
/// #[async_trait]
/// impl Discovery for HostsFile {
///     async fn hosts(&self) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
///         let text = std::fs::read_to_string(&self.0)?;
///         text.lines()
///             .map(|line| {
///                 let (address, port) = line.rsplit_once(':').ok_or("a line without a port")?;
///                 Ok(Host::new(address, port.parse()?))
///             })
///             .collect()
///     }
/// }
/// ```
#[async_trait]
pub trait Discovery: Debug + Send + Sync {
    /// The hosts that the pool should have now. The pool bounds the time that it takes, by its acquire
    /// timeout; the future is dropped then.
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
    /// Keeps the hosts of this pool as `discovery` lists them: asked at once, then each time `interval` is
    /// over, and within a second after a host failed. New hosts join first; one that is no longer
    /// listed is drained and removed, and leases that are still out end on return. A host whose address or
    /// port changes under the same name is replaced. Ends with the pool.
    ///
    /// Call it inside the runtime of the pool.
    pub fn follow(&self, discovery: impl Discovery + 'static, interval: Duration) {
        let interval = interval.max(SHORTEST_INTERVAL);
        let known = self.hosts();
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
            self.ask().await;
            let due = Instant::now() + self.interval;
            sleep(SHORTEST_PAUSE.min(self.interval)).await;
            if !wait(&mut events, due).await {
                return;
            }
        }
    }

    async fn ask(&mut self) {
        // Not held while the answer is awaited: the last clone of the pool may go then.
        let limit = self.pool.upgrade().map(|pool| pool.cluster().config.acquire_timeout);
        let Some(limit) = limit else { return };
        let answer = timeout(limit, self.discovery.hosts()).await;
        let Some(pool) = self.pool.upgrade() else { return };
        // An answer that is missing or empty takes no host away.
        let why = match answer {
            Ok(Ok(listed)) if !listed.is_empty() => {
                apply(&pool, &self.known, &listed).await;
                self.known = listed;
                return;
            }
            Ok(Ok(_)) => "the list is empty".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no list within {limit:?}"),
        };
        tracing::warn!(pool = %pool.cluster().name, "the listed hosts are not known: {why}");
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
    let before = |host: &Host| known.iter().find(|other| other.name() == host.name());
    // New hosts first: the pool is never without one.
    for host in listed.iter().filter(|host| before(host).is_none()) {
        add(pool, host);
    }
    for host in listed {
        let Some(before) = before(host) else { continue };
        if (before.address(), before.port()) != (host.address(), host.port()) {
            remove(pool, before).await;
            add(pool, host);
        } else if let Some(weight) = host.weight().filter(|_| host.weight() != before.weight())
            && let Err(error) = pool.set_weight(host.name(), weight)
        {
            tracing::warn!(%error, "the listed weight of a host was not set");
        }
    }
    let is_listed = |host: &Host| listed.iter().any(|other| other.name() == host.name());
    for host in known.iter().filter(|host| !is_listed(host)) {
        remove(pool, host).await;
    }
}

fn add<D: Driver>(pool: &Pool<D>, host: &Host) {
    if let Err(error) = pool.add_host(host.clone()) {
        tracing::warn!(%error, "a listed host was not added");
    }
}

/// Leases that are still out end when they are returned.
async fn remove<D: Driver>(pool: &Pool<D>, host: &Host) {
    if let Err(error) = pool.remove_host(host.name(), Duration::ZERO).await {
        tracing::debug!(%error, "a host that is no longer listed was gone already");
    }
}
