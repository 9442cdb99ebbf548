//! Idle stack, FIFO waiters, counts, generation and timers of one host, as one pure state machine.
//!
//! It decides who gets which connection and when one is opened, checked or closed. It never does so
//! itself: every input returns [`Actions`] for the caller to carry out after its lock is released.
//!
//! A connection is in exactly one place at any time: *idle* (in the stack), *in use* (a lease, or on its
//! way to a waiter), *checking* or *tidying* (in a background task), or *connecting*. The sum never
//! exceeds the capacity.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::config::Limits;
use crate::status::Counts;
use crate::verdict::Verdict;

/// One connection and its book-keeping.
#[derive(Debug)]
pub struct Slot<C> {
    /// The connection.
    pub conn: C,
    /// When it was opened.
    pub created: Duration,
    /// When it is closed for its age.
    pub expires: Duration,
    /// When it was last given to a caller.
    pub taken: Duration,
    /// When it last became idle.
    pub idle_since: Duration,
    /// When the server last proved to be there.
    pub heard: Duration,
    /// The generation of its host when its connect began.
    pub generation: u64,
    /// The generation under which it reports its errors: the same, shared with its reporter.
    pub reports_as: Arc<AtomicU64>,
    /// As the server knows it, if it can be ended from elsewhere.
    pub(crate) session: Option<Arc<Session>>,
}

/// A connection as its server knows it. Shared with the host's roster of sessions.
#[derive(Debug)]
#[cfg_attr(not(feature = "runtime"), expect(dead_code))]
pub(crate) struct Session {
    /// What the driver calls it.
    pub(crate) id: u64,
    /// When it was opened.
    pub(crate) opened: Duration,
    /// The pool itself works with it, so no caller holds it. Written off the hot path only.
    pub(crate) tended: AtomicBool,
}

impl<C> Slot<C> {
    /// A connection opened at `now` that may live for `lifetime`.
    pub fn new(conn: C, now: Duration, lifetime: Duration, generation: u64) -> Self {
        Self {
            conn,
            created: now,
            expires: now.saturating_add(lifetime),
            taken: now,
            idle_since: now,
            heard: now,
            generation,
            reports_as: Arc::new(AtomicU64::new(generation)),
            session: None,
        }
    }

    /// Says whether the pool itself works with the connection, or closes it.
    pub(crate) fn set_tended(&self, tended: bool) {
        if let Some(session) = &self.session {
            session.tended.store(tended, Relaxed);
        }
    }

    /// Moves it to another generation: its host was voided for a reason that does not concern it.
    pub fn restamp(&mut self, generation: u64) {
        self.generation = generation;
        self.reports_as.store(generation, Relaxed);
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The pool, or this host, is being closed or drained.
    Closed,
    /// A look at it found it dead.
    Dead,
    /// The caller took it out of the pool. It is not closed, but no longer the pool's.
    Detached,
    /// The caller asked for it.
    Discarded,
    /// Idle for longer than the idle timeout.
    IdleTimeout,
    /// Older than its lifetime.
    Lifetime,
    /// A check or a tidying failed or took too long.
    Untidy,
    /// Its host failed or changed its role after it was opened.
    Void,
}

impl CloseReason {
    /// The label used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Dead => "dead",
            Self::Detached => "detached",
            Self::Discarded => "discarded",
            Self::IdleTimeout => "idle-timeout",
            Self::Lifetime => "lifetime",
            Self::Untidy => "untidy",
            Self::Void => "void",
        }
    }

    /// Every reason, to resolve metric handles once.
    pub const ALL: [Self; 8] = [
        Self::Closed,
        Self::Dead,
        Self::Detached,
        Self::Discarded,
        Self::IdleTimeout,
        Self::Lifetime,
        Self::Untidy,
        Self::Void,
    ];
}

