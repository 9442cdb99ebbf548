//! One host's store: the pure state behind one short lock, and the hand-over to waiters.
//!
//! The lock is never held across an await or a call into the driver.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::access::Access;
use crate::clock::Clock;
use crate::config::Config;
use crate::driver::{Driver, Liveness};
use crate::error::{Cause, Phase};
use crate::host::{Host, HostId};
use crate::slots::health::Health;
use crate::slots::meter::{Meter, Meters};
use crate::slots::roster::Roster;
use crate::slots::state::{Actions, CloseReason, Slot, State};
use crate::status::Counts;
use crate::verdict::Verdict;

/// What a store tells the cluster it belongs to.
pub(crate) trait Watch: Send + Sync {
    /// What new connections to this host are for.
    fn access_of(&self, host: HostId) -> Access;
    /// A connect succeeded.
    fn connected(&self, host: HostId);
    /// A connect, check or tidying failed.
    fn failed(&self, host: HostId, generation: u64, cause: Cause);
    /// A statement failed on a leased connection of this generation.
    fn reported(&self, host: HostId, generation: u64, cause: Cause);
}

/// What a waiter is told.
pub(crate) enum Grant<D: Driver> {
    Ready(Box<Slot<D::Conn>>),
    /// The host cannot serve: the cause if a connect failed, `None` if it is to be looked for elsewhere.
    Refused(Option<Cause>),
}

/// Why a host did not serve a checkout.
pub(crate) enum Refusal {
    /// Drained, removed or closed; or what the callers wait for is elsewhere now. Worth another look.
    Away,
    /// The deadline passed.
    Late(Phase),
    /// A connect failed.
    Unreachable(Cause),
}

type Waiter<D> = oneshot::Sender<Grant<D>>;

pub(crate) struct HostSlots<D: Driver> {
    pub(crate) host: Host,
    pub(crate) driver: Arc<D>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) watch: Weak<dyn Watch>,
    /// Wakes upkeep when a timer may have moved forward.
    pub(crate) rearm: Notify,
    /// Wakes the monitor: something happened that a probe should look at now.
    pub(crate) suspect: Notify,
    /// Wakes who waits for the leases of a drained or closed host, whenever their number may have changed.
    pub(crate) settled: Notify,
    pub(super) roster: Roster,
    pub(super) runtime: Handle,
    pub(super) me: Weak<Self>,
    state: Mutex<State<D::Conn, Waiter<D>>>,
    /// Why the last connect that failed for good did.
    pub(super) for_good: Mutex<Option<Cause>>,
    /// The number of leases, written under the lock, readable without it.
    active: AtomicU32,
    meters: Meters,
}

