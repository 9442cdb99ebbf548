//! What T-SQL calls by its own names: session functions become literals, system views subqueries,
//! schemas and hints vanish.

use super::boundaries::{closing, split_commas, top_level};
use super::context::Context;
use super::lexer::{Kind, Token, symbol, word};
use super::sql_error::SqlError;
use super::system_views;
use super::tables::without_max;
use super::value::SqlType;

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

/// The tokens so far.
pub(super) struct Substitution<'c> {
    pub(super) context: &'c Context<'c>,
    pub(super) out: Vec<Token>,
    /// Whether a system view was among them.
    pub(super) system: bool,
}

impl Substitution<'_> {
    /// Appends the tokens, replaced where needed.
    pub(super) fn run(&mut self, tokens: &[Token]) -> Result<(), SqlError> {
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
        if let (true, Some(name)) = (dotted, token.name())
            && let Some(used) = self.qualified(&name, rest)?
        {
            return Ok(used);
        }
        if token.kind != Kind::Word {
            self.out.push(token.clone());
            return Ok(1);
        }
        if token.is("WITH")
            && let Some(used) = hints(rest)
        {
            return Ok(used);
        }
        if token.is_any(&["CLUSTERED", "NONCLUSTERED"]) {
            return Ok(1);
        }
        if token.is_any(&["SYSTEM_USER", "SESSION_USER", "CURRENT_USER"]) {
            self.out.push(Token::literal(self.context.user, SqlType::NVarChar));
            return Ok(1);
        }
        if rest.get(1).is_some_and(|next| next.symbol("("))
            && let Some(close) = closing(rest, 1)
            && self.function(token, &rest[2..close])?
        {
            return Ok(close + 1);
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
