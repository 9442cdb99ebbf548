//! What a server can be told to be, and to do wrong.

use super::sql_error::SqlError;

/// What the server is to its user databases. `master` can always be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A server on its own.
    #[default]
    Standalone,
    /// The principal of a mirrored pair.
    Principal,
    /// The mirror of a mirrored pair: its databases cannot be opened.
    Mirror,
    /// The primary replica of an availability group.
    Primary,
    /// A secondary replica of an availability group: read only.
    Secondary,
}

/// How a login to a database that cannot be opened now is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// 4060 (class 11), then 18456 (class 14).
    #[default]
    CannotOpen,
    /// 954 (class 14), then 18456 (class 14).
    ActingAsMirror,
    /// 952 (class 16), then 18456 (class 14).
    InTransition,
}

/// Which logins a secondary replica takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecondaryAccess {
    /// None: 976.
    No,
    /// Those that declare the read-only intent; the others get 978.
    #[default]
    ReadIntentOnly,
    /// All.
    All,
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing unusual.
    #[default]
    None,
    /// Accepted, then silence: no answer to PRELOGIN.
    HangBeforePrelogin,
    /// PRELOGIN is answered, then silence: no TLS, no login.
    HangAfterPrelogin,
    /// The login is read, then silence.
    HangBeforeLoginReply,
    /// Accepted and reset at once.
    ResetOnAccept,
    /// Accepted and closed at once.
    CloseOnAccept,
    /// Closed after PRELOGIN was answered.
    CloseAfterPrelogin,
    /// Closed instead of an answer to the login.
    CloseAfterLogin,
    /// The answer is damaged.
    Malformed(Malformed),
}

/// A damaged answer, after which the server closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// PRELOGIN is answered in a packet of a type that does not exist.
    WrongPacketType,
    /// The packet that answers PRELOGIN claims to be shorter than its header.
    PacketTooShort,
    /// The packet that answers PRELOGIN claims to be longer than it is.
    PacketTooLong,
    /// PRELOGIN is answered by an empty packet.
    EmptyPrelogin,
    /// The option table of the answer to PRELOGIN does not end.
    NoTerminator,
    /// The login is answered by a message without any token.
    EmptyLoginReply,
    /// The login is answered by a PRELOGIN.
    WrongLoginReply,
    /// The answer to the login holds a token that does not exist.
    UnknownToken,
}

/// The server a login is sent on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host, possibly `HOST\INSTANCE`.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Route {
    /// A route to this host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl Refusal {
    /// The first error of such a login.
    pub(super) fn error(self, database: &str) -> SqlError {
        match self {
            Self::CannotOpen => SqlError::cannot_open_database(database),
            Self::ActingAsMirror => SqlError::acting_as_mirror(database),
            Self::InTransition => SqlError::in_transition(database),
        }
    }
}
