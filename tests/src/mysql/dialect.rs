//! Translates MySQL's queries and changes of data into SQLite's.

use super::text::{Piece, begins, closing, decode, join, literal, split_commas};
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

fn rewrite_insert(pieces: &mut Vec<Piece>) {
    let Some(first) = pieces.first() else { return };
    if !first.is_any(&["INSERT", "REPLACE"]) {
        return;
    }
    let mut at = 1;
    if pieces.get(at).is_some_and(|piece| piece.is_word("IGNORE")) {
        pieces[at].text = "OR IGNORE".to_owned();
        at += 1;
    }
    if pieces.get(at).is_some_and(|piece| !piece.is_word("INTO")) {
        pieces.insert(at, Piece { spaced: true, ..sql("INTO") });
    }
    // INSERT INTO name
    let after = at + 2;
    if pieces.get(after).is_some_and(|piece| piece.is_word("SET")) {
        set_to_values(pieces, after);
    }
    if pieces.len() > after + 1 && pieces[after].is_symbol("(") && pieces[after + 1].is_symbol(")")
    {
        pieces.drain(after..after + 2);
        let empty = pieces.get(after..after + 3).is_some_and(|rest| {
            rest[0].is_any(&["VALUE", "VALUES"]) && rest[1].is_symbol("(") && rest[2].is_symbol(")")
        });
        if empty {
            pieces.drain(after..after + 3);
            pieces.insert(after, sql(" DEFAULT VALUES"));
        }
    }
    if let Some(values) = pieces.iter_mut().find(|piece| piece.is_word("VALUE")) {
        values.text = "VALUES".to_owned();
    }
    let duplicate =
        (0..pieces.len()).find(|&at| begins(&pieces[at..], &["ON", "DUPLICATE", "KEY", "UPDATE"]));
    if let Some(at) = duplicate {
        let mut update = pieces.split_off(at + 4);
        pieces.truncate(at);
        pieces.push(sql(" ON CONFLICT DO UPDATE SET"));
        let mut at = 0;
        // VALUES(column) is the value that could not be inserted.
        while at + 3 < update.len() {
            if update[at].is_word("VALUES") && update[at + 1].is_symbol("(") {
                update[at].text = "excluded".to_owned();
                update[at + 1].text = ".".to_owned();
                update.remove(at + 3);
            }
            at += 1;
        }
        if let Some(first) = update.first_mut() {
            first.spaced = true;
        }
        pieces.append(&mut update);
    }
}

/// `UPDATE t SET … WHERE … ORDER BY … LIMIT n` and the like: SQLite limits queries only.
fn limit_changes(pieces: &mut Vec<Piece>) {
    let Some(first) = pieces.first() else { return };
    let table = match first.is_word("UPDATE") {
        true => 1,
        false if begins(pieces, &["DELETE", "FROM"]) => 2,
        false => return,
    };
    let mut depth = 0usize;
    let (mut condition, mut limited) = (None, false);
    for (at, piece) in pieces.iter().enumerate() {
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && piece.is_any(&["WHERE", "ORDER", "LIMIT"]) {
            condition.get_or_insert(at);
            limited |= piece.is_word("LIMIT");
        }
    }
    let (Some(condition), true) = (condition, limited) else { return };
    let Some(name) = pieces.get(table).map(|table| table.text.clone()) else { return };
    let select = format!(" WHERE rowid IN (SELECT rowid FROM {name} ");
    pieces.insert(condition, sql(&select));
    pieces.push(sql(")"));
}

/// `INSERT INTO t SET a = 1, b = 2`.
fn set_to_values(pieces: &mut Vec<Piece>, set: usize) {
    let end = (set..pieces.len())
        .find(|&at| begins(&pieces[at..], &["ON", "DUPLICATE"]))
        .unwrap_or(pieces.len());
    let (mut names, mut values) = (vec![sql(" (")], vec![sql(") VALUES (")]);
    for (at, assignment) in split_commas(&pieces[set + 1..end]).into_iter().enumerate() {
        let equals = assignment.iter().position(|piece| piece.is_symbol("="));
        let (name, value) = assignment.split_at(equals.unwrap_or(assignment.len()));
        if at > 0 {
            names.push(sql(", "));
            values.push(sql(", "));
        }
        names.extend_from_slice(name);
        values.extend_from_slice(value.get(1..).unwrap_or_default());
    }
    names.append(&mut values);
    names.push(sql(")"));
    pieces.splice(set..end, names);
}

