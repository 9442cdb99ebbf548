//! The parser behind [`compile`]: one method a statement.

use std::time::Duration;

use super::boundaries::{split_commas, top_level};
use super::lexer::{Kind, Token, tokenize};
use super::program::{Isolation, Op};
use super::sql_error::SqlError;
use super::value::SqlType;

/// Parses a whole batch.
pub(crate) fn compile(text: &str) -> Result<Vec<Op>, SqlError> {
    let tokens = tokenize(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, ops: Vec::new() };
    while parser.skip_semicolons() {
        parser.statement()?;
    }
    Ok(parser.ops)
}

pub(super) struct Parser<'t> {
    pub(super) tokens: &'t [Token],
    pub(super) at: usize,
    ops: Vec<Op>,
}

impl Parser<'_> {
    pub(super) fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    pub(super) fn peek_is(&self, ahead: usize, words: &[&str]) -> bool {
        self.peek(ahead).is_some_and(|token| token.is_any(words))
    }

    fn eat(&mut self, words: &[&str]) -> bool {
        let found = self.peek_is(0, words);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek(0).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    pub(super) fn near(&self) -> SqlError {
        SqlError::syntax(self.peek(0).map_or("end of batch", |token| token.text.as_str()))
    }

    /// Whether anything is left after the semicolons.
    fn skip_semicolons(&mut self) -> bool {
        while self.peek(0).is_some_and(|token| token.symbol(";")) {
            self.at += 1;
        }
        self.peek(0).is_some()
    }

    fn statement(&mut self) -> Result<(), SqlError> {
        const TRAN: &[&str] = &["TRAN", "TRANSACTION"];
        if self.peek_is(0, &["BEGIN"]) && self.peek_is(1, TRAN) {
            self.at += 2;
            self.optional_name();
            self.ops.push(Op::Begin);
            return Ok(());
        }
        if self.peek_is(0, &["BEGIN"]) {
            if self.peek_is(1, &["TRY", "CATCH"]) {
                return Err(SqlError::syntax("TRY"));
            }
            return self.block();
        }
        if self.eat(&["COMMIT"]) {
            if self.eat(&["TRAN", "TRANSACTION", "WORK"]) {
                self.optional_name();
            }
            self.ops.push(Op::Commit);
            return Ok(());
        }
        if self.eat(&["ROLLBACK"]) {
            let named = self.eat(&["TRAN", "TRANSACTION", "WORK"]);
            let name = if named { self.optional_name() } else { None };
            self.ops.push(Op::Rollback(name));
            return Ok(());
        }
        if self.peek_is(0, &["SAVE"]) && self.peek_is(1, TRAN) {
            self.at += 2;
            let name = self.optional_name().ok_or_else(|| self.near())?;
            self.ops.push(Op::Save(name));
            return Ok(());
        }
        if self.eat(&["IF"]) {
            return self.conditional();
        }
        if self.eat(&["WHILE"]) {
            return self.repeated();
        }
        if self.eat(&["WAITFOR"]) {
            return self.wait_for();
        }
        if self.eat(&["SET"]) {
            return self.set();
        }
        if self.eat(&["USE"]) {
            let name = self.next().and_then(|token| token.name()).ok_or_else(|| self.near())?;
            self.ops.push(Op::Use(name));
            return Ok(());
        }
        if self.eat(&["DECLARE"]) {
            return self.declare();
        }
        if self.eat(&["PRINT"]) {
            let message = self.rest_of_statement(false);
            self.ops.push(Op::Print(message));
            return Ok(());
        }
        if self.eat(&["RAISERROR"]) {
            return self.raise_error();
        }
        if self.eat(&["THROW"]) {
            return self.throw();
        }
        if self.eat(&["KILL"]) {
            let spid = self.next().and_then(|token| token.text.parse().ok());
            self.ops.push(Op::Kill(spid.ok_or_else(|| self.near())?));
            return Ok(());
        }
        if self.eat(&["EXEC", "EXECUTE"]) {
            let call = self.rest_of_statement(false);
            let name: String = call
                .iter()
                .take_while(|token| token.name().is_some() || token.symbol("."))
                .map(|token| token.name().unwrap_or_else(|| ".".to_owned()))
                .collect();
            self.ops.push(Op::Execute(name));
            return Ok(());
        }
        if self.eat(&["GO"]) {
            return Err(SqlError::syntax("GO"));
        }
        let sql = self.rest_of_statement(true);
        if sql.is_empty() {
            return Err(self.near());
        }
        self.ops.push(match assignment(&sql) {
            Some((names, select)) => Op::Assign(names, select),
            None => Op::Sql(sql),
        });
        Ok(())
    }

    fn block(&mut self) -> Result<(), SqlError> {
        self.at += 1;
        loop {
            if !self.skip_semicolons() {
                return Err(self.near());
            }
            if self.eat(&["END"]) {
                return Ok(());
            }
            self.statement()?;
        }
    }

    fn conditional(&mut self) -> Result<(), SqlError> {
        let condition = self.condition()?;
        let test = self.ops.len();
        self.ops.push(Op::JumpUnless(condition, 0));
        self.statement()?;
        let mut after = self.at;
        while self.tokens.get(after).is_some_and(|token| token.symbol(";")) {
            after += 1;
        }
        if !self.tokens.get(after).is_some_and(|token| token.is("ELSE")) {
            self.retarget(test, self.ops.len());
            return Ok(());
        }
        self.at = after + 1;
        let skip = self.ops.len();
        self.ops.push(Op::Jump(0));
        self.retarget(test, self.ops.len());
        self.statement()?;
        self.retarget(skip, self.ops.len());
        Ok(())
    }

    fn repeated(&mut self) -> Result<(), SqlError> {
        let condition = self.condition()?;
        let test = self.ops.len();
        self.ops.push(Op::JumpUnless(condition, 0));
        self.statement()?;
        self.ops.push(Op::Jump(test));
        self.retarget(test, self.ops.len());
        Ok(())
    }

    fn retarget(&mut self, op: usize, to: usize) {
        match &mut self.ops[op] {
            Op::JumpUnless(_, target) | Op::Jump(target) => *target = to,
            _ => {}
        }
    }

    fn wait_for(&mut self) -> Result<(), SqlError> {
        if !self.eat(&["DELAY"]) {
            return Err(self.near());
        }
        let text = self.next().and_then(|token| token.string()).ok_or_else(|| self.near())?;
        let delay = delay(&text).ok_or_else(|| {
            SqlError::new(148, 15)
                .message(format!("Incorrect time syntax in time string '{text}'."))
        })?;
        self.ops.push(Op::WaitFor(delay));
        Ok(())
    }

    fn set(&mut self) -> Result<(), SqlError> {
        if self.peek(0).is_some_and(|token| token.kind == Kind::Variable) {
            let name = self.next().map(|token| token.text).unwrap_or_default();
            if !self.next().is_some_and(|token| token.symbol("=")) {
                return Err(self.near());
            }
            let mut select = vec![Token::new(Kind::Word, "SELECT")];
            select.extend(self.rest_of_statement(false));
            self.ops.push(Op::Assign(vec![name], select));
            return Ok(());
        }
        if self.peek_is(0, &["TRANSACTION"]) && self.peek_is(1, &["ISOLATION"]) {
            self.at += 2;
            let words: Vec<String> = self
                .rest_of_statement(false)
                .iter()
                .map(|token| token.text.to_ascii_uppercase())
                .collect();
            let level = match words.join(" ").as_str() {
                "LEVEL READ UNCOMMITTED" => Isolation::ReadUncommitted,
                "LEVEL READ COMMITTED" => Isolation::ReadCommitted,
                "LEVEL REPEATABLE READ" => Isolation::RepeatableRead,
                "LEVEL SERIALIZABLE" => Isolation::Serializable,
                "LEVEL SNAPSHOT" => Isolation::Snapshot,
                _ => return Err(SqlError::syntax("LEVEL")),
            };
            self.ops.push(Op::Isolation(level));
            return Ok(());
        }
        let option = self.rest_of_statement(false);
        let Some((name, value)) = option.split_first() else { return Err(self.near()) };
        let value: Vec<&str> = value.iter().map(|token| token.text.as_str()).collect();
        self.ops.push(Op::Set(name.text.to_ascii_uppercase(), value.join("").to_ascii_uppercase()));
        Ok(())
    }

    fn declare(&mut self) -> Result<(), SqlError> {
        for part in split_commas(&self.rest_of_statement(false)) {
            let mut part = part.into_iter().filter(|token| !token.is("AS"));
            let (Some(variable), Some(ty)) = (part.next(), part.next()) else {
                return Err(SqlError::syntax("DECLARE"));
            };
            let rest: Vec<Token> = part.collect();
            let scale = rest.get(3).filter(|_| rest.first().is_some_and(|t| t.symbol("(")));
            let ty = SqlType::from_name(&ty.text, scale.and_then(|token| token.text.parse().ok()));
            let value = rest.iter().position(|token| token.symbol("=")).map(|equals| {
                let mut select = vec![Token::new(Kind::Word, "SELECT")];
                select.extend_from_slice(&rest[equals + 1..]);
                select
            });
            self.ops.push(Op::Declare(variable.text, ty, value));
        }
        Ok(())
    }

    /// `RAISERROR ( 'text' , severity , state [, …] ) [WITH …]`
    fn raise_error(&mut self) -> Result<(), SqlError> {
        let call = self.rest_of_statement(false);
        let open = call.first().is_some_and(|token| token.symbol("("));
        let close = call.iter().position(|token| token.symbol(")"));
        let (true, Some(close)) = (open, close) else { return Err(SqlError::syntax("RAISERROR")) };
        let arguments = split_commas(&call[1..close]);
        let number = |index: usize| arguments.get(index)?.first()?.text.parse::<u8>().ok();
        let text = arguments.first().and_then(|tokens| tokens.first()?.string());
        let (Some(text), Some(class), Some(state)) = (text, number(1), number(2)) else {
            return Err(SqlError::syntax("RAISERROR"));
        };
        self.ops.push(Op::Raise(SqlError::new(50_000, class).state(state).message(text)));
        Ok(())
    }

    /// `THROW number , 'text' , state`
    fn throw(&mut self) -> Result<(), SqlError> {
        let arguments = split_commas(&self.rest_of_statement(false));
        let first = |index: usize| arguments.get(index).and_then(|tokens| tokens.first());
        let number = first(0).and_then(|token| token.text.parse().ok());
        let text = first(1).and_then(Token::string);
        let state = first(2).and_then(|token| token.text.parse().ok());
        let (Some(number), Some(text), Some(state)) = (number, text, state) else {
            return Err(SqlError::syntax("THROW"));
        };
        self.ops.push(Op::Raise(SqlError::new(number, 16).state(state).message(text)));
        Ok(())
    }
}

