//! Cuts SQL text into tokens, so that translators never look inside a string or a comment.

/// Which rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Backslash escapes, `"text"`, `` `name` ``, `#` and `-- ` comments; the inside of `/*! … */`
    /// counts as text.
    MySql,
    /// `[name]`, `"name"`, `--` comments, nested block comments, `N'text'`.
    TSql,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A comment, with its marks.
    Comment,
    /// A quoted name, with its quotes.
    Name,
    /// A number.
    Number,
    /// A `?` parameter.
    Param,
    /// White space.
    Space,
    /// One operator or punctuation character.
    Symbol,
    /// `@@name`, `@@scope.name`.
    SystemVariable,
    /// A string, with its quotes.
    Text,
    /// `@name`.
    UserVariable,
    /// A keyword or a plain name.
    Word,
}

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// The text itself.
    pub text: &'a str,
}

impl Token<'_> {
    /// Whether this is the given keyword, in any case.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether this is the given punctuation character.
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// Whether a translator may ignore it.
    pub fn is_blank(&self) -> bool {
        matches!(self.kind, Kind::Comment | Kind::Space)
    }

    /// A plain or quoted name without its quotes.
    pub fn name(&self) -> String {
        if self.kind != Kind::Name {
            return self.text.to_owned();
        }
        let quotes = [('[', "]"), ('`', "`"), ('"', "\"")];
        for (open, close) in quotes {
            if let Some(inner) = self.text.strip_prefix(open) {
                let inner = inner.strip_suffix(close).unwrap_or(inner);
                return inner.replace(&close.repeat(2), close);
            }
        }
        self.text.to_owned()
    }
}

/// Cuts the whole text. Unterminated strings and comments reach to the end.
pub fn tokens(sql: &str, dialect: Dialect) -> Vec<Token<'_>> {
    let mut cursor = Cursor { sql, at: 0, dialect };
    let mut tokens = Vec::new();
    while let Some(token) = cursor.next_token() {
        tokens.push(token);
    }
    tokens
}

/// Cuts at the semicolons; pieces without anything but blanks are left out.
pub fn split<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    tokens
        .split(|token| token.is_symbol(";"))
        .filter(|piece| piece.iter().any(|token| !token.is_blank()))
        .collect()
}

struct Cursor<'a> {
    sql: &'a str,
    at: usize,
    dialect: Dialect,
}

impl<'a> Cursor<'a> {
    fn next_token(&mut self) -> Option<Token<'a>> {
        let rest = &self.sql[self.at..];
        let first = rest.chars().next()?;
        let mysql = self.dialect == Dialect::MySql;
        let (kind, length) = match first {
            _ if first.is_whitespace() => (Kind::Space, span(rest, char::is_whitespace)),
            '/' if mysql && rest.starts_with("/*!") => (Kind::Comment, version_mark(rest)),
            // The end of a version comment, whose inside was cut as text.
            '*' if mysql && rest.starts_with("*/") => (Kind::Comment, 2),
            '/' if rest.starts_with("/*") => (Kind::Comment, block_comment(rest, !mysql)),
            '-' if is_line_comment(rest, mysql) => (Kind::Comment, line(rest)),
            '#' if mysql => (Kind::Comment, line(rest)),
            '\'' => (Kind::Text, quoted(rest, '\'', mysql)),
            '"' if mysql => (Kind::Text, quoted(rest, '"', true)),
            '"' => (Kind::Name, quoted(rest, '"', false)),
            '`' if mysql => (Kind::Name, quoted(rest, '`', false)),
            '[' if !mysql => (Kind::Name, quoted(rest, ']', false)),
            'N' | 'n' if !mysql && rest[1..].starts_with('\'') => {
                (Kind::Text, 1 + quoted(&rest[1..], '\'', false))
            }
            'X' | 'x' if rest[1..].starts_with('\'') => {
                (Kind::Number, 1 + quoted(&rest[1..], '\'', false))
            }
            '@' if rest.starts_with("@@") => (Kind::SystemVariable, 2 + variable(&rest[2..])),
            '@' => (Kind::UserVariable, 1 + variable(&rest[1..])),
            '?' => (Kind::Param, 1),
            '0'..='9' => (Kind::Number, number(rest)),
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                (Kind::Number, number(rest))
            }
            _ if is_word_char(first) => (Kind::Word, span(rest, is_word_char)),
            _ => (Kind::Symbol, first.len_utf8()),
        };
        let text = &rest[..length];
        self.at += length;
        Some(Token { kind, text })
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn span(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// MySQL wants a blank after `--`.
fn is_line_comment(text: &str, blank: bool) -> bool {
    let Some(after) = text.strip_prefix("--") else { return false };
    !blank || after.chars().next().is_none_or(|c| c.is_whitespace() || c.is_control())
}

fn line(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |end| end + 1)
}

