//! T-SQL statements to what SQLite understands: session functions become literals, system views
//! become subqueries, T-SQL clauses become those of SQLite.

use super::boundaries::{closing, top_level};
use super::context::Context;
use super::lexer::{Kind, Token, word};
use super::sql_error::SqlError;
use super::substitution::Substitution;
use super::tables::{CreatedTable, create_table};

/// A statement for SQLite.
#[derive(Debug)]
pub(crate) struct Translated {
    pub(crate) tokens: Vec<Token>,
    /// Whether it reads a system view.
    pub(crate) system: bool,
    /// Columns of a table it creates.
    pub(crate) created: Option<CreatedTable>,
}

/// Translates one statement.
pub(crate) fn translate(tokens: &[Token], context: &Context<'_>) -> Result<Translated, SqlError> {
    let mut substitution = Substitution { context, out: Vec::new(), system: false };
    substitution.run(tokens)?;
    let Substitution { out, system, .. } = substitution;
    let out = limits(&out);
    let (tokens, created) = match out.first() {
        Some(first) if first.is("CREATE") && out.get(1).is_some_and(|t| t.is("TABLE")) => {
            let (tokens, created) = create_table(&out)?;
            (tokens, Some(created))
        }
        Some(first) if first.is("INSERT") => (returning(insert_into(out)), None),
        Some(first) if first.is("DELETE") => (returning(delete_from(out)), None),
        Some(first) if first.is("UPDATE") => (returning(out), None),
        Some(first) if first.is("TRUNCATE") => {
            let mut delete = vec![word("DELETE"), word("FROM")];
            delete.extend_from_slice(out.get(2..).unwrap_or_default());
            (delete, None)
        }
        _ => (out, None),
    };
    Ok(Translated { tokens, system, created })
}

/// `SELECT TOP (n) …` to `SELECT … LIMIT n`, `OFFSET n ROWS FETCH NEXT m ROWS ONLY` to `LIMIT m
/// OFFSET n`.
fn limits(tokens: &[Token]) -> Vec<Token> {
    let mut out = Vec::new();
    // Limits to be written where the parenthesis around their SELECT closes.
    let mut pending: Vec<(i32, Vec<Token>)> = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.symbol("(") {
            depth += 1;
        } else if token.symbol(")") {
            while pending.last().is_some_and(|(of, _)| *of == depth) {
                if let Some((_, limit)) = pending.pop() {
                    out.push(word("LIMIT"));
                    out.extend(limit);
                }
            }
            depth -= 1;
        } else if token.is("TOP") && at > 0 && tokens[at - 1].is_any(&["SELECT", "DISTINCT", "ALL"])
        {
            let (count, used) = expression(&tokens[at + 1..]);
            pending.push((depth, count));
            at += 1 + used;
            continue;
        } else if token.is("OFFSET") {
            let (skip, used) = expression(&tokens[at + 1..]);
            let after = at + 1 + used;
            if tokens.get(after).is_some_and(|token| token.is_any(&["ROW", "ROWS"])) {
                at = after + 1;
                let mut take = vec![Token::new(Kind::Symbol, "-1")];
                if tokens.get(at).is_some_and(|token| token.is("FETCH")) {
                    let (count, used) = expression(tokens.get(at + 2..).unwrap_or_default());
                    take = count;
                    at = (at + 2 + used + 2).min(tokens.len());
                }
                out.push(word("LIMIT"));
                out.extend(take);
                out.push(word("OFFSET"));
                out.extend(skip);
                continue;
            }
        }
        out.push(token.clone());
        at += 1;
    }
    while let Some((_, limit)) = pending.pop() {
        out.push(word("LIMIT"));
        out.extend(limit);
    }
    out
}

/// One number, variable, or parenthesis at the front, and its length.
fn expression(tokens: &[Token]) -> (Vec<Token>, usize) {
    let length = match tokens.first() {
        Some(token) if token.symbol("(") => {
            closing(tokens, 0).map_or(tokens.len(), |close| close + 1)
        }
        Some(_) => 1,
        None => 0,
    };
    (tokens[..length].to_vec(), length)
}

/// T-SQL may leave INTO out.
fn insert_into(mut tokens: Vec<Token>) -> Vec<Token> {
    if !tokens.get(1).is_some_and(|token| token.is("INTO")) {
        tokens.insert(1, word("INTO"));
    }
    tokens
}

/// T-SQL may leave FROM out.
fn delete_from(mut tokens: Vec<Token>) -> Vec<Token> {
    if !tokens.get(1).is_some_and(|token| token.is("FROM")) {
        tokens.insert(1, word("FROM"));
    }
    tokens
}

