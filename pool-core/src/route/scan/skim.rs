//! The tight loop over what cannot matter.

use crate::route::lexer::{
    BLANK, COMMA, DIGIT, END, Letters, MARK, Mark, NAME, OTHER, TokenKind, Trail, WIDE, WORD,
    letter,
};

/// Where [`skim`] stopped.
pub(super) struct Stop {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: u8,
}

/// Skips blanks, plain words, whole numbers and operators, which most texts consist of. Stops at anything
/// else: a word that may mean something, a parenthesis, the end, or what only the lexer can cut.
#[inline(never)]
pub(super) fn skim(
    bytes: &[u8],
    class: &[u8; 256],
    letters: &Letters,
    trail: &mut Trail,
    from: usize,
) -> Stop {
    let Trail { mut before, mut last } = *trail;
    let mut at = from;
    let stop = loop {
        let start = at;
        if at >= bytes.len() {
            break Stop { start, end: at, class: END };
        }
        let byte = bytes[at];
        let found = class[byte as usize];
        at += 1;
        if found == BLANK {
            continue;
        }
        let kind = if found == WORD {
            let mut next = BLANK;
            while at < bytes.len() {
                next = class[bytes[at] as usize];
                if next > DIGIT {
                    break;
                }
                at += 1;
            }
            let length = at - start;
            let special = length < letters.len() && letters[length] & letter(byte) != 0;
            if special || next == WIDE || next == NAME {
                break Stop { start, end: at, class: WORD };
            }
            TokenKind::Word
        } else if found == DIGIT {
            while at < bytes.len() && class[bytes[at] as usize] == DIGIT {
                at += 1;
            }
            if at < bytes.len()
                && (matches!(class[bytes[at] as usize], WORD | WIDE) || bytes[at] == b'.')
            {
                break Stop { start, end: start, class: MARK };
            }
            TokenKind::Number
        } else if found == OTHER
            || found == COMMA
            || found == MARK && is_operator(byte, bytes.get(at))
        {
            TokenKind::Other
        } else if byte == b'\''
            && let Some(end) = short_string_end(bytes, at)
        {
            at = end;
            TokenKind::Text
        } else {
            break Stop { start, end: at, class: found };
        };
        before = last;
        last = Mark::new(kind, at);
    };
    *trail = Trail { before, last };
    stop
}

/// The end of a string that is short and plain; `from` is behind its opening quote.
#[inline]
fn short_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    const SHORT: usize = 24;
    let end = bytes.iter().skip(from).take(SHORT).position(|byte| matches!(byte, b'\'' | b'\\'))?;
    let end = from + end;
    (bytes[end] == b'\'' && bytes.get(end + 1) != Some(&b'\'')).then_some(end + 1)
}

/// Whether a character of several meanings stands for itself.
#[inline]
fn is_operator(byte: u8, next: Option<&u8>) -> bool {
    match byte {
        b'.' => !next.is_some_and(u8::is_ascii_digit),
        b'-' => next != Some(&b'-'),
        b'/' => next != Some(&b'*'),
        b'*' => true,
        _ => false,
    }
}
