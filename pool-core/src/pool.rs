//! The pool: leases for writes, for reads, for a host, or for a statement.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::access::Access;
use crate::clock::deadline_in;
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::error::{Cause, Error, ErrorKind, Phase};
use crate::event::Event;
use crate::failover::GiveUp;
use crate::lease::Lease;
use crate::retry::RetryBudget;
use crate::route::RoutePolicy;
use crate::route_counts::RouteCounts;
use crate::slots::store::{HostSlots, Refusal};
use crate::status::Status;
use crate::verdict::Verdict;
use crate::walk::{Joined, WalkEnd};

/// A pool of connections to the hosts of one cluster. Cheap to clone; the last clone closes it.
pub struct Pool<D: Driver> {
    shared: Arc<Shared<D>>,
}

pub(crate) struct Shared<D: Driver> {
    pub(crate) cluster: Arc<Cluster<D>>,
    router: Arc<dyn RoutePolicy>,
    routes: RouteCounts,
    retries_reads: bool,
    retry_budget: RetryBudget,
}

impl<D: Driver> Pool<D> {
    pub(crate) fn new(
        cluster: Arc<Cluster<D>>,
        router: Arc<dyn RoutePolicy>,
        retries_reads: bool,
    ) -> Self {
        let routes = RouteCounts::new(Arc::clone(&cluster.name));
        let retry_budget = RetryBudget::new();
        let shared = Shared { cluster, router, routes, retries_reads, retry_budget };
        Self { shared: Arc::new(shared) }
    }

    /// Leases a connection to the host that takes writes.
    ///
    /// An idle connection is handed out without a round trip, an allocation, a timer or a task. Otherwise
    /// the caller queues (first come, first served) while a connection is opened or comes back; if the
    /// host cannot be reached, it joins the one walk that looks for the host that takes writes.
    ///
    /// Cancellation safety: dropping the future gives up the place in the queue and loses nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] after the acquire timeout, [`ErrorKind::NoHost`] when nobody takes writes,
    /// [`ErrorKind::Permanent`] at once for wrong credentials and the like, [`ErrorKind::Closed`].
    pub async fn get(&self) -> Result<Lease<D>, Error> {
        if let Some(lease) = self.try_write() {
            return Ok(lease);
        }
        // Boxed: only callers that wait pay for the size of that future.
        Box::pin(self.wait_to_write(self.deadline())).await
    }

    /// As [`Pool::get`], with a deadline of this caller instead of the pool's acquire timeout.
    ///
    /// # Errors
    ///
    /// As [`Pool::get`].
    pub async fn get_within(&self, timeout: Duration) -> Result<Lease<D>, Error> {
        if let Some(lease) = self.try_write() {
            return Ok(lease);
        }
        Box::pin(self.wait_to_write(deadline_in(timeout))).await
    }

