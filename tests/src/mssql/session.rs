//! The session of one connection: its transaction, its options, and its statements.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use super::columns::{self, Item};
use super::context::{Context, Mirroring, MirroringRole};
use super::core::Core;
use super::dialect::{self, symbol, word};
use super::engine::{self, Failure, Outcome, Permit, Variables};
use super::lexer::{Kind, Token, render};
use super::login::LoginRecord;
use super::program::{Isolation, Op, compile};
use super::sql_error::SqlError;
use super::switches::Role;
use super::system_views;
use super::token::{DoneKind, Tokens, done};
use super::value::{Column, SqlType, SqlValue};

/// How often a statement that waits for a lock looks again.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// Whether the connection lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Close,
}

#[derive(Debug)]
pub(crate) struct Session {
    core: Arc<Core>,
    login: LoginRecord,
    spid: u16,
    database: String,
    /// Opened by the first statement that needs it.
    connection: Option<Connection>,
    transaction: Transaction,
    isolation: Isolation,
    options: Options,
    identity: Option<i64>,
    row_count: u64,
    last_error: u32,
}

#[derive(Debug, Default)]
struct Transaction {
    /// `@@TRANCOUNT`
    depth: u32,
    descriptor: u64,
    doomed: bool,
    savepoints: Vec<String>,
}

#[derive(Debug, Default)]
struct Options {
    abort_on_error: bool,
    no_count: bool,
    /// `None` waits for ever, which is the default of the real server.
    lock_timeout: Option<Duration>,
}

/// A result set, or the number of rows changed.
struct Answer {
    columns: Vec<Column>,
    rows: Vec<Vec<SqlValue>>,
    changes: u64,
}

