//! Cuts SQL into tokens: one pass, no allocation, no back-tracking.
//!
//! It knows exactly as much as is needed to tell code from comments, strings and quoted identifiers
//! (section 10 of the routing rules). Numbers are cut as each dialect cuts them, because a keyword may
//! follow one without a blank.

use crate::route::Dialect;

/// How a text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syntax {
    dialect: Dialect,
    backslash_escapes: bool,
    ansi_quotes: bool,
}

impl Syntax {
    /// The dialect with its default modes.
    #[must_use]
    pub const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            backslash_escapes: matches!(dialect, Dialect::MySql),
            ansi_quotes: matches!(dialect, Dialect::TSql),
        }
    }

    /// For a server whose `sql_mode` contains `NO_BACKSLASH_ESCAPES`: a backslash in a string is a character
    /// like any other. Has no effect for T-SQL, where this is always so.
    #[must_use]
    pub const fn without_backslash_escapes(mut self) -> Self {
        self.backslash_escapes = false;
        self
    }

    /// For a server whose `sql_mode` contains `ANSI_QUOTES`: double quotes enclose identifiers. Has no effect
    /// for T-SQL, where this is the default.
    #[must_use]
    pub const fn with_ansi_quotes(mut self) -> Self {
        self.ansi_quotes = true;
        self
    }

    /// The dialect.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        self.dialect
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// `)`
    Close,
    /// `,`
    Comma,
    /// A comment that is not code; only from [`Lexer::next_with_comments`].
    Comment,
    /// The end of the text.
    End,
    /// A number.
    Number,
    /// A string, identifier or comment without an end, or one that begins inside a version comment and
    /// ends outside. The rest of the text cannot be trusted.
    Odd,
    /// `(`
    Open,
    /// Any other character.
    Other,
    /// An identifier in backticks, brackets or (as the modes say) double quotes.
    Quoted,
    /// `;`
    Semicolon,
    /// `@@name`, with the dotted parts that follow directly.
    SystemVariable,
    /// A string.
    Text,
    /// `@name` or a quoted name after `@`.
    Variable,
    /// A keyword or a bare identifier.
    Word,
}

/// One token: bytes `start` to `end` of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
}

/// What is kept of a token that is over: its kind and its end, in one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) const NONE: Self = Self(TokenKind::End as u64);

    #[inline]
    pub(super) const fn new(kind: TokenKind, end: usize) -> Self {
        Self((end as u64) << 8 | kind as u64)
    }

    pub(super) const fn is(self, kind: TokenKind) -> bool {
        self.0 & 0xff == kind as u64
    }

    pub(super) const fn is_name(self) -> bool {
        self.is(TokenKind::Word) || self.is(TokenKind::Quoted)
    }

    pub(super) const fn end(self) -> usize {
        (self.0 >> 8) as usize
    }
}

/// The two tokens before one. Commas count as [`TokenKind::Other`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail {
    pub(super) before: Mark,
    pub(super) last: Mark,
}

impl Trail {
    /// Moves on by one token.
    #[inline]
    pub(super) fn push(&mut self, kind: TokenKind, end: usize) {
        self.before = self.last;
        self.last = Mark::new(kind, end);
    }
}

/// Per length of a word: a bit for each first letter.
pub(super) type Letters = [u32; 17];

/// The bit of a first letter, the same in both cases.
pub(super) const fn letter(byte: u8) -> u32 {
    1 << (byte & 31)
}

/// Reads tokens off a text.
#[derive(Clone, Debug)]
pub struct Lexer<'s> {
    text: &'s str,
    bytes: &'s [u8],
    class: &'static [u8; 256],
    at: usize,
    /// Where the version comment (`/*! … */`) being read closes.
    version_end: Option<usize>,
    saw_version: bool,
    syntax: Syntax,
}

impl<'s> Lexer<'s> {
    /// Starts at the beginning of a text.
    #[must_use]
    pub fn new(text: &'s str, syntax: Syntax) -> Self {
        let class = match syntax.dialect {
            Dialect::MySql => &MYSQL,
            Dialect::TSql => &TSQL,
        };
        Self {
            text,
            bytes: text.as_bytes(),
            class,
            at: 0,
            version_end: None,
            saw_version: false,
            syntax,
        }
    }

