//! Numbers, strings, quoted identifiers, variables and comments: tokens of more than one rule.

use crate::route::Dialect;
use crate::route::lexer::bytes::{DIGIT, WIDE, WORD};
use crate::route::lexer::{Lexer, TokenKind};

impl Lexer<'_> {
    /// A number, or in MySQL an identifier that begins with a digit.
    pub(super) fn number(&mut self) -> TokenKind {
        let mysql = self.syntax.dialect == Dialect::MySql;
        let start = self.at;
        if self.bytes[start] == b'0' && matches!(self.byte(start + 1), b'x' | b'X') {
            let mut at = start + 2;
            while self.byte(at).is_ascii_hexdigit() {
                at += 1;
            }
            self.at = at;
        } else {
            self.at = self.digits(start);
            if self.byte(self.at) == b'.' {
                self.at = self.digits(self.at + 1);
                self.at = self.exponent(self.at).unwrap_or(self.at);
                return TokenKind::Number;
            }
            if let Some(end) = self.exponent(self.at) {
                self.at = end;
                return TokenKind::Number;
            }
        }
        let end = if mysql { self.word_end(self.at) } else { self.at };
        if end > self.at {
            self.at = end;
            return TokenKind::Word;
        }
        TokenKind::Number
    }

    fn digits(&self, from: usize) -> usize {
        let mut at = from;
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    }

    /// The end of an exponent that starts at `at`. MySQL wants a digit in it, T-SQL does not.
    fn exponent(&self, at: usize) -> Option<usize> {
        if !matches!(self.byte(at), b'e' | b'E') {
            return None;
        }
        let sign = usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
        let end = self.digits(at + 1 + sign);
        (end > at + 1 + sign || self.syntax.dialect == Dialect::TSql).then_some(end)
    }

    /// The byte at `at`; 0 behind the end.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Something that begins with a character of more than one meaning. `None` if it was skipped.
    #[inline]
    pub(super) fn mark(&mut self, byte: u8) -> Option<TokenKind> {
        let mysql = self.syntax.dialect == Dialect::MySql;
        let next = self.byte(self.at + 1);
        Some(match byte {
            b'\'' => self.quoted(b'\'', self.syntax.backslash_escapes, TokenKind::Text),
            b'"' if self.syntax.ansi_quotes => self.quoted(b'"', false, TokenKind::Quoted),
            b'"' => self.quoted(b'"', self.syntax.backslash_escapes, TokenKind::Text),
            b'`' if mysql => self.quoted(b'`', false, TokenKind::Quoted),
            b'[' if !mysql => self.quoted(b']', false, TokenKind::Quoted),
            b'-' if next == b'-'
                && (!mysql || is_blank_or_control(self.bytes.get(self.at + 2))) =>
            {
                self.line_comment()
            }
            b'#' if mysql => self.line_comment(),
            b'#' => {
                self.at = self.word_end(self.at);
                TokenKind::Word
            }
            b'/' if next == b'*' => {
                if mysql && self.opens_version() {
                    return self.open_version();
                }
                self.block_comment()
            }
            b'*' if next == b'/' && self.version_end == Some(self.at) => {
                self.at += 2;
                self.version_end = None;
                return None;
            }
            b'@' => self.variable(next),
            b'.' if next.is_ascii_digit() && !self.ends_name(self.at) => {
                self.at = self.digits(self.at + 1);
                self.at = self.exponent(self.at).unwrap_or(self.at);
                TokenKind::Number
            }
            _ => {
                self.at += 1;
                TokenKind::Other
            }
        })
    }

    /// Whether a name ends directly before `at`.
    fn ends_name(&self, at: usize) -> bool {
        at.checked_sub(1).is_some_and(|before| {
            let byte = self.bytes[before];
            matches!(self.class[byte as usize], WORD | WIDE | DIGIT)
                || matches!(byte, b'`' | b']' | b'"')
        })
    }

    fn variable(&mut self, next: u8) -> TokenKind {
        let start = self.at;
        if next == b'@' {
            let mut end = self.word_end(start + 2);
            while self.byte(end) == b'.' && self.word_end(end + 1) > end + 1 {
                end = self.word_end(end + 1);
            }
            self.at = end;
            return TokenKind::SystemVariable;
        }
        self.at += 1;
        match next {
            b'\'' | b'"' | b'`' if self.syntax.dialect == Dialect::MySql => {
                let escapes = next != b'`' && self.syntax.backslash_escapes;
                self.quoted(next, escapes, TokenKind::Variable)
            }
            _ => {
                // A user variable of MySQL may contain dots.
                let mut end = self.word_end(self.at);
                while self.syntax.dialect == Dialect::MySql && self.byte(end) == b'.' {
                    end = self.word_end(end + 1);
                }
                self.at = end;
                TokenKind::Variable
            }
        }
    }

    /// From an opening quote at the current place to the end of what it opens. A doubled closing quote is
    /// part of the content.
    fn quoted(&mut self, close: u8, escapes: bool, kind: TokenKind) -> TokenKind {
        let escape = if escapes { b'\\' } else { close };
        let mut at = self.at + 1;
        loop {
            at = find(self.bytes, at, close, escape);
            match self.bytes.get(at) {
                None => {
                    self.at = self.bytes.len();
                    return TokenKind::Odd;
                }
                Some(&byte) if byte == close => {
                    if self.byte(at + 1) != close {
                        self.at = at + 1;
                        return kind;
                    }
                    at += 2;
                }
                Some(_) => at += 2,
            }
        }
    }

    fn line_comment(&mut self) -> TokenKind {
        self.at = (find(self.bytes, self.at, b'\n', b'\n') + 1).min(self.bytes.len());
        TokenKind::Comment
    }

    fn block_comment(&mut self) -> TokenKind {
        match block_end(self.bytes, self.at, self.syntax.dialect) {
            Some(end) => {
                self.at = end;
                TokenKind::Comment
            }
            None => {
                self.at = self.bytes.len();
                TokenKind::Odd
            }
        }
    }

    /// `/*!` and MariaDB's `/*M!`.
    fn opens_version(&self) -> bool {
        match self.byte(self.at + 2) {
            b'!' => true,
            b'M' => self.byte(self.at + 3) == b'!',
            _ => false,
        }
    }

    /// Steps over the mark and the version number: what follows is code up to the first `*/`.
    fn open_version(&mut self) -> Option<TokenKind> {
        self.saw_version = true;
        let end = block_end(self.bytes, self.at, Dialect::MySql);
        let (Some(end), None) = (end, self.version_end) else {
            self.at = self.bytes.len();
            self.version_end = None;
            return Some(TokenKind::Odd);
        };
        self.at += if self.byte(self.at + 2) == b'!' { 3 } else { 4 };
        self.version_end = Some(end - 2);
        if self.at > end - 2 {
            // `/*!/` is not closed by its own slash.
            self.at = self.bytes.len();
            self.version_end = None;
            return Some(TokenKind::Odd);
        }
        let digits = self.digits(self.at);
        if digits - self.at >= 5 {
            self.at = digits.min(self.at + 6);
        }
        None
    }
}

/// Where the block comment that opens at `at` ends; `None` if it does not. Nested in T-SQL.
fn block_end(bytes: &[u8], at: usize, dialect: Dialect) -> Option<usize> {
    let mut depth = 1_usize;
    let mut at = at + 2;
    loop {
        at = match dialect {
            Dialect::MySql => find(bytes, at, b'*', b'*'),
            Dialect::TSql => find(bytes, at, b'*', b'/'),
        };
        let byte = *bytes.get(at)?;
        match (byte, bytes.get(at + 1)) {
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// The first place from `from` on that holds one of two bytes; the length if there is none. Whole blocks
/// without a hit are skipped fast, so that long strings and comments cost little.
fn find(bytes: &[u8], from: usize, a: u8, b: u8) -> usize {
    const BLOCK: usize = 32;
    let mut at = from.min(bytes.len());
    for block in bytes[at..].chunks_exact(BLOCK) {
        if block.iter().fold(false, |hit, &byte| hit | (byte == a) | (byte == b)) {
            break;
        }
        at += BLOCK;
    }
    while at < bytes.len() && bytes[at] != a && bytes[at] != b {
        at += 1;
    }
    at
}

/// What must follow `--` in MySQL; the end of the text counts.
fn is_blank_or_control(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}
