//! What a text does to the state that a session carries. Pure.

use pool_core::failover::Statement;
use pool_core::route::Dialect;
use pool_core::route::lexer::{Lexer, Syntax, TokenKind};

/// A text as a session sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Autocommit(bool),
    Begin,
    Commit,
    ReadOnly(bool),
    Rollback,
    /// Something else.
    Statement(Statement),
    UseDatabase(String),
}

/// Words that begin statements that never end a transaction.
const PLAIN: [&str; 13] = [
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DO",
    "EXPLAIN",
    "INSERT",
    "REPLACE",
    "SAVEPOINT",
    "SELECT",
    "SHOW",
    "UPDATE",
    "VALUES",
    "WITH",
];

/// The longest statement that has a meaning of its own here, in tokens.
const LONGEST: usize = 8;

/// Reads `sql`. A text of several statements, or one that does not end as it should, may do anything.
pub(super) fn read(sql: &str) -> Text {
    let mut lexer = Lexer::new(sql, Syntax::new(Dialect::MySql));
    let mut words = Vec::with_capacity(LONGEST);
    let mut over = false;
    loop {
        let token = lexer.token();
        match token.kind {
            TokenKind::End => break,
            TokenKind::Semicolon => over = true,
            TokenKind::Odd => return Text::Statement(Statement::EndsTransaction),
            _ if over => return Text::Statement(Statement::EndsTransaction),
            _ if words.len() <= LONGEST => words.push(lexer.text(token)),
            _ => {}
        }
    }
    understand(&words)
}

/// What the text does to a transaction.
pub(super) fn kind(sql: &str) -> Statement {
    match read(sql) {
        Text::Statement(kind) => kind,
        Text::ReadOnly(_) | Text::UseDatabase(_) => Statement::Plain,
        Text::Autocommit(_) | Text::Begin | Text::Commit | Text::Rollback => {
            Statement::EndsTransaction
        }
    }
}

fn understand(words: &[&str]) -> Text {
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    match upper.as_slice() {
        ["BEGIN"] | ["BEGIN", "WORK"] | ["START", "TRANSACTION"] => Text::Begin,
        ["COMMIT"] | ["COMMIT", "WORK"] => Text::Commit,
        ["ROLLBACK"] | ["ROLLBACK", "WORK"] => Text::Rollback,
        // Back to a savepoint: the transaction goes on.
        ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK", "TO", ..] => {
            Text::Statement(Statement::Plain)
        }
        ["USE", _] => match database(words[1]) {
            Some(name) => Text::UseDatabase(name),
            None => Text::Statement(Statement::EndsTransaction),
        },
        ["SET", rest @ ..] => match rest {
            ["SESSION" | "LOCAL", "TRANSACTION", "READ", "ONLY"] => Text::ReadOnly(true),
            ["SESSION" | "LOCAL", "TRANSACTION", "READ", "WRITE"] => Text::ReadOnly(false),
            ["AUTOCOMMIT", "=", value]
            | ["SESSION" | "LOCAL", "AUTOCOMMIT", "=", value]
            | ["@@AUTOCOMMIT" | "@@SESSION.AUTOCOMMIT", "=", value] => match *value {
                "1" | "ON" => Text::Autocommit(true),
                "0" | "OFF" => Text::Autocommit(false),
                _ => Text::Statement(Statement::EndsTransaction),
            },
            ["TRANSACTION" | "NAMES", ..] => Text::Statement(Statement::Plain),
            _ => Text::Statement(Statement::EndsTransaction),
        },
        [first, ..] if PLAIN.contains(first) || *first == "(" => Text::Statement(Statement::Plain),
        _ => Text::Statement(Statement::EndsTransaction),
    }
}

/// The name in `USE name`, with or without backticks.
fn database(word: &str) -> Option<String> {
    let quoted = word.strip_prefix('`').and_then(|word| word.strip_suffix('`'));
    match quoted {
        Some(name) => Some(name.replace("``", "`")),
        None => word
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '$')
            .then(|| word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_statements_with_a_harmless_first_word_stay_in_the_transaction() {
        for sql in [
            "select 1",
            " INSERT INTO t VALUES (1);",
            "with x as (select 1) select * from x",
            "/* why */ select ';'",
            "-- why\nUPDATE t SET a = 'x; COMMIT'",
            "(SELECT 1) UNION (SELECT 2)",
            "SAVEPOINT a",
            "ROLLBACK TO SAVEPOINT a",
        ] {
            assert_eq!(kind(sql), Statement::Plain, "{sql}");
        }
        for sql in [
            "COMMIT",
            "COMMIT AND CHAIN",
            "select 1; commit",
            "CREATE TABLE t (a INT)",
            "CALL p()",
            "",
            "/*!50000 COMMIT */",
            "SELECT 'no end",
            "SET @a = 1, autocommit = 1",
        ] {
            assert_eq!(kind(sql), Statement::EndsTransaction, "{sql}");
        }
    }

    #[test]
    fn texts_with_a_method_of_their_own_are_seen() {
        let name = |name: &str| Text::UseDatabase(name.to_owned());
        for (sql, expected) in [
            ("begin", Text::Begin),
            ("START TRANSACTION;", Text::Begin),
            ("/* end */ Commit Work", Text::Commit),
            ("rollback", Text::Rollback),
            ("use shop", name("shop")),
            ("USE `a``b`", name("a`b")),
            ("SET autocommit=0", Text::Autocommit(false)),
            ("set @@session.autocommit = ON", Text::Autocommit(true)),
            ("SET SESSION TRANSACTION READ ONLY", Text::ReadOnly(true)),
            ("START TRANSACTION READ ONLY", Text::Statement(Statement::EndsTransaction)),
            ("BEGIN; COMMIT", Text::Statement(Statement::EndsTransaction)),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }
}
