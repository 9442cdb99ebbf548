//! What a server has seen, and waiting until it has seen something.

use std::time::Duration;

use tokio::sync::watch;

/// A snapshot of a server's counters. Every field is exact; all are taken at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// TCP connections accepted.
    pub accepts: u64,
    /// PRELOGIN messages read.
    pub prelogins: u64,
    /// TLS handshakes completed.
    pub tls_handshakes: u64,
    /// Complete logins read, whatever their answer.
    pub logins: u64,
    /// Logins that opened a session. One that was sent on to another server is not among them.
    pub logins_accepted: u64,
    /// Logins answered with the address of another server.
    pub logins_routed: u64,
    /// Logins read that declared `ApplicationIntent=ReadOnly`.
    pub logins_read_intent: u64,
    /// SQL batches.
    pub batches: u64,
    /// RPC requests, `sp_reset_connection` included.
    pub rpcs: u64,
    /// Transaction manager requests.
    pub transaction_requests: u64,
    /// Resets, by request bit or by `sp_reset_connection`.
    pub resets: u64,
    /// Attention signals.
    pub attentions: u64,
    /// Transactions begun, not counting nested ones.
    pub begins: u64,
    /// Outermost commits.
    pub commits: u64,
    /// Rollbacks of a whole transaction that a request or reset asked for.
    pub rollbacks: u64,
    /// Transactions that ended because their connection did.
    pub abandoned_transactions: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// The most connections that were ever open at once.
    pub peak_connections: u64,
}

/// Waiting for a server took longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeout {
    /// The counters when time was up.
    pub counts: Counts,
}

impl std::fmt::Display for WaitTimeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "timed out waiting; the counters are {:?}", self.counts)
    }
}

impl std::error::Error for WaitTimeout {}

/// The counters of one server.
#[derive(Debug)]
pub(crate) struct Counters(watch::Sender<Counts>);

impl Default for Counters {
    fn default() -> Self {
        Self(watch::Sender::new(Counts::default()))
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Counts {
        *self.0.borrow()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Counts)) {
        self.0.send_modify(change);
    }

    /// Sets everything to zero that does not describe the present.
    pub(crate) fn reset(&self) {
        self.update(|counts| {
            *counts = Counts {
                open_connections: counts.open_connections,
                peak_connections: counts.open_connections,
                ..Counts::default()
            };
        });
    }

    pub(crate) async fn wait_for(
        &self,
        within: Duration,
        condition: impl FnMut(&Counts) -> bool,
    ) -> Result<Counts, WaitTimeout> {
        let mut watcher = self.0.subscribe();
        let mut condition = condition;
        // The sender lives as long as `self`, so the inner wait cannot fail.
        let wait = watcher.wait_for(|counts| condition(counts));
        match tokio::time::timeout(within, wait).await {
            Ok(Ok(counts)) => Ok(*counts),
            Ok(Err(_)) | Err(_) => Err(WaitTimeout { counts: self.snapshot() }),
        }
    }
}
