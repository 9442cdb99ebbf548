//! What a statement is, by its first words.

use super::text::{Piece, begins, join, split_commas};
use super::variables::{Scope, split_scope};
use super::{ddl, dialect};
use crate::sql::lexer::Kind;

/// A statement, understood as far as the server has to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    Begin {
        read_only: Option<bool>,
        snapshot: bool,
    },
    Commit {
        chain: bool,
        release: bool,
    },
    CreateDatabase {
        name: String,
        if_missing: bool,
    },
    /// DO, whose result nobody wants.
    Do(String),
    DropDatabase(String),
    Kill {
        query_only: bool,
        id: String,
    },
    /// Accepted, and nothing to do.
    Nothing,
    Read {
        sql: String,
        locks: bool,
        tables: bool,
    },
    Rollback {
        chain: bool,
        release: bool,
    },
    /// SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT.
    Savepoint(String),
    Schema {
        sqls: Vec<String>,
        temporary: bool,
        table: Option<String>,
    },
    Set(Vec<Assignment>),
    SetTransaction {
        scope: Scope,
        read_only: Option<bool>,
        isolation: Option<String>,
    },
    Show(Vec<Piece>),
    Unknown(String),
    Use(String),
    Write {
        sql: String,
        insert: bool,
        table: Option<String>,
    },
}

