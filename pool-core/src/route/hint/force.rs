//! `/*FORCE_MASTER*/`, `/*FORCE_SLAVE*/` and `/*force_node='name'*/`.

use crate::route::hint::comments::may_begin_with_comment;
use crate::route::hint::{Comments, Hint, HintParser, Wish};
use crate::route::lexer::Syntax;

/// The hints of ApsaraDB RDS (`rds-read-weights`, appendix 1), and a node form of the same family.
///
/// `/*FORCE_MASTER*/` sends the next statement to the source, `/*FORCE_SLAVE*/` to a replica,
/// `/*force_node='name'*/` to the host of that name. The comment stands directly before the statement, with
/// nothing but blanks between it and the first word; blanks and other comments may come before it. Any ASCII
/// case; blanks inside the comment do not count. A hint behind the first word, inside a string, another
/// comment or a version comment (`/*! … */`), or at the end of the text is none. With several statements in
/// one text, the hint of the first counts for the whole text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForceHints {
    _private: (),
}

impl ForceHints {
    /// The parser has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl HintParser for ForceHints {
    #[inline]
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        if !may_begin_with_comment(sql) {
            return None;
        }
        let mut comments = Comments::new(sql, syntax);
        while let Some(comment) = comments.next_leading() {
            if !comment.is_block || !comments.statement_follows() {
                continue;
            }
            return wish(comment.text).map(|wish| Hint::new(wish, comment.span));
        }
        None
    }
}

fn wish(text: &str) -> Option<Wish<'_>> {
    if text.eq_ignore_ascii_case("force_master") {
        return Some(Wish::Source);
    }
    if text.eq_ignore_ascii_case("force_slave") {
        return Some(Wish::Replica);
    }
    let (key, value) = text.split_once('=')?;
    let name = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let is_node = key.trim_end().eq_ignore_ascii_case("force_node");
    (is_node && !name.is_empty() && !name.contains('\'')).then_some(Wish::Host(name))
}
