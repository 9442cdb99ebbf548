//! Least recent latency.

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
        let mut hosts = eligible.hosts().iter().filter(|host| host.weight > 0);
        let mut best = hosts.next()?;
        let mut best_cost = cost(best);
        for host in hosts {
            let cost = cost(host);
            let comes_first = match (cost, best_cost) {
                (None, None) => by_load(host, best).is_lt(),
                (None, Some(_)) => true,
                (Some(_), None) => false,
                // Per weight, cross-multiplied.
                (Some(cost), Some(best_cost)) => {
                    u128::from(cost) * u128::from(best.weight)
                        < u128::from(best_cost) * u128::from(host.weight)
                }
            };
            if comes_first {
                (best, best_cost) = (host, cost);
            }
        }
        Some(best.id)
    }
}

/// Nanoseconds of latency × load; `None` while nothing was measured. Saturates far beyond any sane value.
#[inline]
fn cost(host: &Candidate) -> Option<u64> {
    let latency = host.latency?;
    let seconds = latency.as_secs().saturating_mul(1_000_000_000);
    let nanos = seconds.saturating_add(u64::from(latency.subsec_nanos()));
    Some(nanos.saturating_mul(u64::from(host.active) + 1))
}