/// Gives each expression of the outermost SELECT the name MySQL gives it: its own text.
fn name_columns(pieces: &mut Vec<Piece>) {
    const ENDS: [&str; 9] =
        ["FROM", "GROUP", "HAVING", "INTO", "LIMIT", "ORDER", "UNION", "WHERE", "WINDOW"];
    let start = 1 + pieces[1..]
        .iter()
        .take_while(|piece| piece.is_any(&ADVICE) || piece.is_any(&["ALL", "DISTINCT"]))
        .count();
    let mut depth = 0usize;
    let mut end = pieces.len();
    for (at, piece) in pieces.iter().enumerate().skip(start) {
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && piece.is_any(&ENDS) {
            end = at;
            break;
        }
    }
    let mut named = Vec::new();
    for (at, item) in split_commas(&pieces[start..end]).into_iter().enumerate() {
        if at > 0 {
            named.push(sql(","));
        }
        named.extend_from_slice(item);
        if !is_named(item) {
            let name = match item {
                [only] if only.kind == Kind::Text => decode(&only.text),
                _ => join(item),
            };
            named.push(sql(&format!(" AS \"{}\"", name.replace('"', "\"\""))));
        }
    }
    pieces.splice(start..end, named);
}

/// Whether an item of a SELECT has a name already: a column, `*`, or an alias.
fn is_named(item: &[Piece]) -> bool {
    let plain = item.iter().all(|piece| {
        matches!(piece.kind, Kind::Name | Kind::Word)
            || piece.is_symbol(".")
            || piece.is_symbol("*")
    });
    let Some((last, before)) = item.split_last() else { return true };
    let is_column = plain && (item.len() == 1 || item.len() % 2 == 1 && item[1].is_symbol("."));
    let literal = last.is_any(&["FALSE", "NULL", "TRUE"]);
    if is_column && !literal {
        return true;
    }
    let Some(previous) = before.last() else { return false };
    if previous.is_word("AS") {
        return true;
    }
    let is_name = matches!(last.kind, Kind::Name | Kind::Word)
        && !literal
        && !last.is_any(&["END", "UNKNOWN"]);
    let ends_expression = previous.is_symbol(")")
        || previous.is_word("END")
        || matches!(
            previous.kind,
            Kind::Name
                | Kind::Number
                | Kind::Param
                | Kind::SystemVariable
                | Kind::Text
                | Kind::UserVariable
        )
        || (previous.kind == Kind::Word
            && !previous
                .is_any(&["AND", "BETWEEN", "DIV", "IN", "IS", "LIKE", "MOD", "NOT", "OR"]));
    is_name && ends_expression
}

/// Translates literals, variables, operators and functions.
fn expressions(pieces: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    let mut depth = 0usize;
    // Depths at which an assignment to a user variable waits for its end.
    let mut assignments: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let piece = &pieces[at];
        let next = pieces.get(at + 1);
        let followed = |symbol: &str| next.is_some_and(|next| next.is_symbol(symbol));
        let adjacent =
            |symbol: &str| next.is_some_and(|next| next.is_symbol(symbol) && !next.spaced);
        let ends = piece.is_symbol(",")
            || piece.is_symbol(")")
            || piece.text == ","
            || (depth == 0 && piece.is_any(&["FROM", "WHERE", "LIMIT"]))
            || piece.text.starts_with(" AS \"");
        while ends && assignments.last() == Some(&depth) {
            assignments.pop();
            out.push(sql(")"));
        }
        if piece.is_symbol("(") {
            depth += 1;
        } else if piece.is_symbol(")") {
            depth = depth.saturating_sub(1);
        }
        let mut used = 1;
        let text = match piece.kind {
            Kind::Text => literal(&decode(&piece.text)),
            Kind::Number if piece.text.starts_with("0x") => hexadecimal(&piece.text[2..]),
            Kind::SystemVariable => {
                format!("mysql_variable({})", literal(piece.text[2..].trim_matches('`')))
            }
            Kind::UserVariable if followed(":") => {
                used = 3;
                assignments.push(depth);
                format!("mysql_assign({}, ", literal(&variable_name(piece)))
            }
            Kind::UserVariable => {
                format!("mysql_user_variable({})", literal(&variable_name(piece)))
            }
            Kind::Symbol if piece.text == "|" && adjacent("|") => {
                used = 2;
                " OR ".to_owned()
            }
            Kind::Symbol if piece.text == "&" && adjacent("&") => {
                used = 2;
                " AND ".to_owned()
            }
            Kind::Symbol
                if piece.text == "<"
                    && adjacent("=")
                    && pieces.get(at + 2).is_some_and(|third| third.is_symbol(">")) =>
            {
                used = 3;
                " IS ".to_owned()
            }
            // SQLite would divide two integers without a remainder.
            Kind::Symbol if piece.text == "/" => "* 1.0 /".to_owned(),
            Kind::Symbol if piece.text == "!" && !followed("=") => " NOT ".to_owned(),
            Kind::Word if next.is_some_and(|next| next.kind == Kind::Text) && introducer(piece) => {
                at += 1;
                continue;
            }
            Kind::Word if piece.is_word("AS") => {
                let (text, taken) = cast_type(&pieces[at..]);
                used = taken;
                text
            }
            Kind::Word if piece.is_word("COLLATE") && next.is_some_and(is_mysql_collation) => {
                at += 2;
                continue;
            }
            Kind::Word if piece.is_word("TIMESTAMPDIFF") && pieces.len() > at + 2 => {
                let unit = literal(&pieces[at + 2].text);
                used = 3;
                depth += 1;
                format!("timestampdiff({unit}")
            }
            Kind::Word => word(piece, followed("(")),
            _ => piece.text.clone(),
        };
        out.push(Piece { kind: piece.kind, text, spaced: piece.spaced });
        at += used;
    }
    out.extend(assignments.iter().map(|_| sql(")")));
    out
}

