//! One walk over a mirrored pair: rounds, slices, delays.

use std::time::Duration;

use super::super::{FailoverPlan, GiveUp, Outcome, Step, View, ends_walk};
use super::{DelayRule, Mirrored};
use crate::host::HostId;
use crate::verdict::Verdict;

/// Stands in for an unlimited login timeout where a share of it is needed, and caps such a slice.
pub(super) const UNLIMITED_BASE: Duration = Duration::from_secs(15);

/// The share of the login timeout by which slices grow from round to round, in percent.
const SHARE: u128 = 8;

#[derive(Clone, Copy, Debug)]
enum State {
    Start,
    Trying,
    /// The delay after a round; the next one follows.
    Delaying,
    /// The back-off of a host that throttles; it is tried again in a new round 1.
    BackingOff,
    Over(GiveUp),
}

pub(super) struct Plan {
    sides: Vec<HostId>,
    limit: Option<Duration>,
    rule: DelayRule,
    retries_left: u8,
    retry_interval: Duration,
    min_slice: Duration,

    started: Duration,
    state: State,
    side: usize,
    round: u32,
    /// The second attempt of the round is running.
    second: bool,
    /// An attempt of this round ended before its slice.
    early: bool,
}

impl Plan {
    pub(super) fn new(policy: &Mirrored, view: &View<'_>) -> Self {
        let sides: Vec<HostId> = view.hosts.iter().take(2).map(|host| host.id).collect();
        let side = view.current.and_then(|id| sides.iter().position(|side| *side == id));
        Self {
            side: side.unwrap_or(0),
            sides,
            limit: (!policy.login_timeout.is_zero()).then_some(policy.login_timeout),
            rule: policy.delay_rule,
            retries_left: policy.connect_retry_count,
            retry_interval: policy.connect_retry_interval,
            min_slice: policy.min_slice,
            started: Duration::ZERO,
            state: State::Start,
            round: 1,
            second: false,
            early: false,
        }
    }

    fn paired(&self) -> bool {
        self.sides.len() == 2
    }

    /// What is left of the login timeout; without a limit, more than anything asks for.
    fn left(&self, now: Duration) -> Duration {
        self.limit
            .map_or(Duration::MAX, |limit| limit.saturating_sub(now.saturating_sub(self.started)))
    }

    /// What one attempt of this round may take, before it is cut to the time left.
    fn slice(&self) -> Duration {
        if !self.paired() {
            return self.limit.unwrap_or(UNLIMITED_BASE);
        }
        let whole = self.limit.unwrap_or(UNLIMITED_BASE);
        let nanos = whole.as_nanos().saturating_mul(SHARE * u128::from(self.round)) / 100;
        // Nothing above the whole is ever used: it is cut to the time left, or capped if unlimited.
        nanos_of(nanos).min(whole).max(self.min_slice)
    }

    fn stop(&mut self, why: GiveUp) -> Step {
        self.state = State::Over(why);
        Step::GiveUp(why)
    }

    fn attempt(&mut self, now: Duration) -> Step {
        let left = self.left(now);
        if left.is_zero() {
            return self.stop(GiveUp::TimedOut);
        }
        self.state = State::Trying;
        Step::Try { host: self.sides[self.side], budget: self.slice().min(left) }
    }

    fn failed(&mut self, verdict: Verdict, by_budget: bool, now: Duration) -> Step {
        if ends_walk(verdict) || (verdict == Verdict::Inactive && !self.paired()) {
            return self.stop(GiveUp::Permanent);
        }
        if verdict == Verdict::Overloaded {
            return self.throttled(now);
        }
        if !self.paired() {
            return self.delay(now);
        }
        self.early |= !by_budget;
        self.side = 1 - self.side;
        self.second = !self.second;
        if self.second {
            return self.attempt(now);
        }
        if self.rule == DelayRule::Always || self.early {
            return self.delay(now);
        }
        self.next_round(now)
    }

    fn delay(&mut self, now: Duration) -> Step {
        let delay = delay_after(self.round);
        if self.left(now) <= delay {
            return self.stop(GiveUp::TimedOut);
        }
        self.state = State::Delaying;
        Step::Wait(delay)
    }

    fn next_round(&mut self, now: Duration) -> Step {
        self.round = self.round.saturating_add(1);
        self.early = false;
        self.attempt(now)
    }

    fn throttled(&mut self, now: Duration) -> Step {
        if self.retries_left == 0 || self.left(now) < self.retry_interval {
            return self.stop(GiveUp::Exhausted);
        }
        self.retries_left -= 1;
        self.state = State::BackingOff;
        Step::Wait(self.retry_interval)
    }

    fn start_over(&mut self, now: Duration) -> Step {
        self.round = 1;
        self.second = false;
        self.early = false;
        self.attempt(now)
    }
}

impl FailoverPlan for Plan {
    fn next(&mut self, now: Duration, last: Option<&Outcome>) -> Step {
        match (self.state, last) {
            (State::Start, _) if self.sides.is_empty() => self.stop(GiveUp::Exhausted),
            (State::Start, _) => {
                self.started = now;
                self.attempt(now)
            }
            (State::Trying, Some(Outcome::Failed { verdict, by_budget })) => {
                self.failed(*verdict, *by_budget, now)
            }
            (State::Trying, _) => self.failed(Verdict::HostDown, false, now),
            (State::Delaying, _) => self.next_round(now),
            (State::BackingOff, _) => self.start_over(now),
            (State::Over(why), _) => Step::GiveUp(why),
        }
    }
}

/// The delay that belongs to a round: 100, 200, 400, 800, then 1000 ms.
fn delay_after(round: u32) -> Duration {
    const DELAYS: [u64; 4] = [100, 200, 400, 800];
    let index = round.saturating_sub(1) as usize;
    Duration::from_millis(DELAYS.get(index).copied().unwrap_or(1_000))
}

fn nanos_of(nanos: u128) -> Duration {
    let second = 1_000_000_000;
    let seconds = u64::try_from(nanos / second).unwrap_or(u64::MAX);
    // The remainder is below 10^9, so it always fits.
    Duration::new(seconds, u32::try_from(nanos % second).unwrap_or(0))
}
