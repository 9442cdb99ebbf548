//! T-SQL statements to what SQLite understands: session functions become literals, system views
//! become subqueries, T-SQL clauses become those of SQLite.

use super::context::Context;
use super::lexer::{Kind, Token};
use super::program::{split_commas, top_level};
use super::sql_error::SqlError;
use super::system_views;
use super::value::SqlType;

/// A statement for SQLite.
#[derive(Debug)]
pub(crate) struct Translated {
    pub(crate) tokens: Vec<Token>,
    /// Whether it reads a system view.
    pub(crate) system: bool,
    /// Columns of a table it creates.
    pub(crate) created: Option<CreatedTable>,
}

/// What the catalog keeps of a CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreatedTable {
    pub(crate) name: String,
    pub(crate) columns: Vec<(String, SqlType)>,
    pub(crate) identity: bool,
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

pub(crate) fn word(text: &str) -> Token {
    Token::new(Kind::Word, text)
}

pub(crate) fn symbol(text: &str) -> Token {
    Token::new(Kind::Symbol, text)
}

const HINTS: &[&str] = &[
    "NOLOCK",
    "HOLDLOCK",
    "UPDLOCK",
    "ROWLOCK",
    "TABLOCK",
    "TABLOCKX",
    "READPAST",
    "XLOCK",
    "PAGLOCK",
    "SERIALIZABLE",
    "READCOMMITTED",
    "READUNCOMMITTED",
    "REPEATABLEREAD",
    "READCOMMITTEDLOCK",
    "NOWAIT",
    "SNAPSHOT",
];

struct Substitution<'c> {
    context: &'c Context<'c>,
    out: Vec<Token>,
    system: bool,
}

