//! The tight loop over what cannot matter.

use crate::route::lexer::{
    BLANK, COMMA, DIGIT, END, MARK, NAME, OTHER, Token, TokenKind, WIDE, WORD,
};
use crate::route::scan::table::Table;
use crate::route::scan::trail::{Mark, Trail};

/// Where [`Skim::next`] stopped.
pub(super) struct Stop {
    pub(super) class: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Skips plain words, whole numbers, short strings, single characters and blanks, which most texts consist
/// of.
pub(super) struct Skim<'s> {
    bytes: &'s [u8],
    /// Behind the last token that is in the trail. What was skipped since then can be cut from behind.
    since: usize,
}

impl<'s> Skim<'s> {
    /// Begins at an offset that is outside of strings and comments.
    #[inline]
    pub(super) const fn new(bytes: &'s [u8], from: usize) -> Self {
        Self { bytes, since: from }
    }

    /// Goes on behind the last token of the trail, outside of strings and comments.
    #[inline]
    pub(super) const fn seek(&mut self, at: usize) {
        self.since = at;
    }

    /// Finds the next thing that may matter: a word with a meaning, a parenthesis, the end, or what only the
    /// lexer can cut. `trail` is moved on by strings only: [`Skim::settle`] adds the rest where it is wanted.
    #[inline]
    pub(super) fn next(&mut self, table: &Table, trail: &mut Trail) -> Stop {
        let bytes = self.bytes;
        let mut at = self.since;
        loop {
            let start = at;
            let Some(&byte) = bytes.get(start) else {
                return Stop { class: END, start, end: start };
            };
            let class = table.class(byte);
            at += 1;
            if class == WORD {
                at = word_end(bytes, table, at);
                if table.may_matter(byte, at - start) && table.matters(&bytes[start..at]) {
                    return Stop { class, start, end: at };
                }
            } else if matches!(class, BLANK | COMMA | OTHER) || is_operator(byte, bytes.get(at)) {
                continue;
            } else if class == DIGIT {
                at = word_end(bytes, table, at);
                if !is_whole_number(&bytes[start..at], bytes.get(at), table) {
                    return Stop { class: MARK, start, end: start };
                }
            } else if byte == b'\''
                && let Some(end) = short_string_end(bytes, at)
            {
                *trail = Trail::of(Token { kind: TokenKind::Text, start, end });
                self.since = end;
                at = end;
            } else {
                return self.stop(class, start, table);
            }
        }
    }

    /// The stop for a byte that cannot be skipped. Its token may have begun as a word that was.
    fn stop(&self, class: u8, at: usize, table: &Table) -> Stop {
        if matches!(class, WIDE | NAME)
            && let Some(Token { kind: TokenKind::Word, start, end }) = self.last_token(at, table)
            && end == at
        {
            return Stop { class: WORD, start, end };
        }
        Stop { class, start: at, end: at + 1 }
    }

    /// Adds the last two tokens that were skipped before `end` to the trail.
    #[inline]
    pub(super) fn settle(&self, trail: &mut Trail, end: usize, table: &Table) {
        if let Some(last) = self.last_token(end, table) {
            let Token { kind, end, .. } = trail.last;
            trail.before = self.last_mark(last.start, table).unwrap_or(Mark { kind, end });
            trail.last = last;
        }
    }

    /// The last token that was skipped before `end`.
    fn last_token(&self, end: usize, table: &Table) -> Option<Token> {
        let Mark { kind, end } = self.last_mark(end, table)?;
        if kind == TokenKind::Other {
            return Some(Token { kind, start: end - 1, end });
        }
        let mut start = end - 1;
        while start > self.since && table.is_word(self.bytes[start - 1]) {
            start -= 1;
        }
        let is_number = table.class(self.bytes[start]) == DIGIT;
        Some(Token { kind: if is_number { TokenKind::Number } else { kind }, start, end })
    }

    /// The same without its beginning.
    #[inline]
    fn last_mark(&self, end: usize, table: &Table) -> Option<Mark> {
        let mut end = end;
        while end > self.since {
            let kind = match table.class(self.bytes[end - 1]) {
                BLANK => {
                    end -= 1;
                    continue;
                }
                WORD | DIGIT => TokenKind::Word,
                _ => TokenKind::Other,
            };
            return Some(Mark { kind, end });
        }
        None
    }
}

/// The end of a word that goes on at `from`.
#[inline]
fn word_end(bytes: &[u8], table: &Table, from: usize) -> usize {
    let mut at = from;
    while bytes.get(at).is_some_and(|byte| table.is_word(*byte)) {
        at += 1;
    }
    at
}

/// Whether a text of digits and letters is a number that ends before `next`.
fn is_whole_number(text: &[u8], next: Option<&u8>, table: &Table) -> bool {
    text.iter().all(u8::is_ascii_digit)
        && !next.is_some_and(|byte| *byte == b'.' || table.class(*byte) == WIDE)
}

/// The end of a string that is short and plain; `from` is behind its opening quote.
#[inline]
fn short_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    const SHORT: usize = 24;
    for end in from..from + SHORT {
        match bytes.get(end)? {
            b'\'' => return (bytes.get(end + 1) != Some(&b'\'')).then_some(end + 1),
            b'\\' => return None,
            _ => {}
        }
    }
    None
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