/// `OUTPUT INSERTED.x, …` to a RETURNING clause at the end.
fn returning(mut tokens: Vec<Token>) -> Vec<Token> {
    let Some(start) = top_level(&tokens, "OUTPUT") else { return tokens };
    let end = ["VALUES", "SELECT", "DEFAULT", "WHERE", "FROM"]
        .iter()
        .filter_map(|word| top_level(&tokens[start..], word))
        .min()
        .map_or(tokens.len(), |length| start + length);
    let list: Vec<Token> = tokens.drain(start..end).skip(1).collect();
    tokens.push(word("RETURNING"));
    let mut at = 0;
    while at < list.len() {
        let prefix = list[at].is_any(&["INSERTED", "DELETED"]);
        if prefix && list.get(at + 1).is_some_and(|token| token.symbol(".")) {
            at += 2;
        } else {
            tokens.push(list[at].clone());
            at += 1;
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::context::tests::context;
    use super::super::lexer::{render, tokenize};
    use super::super::value::SqlType;
    use super::*;

    fn sqlite(sql: &str) -> String {
        render(&translate(&tokenize(sql).unwrap(), &context()).unwrap().tokens)
    }

    #[test]
    fn top_and_offset_become_limits() {
        assert_eq!(
            sqlite("SELECT TOP 3 a FROM t ORDER BY a"),
            "SELECT a FROM t ORDER BY a LIMIT 3"
        );
        assert_eq!(sqlite("SELECT TOP (@n) a FROM t"), "SELECT a FROM t LIMIT ( @n )");
        assert_eq!(
            sqlite("SELECT a FROM (SELECT TOP 1 a FROM t) x"),
            "SELECT a FROM ( SELECT a FROM t LIMIT 1 ) x"
        );
        assert_eq!(
            sqlite("SELECT a FROM t ORDER BY a OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY"),
            "SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 2"
        );
    }

    #[test]
    fn an_identity_column_becomes_an_autoincrement_key() {
        let tokens = tokenize(
            "CREATE TABLE dbo.[t] (id BIGINT IDENTITY(1,1) NOT NULL, n NVARCHAR(MAX) NULL, d DECIMAL(10,2), \
             CONSTRAINT pk PRIMARY KEY CLUSTERED (id))",
        )
        .unwrap();
        let translated = translate(&tokens, &context()).unwrap();
        assert_eq!(
            render(&translated.tokens),
            "CREATE TABLE \"t\" ( id INTEGER PRIMARY KEY AUTOINCREMENT , n NVARCHAR NULL , d DECIMAL ( 10 , 2 ) )"
        );
        assert_eq!(
            translated.created.unwrap(),
            CreatedTable {
                name: "t".into(),
                columns: vec![
                    ("id".into(), SqlType::BigInt),
                    ("n".into(), SqlType::NVarChar),
                    ("d".into(), SqlType::Numeric { scale: 2 })
                ],
                identity: true
            }
        );
    }

    #[test]
    fn session_functions_become_literals() {
        assert_eq!(
            sqlite("SELECT @@TRANCOUNT, XACT_STATE(), DB_NAME(), SCOPE_IDENTITY()"),
            "SELECT 1 , 1 , 'app' , NULL"
        );
        assert_eq!(
            sqlite(
                "SELECT DATABASEPROPERTYEX ( DB_NAME() , 'Updateability' ), sys.fn_hadr_is_primary_replica(DB_NAME())"
            ),
            "SELECT 'READ_WRITE' , 1"
        );
    }

    #[test]
    fn output_becomes_returning() {
        assert_eq!(
            sqlite("INSERT t (a) OUTPUT INSERTED.id, INSERTED.a VALUES (1)"),
            "INSERT INTO t ( a ) VALUES ( 1 ) RETURNING id , a"
        );
        assert_eq!(
            sqlite("DELETE t OUTPUT deleted.id WHERE a = 1"),
            "DELETE FROM t WHERE a = 1 RETURNING id"
        );
    }

    #[test]
    fn hints_schemas_and_temporary_tables_are_understood() {
        assert_eq!(sqlite("SELECT a FROM app.dbo.t WITH (NOLOCK, ROWLOCK)"), "SELECT a FROM t");
        assert_eq!(sqlite("CREATE TABLE #x (a INT)"), "CREATE TEMP TABLE \"#x\" ( a INT )");
        assert_eq!(
            sqlite("SELECT CONVERT(NVARCHAR(MAX), a) FROM t"),
            "SELECT CAST ( a AS NVARCHAR ) FROM t"
        );
    }
}
