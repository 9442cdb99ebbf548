//! The host of one read.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::balance::endpoint::{Choice, EndpointRules, eligible};
use crate::balance::{Candidate, Eligible};
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::host::HostId;
use crate::slots::store::HostSlots;

/// Candidates of one pick. Stays on the stack for clusters of usual size.
type Candidates = SmallVec<[Candidate; 16]>;

impl<D: Driver> Cluster<D> {
    /// The hosts that only lack a slot, if no host lacks nothing.
    pub(super) fn queues(&self, rules: &EndpointRules, tried: &[HostId]) -> Vec<Arc<HostSlots<D>>> {
        let hosts = self.hosts.load();
        let facts = hosts.iter().map(|slots| self.facts(slots, tried.contains(&slots.id())));
        let mut ids = SmallVec::<[HostId; 16]>::new();
        match eligible(facts, rules, |candidate| ids.push(candidate.id)) {
            Choice::WaitForSlot => {
                hosts.iter().filter(|slots| ids.contains(&slots.id())).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Picks the host of one read. Takes no lock but the balance policy's own and allocates nothing for
    /// clusters of up to 16 eligible hosts.
    pub(crate) fn pick(
        &self,
        rules: &EndpointRules,
        tried: &[HostId],
    ) -> Option<Arc<HostSlots<D>>> {
        self.pick_by(rules, tried, |hosts| self.balance.pick(hosts))
    }

    /// The host that [`Cluster::pick`] would give now. The balance policy's turn does not move on.
    pub(crate) fn peek(&self, rules: &EndpointRules) -> Option<Arc<HostSlots<D>>> {
        self.pick_by(rules, &[], |hosts| self.balance.peek(hosts))
    }

    #[inline]
    fn pick_by(
        &self,
        rules: &EndpointRules,
        tried: &[HostId],
        balance: impl FnOnce(&Eligible<'_>) -> Option<HostId>,
    ) -> Option<Arc<HostSlots<D>>> {
        let hosts = self.hosts.load();
        let facts = hosts.iter().map(|slots| self.facts(slots, tried.contains(&slots.id())));
        let mut candidates = Candidates::new();
        let choice = eligible(facts, rules, |candidate| candidates.push(candidate));
        let id = match choice {
            Choice::Nobody => return None,
            Choice::Source(id) => id,
            _ => balance(&Eligible::new(&candidates))?,
        };
        // Ids are places until a host is removed.
        let slots = match hosts.get(id.index()) {
            Some(slots) if slots.id() == id => slots,
            _ => hosts.iter().find(|slots| slots.id() == id)?,
        };
        Some(Arc::clone(slots))
    }
}
