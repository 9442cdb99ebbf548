//! Connector/J's server failover: one source, secondaries in order, and a way back.
//!
//! Rules: `connectorj-server-failover` and the reference beside it, sections 1 to 7.

mod plan;

use std::time::Duration;

use self::plan::Plan;
use super::{FailoverPlan, FailoverPolicy, InvalidOption, ReturnRule, SessionOptions, View};
use crate::access::AccessMode;

/// The pause after every completed turn over the hosts. Fixed, as in Connector/J.
pub const TURN_PAUSE: Duration = Duration::from_millis(250);

/// Connector/J's failover connection as a policy.
///
/// The first host of the list is the *source* and keeps that status for ever, even if it was never
/// reached; the others are *secondaries*.
///
/// - A first connect, and a walk that starts when a return is due, tries the source first.
///   **Every** error of that one attempt is passed over, a refused password included.
/// - The walk then goes round the ring, starting after the host that was lost. The source is jumped
///   over while a session is on a secondary, automatic return exists and is not due; it may slip in
///   where a turn would end.
/// - A turn ends where it began. After each one the walk pauses for [`TURN_PAUSE`]; it ends after
///   `retries_all_down` turns, at the deadline (ours), or at the first error that no other host can
///   cure (a refused password on any host but the first attempt).
/// - One host alone is a plain reconnect.
///
/// ```
/// use std::time::Duration;
/// use pool_core::failover::Cycling;
///
/// let policy = Cycling::builder()
///     .fail_over_read_only(false)
///     .seconds_before_retry_source(Duration::from_secs(10))
///     .build()?;
/// # let _ = policy;
/// # Ok::<(), pool_core::failover::InvalidOption>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycling {
    fail_over_read_only: bool,
    seconds_before_retry_source: Duration,
    queries_before_retry_source: u64,
    retries_all_down: u32,
    auto_reconnect: bool,
    auto_reconnect_for_pools: bool,
    max_reconnects: u32,
    initial_timeout: Duration,
    reconnect_at_tx_end: bool,
    connect_timeout: Duration,
    deadline: Duration,
    leave_demoted: bool,
}

impl Cycling {
    /// Starts from Connector/J's defaults.
    #[must_use]
    pub fn builder() -> CyclingBuilder {
        CyclingBuilder::default()
    }

    /// How a logical connection that uses this policy behaves beyond the walk itself.
    #[must_use]
    pub fn session_options(&self) -> SessionOptions {
        SessionOptions {
            auto_reconnect: self.auto_reconnect,
            auto_reconnect_for_pools: self.auto_reconnect_for_pools,
            reconnect_at_tx_end: self.reconnect_at_tx_end,
            ..SessionOptions::default()
        }
    }

    /// How often one host is tried in a row, and the pause after each failure.
    fn tries_per_host(&self) -> (u32, Duration) {
        if self.auto_reconnect || self.auto_reconnect_for_pools {
            (self.max_reconnects, self.initial_timeout)
        } else {
            (1, Duration::ZERO)
        }
    }
}

impl Default for Cycling {
    fn default() -> Self {
        CyclingBuilder::default().policy
    }
}

impl FailoverPolicy for Cycling {
    fn plan(&self, view: &View<'_>) -> Box<dyn FailoverPlan> {
        Box::new(Plan::new(self, view))
    }

    fn return_rule(&self) -> Option<ReturnRule> {
        let rule = ReturnRule {
            after: (!self.seconds_before_retry_source.is_zero())
                .then_some(self.seconds_before_retry_source),
            after_statements: (self.queries_before_retry_source > 0)
                .then_some(self.queries_before_retry_source),
        };
        (rule.after.is_some() || rule.after_statements.is_some()).then_some(rule)
    }

    fn mode_on(
        &self,
        on_source: bool,
        asked: Option<AccessMode>,
        current: Option<AccessMode>,
    ) -> AccessMode {
        if on_source {
            asked.unwrap_or(AccessMode::ReadWrite)
        } else if self.fail_over_read_only {
            AccessMode::ReadOnly
        } else {
            asked.or(current).unwrap_or(AccessMode::ReadWrite)
        }
    }

    fn leaves_demoted(&self) -> bool {
        self.leave_demoted
    }
}

/// Sets up a [`Cycling`] policy. Methods are named after Connector/J's properties.
#[derive(Clone, Debug)]
pub struct CyclingBuilder {
    policy: Cycling,
}

impl Default for CyclingBuilder {
    fn default() -> Self {
        Self {
            policy: Cycling {
                fail_over_read_only: true,
                seconds_before_retry_source: Duration::from_secs(30),
                queries_before_retry_source: 50,
                retries_all_down: 120,
                auto_reconnect: false,
                auto_reconnect_for_pools: false,
                max_reconnects: 3,
                initial_timeout: Duration::from_secs(2),
                reconnect_at_tx_end: false,
                connect_timeout: Duration::from_secs(5),
                deadline: Duration::from_secs(30),
                leave_demoted: true,
            },
        }
    }
}

