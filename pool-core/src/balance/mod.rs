//! Which of the eligible hosts serves a read.
//!
//! A host passes two gates. [`endpoint`] says which hosts may serve a read at all, and what happens if none
//! may; a [`BalancePolicy`] then picks among those. Policies are pure, keep integers only, and allocate only
//! when they meet a host for the first time.
//!
//! | policy | rule |
//! |---|---|
//! | [`Weighted`] | smooth weighted round robin: exact shares over every cycle |
//! | [`LeastActive`] | fewest active leases per weight; ties by the credits of [`Weighted`] |
//! | [`RoundRobin`] | one after the other, weights ignored |
//! | [`Random`] | weighted random |
//! | [`LeastLatency`] | least recent latency × load, per weight |
//! | [`PowerOfTwoChoices`] | two weighted random hosts, the one with fewer active leases per weight |

mod credits;
pub mod endpoint;
mod least_active;
mod least_latency;
mod peak_ewma;
mod power_of_two;
mod random;
mod round_robin;
mod seed;
#[cfg(test)]
mod tests;
mod weighted;

use std::cmp::Ordering;
use std::fmt::Debug;
use std::time::Duration;

use crate::host::HostId;

pub use self::least_active::LeastActive;
pub use self::least_latency::LeastLatency;
pub use self::peak_ewma::PeakEwma;
pub use self::power_of_two::PowerOfTwoChoices;
pub use self::random::Random;
pub use self::round_robin::RoundRobin;
pub use self::weighted::Weighted;

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
    /// The pick, or `None` if nothing is eligible. A candidate of weight 0 is never picked.
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId>;

    /// What [`BalancePolicy::pick`] would give now, without taking the turn: for explanations. Defaults to
    /// `pick`, so that **a policy whose pick changes its state must override it**.
    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        self.pick(eligible)
    }

    /// Whether it looks at [`Candidate::latency`]. The pool then measures every lease with the precise
    /// clock. Defaults to `false`.
    fn wants_latency(&self) -> bool {
        false
    }

    /// Forgets a host that left the cluster for good. Defaults to nothing.
    ///
    /// A host that is only out for a while must not be forgotten: what is kept for it is frozen until it
    /// is eligible again.
    fn forget(&self, host: HostId) {
        let _ = host;
    }
}

/// The order by active leases per weight: cross-multiplied, so exact.
fn by_load(a: &Candidate, b: &Candidate) -> Ordering {
    let load = |a: &Candidate, b: &Candidate| u64::from(a.active) * u64::from(b.weight);
    load(a, b).cmp(&load(b, a))
}
