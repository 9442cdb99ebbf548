//! Random sequences of everything that can happen to a store, against a model of reality.
//!
//! The model holds the connections outside the state (leases, checks, tidyings) itself, and counts every
//! connection that exists, so that one that is lost, doubled or kept in two places is found at once.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::{Actions, CloseReason, Phase, Slot, State};
use crate::config::Limits;
use crate::verdict::Verdict;

const SEQUENCES: u64 = 12_000;
const STEPS: usize = 70;

#[test]
fn random_sequences_keep_every_invariant() {
    for seed in 0..SEQUENCES {
        let report = SeedOnPanic(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        world.end();
        drop(report);
    }
}

/// Says which sequence failed.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing sequence has seed {}", self.0);
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }
}

/// A connection that counts while it exists.
#[derive(Debug)]
struct Conn {
    serial: u64,
    live: Rc<Cell<usize>>,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.live.set(self.live.get() - 1);
    }
}

type Held = Box<Slot<Conn>>;

struct World {
    random: Random,
    now: Duration,
    limits: Limits,
    state: State<Conn, u64>,
    live: Rc<Cell<usize>>,
    serial: u64,
    next_ticket: u64,
    /// Tickets of callers that still wait.
    waiting: BTreeSet<u64>,
    /// Leases, with the ticket of their caller.
    leases: Vec<(u64, Held)>,
    checks: Vec<Held>,
    tidyings: Vec<Held>,
    /// Connects under way: the generation each began in.
    connects: Vec<u64>,
    reserved: Vec<u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let capacity = 1 + random.below(5);
        let limits = Limits {
            capacity,
            min_idle: random.below(capacity + 1),
            max_connecting: 1 + random.below(3),
            idle_timeout: Duration::from_secs(600),
            keepalive: Duration::from_secs(120),
            bypass: Duration::from_millis(500),
            backoff: Duration::from_millis(10),
            backoff_max: Duration::from_secs(5),
        };
        Self {
            random,
            now: Duration::from_secs(1),
            state: State::new(limits.clone()),
            limits,
            live: Rc::default(),
            serial: 0,
            next_ticket: 0,
            waiting: BTreeSet::new(),
            leases: Vec::new(),
            checks: Vec::new(),
            tidyings: Vec::new(),
            connects: Vec::new(),
            reserved: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.below(30) {
            0..=6 => self.get(),
            7 => self.cancel(),
            8..=11 => self.give_back(),
            12 => self.give_back_dirty(),
            13 => self.discard(),
            14 => self.found_dead(),
            15..=17 => self.connect_ok(),
            18 => self.connect_failed(),
            19..=20 => self.tidy_ends(),
            21..=22 => self.check_ends(),
            23 => self.void(),
            24 => self.reserve(),
            25..=27 => self.time_passes(),
            28 if self.random.chance(4) => {
                let actions = self.state.turn_away();
                self.perform(actions);
                assert!(self.waiting.is_empty());
            }
            28 => self.sweep(),
            _ => self.operate(),
        }
    }

