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
        let mut best: Option<(&Candidate, Option<u64>)> = None;
        for host in eligible.hosts().iter().filter(|host| host.weight > 0) {
            let cost = cost(host);
            let better = match best {
                None => true,
                Some((best, least)) => match (cost, least) {
                    (None, None) => by_load(host, best).is_lt(),
                    (None, Some(_)) => true,
                    (Some(_), None) => false,
                    // Cross-multiplied: cost per weight.
                    (Some(cost), Some(least)) => {
                        u128::from(cost) * u128::from(best.weight)
                            < u128::from(least) * u128::from(host.weight)
                    }
                },
            };
            if better {
                best = Some((host, cost));
            }
        }
        best.map(|(host, _)| host.id)
    }
}

/// Nanoseconds of latency × load; `None` while nothing was measured. Saturates far beyond any sane value.
fn cost(host: &Candidate) -> Option<u64> {
    let latency = host.latency?;
    let nanos = latency
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(latency.subsec_nanos()));
    Some(nanos.saturating_mul(u64::from(host.active) + 1))
}
