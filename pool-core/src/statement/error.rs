//! Why a routed statement failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::route::Pin;

/// Why a routed statement failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum StatementError<E> {
    /// The server or the link. Whether a write was done is unknown if the link broke.
    Driver {
        /// The host that it ran on.
        host: Arc<str>,
        /// What the driver says.
        error: E,
    },
    /// It would bind a session, and there is none: use a lease or a session. It did not run.
    NeedsSession(Pin),
    /// The host takes no writes (any more); it did not run. The pool looks for the host that does, so it may
    /// be sent again (section 11 of the routing rules).
    NotWritable {
        /// The host that refused it.
        host: Arc<str>,
        /// What the driver says.
        error: E,
    },
    /// No connection could be had; the statement did not run.
    Pool(Error),
}

impl<E> StatementError<E> {
    /// Whether the same statement may be sent again without the danger of running it twice.
    #[must_use]
    pub const fn safe_to_retry(&self) -> bool {
        matches!(self, Self::NotWritable { .. } | Self::Pool(_))
    }
}

impl<E: fmt::Display> fmt::Display for StatementError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { host, error } => write!(f, "on {host}: {error}"),
            Self::NeedsSession(pin) => {
                write!(f, "the statement binds a session ({pin}); use a lease or a session")
            }
            Self::NotWritable { host, error } => {
                write!(f, "{host} takes no writes, the statement did not run: {error}")
            }
            Self::Pool(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for StatementError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Driver { error, .. } | Self::NotWritable { error, .. } => Some(error),
            Self::NeedsSession(_) => None,
            Self::Pool(error) => Some(error),
        }
    }
}

impl<E> From<Error> for StatementError<E> {
    fn from(error: Error) -> Self {
        Self::Pool(error)
    }
}
