//! T-SQL text to tokens and back.

use super::sql_error::SqlError;
use super::value::SqlType;

/// A token. Its text is what SQLite gets, apart from what the dialect replaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// The wire type, where the token stands for something whose type is known.
    pub(crate) ty: Option<SqlType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or plain identifier.
    Word,
    /// An identifier in brackets or double quotes; the text has double quotes.
    Quoted,
    /// A string literal, with its quotes.
    Text,
    Number,
    /// `@name`
    Variable,
    /// `@@NAME`
    Global,
    Symbol,
}

impl Token {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), ty: None }
    }

    pub(crate) fn typed(kind: Kind, text: impl Into<String>, ty: SqlType) -> Self {
        Self { kind, text: text.into(), ty: Some(ty) }
    }

    pub(crate) fn literal(text: &str, ty: SqlType) -> Self {
        Self::typed(Kind::Text, format!("'{}'", text.replace('\'', "''")), ty)
    }

    pub(crate) fn number(number: i64, ty: SqlType) -> Self {
        Self::typed(Kind::Number, number.to_string(), ty)
    }

    pub(crate) fn null(ty: SqlType) -> Self {
        Self::typed(Kind::Word, "NULL", ty)
    }

    /// Whether this is the keyword, in any case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    pub(crate) fn symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// The name this token spells, if it is one.
    pub(crate) fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.clone()),
            Kind::Quoted => Some(self.text[1..self.text.len() - 1].replace("\"\"", "\"")),
            _ => None,
        }
    }

    /// The content of a string literal.
    pub(crate) fn string(&self) -> Option<String> {
        (self.kind == Kind::Text).then(|| self.text[1..self.text.len() - 1].replace("''", "'"))
    }
}

pub(crate) fn word(text: &str) -> Token {
    Token::new(Kind::Word, text)
}

pub(crate) fn symbol(text: &str) -> Token {
    Token::new(Kind::Symbol, text)
}

/// The text SQLite is given.
pub(crate) fn render(tokens: &[Token]) -> String {
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    texts.join(" ")
}

/// Cuts T-SQL text into tokens, without comments and white space.
pub(crate) fn tokenize(text: &str) -> Result<Vec<Token>, SqlError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
        } else if rest.starts_with("--") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = skip_comment(rest)?;
        } else {
            let (token, length) = next(rest, first)?;
            tokens.push(token);
            rest = &rest[length..];
        }
    }
    Ok(tokens)
}

fn next(rest: &str, first: char) -> Result<(Token, usize), SqlError> {
    if matches!(first, 'N' | 'n') && rest[1..].starts_with('\'') {
        let (token, length) = quoted(&rest[1..], '\'')?;
        return Ok((token, length + 1));
    }
    match first {
        '\'' | '[' | '"' => quoted(rest, first),
        '@' => {
            let global = rest.starts_with("@@");
            let length = word_length(rest);
            let kind = if global { Kind::Global } else { Kind::Variable };
            Ok((Token::new(kind, &rest[..length]), length))
        }
        '#' => {
            let length = word_length(rest);
            Ok((Token::new(Kind::Quoted, format!("\"{}\"", &rest[..length])), length))
        }
        c if c.is_ascii_digit()
            || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) =>
        {
            let length = number_length(rest);
            Ok((Token::new(Kind::Number, &rest[..length]), length))
        }
        c if c.is_alphanumeric() || c == '_' => {
            let length = word_length(rest);
            Ok((Token::new(Kind::Word, &rest[..length]), length))
        }
        c => {
            const PAIRS: [&str; 8] = ["<=", ">=", "<>", "!=", "+=", "-=", "||", "::"];
            let length =
                if PAIRS.iter().any(|pair| rest.starts_with(pair)) { 2 } else { c.len_utf8() };
            Ok((Token::new(Kind::Symbol, &rest[..length]), length))
        }
    }
}

/// A string or quoted identifier; the closing character is doubled to stand for itself.
fn quoted(rest: &str, open: char) -> Result<(Token, usize), SqlError> {
    let close = if open == '[' { ']' } else { open };
    let mut content = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != close {
            content.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == close) {
            content.push(close);
            chars.next();
        } else {
            let token = match open {
                '\'' => Token::new(Kind::Text, format!("'{}'", content.replace('\'', "''"))),
                _ => Token::new(Kind::Quoted, format!("\"{}\"", content.replace('"', "\"\""))),
            };
            return Ok((token, at + close.len_utf8()));
        }
    }
    Err(SqlError::new(105, 15).message("Unclosed quotation mark after the character string."))
}

fn skip_comment(rest: &str) -> Result<&str, SqlError> {
    // Comments nest.
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Ok(&rest[at..]);
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Err(SqlError::new(113, 15).message("Missing end comment mark '*/'."))
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$')))
        .unwrap_or(rest.len())
}

fn number_length(rest: &str) -> usize {
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let digits = rest[2..].find(|c: char| !c.is_ascii_hexdigit());
        return digits.map_or(rest.len(), |n| n + 2);
    }
    let mut previous = ' ';
    for (at, c) in rest.char_indices() {
        let exponent_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
        if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || exponent_sign) {
            return at;
        }
        previous = c;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        tokenize(sql).unwrap().into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn quoting_becomes_that_of_sqlite() {
        assert_eq!(texts("[a]]b] N'it''s' \"c\" #t"), ["\"a]b\"", "'it''s'", "\"c\"", "\"#t\""]);
    }

    #[test]
    fn comments_vanish_and_nest() {
        assert_eq!(texts("a -- x\n/* b /* c */ d */ e"), ["a", "e"]);
        assert!(tokenize("/* open").is_err());
        assert!(tokenize("'open").is_err());
    }

    #[test]
    fn numbers_variables_and_operators_are_cut_apart() {
        assert_eq!(
            texts("@@TRANCOUNT>0 @P1<=1.5e-3 0xFF"),
            ["@@TRANCOUNT", ">", "0", "@P1", "<=", "1.5e-3", "0xFF"]
        );
        assert_eq!(texts("ünïcode 'é'"), ["ünïcode", "'é'"]);
    }
}
