//! INSERT, REPLACE, UPDATE and DELETE.

use super::sql;
use crate::mysql::text::{Piece, begins, split_commas};

pub(super) fn rewrite_insert(pieces: &mut Vec<Piece>) {
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
pub(super) fn limit_changes(pieces: &mut Vec<Piece>) {
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
