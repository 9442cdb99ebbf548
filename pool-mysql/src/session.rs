//! The logical connection for MySQL: text and prepared statements over a session that survives its host.

mod text;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Error, Params};
use pool_core::access::AccessMode;
use pool_core::config::ConfigError;
use pool_core::driver::Driver;
use pool_core::failover::{Carry, Failure, Isolation, Job, SessionOptions, Statement};
use pool_core::session::{SessionDriver, SessionError};
use pool_core::statement::Consistency;
use pool_core::verdict::Verdict;

use self::text::{Text, kind};
use crate::conn::Conn;
use crate::driver::MySql;
use crate::options::MySqlOptions;
use crate::pool::{OpenError, Pool};
use crate::token::Token;

/// The error of a call on a [`Session`].
pub type Failed = SessionError<Error>;

/// One logical connection (Connector/J: a server failover connection).
///
/// It goes to the first host, moves to a secondary when the link breaks, and returns at a transaction
/// boundary when the policy's rule says so. The error that caused a switch is always returned. Transactions,
/// access mode, autocommit, database and isolation level are set by methods
/// (from [`pool_core::session::Session`], to which this dereferences), so that they follow the session;
/// user variables, temporary tables, locks and prepared statements do not.
///
/// When it routes its statements ([`SessionOptions::route_statements`], `routeStatements`), reads that nothing
/// binds run on replicas, beside that connection; see [`pool_core::session::Session::run`].
///
/// With `autoReconnect` old prepared statements stay usable after a switch. **That is not
/// recommended**: a statement may then run on a read-only secondary, or after its transaction
/// has vanished, without the caller noticing (`connectorj-server-failover`, seamless reconnection).
pub struct Session {
    inner: pool_core::session::Session<MySql>,
}

/// A prepared statement of one physical connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    sql: Arc<str>,
    generation: u64,
}

impl Session {
    /// Opens a logical connection on `pool`. It connects on first use.
    #[must_use]
    pub fn new(pool: &Pool, options: SessionOptions) -> Self {
        Self { inner: pool.session(options) }
    }

    /// Sets how routed reads see the session's own writes. Defaults to [`Consistency::Eventual`].
    #[must_use]
    pub fn consistency(self, consistency: Consistency) -> Self {
        Self { inner: self.inner.consistency(consistency) }
    }

    /// Sets whether a routed read whose link broke runs once more on another host, while the pool's budget
    /// lasts. Defaults to the setting of the pool.
    #[must_use]
    pub fn retry_reads(self, on: bool) -> Self {
        Self { inner: self.inner.retry_reads(on) }
    }

    /// Makes routed reads see everything up to `token`, which another request of the same user left. They wait
    /// for up to a second, if [`Consistency::Token`] did not say otherwise before.
    #[must_use]
    pub fn at_least(self, token: Token) -> Self {
        Self { inner: self.inner.at_least(token) }
    }

    /// Runs a text statement and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn query<T>(&mut self, sql: &str) -> Result<Vec<T>, Failed>
    where
        T: FromRow + Send + 'static,
    {
        self.inner.run(sql, kind(sql), |conn, text| Box::pin(conn.query(text))).await
    }

    /// Runs a text statement and returns its first row.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn query_first<T>(&mut self, sql: &str) -> Result<Option<T>, Failed>
    where
        T: FromRow + Send + 'static,
    {
        self.inner.run(sql, kind(sql), |conn, text| Box::pin(conn.query_first(text))).await
    }

    /// Runs a text statement and drops its rows.
    ///
    /// A text that does what a method of the session does (`BEGIN`, `COMMIT`, `ROLLBACK`, `USE name`,
    /// `SET autocommit = …`, `SET SESSION TRANSACTION READ …`) is that method: what it sets follows the
    /// session, and a `ROLLBACK` acknowledges a lost transaction.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn query_drop(&mut self, sql: &str) -> Result<(), Failed> {
        let inner = &mut self.inner;
        let text = match text::read(sql) {
            Text::Statement(kind) => Text::Statement(kind),
            // It is for the router to say what becomes of a hint.
            _ if inner.is_hinted(sql) => Text::Statement(kind(sql)),
            text => text,
        };
        match text {
            Text::Autocommit(on) => inner.set_autocommit(on).await,
            Text::Begin => inner.begin().await,
            Text::Commit => inner.commit().await,
            Text::ReadOnly(on) => inner.set_read_only(on).await,
            Text::Rollback => inner.rollback().await,
            Text::UseDatabase(name) => inner.set_database(&name).await,
            Text::Statement(kind) => {
                inner.run(sql, kind, |conn, text| Box::pin(conn.query_drop(text))).await
            }
        }
    }

    /// Runs a statement with parameters (prepared on first use, cached per connection).
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn exec<T>(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<T>, Failed>
    where
        T: FromRow + Send + 'static,
    {
        let params = params.into();
        self.inner
            .run(sql, kind(sql), move |conn, text| Box::pin(conn.exec(text, params.clone())))
            .await
    }

    /// Runs a statement with parameters and drops its rows.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn exec_drop(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<(), Failed> {
        let params = params.into();
        self.inner
            .run(sql, kind(sql), move |conn, text| Box::pin(conn.exec_drop(text, params.clone())))
            .await
    }

    /// Starts a read-only transaction, on a replica if the session routes its statements. The session stays
    /// there until [`commit`](pool_core::session::Session::commit) or
    /// [`rollback`](pool_core::session::Session::rollback).
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn begin_read_only(&mut self) -> Result<(), Failed> {
        self.query_drop("START TRANSACTION READ ONLY").await
    }

    /// Prepares a statement on the current connection.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub async fn prepare(&mut self, sql: &str) -> Result<Prepared, Failed> {
        let text = sql.to_owned();
        self.inner
            .execute(Statement::Plain, move |conn| {
                Box::pin(async move { conn.prep(text).await.map(|_| ()) })
            })
            .await?;
        Ok(Prepared { sql: sql.into(), generation: self.inner.state().generation() })
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    ///
    /// [`Failure::StaleStatement`] if it was prepared on a connection that is gone; otherwise see
    /// [`Failure`].
    pub async fn run<T>(
        &mut self,
        prepared: &Prepared,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<T>, Failed>
    where
        T: FromRow + Send + 'static,
    {
        let state = self.inner.state();
        if state.generation() != prepared.generation && !state.keeps_statements() {
            return Err(self.inner.refuse(Failure::StaleStatement));
        }
        self.exec(&prepared.sql, params).await
    }
}