    fn get(&mut self) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let best = self.state.idle.last().map(|slot| slot.conn.serial);
        if let Some(slot) = self.state.try_checkout(self.now) {
            assert!(self.waiting.is_empty(), "a newcomer overtook a waiter");
            assert_eq!(Some(slot.conn.serial), best, "not the warmest");
            self.must_be_usable(&slot);
            self.leases.push((ticket, slot));
        } else {
            self.wait(ticket);
        }
    }

    fn wait(&mut self, ticket: u64) {
        self.waiting.insert(ticket);
        let actions = self.state.wait(self.now, ticket, ticket);
        self.perform(actions);
    }

    fn cancel(&mut self) {
        let mut tickets: Vec<u64> = self.waiting.iter().copied().collect();
        let Some(ticket) = self.random.take(&mut tickets) else { return };
        assert!(self.state.cancelled(ticket));
        assert!(!self.state.cancelled(ticket));
        self.waiting.remove(&ticket);
    }

    fn give_back(&mut self) {
        let Some((_, slot)) = self.random.take(&mut self.leases) else { return };
        if let Some(actions) = self.state.returned(self.now, slot) {
            self.perform(actions);
        }
    }

    fn give_back_dirty(&mut self) {
        let Some((_, slot)) = self.random.take(&mut self.leases) else { return };
        self.state.tidying();
        self.tidyings.push(slot);
    }

    fn discard(&mut self) {
        if self.random.take(&mut self.leases).is_none() {
            return;
        }
        let actions = self.state.discarded(self.now);
        self.perform(actions);
    }

    /// A caller looks at what it was given, finds it dead, and goes back to its place.
    fn found_dead(&mut self) {
        let Some((ticket, slot)) = self.leases.pop() else { return };
        drop(slot);
        let actions = self.state.discarded(self.now);
        self.perform(actions);
        self.wait(ticket);
    }

    fn open(&mut self, generation: u64) -> Held {
        self.live.set(self.live.get() + 1);
        self.serial += 1;
        let conn = Conn { serial: self.serial, live: Rc::clone(&self.live) };
        let lifetime = Duration::from_secs(1600 + self.random.below(200) as u64);
        Box::new(Slot::new(conn, self.now, lifetime, generation))
    }

    fn connect_ok(&mut self) {
        let Some(generation) = self.random.take(&mut self.connects) else { return };
        let slot = self.open(generation);
        let actions = self.state.connected(self.now, slot);
        self.perform(actions);
    }

    fn connect_failed(&mut self) {
        if self.random.take(&mut self.connects).is_none() {
            return;
        }
        let verdict = [Verdict::HostDown, Verdict::Overloaded, Verdict::Permanent];
        let verdict = verdict[self.random.below(3)];
        let jitter = self.random.below(101) as f64 / 100.0;
        let alive = self.state.alive();
        let actions = self.state.connect_failed(self.now, verdict, jitter);
        let kept = verdict == Verdict::Overloaded && alive > 0;
        assert!(kept || self.state.counts().waiting == 0, "waiters wait for nothing");
        self.perform(actions);
    }

    fn tidy_ends(&mut self) {
        let Some(slot) = self.random.take(&mut self.tidyings) else { return };
        let actions = if self.random.chance(3) {
            drop(slot);
            self.state.tidy_failed(self.now)
        } else {
            self.state.tidied(self.now, slot)
        };
        self.perform(actions);
    }

    fn check_ends(&mut self) {
        let Some(slot) = self.random.take(&mut self.checks) else { return };
        let actions = if self.random.chance(3) {
            drop(slot);
            self.state.check_failed(self.now)
        } else {
            self.state.checked(self.now, slot)
        };
        self.perform(actions);
    }

    fn void(&mut self) {
        let before = self.state.generation();
        let actions = self.state.void(self.now);
        assert_eq!(self.state.generation(), before + 1);
        assert_eq!(self.state.counts().idle, 0, "void means void at once");
        self.perform(actions);
    }

    /// A walk takes a place, and gives it back with a connection or without.
    fn reserve(&mut self) {
        if let Some(generation) = self.reserved.pop() {
            let actions = if self.random.chance(2) {
                self.state.unreserve(self.now)
            } else {
                let slot = self.open(generation);
                self.state.connected(self.now, slot)
            };
            self.perform(actions);
        } else if self.state.reserve() {
            self.reserved.push(self.state.generation());
        }
    }

    fn time_passes(&mut self) {
        let steps = [1, 5, 50, 400, 600, 5_000, 130_000, 700_000];
        let most = if self.random.chance(4) { steps.len() } else { 5 };
        self.now += Duration::from_millis(steps[self.random.below(most)]);
    }

    fn sweep(&mut self) {
        let actions = self.state.sweep(self.now);
        self.perform(actions);
        let next = self.state.next_timer();
        assert!(next.is_none_or(|next| next > self.now), "upkeep would spin: nothing is due");
    }

    fn operate(&mut self) {
        match self.random.below(10) {
            0..=3 => self.state.pause(),
            4 => {
                let actions = self.state.drain();
                self.perform(actions);
                assert!(self.waiting.is_empty());
            }
            5 if self.random.chance(8) => {
                let actions = self.state.close();
                self.perform(actions);
                assert!(self.waiting.is_empty());
            }
            _ => {
                let actions = self.state.resume(self.now);
                self.perform(actions);
            }
        }
    }

    fn perform(&mut self, actions: Actions<Conn, u64>) {
        let mut todo = VecDeque::from([actions]);
        while let Some(actions) = todo.pop_front() {
            let Actions { hand_over, refuse, connect, check, close } = actions;
            for (ticket, slot) in hand_over {
                assert_eq!(self.waiting.pop_first(), Some(ticket), "not the oldest waiter");
                assert_eq!(self.state.phase, Phase::Running);
                self.must_be_usable(&slot);
                if self.random.chance(10) {
                    // It left in this very moment: the next one gets what it was given.
                    todo.extend(self.state.returned(self.now, slot));
                } else {
                    self.leases.push((ticket, slot));
                }
            }
            for ticket in refuse {
                assert!(self.waiting.remove(&ticket), "refused a caller that does not wait");
            }
            self.connects.extend(std::iter::repeat_n(self.state.generation(), connect));
            self.checks.extend(check);
            for (slot, reason) in close {
                let fits = match reason {
                    CloseReason::Closed => {
                        matches!(self.state.phase, Phase::Closed | Phase::Draining)
                    }
                    CloseReason::Void => slot.generation != self.state.generation(),
                    CloseReason::Lifetime => self.now >= slot.expires,
                    CloseReason::IdleTimeout => {
                        self.now >= slot.idle_since + self.limits.idle_timeout
                            && self.state.counts().idle >= self.limits.min_idle
                    }
                    _ => false,
                };
                assert!(fits, "closed as {reason:?} without that reason");
            }
        }
    }

    fn must_be_usable(&self, slot: &Slot<Conn>) {
        assert_eq!(slot.generation, self.state.generation(), "a void connection was handed out");
        assert!(self.now < slot.expires, "an expired connection was handed out");
        assert!(self.now - slot.heard < self.limits.bypass, "handed out without a check");
        assert_eq!(slot.taken, self.now);
    }

    fn check(&mut self) {
        let counts = self.state.counts();
        let outside = self.leases.len() + self.checks.len() + self.tidyings.len();
        assert_eq!(counts.in_use, self.leases.len());
        assert_eq!(counts.tending, self.checks.len() + self.tidyings.len());
        assert_eq!(counts.connecting, self.connects.len() + self.reserved.len());
        assert_eq!(counts.waiting, self.waiting.len());
        assert_eq!(counts.idle, self.live.get() - outside, "a connection is lost or doubled");
        assert!(counts.total() <= self.limits.capacity, "over capacity: {counts:?}");
        assert!(self.connects.len() <= self.limits.max_connecting);
        assert!(self.state.idle.is_sorted_by_key(|slot| slot.idle_since), "not coldest first");
        let generation = self.state.generation();
        assert!(self.state.idle.iter().all(|slot| slot.generation == generation));
        if self.state.phase == Phase::Running && !self.waiting.is_empty() {
            self.check_waiters();
        }
    }

    /// Nobody waits beside an idle connection, nor for nothing.
    fn check_waiters(&self) {
        let counts = self.state.counts();
        assert!(
            counts.idle == 0 || self.checks.len() >= self.waiting.len(),
            "a waiter sleeps beside an idle connection: {counts:?}"
        );
        let promised = self.checks.len() + counts.connecting;
        let room =
            counts.connecting < self.limits.max_connecting && counts.total() < self.limits.capacity;
        if self.waiting.len() > promised && room {
            // The back-off postpones its connect: upkeep must know when to come back.
            let next = self.state.next_timer();
            assert!(self.state.retry_at > Duration::ZERO, "a waiter was forgotten: {counts:?}");
            assert!(next.is_some_and(|next| next <= self.state.retry_at), "nobody will retry");
        }
    }

    /// Everything under way ends, the store closes: nothing may be left.
    fn end(&mut self) {
        while !(self.leases.is_empty()
            && self.checks.is_empty()
            && self.tidyings.is_empty()
            && self.connects.is_empty()
            && self.reserved.is_empty())
        {
            self.give_back();
            self.check_ends();
            self.tidy_ends();
            self.connect_ok();
            self.reserve();
            if self.random.chance(4) {
                self.state.pause();
            }
            self.cancel();
            if self.random.chance(20) {
                let actions = self.state.close();
                self.perform(actions);
            }
            self.check();
        }
        let actions = self.state.close();
        self.perform(actions);
        self.check();
        assert_eq!(self.state.counts(), crate::status::Counts::default());
        assert!(self.state.is_settled());
        assert_eq!(self.live.get(), 0, "a connection outlived the store");
    }
}
