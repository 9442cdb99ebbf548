//! Which of the eligible hosts serves a read.

use std::fmt::Debug;
use std::time::Duration;

use crate::host::HostId;

/// One eligible host as a balance policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The host.
    pub id: HostId,
    /// Its read weight, 1 to 10 000: hosts of weight 0 are never eligible.
    pub weight: u32,
    /// Leases granted and not yet returned.
    pub active: u32,
    /// Smoothed time of recent work there (peak EWMA); `None` while nothing was measured.
    pub latency: Option<Duration>,
}

/// The hosts that may serve a read, in list order. May be empty.
#[derive(Clone, Copy, Debug)]
pub struct Eligible<'a> {
    hosts: &'a [Candidate],
}

impl<'a> Eligible<'a> {
    /// The eligible hosts, in list order.
    #[must_use]
    pub const fn new(hosts: &'a [Candidate]) -> Self {
        Self { hosts }
    }

    /// The hosts, in list order.
    #[must_use]
    pub const fn hosts(&self) -> &'a [Candidate] {
        self.hosts
    }
}

/// Picks the host of one read. Pure: no clock, no I/O; allocation-free once it knows its hosts.
pub trait BalancePolicy: Debug + Send + Sync {
    /// The pick, or `None` if nothing is eligible.
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId>;
}