impl Session {
    pub(crate) fn new(core: Arc<Core>, login: LoginRecord, spid: u16) -> Self {
        let database = match login.database.as_str() {
            "" => core.default_database().to_owned(),
            name => name.to_owned(),
        };
        Self {
            core,
            login,
            spid,
            database,
            connection: None,
            transaction: Transaction::default(),
            isolation: Isolation::ReadCommitted,
            options: Options::default(),
            identity: None,
            row_count: 0,
            last_error: 0,
        }
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Fails a request that claims another transaction than the session has.
    pub(crate) fn check_descriptor(&self, descriptor: u64) -> Result<(), SqlError> {
        if self.transaction.depth == 0 && descriptor != 0 {
            return Err(SqlError::new(3971, 16).message(format!(
                "The server failed to resume the transaction. Desc:{descriptor:x}."
            )));
        }
        if self.transaction.depth > 0 && descriptor != self.transaction.descriptor {
            return Err(SqlError::new(3989, 16).message(
                "New request is not allowed to start because it should come with valid transaction \
                 descriptor.",
            ));
        }
        Ok(())
    }

    /// Runs a batch.
    ///
    /// Dropping the future between two of its tokens leaves the session as after an Attention: the
    /// statement did not happen, an open transaction stays open.
    pub(crate) async fn batch(
        &mut self,
        text: &str,
        mut variables: Variables,
        kind: DoneKind,
        out: &mut Tokens,
    ) -> Flow {
        let program = match compile(text) {
            Ok(program) => program,
            Err(error) => return self.report(&error, kind, out),
        };
        let mut next = 0;
        while let Some(op) = program.get(next) {
            next += 1;
            match self.step(op, &mut variables, kind, out).await {
                Ok(None) => self.last_error = 0,
                Ok(Some(target)) => {
                    if target < next {
                        // A loop must not starve the other connections.
                        tokio::task::yield_now().await;
                    }
                    next = target;
                }
                Err(error) => {
                    let goes_on = continues_after(&error) && !self.options.abort_on_error;
                    if self.report(&error, kind, out) == Flow::Close {
                        return Flow::Close;
                    }
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        Flow::Continue
    }

    /// Reports an error, with what it does to the transaction.
    pub(crate) fn report(&mut self, error: &SqlError, kind: DoneKind, out: &mut Tokens) -> Flow {
        self.last_error = error.number;
        out.error(error, self.core.name());
        let deadlock = error.number == 1205;
        if self.transaction.depth > 0 && (deadlock || self.options.abort_on_error) {
            self.roll_back(out);
        }
        out.done(kind, done::ERROR, 0, 0);
        if error.closes_connection() { Flow::Close } else { Flow::Continue }
    }

    /// Puts the session back to its state after login. The isolation level survives, as it does on
    /// the real server.
    pub(crate) fn reset(&mut self, keep_transaction: bool, out: &mut Tokens) {
        self.core.counters().update(|counts| counts.resets += 1);
        if !keep_transaction && self.transaction.depth > 0 {
            self.core.counters().update(|counts| counts.rollbacks += 1);
            self.roll_back(out);
        }
        if self.transaction.depth == 0 {
            // Temporary tables go with their connection.
            self.connection = None;
            let fresh = Self::new(Arc::clone(&self.core), self.login.clone(), self.spid);
            self.database.clone_from(&fresh.database);
        }
        self.options = Options::default();
        self.identity = None;
        self.row_count = 0;
        self.last_error = 0;
    }

    pub(crate) fn begin(&mut self, out: &mut Tokens) {
        if self.transaction.depth == 0 {
            self.transaction.descriptor = self.core.next_descriptor();
            self.core.counters().update(|counts| counts.begins += 1);
            out.transaction_begun(self.transaction.descriptor);
        }
        self.transaction.depth += 1;
    }

    pub(crate) fn commit(&mut self, out: &mut Tokens) -> Result<(), SqlError> {
        match self.transaction.depth {
            0 => Err(SqlError::new(3902, 16)
                .message("The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")),
            1 if self.transaction.doomed => Err(SqlError::new(3930, 16).message(
                "The current transaction cannot be committed and cannot support operations that \
                 write to the log file.",
            )),
            1 => {
                if self.writes_pending() {
                    self.sqlite("COMMIT").map_err(|failure| match failure {
                        Failure::Locked => SqlError::known(1222),
                        Failure::Error(error) => error,
                    })?;
                }
                self.core.counters().update(|counts| counts.commits += 1);
                out.transaction_committed(self.transaction.descriptor);
                self.transaction = Transaction::default();
                Ok(())
            }
            _ => {
                self.transaction.depth -= 1;
                Ok(())
            }
        }
    }

    pub(crate) fn rollback(&mut self, to: Option<&str>, out: &mut Tokens) -> Result<(), SqlError> {
        if self.transaction.depth == 0 {
            return Err(SqlError::new(3903, 16).message(
                "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.",
            ));
        }
        if let Some(name) = to.filter(|name| self.transaction.savepoints.iter().any(|s| s == name))
        {
            let sql = format!("ROLLBACK TO \"{}\"", name.replace('"', "\"\""));
            return self.sqlite(&sql).map_err(|failure| match failure {
                Failure::Locked => SqlError::known(1222),
                Failure::Error(error) => error,
            });
        }
        self.core.counters().update(|counts| counts.rollbacks += 1);
        self.roll_back(out);
        Ok(())
    }

    pub(crate) async fn save(&mut self, name: &str) -> Result<(), SqlError> {
        if self.transaction.depth == 0 {
            return Err(SqlError::new(628, 16)
                .message("Cannot issue SAVE TRANSACTION when there is no active transaction."));
        }
        let quoted = name.replace('"', "\"\"");
        self.with_lock(|session| {
            if !session.writes_pending() {
                session.sqlite("BEGIN IMMEDIATE")?;
            }
            session.sqlite(&format!("SAVEPOINT \"{quoted}\""))
        })
        .await?;
        self.transaction.savepoints.push(name.to_owned());
        Ok(())
    }

    pub(crate) fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// One operation; `Some` is a jump.
    async fn step(
        &mut self,
        op: &Op,
        variables: &mut Variables,
        kind: DoneKind,
        out: &mut Tokens,
    ) -> Result<Option<usize>, SqlError> {
        let mut command = 0;
        match op {
            Op::Begin => {
                self.begin(out);
                command = 0xD4;
            }
            Op::Commit => {
                self.commit(out)?;
                command = 0xD5;
            }
            Op::Rollback(to) => {
                self.rollback(to.as_deref(), out)?;
                command = 0xD2;
            }
            Op::Save(name) => self.save(name).await?,
            Op::Isolation(level) => self.isolation = *level,
            Op::Set(name, value) => {
                self.set_option(name, value);
                return Ok(None);
            }
            Op::WaitFor(delay) => tokio::time::sleep(*delay).await,
            Op::Use(name) => self.use_database(name, out)?,
            Op::Declare(name, ty, value) => {
                let value = match value {
                    Some(select) => self.scalar(select, variables).await?.1,
                    None => SqlValue::Null,
                };
                variables.insert(name.to_lowercase(), (*ty, value));
                return Ok(None);
            }
            Op::Assign(names, select) => {
                self.assign(names, select, variables).await?;
                return Ok(None);
            }
            Op::Print(tokens) => {
                let (_, value) = self.scalar(&select(tokens), variables).await?;
                let message = match value {
                    SqlValue::Text(text) => text,
                    SqlValue::Int(n) => n.to_string(),
                    other => format!("{other:?}"),
                };
                out.info(&SqlError::new(0, 0).message(message), self.core.name());
                return Ok(None);
            }
            Op::Raise(error) if error.class <= 10 => {
                out.info(error, self.core.name());
                return Ok(None);
            }
            Op::Raise(error) => return Err(error.clone()),
            Op::Kill(spid) => {
                if !self.core.kill_spid(*spid) {
                    return Err(SqlError::new(6106, 16)
                        .message(format!("Process ID {spid} is not an active process ID.")));
                }
            }
            Op::Execute(name) => {
                return Err(SqlError::new(2812, 16)
                    .message(format!("Could not find stored procedure '{name}'.")));
            }
            Op::Sql(tokens) => {
                self.statement(tokens, variables, kind, out).await?;
                return Ok(None);
            }
            Op::JumpUnless(condition, target) => {
                let holds = self.holds(condition, variables).await?;
                return Ok((!holds).then_some(*target));
            }
            Op::Jump(target) => return Ok(Some(*target)),
        }
        out.done(kind, done::FINAL, command, 0);
        Ok(None)
    }

    async fn statement(
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

    async fn with_lock<T>(
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
    async fn scalar(
        &mut self,
        tokens: &[Token],
        variables: &Variables,
    ) -> Result<(SqlType, SqlValue), SqlError> {
        let mut answer = self.query(tokens, variables).await?;
        let ty = answer.columns.first().map_or(SqlType::Int, |column| column.ty);
        let value = answer.rows.pop().and_then(|row| row.into_iter().next());
        Ok((ty, value.unwrap_or(SqlValue::Null)))
    }

    async fn assign(
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

    async fn holds(
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

    fn use_database(&mut self, name: &str, out: &mut Tokens) -> Result<(), SqlError> {
        if !self.core.data().contains(name) && !name.eq_ignore_ascii_case("master") {
            return Err(SqlError::new(911, 16).message(format!(
                "Database '{name}' does not exist. Make sure that the name is entered correctly."
            )));
        }
        if self.writes_pending() {
            return Err(SqlError::new(226, 16)
                .message("USE statement not allowed after writes of a transaction."));
        }
        out.database_changed(name, &self.database);
        name.clone_into(&mut self.database);
        self.connection = None;
        Ok(())
    }

    fn set_option(&mut self, name: &str, value: &str) {
        match name {
            "XACT_ABORT" => self.options.abort_on_error = value == "ON",
            "NOCOUNT" => self.options.no_count = value == "ON",
            "LOCK_TIMEOUT" => {
                self.options.lock_timeout = value.parse().ok().map(Duration::from_millis);
            }
            _ => {}
        }
    }

    /// Whether SQLite has a transaction open.
    fn writes_pending(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_autocommit())
    }

    fn roll_back(&mut self, out: &mut Tokens) {
        if self.writes_pending() && self.sqlite("ROLLBACK").is_err() {
            // Closing rolls back as well.
            self.connection = None;
        }
        out.transaction_rolled_back(self.transaction.descriptor);
        self.transaction = Transaction::default();
    }

    fn sqlite(&mut self, sql: &str) -> Result<(), Failure> {
        if self.connection.is_none() {
            let connection = self.core.data().connect(&self.database);
            self.connection = Some(connection.map_err(|error| engine::failure(&error))?);
        }
        match &self.connection {
            Some(connection) => {
                connection.execute_batch(sql).map_err(|error| engine::failure(&error))
            }
            None => Ok(()),
        }
    }

    fn context(&self) -> Context<'_> {
        let switches = self.core.switches();
        let role = switches.role();
        let mirroring_role = match role {
            Role::Principal => Some(MirroringRole::Principal),
            Role::Mirror => Some(MirroringRole::Mirror),
            _ => None,
        };
        let mirroring = mirroring_role.zip(switches.partner()).map(|(role, partner)| Mirroring {
            role,
            synchronized: !switches.is_inactive(),
            partner,
        });
        Context {
            server_name: self.core.name(),
            database: &self.database,
            databases: self.core.data().names(),
            user: &self.login.user,
            app_name: &self.login.app_name,
            host_name: &self.login.host_name,
            spid: self.spid,
            transactions: self.transaction.depth,
            doomed: self.transaction.doomed,
            isolation: self.isolation,
            identity: self.identity,
            row_count: self.row_count,
            last_error: self.last_error,
            read_only: (role != Role::Mirror).then_some(role == Role::Secondary),
            primary: match role {
                Role::Primary => Some(true),
                Role::Secondary => Some(false),
                _ => None,
            },
            mirroring,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.transaction.depth > 0 {
            self.core.counters().update(|counts| counts.abandoned_transactions += 1);
        }
    }
}

/// Errors that end their statement only: violated constraints and RAISERROR.
fn continues_after(error: &SqlError) -> bool {
    matches!(error.number, 515 | 547 | 2627 | 50_000)
}

fn number(value: i64) -> Token {
    Token::number(value, SqlType::Int)
}

fn select(expression: &[Token]) -> Vec<Token> {
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
