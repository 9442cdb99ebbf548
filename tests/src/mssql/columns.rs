//! Which columns a statement yields: their names and wire types, guessed from its text.

use super::boundaries::{split_commas, top_level};
use super::lexer::{Kind, Token};
use super::value::SqlType;

/// What can be said about one item of a select list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Empty for an expression without alias, as SQL Server does it.
    pub(crate) name: String,
    pub(crate) ty: Option<SqlType>,
    /// The expression, without its alias.
    pub(crate) expression: Vec<Token>,
}

/// The items of the select list or RETURNING clause, `None` when there is none or it has a `*`.
pub(crate) fn items(
    tokens: &[Token],
    lookup: &impl Fn(&Token) -> Option<SqlType>,
) -> Option<Vec<Item>> {
    let list = list(tokens)?;
    let starred =
        |item: &Vec<Token>| matches!(&item[..], [star] | [_, _, star] if star.symbol("*"));
    let parts = split_commas(list);
    if parts.iter().any(|part| part.is_empty() || starred(part)) {
        return None;
    }
    Some(parts.into_iter().map(|part| item(part, lookup)).collect())
}

/// The tokens of the list itself.
fn list(tokens: &[Token]) -> Option<&[Token]> {
    if let Some(returning) = top_level(tokens, "RETURNING") {
        return Some(&tokens[returning + 1..]);
    }
    if !tokens.first()?.is_any(&["SELECT", "WITH"]) {
        return None;
    }
    let mut start = top_level(tokens, "SELECT")? + 1;
    while tokens.get(start)?.is_any(&["DISTINCT", "ALL"]) {
        start += 1;
    }
    let rest = &tokens[start..];
    let end =
        ["FROM", "WHERE", "UNION", "EXCEPT", "INTERSECT", "ORDER", "GROUP", "HAVING", "LIMIT"]
            .iter()
            .filter_map(|word| top_level(rest, word))
            .min()
            .unwrap_or(rest.len());
    Some(&rest[..end])
}

fn item(mut tokens: Vec<Token>, lookup: &impl Fn(&Token) -> Option<SqlType>) -> Item {
    let mut alias = None;
    if let Some(as_at) = top_level(&tokens, "AS") {
        alias = tokens.get(as_at + 1).and_then(|token| token.name().or_else(|| token.string()));
        tokens.truncate(as_at);
    } else if let [.., before, last] = &tokens[..] {
        // `expression alias`
        let names = last.name().filter(|_| !last.is_any(&["NULL", "END"]));
        if names.is_some() && before.kind != Kind::Symbol || names.is_some() && before.symbol(")") {
            alias = names;
            tokens.pop();
        }
    }
    let own = match &tokens[..] {
        [name] if name.ty.is_none() && !name.is("NULL") => name.name(),
        [_, dot, name] if dot.symbol(".") => name.name(),
        _ => None,
    };
    Item {
        name: alias.or(own).unwrap_or_default(),
        ty: expression_type(&tokens, lookup),
        expression: tokens,
    }
}

fn expression_type(
    tokens: &[Token],
    lookup: &impl Fn(&Token) -> Option<SqlType>,
) -> Option<SqlType> {
    let first = tokens.first()?;
    if first.is("CAST") && tokens.last()?.symbol(")") {
        let inner = tokens.get(2..tokens.len() - 1)?;
        let ty = inner.get(top_level(inner, "AS")? + 1..)?;
        let scale = ty.get(4).and_then(|token| token.text.parse().ok());
        return Some(SqlType::from_name(&ty.first()?.text, scale));
    }
    if first.is_any(&["COUNT", "LENGTH", "INSTR"]) {
        return Some(SqlType::Int);
    }
    if first.is("COUNT_BIG") {
        return Some(SqlType::BigInt);
    }
    if first.is("IFNULL") {
        // ISNULL has the type of its first argument.
        return tokens.get(2..).and_then(|rest| {
            split_commas(rest).first().map(|first| expression_type(first, lookup))
        })?;
    }
    // Of a CASE only the results count, not what they depend on.
    let case = first.is("CASE");
    let counts = |at: usize| !case || at > 0 && tokens[at - 1].is_any(&["THEN", "ELSE"]);
    let operands = tokens.iter().enumerate().filter(|(at, _)| counts(*at));
    operands.filter_map(|(_, token)| operand_type(token, lookup)).reduce(SqlType::combined)
}

fn operand_type(token: &Token, lookup: &impl Fn(&Token) -> Option<SqlType>) -> Option<SqlType> {
    if token.ty.is_some() {
        return token.ty;
    }
    match token.kind {
        Kind::Number => Some(match token.text.split_once('.') {
            _ if token.text.contains(['e', 'E']) => SqlType::Float,
            Some((_, decimals)) => SqlType::Numeric { scale: decimals.len() as u8 },
            None if token.text.parse::<i32>().is_ok() => SqlType::Int,
            None => SqlType::BigInt,
        }),
        Kind::Text => Some(SqlType::NVarChar),
        Kind::Word | Kind::Quoted | Kind::Variable => lookup(token),
        Kind::Global | Kind::Symbol => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::lexer::tokenize;
    use super::*;

    fn columns(sql: &str) -> Option<Vec<(String, Option<SqlType>)>> {
        let lookup = |token: &Token| match token.text.as_str() {
            "id" => Some(SqlType::BigInt),
            "@P1" => Some(SqlType::Float),
            _ => None,
        };
        let items = items(&tokenize(sql).unwrap(), &lookup)?;
        Some(items.into_iter().map(|item| (item.name, item.ty)).collect())
    }

    #[test]
    fn names_and_types_come_from_the_select_list() {
        assert_eq!(
            columns("SELECT 1, id, t.id AS x, id + 1 y, COUNT(*), @P1, 'a', 1.25 FROM t").unwrap(),
            [
                (String::new(), Some(SqlType::Int)),
                ("id".into(), Some(SqlType::BigInt)),
                ("x".into(), Some(SqlType::BigInt)),
                ("y".into(), Some(SqlType::BigInt)),
                (String::new(), Some(SqlType::Int)),
                (String::new(), Some(SqlType::Float)),
                (String::new(), Some(SqlType::NVarChar)),
                (String::new(), Some(SqlType::Numeric { scale: 2 })),
            ]
        );
        assert_eq!(
            columns("SELECT CAST ( id AS INT ) AS n").unwrap(),
            [("n".to_owned(), Some(SqlType::Int))]
        );
        let unnamed = |ty| Some(vec![(String::new(), Some(ty))]);
        assert_eq!(columns("SELECT IFNULL(id, 'x')"), unnamed(SqlType::BigInt));
        assert_eq!(
            columns("SELECT CASE WHEN id > 5 THEN 'a' ELSE 'b' END"),
            unnamed(SqlType::NVarChar)
        );
    }

    #[test]
    fn a_star_or_no_list_says_nothing() {
        assert_eq!(columns("SELECT * FROM t"), None);
        assert_eq!(columns("SELECT t.*, 1 FROM t"), None);
        assert_eq!(columns("DELETE FROM t"), None);
        assert_eq!(columns("INSERT INTO t VALUES (1) RETURNING id").unwrap().len(), 1);
    }
}
