//! Translates MySQL's table definitions into SQLite's.

use super::dialect::expression;
use super::text::{Piece, begins, closing, join, split_commas};
use crate::sql::lexer::Kind;

/// Translates CREATE, ALTER, DROP, RENAME and TRUNCATE into SQLite statements, to run in order.
pub(super) fn translate(pieces: &[Piece]) -> Vec<String> {
    let mut pieces: Vec<Piece> = pieces.to_vec();
    strip_schema(&mut pieces);
    if begins(&pieces, &["TRUNCATE"]) {
        let table = pieces.iter().rev().find(|piece| !piece.is_symbol(";"));
        return table
            .map(|table| format!("DELETE FROM {} WHERE 1", table.text))
            .into_iter()
            .collect();
    }
    if begins(&pieces, &["RENAME", "TABLE"]) {
        return split_commas(&pieces[2..])
            .into_iter()
            .filter(|part| part.len() == 3)
            .map(|part| format!("ALTER TABLE {} RENAME TO {}", part[0].text, part[2].text))
            .collect();
    }
    if begins(&pieces, &["DROP"]) {
        return drop_tables(&pieces);
    }
    if begins(&pieces, &["ALTER", "TABLE"]) && pieces.len() > 3 {
        let table = &pieces[2].text;
        return split_commas(&pieces[3..])
            .into_iter()
            .filter_map(|change| alter(table, change))
            .collect();
    }
    let is_table = pieces.iter().take(3).any(|piece| piece.is_word("TABLE"));
    if begins(&pieces, &["CREATE"]) && is_table {
        return vec![create_table(&pieces)];
    }
    // Indexes and views; the kind of index means nothing here.
    while let Some(at) = pieces.iter().position(|piece| piece.is_word("USING")) {
        pieces.drain(at..(at + 2).min(pieces.len()));
    }
    pieces.retain(|piece| !piece.is_any(&["FULLTEXT", "SPATIAL"]));
    vec![expression(&pieces)]
}

fn strip_schema(pieces: &mut Vec<Piece>) {
    let is_name = |piece: &Piece| matches!(piece.kind, Kind::Name | Kind::Word);
    let mut at = 1;
    // Before the first parenthesis only: a definition has no other qualified names.
    while at + 2 < pieces.len() && !pieces[at].is_symbol("(") {
        if is_name(&pieces[at]) && pieces[at + 1].is_symbol(".") && is_name(&pieces[at + 2]) {
            pieces[at + 2].spaced = true;
            pieces.drain(at..at + 2);
        }
        at += 1;
    }
}

fn drop_tables(pieces: &[Piece]) -> Vec<String> {
    let Some(table) = pieces.iter().position(|piece| piece.is_any(&["TABLE", "VIEW"])) else {
        // DROP INDEX name ON table
        let end = pieces.iter().position(|piece| piece.is_word("ON")).unwrap_or(pieces.len());
        return vec![join(&pieces[..end])];
    };
    let kind = &pieces[table].text;
    let mut names = table + 1;
    let exists = begins(&pieces[names..], &["IF", "EXISTS"]);
    if exists {
        names += 2;
    }
    let exists = if exists { "IF EXISTS " } else { "" };
    split_commas(&pieces[names..])
        .into_iter()
        .filter_map(|name| name.first())
        .map(|name| format!("DROP {kind} {exists}{}", name.text))
        .collect()
}

fn alter(table: &str, change: &[Piece]) -> Option<String> {
    let first = change.first()?;
    let mut rest = &change[1..];
    if rest.first().is_some_and(|piece| piece.is_word("COLUMN")) {
        rest = &rest[1..];
    }
    if first.is_word("ADD") {
        if rest.first()?.is_any(&["FOREIGN", "FULLTEXT", "INDEX", "KEY", "PRIMARY", "UNIQUE"]) {
            return None;
        }
        let end = rest.iter().position(|piece| piece.is_any(&["AFTER", "FIRST"]));
        let column = define_column(&rest[..end.unwrap_or(rest.len())]).sql;
        return Some(format!("ALTER TABLE {table} ADD COLUMN {column}"));
    }
    if first.is_word("DROP") {
        return Some(format!("ALTER TABLE {table} DROP COLUMN {}", rest.first()?.text));
    }
    if first.is_word("RENAME") {
        return Some(format!("ALTER TABLE {table} RENAME {}", join(&change[1..])));
    }
    // ENGINE, AUTO_INCREMENT, MODIFY: nothing SQLite needs to know.
    None
}

fn create_table(pieces: &[Piece]) -> String {
    let Some(open) = pieces.iter().position(|piece| piece.is_symbol("(")) else {
        return expression(pieces);
    };
    if pieces.iter().take(open).any(|piece| piece.is_any(&["AS", "SELECT", "LIKE"])) {
        return expression(pieces);
    }
    let end = closing(pieces, open);
    let definitions = split_commas(&pieces[open + 1..end]);
    let columns: Vec<Column> = definitions
        .iter()
        .filter(|definition| !is_constraint(definition))
        .map(|definition| define_column(definition))
        .collect();
    let counted = columns.iter().any(|column| column.counted);
    let mut parts: Vec<String> = columns.into_iter().map(|column| column.sql).collect();
    parts.extend(definitions.iter().filter_map(|definition| constraint(definition, counted)));
    format!("{} ({})", join(&pieces[..open]), parts.join(", "))
}

fn is_constraint(definition: &[Piece]) -> bool {
    const WORDS: [&str; 9] = [
        "CHECK",
        "CONSTRAINT",
        "FOREIGN",
        "FULLTEXT",
        "INDEX",
        "KEY",
        "PRIMARY",
        "SPATIAL",
        "UNIQUE",
    ];
    definition.first().is_some_and(|first| first.is_any(&WORDS))
}

