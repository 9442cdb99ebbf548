//! State changes that an operator wants to know about.

use std::sync::Arc;

use crate::verdict::Verdict;

/// One change of a pool's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", tag = "event"))]
#[non_exhaustive]
pub enum Event {
    /// The pool is closed; that many leases were still out.
    Closed {
        /// Leases that were not returned before the deadline.
        abandoned: usize,
    },
    /// A host that took writes refuses them now.
    Demoted {
        /// The host.
        host: Arc<str>,
    },
    /// The number of leases of a draining host changed, and is not 0 yet.
    DrainProgress {
        /// The host.
        host: Arc<str>,
        /// Leases still out.
        in_use: usize,
    },
    /// The grace period of a drain is over, and leases are still out.
    DrainTimedOut {
        /// The host.
        host: Arc<str>,
        /// Leases still out.
        in_use: usize,
    },
    /// A draining host has no connection in use any more.
    Drained {
        /// The host.
        host: Arc<str>,
    },
    /// A host takes no new work until it is resumed or removed.
    Draining {
        /// The host.
        host: Arc<str>,
        /// Leases still out.
        in_use: usize,
    },
    /// Writes go to another host.
    Failover {
        /// The host that took them before, if any.
        from: Option<Arc<str>>,
        /// The host that takes them now.
        to: Arc<str>,
    },
    /// A host joined the pool.
    HostAdded {
        /// The host.
        host: Arc<str>,
    },
    /// A host cannot serve and is left out until a probe succeeds.
    HostDown {
        /// The host.
        host: Arc<str>,
        /// What the error says.
        verdict: Verdict,
        /// The error's text.
        message: Arc<str>,
    },
    /// A host left the pool.
    HostRemoved {
        /// The host.
        host: Arc<str>,
    },
    /// A host serves again.
    HostUp {
        /// The host.
        host: Arc<str>,
    },
    /// Connections of leases were ended on the server.
    LeasesEnded {
        /// The host.
        host: Arc<str>,
        /// How many are over: 0 if the driver cannot do that, or the server was not reached.
        ended: usize,
        /// Leases that were out before.
        of: usize,
    },
    /// The pool hands out nothing until it is resumed.
    Paused,
    /// The pool hands out again.
    Resumed,
    /// Writes are back on the first host of the list.
    ReturnedToSource {
        /// The host that took them in between.
        from: Arc<str>,
        /// The source.
        to: Arc<str>,
    },
    /// A second host says that it takes writes. The current one is kept.
    TwoSources {
        /// The host that keeps the writes.
        current: Arc<str>,
        /// The other one.
        other: Arc<str>,
    },
    /// The connections to a host were voided.
    Voided {
        /// The host.
        host: Arc<str>,
        /// Its generation now.
        generation: u64,
    },
    /// A walk over the hosts ended without finding one that takes writes.
    WalkFailed {
        /// How many connects it made.
        attempts: usize,
    },
    /// The read weight of a host changed: it was set, or an automatic one follows what a probe found. What a
    /// change of roles does to automatic weights is told by the events of that change.
    WeightChanged {
        /// The host.
        host: Arc<str>,
        /// The weight now.
        weight: u32,
    },
}
