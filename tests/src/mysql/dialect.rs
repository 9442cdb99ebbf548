//! Translates MySQL's queries and changes of data into SQLite's.

mod changes;
mod columns;
mod expressions;

use changes::{limit_changes, rewrite_insert};
use columns::name_columns;
use expressions::expressions;

use super::text::{Piece, begins, closing, join};
use crate::sql::lexer::Kind;

/// Words that tell MySQL how to run a statement, not what to do.
const ADVICE: [&str; 10] = [
    "DELAYED",
    "HIGH_PRIORITY",
    "LOW_PRIORITY",
    "QUICK",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_CACHE",
    "SQL_CALC_FOUND_ROWS",
    "SQL_NO_CACHE",
    "SQL_SMALL_RESULT",
];

/// Schemas of the server itself; their tables have the schema in their name here.
const SYSTEM_SCHEMAS: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

/// What a translation found on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) sql: String,
    /// The query locks the rows it reads.
    pub(super) locks: bool,
}

/// Translates SELECT, WITH, INSERT, REPLACE, UPDATE and DELETE. What is not understood is left as
/// it is, for SQLite to judge.
pub(super) fn translate(pieces: &[Piece]) -> Translated {
    let mut pieces = pieces.to_vec();
    if begins(&pieces, &["TABLE"]) {
        pieces[0].text = "SELECT * FROM".to_owned();
    }
    let locks = strip_locking(&mut pieces);
    if pieces.first().is_some_and(|first| first.is_word("SELECT")) {
        name_columns(&mut pieces);
    }
    strip_advice(&mut pieces);
    strip_schemas(&mut pieces);
    rewrite_insert(&mut pieces);
    limit_changes(&mut pieces);
    if begins(&pieces, &["DELETE", "FROM"])
        && !pieces.iter().any(|piece| piece.is_any(&["LIMIT", "WHERE"]))
    {
        // SQLite empties a table without looking at its rows, unless there is a condition. The
        // replication log needs the rows.
        pieces.push(sql(" WHERE 1"));
    }
    if begins(&pieces, &["UPDATE", "IGNORE"]) {
        pieces[1].text = "OR IGNORE".to_owned();
    }
    let sql = join(&expressions(&pieces));
    Translated { sql, locks }
}

/// Translates an expression.
pub(super) fn expression(pieces: &[Piece]) -> String {
    join(&expressions(pieces))
}

/// A piece that is SQLite's already. It must not be looked at again.
fn sql(text: &str) -> Piece {
    Piece { kind: Kind::Comment, text: text.to_owned(), spaced: false }
}

/// Removes `FOR UPDATE`, `FOR SHARE` and `LOCK IN SHARE MODE` from the end.
fn strip_locking(pieces: &mut Vec<Piece>) -> bool {
    let mut found = false;
    while let Some(at) = pieces.windows(2).position(|pair| {
        (pair[0].is_word("FOR") && pair[1].is_any(&["UPDATE", "SHARE"]))
            || (pair[0].is_word("LOCK") && pair[1].is_word("IN"))
    }) {
        found = true;
        let rest = &pieces[at + 2..];
        let length = rest
            .iter()
            .take_while(|piece| !piece.is_symbol(")") && !piece.is_any(&["UNION", "FOR"]))
            .count();
        pieces.drain(at..at + 2 + length);
    }
    found
}

fn strip_advice(pieces: &mut Vec<Piece>) {
    pieces.retain(|piece| !piece.is_any(&ADVICE));
    let mut at = 1;
    while at < pieces.len() {
        let after_verb = pieces[at - 1].is_word("SELECT");
        if after_verb && pieces[at].is_word("STRAIGHT_JOIN") {
            pieces.remove(at);
        } else if pieces[at - 1].is_word("FROM") && pieces[at].is_word("DUAL") {
            pieces.drain(at - 1..=at);
        } else if pieces[at - 1].is_any(&["FORCE", "IGNORE", "USE"])
            && pieces[at].is_any(&["INDEX", "KEY"])
        {
            let open = pieces.iter().skip(at).position(|piece| piece.is_symbol("("));
            let end = open.map_or(at, |open| closing(pieces, at + open));
            pieces.drain(at - 1..=end.min(pieces.len() - 1));
        } else {
            at += 1;
        }
    }
}

/// All databases share one set of tables, so the name of the database goes; a table of the server's
/// own schemas keeps it as part of its name.
fn strip_schemas(pieces: &mut Vec<Piece>) {
    let mut at = 1;
    let is_name = |piece: &Piece| matches!(piece.kind, Kind::Name | Kind::Word);
    while at + 2 < pieces.len() {
        let qualified = is_name(&pieces[at])
            && pieces[at + 1].is_symbol(".")
            && is_name(&pieces[at + 2])
            && pieces[at - 1].is_any(&["EXISTS", "FROM", "INTO", "JOIN", "TABLE", "UPDATE"]);
        if qualified {
            let schema = pieces[at].unquoted().to_ascii_lowercase();
            if SYSTEM_SCHEMAS.contains(&schema.as_str()) {
                let table = pieces[at + 2].unquoted().to_ascii_lowercase();
                pieces[at + 2].text = format!("{schema}_{table}");
                pieces[at + 2].kind = Kind::Word;
            }
            pieces[at + 2].spaced = true;
            pieces.drain(at..at + 2);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests;
