//! What a logical connection can be asked about itself.

use std::time::Duration;

use super::api::Isolation;
use super::machine::{Closed, Link, Logical};
use crate::access::AccessMode;
use crate::host::HostId;

impl Logical {
    /// The host of the current connection; `None` without one.
    #[must_use]
    pub fn host(&self) -> Option<HostId> {
        self.current.filter(|_| self.link == Link::Up && self.closed == Closed::No)
    }

    /// The access mode on the current host, or the last one; `None` before the first connect.
    #[must_use]
    pub fn mode(&self) -> Option<AccessMode> {
        self.mode
    }

    /// The last explicit wish for an access mode.
    #[must_use]
    pub fn asked_mode(&self) -> Option<AccessMode> {
        self.asked
    }

    /// Whether each statement is a transaction of its own. Readable after closing as well.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        self.autocommit
    }

    /// The current database if the session changed it. Readable after closing as well.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The isolation level if the session set one. Readable after closing as well.
    #[must_use]
    pub fn isolation(&self) -> Option<Isolation> {
        self.isolation
    }

    /// Grows with each physical connection, so that statements of an older one can be told apart.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether a statement prepared on an older physical connection is to be prepared again
    /// silently (automatic reconnection) instead of being refused.
    #[must_use]
    pub fn keeps_statements(&self) -> bool {
        self.reconnects()
    }

    /// Whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Whether statements are refused until a rollback acknowledges that the transaction is gone.
    #[must_use]
    pub fn transaction_lost(&self) -> bool {
        self.transaction_lost
    }

    /// Whether it is closed, by the caller or because no host was reachable.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed != Closed::No
    }

    /// Statements that secondaries served since the source was left.
    #[must_use]
    pub fn statements_on_secondaries(&self) -> u64 {
        if self.on_secondary() { self.statements } else { 0 }
    }

    /// Whether a return to the source is due.
    #[must_use]
    pub fn return_due(&self, now: Duration) -> bool {
        self.on_secondary()
            && self
                .policy
                .return_rule()
                .is_some_and(|rule| rule.due(now.saturating_sub(self.left_at), self.statements))
    }
}
