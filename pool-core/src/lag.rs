//! How far a host is behind its source.

use std::fmt;
use std::time::Duration;

/// Replication lag, as a probe found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Lag {
    /// This far behind its source.
    Known(Duration),
    /// Not measured: a source, or a driver that does not ask.
    NotAsked,
    /// Replication is stopped or its state cannot be read.
    Unknown,
}

impl Lag {
    /// The lag, if it was measured.
    #[must_use]
    pub const fn known(self) -> Option<Duration> {
        match self {
            Self::Known(lag) => Some(lag),
            Self::NotAsked | Self::Unknown => None,
        }
    }

    /// Whether a replica with this lag may serve reads. `None` is no limit; a limit of zero admits only a
    /// lag of exactly zero; a lag that was not measured is over every limit.
    #[must_use]
    pub fn within(self, limit: Option<Duration>) -> bool {
        limit.is_none_or(|limit| self.known().is_some_and(|lag| lag <= limit))
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(lag) => write!(f, "{lag:?}"),
            Self::NotAsked => f.write_str("not asked"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_lag_is_over_every_limit_and_zero_is_strict() {
        let ms = Duration::from_millis;
        for lag in [Lag::Unknown, Lag::NotAsked] {
            assert!(lag.within(None));
            assert!(!lag.within(Some(Duration::MAX)));
        }
        assert!(Lag::Known(ms(0)).within(Some(ms(0))));
        assert!(!Lag::Known(ms(1)).within(Some(ms(0))));
        assert!(Lag::Known(ms(1)).within(Some(ms(1))));
    }
}
