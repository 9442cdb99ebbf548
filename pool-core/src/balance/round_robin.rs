//! Plain round robin.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::balance::{BalancePolicy, Eligible};
use crate::host::HostId;

/// One host after the other, in list order; weights are ignored (but weight 0 is never picked).
///
/// It remembers the host picked last, not a count: when a host drops out or comes back, the turn goes on
/// with the next one of the list and nobody is skipped.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// Id of the host picked last, plus one; 0 before the first pick.
    last: AtomicU64,
}

impl RoundRobin {
    /// The first pick is the first host of the list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl BalancePolicy for RoundRobin {
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let picked = after(last, eligible)?;
            let next = picked.index() as u64 + 1;
            match self.last.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(picked),
                Err(seen) => last = seen,
            }
        }
    }

    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        after(self.last.load(Ordering::Relaxed), eligible)
    }
}

/// The first host of the list whose id is beyond `last` (id + 1), else the first of all.
fn after(last: u64, eligible: &Eligible<'_>) -> Option<HostId> {
    let mut first = None;
    for host in eligible.hosts().iter().filter(|host| host.weight > 0) {
        if host.id.index() as u64 >= last {
            return Some(host.id);
        }
        first = first.or(Some(host.id));
    }
    first
}
