//! The classes of bytes.

use crate::route::Dialect;

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
