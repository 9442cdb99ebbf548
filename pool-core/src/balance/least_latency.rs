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
        let best = hosts.reduce(|best, host| if is_faster(host, best) { host } else { best })?;
        Some(best.id)
    }
}

/// Whether a host comes before one that stands before it in the list.
#[inline]
fn is_faster(a: &Candidate, b: &Candidate) -> bool {
    match (a.latency, b.latency) {
        (None, None) => by_load(a, b).is_lt(),
        (None, Some(_)) => true,
        (Some(_), None) => false,
        // Cross-multiplied: latency × load per weight.
        (Some(of_a), Some(of_b)) => {
            u128::from(cost(of_a, a.active)) * u128::from(b.weight)
                < u128::from(cost(of_b, b.active)) * u128::from(a.weight)
        }
    }
}

/// Nanoseconds of latency × load. Saturates far beyond any sane value.
#[inline]
fn cost(latency: Duration, active: u32) -> u64 {
    let seconds = latency.as_secs().saturating_mul(1_000_000_000);
    let nanos = seconds.saturating_add(u64::from(latency.subsec_nanos()));
    nanos.saturating_mul(u64::from(active) + 1)
}
