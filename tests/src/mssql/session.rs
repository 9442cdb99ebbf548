//! The session of one connection: its transaction, its options, and its statements.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use self::query::select;
use self::transaction::Transaction;
use super::context::{Context, Mirroring, MirroringRole};
use super::core::Core;
use super::engine::Variables;
use super::faults::Role;
use super::login::LoginRecord;
use super::parser::compile;
use super::program::{Isolation, Op};
use super::sql_error::SqlError;
use super::token::{DoneKind, Tokens, done};
use super::value::SqlValue;

mod query;
mod transaction;

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
struct Options {
    abort_on_error: bool,
    no_count: bool,
    /// `None` waits for ever, which is the default of the real server.
    lock_timeout: Option<Duration>,
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

/// Errors that end their statement only: violated constraints and RAISERROR.
fn continues_after(error: &SqlError) -> bool {
    matches!(error.number, 515 | 547 | 2627 | 50_000)
}
