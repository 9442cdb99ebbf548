//! The server sessions behind the connections of one host, to end the leased ones from elsewhere.
//!
//! Written once per connect. Checkout and return do not touch it: what is idle, or in the hands of the pool
//! itself, is told apart when somebody asks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::driver::{Driver, ServerSession};
use crate::slots::caught::caught;
use crate::slots::state::{Session, Slot};
use crate::slots::store::HostSlots;

/// The sessions of the connections that exist, and of some that are gone.
#[derive(Debug, Default)]
pub(super) struct Roster(Mutex<Vec<Weak<Session>>>);

impl Roster {
    fn enter(&self, session: &Arc<Session>) {
        let mut entries = self.0.lock();
        if entries.len() == entries.capacity() {
            // Before it grows: what is gone makes room.
            entries.retain(|entry| entry.strong_count() > 0);
        }
        entries.push(Arc::downgrade(session));
    }

    fn all(&self) -> Vec<Weak<Session>> {
        self.0.lock().clone()
    }
}

impl<D: Driver> HostSlots<D> {
    /// Notes a new connection, if the driver can end it from elsewhere.
    pub(super) fn enlist(&self, slot: &mut Slot<D::Conn>) {
        if let Some(id) = self.driver.session_id(&slot.conn) {
            let tended = AtomicBool::new(false);
            let session = Arc::new(Session { id, opened: slot.created, tended });
            self.roster.enter(&session);
            slot.session = Some(session);
        }
    }

    /// Ends the connections of all leases on the server, by `deadline`; how many are over. Nothing that
    /// exists now is handed out again.
    ///
    /// Cancellation safety: some of them may have been ended.
    pub(crate) async fn end_leases(&self, deadline: Instant) -> usize {
        let now = self.clock.now();
        let mut entries = Vec::new();
        // Both at once, so that a connection is on the list, or newer and spared. What is idle is being
        // closed, and marked so, when this returns.
        self.update(|state| {
            entries = self.roster.all();
            state.void(now)
        });
        let sessions: Vec<ServerSession> = entries
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|session| !session.tended.load(Relaxed))
            .map(|session| ServerSession {
                id: session.id,
                age: now.saturating_sub(session.opened),
            })
            .collect();
        if sessions.is_empty() {
            return 0;
        }
        let ended = caught(self.driver.end_sessions(&self.host, &sessions, deadline));
        let why: &dyn std::fmt::Display = match &timeout_at(deadline, ended).await {
            Ok(Ok(Ok(ended))) => return *ended,
            Ok(Ok(Err(error))) => &error.to_string(),
            Ok(Err(_)) => &"the driver panicked",
            Err(_) => &"no answer in time",
        };
        tracing::warn!(pool = %self.config.name, host = %self.host, "leases were not ended: {why}");
        0
    }
}
