//! A connection of ours inside another pool.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Driver, Liveness};
use crate::host::Host;
use crate::slots::store::HostSlots;

/// A connection made by a [`FailoverManager`](super::FailoverManager), with what the manager must know to
/// judge it later. Dereferences to the driver's connection.
pub struct Managed<D: Driver> {
    pub(super) conn: D::Conn,
    pub(super) home: Arc<HostSlots<D>>,
    pub(super) generation: u64,
    /// When it was last given back or checked, on the pool's clock.
    pub(super) heard: Duration,
    /// Set while a check is under way: left set by a check that hung or was cancelled.
    pub(super) in_flight: bool,
    pub(super) discarded: bool,
}

impl<D: Driver> Managed<D> {
    pub(crate) fn new(conn: D::Conn, home: Arc<HostSlots<D>>, generation: u64) -> Self {
        let heard = home.clock.now();
        Self { conn, home, generation, heard, in_flight: false, discarded: false }
    }

    /// The host that the connection is to.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.home.host
    }

    /// Has the connection closed instead of handed out again: for pools without a way to say so.
    pub fn discard(&mut self) {
        self.discarded = true;
    }

    /// Whether it must not be handed out again. Looks at local state only; no I/O.
    #[must_use]
    pub fn is_broken(&mut self) -> bool {
        self.is_void() || self.home.driver.peek(&mut self.conn) == Liveness::Dead
    }

    /// Whether flags alone rule it out: discarded, a check under way, its host failed since it was opened. For a
    /// sweep over idle connections (`deadpool`'s `retain`).
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.discarded
            || self.in_flight
            || self
                .home
                .with_state(|state| state.is_closed() || state.generation() != self.generation)
    }
}

impl<D: Driver> Deref for Managed<D> {
    type Target = D::Conn;

    fn deref(&self) -> &D::Conn {
        &self.conn
    }
}

impl<D: Driver> DerefMut for Managed<D> {
    fn deref_mut(&mut self) -> &mut D::Conn {
        &mut self.conn
    }
}

impl<D: Driver> fmt::Debug for Managed<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed").field("host", &self.home.host.name()).finish_non_exhaustive()
    }
}
