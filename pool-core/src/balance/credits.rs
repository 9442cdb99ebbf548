//! The state of smooth weighted round robin: one credit a host.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::balance::Candidate;
use crate::host::HostId;

/// Credits by host id. Sums and weights are at most 10 000 × the number of hosts, so `i64` never overflows.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    slots: Vec<Slot>,
    /// Counts changes of weights or membership. A slot with an older epoch is clamped at its next pick.
    epoch: u64,
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

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    credit: i64,
    weight: u32,
    epoch: u64,
}

impl Credits {
    /// Picks the host with the largest credit among those that `before` puts first, the first of the list if
    /// several are equal, and books it: everyone earns its weight, the picked one pays the sum. Hosts of
    /// weight 0 are never picked.
    ///
    /// `before` is a strict order of hosts that does not look at credits. `bound` says whether the credits
    /// are cut to ± the sum afterwards. Hosts that are not eligible are not touched.
    #[inline]
    pub(super) fn pick(
        &mut self,
        hosts: &[Candidate],
        before: impl Fn(&Candidate, &Candidate) -> bool,
        bound: Bound,
    ) -> Option<HostId> {
        if !self.knows(hosts) {
            self.admit(hosts);
        }
        let (picked, credit) = choose(hosts, before, |host| self.slots[host.id.index()].credit)?;
        let sum = sum(hosts);
        for host in hosts {
            let slot = &mut self.slots[host.id.index()];
            slot.credit += i64::from(host.weight);
            if bound == Bound::Sum {
                slot.credit = slot.credit.min(sum);
            }
        }
        let paid = credit + i64::from(picked.weight) - sum;
        self.slots[picked.id.index()].credit = match bound {
            Bound::None => paid,
            // Its credit before it paid may have been beyond the bound.
            Bound::Sum => paid.clamp(-sum, sum),
        };
        Some(picked.id)
    }

    /// The host that [`Credits::pick`] would pick.
    pub(super) fn peek(
        &self,
        hosts: &[Candidate],
        before: impl Fn(&Candidate, &Candidate) -> bool,
    ) -> Option<HostId> {
        // The credits after `admit`, which would begin a new epoch if a weight has changed.
        let slot = |host: &Candidate| self.slots.get(host.id.index()).copied().unwrap_or_default();
        let is_change = hosts.iter().any(|host| slot(host).weight != host.weight);
        let sum = sum(hosts);
        let credit = |host: &Candidate| match slot(host) {
            slot if is_change || slot.epoch != self.epoch => slot.credit.clamp(-sum, sum),
            slot => slot.credit,
        };
        choose(hosts, before, credit).map(|(host, _)| host.id)
    }

    /// Whether nothing has changed about these hosts since they were last eligible.
    #[inline]
    fn knows(&self, hosts: &[Candidate]) -> bool {
        hosts.iter().all(|host| {
            let slot = self.slots.get(host.id.index());
            slot.is_some_and(|slot| slot.weight == host.weight && slot.epoch == self.epoch)
        })
    }

    /// Takes notice of new hosts and new weights.
    ///
    /// A new host starts at 0. If a weight or the membership changed since a host was last eligible, its
    /// credit is cut to ± the new sum: otherwise what it earned or owes under large weights would decide
    /// alone for a long time under small ones.
    #[cold]
    fn admit(&mut self, hosts: &[Candidate]) {
        for host in hosts {
            let index = host.id.index();
            if index >= self.slots.len() {
                self.slots.resize(index + 1, Slot::default());
            }
            let slot = &mut self.slots[index];
            if slot.weight != host.weight {
                slot.weight = host.weight;
                self.epoch += 1;
            }
        }
        let sum = sum(hosts);
        for host in hosts {
            let slot = &mut self.slots[host.id.index()];
            if slot.epoch != self.epoch {
                slot.epoch = self.epoch;
                slot.credit = slot.credit.clamp(-sum, sum);
            }
        }
    }

    /// Drops the credit of a host that left, which is a change of membership.
    pub(super) fn forget(&mut self, id: HostId) {
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = Slot::default();
            self.epoch += 1;
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

/// The host of the largest credit among those that `before` puts first, with its credit.
#[inline]
fn choose(
    hosts: &[Candidate],
    before: impl Fn(&Candidate, &Candidate) -> bool,
    credit: impl Fn(&Candidate) -> i64,
) -> Option<(&Candidate, i64)> {
    let mut best: Option<(&Candidate, i64)> = None;
    for host in hosts.iter().filter(|host| host.weight > 0) {
        let credit = credit(host);
        let better = best
            .is_none_or(|(best, most)| before(host, best) || credit > most && !before(best, host));
        if better {
            best = Some((host, credit));
        }
    }
    best
}

fn sum(hosts: &[Candidate]) -> i64 {
    hosts.iter().map(|host| i64::from(host.weight)).sum()
}
