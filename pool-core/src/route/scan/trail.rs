//! What is kept of tokens that are over.

use crate::route::lexer::{Token, TokenKind};

/// The last token of a text that is being read, and what is kept of the one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail {
    pub(super) before: Mark,
    pub(super) last: Token,
}

/// The kind and the end of a token. Commas may count as [`TokenKind::Other`], numbers as
/// [`TokenKind::Word`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) kind: TokenKind,
    pub(super) end: usize,
}

impl Trail {
    /// Where nobody will ask for what was before a token: that matters only before names and dots.
    #[inline]
    pub(super) const fn of(last: Token) -> Self {
        Self { before: Mark { kind: TokenKind::End, end: 0 }, last }
    }

    /// Moves on by one token.
    #[inline]
    pub(super) fn push(&mut self, token: Token) {
        self.before = Mark { kind: self.last.kind, end: self.last.end };
        self.last = token;
    }
}

impl TokenKind {
    pub(super) const fn is_name(self) -> bool {
        matches!(self, Self::Quoted | Self::Word)
    }
}
