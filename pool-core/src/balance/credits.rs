//! The state of smooth weighted round robin: one credit a host.

use crate::balance::Candidate;
use crate::host::HostId;

/// Credits by host id. Sums and weights are at most 10 000 × the number of hosts, so `i64` never overflows.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    slots: Vec<Slot>,
    /// Counts changes of weights or membership. A slot with an older epoch is clamped at its next pick.
    epoch: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    credit: i64,
    weight: u32,
    epoch: u64,
}

impl Credits {
    /// Takes notice of the eligible hosts and returns the sum of their weights.
    ///
    /// A new host starts at 0. If a weight or the membership changed since a host was last eligible, its
    /// credit is cut to ± the new sum: otherwise what it earned or owes under large weights would decide
    /// alone for a long time under small ones. Hosts that are not eligible are not touched.
    pub(super) fn admit(&mut self, hosts: &[Candidate]) -> i64 {
        let mut sum = 0;
        let mut clamp = false;
        for host in hosts {
            sum += i64::from(host.weight);
            let index = host.id.index();
            if index >= self.slots.len() {
                self.grow(index);
            }
            let slot = &mut self.slots[index];
            if slot.weight != host.weight {
                slot.weight = host.weight;
                self.epoch += 1;
            }
            clamp |= slot.epoch != self.epoch;
        }
        if clamp {
            for host in hosts {
                let slot = &mut self.slots[host.id.index()];
                if slot.epoch != self.epoch {
                    slot.epoch = self.epoch;
                    slot.credit = slot.credit.clamp(-sum, sum);
                }
            }
        }
        sum
    }

    /// The credit of a host; 0 if it was never seen.
    pub(super) fn of(&self, id: HostId) -> i64 {
        self.slots.get(id.index()).map_or(0, |slot| slot.credit)
    }

    /// Books a pick: everyone earns its weight, the picked one pays `sum`. All of them were admitted.
    pub(super) fn book(&mut self, hosts: &[Candidate], picked: HostId, sum: i64) {
        for host in hosts {
            if let Some(slot) = self.slots.get_mut(host.id.index()) {
                slot.credit += i64::from(host.weight);
            }
        }
        if let Some(slot) = self.slots.get_mut(picked.index()) {
            slot.credit -= sum;
        }
    }

    /// As [`Credits::book`], and cuts every credit to ± `sum`.
    pub(super) fn book_clamped(&mut self, hosts: &[Candidate], picked: HostId, sum: i64) {
        for host in hosts {
            if let Some(slot) = self.slots.get_mut(host.id.index()) {
                let paid = if host.id == picked { sum } else { 0 };
                slot.credit = (slot.credit + i64::from(host.weight) - paid).clamp(-sum, sum);
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

    #[cold]
    fn grow(&mut self, index: usize) {
        self.slots.resize(index + 1, Slot::default());
    }
}
