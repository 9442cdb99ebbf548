//! What a host has seen, and the log of statements.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a host has seen since the cluster started. Each number is exact; a set of them is
        /// read one after the other.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(super) struct Counts { $(pub(super) $name: AtomicU64,)* }

        impl Counts {
            pub(super) fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Acquire),)* }
            }
        }
    };
}

counters! {
    /// Connections accepted, whatever became of them.
    accepts,
    /// Logins refused: wrong password, unknown database, too many connections.
    rejected_logins,
    /// Logins that succeeded.
    logins,
    /// Connections open now, those that have not logged in included.
    open,
    /// Pings.
    pings,
    /// Connection resets and changes of user.
    resets,
    /// Statements received: each part of a multi-statement query, and each execution of a prepared
    /// one.
    statements,
    /// Executions of prepared statements, also part of `statements`.
    executions,
    /// Statements prepared.
    prepares,
    /// Prepared statements closed.
    closes,
    /// COMMIT statements.
    commits,
    /// ROLLBACK statements, those to a savepoint left out.
    rollbacks,
    /// Orderly goodbyes of clients.
    quits,
    /// Connections ended by KILL or by a switch.
    kills,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::AcqRel);
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It failed with this error number.
    Failed(u16),
    /// It was executed. Whether the client heard of it is another question.
    Ran,
    /// It has not ended, or its connection ended first.
    Running,
}

/// One statement in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedStatement {
    /// When it arrived.
    pub at: Instant,
    /// The id of its connection, unique in the cluster.
    pub connection: u32,
    /// The host that received it.
    pub host: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it came as a prepared statement.
    pub prepared: bool,
    /// Its text, as received.
    pub text: String,
}

/// The log of all hosts, off until asked for.
#[derive(Debug, Default)]
pub(super) struct StatementLog {
    on: AtomicBool,
    entries: Mutex<Vec<LoggedStatement>>,
}

impl StatementLog {
    pub(super) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Release);
    }

    pub(super) fn add(
        &self,
        host: usize,
        connection: u32,
        text: &str,
        prepared: bool,
    ) -> Option<usize> {
        if !self.on.load(Ordering::Acquire) {
            return None;
        }
        let mut entries = self.entries.lock();
        entries.push(LoggedStatement {
            at: Instant::now(),
            connection,
            host,
            outcome: Outcome::Running,
            prepared,
            text: text.to_owned(),
        });
        Some(entries.len() - 1)
    }

    pub(super) fn finish(&self, entry: Option<usize>, outcome: Outcome) {
        if let Some(entry) = entry
            && let Some(entry) = self.entries.lock().get_mut(entry)
        {
            entry.outcome = outcome;
        }
    }

    pub(super) fn entries(&self) -> Vec<LoggedStatement> {
        self.entries.lock().clone()
    }
}
