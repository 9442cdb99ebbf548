//! One walk of the cycling policy: the ring, the turns and the limits.

use std::time::Duration;

use super::super::{
    FailoverPlan, FailoverPolicy, GiveUp, Outcome, ReturnRule, Step, View, ends_walk,
};
use super::{Cycling, TURN_PAUSE};
use crate::host::HostId;

/// Where the walk stands. Positions count along the host list; 0 is the source.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing was done yet.
    Start,
    /// The source is tried before the ring; whatever goes wrong there is passed over.
    Source,
    /// `at` is tried as part of the ring.
    Ring { at: usize },
    /// A pause between two tries of the same host, or after the last of them.
    Again { ring: Option<usize> },
    /// The pause after a completed turn; `next` follows.
    TurnOver { next: usize },
    /// The walk ended.
    Over(GiveUp),
}

pub(super) struct Plan {
    hosts: Vec<HostId>,
    current: Option<usize>,
    return_rule: Option<ReturnRule>,
    left_source_at: Option<Duration>,
    statements: u64,
    retries_all_down: u32,
    tries_per_host: u32,
    pause_between_tries: Duration,
    connect_timeout: Duration,
    deadline: Duration,

    started: Duration,
    state: State,
    tries: u32,
    first: usize,
    turns: u32,
}

impl Plan {
    pub(super) fn new(policy: &Cycling, view: &View<'_>) -> Self {
        let hosts: Vec<HostId> = view.hosts.iter().map(|host| host.id).collect();
        let (tries_per_host, pause_between_tries) = policy.tries_per_host();
        Self {
            current: view.current.and_then(|id| hosts.iter().position(|host| *host == id)),
            hosts,
            return_rule: policy.return_rule(),
            left_source_at: view.left_source_at,
            statements: view.statements,
            retries_all_down: policy.retries_all_down,
            tries_per_host,
            pause_between_tries,
            connect_timeout: policy.connect_timeout,
            deadline: policy.deadline,
            started: Duration::ZERO,
            state: State::Start,
            tries: 0,
            first: 0,
            turns: 0,
        }
    }

    /// Whether a return to the source is due: looked up anew at every step, for time goes on.
    fn due(&self, now: Duration) -> bool {
        let away_since = self.left_source_at.unwrap_or(now);
        self.current.is_some_and(|current| current != 0)
            && self
                .return_rule
                .is_some_and(|rule| rule.due(now.saturating_sub(away_since), self.statements))
    }

    /// The next place on the ring after `at`.
    fn step(&self, at: usize, allow_source: bool, now: Duration) -> usize {
        let next = (at + 1) % self.hosts.len();
        let jump = next == 0
            && self.hosts.len() > 1
            && self.current.is_some()
            && self.return_rule.is_some()
            && !allow_source
            && !self.due(now);
        if jump { 1 } else { next }
    }

    fn left(&self, now: Duration) -> Duration {
        self.deadline.saturating_sub(now.saturating_sub(self.started))
    }

    fn stop(&mut self, why: GiveUp) -> Step {
        self.state = State::Over(why);
        Step::GiveUp(why)
    }

    /// Tries the host of `state` if there is time left.
    fn try_host(&mut self, state: State, now: Duration) -> Step {
        let left = self.left(now);
        if left.is_zero() {
            return self.stop(GiveUp::TimedOut);
        }
        self.state = state;
        let at = if let State::Ring { at } = state { at } else { 0 };
        Step::Try { host: self.hosts[at], budget: self.connect_timeout.min(left) }
    }

    fn begin(&mut self, now: Duration) -> Step {
        self.started = now;
        // Without a date of departure the source is left now.
        self.left_source_at.get_or_insert(now);
        match self.current {
            _ if self.hosts.is_empty() => self.stop(GiveUp::Exhausted),
            Some(current) if !self.due(now) => self.enter_ring(current, now),
            _ => self.try_host(State::Source, now),
        }
    }

    fn enter_ring(&mut self, from: usize, now: Duration) -> Step {
        self.first = self.step(from, false, now);
        self.try_host(State::Ring { at: self.first }, now)
    }

    /// One try failed; `ring` is the place on the ring, `None` the source before it.
    fn try_failed(&mut self, ring: Option<usize>, now: Duration) -> Step {
        self.tries += 1;
        let pause = self.pause_between_tries.min(self.left(now));
        if pause.is_zero() {
            return self.try_again(ring, now);
        }
        self.state = State::Again { ring };
        Step::Wait(pause)
    }

    fn try_again(&mut self, ring: Option<usize>, now: Duration) -> Step {
        if self.tries >= self.tries_per_host {
            return self.host_failed(ring, now);
        }
        self.try_host(ring.map_or(State::Source, |at| State::Ring { at }), now)
    }

    fn host_failed(&mut self, ring: Option<usize>, now: Duration) -> Step {
        self.tries = 0;
        let Some(at) = ring else {
            self.left_source_at = Some(now);
            self.statements = 0;
            return self.enter_ring(0, now);
        };
        let mut next = self.step(at, self.turns > 0, now);
        if next == self.first {
            // The source may slip in here, and then the turn is not over yet. Without this a walk
            // with all hosts down that starts on the source, or on the last host, would never end.
            next = self.step(at, true, now);
            if next == self.first {
                self.turns += 1;
                let pause = TURN_PAUSE.min(self.left(now));
                if !pause.is_zero() {
                    self.state = State::TurnOver { next };
                    return Step::Wait(pause);
                }
            }
        }
        self.go_on(next, now)
    }

    /// Turns are counted against the limit after the body of the loop, so 0 still tries one host.
    fn go_on(&mut self, next: usize, now: Duration) -> Step {
        if self.turns >= self.retries_all_down {
            return self.stop(GiveUp::Exhausted);
        }
        self.try_host(State::Ring { at: next }, now)
    }
}

impl FailoverPlan for Plan {
    fn next(&mut self, now: Duration, last: Option<&Outcome>) -> Step {
        let fatal = matches!(last, Some(Outcome::Failed { verdict, .. }) if ends_walk(*verdict));
        match self.state {
            State::Start => self.begin(now),
            State::Source if fatal => self.host_failed(None, now),
            State::Source => self.try_failed(None, now),
            State::Ring { .. } if fatal => self.stop(GiveUp::Permanent),
            State::Ring { at } => self.try_failed(Some(at), now),
            State::Again { ring } => self.try_again(ring, now),
            State::TurnOver { next } => self.go_on(next, now),
            State::Over(why) => Step::GiveUp(why),
        }
    }
}
