//! The classes of bytes, and what is kept of tokens that are over.

use crate::route::Dialect;
use crate::route::lexer::TokenKind;

/// What is kept of a token that is over: its kind and its end, in one word.
#[derive(Clone, Copy, Debug)]
pub(in crate::route) struct Mark(u64);

impl Mark {
    pub(in crate::route) const NONE: Self = Self(TokenKind::End as u64);

    #[inline]
    pub(in crate::route) const fn new(kind: TokenKind, end: usize) -> Self {
        Self((end as u64) << 8 | kind as u64)
    }

    pub(in crate::route) const fn is(self, kind: TokenKind) -> bool {
        self.0 & 0xff == kind as u64
    }

    pub(in crate::route) const fn is_name(self) -> bool {
        self.is(TokenKind::Word) || self.is(TokenKind::Quoted)
    }

    pub(in crate::route) const fn end(self) -> usize {
        (self.0 >> 8) as usize
    }
}

/// The two tokens before one. Commas count as [`TokenKind::Other`].
#[derive(Clone, Copy, Debug)]
pub(in crate::route) struct Trail {
    pub(in crate::route) before: Mark,
    pub(in crate::route) last: Mark,
}

impl Trail {
    /// Moves on by one token.
    #[inline]
    pub(in crate::route) fn push(&mut self, kind: TokenKind, end: usize) {
        self.before = self.last;
        self.last = Mark::new(kind, end);
    }
}

/// Per length of a word: a bit for each first letter, and one for each last letter.
pub(in crate::route) type Letters = [[u32; 2]; 17];

/// The bit of a letter, the same in both cases.
pub(in crate::route) const fn letter(byte: u8) -> u32 {
    1 << (byte & 31)
}

// What may go on inside a word comes first.
pub(in crate::route) const WORD: u8 = 0;
pub(in crate::route) const DIGIT: u8 = 1;
pub(in crate::route) const BLANK: u8 = 2;
/// A byte of a character beyond ASCII.
pub(in crate::route) const WIDE: u8 = 3;
/// Begins a string, a comment, a variable and the like.
pub(in crate::route) const MARK: u8 = 4;
/// As [`MARK`], but goes on with a word: `#` and `@` in T-SQL.
pub(in crate::route) const NAME: u8 = 5;
pub(in crate::route) const OTHER: u8 = 6;
pub(in crate::route) const OPEN: u8 = 7;
pub(in crate::route) const CLOSE: u8 = 8;
pub(in crate::route) const COMMA: u8 = 9;
pub(in crate::route) const SEMICOLON: u8 = 10;
/// No byte: the end of the text.
pub(in crate::route) const END: u8 = 11;

/// Tokens of one character, from class [`OTHER`] on.
pub(super) const SINGLE: [TokenKind; 5] =
    [TokenKind::Other, TokenKind::Open, TokenKind::Close, TokenKind::Comma, TokenKind::Semicolon];

pub(super) static MYSQL: [u8; 256] = classes(Dialect::MySql);
pub(super) static TSQL: [u8; 256] = classes(Dialect::TSql);

const fn classes(dialect: Dialect) -> [u8; 256] {
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
