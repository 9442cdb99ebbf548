//! The options of a pool, with their defaults, and what makes them invalid.

use std::fmt;
use std::time::Duration;

use crate::weights::Weights;

/// How the pool learns which host takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Roles {
    /// The servers are asked; only a host that says it is writable becomes the source.
    Probed,
    /// The list decides: the first host (or the one with [`Role::Source`](crate::host::Role)) is the
    /// source, and a secondary that stands in for it is trusted as the failover policy says.
    Static,
}

/// The rules of one host's store.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that may exist at once.
    pub capacity: usize,
    /// Idle connections kept ready.
    pub min_idle: usize,
    /// Connects under way at once.
    pub max_connecting: usize,
    /// An idle connection above the minimum is closed after this long.
    pub idle_timeout: Duration,
    /// An idle connection is checked when the server was not heard for this long.
    pub keepalive: Duration,
    /// A connection heard of within this window is handed out without a check.
    pub bypass: Duration,
    /// The pause after the first failed connect; doubles up to `backoff_max`.
    pub backoff: Duration,
    /// The longest pause between failed connects.
    pub backoff_max: Duration,
}

/// All options of a pool. Built by the pool builder, where each option is described.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "runtime"), expect(dead_code))]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) max_size: usize,
    pub(crate) min_idle: usize,
    pub(crate) max_connecting: usize,
    pub(crate) acquire_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) check_timeout: Duration,
    pub(crate) tidy_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) max_lifetime: Duration,
    pub(crate) keepalive: Duration,
    pub(crate) bypass_window: Duration,
    pub(crate) connect_backoff: Duration,
    pub(crate) connect_backoff_max: Duration,
    pub(crate) probe_interval: Option<Duration>,
    pub(crate) probe_failures: u32,
    pub(crate) roles: Roles,
    pub(crate) weights: Weights,
    pub(crate) precise_clock: bool,
    pub(crate) measure_latency: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            max_size: 10,
            min_idle: 0,
            max_connecting: 2,
            acquire_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            check_timeout: Duration::from_secs(2),
            tidy_timeout: Duration::from_secs(2),
            close_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(600),
            max_lifetime: Duration::from_secs(1800),
            keepalive: Duration::from_secs(120),
            bypass_window: Duration::from_millis(500),
            connect_backoff: Duration::from_millis(10),
            connect_backoff_max: Duration::from_secs(5),
            probe_interval: Some(Duration::from_secs(5)),
            probe_failures: 3,
            roles: Roles::Probed,
            weights: Weights::automatic(),
            precise_clock: false,
            measure_latency: false,
        }
    }
}

#[cfg_attr(not(feature = "runtime"), expect(dead_code))]
impl Config {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            capacity: self.max_size,
            min_idle: self.min_idle,
            max_connecting: self.max_connecting,
            idle_timeout: self.idle_timeout,
            keepalive: self.keepalive,
            bypass: self.bypass_window,
            backoff: self.connect_backoff,
            backoff_max: self.connect_backoff_max,
        }
    }

    /// Finds what contradicts itself. Durations of zero are refused where they would mean "never works".
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let fail = |option, reason: String| Err(ConfigError::new(option, reason));
        if self.max_size == 0 {
            return fail("max_size", "must be at least 1".to_owned());
        }
        if self.min_idle > self.max_size {
            let reason = format!("{} is more than max_size {}", self.min_idle, self.max_size);
            return fail("min_idle", reason);
        }
        if self.max_connecting == 0 {
            return fail("max_connecting", "must be at least 1".to_owned());
        }
        for (option, value) in [
            ("acquire_timeout", self.acquire_timeout),
            ("connect_timeout", self.connect_timeout),
            ("check_timeout", self.check_timeout),
            ("tidy_timeout", self.tidy_timeout),
            ("close_timeout", self.close_timeout),
            ("idle_timeout", self.idle_timeout),
            ("max_lifetime", self.max_lifetime),
            ("keepalive", self.keepalive),
            ("connect_backoff", self.connect_backoff),
            ("connect_backoff_max", self.connect_backoff_max),
            ("probe_interval", self.probe_interval.unwrap_or(Duration::MAX)),
        ] {
            if value.is_zero() {
                return fail(option, "must be longer than zero".to_owned());
            }
        }
        for (low, low_value, high, high_value) in [
            ("keepalive", self.keepalive, "max_lifetime", self.max_lifetime),
            (
                "connect_backoff",
                self.connect_backoff,
                "connect_backoff_max",
                self.connect_backoff_max,
            ),
        ] {
            if low_value > high_value {
                return fail(low, format!("{low_value:?} is longer than {high} {high_value:?}"));
            }
        }
        if self.probe_failures == 0 {
            return fail("probe_failures", "must be at least 1".to_owned());
        }
        Ok(())
    }
}

/// A configuration that cannot work: which option, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    option: String,
    reason: String,
}

impl ConfigError {
    /// `option` is wrong because of `reason`. Never put a secret into either.
    pub fn new(option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { option: option.into(), reason: reason.into() }
    }

    /// The offending option, under the name that the user wrote.
    #[must_use]
    pub fn option(&self) -> &str {
        &self.option
    }

    /// What is wrong with it.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}: {}", self.option, self.reason)
    }
}

impl std::error::Error for ConfigError {}
