//! `/*@reader*/`, `/*@writer*/` and `/*@keep*/`.

use crate::route::hint::comments::may_begin_with_comment;
use crate::route::hint::{Comments, Hint, HintParser, Wish};
use crate::route::lexer::Syntax;

/// The hints of the AWS Advanced JDBC Wrapper: at the start of the text, in any case, removed before the
/// statement is sent. `keep` stays where the session is.
#[derive(Clone, Copy, Debug, Default)]
pub struct AwsHints {
    _private: (),
}

impl AwsHints {
    /// The parser has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl HintParser for AwsHints {
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        if !may_begin_with_comment(sql) {
            return None;
        }
        let mut comments = Comments::new(sql, syntax);
        while let Some(comment) = comments.next_leading() {
            let name = if comment.is_block { comment.text.strip_prefix('@') } else { None };
            let wish = match name {
                Some(name) if name.eq_ignore_ascii_case("reader") => Some(Wish::Replica),
                Some(name) if name.eq_ignore_ascii_case("writer") => Some(Wish::Source),
                Some(name) if name.eq_ignore_ascii_case("keep") => Some(Wish::Stay),
                _ => None,
            };
            if let Some(wish) = wish {
                return Some(Hint::new(wish, comment.span));
            }
        }
        None
    }
}
