//! Hints: wishes about the route in a comment of the statement (section 3 of the routing rules).
//!
//! A [`HintParser`] finds one; [`StatementRouter`](crate::route::StatementRouter) decides what it is worth.
//! There is one parser for each of the syntaxes that other products have taught their users.

mod aws;
mod comments;
mod force;
mod maxscale;
mod proxysql;
mod router;
#[cfg(test)]
mod tests;
mod vitess;

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use crate::route::lexer::Syntax;

pub use self::aws::AwsHints;
pub use self::comments::{Comment, Comments};
pub use self::force::ForceHints;
pub use self::maxscale::MaxScaleHints;
pub use self::proxysql::{Hostgroup, ProxySqlHints};
pub use self::router::RouterHints;
pub use self::vitess::VitessHints;

/// What a hint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish<'s> {
    /// The host of this name.
    Host(&'s str),
    /// A replica.
    Replica,
    /// The source.
    Source,
    /// Wherever the session was last; the source if it was nowhere.
    Stay,
}

/// A hint found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hint<'s> {
    /// Where the statement shall go; `None` if the hint is about something else.
    pub wish: Option<Wish<'s>>,
    /// The largest lag of a replica for this statement.
    pub max_lag: Option<Duration>,
    /// The bytes to cut out before the statement is sent.
    pub span: Range<usize>,
    /// Whether the hint belongs to a statement that binds the session to its host from now on, and may move
    /// a session that an earlier one of the kind has bound.
    pub moves_session: bool,
}

impl<'s> Hint<'s> {
    /// A hint that asks for one thing.
    #[must_use]
    pub const fn new(wish: Wish<'s>, span: Range<usize>) -> Self {
        Self { wish: Some(wish), max_lag: None, span, moves_session: false }
    }
}

/// What becomes of a hint while the session is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum WhilePinned {
    /// It is ignored, which the route says, and cut out all the same.
    #[default]
    Ignore,
    /// The statement is refused.
    Refuse,
}

/// Finds a hint in a text. Pure; it runs on every statement, so it should look at the first byte first.
pub trait HintParser: Debug + Send + Sync {
    /// The hint of this text, if it has one. What only looks like a hint (in a string, behind the first
    /// keyword if the syntax does not allow that) is `None` and stays in the text.
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>>;

    /// What a hint on a pinned session means in this syntax. Defaults to `None`: as the router is set.
    fn while_pinned(&self) -> Option<WhilePinned> {
        None
    }
}
