//! Statements of a session on its data.

use std::time::Duration;

use tokio::time::Instant;

use super::super::columns::{self, Item};
use super::super::dialect;
use super::super::engine::{self, Failure, Outcome, Permit, Variables};
use super::super::faults::Role;
use super::super::lexer::{Kind, Token, render, symbol, word};
use super::super::sql_error::SqlError;
use super::super::system_views;
use super::super::token::{DoneKind, Tokens, done};
use super::super::value::{Column, SqlType, SqlValue};
use super::Session;

/// How often a statement that waits for a lock looks again.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// A result set, or the number of rows changed.
struct Answer {
    columns: Vec<Column>,
    rows: Vec<Vec<SqlValue>>,
    changes: u64,
}

impl Session {
    /// Runs a statement and reports its outcome.
    pub(super) async fn statement(
        &mut self,
        tokens: &[Token],
        variables: &Variables,
        kind: DoneKind,
        out: &mut Tokens,
    ) -> Result<(), SqlError> {
        let answer = self.query(tokens, variables).await?;
        let has_rows = !answer.columns.is_empty();
        if has_rows {
            out.result_set(&answer.columns, &answer.rows);
        }
        let first = &tokens[0];
        let command = match () {
            () if first.is_any(&["SELECT", "WITH"]) => 0xC1,
            () if first.is("INSERT") => 0xC3,
            () if first.is("DELETE") => 0xC4,
            () if first.is("UPDATE") => 0xC5,
            () => 0,
        };
        let counted = has_rows || command != 0;
        let status = if counted && !self.options.no_count { done::COUNT } else { done::FINAL };
        self.row_count = if counted { answer.changes } else { 0 };
        out.done(kind, status, command, self.row_count);
        Ok(())
    }

    /// Runs a query, waiting for locks.
    async fn query(&mut self, tokens: &[Token], variables: &Variables) -> Result<Answer, SqlError> {
        self.with_lock(|session| session.query_once(tokens, variables)).await
    }

    /// Tries until nobody else holds the write lock.
    pub(super) async fn with_lock<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, SqlError> {
        let give_up = self.options.lock_timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match attempt(self) {
                Ok(value) => return Ok(value),
                Err(Failure::Error(error)) => return Err(error),
                Err(Failure::Locked) if give_up.is_some_and(|at| Instant::now() >= at) => {
                    return Err(SqlError::known(1222));
                }
                Err(Failure::Locked) => tokio::time::sleep(LOCK_POLL).await,
            }
        }
    }

    fn query_once(&mut self, tokens: &[Token], variables: &Variables) -> Result<Answer, Failure> {
        let user_database = self.core.data().contains(&self.database);
        if user_database && self.core.switches().role() == Role::Mirror {
            return Err(Failure::Error(SqlError::acting_as_mirror(&self.database)));
        }
        let translated = dialect::translate(tokens, &self.context()).map_err(Failure::Error)?;
        let tables: Vec<String> = translated
            .tokens
            .iter()
            .filter_map(Token::name)
            .map(|name| name.to_lowercase())
            .collect();
        let column_type = |name: &str| {
            self.core
                .data()
                .column_type(&self.database, &tables, name)
                .or_else(|| translated.system.then(|| system_views::column_type(name)))
        };
        let lookup = |token: &Token| match token.kind {
            Kind::Variable => variables.get(&token.text.to_lowercase()).map(|(ty, _)| *ty),
            _ => column_type(&token.name()?),
        };
        let items = columns::items(&translated.tokens, &lookup);
        if let Some(answer) =
            items.as_deref().and_then(|items| literals(items, &translated.tokens, variables))
        {
            return Ok(answer);
        }
        let writes_temporary = tables.iter().any(|table| table.starts_with('#'));
        let permit = Permit {
            in_transaction: self.transaction.depth > 0,
            read_only: self.core.switches().role() == Role::Secondary && !writes_temporary,
        };
        let connection = match &self.connection {
            Some(connection) => connection,
            None => {
                let connection = self.core.data().connect(&self.database);
                self.connection.insert(connection.map_err(|error| engine::failure(&error))?)
            }
        };
        let sql = render(&translated.tokens);
        let outcome = engine::run(connection, &sql, variables, permit, &self.database)?;
        let inserted = translated.tokens[0].is("INSERT") && outcome.changes > 0;
        if inserted {
            let table = translated.tokens.get(2).and_then(Token::name).unwrap_or_default();
            let identity = self.core.data().has_identity(&self.database, &table);
            self.identity = identity.then(|| connection.last_insert_rowid());
        }
        let columns = typed_columns(&outcome, items.as_deref(), column_type);
        if let Some(created) = translated.created {
            self.core.data().remember(&self.database, created);
        }
        Ok(Answer { columns, rows: outcome.rows, changes: outcome.changes })
    }

    /// The first value of the last row and its type.
    pub(super) async fn scalar(
        &mut self,
        tokens: &[Token],
        variables: &Variables,
    ) -> Result<(SqlType, SqlValue), SqlError> {
        let mut answer = self.query(tokens, variables).await?;
        let ty = answer.columns.first().map_or(SqlType::Int, |column| column.ty);
        let value = answer.rows.pop().and_then(|row| row.into_iter().next());
        Ok((ty, value.unwrap_or(SqlValue::Null)))
    }

    /// Sets variables to the values of the last row.
    pub(super) async fn assign(
        &mut self,
        names: &[String],
        select: &[Token],
        variables: &mut Variables,
    ) -> Result<(), SqlError> {
        let mut answer = self.query(select, variables).await?;
        self.row_count = answer.changes;
        // Without a row the variables keep their values.
        let Some(row) = answer.rows.pop() else { return Ok(()) };
        for (name, value) in names.iter().zip(row) {
            let Some((_, slot)) = variables.get_mut(&name.to_lowercase()) else {
                return Err(SqlError::new(137, 15)
                    .message(format!("Must declare the scalar variable \"{name}\".")));
            };
            *slot = value;
        }
        Ok(())
    }

    /// Evaluates a condition.
    pub(super) async fn holds(
        &mut self,
        condition: &[Token],
        variables: &Variables,
    ) -> Result<bool, SqlError> {
        let mut test = ["SELECT", "CASE", "WHEN"].map(word).to_vec();
        test.push(symbol("("));
        test.extend_from_slice(condition);
        test.push(symbol(")"));
        let rest = [word("THEN"), number(1), word("ELSE"), number(0), word("END")];
        test.extend(rest);
        if let Some(known) = self.compare_numbers(condition) {
            return Ok(known);
        }
        Ok(matches!(self.scalar(&test, variables).await?, (_, SqlValue::Int(1))))
    }

    /// `@@TRANCOUNT > 0` and the like, without asking SQLite.
    fn compare_numbers(&self, condition: &[Token]) -> Option<bool> {
        let context = self.context();
        let [left, operator, right] = condition else { return None };
        let value = |token: &Token| match token.kind {
            Kind::Global => context.global(&token.text).ok()?.text.parse::<i64>().ok(),
            Kind::Number => token.text.parse().ok(),
            _ => None,
        };
        let (left, right) = (value(left)?, value(right)?);
        match operator.text.as_str() {
            ">" => Some(left > right),
            "<" => Some(left < right),
            "=" => Some(left == right),
            "<>" | "!=" => Some(left != right),
            ">=" => Some(left >= right),
            "<=" => Some(left <= right),
            _ => None,
        }
    }
}

