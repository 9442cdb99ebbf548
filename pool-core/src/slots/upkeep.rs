//! What takes I/O or time: connects, checks, tidying, closing, and the sweep that finds what is due.
//!
//! Every task owns its connection and its place through a guard, so that a time-out, a cancelled task or
//! a panic in a driver frees both.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::access::Access;
use crate::clock::deadline_in;
use crate::driver::{ConnectRequest, Driver, Liveness, Probe, Report, Reporter, Tidy};
use crate::error::{Cause, Phase};
use crate::host::HostId;
use crate::slots::caught::{Panicked, caught};
use crate::slots::state::{CloseReason, Slot};
use crate::slots::store::{HostSlots, Watch};
use crate::verdict::Verdict;

/// Gauges are published, and timers looked at, at least this often.
const TICK: Duration = Duration::from_secs(1);

impl<D: Driver> HostSlots<D> {
    /// Starts the task that sweeps this host until it is closed or dropped.
    pub(crate) fn spawn_upkeep(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                let Some(slots) = weak.upgrade() else { return };
                if slots.with_state(|state| state.is_closed()) {
                    return;
                }
                slots.sweep();
                let now = slots.clock.now();
                let lag = slots.health.lag().known();
                slots.meter().publish(slots.counts(), slots.health.weight(), lag);
                let next = slots.with_state(|state| state.next_timer());
                let next = next.map_or(now + TICK, |at| at.min(now + TICK));
                let wake = slots.clock.at(next.max(now + Duration::from_millis(1)));
                // A store that leaves the pool is closed, and says so here.
                let _ = timeout_at(wake, slots.rearm.notified()).await;
            }
        });
    }

    /// Opens one connection for whoever waits. Lives on when the caller goes away.
    pub(super) fn spawn_connect(&self) {
        let Some(slots) = self.me.upgrade() else { return };
        let place = Place::new(&slots, Kind::Connect);
        self.runtime.spawn(async move {
            let generation = slots.with_state(|state| state.generation());
            let limit = slots.config.connect_timeout;
            let access = slots.watch.upgrade().map_or(Access::Read, |w| w.access_of(slots.id()));
            match slots.dial(access, limit, Phase::Dialling).await {
                Ok(slot) => {
                    place.filled();
                    let now = slots.clock.now();
                    if let Some(watch) = slots.watch.upgrade() {
                        watch.connected(slots.id());
                    }
                    slots.update(|state| state.connected(now, slot));
                }
                Err(cause) => {
                    place.filled();
                    slots.connect_failed(generation, cause);
                }
            }
        });
    }

    /// Dials once, within `limit`. Does not touch the counts.
    ///
    /// Cancellation safety: dropping the future closes a half-open connection.
    pub(crate) async fn dial(
        &self,
        access: Access,
        limit: Duration,
        phase: Phase,
    ) -> Result<Box<Slot<D::Conn>>, Cause> {
        let started = Instant::now();
        let generation = self.with_state(|state| state.generation());
        let reports_as = Arc::new(AtomicU64::new(generation));
        let deadline = deadline_in(limit);
        let request = ConnectRequest {
            host: &self.host,
            access,
            deadline,
            reporter: Reporter::new(Arc::new(Sink {
                watch: Weak::clone(&self.watch),
                host: self.id(),
                generation: Arc::clone(&reports_as),
                slots: Weak::clone(&self.me),
            })),
        };
        let result = timeout_at(deadline, caught(self.driver.connect(request))).await;
        let now = self.clock.now();
        self.meter().dial.record(started.elapsed().as_secs_f64());
        match result {
            Ok(Ok(Ok(conn))) => {
                let max = self.config.max_lifetime;
                let lifetime = max - max.mul_f64(0.1 * fastrand::f64());
                let mut slot = Slot::new(conn, now, lifetime, generation);
                slot.reports_as = reports_as;
                self.enlist(&mut slot);
                Ok(Box::new(slot))
            }
            Ok(Ok(Err(error))) => {
                let verdict = match self.driver.verdict(&error) {
                    // No connection was made, so no connection can be lost.
                    Verdict::ConnectionEnded | Verdict::ConnectionLost | Verdict::Statement => {
                        Verdict::HostDown
                    }
                    verdict => verdict,
                };
                Err(self.cause(phase, verdict, error.to_string(), Some(Arc::new(error))))
            }
            Ok(Err(Panicked)) => {
                let message = "the driver panicked".to_owned();
                Err(self.cause(phase, Verdict::HostDown, message, None))
            }
            Err(_) => {
                let message = format!("no answer within {} ms", limit.as_millis());
                Err(self.cause(phase, Verdict::HostDown, message, None))
            }
        }
    }

    /// Books a failed connect that held a place in the counts.
    pub(crate) fn connect_failed(&self, generation: u64, cause: Cause) {
        tracing::warn!(
            pool = %self.config.name, host = %self.host, verdict = %cause.verdict,
            "connect failed: {}", cause.message
        );
        // The cluster learns of it first, so that a waiter that is refused finds the host blocked.
        if let Some(watch) = self.watch.upgrade() {
            watch.failed(self.id(), generation, cause.clone());
        }
        if cause.verdict == Verdict::Permanent {
            *self.for_good.lock() = Some(cause.clone());
        }
        let now = self.clock.now();
        let (verdict, jitter) = (cause.verdict, fastrand::f64());
        self.update_with(Some(&cause), |state| state.connect_failed(now, verdict, jitter));
        self.rearm.notify_one();
    }

    /// Asks the server of an idle connection for a sign of life, within the check deadline.
    pub(super) fn spawn_check(&self, slot: Box<Slot<D::Conn>>) {
        slot.set_tended(true);
        let Some(slots) = self.me.upgrade() else { return };
        let place = Place::new(&slots, Kind::Check);
        self.runtime.spawn(async move {
            let mut slot = slot;
            let started = Instant::now();
            let generation = slot.generation;
            // Suspect until it answers: a look first, since a ping could take a stale reply for its own.
            let found = match slots.driver.peek(&mut slot.conn) {
                Liveness::Clean => slots.knock(&mut slot.conn).await,
                _ => Err((Verdict::ConnectionEnded, "found closed while idle".to_owned())),
            };
            slots.meter().validate.record(started.elapsed().as_secs_f64());
            place.filled();
            let now = slots.clock.now();
            match found {
                Ok(()) => slots.update(|state| state.checked(now, slot)),
                Err((verdict, message)) => {
                    slots.meter().closed(CloseReason::Untidy);
                    let cause = slots.cause(Phase::Validating, verdict, message, None);
                    // The cluster learns of it first: what voids every connection must do so before the
                    // next one is checked in vain.
                    if let Some(watch) = slots.watch.upgrade() {
                        watch.reported(slots.id(), generation, cause);
                    }
                    slots.update(|state| state.check_failed(now));
                    slots.close_now(vec![slot]).await;
                }
            }
        });
    }

    /// Asks for a sign of life, within the check deadline.
    pub(crate) async fn knock(&self, conn: &mut D::Conn) -> Result<(), (Verdict, String)> {
        match timeout(self.config.check_timeout, self.driver.ping(conn)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err((self.driver.verdict(&error), error.to_string())),
            Err(_) => Err((Verdict::ConnectionLost, "no answer to a check".to_owned())),
        }
    }

    /// Asks what the server is, within `limit`. A connection that gives no answer is closed.
    ///
    /// Cancellation safety: dropping the future closes the connection.
    pub(crate) async fn ask(
        &self,
        mut slot: Box<Slot<D::Conn>>,
        limit: Duration,
        phase: Phase,
    ) -> Result<(Box<Slot<D::Conn>>, Probe), Cause> {
        slot.set_tended(true);
        let probed = timeout(limit, caught(self.driver.probe(&mut slot.conn))).await;
        let (verdict, message) = match probed {
            Ok(Ok(Ok(probe))) => return Ok((slot, probe)),
            Ok(Ok(Err(error))) => (self.driver.verdict(&error), error.to_string()),
            Ok(Err(Panicked)) => (Verdict::HostDown, "the driver panicked".to_owned()),
            Err(_) => (Verdict::HostDown, "no answer to a probe".to_owned()),
        };
        self.close_politely(slot);
        Err(self.cause(phase, verdict, message, None))
    }

    /// Makes a dirty connection clean in the background, within the tidy deadline.
    pub(super) fn spawn_tidy(&self, slot: Box<Slot<D::Conn>>) {
        slot.set_tended(true);
        let Some(slots) = self.me.upgrade() else { return };
        let place = Place::new(&slots, Kind::Tidy);
        self.runtime.spawn(async move {
            let mut slot = slot;
            let limit = slots.config.tidy_timeout;
            let tidied = timeout(limit, slots.driver.tidy(&mut slot.conn, Tidy::Rollback)).await;
            let clean = matches!(tidied, Ok(Ok(())))
                && slots.driver.peek(&mut slot.conn) == Liveness::Clean;
            place.filled();
            let now = slots.clock.now();
            if clean {
                slots.update(|state| state.tidied(now, slot));
            } else {
                slots.meter().closed(CloseReason::Untidy);
                slots.update(|state| state.tidy_failed(now));
                if let Ok(Err(error)) = tidied {
                    tracing::debug!(host = %slots.host, "tidying failed: {error}");
                }
                slots.close_now(vec![slot]).await;
            }
        });
    }

    /// Closes connections politely in the background, each within the close deadline.
    pub(super) fn spawn_close(&self, closing: Vec<Box<Slot<D::Conn>>>) {
        closing.iter().for_each(|slot| slot.set_tended(true));
        let Some(slots) = self.me.upgrade() else { return };
        self.runtime.spawn(async move { slots.close_now(closing).await });
    }

    /// Closes a connection that is not counted.
    pub(crate) fn close_politely(&self, slot: Box<Slot<D::Conn>>) {
        self.spawn_close(vec![slot]);
    }

    async fn close_now(&self, closing: Vec<Box<Slot<D::Conn>>>) {
        let limit = self.config.close_timeout;
        for slot in closing {
            // A host that no longer answers must not hold up the others: each has its own deadline.
            let _ = timeout(limit, self.driver.close(slot.conn)).await;
        }
    }
}

