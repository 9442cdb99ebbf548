//! `/* router.access_mode=read_only */`.

use crate::route::hint::comments::may_begin_with_comment;
use crate::route::hint::{Comments, Hint, HintParser, WhilePinned, Wish};
use crate::route::lexer::Syntax;

/// The access mode of MySQL Router, as a comment.
///
/// The product itself takes a query attribute of that name, which is not part of the text and which the
/// driver below does not send; a comment at the start of the statement carries the same three values:
/// `read_write` is the source, `read_only` a replica, `auto` no wish (but the comment is cut out). As in the
/// product, the attribute on a session in a transaction is an error, however the router is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterHints {
    _private: (),
}

impl RouterHints {
    /// The parser has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl HintParser for RouterHints {
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        if !may_begin_with_comment(sql) {
            return None;
        }
        let mut comments = Comments::new(sql, syntax);
        while let Some(comment) = comments.next_leading() {
            let Some((key, value)) = comment.text.split_once('=') else { continue };
            if !key.trim_end().eq_ignore_ascii_case("router.access_mode") {
                continue;
            }
            let value = value.trim().trim_matches('\'');
            let wish = if value.eq_ignore_ascii_case("read_only") {
                Some(Wish::Replica)
            } else if value.eq_ignore_ascii_case("read_write") {
                Some(Wish::Source)
            } else if value.eq_ignore_ascii_case("auto") {
                None
            } else {
                continue;
            };
            return Some(Hint { wish, max_lag: None, span: comment.span, moves_session: false });
        }
        None
    }

    fn while_pinned(&self) -> Option<WhilePinned> {
        Some(WhilePinned::Refuse)
    }
}
