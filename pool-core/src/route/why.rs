//! The words for what a statement is and why it goes where it goes.

use std::fmt;

use crate::route::Pin;

/// What a text is, as the classifier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Kind {
    /// `CALL`, `EXEC`: nothing is known about what it does.
    Call,
    /// Creates, alters or drops something.
    Ddl,
    /// Nothing but blanks and comments.
    Empty,
    /// `EXPLAIN` of a read.
    Explain,
    /// A read that calls a function not known to be free of side effects.
    Function,
    /// A read that writes its result somewhere: a file, a variable, a table.
    Into,
    /// Takes or releases a named lock, table locks or the global read lock.
    Lock,
    /// A read with a lock clause or a locking table hint.
    LockingRead,
    /// Several statements in one text.
    MultiStatement,
    /// Concerns one certain node: `KILL`, `SHOW PROCESSLIST`.
    NodeSpecific,
    /// `PREPARE`, `EXECUTE`, `DEALLOCATE` as SQL.
    Prepare,
    /// A block, a condition, a declaration and the like.
    Procedural,
    /// A plain read.
    Select,
    /// `NEXTVAL` and other sequence calls.
    Sequence,
    /// `SET` of something of the session, `USE`.
    Session,
    /// `SET GLOBAL`, `SET PERSIST` and other settings of the server.
    Server,
    /// Asks for a value that an earlier statement left on its connection.
    SessionValue,
    /// `SHOW` and its kin: the answer depends on the node.
    Show,
    /// Creates or drops a temporary table.
    TemporaryTable,
    /// Begins, ends or marks a transaction.
    Transaction,
    /// `START TRANSACTION READ ONLY`.
    ReadOnlyTransaction,
    /// Not recognised, or not well formed.
    Unknown,
    /// Uses a user variable.
    UserVariable,
    /// Changes data.
    Write,
}

impl Kind {
    /// Whether it is certain to be a plain read, which any replica can serve.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Select | Self::Explain)
    }

    /// Whether it may change data. Unknown statements may.
    #[must_use]
    pub const fn may_write(self) -> bool {
        !matches!(
            self,
            Self::Empty
                | Self::Explain
                | Self::ReadOnlyTransaction
                | Self::Select
                | Self::Session
                | Self::Show
        )
    }

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Ddl => "ddl",
            Self::Empty => "empty",
            Self::Explain => "explain",
            Self::Function => "function",
            Self::Into => "into",
            Self::Lock => "lock",
            Self::LockingRead => "locking-read",
            Self::MultiStatement => "multi-statement",
            Self::NodeSpecific => "node-specific",
            Self::Prepare => "prepare",
            Self::Procedural => "procedural",
            Self::ReadOnlyTransaction => "read-only-transaction",
            Self::Select => "select",
            Self::Sequence => "sequence",
            Self::Server => "server-setting",
            Self::Session => "session-setting",
            Self::SessionValue => "session-value",
            Self::Show => "show",
            Self::TemporaryTable => "temporary-table",
            Self::Transaction => "transaction",
            Self::Unknown => "unknown",
            Self::UserVariable => "user-variable",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a statement is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Refusal {
    /// A hint on `SET`: the setting would apply to one connection that nobody knows.
    HintOnSet,
    /// A hint while the session is pinned, and the router was told to refuse that.
    HintWhilePinned,
    /// The statement concerns one certain node and none was named.
    NeedsHost,
}

impl Refusal {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HintOnSet => "hint-on-set",
            Self::HintWhilePinned => "hint-while-pinned",
            Self::NeedsHost => "needs-host",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HintOnSet => "a routing hint on SET is not allowed",
            Self::HintWhilePinned => {
                "a routing hint is not allowed in a transaction or on a pinned session"
            }
            Self::NeedsHost => {
                "the statement concerns one node: name it with a hint or a host lease"
            }
        })
    }
}

impl std::error::Error for Refusal {}

/// Why a statement goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// A hint asked for it.
    Hint,
    /// What the statement is.
    Kind(Kind),
    /// The session is pinned by this.
    Pinned(Pin),
    /// It is not sent.
    Refused(Refusal),
}

impl Why {
    /// The stable word, also the label of the metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Kind(kind) => kind.as_str(),
            Self::Pinned(pin) => pin.as_str(),
            Self::Refused(refusal) => refusal.as_str(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