/// What the caller has to carry out, outside its lock, in field order.
#[derive(Debug)]
#[must_use]
pub struct Actions<C, W> {
    /// Give this connection to this waiter. It counts as in use; if the waiter is gone, it comes back by
    /// [`State::returned`].
    pub hand_over: Vec<(W, Box<Slot<C>>)>,
    /// Tell these waiters that the connect failed, the host is drained or the pool closed.
    pub refuse: Vec<W>,
    /// Start this many connects; each ends in [`State::connected`] or [`State::connect_failed`].
    pub connect: usize,
    /// Check these; each ends in [`State::checked`] or [`State::check_failed`].
    pub check: Vec<Box<Slot<C>>>,
    /// Close these. They are no longer counted.
    pub close: Vec<(Box<Slot<C>>, CloseReason)>,
}

impl<C, W> Actions<C, W> {
    /// Nothing to do.
    pub(super) fn none() -> Self {
        Self {
            hand_over: Vec::new(),
            refuse: Vec::new(),
            connect: 0,
            check: Vec::new(),
            close: Vec::new(),
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hand_over.is_empty()
            && self.refuse.is_empty()
            && self.connect == 0
            && self.check.is_empty()
            && self.close.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Draining,
    Paused,
    Running,
}

#[derive(Debug)]
struct Waiter<W> {
    ticket: u64,
    handle: W,
}

/// The state of one host's store.
#[derive(Debug)]
pub struct State<C, W> {
    limits: Limits,
    /// Coldest first; users take from the end, upkeep from the start.
    idle: Vec<Box<Slot<C>>>,
    /// By ticket: a caller that comes back with its ticket regains its place.
    waiters: VecDeque<Waiter<W>>,
    in_use: usize,
    checking: usize,
    tidying: usize,
    connecting: usize,
    generation: u64,
    failures: u32,
    retry_at: Duration,
    /// The last connect failed for good: while the back-off lasts, there is nothing to wait for.
    hopeless: bool,
    phase: Phase,
}

impl<C, W> State<C, W> {
    /// An empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            // So that returning a connection never allocates.
            idle: Vec::with_capacity(limits.capacity),
            waiters: VecDeque::new(),
            in_use: 0,
            checking: 0,
            tidying: 0,
            connecting: 0,
            generation: 0,
            failures: 0,
            retry_at: Duration::ZERO,
            hopeless: false,
            phase: Phase::Running,
            limits,
        }
    }

    /// Takes the warmest idle connection if it needs no check and nobody waits. The hot path.
    pub fn try_checkout(&mut self, now: Duration) -> Option<Box<Slot<C>>> {
        if self.phase != Phase::Running || !self.waiters.is_empty() {
            return None;
        }
        let top = self.idle.last()?;
        if !self.is_fresh(top, now) || now >= top.expires {
            return None;
        }
        let mut slot = self.idle.pop()?;
        self.in_use += 1;
        slot.taken = now;
        Some(slot)
    }

    /// Puts a caller into the queue, at the place of its ticket. Refused at once where there is nothing
    /// to wait for: drained or closed, or the last connect failed for good a moment ago.
    pub fn wait(&mut self, now: Duration, ticket: u64, handle: W) -> Actions<C, W> {
        let mut actions = Actions::none();
        if !self.takes_work() || self.is_hopeless(now) {
            actions.refuse.push(handle);
            return actions;
        }
        let place = self.waiters.partition_point(|w| w.ticket < ticket);
        self.waiters.insert(place, Waiter { ticket, handle });
        self.kick(now, &mut actions);
        actions
    }

    /// Takes a caller out of the queue. False if it is not there (any more).
    pub fn cancelled(&mut self, ticket: u64) -> bool {
        match self.waiters.binary_search_by_key(&ticket, |w| w.ticket) {
            Ok(place) => self.waiters.remove(place).is_some(),
            Err(_) => false,
        }
    }

    /// Refuses every waiter, so that each looks again for a host that serves it. Nothing else changes.
    pub fn turn_away(&mut self) -> Actions<C, W> {
        let mut actions = Actions::none();
        actions.refuse.extend(self.waiters.drain(..).map(|w| w.handle));
        actions
    }

