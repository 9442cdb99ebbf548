//! Cuts SQL into tokens: one pass, no allocation, no back-tracking.
//!
//! It knows exactly as much as is needed to tell code from comments, strings and quoted identifiers
//! (section 10 of the routing rules). Numbers are cut as each dialect cuts them, because a keyword may
//! follow one without a blank.

mod bytes;
mod marks;

use crate::route::Dialect;

pub(in crate::route) use self::bytes::{
    BLANK, CLOSE, COMMA, DIGIT, END, MARK, NAME, OPEN, OTHER, SEMICOLON, WIDE, WORD, classes,
};
use self::bytes::{MYSQL, TSQL};

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
    pub(in crate::route) fn seek(&mut self, at: usize) {
        self.at = at;
        self.version_end = None;
    }

    /// Whether a version comment has begun.
    pub(in crate::route) fn saw_version(&self) -> bool {
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
                class => {
                    self.at += 1;
                    match class {
                        OPEN => TokenKind::Open,
                        CLOSE => TokenKind::Close,
                        COMMA => TokenKind::Comma,
                        SEMICOLON => TokenKind::Semicolon,
                        _ => TokenKind::Other,
                    }
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

    /// The next token if it is a word of letters, digits and `_`: what most texts begin with.
    #[inline]
    pub(in crate::route) fn plain_word(&mut self) -> Option<Token> {
        let class = |at: usize| self.bytes.get(at).map_or(END, |byte| self.class[*byte as usize]);
        let mut start = self.at;
        while class(start) == BLANK {
            start += 1;
        }
        let mut end = start;
        while class(end) <= DIGIT {
            end += 1;
        }
        let is_whole = class(start) == WORD && !matches!(class(end), WIDE | MARK | NAME);
        if !is_whole || self.version_end.is_some() {
            return None;
        }
        self.at = end;
        Some(Token { kind: TokenKind::Word, start, end })
    }

    /// Where the next token is looked for.
    pub(in crate::route) fn offset(&self) -> usize {
        self.at
    }

    /// Goes on at an offset that is outside of strings and comments, in the same version comment if any.
    pub(in crate::route) fn advance(&mut self, at: usize) {
        self.at = at;
    }

    /// Whether a version comment is open.
    pub(in crate::route) fn in_version(&self) -> bool {
        self.version_end.is_some()
    }

    /// The end of a word that goes on at `from` at the most.
    pub(in crate::route) fn word_end(&self, from: usize) -> usize {
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
}