/// `SELECT @a = x, @b = y FROM …` as the variables and a plain SELECT.
fn assignment(sql: &[Token]) -> Option<(Vec<String>, Vec<Token>)> {
    let assigns =
        sql.len() > 3 && sql[0].is("SELECT") && sql[1].kind == Kind::Variable && sql[2].symbol("=");
    if !assigns {
        return None;
    }
    let from = top_level(sql, "FROM").unwrap_or(sql.len());
    let mut names = Vec::new();
    let mut select = vec![sql[0].clone()];
    for item in split_commas(&sql[1..from]) {
        let (variable, rest) = item.split_first()?;
        names.push(variable.text.clone());
        if select.len() > 1 {
            select.push(Token::new(Kind::Symbol, ","));
        }
        select.extend_from_slice(rest.get(1..)?);
    }
    select.extend_from_slice(&sql[from..]);
    Some((names, select))
}

/// `hh:mm[:ss[.mmm]]`
fn delay(text: &str) -> Option<Duration> {
    let mut parts = text.trim().split(':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let valid = hours < 24 && minutes < 60 && (0.0..60.0).contains(&seconds);
    (valid && parts.next().is_none()).then(|| {
        Duration::from_secs(hours * 3600 + minutes * 60)
            + Duration::from_millis((seconds * 1000.0).round() as u64)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::lexer::render;
    use super::*;

    fn shape(sql: &str) -> Vec<String> {
        compile(sql)
            .unwrap()
            .into_iter()
            .map(|op| match op {
                Op::Sql(tokens) => render(&tokens),
                Op::JumpUnless(tokens, to) => format!("unless {} -> {to}", render(&tokens)),
                Op::Assign(names, tokens) => format!("{} := {}", names.join(","), render(&tokens)),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn statements_need_no_semicolons() {
        assert_eq!(
            shape("BEGIN TRAN INSERT INTO t VALUES (1) SELECT SCOPE_IDENTITY() COMMIT TRAN"),
            ["Begin", "INSERT INTO t VALUES ( 1 )", "SELECT SCOPE_IDENTITY ( )", "Commit"]
        );
        assert_eq!(
            shape("INSERT INTO a SELECT x FROM b UPDATE a SET x = 1 DELETE FROM a"),
            ["INSERT INTO a SELECT x FROM b", "UPDATE a SET x = 1", "DELETE FROM a"]
        );
        assert_eq!(shape("SELECT 1 UNION ALL SELECT 2 SELECT 3").len(), 2);
        assert_eq!(shape("WITH c AS (SELECT 1 AS x) SELECT x FROM c SELECT 2").len(), 2);
        assert_eq!(shape("SELECT CASE WHEN 1 = 1 THEN 2 ELSE 3 END AS c SELECT 4").len(), 2);
    }

    #[test]
    fn clean_up_is_a_conditional_rollback() {
        assert_eq!(
            shape(
                "IF @@TRANCOUNT > 0 ROLLBACK TRAN; SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
            ),
            ["unless @@TRANCOUNT > 0 -> 2", "Rollback(None)", "Isolation(ReadCommitted)"]
        );
    }

    #[test]
    fn blocks_and_else_become_jumps() {
        assert_eq!(
            shape("IF 1 = 2 BEGIN SELECT 1; SELECT 2 END ELSE SELECT 3 SELECT 4"),
            ["unless 1 = 2 -> 4", "SELECT 1", "SELECT 2", "Jump(5)", "SELECT 3", "SELECT 4"]
        );
        assert_eq!(
            shape("WHILE @i < 3 SET @i = @i + 1"),
            ["unless @i < 3 -> 3", "@i := SELECT @i + 1", "Jump(0)"]
        );
        assert_eq!(shape("DROP TABLE IF EXISTS t"), ["DROP TABLE IF EXISTS t"]);
    }

    #[test]
    fn variables_are_assigned_by_select_and_set() {
        assert_eq!(
            shape("SELECT @a = x, @b = f(y, 1) FROM t"),
            ["@a,@b := SELECT x , f ( y , 1 ) FROM t"]
        );
    }

    #[test]
    fn delays_are_read() {
        assert_eq!(delay("00:00:05"), Some(Duration::from_secs(5)));
        assert_eq!(delay("0:0:0.250"), Some(Duration::from_millis(250)));
        assert_eq!(delay("01:00"), Some(Duration::from_secs(3600)));
        assert_eq!(delay("soon"), None);
    }

    #[test]
    fn errors_are_raised_with_their_class() {
        assert_eq!(
            compile("RAISERROR(N'dead', 20, 3) WITH LOG").unwrap(),
            [Op::Raise(SqlError::new(50_000, 20).state(3).message("dead"))]
        );
        assert_eq!(
            compile("THROW 51000, 'no', 1").unwrap(),
            [Op::Raise(SqlError::new(51_000, 16).message("no"))]
        );
        assert!(compile("BEGIN SELECT 1").is_err());
        assert!(compile("IF 1 = 1").is_err());
    }
}