fn word(piece: &Piece, called: bool) -> String {
    let upper = piece.text.to_ascii_uppercase();
    let renamed = match (upper.as_str(), called) {
        ("CURRENT_DATE", true) => "curdate",
        ("CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP", true) => "now",
        ("LOCALTIME" | "LOCALTIMESTAMP", false) => "now()",
        ("CURRENT_USER", false) => "current_user()",
        ("GREATEST", true) => "max",
        ("IF", true) => "iif",
        ("LEAST", true) => "min",
        ("DIV", false) => "/",
        ("MOD", false) => "%",
        ("SEPARATOR", false) => ",",
        ("RAND", true) => "mysql_rand",
        _ => return piece.text.clone(),
    };
    renamed.to_owned()
}

fn variable_name(piece: &Piece) -> String {
    piece.text[1..].trim_matches(['`', '\'', '"']).to_ascii_lowercase()
}

fn hexadecimal(digits: &str) -> String {
    let padding = if digits.len() % 2 == 1 { "0" } else { "" };
    format!("x'{padding}{digits}'")
}

/// `_utf8mb4'text'`.
fn introducer(piece: &Piece) -> bool {
    piece.text.starts_with("_utf8") || piece.text.eq_ignore_ascii_case("_binary")
}

fn is_mysql_collation(piece: &Piece) -> bool {
    let name = piece.text.to_ascii_lowercase();
    ["ascii", "binary", "latin", "utf8"].iter().any(|prefix| {
        // SQLite has a collation of its own called `binary`.
        name.starts_with(prefix) && (name != "binary" || *prefix == "binary")
    })
}