enum Kind {
    Check,
    Connect,
    Tidy,
}

/// A place in the counts, held by a task. Left by a panic or a cancelled task, it frees the place.
struct Place<D: Driver> {
    /// Empty once the task has booked the outcome itself.
    slots: Option<Arc<HostSlots<D>>>,
    kind: Kind,
}

impl<D: Driver> Place<D> {
    /// Made before its task is: a runtime that shuts down drops a new task unpolled.
    fn new(slots: &Arc<HostSlots<D>>, kind: Kind) -> Self {
        Self { slots: Some(Arc::clone(slots)), kind }
    }

    /// The task books the outcome itself.
    fn filled(mut self) {
        self.slots = None;
    }
}

impl<D: Driver> Drop for Place<D> {
    fn drop(&mut self) {
        let Some(slots) = self.slots.take() else { return };
        let now = slots.clock.now();
        match self.kind {
            Kind::Check => {
                slots.meter().closed(CloseReason::Untidy);
                slots.update(|state| state.check_failed(now));
            }
            Kind::Connect => {
                let generation = slots.with_state(|state| state.generation());
                let message = "the connect task ended without an answer".to_owned();
                let cause = slots.cause(Phase::Dialling, Verdict::HostDown, message, None);
                slots.connect_failed(generation, cause);
            }
            Kind::Tidy => {
                slots.meter().closed(CloseReason::Untidy);
                slots.update(|state| state.tidy_failed(now));
            }
        }
    }
}

/// Where a connection reports its errors: its host, under the generation it belongs to.
struct Sink<D: Driver> {
    watch: Weak<dyn Watch>,
    slots: Weak<HostSlots<D>>,
    host: HostId,
    generation: Arc<AtomicU64>,
}

impl<D: Driver> Report for Sink<D> {
    fn report(&self, verdict: Verdict, message: &dyn std::fmt::Display) {
        let (Some(watch), Some(slots)) = (self.watch.upgrade(), self.slots.upgrade()) else {
            return;
        };
        let cause = slots.cause(Phase::InUse, verdict, message.to_string(), None);
        watch.reported(self.host, self.generation.load(Relaxed), cause);
    }
}
