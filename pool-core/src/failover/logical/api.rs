//! What goes into a logical connection and what comes out.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::{GiveUp, Outcome};
use crate::access::AccessMode;
use crate::host::HostId;
use crate::route::Refusal;
use crate::verdict::Verdict;

/// How a logical connection behaves beyond the walk of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Whether each statement is a transaction of its own at the start. Defaults to `true`.
    pub autocommit: bool,
    /// Whether a connection that closed because no host was reachable opens again on its next use,
    /// and statements of an older host stay usable. Defaults to `false`. **Not recommended.**
    pub auto_reconnect: bool,
    /// As `auto_reconnect`, and checks the connection with autocommit off as well. Defaults to
    /// `false`.
    pub auto_reconnect_for_pools: bool,
    /// With automatic reconnection: checks the connection after the end of each transaction instead
    /// of after a failure. Defaults to `false`.
    pub reconnect_at_tx_end: bool,
    /// Whether each statement is routed: reads that nothing binds go to replicas. Otherwise all run on
    /// the one connection of the session. Not the business of this machine, but of who drives it.
    /// Defaults to `true`.
    pub route_statements: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            autocommit: true,
            auto_reconnect: false,
            auto_reconnect_for_pools: false,
            reconnect_at_tx_end: false,
            route_statements: true,
        }
    }
}

/// What the caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// Start a transaction.
    Begin,
    /// Close for good. Never refused.
    Close,
    /// Commit.
    Commit,
    /// Connect, or open again after no host was reachable. Every other call does it as well if
    /// needed.
    Connect,
    /// Run a statement.
    Execute(Statement),
    /// Roll back; acknowledges a lost transaction.
    Rollback,
    /// Switch autocommit on or off. On ends an open transaction with a commit.
    SetAutocommit(bool),
    /// Use this database.
    SetDatabase(Arc<str>),
    /// Use this isolation level.
    SetIsolation(Isolation),
    /// Ask for an access mode (`set_read_only`). Always remembered, applied where the policy
    /// allows.
    SetMode(AccessMode),
}

/// What a statement may do to the transaction it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statement {
    /// It may end the transaction by itself: `COMMIT` sent as text, most DDL, unknown text.
    EndsTransaction,
    /// It stays inside the transaction.
    Plain,
}

/// Transaction isolation levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Isolation {
    /// `READ COMMITTED`
    ReadCommitted,
    /// `READ UNCOMMITTED`
    ReadUncommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
    /// `SNAPSHOT` (SQL Server)
    Snapshot,
}

impl Isolation {
    /// The level as SQL spells it.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::ReadUncommitted => "READ UNCOMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
            Self::Snapshot => "SNAPSHOT",
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Close the physical connection. The call is over.
    Close,
    /// The call is over.
    Done(Result<(), Failure>),
    /// Connect, then report [`Report::Opened`].
    Open(Open),
    /// Run this on the current connection, then report [`Report::Ran`].
    Run(Job),
    /// Do nothing for this long, then report [`Report::Waited`].
    Wait(Duration),
}

/// A physical connect, with everything that makes it ready.
///
/// Once it is open, it replaces the connection of before, which is closed without more ado (the
/// server rolls back); until then that one is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Open {
    /// The host to connect to.
    pub host: HostId,
    /// The longest time that connecting and applying `carry` may take together.
    pub budget: Duration,
    /// The state in which the session starts there.
    pub carry: Carry,
    /// Whether the host must be found writable first: a host that is not fails with
    /// [`Verdict::Demoted`].
    pub check_role: bool,
}

/// The state that follows a session to its new host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carry {
    /// Autocommit, to be set whatever the server's default is.
    pub autocommit: bool,
    /// The current database, if it is not the one of the configuration.
    pub database: Option<Arc<str>>,
    /// The isolation level, if one was set.
    pub isolation: Option<Isolation>,
    /// The access mode on that host.
    pub mode: AccessMode,
}

/// Work for the current connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Job {
    /// Start a transaction.
    Begin,
    /// Commit.
    Commit,
    /// Find out whether the connection is alive.
    Ping,
    /// Roll back.
    Rollback,
    /// Switch autocommit.
    SetAutocommit(bool),
    /// Change the database.
    SetDatabase(Arc<str>),
    /// Change the isolation level.
    SetIsolation(Isolation),
    /// Make the session read-only or not.
    SetMode(AccessMode),
    /// Run the statement of the call.
    Statement,
}