/// The type at the end of a CAST; anything else after AS is left alone.
fn cast_type(pieces: &[Piece]) -> (String, usize) {
    let Some(r#type) = pieces.get(1) else { return ("AS".to_owned(), 1) };
    let mapped = match r#type.text.to_ascii_uppercase().as_str() {
        "SIGNED" | "UNSIGNED" => "INTEGER",
        "CHAR" | "DATE" | "DATETIME" | "JSON" | "NCHAR" | "TIME" => "TEXT",
        "BINARY" => "BLOB",
        _ => return ("AS".to_owned(), 1),
    };
    let mut used = 2;
    if pieces.get(used).is_some_and(|piece| piece.is_word("INTEGER")) {
        used += 1;
    }
    if pieces.get(used).is_some_and(|piece| piece.is_symbol("(")) {
        used = closing(pieces, used) + 1;
    }
    match pieces.get(used) {
        Some(end) if end.is_symbol(")") => (format!("AS {mapped}"), used),
        _ => ("AS".to_owned(), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::pieces;
    use super::*;
    use crate::sql::lexer::{Dialect, tokens};

    fn sql_of(mysql: &str) -> String {
        translate(&pieces(&tokens(mysql, Dialect::MySql))).sql
    }

    #[test]
    fn columns_are_named_by_their_text() {
        assert_eq!(
            sql_of("SELECT @@read_only"),
            "SELECT mysql_variable('read_only') AS \"@@read_only\""
        );
        assert_eq!(sql_of("SELECT 1"), "SELECT 1 AS \"1\"");
        assert_eq!(sql_of("SELECT 'a', b, t.c, *"), "SELECT 'a' AS \"a\", b, t.c, *");
        assert_eq!(sql_of("SELECT COUNT(*) n FROM t"), "SELECT COUNT(*) n FROM t");
        assert_eq!(sql_of("SELECT a + 1 FROM t"), "SELECT a + 1 AS \"a + 1\" FROM t");
        assert_eq!(sql_of("SELECT NULL"), "SELECT NULL AS \"NULL\"");
    }

    #[test]
    fn strings_and_operators_become_sqlites() {
        assert_eq!(
            sql_of("SELECT a FROM t WHERE b = \"it's\" && c <=> 'x\\'y' || !d"),
            "SELECT a FROM t WHERE b = 'it''s'  AND  c  IS  'x''y'  OR   NOT d"
        );
        assert_eq!(sql_of("SELECT CAST(a AS CHAR(3)) x"), "SELECT CAST(a AS TEXT) x");
    }

    #[test]
    fn locking_reads_are_recognised() {
        let locking = translate(&pieces(&tokens("SELECT a FROM t FOR UPDATE", Dialect::MySql)));
        assert_eq!(locking, Translated { sql: "SELECT a FROM t".to_owned(), locks: true });
        assert_eq!(sql_of("SELECT a FROM t LOCK IN SHARE MODE"), "SELECT a FROM t");
        assert_eq!(sql_of("SELECT a FROM t FOR SHARE SKIP LOCKED"), "SELECT a FROM t");
    }

    #[test]
    fn inserts_become_sqlites() {
        assert_eq!(
            sql_of("INSERT INTO t (a, b) VALUES (1, ?) ON DUPLICATE KEY UPDATE b = VALUES(b) + 1"),
            "INSERT INTO t (a, b) VALUES (1, ?) ON CONFLICT DO UPDATE SET b = excluded.b + 1"
        );
        assert_eq!(sql_of("INSERT IGNORE t VALUES (1)"), "INSERT OR IGNORE INTO t VALUES (1)");
        assert_eq!(
            sql_of("INSERT INTO t SET a = 1, b = f(2, 3)"),
            "INSERT INTO t ( a,  b) VALUES ( 1,  f(2, 3))"
        );
        assert_eq!(sql_of("INSERT INTO t () VALUES ()"), "INSERT INTO t DEFAULT VALUES");
    }

    #[test]
    fn schemas_go_and_system_tables_keep_theirs() {
        assert_eq!(sql_of("SELECT a FROM db.t"), "SELECT a FROM t");
        assert_eq!(
            sql_of("SELECT a FROM performance_schema.replication_group_members"),
            "SELECT a FROM performance_schema_replication_group_members"
        );
        assert_eq!(sql_of("DELETE FROM db.t"), "DELETE FROM t WHERE 1");
    }

    #[test]
    fn changes_can_be_limited() {
        assert_eq!(
            sql_of("UPDATE t SET a = ? WHERE b = ? ORDER BY c LIMIT 1"),
            "UPDATE t SET a = ? WHERE rowid IN (SELECT rowid FROM t  WHERE b = ? ORDER BY c LIMIT 1)"
        );
        assert_eq!(
            sql_of("DELETE FROM t LIMIT 2"),
            "DELETE FROM t WHERE rowid IN (SELECT rowid FROM t  LIMIT 2)"
        );
    }

    #[test]
    fn a_division_keeps_its_fraction() {
        assert_eq!(sql_of("SELECT a / 2 x, a DIV 2 y"), "SELECT a * 1.0 / 2 x, a / 2 y");
    }

    #[test]
    fn user_variables_are_read_and_assigned() {
        assert_eq!(
            sql_of("SELECT @a := @b + 1, 2 FROM t"),
            "SELECT mysql_assign('a',  mysql_user_variable('b') + 1) AS \"@a := @b + 1\", 2 AS \"2\" FROM t"
        );
    }
}