impl<D: Driver> HostSlots<D> {
    pub(crate) fn new(
        host: Host,
        driver: Arc<D>,
        config: Arc<Config>,
        clock: Clock,
        watch: Weak<dyn Watch>,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            health: Health::new(&host, &config.weights),
            state: Mutex::new(State::new(config.limits())),
            for_good: Mutex::new(None),
            active: AtomicU32::new(0),
            meters: Meters::new(config.name.as_str().into(), host.shared_name()),
            rearm: Notify::new(),
            suspect: Notify::new(),
            settled: Notify::new(),
            roster: Roster::default(),
            me: Weak::clone(me),
            host,
            driver,
            config,
            clock,
            watch,
            runtime,
        })
    }

    /// Takes an idle connection that needs no check. The hot path: one lock, one clock reading, a look
    /// at the connection; no round trip, allocation, timer or task.
    pub(crate) fn try_checkout(&self) -> Option<Box<Slot<D::Conn>>> {
        loop {
            let now = self.clock.now();
            let mut slot = {
                let mut state = self.state.lock();
                let slot = state.try_checkout(now)?;
                self.note_active(&state);
                slot
            };
            if self.driver.peek(&mut slot.conn) == Liveness::Clean {
                self.meter().wait.record(0.0);
                return Some(slot);
            }
            self.put_down(slot, CloseReason::Dead);
        }
    }

    /// Takes an idle connection, or waits for one in the place of `ticket`.
    ///
    /// Cancellation safety: dropping the future leaves the queue; a connection that was already on its
    /// way goes to the next waiter.
    pub(crate) async fn checkout(
        &self,
        ticket: u64,
        deadline: Instant,
    ) -> Result<Box<Slot<D::Conn>>, Refusal> {
        let started = Instant::now();
        loop {
            if let Some(slot) = self.try_checkout() {
                return Ok(slot);
            }
            let mut wait = self.enqueue(ticket);
            // Cancellation safety: `wait` owns the place in the queue, and any connection in its channel.
            let grant = tokio::time::timeout_at(deadline, &mut wait.grant).await;
            match grant {
                Ok(Ok(Grant::Ready(mut slot))) => {
                    if self.driver.peek(&mut slot.conn) == Liveness::Clean {
                        self.meter().wait.record(started.elapsed().as_secs_f64());
                        return Ok(slot);
                    }
                    self.put_down(slot, CloseReason::Dead);
                }
                Ok(Ok(Grant::Refused(Some(cause)))) => return Err(Refusal::Unreachable(cause)),
                Ok(Ok(Grant::Refused(None)) | Err(_)) => return Err(Refusal::Away),
                Err(_) => {
                    let counts = self.counts();
                    let phase = match () {
                        () if counts.connecting > 0 => Phase::Dialling,
                        () if counts.tending > 0 && counts.in_use == 0 => Phase::Validating,
                        () => Phase::Waiting,
                    };
                    return Err(Refusal::Late(phase));
                }
            }
        }
    }

    /// Takes a connection back from a caller. Looks at it first; a clean one goes straight to the
    /// oldest waiter or on top of the idle stack, without I/O.
    pub(crate) fn give_back(&self, mut slot: Box<Slot<D::Conn>>) {
        let liveness = self.driver.peek(&mut slot.conn);
        let now = self.clock.now();
        let held = now.saturating_sub(slot.taken);
        self.meter().hold.record(held.as_secs_f64());
        if self.config.measure_latency {
            self.health.note_latency(now, held);
        }
        match liveness {
            Liveness::Clean => self.park(now, slot),
            Liveness::Dead => self.put_down(slot, CloseReason::Dead),
            Liveness::Dirty => {
                let doom = {
                    let mut state = self.state.lock();
                    let doom = state.doom(now, &slot);
                    if doom.is_none() {
                        state.tidying();
                        self.note_active(&state);
                    }
                    doom
                };
                // Not worth a round trip if it would be closed afterwards anyway.
                match doom {
                    Some(reason) => self.put_down(slot, reason),
                    None => self.spawn_tidy(slot),
                }
            }
        }
    }

    /// Ends a lease and closes its connection.
    pub(crate) fn put_down(&self, slot: Box<Slot<D::Conn>>, reason: CloseReason) {
        self.forget(reason);
        self.spawn_close(vec![slot]);
    }

    /// Ends a lease whose connection left the pool.
    pub(crate) fn forget(&self, reason: CloseReason) {
        self.meter().closed(reason);
        let now = self.clock.now();
        self.update(|state| state.discarded(now));
    }

    /// Changes the state and carries out what follows from it.
    pub(crate) fn update(
        &self,
        change: impl FnOnce(&mut State<D::Conn, Waiter<D>>) -> Actions<D::Conn, Waiter<D>>,
    ) {
        self.update_with(None, change);
    }

    /// As [`HostSlots::update`]; refused waiters are told this cause.
    pub(crate) fn update_with(
        &self,
        cause: Option<&Cause>,
        change: impl FnOnce(&mut State<D::Conn, Waiter<D>>) -> Actions<D::Conn, Waiter<D>>,
    ) {
        let (actions, postponed) = {
            let mut state = self.state.lock();
            let actions = change(&mut state);
            self.note_active(&state);
            (actions, state.is_postponed())
        };
        self.perform(actions, cause);
        if postponed {
            // Upkeep sleeps up to a tick; a back-off may be over long before.
            self.rearm.notify_one();
        }
    }

    /// Sends every waiter off to look again.
    pub(crate) fn turn_away(&self) {
        self.update(State::turn_away);
    }

    /// Sends every waiter off to another host, unless something is under way that may serve it here: its
    /// end decides then. A host that takes connects and fails probes would send callers in circles else.
    pub(crate) fn turn_away_stranded(&self, cause: &Cause) {
        self.update_with(Some(cause), |state| {
            if state.is_stranded() { state.turn_away() } else { Actions::none() }
        });
    }

    /// Does what has become due.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        let actions = {
            let mut state = self.state.lock();
            let actions = state.sweep(now);
            self.note_active(&state);
            actions
        };
        self.perform(actions, None);
    }

    /// The connection of a reserved place is leased.
    pub(super) fn claim(&self) {
        let mut state = self.state.lock();
        state.claim();
        self.note_active(&state);
    }

    /// Reads or changes the state where nothing follows.
    pub(crate) fn with_state<T>(
        &self,
        read: impl FnOnce(&mut State<D::Conn, Waiter<D>>) -> T,
    ) -> T {
        read(&mut self.state.lock())
    }

    /// Voids every connection opened before now. False if `generation` is not the current one: its
    /// connections were voided already.
    pub(crate) fn void(&self, generation: Option<u64>) -> Option<u64> {
        let now = self.clock.now();
        let mut current = None;
        self.update(|state| {
            if generation.is_some_and(|generation| generation != state.generation()) {
                return Actions::none();
            }
            let actions = state.void(now);
            current = Some(state.generation());
            actions
        });
        current
    }

    pub(crate) fn id(&self) -> HostId {
        self.host.id()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts()
    }

    /// Leases granted and not yet returned.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Relaxed)
    }

    pub(crate) fn meter(&self) -> &Meter {
        self.meters.of(self.health.role())
    }

    pub(crate) fn cause(
        &self,
        phase: Phase,
        verdict: Verdict,
        message: String,
        error: Option<Arc<dyn std::error::Error + Send + Sync>>,
    ) -> Cause {
        self.meter().verdict(verdict);
        Cause { phase, verdict, message: message.into(), at: self.clock.now(), error }
    }

    fn park(&self, now: Duration, slot: Box<Slot<D::Conn>>) {
        let actions = {
            let mut state = self.state.lock();
            let actions = state.returned(now, slot);
            self.note_active(&state);
            actions
        };
        if let Some(actions) = actions {
            self.perform(actions, None);
        }
    }

    fn enqueue(&self, ticket: u64) -> Waiting<'_, D> {
        let (handle, grant) = oneshot::channel();
        let now = self.clock.now();
        let waiting = Waiting { slots: self, ticket, grant };
        // A caller that is refused for what happened before it came is told what that was.
        let hopeless = self.with_state(|state| state.is_hopeless(now));
        let cause = if hopeless { self.for_good.lock().clone() } else { None };
        self.update_with(cause.as_ref(), |state| state.wait(now, ticket, handle));
        waiting
    }

    fn perform(&self, actions: Actions<D::Conn, Waiter<D>>, cause: Option<&Cause>) {
        let mut todo = VecDeque::from([actions]);
        while let Some(actions) = todo.pop_front() {
            let Actions { hand_over, refuse, connect, check, close } = actions;
            for (waiter, slot) in hand_over {
                // A waiter that left in this very moment: the next one gets it.
                if let Err(Grant::Ready(slot)) = waiter.send(Grant::Ready(slot)) {
                    let now = self.clock.now();
                    let mut state = self.state.lock();
                    todo.extend(state.returned(now, slot));
                    self.note_active(&state);
                }
            }
            for waiter in refuse {
                // A waiter that left needs no answer.
                let _ = waiter.send(Grant::Refused(cause.cloned()));
            }
            for _ in 0..connect {
                self.spawn_connect();
            }
            for slot in check {
                self.spawn_check(slot);
            }
            if !close.is_empty() {
                for (_, reason) in &close {
                    self.meter().closed(*reason);
                }
                self.spawn_close(close.into_iter().map(|(slot, _)| slot).collect());
            }
        }
    }

    fn note_active(&self, state: &State<D::Conn, Waiter<D>>) {
        self.active.store(u32::try_from(state.in_use()).unwrap_or(u32::MAX), Relaxed);
        if !state.takes_work() {
            self.settled.notify_waiters();
        }
    }
}

impl<D: Driver> std::fmt::Debug for HostSlots<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSlots").field("host", &self.host.name()).finish_non_exhaustive()
    }
}

/// A place in the queue. Dropping it gives up the place, and passes on what had already arrived.
struct Waiting<'a, D: Driver> {
    slots: &'a HostSlots<D>,
    ticket: u64,
    grant: oneshot::Receiver<Grant<D>>,
}

impl<D: Driver> Drop for Waiting<'_, D> {
    fn drop(&mut self) {
        if self.slots.state.lock().cancelled(self.ticket) {
            return;
        }
        self.grant.close();
        if let Ok(Grant::Ready(slot)) = self.grant.try_recv() {
            let now = self.slots.clock.now();
            self.slots.park(now, slot);
        }
    }
}
