//! Routed statements: each goes where its kind, its hint and the caller's own writes say.

use std::fmt;

use mysql_async::Params;
use mysql_async::prelude::{FromRow, Queryable};
use pool_core::statement::Consistency;

use crate::conn::Conn;
use crate::driver::MySql;
use crate::pool::Pool;
use crate::token::Token;

/// Why a routed statement failed.
pub type StatementError = pool_core::statement::StatementError<mysql_async::Error>;

/// What a statement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// How many rows it changed.
    pub affected_rows: u64,
    /// The id that an insert was given, if it was given one. (`SELECT LAST_INSERT_ID()` needs the connection
    /// of the insert, hence a session.)
    pub last_insert_id: Option<u64>,
}

/// Statements of one caller (a web request, a job), routed one by one.
///
/// A statement that would bind a session (`BEGIN`, `SET`, a temporary table, `LAST_INSERT_ID()` …) is refused:
/// its effect would be lost with the lease. Use [`Pool::get`] or a [`Session`](crate::Session) for those.
///
/// Text from users at the start of a statement can carry a hint; switch hints off in the router where that
/// matters.
///
/// Cancellation safety: nothing is lost but the statement; its connection is not handed out as it is.
#[derive(Clone)]
pub struct Statements {
    inner: pool_core::statement::Statements<MySql>,
}

impl Statements {
    /// Statements on `pool`: eventual consistency, reads repeated as the pool is set.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self { inner: pool_core::statement::Statements::new(pool) }
    }

    /// Sets how reads see this caller's writes. Defaults to [`Consistency::Eventual`].
    #[must_use]
    pub fn consistency(self, consistency: Consistency) -> Self {
        Self { inner: self.inner.consistency(consistency) }
    }

    /// Sets whether a read whose link broke runs once more on another host, while the pool's budget lasts.
    /// Only what is certain to be a plain read; never a write. Defaults to the setting of the pool.
    #[must_use]
    pub fn retry_reads(self, on: bool) -> Self {
        Self { inner: self.inner.retry_reads(on) }
    }

    /// Makes reads see everything up to `token`, which another request of the same user left. They wait for up
    /// to a second, if [`Consistency::Token`] did not say otherwise before.
    #[must_use]
    pub fn at_least(self, token: Token) -> Self {
        Self { inner: self.inner.at_least(token) }
    }

    /// The position of the last write, to carry to the caller's next request; `None` before a write, and
    /// without [`Consistency::Token`].
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        self.inner.token()
    }

    /// Runs a text statement and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query<T>(&mut self, sql: &str) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        self.inner.run(sql, |conn, text| Box::pin(conn.query(text))).await
    }

    /// Runs a text statement and returns its first row.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query_first<T>(&mut self, sql: &str) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        self.inner.run(sql, |conn, text| Box::pin(conn.query_first(text))).await
    }

    /// Runs a text statement and drops its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query_drop(&mut self, sql: &str) -> Result<(), StatementError> {
        self.inner.run(sql, |conn, text| Box::pin(conn.query_drop(text))).await
    }

    /// Runs a statement with parameters and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec<T>(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        let params = params.into();
        self.inner.run(sql, move |conn, text| Box::pin(conn.exec(text, params.clone()))).await
    }

    /// Runs a statement with parameters and returns its first row.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec_first<T>(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        let params = params.into();
        self.inner.run(sql, move |conn, text| Box::pin(conn.exec_first(text, params.clone()))).await
    }

    /// Runs a statement with parameters and drops its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec_drop(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<(), StatementError> {
        let params = params.into();
        self.inner.run(sql, move |conn, text| Box::pin(conn.exec_drop(text, params.clone()))).await
    }

    /// Runs a statement with parameters and says what it did.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn execute(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Done, StatementError> {
        let params = params.into();
        self.inner
            .run(sql, move |conn, text| {
                let params = params.clone();
                Box::pin(async move {
                    conn.exec_drop(text, params).await?;
                    Ok(done(conn))
                })
            })
            .await
    }
}

fn done(conn: &Conn) -> Done {
    Done { affected_rows: conn.affected_rows(), last_insert_id: conn.last_insert_id() }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
