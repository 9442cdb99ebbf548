//! Least active per weight.

use crate::balance::credits::{Bound, Shared};
use crate::balance::{BalancePolicy, Eligible, by_load};
use crate::host::HostId;

/// Fewest active leases per weight (`rds-read-weights`, load balancing by active requests; section 5 of the
/// routing rules).
///
/// Several hosts often share the least value, all of them on an idle system. The tie goes to the largest
/// credit of smooth weighted round robin, kept on every pick and cut to ± the sum of the eligible weights:
/// this keeps the configured shares for sequential reads. Without the cut, credits drift while the load
/// decides and one host would get every read afterwards.
#[derive(Debug, Default)]
pub struct LeastActive {
    credits: Shared,
}

impl LeastActive {
    /// Every credit is 0: a tie at the first pick goes to the first host of the list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The credit of every host that has been eligible, before the next pick.
    #[must_use]
    pub fn credits(&self) -> Vec<(HostId, i64)> {
        self.credits.lock().list()
    }
}

impl BalancePolicy for LeastActive {
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        self.credits.lock().pick(eligible.hosts(), by_load, Bound::Sum)
    }

    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        self.credits.lock().peek(eligible.hosts(), by_load)
    }

    fn forget(&self, host: HostId) {
        self.credits.lock().forget(host);
    }
}
