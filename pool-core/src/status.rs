//! A snapshot of a pool, to print or serialise.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::host::Role;

/// How many connections are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be handed out.
    pub idle: usize,
    /// Leased, or on their way to a waiter.
    pub in_use: usize,
    /// In a background check or tidying.
    pub tending: usize,
    /// Being opened.
    pub connecting: usize,
    /// Callers that wait.
    pub waiting: usize,
}

impl Counts {
    /// Connections that exist or are being opened.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.idle + self.in_use + self.tending + self.connecting
    }
}

/// One host at the time of the snapshot.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HostStatus {
    /// The host's name.
    pub name: Arc<str>,
    /// Its role, as probed or configured.
    pub role: Role,
    /// Whether writes go there.
    pub writer: bool,
    /// Its read weight.
    pub weight: u32,
    /// Whether it is kept behind on purpose, which makes its weight 0.
    pub delayed: bool,
    /// Whether it takes no new work.
    pub draining: bool,
    /// How long it is still left out after failures.
    pub blocked_for: Option<Duration>,
    /// Its replication lag, if known.
    pub lag: Option<Duration>,
    /// How often its connections were voided.
    pub generation: u64,
    /// Where its connections are. Exact: taken under one lock.
    pub counts: Counts,
    /// The most connections it may have.
    pub capacity: usize,
    /// The text of the last error seen there.
    pub last_error: Option<Arc<str>>,
    /// How long ago that was.
    pub last_error_age: Option<Duration>,
}

/// A pool at the time of the snapshot. Each host is exact in itself; hosts are read one after the other.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Status {
    /// The pool's name.
    pub name: Arc<str>,
    /// Its hosts, in list order.
    pub hosts: Vec<HostStatus>,
}

impl Status {
    /// The host with this name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&HostStatus> {
        self.hosts.iter().find(|host| &*host.name == name)
    }

    /// The host that takes writes now.
    #[must_use]
    pub fn writer(&self) -> Option<&HostStatus> {
        self.hosts.iter().find(|host| host.writer)
    }

    /// The counts of all hosts together.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.hosts.iter().fold(Counts::default(), |sum, host| Counts {
            idle: sum.idle + host.counts.idle,
            in_use: sum.in_use + host.counts.in_use,
            tending: sum.tending + host.counts.tending,
            connecting: sum.connecting + host.counts.connecting,
            waiting: sum.waiting + host.counts.waiting,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}", self.name)?;
        for host in &self.hosts {
            let Counts { idle, in_use, waiting, .. } = host.counts;
            write!(
                f,
                "; {} {}{} total {}/{} idle {idle} in use {in_use} waiting {waiting}",
                host.name,
                host.role,
                if host.writer { " (writer)" } else { "" },
                host.counts.total(),
                host.capacity
            )?;
        }
        Ok(())
    }
}