impl CyclingBuilder {
    /// Sets `failOverReadOnly`: sessions on a secondary are read-only whatever the caller asked
    /// for, and a wish for read/write waits for the return to the source.
    ///
    /// Defaults to `true`.
    #[must_use]
    pub fn fail_over_read_only(mut self, read_only: bool) -> Self {
        self.policy.fail_over_read_only = read_only;
        self
    }

    /// Sets `secondsBeforeRetrySource`: how long a session stays on secondaries before it goes
    /// back.
    ///
    /// Defaults to 30 seconds. Zero switches this half of the rule off.
    #[must_use]
    pub fn seconds_before_retry_source(mut self, time: Duration) -> Self {
        self.policy.seconds_before_retry_source = time;
        self
    }

    /// Sets `queriesBeforeRetrySource`: how many statements a session runs on secondaries before it
    /// goes back.
    ///
    /// Defaults to 50. Zero switches this half of the rule off.
    #[must_use]
    pub fn queries_before_retry_source(mut self, statements: u64) -> Self {
        self.policy.queries_before_retry_source = statements;
        self
    }

    /// Sets `retriesAllDown`: how many turns over the hosts end a walk. With 0 one host is tried.
    ///
    /// Defaults to 120. The pauses alone of so many turns take 30 seconds, so by default the
    /// deadline ends the walk first.
    #[must_use]
    pub fn retries_all_down(mut self, turns: u32) -> Self {
        self.policy.retries_all_down = turns;
        self
    }

    /// Sets `autoReconnect`: a logical connection that closed because no host was reachable opens
    /// again on its next use, statements prepared on an older host stay usable, and each host is
    /// tried `max_reconnects` times.
    ///
    /// Defaults to `false`. **Not recommended**: a statement may silently run on a read-only
    /// secondary, and a streamed result may look alive although its cursor is gone.
    #[must_use]
    pub fn auto_reconnect(mut self, on: bool) -> Self {
        self.policy.auto_reconnect = on;
        self
    }

    /// Sets `autoReconnectForPools`: as `auto_reconnect`, and the connection is checked before a
    /// statement with autocommit off as well. Defaults to `false`. **The same dangers apply.**
    #[must_use]
    pub fn auto_reconnect_for_pools(mut self, on: bool) -> Self {
        self.policy.auto_reconnect_for_pools = on;
        self
    }

    /// Sets `maxReconnects`: how often one host is tried in a row with `auto_reconnect`.
    ///
    /// Defaults to 3. At least 1. A permanent error (a refused password) is never repeated (ours).
    #[must_use]
    pub fn max_reconnects(mut self, tries: u32) -> Self {
        self.policy.max_reconnects = tries;
        self
    }

    /// Sets `initialTimeout`: the pause after each failed try with `auto_reconnect`, the last
    /// included.
    ///
    /// Defaults to 2 seconds. Must not be zero.
    #[must_use]
    pub fn initial_timeout(mut self, pause: Duration) -> Self {
        self.policy.initial_timeout = pause;
        self
    }

    /// Sets `reconnectAtTxEnd`: with `auto_reconnect`, the connection is checked, and replaced if
    /// dead, after the end of each transaction only. Defaults to `false`.
    #[must_use]
    pub fn reconnect_at_tx_end(mut self, on: bool) -> Self {
        self.policy.reconnect_at_tx_end = on;
        self
    }

    /// Sets `connectTimeout`: the longest time of one physical connect, cut to what is left of the
    /// deadline.
    ///
    /// Defaults to 5 seconds (ours; Connector/J waits for the operating system). Must not be zero.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.policy.connect_timeout = limit;
        self
    }

    /// Sets the longest time of one walk, all attempts and pauses included (ours).
    ///
    /// Defaults to 30 seconds. Must not be zero.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.policy.deadline = limit;
        self
    }

    /// Sets whether a source that became read-only is left as a dead one is (ours; Connector/J
    /// stays).
    ///
    /// Defaults to `true`.
    #[must_use]
    pub fn leave_demoted(mut self, leave: bool) -> Self {
        self.policy.leave_demoted = leave;
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// [`InvalidOption`] names the first setting that cannot be used.
    pub fn build(self) -> Result<Cycling, InvalidOption> {
        let policy = self.policy;
        if policy.max_reconnects == 0 {
            return Err(InvalidOption::new("max_reconnects", "must be at least 1"));
        }
        for (option, time) in [
            ("initial_timeout", policy.initial_timeout),
            ("connect_timeout", policy.connect_timeout),
            ("deadline", policy.deadline),
        ] {
            if time.is_zero() {
                return Err(InvalidOption::new(option, "must not be zero"));
            }
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests;