    /// Whether nothing is under way that a waiter could get: all they wait for is a return.
    #[must_use]
    pub fn is_stranded(&self) -> bool {
        self.connecting + self.checking == 0
    }

    /// Whether a caller that came now would be refused because the last connect failed for good.
    #[must_use]
    pub fn is_hopeless(&self, now: Duration) -> bool {
        self.takes_work() && self.hopeless && self.total() == 0 && now < self.retry_at
    }

    /// A clean connection came back from a caller. `None`: parked, nothing to do. The hot path.
    pub fn returned(&mut self, now: Duration, mut slot: Box<Slot<C>>) -> Option<Actions<C, W>> {
        self.in_use -= 1;
        slot.heard = now;
        slot.idle_since = now;
        if self.phase == Phase::Running
            && self.waiters.is_empty()
            && slot.generation == self.generation
            && now < slot.expires
        {
            self.idle.push(slot);
            return None;
        }
        let mut actions = Actions::none();
        self.admit(now, slot, &mut actions);
        self.kick(now, &mut actions);
        Some(actions)
    }

    /// A lease ended without giving its connection back.
    pub fn discarded(&mut self, now: Duration) -> Actions<C, W> {
        self.in_use -= 1;
        self.kicked(now)
    }

    /// A connection came back from a caller and goes to a tidying task.
    pub fn tidying(&mut self) {
        self.in_use -= 1;
        self.tidying += 1;
    }

    /// The tidying task made it clean.
    pub fn tidied(&mut self, now: Duration, mut slot: Box<Slot<C>>) -> Actions<C, W> {
        self.tidying -= 1;
        slot.heard = now;
        slot.idle_since = now;
        let mut actions = Actions::none();
        self.admit(now, slot, &mut actions);
        self.kick(now, &mut actions);
        actions
    }

    /// The tidying task failed, and the connection is gone.
    pub fn tidy_failed(&mut self, now: Duration) -> Actions<C, W> {
        self.tidying -= 1;
        self.kicked(now)
    }

    /// The server answered a check.
    pub fn checked(&mut self, now: Duration, mut slot: Box<Slot<C>>) -> Actions<C, W> {
        self.checking -= 1;
        slot.heard = now;
        let mut actions = Actions::none();
        self.admit(now, slot, &mut actions);
        self.kick(now, &mut actions);
        actions
    }

    /// The check failed, and the connection is gone.
    pub fn check_failed(&mut self, now: Duration) -> Actions<C, W> {
        self.checking -= 1;
        self.kicked(now)
    }

    /// A connect succeeded.
    pub fn connected(&mut self, now: Duration, slot: Box<Slot<C>>) -> Actions<C, W> {
        self.connecting -= 1;
        self.failures = 0;
        self.retry_at = Duration::ZERO;
        self.hopeless = false;
        let mut actions = Actions::none();
        self.admit(now, slot, &mut actions);
        self.kick(now, &mut actions);
        actions
    }

    /// A connect failed. `jitter` (0 to 1) draws the next pause between half and all of the back-off.
    ///
    /// All waiters are told, so that they can turn to another host; only a saturated host with
    /// connections in use keeps them, since one of those will come back.
    pub fn connect_failed(
        &mut self,
        now: Duration,
        verdict: Verdict,
        jitter: f64,
    ) -> Actions<C, W> {
        self.connecting -= 1;
        self.failures = self.failures.saturating_add(1);
        self.hopeless = verdict == Verdict::Permanent;
        let pause = self
            .limits
            .backoff
            .saturating_mul(1 << (self.failures - 1).min(16))
            .min(self.limits.backoff_max);
        self.retry_at = now + pause.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        let mut actions = Actions::none();
        if verdict != Verdict::Overloaded || self.alive() == 0 {
            actions.refuse = self.turn_away().refuse;
        }
        self.kick(now, &mut actions);
        actions
    }