fn number(value: i64) -> Token {
    Token::number(value, SqlType::Int)
}

/// `SELECT expression`
pub(super) fn select(expression: &[Token]) -> Vec<Token> {
    let mut tokens = vec![word("SELECT")];
    tokens.extend_from_slice(expression);
    tokens
}

/// The answer to a SELECT of nothing but literals and variables, which needs no database.
fn literals(items: &[Item], tokens: &[Token], variables: &Variables) -> Option<Answer> {
    let plain = tokens.first()?.is("SELECT")
        && !tokens
            .iter()
            .any(|token| token.is_any(&["FROM", "WHERE", "UNION", "LIMIT", "DISTINCT", "ORDER"]));
    if !plain {
        return None;
    }
    let mut columns = Vec::new();
    let mut row = Vec::new();
    for item in items {
        let [token] = &item.expression[..] else { return None };
        let value = match token.kind {
            Kind::Number => SqlValue::Int(token.text.parse().ok()?),
            Kind::Text => SqlValue::Text(token.string()?),
            Kind::Word if token.is("NULL") => SqlValue::Null,
            Kind::Variable => variables.get(&token.text.to_lowercase())?.1.clone(),
            _ => return None,
        };
        let ty = item.ty.unwrap_or(SqlType::Int).fitted(std::iter::once(&value));
        columns.push(Column { name: item.name.clone(), ty });
        row.push(value);
    }
    Some(Answer { columns, rows: vec![row], changes: 1 })
}

fn typed_columns(
    outcome: &Outcome,
    items: Option<&[Item]>,
    column_type: impl Fn(&str) -> Option<SqlType>,
) -> Vec<Column> {
    let items = items.filter(|items| items.len() == outcome.columns.len());
    outcome
        .columns
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let item = items.map(|items| &items[index]);
            let guess = match item {
                Some(item) => item.ty,
                None => column_type(name),
            };
            let values = outcome.rows.iter().map(|row| &row[index]);
            // Without any hint the values decide, narrow ones first.
            let ty = guess.unwrap_or(SqlType::Int).fitted(values);
            let name = item.map_or_else(|| name.clone(), |item| item.name.clone());
            Column { name, ty }
        })
        .collect()
}
