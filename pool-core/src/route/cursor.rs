//! Looks at the first words of one statement, for the statements that are not plain reads.

use crate::route::lexer::{Lexer, Token, TokenKind};

/// The tokens of one statement, with one token of look-ahead.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'s> {
    lexer: Lexer<'s>,
    next: Token,
}

impl<'s> Cursor<'s> {
    /// Starts with the next token of `lexer`. The statement ends at the next `;`.
    pub(super) fn new(mut lexer: Lexer<'s>) -> Self {
        let next = lexer.token();
        Self { lexer, next }
    }

    /// The next token, not consumed.
    pub(super) fn peek(&self) -> Token {
        self.next
    }

    /// Whether the statement is over.
    pub(super) fn at_end(&self) -> bool {
        matches!(self.next.kind, TokenKind::End | TokenKind::Odd | TokenKind::Semicolon)
    }

    /// Consumes a token. At the end of the statement it stays there.
    pub(super) fn bump(&mut self) -> Token {
        let token = self.next;
        if !self.at_end() {
            self.next = self.lexer.token();
        }
        token
    }

    /// Consumes a `;` as well.
    pub(super) fn bump_any(&mut self) -> Token {
        let token = self.next;
        self.next = self.lexer.token();
        token
    }

    /// The text of a token.
    pub(super) fn text(&self, token: Token) -> &'s str {
        self.lexer.text(token)
    }

    /// The next token's text if it is a bare word, else the empty text.
    pub(super) fn word(&self) -> &'s str {
        if self.next.kind == TokenKind::Word { self.text(self.next) } else { "" }
    }

    /// Whether the next token is this word, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        self.word().eq_ignore_ascii_case(word)
    }

    /// Whether the next token is one of these words, in any case.
    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// Consumes the next token if it is this word.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.bump();
        }
        found
    }

    /// Whether the next token is exactly this text: for punctuation.
    pub(super) fn is_mark(&self, mark: &str) -> bool {
        !self.at_end() && self.text(self.next) == mark
    }

    /// Consumes a name of one or more dotted parts and returns its hash; `None` if there is no name.
    pub(super) fn name(&mut self, fold: bool) -> Option<u32> {
        let mut hash = None;
        loop {
            if !matches!(self.next.kind, TokenKind::Word | TokenKind::Quoted) {
                return hash;
            }
            let part = bare(self.text(self.next), self.next.kind);
            hash = Some(hash_name(hash.unwrap_or(START), part, fold));
            self.bump();
            if !self.is_mark(".") {
                return hash;
            }
            self.bump();
            hash = hash.map(|hash| hash_name(hash, ".", false));
        }
    }
}

const START: u32 = 0x811c_9dc5;

/// Hashes a name that stands for itself; never 0.
pub(super) fn hash_of(name: &str, fold: bool) -> u32 {
    hash_name(START, name, fold)
}

fn hash_name(start: u32, name: &str, fold: bool) -> u32 {
    let hash = name.bytes().fold(start, |hash, byte| {
        let byte = if fold { byte.to_ascii_lowercase() } else { byte };
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// A name without its quotes.
pub(super) fn bare(text: &str, kind: TokenKind) -> &str {
    match kind {
        TokenKind::Quoted | TokenKind::Text => {
            text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
        }
        _ => text,
    }
}