    /// The host failed or changed its role: every connection opened before now is void.
    pub fn void(&mut self, now: Duration) -> Actions<C, W> {
        self.generation += 1;
        let mut actions = Actions::none();
        actions.close.extend(self.idle.drain(..).map(|slot| (slot, CloseReason::Void)));
        self.kick(now, &mut actions);
        actions
    }

    /// Reserves the place of one connect made on somebody's behalf (a walk). False if there is none.
    pub fn reserve(&mut self) -> bool {
        let free = self.phase == Phase::Running && self.total() < self.limits.capacity;
        if free {
            self.connecting += 1;
        }
        free
    }

    /// The connection of a reserved place goes straight to the caller that dialled it.
    pub fn claim(&mut self) {
        self.connecting -= 1;
        self.in_use += 1;
    }

    /// Gives a reserved place back unused.
    pub fn unreserve(&mut self, now: Duration) -> Actions<C, W> {
        self.connecting -= 1;
        self.kicked(now)
    }

    /// Does what has become due: idle timeout, lifetime, keepalive, minimum, postponed connects.
    pub fn sweep(&mut self, now: Duration) -> Actions<C, W> {
        let mut actions = Actions::none();
        for slot in self.idle.extract_if(.., |slot| now >= slot.expires) {
            actions.close.push((slot, CloseReason::Lifetime));
        }
        let surplus = self.idle.len().saturating_sub(self.limits.min_idle);
        let cold = self
            .idle
            .iter()
            .take(surplus)
            .take_while(|slot| now >= slot.idle_since.saturating_add(self.limits.idle_timeout))
            .count();
        actions.close.extend(self.idle.drain(..cold).map(|s| (s, CloseReason::IdleTimeout)));
        let mut room = self.check_room();
        let keepalive = self.limits.keepalive;
        let due = |slot: &mut Box<Slot<C>>| {
            let take = room > 0 && now >= slot.heard.saturating_add(keepalive);
            room -= usize::from(take);
            take
        };
        actions.check.extend(self.idle.extract_if(.., due));
        self.checking += actions.check.len();
        self.kick(now, &mut actions);
        actions
    }

