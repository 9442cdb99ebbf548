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
        let (start, found) = loop {
            if at >= bytes.len() {
                break (at, END);
            }
            let start = at;
            let found = class[bytes[at] as usize];
            if found == BLANK {
                at += 1;
                continue;
            }
            if found != WORD {
                break (start, found);
            }
            let (end, next) = word_end(bytes, class, at + 1);
            at = end;
            let length = end - start;
            let special = length < letters.len()
                && letters[length][0] & letter(bytes[start]) != 0
                && letters[length][1] & letter(bytes[end - 1]) != 0;
            if special || next == WIDE || next == NAME {
                break (start, WORD);
            }
            before = last;
            last = Mark::new(TokenKind::Word, end);
            // Mostly there is one blank behind a word.
            at += usize::from(next == BLANK);
        };
        if found == WORD || found == END {
            break Stop { start, end: at, class: found };
        }
        let byte = bytes[at];
        at += 1;
        let kind = if found == DIGIT {
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

/// The end of a word that goes on at `from`, and the class of the byte there.
#[inline]
fn word_end(bytes: &[u8], class: &[u8; 256], from: usize) -> (usize, u8) {
    let mut at = from;
    while let Some(&[a, b, c, d]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        for (step, byte) in [a, b, c, d].into_iter().enumerate() {
            let found = class[byte as usize];
            if found > DIGIT {
                return (at + step, found);
            }
        }
        at += 4;
    }
    while at < bytes.len() {
        let found = class[bytes[at] as usize];
        if found > DIGIT {
            return (at, found);
        }
        at += 1;
    }
    (at, END)
}

/// The end of a string that is short and plain; `from` is behind its opening quote.
#[inline]
fn short_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    const SHORT: usize = 24;
    let limit = bytes.len().min(from + SHORT);
    let mut end = from;
    while end < limit {
        match bytes[end] {
            b'\'' => break,
            b'\\' => return None,
            _ => end += 1,
        }
    }
    (end < limit && bytes.get(end + 1) != Some(&b'\'')).then_some(end + 1)
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
