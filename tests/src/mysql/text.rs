//! The tokens of one statement, and how to take them apart.

use crate::sql::lexer::{Kind, Token};

/// A token without the blanks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// Whether a blank came before it.
    pub(super) spaced: bool,
}

impl Piece {
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// A plain or quoted name, or a string, without quotes.
    pub(super) fn unquoted(&self) -> String {
        match self.kind {
            Kind::Text => decode(&self.text),
            Kind::Name => {
                let inner = self.text.trim_start_matches('`').trim_end_matches('`');
                inner.replace("``", "`")
            }
            _ => self.text.clone(),
        }
    }
}

/// Leaves blanks out.
pub(super) fn pieces(tokens: &[Token<'_>]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(tokens.len());
    let mut spaced = false;
    for token in tokens {
        if token.is_blank() {
            spaced = true;
            continue;
        }
        pieces.push(Piece { kind: token.kind, text: token.text.to_owned(), spaced });
        spaced = false;
    }
    pieces
}

/// Puts pieces together again.
pub(super) fn join(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        if piece.spaced && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&piece.text);
    }
    text
}

/// Cuts at the commas outside parentheses.
pub(super) fn split_commas(pieces: &[Piece]) -> Vec<&[Piece]> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0usize);
    for (at, piece) in pieces.iter().enumerate() {
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if piece.is_symbol(",") && depth == 0 {
            parts.push(&pieces[start..at]);
            start = at + 1;
        }
    }
    if start < pieces.len() {
        parts.push(&pieces[start..]);
    }
    parts
}

/// Where the parenthesis that opens at `open` closes; the end of the text if it does not.
pub(super) fn closing(pieces: &[Piece], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, piece) in pieces.iter().enumerate().skip(open) {
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    pieces.len()
}

/// Whether the pieces begin with these words.
pub(super) fn begins(pieces: &[Piece], words: &[&str]) -> bool {
    pieces.len() >= words.len() && pieces.iter().zip(words).all(|(piece, word)| piece.is_word(word))
}

/// The content of a MySQL string, escapes resolved.
pub(super) fn decode(text: &str) -> String {
    let quote = text.chars().next().unwrap_or('\'');
    let inner = text.strip_prefix(quote).unwrap_or(text);
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    let mut decoded = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('0') => decoded.push('\0'),
                Some('b') => decoded.push('\u{8}'),
                Some('n') => decoded.push('\n'),
                Some('r') => decoded.push('\r'),
                Some('t') => decoded.push('\t'),
                Some('Z') => decoded.push('\u{1a}'),
                // Kept for LIKE.
                Some(wild @ ('%' | '_')) => decoded.extend(['\\', wild]),
                Some(other) => decoded.push(other),
                None => decoded.push('\\'),
            },
            c if c == quote && chars.peek() == Some(&quote) => {
                chars.next();
                decoded.push(quote);
            }
            c => decoded.push(c),
        }
    }
    decoded
}

/// A SQLite string.
pub(super) fn literal(text: &str) -> String {
    if text.contains('\0') {
        let mut hex = String::from("CAST(x'");
        for byte in text.bytes() {
            hex += &format!("{byte:02x}");
        }
        return hex + "' AS TEXT)";
    }
    format!("'{}'", text.replace('\'', "''"))
}
