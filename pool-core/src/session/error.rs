//! Why a call on a session failed: what became of it, where, and each host's last cause.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, HostReport};
use crate::failover::Failure;

/// Why a call on a session failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionError<E> {
    /// What became of the statement and of the session.
    pub failure: Failure,
    /// The host where it happened, if there was a connection.
    pub host: Option<Arc<str>>,
    /// The host that the session is on now, if it is on one.
    pub now_on: Option<Arc<str>>,
    /// The driver's error that caused it; `None` for a call that was refused, or that found no host.
    pub error: Option<E>,
    /// When no host could be reached: each host's counts and last cause, in list order.
    pub hosts: Vec<HostReport>,
    /// For [`Failure::NoReader`]: what the pool says.
    pub pool: Option<Error>,
}

impl<E> SessionError<E> {
    /// Whether the same statement may be sent again without the danger of running it twice.
    #[must_use]
    pub fn safe_to_retry(&self) -> bool {
        self.failure.safe_to_retry()
    }

    /// The newest of the hosts' errors, of any type.
    fn last_cause(&self) -> Option<&(dyn StdError + 'static)> {
        let causes = self.hosts.iter().filter_map(|report| report.cause.as_ref());
        let (last, _) = causes.max_by_key(|(cause, _)| cause.at)?;
        last.error.as_deref().map(|error| error as _)
    }
}

impl<E: fmt::Display> fmt::Display for SessionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)?;
        if let Some(host) = &self.host {
            write!(f, " (on {host}")?;
            match &self.now_on {
                Some(now) => write!(f, ", now on {now})")?,
                None => f.write_str(", now on no host)")?,
            }
        }
        if let Some(error) = &self.error {
            write!(f, ": {error}")?;
        }
        if let Some(error) = &self.pool {
            write!(f, ": {error}")?;
        }
        for report in &self.hosts {
            write!(f, "; {}: ", report.host)?;
            match &report.cause {
                Some((cause, age)) => write!(
                    f,
                    "{} {} ms ago while {}: {}",
                    cause.verdict,
                    age.as_millis(),
                    cause.phase.as_str(),
                    cause.message
                )?,
                None => f.write_str("no error seen")?,
            }
        }
        Ok(())
    }
}

impl<E: StdError + 'static> StdError for SessionError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.error, &self.pool) {
            (Some(error), _) => Some(error),
            (None, Some(error)) => Some(error),
            (None, None) => self.last_cause(),
        }
    }
}