    /// When [`State::sweep`] next has something to do, as far as is known now.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        let Limits { keepalive, idle_timeout, min_idle, .. } = self.limits;
        // While no check may start, none is due: the end of one makes room.
        let checks = self.check_room() > 0;
        let idle = self.idle.iter().map(|slot| match checks {
            true => slot.expires.min(slot.heard.saturating_add(keepalive)),
            false => slot.expires,
        });
        let surplus = self.idle.len() > min_idle;
        let coldest = self.idle.first().filter(|_| surplus);
        let cold = coldest.map(|slot| slot.idle_since.saturating_add(idle_timeout));
        let retry = self.wants_connect().then_some(self.retry_at);
        idle.chain(cold).chain(retry).min()
    }

    /// Stops handing out; callers queue up, their deadlines run on.
    pub fn pause(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Paused;
        }
    }

    /// Ends a pause or a drain.
    pub fn resume(&mut self, now: Duration) -> Actions<C, W> {
        if self.phase != Phase::Closed {
            self.phase = Phase::Running;
        }
        self.kicked(now)
    }

    /// Takes no new work: idle connections close now, leased ones on return, waiters are told.
    pub fn drain(&mut self) -> Actions<C, W> {
        if self.phase != Phase::Closed {
            self.phase = Phase::Draining;
        }
        self.empty()
    }

    /// As [`State::drain`], for good.
    pub fn close(&mut self) -> Actions<C, W> {
        self.phase = Phase::Closed;
        self.empty()
    }

    /// Whether the store was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether it takes no new work and the last connection has come back.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Draining) && self.in_use == 0
    }

    /// Whether somebody needs a connect that only the back-off holds up: [`State::next_timer`] says until
    /// when.
    #[must_use]
    pub fn is_postponed(&self) -> bool {
        self.wants_connect()
    }

    /// Whether it takes work, or will when its pause is over.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        matches!(self.phase, Phase::Paused | Phase::Running)
    }

    /// Why a connection that is clean now has to be closed all the same, if it has.
    #[must_use]
    pub fn doom(&self, now: Duration, slot: &Slot<C>) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed | Phase::Draining => Some(CloseReason::Closed),
            _ if slot.generation != self.generation => Some(CloseReason::Void),
            _ if now >= slot.expires => Some(CloseReason::Lifetime),
            _ => None,
        }
    }

    /// The number of connections in use.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Whether every connection that may exist is in use or being tended.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.idle.is_empty() && self.total() >= self.limits.capacity
    }

    /// The generation that new connections belong to.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How many connections are where: one consistent snapshot.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            idle: self.idle.len(),
            in_use: self.in_use,
            tending: self.checking + self.tidying,
            connecting: self.connecting,
            waiting: self.waiters.len(),
        }
    }

    fn is_fresh(&self, slot: &Slot<C>, now: Duration) -> bool {
        now.saturating_sub(slot.heard) < self.limits.bypass
    }

    fn alive(&self) -> usize {
        self.idle.len() + self.in_use + self.checking + self.tidying
    }

    fn total(&self) -> usize {
        self.alive() + self.connecting
    }

    /// Connects that somebody waits for, or that the minimum asks for.
    fn wanted(&self) -> usize {
        let promised = self.connecting + self.checking;
        let for_waiters = self.waiters.len().saturating_sub(promised);
        let for_minimum = self.limits.min_idle.saturating_sub(self.idle.len() + promised);
        for_waiters.max(for_minimum)
    }

    /// Whether a connect should be started, were it not for the back-off.
    fn wants_connect(&self) -> bool {
        self.phase == Phase::Running
            && self.wanted() > 0
            && self.connecting < self.limits.max_connecting
            && self.total() < self.limits.capacity
    }

    /// How many keepalive checks may be started now.
    fn check_room(&self) -> usize {
        match self.phase {
            Phase::Running => self.limits.max_connecting.saturating_sub(self.checking),
            _ => 0,
        }
    }

    /// Finds a place for a clean connection that is counted nowhere at the moment.
    fn admit(&mut self, now: Duration, mut slot: Box<Slot<C>>, actions: &mut Actions<C, W>) {
        if let Some(reason) = self.doom(now, &slot) {
            actions.close.push((slot, reason));
            return;
        }
        slot.set_tended(false);
        if self.phase == Phase::Running
            && let Some(waiter) = self.waiters.pop_front()
        {
            self.in_use += 1;
            slot.taken = now;
            actions.hand_over.push((waiter.handle, slot));
            return;
        }
        // Upkeep brings cold connections back: each goes where its age puts it, not on top.
        let place = self.idle.partition_point(|other| other.idle_since <= slot.idle_since);
        self.idle.insert(place, slot);
    }

    fn kicked(&mut self, now: Duration) -> Actions<C, W> {
        let mut actions = Actions::none();
        self.kick(now, &mut actions);
        actions
    }

    /// Sees that every waiter has a connection coming: an idle one, a checked one, or a new one.
    fn kick(&mut self, now: Duration, actions: &mut Actions<C, W>) {
        if self.phase != Phase::Running {
            return;
        }
        // Connects under way are no reason to leave an idle connection alone: they may take long.
        while self.waiters.len() > self.checking {
            let Some(mut slot) = self.idle.pop() else { break };
            if now >= slot.expires {
                actions.close.push((slot, CloseReason::Lifetime));
            } else if !self.is_fresh(&slot, now) {
                self.checking += 1;
                actions.check.push(slot);
            } else if let Some(waiter) = self.waiters.pop_front() {
                self.in_use += 1;
                slot.taken = now;
                actions.hand_over.push((waiter.handle, slot));
            }
        }
        while self.wants_connect() && now >= self.retry_at {
            self.connecting += 1;
            actions.connect += 1;
        }
    }

    fn empty(&mut self) -> Actions<C, W> {
        let mut actions = self.turn_away();
        actions.close.extend(self.idle.drain(..).map(|slot| (slot, CloseReason::Closed)));
        actions
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