/// `/*!` and the version number after it.
fn version_mark(text: &str) -> usize {
    3 + span(&text[3..], |c| c.is_ascii_digit())
}

fn block_comment(text: &str, nested: bool) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (2, 1);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            b"/*" if nested => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of a quoted piece that starts with one quote character and ends with `end`; a doubled
/// `end` does not end it.
fn quoted(text: &str, end: char, backslash: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if backslash && c == '\\' {
            chars.next();
        } else if c == end {
            if chars.peek().is_some_and(|&(_, next)| next == end) {
                chars.next();
            } else {
                return at + end.len_utf8();
            }
        }
    }
    text.len()
}

/// `name`, `scope.name`, `` `name` ``.
fn variable(text: &str) -> usize {
    match text.chars().next() {
        Some(quote @ ('`' | '\'' | '"')) => quoted(text, quote, false),
        _ => span(text, |c| is_word_char(c) || c == '.'),
    }
}

fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    if text.starts_with("0x") || text.starts_with("0X") {
        return 2 + span(&text[2..], |c| c.is_ascii_hexdigit());
    }
    let mut at = 0;
    while at < bytes.len() {
        let exponent = matches!(bytes[at], b'e' | b'E');
        let signed = exponent
            && at + 2 < bytes.len()
            && matches!(bytes[at + 1], b'+' | b'-')
            && bytes[at + 2].is_ascii_digit();
        if signed {
            at += 2;
        } else if bytes[at].is_ascii_digit() || bytes[at] == b'.' || exponent {
            at += 1;
        } else {
            break;
        }
    }
    // A name that starts with digits (`1st`).
    at + span(&text[at..], is_word_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(sql: &str, dialect: Dialect) -> Vec<(Kind, &str)> {
        tokens(sql, dialect)
            .into_iter()
            .filter(|token| token.kind != Kind::Space)
            .map(|token| (token.kind, token.text))
            .collect()
    }

    #[test]
    fn quotes_and_comments_hide_what_they_contain() {
        use Kind::*;
        let sql = "SELECT 'a;\\'b', \"c''d\", `e;f` -- ;\n, /* ; */ ?, @x, @@global.y # ;";
        assert_eq!(
            shapes(sql, Dialect::MySql),
            [
                (Word, "SELECT"),
                (Text, "'a;\\'b'"),
                (Symbol, ","),
                (Text, "\"c''d\""),
                (Symbol, ","),
                (Name, "`e;f`"),
                (Comment, "-- ;\n"),
                (Symbol, ","),
                (Comment, "/* ; */"),
                (Param, "?"),
                (Symbol, ","),
                (UserVariable, "@x"),
                (Symbol, ","),
                (SystemVariable, "@@global.y"),
                (Comment, "# ;"),
            ]
        );
    }

    #[test]
    fn dialects_differ_in_quotes_and_nesting() {
        use Kind::*;
        assert_eq!(
            shapes("[a]]b] \"c\" N'd\\' --e", Dialect::TSql),
            [(Name, "[a]]b]"), (Name, "\"c\""), (Text, "N'd\\'"), (Comment, "--e")]
        );
        assert_eq!(
            shapes("/* /* */ */1", Dialect::TSql),
            [(Comment, "/* /* */ */"), (Number, "1")]
        );
        assert_eq!(shapes("1--1", Dialect::MySql).len(), 4);
    }

    #[test]
    fn version_comments_count_as_text() {
        use Kind::*;
        assert_eq!(
            shapes("/*!40101 SET a */ = 1", Dialect::MySql)[1..3],
            [(Word, "SET"), (Word, "a")]
        );
    }

    #[test]
    fn statements_split_at_semicolons_outside_quotes() {
        let cut = tokens("a; ; b ';' ; -- c", Dialect::MySql);
        assert_eq!(split(&cut).len(), 2);
    }

    #[test]
    fn broken_text_does_not_panic() {
        for sql in
            ["'", "\"", "`", "/*", "/*!", "@", "@@", "[", "N'", "0x", "1e", "\\", "é'ü", "`é", "[é"]
        {
            for dialect in [Dialect::MySql, Dialect::TSql] {
                let joined: String = tokens(sql, dialect).iter().map(|token| token.text).collect();
                assert_eq!(joined, sql);
                for token in tokens(sql, dialect) {
                    token.name();
                }
            }
        }
    }
}
