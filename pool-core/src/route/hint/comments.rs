//! The comments of a text, for hint parsers.

use std::ops::Range;

use crate::route::lexer::{Lexer, Syntax, TokenKind};

/// A comment that is not code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comment<'s> {
    /// What it says, without its marks and the blanks around it.
    pub text: &'s str,
    /// Where it stands, marks included; of a comment to the end of the line without that end.
    pub span: Range<usize>,
    /// Whether only blanks and comments come before it.
    pub is_leading: bool,
    /// Whether it is enclosed in `/*` and `*/`.
    pub is_block: bool,
}

/// Reads the comments of a text, in order.
#[derive(Clone, Debug)]
pub struct Comments<'s> {
    lexer: Lexer<'s>,
    is_leading: bool,
}

impl<'s> Comments<'s> {
    /// All comments of a text. Linear in its length over all calls of `next`.
    #[must_use]
    pub fn new(sql: &'s str, syntax: Syntax) -> Self {
        Self { lexer: Lexer::new(sql, syntax), is_leading: true }
    }

    /// The next comment before any code; `None` once code has begun.
    pub fn next_leading(&mut self) -> Option<Comment<'s>> {
        self.next().filter(|comment| comment.is_leading)
    }

    /// Whether the statement begins directly behind the last comment, with nothing but blanks between.
    /// Call it before the next comment is read.
    #[must_use]
    pub fn statement_follows(&self) -> bool {
        let next = self.lexer.clone().next_with_comments();
        !matches!(
            next.kind,
            TokenKind::Comment | TokenKind::End | TokenKind::Odd | TokenKind::Semicolon
        )
    }
}

impl<'s> Iterator for Comments<'s> {
    type Item = Comment<'s>;

    fn next(&mut self) -> Option<Comment<'s>> {
        loop {
            let token = self.lexer.next_with_comments();
            match token.kind {
                TokenKind::Comment => {
                    let whole = self.lexer.text(token);
                    let is_block = whole.starts_with("/*");
                    let text = if is_block {
                        &whole[2..whole.len() - 2]
                    } else {
                        whole.trim_start_matches(['-', '#'])
                    };
                    let end = token.start + whole.trim_end_matches(['\n', '\r']).len();
                    return Some(Comment {
                        text: text.trim(),
                        span: token.start..if is_block { token.end } else { end },
                        is_leading: self.is_leading && !self.lexer.saw_version(),
                        is_block,
                    });
                }
                TokenKind::End | TokenKind::Odd => return None,
                _ => self.is_leading = false,
            }
        }
    }
}

/// The leading blanks and the first byte behind them, without building a lexer: whether a text can begin
/// with a comment at all.
pub(super) fn may_begin_with_comment(sql: &str) -> bool {
    let first = sql.bytes().find(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b);
    matches!(first, Some(b'/' | b'-' | b'#'))
}
