//! A place in a host's counts for a connection that is dialled on somebody's behalf: a walk, a session.

use std::sync::Arc;

use crate::driver::Driver;
use crate::slots::state::Slot;
use crate::slots::store::HostSlots;

/// A reserved place. Dropped unused, it becomes free again.
pub(crate) struct Reserved<D: Driver> {
    /// Empty once the place is used.
    slots: Option<Arc<HostSlots<D>>>,
}

impl<D: Driver> Reserved<D> {
    /// Reserves a place. `None`: the host is full, or takes no work.
    pub(crate) fn take(slots: &Arc<HostSlots<D>>) -> Option<Self> {
        let reserved = slots.with_state(|state| state.reserve());
        reserved.then(|| Self { slots: Some(Arc::clone(slots)) })
    }

    /// The connection is there, and belongs to the oldest waiter or the idle stack. It counts as opened now:
    /// what voided the host while it was dialled does not concern it.
    pub(crate) fn fill(mut self, mut slot: Box<Slot<D::Conn>>) {
        let Some(slots) = self.slots.take() else { return };
        let now = slots.clock.now();
        slots.update(|state| {
            slot.restamp(state.generation());
            state.connected(now, slot)
        });
    }

    /// The connection is there, and its lease goes to whoever dialled it.
    pub(crate) fn claim(mut self) {
        if let Some(slots) = self.slots.take() {
            slots.claim();
        }
    }
}

impl<D: Driver> Drop for Reserved<D> {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            let now = slots.clock.now();
            slots.update(|state| state.unreserve(now));
        }
    }
}