/// One part of a SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) target: Target,
    pub(super) value: Assigned,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    System(Scope, String),
    User(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Assigned {
    /// A SQLite expression.
    Expression(String),
    /// ON, OFF, a name.
    Word(String),
}

/// Reads one statement without blanks; `None` when there is nothing in it.
pub(super) fn parse(pieces: &[Piece]) -> Option<Statement> {
    let first = pieces.first()?;
    let second = pieces.get(1);
    let second_is = |words: &[&str]| second.is_some_and(|second| second.is_any(words));
    if first.is_symbol("(") {
        return Some(read(pieces));
    }
    let statement = match first.text.to_ascii_uppercase().as_str() {
        "SELECT" | "TABLE" | "VALUES" => read(pieces),
        "WITH" if !is_write(pieces) => read(pieces),
        "DELETE" | "INSERT" | "REPLACE" | "UPDATE" | "WITH" => write(pieces),
        "BEGIN" => Statement::Begin { read_only: None, snapshot: false },
        "START" if second_is(&["TRANSACTION"]) => start_transaction(&pieces[2..]),
        "START" | "STOP" => Statement::Nothing,
        "COMMIT" => {
            let (chain, release) = completion(pieces);
            Statement::Commit { chain, release }
        }
        "ROLLBACK" => match pieces.iter().position(|piece| piece.is_word("TO")) {
            Some(to) => Statement::Savepoint(format!("ROLLBACK {}", join(&pieces[to..]))),
            None => {
                let (chain, release) = completion(pieces);
                Statement::Rollback { chain, release }
            }
        },
        "RELEASE" | "SAVEPOINT" => Statement::Savepoint(join(pieces)),
        "SET" => set(&pieces[1..]),
        "USE" => Statement::Use(second?.unquoted()),
        "KILL" => {
            let query_only = second_is(&["QUERY"]);
            let skip = if second_is(&["CONNECTION", "QUERY"]) { 2 } else { 1 };
            Statement::Kill { query_only, id: dialect::expression(pieces.get(skip..)?) }
        }
        "SHOW" => Statement::Show(pieces[1..].to_vec()),
        "DESC" | "DESCRIBE" | "EXPLAIN" if pieces.len() == 2 => {
            let mut show = pieces[1..].to_vec();
            show.insert(0, Piece { text: "COLUMNS".to_owned(), ..first.clone() });
            show.insert(1, Piece { text: "FROM".to_owned(), ..first.clone() });
            Statement::Show(show)
        }
        "DESC" | "DESCRIBE" | "EXPLAIN" => {
            let skip = pieces.iter().skip(1).position(|piece| {
                piece.is_any(&["DELETE", "INSERT", "REPLACE", "SELECT", "UPDATE", "WITH"])
            })?;
            let translated = dialect::translate(&pieces[skip + 1..]);
            let sql = format!("EXPLAIN QUERY PLAN {}", translated.sql);
            Statement::Read { sql, locks: false, tables: true }
        }
        "DO" => Statement::Do(format!("SELECT {}", dialect::expression(&pieces[1..]))),
        "CREATE" if second_is(&["DATABASE", "SCHEMA"]) => Statement::CreateDatabase {
            name: database_name(pieces)?,
            if_missing: pieces.iter().any(|piece| piece.is_word("EXISTS")),
        },
        "DROP" if second_is(&["DATABASE", "SCHEMA"]) => {
            Statement::DropDatabase(database_name(pieces)?)
        }
        "CREATE" | "DROP" if second_is(&["ROLE", "USER"]) => Statement::Nothing,
        "ALTER" | "CREATE" | "DROP" | "RENAME" | "TRUNCATE" => schema(pieces),
        "ANALYZE" | "CHANGE" | "CHECK" | "FLUSH" | "GRANT" | "LOCK" | "OPTIMIZE" | "PURGE"
        | "REPAIR" | "RESET" | "REVOKE" | "UNLOCK" => Statement::Nothing,
        _ => Statement::Unknown(join(pieces)),
    };
    Some(statement)
}

fn read(pieces: &[Piece]) -> Statement {
    let tables = pieces.iter().any(|piece| piece.is_any(&["FROM", "TABLE"]));
    let translated = dialect::translate(pieces);
    Statement::Read { sql: translated.sql, locks: translated.locks, tables }
}

fn write(pieces: &[Piece]) -> Statement {
    let verb = pieces
        .iter()
        .position(|piece| piece.is_any(&["DELETE", "INSERT", "REPLACE", "UPDATE"]))
        .unwrap_or(0);
    let table = pieces[verb + 1..]
        .iter()
        .filter(|piece| matches!(piece.kind, Kind::Name | Kind::Word))
        .find(|piece| !piece.is_any(&["FROM", "IGNORE", "INTO", "LOW_PRIORITY", "QUICK"]))
        .map(|table| table.unquoted().to_ascii_lowercase());
    let insert = pieces[verb].is_any(&["INSERT", "REPLACE"]);
    Statement::Write { sql: dialect::translate(pieces).sql, insert, table }
}

/// Whether a WITH ends in a change of data.
fn is_write(pieces: &[Piece]) -> bool {
    let mut depth = 0usize;
    pieces.iter().any(|piece| {
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && piece.is_any(&["DELETE", "INSERT", "REPLACE", "UPDATE"])
    })
}

fn start_transaction(options: &[Piece]) -> Statement {
    let read_only = access(options);
    let snapshot = options.iter().any(|piece| piece.is_word("SNAPSHOT"));
    Statement::Begin { read_only, snapshot }
}

/// READ ONLY or READ WRITE, somewhere in the pieces.
fn access(pieces: &[Piece]) -> Option<bool> {
    pieces.windows(2).find_map(|pair| match (pair[0].is_word("READ"), &pair[1]) {
        (true, access) if access.is_word("ONLY") => Some(true),
        (true, access) if access.is_word("WRITE") => Some(false),
        _ => None,
    })
}

/// AND CHAIN and RELEASE, unless NO comes before them.
fn completion(pieces: &[Piece]) -> (bool, bool) {
    let has = |word: &str| {
        pieces
            .iter()
            .position(|piece| piece.is_word(word))
            .is_some_and(|at| at > 0 && !pieces[at - 1].is_word("NO"))
    };
    (has("CHAIN"), has("RELEASE"))
}

fn set(pieces: &[Piece]) -> Statement {
    if let Some(at) = pieces.iter().take(2).position(|piece| piece.is_word("TRANSACTION")) {
        let scope = match pieces.first() {
            Some(first) if at == 1 && first.is_word("GLOBAL") => Scope::Global,
            _ if at == 1 => Scope::Session,
            _ => Scope::Next,
        };
        let rest = &pieces[at + 1..];
        let isolation = rest.iter().position(|piece| piece.is_word("LEVEL")).map(|level| {
            rest[level + 1..]
                .iter()
                .take_while(|piece| piece.kind == Kind::Word)
                .take(2)
                .filter(|piece| !piece.is_any(&["ONLY", "WRITE"]))
                .map(|piece| piece.text.to_ascii_uppercase())
                .collect::<Vec<_>>()
                .join("-")
        });
        return Statement::SetTransaction { scope, read_only: access(rest), isolation };
    }
    if pieces.first().is_some_and(|first| first.is_any(&["CHARACTER", "CHARSET", "NAMES"])) {
        let skip = if pieces[0].is_word("CHARACTER") { 2 } else { 1 };
        let Some(charset) = pieces.get(skip) else { return Statement::Nothing };
        let assign = |name: &str| Assignment {
            target: Target::System(Scope::Session, name.to_owned()),
            value: Assigned::Word(charset.unquoted()),
        };
        return Statement::Set(vec![
            assign("character_set_client"),
            assign("character_set_connection"),
            assign("character_set_results"),
        ]);
    }
    if begins(pieces, &["DEFAULT", "ROLE"]) || begins(pieces, &["ROLE"]) {
        return Statement::Nothing;
    }
    let assignments = split_commas(pieces).into_iter().filter_map(assignment).collect();
    Statement::Set(assignments)
}

fn assignment(pieces: &[Piece]) -> Option<Assignment> {
    let mut rest = pieces;
    let mut scope = None;
    if rest.first()?.is_any(&["GLOBAL", "LOCAL", "PERSIST", "SESSION"]) {
        let global = rest[0].is_any(&["GLOBAL", "PERSIST"]);
        scope = Some(if global { Scope::Global } else { Scope::Session });
        rest = &rest[1..];
    }
    let name = rest.first()?;
    let equals = rest.iter().position(|piece| piece.is_symbol("="))?;
    let value = &rest[equals + 1..];
    let target = match name.kind {
        Kind::UserVariable => {
            Target::User(name.text[1..].trim_matches(['`', '\'', '"']).to_ascii_lowercase())
        }
        _ => {
            let (own, name) = split_scope(&name.unquoted());
            Target::System(scope.unwrap_or(own), name)
        }
    };
    let value = match value {
        [word] if word.kind == Kind::Word => Assigned::Word(word.text.clone()),
        expression => Assigned::Expression(dialect::expression(expression)),
    };
    Some(Assignment { target, value })
}

fn schema(pieces: &[Piece]) -> Statement {
    let temporary = pieces.get(1).is_some_and(|second| second.is_word("TEMPORARY"));
    let mut plain = pieces.to_vec();
    if temporary && pieces[0].is_word("DROP") {
        plain.remove(1);
    }
    let table = pieces
        .iter()
        .position(|piece| piece.is_any(&["TABLE", "VIEW"]))
        .map(|at| at + 1)
        .or_else(|| pieces[0].is_word("TRUNCATE").then_some(1))
        .and_then(|at| {
            pieces[at..].iter().find(|piece| !piece.is_any(&["EXISTS", "IF", "NOT", "TABLE"]))
        })
        .map(|table| table.unquoted().to_ascii_lowercase());
    Statement::Schema { sqls: ddl::translate(&plain), temporary, table }
}

fn database_name(pieces: &[Piece]) -> Option<String> {
    pieces[2..]
        .iter()
        .find(|piece| !piece.is_any(&["EXISTS", "IF", "NOT"]))
        .map(|name| name.unquoted())
}

#[cfg(test)]
mod tests {
    use super::super::text::pieces;
    use super::*;
    use crate::sql::lexer::{Dialect, tokens};

    fn parsed(sql: &str) -> Option<Statement> {
        parse(&pieces(&tokens(sql, Dialect::MySql)))
    }

    #[test]
    fn transactions_are_recognised() {
        let begin = |read_only, snapshot| Some(Statement::Begin { read_only, snapshot });
        assert_eq!(parsed("begin"), begin(None, false));
        assert_eq!(parsed("START TRANSACTION READ ONLY"), begin(Some(true), false));
        assert_eq!(
            parsed("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE"),
            begin(Some(false), true)
        );
        assert_eq!(
            parsed("COMMIT AND CHAIN NO RELEASE"),
            Some(Statement::Commit { chain: true, release: false })
        );
        assert_eq!(
            parsed("ROLLBACK WORK TO SAVEPOINT a"),
            Some(Statement::Savepoint("ROLLBACK TO SAVEPOINT a".to_owned()))
        );
    }

    #[test]
    fn settings_know_their_scope() {
        assert_eq!(
            parsed("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"),
            Some(Statement::SetTransaction {
                scope: Scope::Session,
                read_only: Some(true),
                isolation: Some("READ-COMMITTED".to_owned())
            })
        );
        assert_eq!(
            parsed("SET TRANSACTION READ WRITE"),
            Some(Statement::SetTransaction {
                scope: Scope::Next,
                read_only: Some(false),
                isolation: None
            })
        );
        let Some(Statement::Set(parts)) =
            parsed("SET autocommit = 0, @@global.read_only = ON, @x := 1 + 2")
        else {
            panic!("not a SET")
        };
        assert_eq!(parts[0].target, Target::System(Scope::Session, "autocommit".to_owned()));
        assert_eq!(parts[1].target, Target::System(Scope::Global, "read_only".to_owned()));
        assert_eq!(parts[1].value, Assigned::Word("ON".to_owned()));
        assert_eq!(parts[2].target, Target::User("x".to_owned()));
        assert_eq!(parts[2].value, Assigned::Expression("1 + 2".to_owned()));
    }

    #[test]
    fn reads_and_writes_are_told_apart() {
        assert!(matches!(
            parsed("WITH a AS (SELECT 1) SELECT * FROM a"),
            Some(Statement::Read { .. })
        ));
        assert!(matches!(
            parsed("WITH a AS (SELECT 1) DELETE FROM t WHERE b IN (SELECT * FROM a)"),
            Some(Statement::Write { insert: false, .. })
        ));
        assert_eq!(parsed("/* nothing */ -- here"), None);
        assert!(matches!(parsed("FOO 1"), Some(Statement::Unknown(_))));
    }
}
