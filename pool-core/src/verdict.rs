//! What an error says about the connection and the host it came from.

use std::fmt;

/// A driver's judgement of one of its errors: what becomes of the connection, and of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Verdict {
    /// This connection is over (killed, idle limit of the server); nothing is wrong with the host.
    ConnectionEnded,
    /// The link broke. The connection is over and every other connection to that host is suspect.
    ConnectionLost,
    /// The host refuses writes that it should take: it is no longer the source. Not executed.
    Demoted,
    /// The host cannot be reached: refused, timed out, unknown name.
    HostDown,
    /// The host answers, but does not serve now: starting, stopping, a mirror, a failover under way.
    Inactive,
    /// The host is saturated or throttles: short back-off, its role is unchanged.
    Overloaded,
    /// Trying again cannot help: credentials, unknown database, certificate, bad configuration.
    Permanent,
    /// Only this statement failed. The connection is kept.
    Statement,
}

impl Verdict {
    /// Whether the connection that returned such an error may be used again.
    #[must_use]
    pub const fn keeps_connection(self) -> bool {
        matches!(self, Self::Statement)
    }

    /// Whether every other connection to the host is void.
    #[must_use]
    pub const fn voids_host(self) -> bool {
        matches!(self, Self::ConnectionLost | Self::Demoted | Self::HostDown)
    }

    /// The label used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectionEnded => "connection-ended",
            Self::ConnectionLost => "connection-lost",
            Self::Demoted => "demoted",
            Self::HostDown => "host-down",
            Self::Inactive => "inactive",
            Self::Overloaded => "overloaded",
            Self::Permanent => "permanent",
            Self::Statement => "statement",
        }
    }

    /// Every verdict, to resolve metric handles once.
    pub const ALL: [Self; 8] = [
        Self::ConnectionEnded,
        Self::ConnectionLost,
        Self::Demoted,
        Self::HostDown,
        Self::Inactive,
        Self::Overloaded,
        Self::Permanent,
        Self::Statement,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
