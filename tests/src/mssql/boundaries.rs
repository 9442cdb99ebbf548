//! Where a statement, a list item or a parenthesis ends. T-SQL needs no semicolons, so the words that
//! begin the next statement have to be told from the same words inside this one.

use super::lexer::{Kind, Token};
use super::parser::Parser;
use super::sql_error::SqlError;

/// Words that begin a statement wherever they stand outside parentheses.
const STARTERS: &[&str] = &[
    "COMMIT",
    "ROLLBACK",
    "WAITFOR",
    "IF",
    "WHILE",
    "USE",
    "DECLARE",
    "PRINT",
    "RAISERROR",
    "THROW",
    "CREATE",
    "DROP",
    "INSERT",
    "TRUNCATE",
    "EXEC",
    "EXECUTE",
    "MERGE",
    "KILL",
    "GO",
];

impl Parser<'_> {
    /// The tokens up to the statement they guard.
    pub(super) fn condition(&mut self) -> Result<Vec<Token>, SqlError> {
        let start = self.at;
        let mut depth = 0i32;
        while let Some(token) = self.peek(0) {
            depth += parenthesis(token);
            let starts = token.is_any(STARTERS)
                || token.is_any(&["BEGIN", "SELECT", "SET", "UPDATE", "DELETE", "SAVE", "ALTER"]);
            if depth == 0 && starts {
                break;
            }
            self.at += 1;
        }
        match self.at > start && self.peek(0).is_some() {
            true => Ok(self.tokens[start..self.at].to_vec()),
            false => Err(self.near()),
        }
    }

    /// A name after TRAN; a word that begins the next statement is none.
    pub(super) fn optional_name(&mut self) -> Option<String> {
        let token = self.peek(0)?;
        let starts = token.is_any(STARTERS)
            || token.is_any(&[
                "BEGIN", "SELECT", "SET", "UPDATE", "DELETE", "SAVE", "END", "ELSE", "ALTER",
                "WITH",
            ]);
        let name = match token.kind {
            Kind::Variable => Some(token.text.clone()),
            _ if starts => None,
            _ => token.name(),
        }?;
        self.at += 1;
        Some(name)
    }

    /// Consumes tokens up to the next statement. `sql` is true for statements in which SELECT, SET,
    /// UPDATE and DELETE may be part of the same statement.
    pub(super) fn rest_of_statement(&mut self, sql: bool) -> Vec<Token> {
        let start = self.at;
        let mut depth = 0i32;
        let mut cases = 0i32;
        while let Some(token) = self.peek(0) {
            depth += parenthesis(token);
            if token.is("CASE") {
                cases += 1;
            } else if token.is("END") && cases > 0 {
                cases -= 1;
            } else if depth <= 0 {
                let next = cases == 0 && self.at > start && self.starts_next(start, sql);
                if next || token.symbol(";") {
                    break;
                }
            }
            self.at += 1;
        }
        self.tokens[start..self.at].to_vec()
    }

    fn starts_next(&self, start: usize, sql: bool) -> bool {
        let token = &self.tokens[self.at];
        let current = &self.tokens[start..self.at];
        let previous = &self.tokens[self.at - 1];
        let has = |word: &str| current.iter().any(|token| token.is(word));
        if token.is("BEGIN") || token.is("END") || token.is("ELSE") {
            return true;
        }
        if token.is("SAVE") {
            return self.peek_is(1, &["TRAN", "TRANSACTION"]);
        }
        if token.is("IF") {
            // DROP TABLE IF EXISTS, CREATE TABLE IF NOT EXISTS
            return !previous.is_any(&["TABLE", "INDEX", "VIEW"]);
        }
        if token.is("DROP") || token.is("CREATE") {
            return !current[0].is("ALTER");
        }
        if token.is("INSERT") {
            return !current[0].is("WITH") || has("INSERT");
        }
        if token.is_any(STARTERS) {
            return true;
        }
        if !sql {
            return token.is_any(&["SELECT", "SET", "UPDATE", "DELETE", "ALTER", "WITH"])
                && !previous.symbol("=")
                && !(token.is("WITH") && previous.symbol(")"));
        }
        if token.is("SET") {
            return !current[0].is_any(&["UPDATE", "WITH", "MERGE", "ALTER"]) || has("SET");
        }
        if token.is_any(&["UPDATE", "DELETE"]) {
            let continues = previous.is_any(&["ON", "FOR", "AFTER", "THEN"]);
            let of_with = current[0].is("WITH") && !has("UPDATE") && !has("DELETE");
            return !continues && !of_with;
        }
        if token.is("SELECT") {
            let continues = previous.is_any(&["UNION", "ALL", "EXCEPT", "INTERSECT", "AS"]);
            let feeds =
                current[0].is("INSERT") && !has("VALUES") && !has("SELECT") && !has("DEFAULT");
            let with = current[0].is("WITH") && top_level_selects(current) == 0;
            return !(continues || feeds || with);
        }
        token.is("ALTER")
    }
}

/// Splits at the commas outside parentheses.
pub(crate) fn split_commas(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0;
    for token in tokens {
        depth += parenthesis(token);
        if depth == 0 && token.symbol(",") {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(token.clone());
        }
    }
    parts
}

/// Where the keyword stands outside parentheses.
pub(crate) fn top_level(tokens: &[Token], word: &str) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().position(|token| {
        depth += parenthesis(token);
        depth == 0 && token.is(word)
    })
}

/// Where the parenthesis opened at `open` closes.
pub(crate) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().enumerate().skip(open).find_map(|(at, token)| {
        depth += i32::from(token.symbol("(")) - i32::from(token.symbol(")"));
        (depth == 0).then_some(at)
    })
}

fn top_level_selects(tokens: &[Token]) -> usize {
    let mut depth = 0;
    tokens
        .iter()
        .filter(|token| {
            depth += parenthesis(token);
            depth == 0 && token.is("SELECT")
        })
        .count()
}

fn parenthesis(token: &Token) -> i32 {
    i32::from(token.symbol("(")) - i32::from(token.symbol(")"))
}