    /// Every host's role, counts and last error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.cluster().status()
    }

    /// State changes from now on. A listener that falls more than 256 events behind misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.cluster().subscribe()
    }

    /// A handle that does not keep the pool open, for a task that serves it.
    #[must_use]
    pub fn downgrade(&self) -> WeakPool<D> {
        WeakPool { shared: Arc::downgrade(&self.shared) }
    }

    pub(crate) fn cluster(&self) -> &Cluster<D> {
        &self.shared.cluster
    }

    pub(crate) fn route_counts(&self) -> &RouteCounts {
        &self.shared.routes
    }

    pub(crate) fn retries_reads(&self) -> bool {
        self.shared.retries_reads
    }

    pub(crate) fn retry_budget(&self) -> &RetryBudget {
        &self.shared.retry_budget
    }

    pub(crate) fn router(&self) -> &dyn RoutePolicy {
        &*self.shared.router
    }

    pub(crate) fn deadline(&self) -> Instant {
        deadline_in(self.cluster().config.acquire_timeout)
    }

    fn try_write(&self) -> Option<Lease<D>> {
        if !self.cluster().rules.mode.serves_writes() {
            return None;
        }
        let writer = self.cluster().writer.load();
        let slots = writer.as_ref()?;
        let slot = slots.try_checkout()?;
        self.count_stand_in();
        Some(Lease::new(Arc::clone(slots), slot, Access::Write))
    }

    /// Checkouts on a stand-in count towards the return to the source.
    fn count_stand_in(&self) {
        if self.cluster().left_at.load(Relaxed) != 0 {
            self.cluster().checkouts.fetch_add(1, Relaxed);
        }
    }

    async fn wait_to_write(&self, deadline: Instant) -> Result<Lease<D>, Error> {
        let cluster = self.cluster();
        let started = cluster.clock.now();
        let ticket = cluster.ticket();
        if !cluster.rules.mode.serves_writes() {
            let kind = ErrorKind::NotWritable;
            let error = self.error(kind, Phase::Selecting, Access::Write, started);
            return Err(error.with_detail("the endpoint is read-only"));
        }
        loop {
            if cluster.closed.load(Relaxed) {
                return Err(self.error(
                    ErrorKind::Closed,
                    Phase::Selecting,
                    Access::Write,
                    started,
                ));
            }
            if let Some(slots) = cluster.usable_writer() {
                match slots.checkout(ticket, deadline).await {
                    Ok(slot) => {
                        self.count_stand_in();
                        return Ok(Lease::new(slots, slot, Access::Write));
                    }
                    Err(refusal) => self.settle(refusal, Access::Write, started)?,
                }
                continue;
            }
            match cluster.join_walk(deadline).await {
                Joined::Ended(WalkEnd::Found | WalkEnd::Unwanted) => {}
                Joined::Ended(WalkEnd::GaveUp(why, cause)) => {
                    let kind = match why {
                        GiveUp::Permanent => ErrorKind::Permanent,
                        GiveUp::Exhausted => ErrorKind::NoHost,
                        GiveUp::TimedOut => ErrorKind::Timeout,
                    };
                    let error = self.error(kind, Phase::Walking, Access::Write, started);
                    return Err(error.with_source(cause.and_then(|cause| cause.error)));
                }
                Joined::Late => {
                    let kind = ErrorKind::Timeout;
                    return Err(self.error(kind, Phase::Walking, Access::Write, started));
                }
            }
        }
    }

    /// Decides whether a refusal ends the checkout or another host may be tried.
    pub(crate) fn settle(
        &self,
        refusal: Refusal,
        access: Access,
        started: Duration,
    ) -> Result<(), Error> {
        match refusal {
            Refusal::Late(phase) => Err(self.error(ErrorKind::Timeout, phase, access, started)),
            Refusal::Unreachable(Cause { verdict: Verdict::Permanent, error, message, .. }) => {
                let permanent = self.error(ErrorKind::Permanent, Phase::Dialling, access, started);
                Err(permanent.with_detail(&*message).with_source(error))
            }
            Refusal::Away if self.cluster().closed.load(Relaxed) => {
                Err(self.error(ErrorKind::Closed, Phase::Waiting, access, started))
            }
            Refusal::Unreachable(_) | Refusal::Away => Ok(()),
        }
    }

    /// The host of this name.
    pub(crate) fn member(&self, name: &str) -> Result<Arc<HostSlots<D>>, Error> {
        self.cluster()
            .host_named(name)
            .ok_or_else(|| self.refused(format!("no host is named {name:?}")))
    }

    /// The refusal of a request that names what is not there, or asks for what may not be.
    pub(crate) fn refused(&self, detail: String) -> Error {
        let started = self.cluster().clock.now();
        self.error(ErrorKind::Refused, Phase::Selecting, Access::Read, started).with_detail(detail)
    }

    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        phase: Phase,
        access: Access,
        started: Duration,
    ) -> Error {
        self.error_with(kind, phase, access, started, |_| None)
    }

    pub(crate) fn error_with(
        &self,
        kind: ErrorKind,
        phase: Phase,
        access: Access,
        started: Duration,
        refused: impl Fn(&HostSlots<D>) -> Option<&'static str>,
    ) -> Error {
        let cluster = self.cluster();
        let elapsed = cluster.clock.now().saturating_sub(started);
        Error::new(
            kind,
            phase,
            Arc::clone(&cluster.name),
            access,
            elapsed,
            cluster.reports(refused),
        )
    }
}

impl<D: Driver> Clone for Pool<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Driver> fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.status())
    }
}

/// A [`Pool`] that may be closed already.
pub struct WeakPool<D: Driver> {
    shared: Weak<Shared<D>>,
}

impl<D: Driver> WeakPool<D> {
    /// The pool, unless its last clone is gone.
    #[must_use]
    pub fn upgrade(&self) -> Option<Pool<D>> {
        self.shared.upgrade().map(|shared| Pool { shared })
    }
}

impl<D: Driver> Clone for WeakPool<D> {
    fn clone(&self) -> Self {
        Self { shared: Weak::clone(&self.shared) }
    }
}

impl<D: Driver> fmt::Debug for WeakPool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakPool")
    }
}

impl<D: Driver> Drop for Shared<D> {
    fn drop(&mut self) {
        self.cluster.shut();
    }
}
