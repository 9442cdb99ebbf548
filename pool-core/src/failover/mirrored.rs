//! SQL Server's connection retry algorithm for a mirrored pair.
//!
//! Rules: `mssql-connection-retry-algorithm`, `mssql-failover-partner` and the reference beside
//! them, sections 1 to 3 and 5.

mod plan;

use std::time::Duration;

use self::plan::Plan;
use super::{FailoverPlan, FailoverPolicy, InvalidOption, View};

/// After which rounds a mirrored walk pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum DelayRule {
    /// After every round, as SqlClient does.
    Always,
    /// Only after a round in which at least one attempt ended before its slice ran out. The
    /// default: the only rule that fits every documented number.
    #[default]
    Early,
}

/// The initial partner and the failover partner, tried alternately with growing slices of the login
/// timeout.
///
/// The first host of the view is the initial partner, the second the failover partner; further ones
/// are not part of a pair and never tried. A walk starts on the side that served last.
///
/// - A round is one attempt on each side. The slice of both attempts of round `r` is 8 % of the
///   login timeout times `r`, cut to what is left: 1.2 1.2 2.4 2.4 3.6 3.6 and a last 0.6 of 15
///   seconds.
/// - An attempt that fails before its slice ends is followed at once by the next one.
/// - After a round, as the [`DelayRule`] says, a delay: 100, 200, 400, 800, then 1000 ms for ever.
///   It belongs to the number of the round; where one is due and no more time than it is left, the
///   walk stops.
/// - A login timeout of zero is unlimited: the slices are those of 15 seconds, capped at 15 seconds
///   (ours).
/// - One host alone: every attempt gets all the time left (at most 15 seconds if unlimited, ours),
///   with the same delays after every failure; "inactive" then means a wrong database name and
///   stops.
/// - A permanent error stops at once and never touches the other side. A host that throttles is
///   tried again itself, `connect_retry_count` times, `connect_retry_interval` apart, starting over
///   with the slice of round 1; then its error ends the walk
///   ([`GiveUp::Exhausted`](super::GiveUp::Exhausted)).
///
/// ```
/// use std::time::Duration;
/// use pool_core::failover::Mirrored;
///
/// let policy = Mirrored::builder().login_timeout(Duration::from_secs(30)).build()?;
/// assert!(policy.warnings(2).is_empty());
/// # Ok::<(), pool_core::failover::InvalidOption>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    login_timeout: Duration,
    delay_rule: DelayRule,
    connect_retry_count: u8,
    connect_retry_interval: Duration,
    min_slice: Duration,
}

impl Mirrored {
    /// The login timeout below which later rounds may find no room.
    pub const RECOMMENDED_LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

    /// Starts from the documented defaults.
    #[must_use]
    pub fn builder() -> MirroredBuilder {
        MirroredBuilder::default()
    }

    /// What an operator should know about these settings with that many hosts, one sentence each.
    ///
    /// The pool reports them once, when it is built.
    #[must_use]
    pub fn warnings(&self, hosts: usize) -> Vec<String> {
        let recommended = Self::RECOMMENDED_LOGIN_TIMEOUT;
        if hosts < 2 || self.login_timeout.is_zero() || self.login_timeout >= recommended {
            return Vec::new();
        }
        vec![format!(
            "a login timeout of {:?} with a failover partner is below the \
             recommended {recommended:?}: later rounds may find no room",
            self.login_timeout
        )]
    }
}

impl Default for Mirrored {
    fn default() -> Self {
        MirroredBuilder::default().policy
    }
}

impl FailoverPolicy for Mirrored {
    fn plan(&self, view: &View<'_>) -> Box<dyn FailoverPlan> {
        Box::new(Plan::new(self, view))
    }
}

/// Sets up a [`Mirrored`] policy.
#[derive(Clone, Debug)]
pub struct MirroredBuilder {
    policy: Mirrored,
}

impl Default for MirroredBuilder {
    fn default() -> Self {
        Self {
            policy: Mirrored {
                login_timeout: Duration::from_secs(15),
                delay_rule: DelayRule::Early,
                connect_retry_count: 1,
                connect_retry_interval: Duration::from_secs(10),
                min_slice: Duration::ZERO,
            },
        }
    }
}

impl MirroredBuilder {
    /// Sets the login timeout, the longest time of one walk; zero is unlimited.
    ///
    /// Defaults to 15 seconds. At least 1 millisecond; less than 5 seconds is a warning.
    #[must_use]
    pub fn login_timeout(mut self, limit: Duration) -> Self {
        self.policy.login_timeout = limit;
        self
    }

    /// Sets after which rounds the walk pauses. Defaults to [`DelayRule::Early`].
    #[must_use]
    pub fn delay_rule(mut self, rule: DelayRule) -> Self {
        self.policy.delay_rule = rule;
        self
    }

    /// Sets `ConnectRetryCount`: how often a host that throttles is tried again within one walk.
    ///
    /// Defaults to 1. With 0 the first such error ends the walk.
    #[must_use]
    pub fn connect_retry_count(mut self, retries: u8) -> Self {
        self.policy.connect_retry_count = retries;
        self
    }

    /// Sets `ConnectRetryInterval`: how long a host that throttles is left alone before it is tried
    /// again.
    ///
    /// Defaults to 10 seconds. More than zero, at most 60 seconds.
    #[must_use]
    pub fn connect_retry_interval(mut self, interval: Duration) -> Self {
        self.policy.connect_retry_interval = interval;
        self
    }

    /// Sets the least time an attempt gets, for slow links on which the first slices are too short
    /// (ours).
    ///
    /// Defaults to zero: the documented slices. At most the login timeout, or 15 seconds if
    /// unlimited.
    #[must_use]
    pub fn min_slice(mut self, slice: Duration) -> Self {
        self.policy.min_slice = slice;
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// [`InvalidOption`] names the first setting that cannot be used.
    pub fn build(self) -> Result<Mirrored, InvalidOption> {
        let policy = self.policy;
        let unlimited = policy.login_timeout.is_zero();
        if !unlimited && policy.login_timeout < Duration::from_millis(1) {
            return Err(InvalidOption::new(
                "login_timeout",
                "must be zero (unlimited) or at least 1 ms",
            ));
        }
        if policy.connect_retry_interval.is_zero()
            || policy.connect_retry_interval > Duration::from_secs(60)
        {
            return Err(InvalidOption::new(
                "connect_retry_interval",
                "must be more than zero and at most 60 s",
            ));
        }
        let longest = if unlimited { plan::UNLIMITED_BASE } else { policy.login_timeout };
        if policy.min_slice > longest {
            return Err(InvalidOption::new("min_slice", format!("must be at most {longest:?}")));
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests;
