//! One physical connection, lent out.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::driver::Driver;
use crate::host::Host;
use crate::slots::state::{CloseReason, Slot};
use crate::slots::store::HostSlots;

/// A connection on loan from a pool: one physical connection from checkout to return, never switched.
///
/// Dereferences to the driver's connection. Dropping it gives the connection back: a look at its state, no
/// I/O. A clean one goes to the oldest waiter or on top of the idle stack; one with an open transaction or
/// an unknown state is tidied in the background or closed; it is never handed out as it is.
pub struct Lease<D: Driver> {
    /// Empty only while the lease is being taken apart.
    slot: Option<Box<Slot<D::Conn>>>,
    home: Arc<HostSlots<D>>,
    access: Access,
}

impl<D: Driver> Lease<D> {
    pub(crate) fn new(home: Arc<HostSlots<D>>, slot: Box<Slot<D::Conn>>, access: Access) -> Self {
        Self { slot: Some(slot), home, access }
    }

    /// Takes the connection out of the pool for good. Its place becomes free at once.
    #[must_use]
    pub fn detach(mut self) -> D::Conn {
        let slot = self.slot.take().expect("a lease holds its connection until it is taken apart");
        self.home.forget(CloseReason::Detached);
        slot.conn
    }

    /// As [`Lease::detach`], keeping what another pool's manager needs to judge the connection later.
    #[cfg(any(feature = "bb8", feature = "deadpool"))]
    pub(crate) fn into_managed(mut self) -> crate::interop::Managed<D> {
        let slot = self.slot.take().expect("a lease holds its connection until it is taken apart");
        self.home.forget(CloseReason::Detached);
        crate::interop::Managed::new(slot.conn, Arc::clone(&self.home), slot.generation)
    }

    /// Closes the connection instead of giving it back.
    pub fn discard(mut self) {
        if let Some(slot) = self.slot.take() {
            self.home.put_down(slot, CloseReason::Discarded);
        }
    }

    /// The host that the connection is to.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.home.host
    }

    /// What the lease was asked for.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether the connection's host is known to take writes now.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.home.health.role() == crate::host::Role::Source
    }

    /// Whether the connection's host is known to be a replica now. With static roles the host that takes
    /// writes may be configured as one, so a lease for writes is none.
    pub(crate) fn is_replica(&self) -> bool {
        self.access != Access::Write && self.home.health.role() == crate::host::Role::Replica
    }

    /// How long ago the connection was opened.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.home.clock.now().saturating_sub(self.inner().created)
    }

    /// How long the connection had been idle when this lease began; zero for a new one.
    #[must_use]
    pub fn idle_before(&self) -> Duration {
        let slot = self.inner();
        slot.taken.saturating_sub(slot.idle_since)
    }

    /// How long this lease has been out.
    #[must_use]
    pub fn held(&self) -> Duration {
        self.home.clock.now().saturating_sub(self.inner().taken)
    }

    fn inner(&self) -> &Slot<D::Conn> {
        self.slot.as_ref().expect("a lease holds its connection until it is taken apart")
    }
}

impl<D: Driver> Deref for Lease<D> {
    type Target = D::Conn;

    fn deref(&self) -> &D::Conn {
        &self.inner().conn
    }
}

impl<D: Driver> DerefMut for Lease<D> {
    fn deref_mut(&mut self) -> &mut D::Conn {
        let slot = self.slot.as_mut();
        &mut slot.expect("a lease holds its connection until it is taken apart").conn
    }
}

impl<D: Driver> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.home.give_back(slot);
        }
    }
}

impl<D: Driver> fmt::Debug for Lease<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("host", &self.home.host.name())
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