impl MySqlOptions {
    /// How a session behaves beyond the walk: `autoReconnect` and what belongs to it, and whether each of its
    /// statements is routed.
    ///
    /// `maxReconnects` and `initialTimeout` are part of the failover policy of the pool.
    ///
    /// # Errors
    ///
    /// If an option cannot be used.
    pub fn session_options(&self) -> Result<SessionOptions, ConfigError> {
        let mut options = self.failover()?.session_options();
        options.route_statements = self.routes_statements();
        Ok(options)
    }

    /// Opens a pool of its own for one logical connection, and connects.
    ///
    /// More sessions of the same pool are made with [`Session::new`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open_session(&self) -> Result<Session, OpenError> {
        let pool = self.connect_later().await?;
        let mut session = Session::new(&pool, self.session_options()?);
        session.connect().await.map_err(|error| OpenError::Session(Box::new(error)))?;
        Ok(session)
    }
}

impl Deref for Session {
    type Target = pool_core::session::Session<MySql>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl SessionDriver for MySql {
    async fn carry(&self, conn: &mut Conn, carry: &Carry) -> Result<(), Error> {
        if conn.autocommit() != Some(carry.autocommit) {
            conn.query_drop(set_autocommit(carry.autocommit)).await?;
        }
        if let Some(level) = carry.isolation {
            conn.query_drop(set_isolation(level)).await?;
        }
        if let Some(database) = &carry.database {
            conn.query_drop(use_database(database)).await?;
        }
        conn.set_read_only(carry.mode == AccessMode::ReadOnly).await
    }

    async fn perform(&self, conn: &mut Conn, job: &Job) -> Result<(), Error> {
        match job {
            Job::Begin => conn.query_drop("START TRANSACTION").await,
            Job::Commit => conn.query_drop("COMMIT").await,
            Job::Rollback => conn.query_drop("ROLLBACK").await,
            Job::SetAutocommit(on) => conn.query_drop(set_autocommit(*on)).await,
            Job::SetDatabase(name) => conn.query_drop(use_database(name)).await,
            Job::SetIsolation(level) => conn.query_drop(set_isolation(*level)).await,
            Job::SetMode(mode) => conn.set_read_only(*mode == AccessMode::ReadOnly).await,
            _ => Queryable::ping(conn).await,
        }
    }

    fn in_transaction(&self, conn: &Conn) -> Option<bool> {
        conn.in_transaction()
    }

    fn autocommit(&self, conn: &Conn) -> Option<bool> {
        conn.autocommit()
    }

    /// As the verdict table, with what Connector/J adds (SQLState class 08). A write refused by a
    /// transaction that the caller itself opened read-only says nothing about the host.
    fn judge(&self, conn: &Conn, error: &Error) -> Verdict {
        let code = match error {
            Error::Server(server) => server.code,
            _ => 0,
        };
        match (self.verdict(error), code) {
            (Verdict::Statement | Verdict::Permanent, 1081 | 1218 | 1251 | 3068 | 13130) => {
                Verdict::ConnectionLost
            }
            (Verdict::Demoted, 1792) if !conn.is_read_only() && conn.asked_read_only() => {
                Verdict::Statement
            }
            (verdict, _) => verdict,
        }
    }
}

fn set_autocommit(on: bool) -> &'static str {
    if on { "SET autocommit=1" } else { "SET autocommit=0" }
}

fn set_isolation(level: Isolation) -> String {
    format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", level.as_sql())
}

fn use_database(name: &str) -> String {
    format!("USE `{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_cannot_break_out_of_its_quotes() {
        assert_eq!(use_database("a`b"), "USE `a``b`");
    }
}
