//! What a caller wants a connection for.

use std::fmt;

use crate::host::HostId;

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// One named host, whatever its role.
    Host(HostId),
    /// Reads: any eligible host, as the balance policy picks.
    Read,
    /// Writes: the current source.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(id) => write!(f, "host {id}"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
        }
    }
}

/// Whether a session may write (Connector/J: "connection access mode").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AccessMode {
    /// Reads only.
    #[cfg_attr(feature = "serde", serde(rename = "ro"))]
    ReadOnly,
    /// Reads and writes.
    #[cfg_attr(feature = "serde", serde(rename = "rw"))]
    ReadWrite,
}

impl AccessMode {
    /// `ro` or `rw`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