/// A constraint of the table; plain indexes are left out. The counting column is the primary key
/// already.
fn constraint(definition: &[Piece], counted: bool) -> Option<String> {
    let mut rest = definition;
    if !is_constraint(rest) {
        return None;
    }
    if rest[0].is_word("CONSTRAINT") {
        let named = !rest.get(1)?.is_any(&["CHECK", "FOREIGN", "PRIMARY", "UNIQUE"]);
        rest = &rest[if named { 2 } else { 1 }..];
    }
    let first = rest.first()?;
    let open = rest.iter().position(|piece| piece.is_symbol("("))?;
    let end = closing(rest, open);
    // `name(10)` indexes the first characters only.
    let names: Vec<String> = split_commas(&rest[open + 1..end])
        .into_iter()
        .filter_map(|name| name.first())
        .map(|name| name.text.clone())
        .collect();
    if first.is_word("PRIMARY") {
        return (!counted).then(|| format!("PRIMARY KEY ({})", names.join(", ")));
    }
    if first.is_word("UNIQUE") {
        return Some(format!("UNIQUE ({})", names.join(", ")));
    }
    if first.is_any(&["CHECK", "FOREIGN"]) {
        return Some(expression(rest));
    }
    None
}

struct Column {
    sql: String,
    /// It is an AUTO_INCREMENT column.
    counted: bool,
}

fn define_column(definition: &[Piece]) -> Column {
    let Some((name, rest)) = definition.split_first() else {
        return Column { sql: String::new(), counted: false };
    };
    let counted = rest.iter().any(|piece| piece.is_word("AUTO_INCREMENT"));
    if counted {
        let sql = format!("{} INTEGER PRIMARY KEY AUTOINCREMENT", name.text);
        return Column { sql, counted };
    }
    let mut kept: Vec<Piece> = vec![name.clone()];
    let mut at = 0;
    if rest.first().is_some_and(|piece| piece.is_any(&["ENUM", "SET"])) {
        let text = Piece { text: "TEXT".to_owned(), spaced: true, ..rest[0].clone() };
        kept.push(text);
        at = if rest.len() > 1 { closing(rest, 1) + 1 } else { 1 };
    }
    while at < rest.len() {
        let here = &rest[at..];
        if begins(here, &["CHARACTER", "SET"]) {
            at += 3;
        } else if begins(here, &["ON", "UPDATE"]) {
            at += 3;
            if rest.get(at).is_some_and(|piece| piece.is_symbol("(")) {
                at = closing(rest, at) + 1;
            }
        } else if here[0].is_any(&["CHARSET", "COLLATE", "COMMENT"]) {
            at += 2;
        } else if here[0].is_any(&["INVISIBLE", "VISIBLE", "ZEROFILL"]) {
            at += 1;
        } else if here[0].is_any(&["CURRENT_TIMESTAMP", "NOW"]) {
            kept.push(Piece { text: "CURRENT_TIMESTAMP".to_owned(), ..here[0].clone() });
            at += 1;
            if rest.get(at).is_some_and(|piece| piece.is_symbol("(")) {
                at = closing(rest, at) + 1;
            }
        } else if here[0].is_word("KEY") && !rest[at.saturating_sub(1)].is_word("PRIMARY") {
            // `UNIQUE KEY`, and `KEY` alone for the primary key.
            if !rest[at.saturating_sub(1)].is_word("UNIQUE") {
                kept.push(Piece { text: "PRIMARY KEY".to_owned(), ..here[0].clone() });
            }
            at += 1;
        } else {
            kept.push(here[0].clone());
            at += 1;
        }
    }
    Column { sql: expression(&kept), counted }
}

#[cfg(test)]
mod tests {
    use super::super::text::pieces;
    use super::*;
    use crate::sql::lexer::{Dialect, tokens};

    fn sql_of(mysql: &str) -> Vec<String> {
        translate(&pieces(&tokens(mysql, Dialect::MySql)))
    }

    #[test]
    fn a_typical_table_becomes_sqlites() {
        assert_eq!(
            sql_of(
                "CREATE TABLE IF NOT EXISTS `db`.`t` (
                    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
                    name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'x',
                    kind ENUM('a', 'b') COMMENT 'what',
                    at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
                    PRIMARY KEY (id), UNIQUE KEY by_name (name(10)), KEY by_kind (kind)
                ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
            ),
            ["CREATE TABLE IF NOT EXISTS `t` (id INTEGER PRIMARY KEY AUTOINCREMENT, \
              name VARCHAR(40) NOT NULL DEFAULT 'x', kind TEXT, \
              at DATETIME(6) DEFAULT CURRENT_TIMESTAMP, UNIQUE (name))"]
        );
    }

    #[test]
    fn keys_of_several_columns_stay() {
        assert_eq!(
            sql_of("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))"),
            ["CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))"]
        );
    }

    #[test]
    fn lists_become_several_statements() {
        assert_eq!(
            sql_of("DROP TABLE IF EXISTS db.a, b"),
            ["DROP TABLE IF EXISTS a", "DROP TABLE IF EXISTS b"]
        );
        assert_eq!(sql_of("TRUNCATE TABLE t"), ["DELETE FROM t WHERE 1"]);
        assert_eq!(sql_of("RENAME TABLE a TO b"), ["ALTER TABLE a RENAME TO b"]);
        assert_eq!(
            sql_of("ALTER TABLE t ADD COLUMN a INT NOT NULL DEFAULT 0 AFTER b, ENGINE=InnoDB"),
            ["ALTER TABLE t ADD COLUMN a INT NOT NULL DEFAULT 0"]
        );
    }
}
