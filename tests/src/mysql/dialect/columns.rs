//! Names of result columns.

use super::{ADVICE, sql};
use crate::mysql::text::{Piece, decode, join, split_commas};
use crate::sql::lexer::Kind;

/// Gives each expression of the outermost SELECT the name MySQL gives it: its own text.
pub(super) fn name_columns(pieces: &mut Vec<Piece>) {
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