    /// Goes on at an offset, which must be outside of strings and comments.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
        self.version_end = None;
    }

    /// Whether a version comment has begun.
    pub(super) fn saw_version(&self) -> bool {
        self.saw_version
    }

    /// The text of a token.
    #[must_use]
    pub fn text(&self, token: Token) -> &'s str {
        &self.text[token.start..token.end]
    }

    /// The next token that is not a comment. After the end, always [`TokenKind::End`].
    #[inline]
    pub fn token(&mut self) -> Token {
        loop {
            let token = self.next_with_comments();
            if token.kind != TokenKind::Comment {
                return token;
            }
        }
    }

    /// The next token, comments included. The marks of a version comment are skipped, what it contains is
    /// code.
    #[inline]
    pub fn next_with_comments(&mut self) -> Token {
        loop {
            let start = self.at;
            let Some(&byte) = self.bytes.get(start) else {
                let kind = if self.version_end.is_some() { TokenKind::Odd } else { TokenKind::End };
                self.version_end = None;
                return Token { kind, start, end: start };
            };
            let kind = match self.class[byte as usize] {
                BLANK => {
                    self.at += 1;
                    continue;
                }
                WORD => {
                    self.at = self.word_end(start + 1);
                    TokenKind::Word
                }
                WIDE => {
                    if self.skip_wide_blank() {
                        continue;
                    }
                    self.at = self.word_end(start);
                    TokenKind::Word
                }
                DIGIT => self.number(),
                MARK | NAME => match self.mark(byte) {
                    Some(kind) => kind,
                    None => continue,
                },
                other => {
                    self.at += 1;
                    SINGLE[other as usize - OTHER as usize]
                }
            };
            return self.checked(Token { kind, start, end: self.at });
        }
    }

    /// A token must not straddle the end of a version comment: servers that run it and servers that skip it
    /// would disagree about everything behind it.
    #[inline]
    fn checked(&mut self, token: Token) -> Token {
        match self.version_end {
            Some(end) if token.end > end => {
                self.at = self.bytes.len();
                self.version_end = None;
                Token { kind: TokenKind::Odd, end: self.at, ..token }
            }
            _ => token,
        }
    }

    /// Where the next token is looked for.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Goes on at an offset that is outside of strings and comments, in the same version comment if any.
    pub(super) fn advance(&mut self, at: usize) {
        self.at = at;
    }

    /// Whether a version comment is open.
    pub(super) fn in_version(&self) -> bool {
        self.version_end.is_some()
    }

    /// The classes of bytes in this dialect.
    pub(super) fn classes(&self) -> &'static [u8; 256] {
        self.class
    }

    /// Where the word that ends at `last` begins.
    pub(super) fn word_start(&self, trail: &Trail) -> usize {
        let tsql = self.syntax.dialect == Dialect::TSql;
        let mut at = trail.last.end();
        while at > trail.before.end() {
            let byte = self.bytes[at - 1];
            let goes_on = match self.class[byte as usize] {
                WORD | DIGIT | WIDE => true,
                _ => tsql && matches!(byte, b'#' | b'@'),
            };
            if !goes_on {
                break;
            }
            at -= 1;
        }
        at
    }

    /// Whether a word of ASCII letters that ends at `at` may go on there.
    pub(super) fn word_goes_on(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(|byte| matches!(self.class[*byte as usize], WIDE | NAME))
    }

    /// The end of a word that goes on at `from` at the most.
    pub(super) fn word_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(&byte) = self.bytes.get(at) {
            match self.class[byte as usize] {
                WORD | DIGIT | NAME => at += 1,
                WIDE => match self.wide_blank(at) {
                    Some(_) => break,
                    None => at += 1,
                },
                _ => break,
            }
        }
        at
    }

    /// The length of a blank beyond ASCII at `at`; SQL Server takes them for blanks, MySQL does not.
    fn wide_blank(&self, at: usize) -> Option<usize> {
        if self.syntax.dialect != Dialect::TSql || !self.text.is_char_boundary(at) {
            return None;
        }
        let char = self.text[at..].chars().next()?;
        (char.is_whitespace() || matches!(char, '\u{200b}' | '\u{feff}')).then(|| char.len_utf8())
    }

    fn skip_wide_blank(&mut self) -> bool {
        match self.wide_blank(self.at) {
            Some(length) => {
                self.at += length;
                true
            }
            None => false,
        }
    }

    /// A number, or in MySQL an identifier that begins with a digit.
    fn number(&mut self) -> TokenKind {
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
    fn mark(&mut self, byte: u8) -> Option<TokenKind> {
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
pub(super) fn block_end(bytes: &[u8], at: usize, dialect: Dialect) -> Option<usize> {
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

// What may go on inside a word comes first.
pub(super) const WORD: u8 = 0;
pub(super) const DIGIT: u8 = 1;
pub(super) const BLANK: u8 = 2;
/// A byte of a character beyond ASCII.
pub(super) const WIDE: u8 = 3;
/// Begins a string, a comment, a variable and the like.
pub(super) const MARK: u8 = 4;
/// As [`MARK`], but goes on with a word: `#` and `@` in T-SQL.
pub(super) const NAME: u8 = 5;
pub(super) const OTHER: u8 = 6;
pub(super) const OPEN: u8 = 7;
pub(super) const CLOSE: u8 = 8;
pub(super) const COMMA: u8 = 9;
pub(super) const SEMICOLON: u8 = 10;
/// No byte: the end of the text.
pub(super) const END: u8 = 11;

/// Tokens of one character, from class [`OTHER`] on.
const SINGLE: [TokenKind; 5] =
    [TokenKind::Other, TokenKind::Open, TokenKind::Close, TokenKind::Comma, TokenKind::Semicolon];

static MYSQL: [u8; 256] = classes(Dialect::MySql);
static TSQL: [u8; 256] = classes(Dialect::TSql);

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
