//! SQL → what the statement needs.
//!
//! Opt in: only the statement facade looks at SQL. [`StatementRouter`] reads a statement once, without
//! allocating, and answers where it belongs, why, what the server gets, and what it does to the session.
//! [`PinState`] keeps what earlier statements did and says when the session must stay on its connection.
//! Whatever is not known for certain to be a plain read goes to the source.
//!
//! A hint in a comment at the start of a statement comes before every other rule except an open
//! transaction or another pin. So **text from users at the start of a statement can carry a hint**; switch
//! hints off with [`StatementRouter::without_hints`] where that matters.

mod classify;
mod cursor;
mod effect;
mod functions;
pub mod hint;
pub mod lexer;
mod mysql;
mod pins;
mod scan;
mod state;
#[cfg(test)]
mod state_tests;
mod statement;
#[cfg(test)]
mod tests;
mod tsql;
mod why;
mod words;

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

pub use self::effect::{Change, Changes, Effect, Needs};
pub use self::pins::{Pin, Pins, Place, SessionState};
pub use self::state::{Answer, PinState, ServerFlags};
pub use self::statement::StatementRouter;
pub use self::why::{Kind, Refusal, Why};

/// The SQL dialect of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Dialect {
    /// MySQL and MariaDB.
    #[default]
    MySql,
    /// SQL Server (T-SQL).
    #[cfg_attr(feature = "serde", serde(rename = "mssql"))]
    TSql,
}

/// Where a statement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target<'s> {
    /// The connection that the session holds: it is pinned there.
    Held,
    /// The host of this name. One that is unknown, drained or of weight 0 is an error.
    Host(&'s str),
    /// Nowhere: the statement is not sent.
    Refused(Refusal),
    /// Any eligible replica (or the source, as the endpoint's rules say).
    Replica,
    /// The current source.
    Source,
}

/// What became of a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum HintFate {
    /// It was followed: it decided the target, or set a limit for the lag.
    Applied,
    /// It was recognised, but the session is pinned. Worth counting.
    Ignored,
    /// There was none, or hints are off.
    #[default]
    None,
}

/// The whole decision about one statement.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Route<'s> {
    /// Where it goes.
    pub target: Target<'s>,
    /// Why it goes there.
    pub why: Why,
    /// What the statement is, whatever decided the target.
    pub kind: Kind,
    /// The text for the server: the statement without its hint. Borrowed unless a hint was cut out of
    /// its middle.
    pub sent: Cow<'s, str>,
    /// What it does to the session. Feed it to a [`PinState`].
    pub effect: Effect,
    /// What became of its hint.
    pub hint: HintFate,
    /// A lag limit from the hint, for this statement only.
    pub max_lag: Option<Duration>,
    /// What the session is bound by once the statement has succeeded; for a statement that asks for a value
    /// of an earlier one, what binds it.
    pub pin: Option<Pin>,
}

impl<'s> Route<'s> {
    /// A statement that is sent as it is and has no effect on the session.
    #[must_use]
    pub fn new(target: Target<'s>, kind: Kind, sql: &'s str) -> Self {
        Self {
            target,
            why: Why::Kind(kind),
            kind,
            sent: Cow::Borrowed(sql),
            effect: Effect::default(),
            hint: HintFate::None,
            max_lag: None,
            pin: None,
        }
    }

    /// Whether a hint decided the target.
    #[must_use]
    pub fn is_hinted(&self) -> bool {
        self.why == Why::Hint
    }

    /// Whether the statement may be sent a second time after a failure that delivered nothing: a plain read
    /// in autocommit mode, outside every pin.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        let is_free = !matches!(self.target, Target::Held | Target::Refused(_));
        is_free && self.kind.is_read() && self.pin.is_none()
    }
}

/// SQL → target. Pure.
pub trait RoutePolicy: Debug + Send + Sync {
    /// Routes one text, which may hold several statements. Never panics and takes time linear in the length
    /// of the text.
    fn route<'s>(&'s self, sql: &'s str, session: &SessionState) -> Route<'s>;
}
