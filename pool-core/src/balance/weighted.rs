//! Smooth weighted round robin.

use std::cmp::Ordering;

use crate::balance::credits::{Bound, Shared};
use crate::balance::{BalancePolicy, Candidate, Eligible};
use crate::host::HostId;

/// Smooth weighted round robin: pick first, then accumulate (`rds-read-weights`, load balancing by weight;
/// section 4 of the routing rules).
///
/// The host with the largest credit is picked, the first in the list if several have it; then every
/// eligible host earns its weight and the picked one pays the sum. Over a cycle (sum of weights / gcd picks)
/// every host is picked exactly weight / gcd times. The credit of a host that is not eligible is frozen; a
/// change of weights or membership keeps credits, cut to ± the new sum.
#[derive(Debug, Default)]
pub struct Weighted {
    credits: Shared,
}

impl Weighted {
    /// Every credit is 0: the first pick is the first host of the list.
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

impl BalancePolicy for Weighted {
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        self.credits.lock().pick(eligible.hosts(), all_equal, Bound::None)
    }

    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        self.credits.lock().peek(eligible.hosts(), all_equal)
    }

    fn forget(&self, host: HostId) {
        self.credits.lock().forget(host);
    }
}

/// The order of the hosts apart from their credits: there is none.
fn all_equal(_: &Candidate, _: &Candidate) -> Ordering {
    Ordering::Equal
}
