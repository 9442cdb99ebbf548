//! Least recent latency.

use std::time::Duration;

use crate::balance::{BalancePolicy, Candidate, Eligible, by_load};
use crate::host::HostId;

/// Least latency × (active leases + 1) per weight; the first in the list if several are equal.
///
/// The latency of a candidate is a [`PeakEwma`](crate::balance::PeakEwma): it jumps up at once, comes down
/// slowly and fades while nothing is measured, so a host that was slow is tried again. A host without any
/// measurement comes before every measured one; among those the least active per weight is first.
#[derive(Debug, Default)]
pub struct LeastLatency {
    _private: (),
}

impl LeastLatency {
    /// The policy has no state of its own.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl BalancePolicy for LeastLatency {
    fn wants_latency(&self) -> bool {
        true
    }

    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        let hosts = eligible.hosts().iter().filter(|host| host.weight > 0);
        let timed = hosts.map(|host| (host, host.latency.map(nanos)));
        timed
            .reduce(|best, host| if is_faster(host, best) { host } else { best })
            .map(|(host, _)| host.id)
    }
}

/// A host and its latency in nanoseconds.
type Timed<'a> = (&'a Candidate, Option<u64>);

/// Whether a host comes before one that stands before it in the list.
#[inline]
fn is_faster((a, of_a): Timed<'_>, (b, of_b): Timed<'_>) -> bool {
    let (Some(of_a), Some(of_b)) = (of_a, of_b) else {
        return of_a.is_none() && (of_b.is_some() || by_load(a, b).is_lt());
    };
    // Latency × load per weight, cross-multiplied: exact, and nothing can overflow.
    let cost = |nanos: u64, a: &Candidate, b: &Candidate| {
        u128::from(nanos) * u128::from((u64::from(a.active) + 1) * u64::from(b.weight))
    };
    cost(of_a, a, b) < cost(of_b, b, a)
}

/// Saturates after 500 years.
#[inline]
fn nanos(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}
