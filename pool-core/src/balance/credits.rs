//! The state of smooth weighted round robin: one credit a host.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::balance::Candidate;
use crate::host::HostId;

/// Credits by host id. Sums and weights are at most 10 000 × the number of hosts, so `i64` never overflows.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    slots: Vec<Slot>,
}

/// Credits behind a lock.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Credits>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Credits> {
        // A panic inside leaves credits that are at worst unfair, never invalid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether credits are cut at every pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// They are not: what hosts earn and pay keeps them in bounds.
    None,
    /// To ± the sum of the eligible weights.
    Sum,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    credit: i64,
    /// The weight when the host was last eligible; 0 before.
    weight: u32,
    /// The same if the credit is good for it, [`DOUBTED`] if it must be cut first: weights or the membership
    /// changed.
    good_for: u32,
}

/// No weight.
const DOUBTED: u32 = u32::MAX;

impl Default for Slot {
    fn default() -> Self {
        Self { credit: 0, weight: 0, good_for: DOUBTED }
    }
}

impl Credits {
    /// Picks the host that `order` puts first, of several equals the one with the largest credit, of these the
    /// first of the list, and books it: everyone earns its weight, the picked one pays the sum. Hosts of
    /// weight 0 are never picked.
    ///
    /// `order` does not look at credits. `bound` says whether the credits are cut to ± the sum afterwards.
    /// Hosts that are not eligible are not touched.
    #[inline]
    pub(super) fn pick(
        &mut self,
        hosts: &[Candidate],
        order: impl Fn(&Candidate, &Candidate) -> Ordering,
        bound: Bound,
    ) -> Option<HostId> {
        let sum = match self.sum_if_good(hosts) {
            Some(sum) => sum,
            None => self.admit(hosts),
        };
        let (least, most) = match bound {
            Bound::None => (i64::MIN, i64::MAX),
            Bound::Sum => (-sum, sum),
        };
        // Not `clamp`, which would check the bounds for every host.
        let cut = |credit: i64| credit.max(least).min(most);
        let slots = self.slots.as_mut_slice();
        let (picked, credit) = choose(hosts, order, |host| {
            let credit = &mut slots[host.id.index()].credit;
            let before = *credit;
            *credit = cut(before + i64::from(host.weight));
            before
        })?;
        // From the credit before the cut, which may have been beyond the bound.
        let paid = credit + i64::from(picked.weight) - sum;
        slots[picked.id.index()].credit = cut(paid);
        Some(picked.id)
    }

    /// The host that [`Credits::pick`] would pick.
    pub(super) fn peek(
        &self,
        hosts: &[Candidate],
        order: impl Fn(&Candidate, &Candidate) -> Ordering,
    ) -> Option<HostId> {
        // The credits as `admit` would leave them.
        let slot = |host: &Candidate| self.slots.get(host.id.index()).copied().unwrap_or_default();
        let is_change = hosts.iter().any(|host| slot(host).weight != host.weight);
        let sum = sum(hosts);
        let credit = |host: &Candidate| match slot(host) {
            Slot { credit, good_for, .. } if !is_change && good_for == host.weight => credit,
            Slot { credit, .. } => credit.clamp(-sum, sum),
        };
        choose(hosts, order, credit).map(|(host, _)| host.id)
    }

    /// The sum of the weights, unless something has changed about these hosts since they were last eligible.
    #[inline]
    fn sum_if_good(&self, hosts: &[Candidate]) -> Option<i64> {
        let mut sum = 0;
        for host in hosts {
            if self.slots.get(host.id.index())?.good_for != host.weight {
                return None;
            }
            sum += i64::from(host.weight);
        }
        Some(sum)
    }

    /// Takes notice of new hosts and new weights; returns the sum of the weights.
    ///
    /// A new host starts at 0. If a weight or the membership changed since a host was last eligible, its
    /// credit is cut to ± the new sum: otherwise what it earned or owes under large weights would decide
    /// alone for a long time under small ones.
    #[cold]
    fn admit(&mut self, hosts: &[Candidate]) -> i64 {
        let mut is_change = false;
        for host in hosts {
            let index = host.id.index();
            if index >= self.slots.len() {
                self.slots.resize(index + 1, Slot::default());
            }
            is_change |= self.slots[index].weight != host.weight;
            self.slots[index].weight = host.weight;
        }
        if is_change {
            self.doubt_all();
        }
        let sum = sum(hosts);
        for host in hosts {
            let slot = &mut self.slots[host.id.index()];
            if slot.good_for != host.weight {
                slot.good_for = host.weight;
                slot.credit = slot.credit.clamp(-sum, sum);
            }
        }
        sum
    }

    fn doubt_all(&mut self) {
        for slot in &mut self.slots {
            slot.good_for = DOUBTED;
        }
    }

    /// Drops the credit of a host that left, which is a change of membership.
    pub(super) fn forget(&mut self, id: HostId) {
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = Slot::default();
            self.doubt_all();
        }
    }

    /// Every host that has been eligible, with its credit.
    pub(super) fn list(&self) -> Vec<(HostId, i64)> {
        (0_u32..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.weight > 0)
            .map(|(index, slot)| (HostId::new(index), slot.credit))
            .collect()
    }
}

/// The host that `order` puts first, of several equals the one with the largest credit, with its credit.
#[inline]
fn choose(
    hosts: &[Candidate],
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    mut credit: impl FnMut(&Candidate) -> i64,
) -> Option<(&Candidate, i64)> {
    let mut hosts = hosts.iter().filter(|host| host.weight > 0);
    let mut best = hosts.next()?;
    let mut most = credit(best);
    for host in hosts {
        let credit = credit(host);
        let order = order(host, best);
        let is_better = order.is_lt() || credit > most && order.is_eq();
        if is_better {
            (best, most) = (host, credit);
        }
    }
    Some((best, most))
}

fn sum(hosts: &[Candidate]) -> i64 {
    hosts.iter().map(|host| i64::from(host.weight)).sum()
}