/// What came of a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// Of [`Command::Open`].
    Opened(Outcome),
    /// Of [`Command::Run`].
    Ran(Ran),
    /// Of [`Command::Wait`].
    Waited,
}

/// What came of a [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ran {
    /// The server did it.
    Done {
        /// Whether the server says that a transaction is open now. This sees a `BEGIN` sent as
        /// text.
        in_transaction: bool,
    },
    /// The link is gone, or the server ended it.
    Lost {
        /// Whether the request may have been carried out; `false` only if it certainly never left.
        maybe_executed: bool,
    },
    /// The server refused a write, because it or the session is read-only. Not executed.
    NotWritable,
    /// The server refused it, the connection is as good as before.
    Refused,
}

impl Ran {
    /// What an error of that verdict means; `sent` tells whether any of the request left.
    #[must_use]
    pub const fn failed(verdict: Verdict, sent: bool) -> Self {
        match verdict {
            Verdict::Demoted => Self::NotWritable,
            Verdict::Permanent | Verdict::Statement => Self::Refused,
            Verdict::ConnectionEnded
            | Verdict::ConnectionLost
            | Verdict::HostDown
            | Verdict::Inactive
            | Verdict::Overloaded => Self::Lost { maybe_executed: sent },
        }
    }
}

/// Why a call failed. The error that caused it belongs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The logical connection is closed: by the caller, or because no host was reachable (08003).
    Closed,
    /// The link was lost, or was never there, and no host could be reached.
    FailoverFailed(GiveUp),
    /// The session is held on another host by what was begun there; end that first. Nothing was done.
    HeldBeside,
    /// No connection for a statement that belongs to another host could be had; it did not run, the
    /// session is as it was.
    NoReader,
    /// The host or the session is read-only; the statement did not run.
    NotWritable,
    /// The link was lost and the session is on another host, or on a new connection; **whether the
    /// statement ran, or the transaction was committed, is unknown**.
    OutcomeUnknown,
    /// The link of a routed read was lost; the session is as it was.
    ReadLost,
    /// The router does not send the statement.
    Refused(Refusal),
    /// The prepared statement belongs to a connection of before; prepare it again. It did not run.
    StaleStatement,
    /// The statement failed by itself; the session is as it was.
    Statement,
    /// The link was lost and the session is on another host, or on a new connection; the statement
    /// did not run or was rolled back.
    Switched,
    /// The link was lost inside a transaction, which is rolled back. The session is on another
    /// connection and refuses statements until a rollback acknowledges it.
    TransactionLost,
}

impl Failure {
    /// The name of the variant.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "Closed",
            Self::FailoverFailed(_) => "FailoverFailed",
            Self::HeldBeside => "HeldBeside",
            Self::NoReader => "NoReader",
            Self::NotWritable => "NotWritable",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::ReadLost => "ReadLost",
            Self::Refused(_) => "Refused",
            Self::StaleStatement => "StaleStatement",
            Self::Statement => "Statement",
            Self::Switched => "Switched",
            Self::TransactionLost => "TransactionLost",
        }
    }

    /// Whether the same statement may be sent again without the danger of running it twice.
    #[must_use]
    pub const fn safe_to_retry(self) -> bool {
        matches!(self, Self::NoReader | Self::NotWritable | Self::ReadLost | Self::Switched)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldBeside => {
                "the session is held on another host by what was begun there; end that first"
            }
            Self::NoReader => "no connection for the statement could be had",
            Self::ReadLost => "the link of the read was lost; the session is as it was",
            Self::Refused(refusal) => return refusal.fmt(f),
            Self::Closed => "the logical connection is closed",
            Self::FailoverFailed(GiveUp::Permanent) => {
                "no host could be reached: an error that no other host can cure"
            }
            Self::FailoverFailed(GiveUp::TimedOut) => "no host could be reached in time",
            Self::FailoverFailed(GiveUp::Exhausted) => "no host could be reached",
            Self::NotWritable => "the session is read-only here; the statement did not run",
            Self::OutcomeUnknown => {
                "the link was lost and the session switched; whether the work was done is unknown"
            }
            Self::StaleStatement => "the statement was prepared on a connection that is gone",
            Self::Statement => "the statement failed",
            Self::Switched => "the link was lost and the session switched; the work was not done",
            Self::TransactionLost => "the transaction was lost with its link; roll back to go on",
        })
    }
}

impl Error for Failure {}
