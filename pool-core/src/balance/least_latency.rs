//! Least recent latency.

use crate::balance::{BalancePolicy, Candidate, Eligible, is_idler};
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
        let mut best: Option<&Candidate> = None;
        for host in eligible.hosts().iter().filter(|host| host.weight > 0) {
            if best.is_none_or(|best| is_cheaper(host, best)) {
                best = Some(host);
            }
        }
        best.map(|host| host.id)
    }
}

fn is_cheaper(a: &Candidate, b: &Candidate) -> bool {
    match (a.latency, b.latency) {
        (None, None) => is_idler(a, b),
        (None, Some(_)) => true,
        (Some(_), None) => false,
        (Some(latency_a), Some(latency_b)) => {
            // Nanoseconds of any sane latency × 2³² × 10⁴ stay far below 2¹²⁸.
            let cost = |nanos: u128, host: &Candidate, other: &Candidate| {
                nanos
                    .saturating_mul(u128::from(host.active) + 1)
                    .saturating_mul(u128::from(other.weight))
            };
            cost(latency_a.as_nanos(), a, b) < cost(latency_b.as_nanos(), b, a)
        }
    }
}
