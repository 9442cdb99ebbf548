//! Literals, variables, operators and functions.

use super::sql;
use crate::mysql::text::{Piece, closing, decode, literal};
use crate::sql::lexer::Kind;

/// Translates literals, variables, operators and functions.
pub(super) fn expressions(pieces: &[Piece]) -> Vec<Piece> {
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
