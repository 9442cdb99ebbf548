//! The default policy: the source first, then the others in list order, round after round.

use std::time::Duration;

use super::{
    FailoverPlan, FailoverPolicy, GiveUp, HostView, InvalidOption, Outcome, ReturnRule, Step, View,
    ends_walk,
};
use crate::host::{HostId, Role};

/// Tries the source, then every other host in list order, and starts over after a pause.
///
/// "The source" is every host known to have the source role, or else the first of the list. Hosts
/// that are blocked after failures come last, in the same order among themselves. Errors of the
/// link and of a host that does not serve now walk on; a permanent error (credentials,
/// configuration) stops.
///
/// ```
/// use std::time::Duration;
/// use pool_core::failover::Ordered;
///
/// let policy = Ordered::builder().deadline(Duration::from_secs(10)).build()?;
/// # let _ = policy;
/// # Ok::<(), pool_core::failover::InvalidOption>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    connect_timeout: Duration,
    deadline: Duration,
    backoff_start: Duration,
    backoff_limit: Duration,
    return_rule: Option<ReturnRule>,
    leave_demoted: bool,
}

impl Ordered {
    /// Starts from the defaults.
    #[must_use]
    pub fn builder() -> OrderedBuilder {
        OrderedBuilder::default()
    }
}

impl Default for Ordered {
    fn default() -> Self {
        OrderedBuilder::default().policy
    }
}

impl FailoverPolicy for Ordered {
    fn plan(&self, view: &View<'_>) -> Box<dyn FailoverPlan> {
        Box::new(Plan::new(self.clone(), view.hosts))
    }

    fn return_rule(&self) -> Option<ReturnRule> {
        self.return_rule
    }

    fn leaves_demoted(&self) -> bool {
        self.leave_demoted
    }
}

/// Sets up an [`Ordered`] policy.
#[derive(Clone, Debug)]
pub struct OrderedBuilder {
    policy: Ordered,
}

impl Default for OrderedBuilder {
    fn default() -> Self {
        Self {
            policy: Ordered {
                connect_timeout: Duration::from_secs(5),
                deadline: Duration::from_secs(30),
                backoff_start: Duration::from_millis(250),
                backoff_limit: Duration::from_secs(5),
                return_rule: Some(ReturnRule {
                    after: Some(Duration::from_secs(30)),
                    after_statements: None,
                }),
                leave_demoted: true,
            },
        }
    }
}

impl OrderedBuilder {
    /// Sets the longest time one host gets per attempt, cut to what is left of the deadline.
    ///
    /// Defaults to 5 seconds. Must not be zero.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.policy.connect_timeout = limit;
        self
    }

    /// Sets the longest time of one walk, all attempts and pauses included.
    ///
    /// Defaults to 30 seconds. Must not be zero.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.policy.deadline = limit;
        self
    }

    /// Sets the pause after the first round and its upper limit; it doubles from round to round.
    ///
    /// Defaults to 250 milliseconds and 5 seconds. The first must be neither zero nor above the
    /// second.
    #[must_use]
    pub fn backoff(mut self, start: Duration, limit: Duration) -> Self {
        self.policy.backoff_start = start;
        self.policy.backoff_limit = limit;
        self
    }

    /// Sets when new work goes back to the source by itself; `None` leaves it where it is.
    ///
    /// Defaults to 30 seconds after the source was left, whatever the number of statements.
    #[must_use]
    pub fn return_rule(mut self, rule: Option<ReturnRule>) -> Self {
        self.policy.return_rule = rule;
        self
    }

    /// Sets whether a source that became read-only is left as a dead one is. Defaults to `true`.
    #[must_use]
    pub fn leave_demoted(mut self, leave: bool) -> Self {
        self.policy.leave_demoted = leave;
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// [`InvalidOption`] names the first setting that cannot be used.
    pub fn build(self) -> Result<Ordered, InvalidOption> {
        let policy = self.policy;
        let refuse = |option, reason: &str| Err(InvalidOption::new(option, reason));
        if policy.connect_timeout.is_zero() {
            return refuse("connect_timeout", "must not be zero");
        }
        if policy.deadline.is_zero() {
            return refuse("deadline", "must not be zero");
        }
        if policy.backoff_start.is_zero() {
            return refuse("backoff", "must not start at zero");
        }
        if policy.backoff_start > policy.backoff_limit {
            return refuse("backoff", "must not start above its limit");
        }
        Ok(policy)
    }
}

struct Plan {
    policy: Ordered,
    order: Vec<HostId>,
    next: usize,
    started: Option<Duration>,
    backoff: Duration,
    over: Option<GiveUp>,
}

impl Plan {
    fn new(policy: Ordered, hosts: &[HostView]) -> Self {
        let mut ranked: Vec<HostView> = hosts.to_vec();
        // Stable: list order is kept inside each rank.
        ranked.sort_by_key(|host| (host.blocked_for.is_some(), host.role != Role::Source));
        Self {
            backoff: policy.backoff_start,
            policy,
            order: ranked.iter().map(|host| host.id).collect(),
            next: 0,
            started: None,
            over: None,
        }
    }

    fn stop(&mut self, why: GiveUp) -> Step {
        self.over = Some(why);
        Step::GiveUp(why)
    }
}

impl FailoverPlan for Plan {
    fn next(&mut self, now: Duration, last: Option<&Outcome>) -> Step {
        if let Some(why) = self.over {
            return Step::GiveUp(why);
        }
        let started = *self.started.get_or_insert(now);
        let left = self.policy.deadline.saturating_sub(now.saturating_sub(started));

        if let Some(Outcome::Failed { verdict, .. }) = last
            && ends_walk(*verdict)
        {
            return self.stop(GiveUp::Permanent);
        }
        if self.order.is_empty() {
            return self.stop(GiveUp::Exhausted);
        }
        if left.is_zero() {
            return self.stop(GiveUp::TimedOut);
        }
        if let Some(host) = self.order.get(self.next) {
            self.next += 1;
            return Step::Try { host: *host, budget: self.policy.connect_timeout.min(left) };
        }
        self.next = 0;
        let pause = self.backoff;
        self.backoff = pause.saturating_mul(2).min(self.policy.backoff_limit);
        Step::Wait(pause.min(left))
    }
}

#[cfg(test)]
mod tests;
