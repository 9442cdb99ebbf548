//! The classes of bytes, and what is kept of tokens that are over.

use crate::route::Dialect;
use crate::route::lexer::{Token, TokenKind};

/// The last token of a text that is being read, and what is kept of the one before it.
#[derive(Clone, Copy, Debug)]
pub(in crate::route) struct Trail {
    pub(in crate::route) before: Mark,
    pub(in crate::route) last: Token,
}

/// The kind and the end of a token. Commas may count as [`TokenKind::Other`], numbers as
/// [`TokenKind::Word`].
#[derive(Clone, Copy, Debug)]
pub(in crate::route) struct Mark {
    pub(in crate::route) kind: TokenKind,
    pub(in crate::route) end: usize,
}

impl Trail {
    /// Where nobody will ask for what was before a token: that matters only before names and dots.
    #[inline]
    pub(in crate::route) const fn of(last: Token) -> Self {
        Self { before: Mark { kind: TokenKind::End, end: 0 }, last }
    }

    /// Moves on by one token.
    #[inline]
    pub(in crate::route) fn push(&mut self, token: Token) {
        self.before = Mark { kind: self.last.kind, end: self.last.end };
        self.last = token;
    }
}

impl TokenKind {
    pub(in crate::route) const fn is_name(self) -> bool {
        matches!(self, Self::Quoted | Self::Word)
    }
}

// First what may go on inside a word, then what stands for itself.
pub(in crate::route) const WORD: u8 = 0;
pub(in crate::route) const DIGIT: u8 = 1;
pub(in crate::route) const BLANK: u8 = 2;
pub(in crate::route) const COMMA: u8 = 3;
pub(in crate::route) const OTHER: u8 = 4;
/// A byte of a character beyond ASCII.
pub(in crate::route) const WIDE: u8 = 5;
/// Begins a string, a comment, a variable and the like.
pub(in crate::route) const MARK: u8 = 6;
/// As [`MARK`], but goes on with a word: `#` and `@` in T-SQL.
pub(in crate::route) const NAME: u8 = 7;
pub(in crate::route) const OPEN: u8 = 8;
pub(in crate::route) const CLOSE: u8 = 9;
pub(in crate::route) const SEMICOLON: u8 = 10;
/// No byte: the end of the text.
pub(in crate::route) const END: u8 = 11;

pub(super) static MYSQL: [u8; 256] = classes(Dialect::MySql);
pub(super) static TSQL: [u8; 256] = classes(Dialect::TSql);

/// The class of every byte.
pub(in crate::route) const fn classes(dialect: Dialect) -> [u8; 256] {
    let mut table = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => BLANK,
            0..=0x1f if matches!(dialect, Dialect::TSql) => BLANK,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => WORD,
            b'0'..=b'9' => DIGIT,
            0x80.. => WIDE,
            b'#' | b'@' if matches!(dialect, Dialect::TSql) => NAME,
            b'\'' | b'"' | b'`' | b'[' | b'-' | b'#' | b'/' | b'*' | b'@' | b'.' => MARK,
            b'(' => OPEN,
            b')' => CLOSE,
            b',' => COMMA,
            b';' => SEMICOLON,
            _ => OTHER,
        };
        byte += 1;
    }
    table
}