impl Substitution<'_> {
    fn run(&mut self, tokens: &[Token]) -> Result<(), SqlError> {
        let mut at = 0;
        while at < tokens.len() {
            at += self.one(&tokens[at..])?;
        }
        Ok(())
    }

    /// Handles what stands at the front and says how many tokens that was.
    fn one(&mut self, rest: &[Token]) -> Result<usize, SqlError> {
        let token = &rest[0];
        if token.kind == Kind::Global {
            self.out.push(self.context.global(&token.text)?);
            return Ok(1);
        }
        let dotted = rest.get(1).is_some_and(|next| next.symbol("."));
        if let (true, Some(name)) = (dotted, token.name()) {
            if let Some(used) = self.qualified(&name, rest)? {
                return Ok(used);
            }
        }
        if token.kind != Kind::Word {
            self.out.push(token.clone());
            return Ok(1);
        }
        if token.is("WITH") {
            if let Some(used) = hints(rest) {
                return Ok(used);
            }
        }
        if token.is_any(&["CLUSTERED", "NONCLUSTERED"]) {
            return Ok(1);
        }
        if token.is_any(&["SYSTEM_USER", "SESSION_USER", "CURRENT_USER"]) {
            self.out.push(Token::literal(self.context.user, SqlType::NVarChar));
            return Ok(1);
        }
        if rest.get(1).is_some_and(|next| next.symbol("(")) {
            if let Some(close) = closing(rest, 1) {
                if self.function(token, &rest[2..close])? {
                    return Ok(close + 1);
                }
            }
        }
        self.out.push(token.clone());
        Ok(1)
    }

    /// `dbo.x`, `database.dbo.x`, `sys.x`: answers how many tokens it used up.
    fn qualified(&mut self, name: &str, rest: &[Token]) -> Result<Option<usize>, SqlError> {
        if name.eq_ignore_ascii_case("dbo") {
            return Ok(Some(2));
        }
        let next = rest.get(2).and_then(Token::name).unwrap_or_default();
        if name.eq_ignore_ascii_case("sys") {
            if rest.get(3).is_some_and(|token| token.symbol("(")) {
                // The function is looked up by its bare name.
                return Ok(Some(2));
            }
            let view = system_views::view(&next, self.context).ok_or_else(|| {
                SqlError::new(208, 16).message(format!("Invalid object name 'sys.{next}'."))
            })?;
            self.system = true;
            self.out.extend(view);
            return Ok(Some(3));
        }
        let qualifier = rest.get(3).is_some_and(|token| token.symbol("."));
        let own =
            name.eq_ignore_ascii_case(self.context.database) || name.eq_ignore_ascii_case("master");
        if own
            && qualifier
            && (next.eq_ignore_ascii_case("dbo") || next.eq_ignore_ascii_case("sys"))
        {
            return Ok(Some(2));
        }
        Ok(None)
    }

    /// Replaces a call where its name is one of T-SQL's own.
    fn function(&mut self, name: &Token, arguments: &[Token]) -> Result<bool, SqlError> {
        let upper = name.text.to_ascii_uppercase();
        if let Some(literal) = self.context.function(&upper, arguments) {
            self.out.push(literal);
            return Ok(true);
        }
        let renamed = match upper.as_str() {
            "ISNULL" => "ifnull",
            "LEN" | "DATALENGTH" => "length",
            "CHARINDEX" => {
                // instr takes the text first.
                let mut parts = split_commas(arguments);
                parts.reverse();
                let swapped = parts.join(&symbol(","));
                self.call("instr", &swapped)?;
                return Ok(true);
            }
            "CONVERT" | "TRY_CONVERT" => {
                let parts = split_commas(arguments);
                let (Some(ty), Some(value)) = (parts.first(), parts.get(1)) else {
                    return Err(SqlError::syntax("CONVERT"));
                };
                let mut cast = value.clone();
                cast.push(word("AS"));
                cast.extend_from_slice(ty);
                return self.cast(&cast);
            }
            "CAST" | "TRY_CAST" => return self.cast(arguments),
            "NEWID" => {
                let hex = "(lower(hex(randomblob(4))||'-'||hex(randomblob(2))||'-'||hex(randomblob(2))||'-'||hex(randomblob(2))||'-'||hex(randomblob(6))))";
                self.out.push(Token::typed(Kind::Symbol, hex, SqlType::NVarChar));
                return Ok(true);
            }
            "GETDATE" | "GETUTCDATE" | "SYSDATETIME" | "SYSUTCDATETIME" => {
                let now = "(strftime('%Y-%m-%d %H:%M:%f','now'))";
                self.out.push(Token::typed(Kind::Symbol, now, SqlType::DateTime2));
                return Ok(true);
            }
            "OBJECT_ID" => {
                let name = arguments.first().and_then(Token::string).unwrap_or_default();
                let name = name.rsplit('.').next().unwrap_or_default().replace(['[', ']'], "");
                let name = name.replace('\'', "''");
                let lookup = format!(
                    "(SELECT rowid FROM (SELECT rowid, name FROM sqlite_master UNION ALL SELECT rowid, name FROM sqlite_temp_master) WHERE name = '{name}' COLLATE NOCASE)"
                );
                self.out.push(Token::typed(Kind::Symbol, lookup, SqlType::Int));
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.call(renamed, arguments)?;
        Ok(true)
    }

    fn call(&mut self, name: &str, arguments: &[Token]) -> Result<(), SqlError> {
        self.out.extend([word(name), symbol("(")]);
        self.run(arguments)?;
        self.out.push(symbol(")"));
        Ok(())
    }

    /// `value AS type`. Kept as a CAST; its type is read again where the column's type is needed.
    fn cast(&mut self, arguments: &[Token]) -> Result<bool, SqlError> {
        let as_at = top_level(arguments, "AS").ok_or_else(|| SqlError::syntax("CAST"))?;
        self.out.extend([word("CAST"), symbol("(")]);
        self.run(&arguments[..as_at])?;
        self.out.push(word("AS"));
        self.out.extend(without_max(&arguments[as_at + 1..]));
        self.out.push(symbol(")"));
        Ok(true)
    }
}

/// `WITH (NOLOCK, …)` after a table name.
fn hints(rest: &[Token]) -> Option<usize> {
    if !rest.get(1)?.symbol("(") {
        return None;
    }
    let close = closing(rest, 1)?;
    rest[2..close].iter().all(|token| token.symbol(",") || token.is_any(HINTS)).then_some(close + 1)
}

/// Where the parenthesis opened at `open` closes.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().enumerate().skip(open).find_map(|(at, token)| {
        depth += i32::from(token.symbol("(")) - i32::from(token.symbol(")"));
        (depth == 0).then_some(at)
    })
}

/// Type names without `(MAX)`, which SQLite does not parse.
fn without_max(tokens: &[Token]) -> Vec<Token> {
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

/// `CREATE TABLE`: IDENTITY becomes an autoincrement key, types are noted for the catalog.
fn create_table(tokens: &[Token]) -> Result<(Vec<Token>, CreatedTable), SqlError> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::context::tests::context;
    use super::super::lexer::{render, tokenize};
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
