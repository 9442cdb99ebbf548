//! CREATE TABLE for SQLite, and what is kept of it.

use super::boundaries::{closing, split_commas, top_level};
use super::lexer::{Token, symbol, word};
use super::sql_error::SqlError;
use super::value::SqlType;

/// What the catalog keeps of a CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreatedTable {
    pub(crate) name: String,
    pub(crate) columns: Vec<(String, SqlType)>,
    pub(crate) identity: bool,
}

/// `CREATE TABLE`: IDENTITY becomes an autoincrement key, types are noted for the catalog.
pub(super) fn create_table(tokens: &[Token]) -> Result<(Vec<Token>, CreatedTable), SqlError> {
    let open = tokens
        .iter()
        .position(|token| token.symbol("("))
        .ok_or_else(|| SqlError::syntax("TABLE"))?;
    let close = closing(tokens, open).ok_or_else(|| SqlError::syntax("("))?;
    let name = tokens[open - 1].name().ok_or_else(|| SqlError::syntax(&tokens[open - 1].text))?;
    let mut created = CreatedTable { name: name.clone(), columns: Vec::new(), identity: false };
    let parts = split_commas(&tokens[open + 1..close]);
    let identity_column = parts
        .iter()
        .find(|part| top_level(part, "IDENTITY").is_some())
        .and_then(|part| part.first()?.name());
    let mut definitions = Vec::new();
    for part in &parts {
        let part = without_max(part);
        let constraint = part.first().is_none_or(|first| {
            first.is_any(&["CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "INDEX"])
        });
        if constraint {
            if !is_key_of(&part, identity_column.as_deref()) {
                definitions.push(part);
            }
            continue;
        }
        let (Some(column), Some(ty)) = (part[0].name(), part.get(1).and_then(Token::name)) else {
            return Err(SqlError::syntax(&part[0].text));
        };
        let scale = part.get(5).filter(|_| part.get(4).is_some_and(|token| token.symbol(",")));
        let scale = scale.and_then(|token| token.text.parse().ok());
        created.columns.push((column.clone(), SqlType::from_name(&ty, scale)));
        if identity_column.as_deref() == Some(column.as_str()) {
            created.identity = true;
            let key = ["INTEGER", "PRIMARY", "KEY", "AUTOINCREMENT"];
            definitions.push(std::iter::once(part[0].clone()).chain(key.map(word)).collect());
        } else {
            definitions.push(part);
        }
    }
    let temporary = name.starts_with('#');
    let mut out = vec![word("CREATE")];
    if temporary {
        out.push(word("TEMP"));
    }
    out.extend_from_slice(&tokens[1..=open]);
    out.extend(definitions.join(&symbol(",")));
    out.push(symbol(")"));
    Ok((out, created))
}

/// Whether a table constraint makes the identity column the primary key, which it is anyway.
fn is_key_of(part: &[Token], identity: Option<&str>) -> bool {
    let Some(identity) = identity else { return false };
    let Some(primary) = top_level(part, "PRIMARY") else { return false };
    let columns: Vec<&Token> = part[primary..]
        .iter()
        .filter(|token| token.name().is_some() && !token.is_any(&["PRIMARY", "KEY", "ASC", "DESC"]))
        .collect();
    matches!(columns[..], [only] if only.name().is_some_and(|name| name.eq_ignore_ascii_case(identity)))
}

/// Type names without `(MAX)`, which SQLite does not parse.
pub(super) fn without_max(tokens: &[Token]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let max = tokens[at].symbol("(") && tokens.get(at + 1).is_some_and(|token| token.is("MAX"));
        if max {
            at += 3;
        } else {
            out.push(tokens[at].clone());
            at += 1;
        }
    }
    out
}
