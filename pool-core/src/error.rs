//! Why no connection could be had: which phase, which hosts, their last causes, the pool's numbers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::status::Counts;
use crate::verdict::Verdict;

/// What a checkout was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Opening a connection.
    Dialling,
    /// Using a leased connection: no checkout fails in it, but a host's last cause may be from there.
    InUse,
    /// Looking for a host: routing, eligibility, or a refused request.
    Selecting,
    /// Waiting for a check of an idle connection.
    Validating,
    /// Waiting in the queue of a host.
    Waiting,
    /// Walking over the hosts to find one that takes writes.
    Walking,
}

impl Phase {
    /// The label used in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dialling => "dialling",
            Self::InUse => "in use",
            Self::Selecting => "selecting",
            Self::Validating => "validating",
            Self::Waiting => "waiting",
            Self::Walking => "walking",
        }
    }
}

/// The last thing that went wrong with one host.
#[derive(Clone, Debug)]
pub struct Cause {
    /// What was being done.
    pub phase: Phase,
    /// What the error says.
    pub verdict: Verdict,
    /// The error's text.
    pub message: Arc<str>,
    /// When it happened, on the pool's clock.
    pub at: Duration,
    /// The driver's error, where there was one.
    pub error: Option<Arc<dyn StdError + Send + Sync>>,
}

/// One host in the snapshot of an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostReport {
    /// The host's name.
    pub host: Arc<str>,
    /// Where its connections were.
    pub counts: Counts,
    /// The most connections it may have.
    pub capacity: usize,
    /// Why it was not chosen, if it was considered and refused.
    pub refused: Option<&'static str>,
    /// Its last cause, and how long ago that was.
    pub cause: Option<(Cause, Duration)>,
}

/// The kind of a pool error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pool is closed.
    Closed,
    /// No host can serve the request now, and waiting would not help.
    NoHost,
    /// The request cannot be served by the host it is bound to: it takes no writes.
    NotWritable,
    /// An error that no other attempt can cure, such as a wrong password.
    Permanent,
    /// The request itself is refused: an unknown host, a hint where none is allowed.
    Refused,
    /// The deadline passed.
    Timeout,
}

/// Why a checkout failed. Prints on one line; carries the whole picture.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    phase: Phase,
    pool: Arc<str>,
    access: String,
    elapsed: Duration,
    detail: Option<String>,
    hosts: Vec<HostReport>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

#[cfg_attr(not(feature = "runtime"), expect(dead_code))]
impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        phase: Phase,
        pool: Arc<str>,
        access: impl fmt::Display,
        elapsed: Duration,
        hosts: Vec<HostReport>,
    ) -> Self {
        let access = access.to_string();
        Self(Box::new(Inner {
            kind,
            phase,
            pool,
            access,
            elapsed,
            detail: None,
            hosts,
            source: None,
        }))
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_source(mut self, source: Option<Arc<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = source;
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The phase in which the checkout failed.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    /// How long the checkout took until it failed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Each host's counts and last cause at the time of the error, in list order.
    #[must_use]
    pub fn hosts(&self) -> &[HostReport] {
        &self.0.hosts
    }

    /// The driver's error behind this one, if it is of type `E`.
    #[must_use]
    pub fn driver_error<E: StdError + 'static>(&self) -> Option<&E> {
        let source: &(dyn StdError + Send + Sync) = self.0.source.as_deref()?;
        source.downcast_ref()
    }

    /// Whether another attempt may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::NoHost | ErrorKind::Timeout)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, phase, pool, access, elapsed, detail, hosts, source: _ } = &*self.0;
        let what = match kind {
            ErrorKind::Closed => "the pool is closed",
            ErrorKind::NoHost => "no host can serve this",
            ErrorKind::NotWritable => "the host takes no writes",
            ErrorKind::Permanent => "permanent error",
            ErrorKind::Refused => "request refused",
            ErrorKind::Timeout => "timed out",
        };
        write!(f, "pool {pool}: {access} checkout: {what} while {} ", phase.as_str())?;
        write!(f, "after {} ms", elapsed.as_millis())?;
        if let Some(detail) = detail {
            write!(f, ": {detail}")?;
        }
        for report in hosts {
            let Counts { idle, in_use, tending, connecting, waiting } = report.counts;
            write!(
                f,
                "; {}: total {}/{} idle {idle} in use {in_use} tending {tending} connecting \
                 {connecting} waiting {waiting}",
                report.host,
                report.counts.total(),
                report.capacity
            )?;
            if let Some(reason) = report.refused {
                write!(f, ", refused: {reason}")?;
            }
            if let Some((cause, age)) = &report.cause {
                write!(
                    f,
                    ", last {} error {} ms ago while {}: {}",
                    cause.verdict,
                    age.as_millis(),
                    cause.phase.as_str(),
                    cause.message
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("phase", &self.0.phase)
            .field("message", &format_args!("{self}"))
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
