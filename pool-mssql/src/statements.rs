//! Routed statements: each goes where its kind, its hint and the caller's own writes say.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use pool_core::statement::{Consistency, TokenDriver};
use tiberius::{Row, ToSql};

use crate::conn::Conn;
use crate::driver::MsSql;
use crate::error::Error;
use crate::params::Params;
use crate::pool::Pool;

/// Why a routed statement failed.
pub type StatementError = pool_core::statement::StatementError<Error>;

/// Statements of one caller (a web request, a job), routed one by one.
///
/// A statement that would bind a session (`BEGIN TRAN`, `SET`, a temporary table, `SCOPE_IDENTITY()` …) is
/// refused: its effect would be lost with the lease. Use [`Pool::get`] for those.
///
/// Text from users at the start of a statement can carry a hint; switch hints off in the router where that
/// matters.
///
/// Cancellation safety: nothing is lost but the statement; its connection is not handed out as it is.
#[derive(Clone)]
pub struct Statements {
    inner: pool_core::statement::Statements<MsSql>,
}

impl Statements {
    /// Statements on `pool`: eventual consistency, reads repeated as the pool is set.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self { inner: pool_core::statement::Statements::new(pool) }
    }

    /// Sets how reads see this caller's writes. Defaults to [`Consistency::Eventual`].
    ///
    /// SQL Server has no position that a secondary could wait for, so with [`Consistency::Token`] every
    /// read after a write is served by the primary.
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

    /// Runs a query with parameters `@P1`, `@P2` … and returns the rows of its first result set.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub async fn query(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> Result<Vec<Row>, StatementError> {
        let params = Params::new(params);
        self.inner
            .run(sql, move |conn: &mut Conn, text| {
                let params = params.clone();
                Box::pin(async move {
                    let rows = conn.query(text, &params.as_sql()).await?;
                    Ok(rows.into_first_result().await?)
                })
            })
            .await
    }

    /// Runs a query with parameters `@P1`, `@P2` … and returns the first row.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub async fn query_first(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> Result<Option<Row>, StatementError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs a batch without parameters and returns the rows of all its result sets.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub async fn simple_query(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, StatementError> {
        self.inner
            .run(sql, |conn: &mut Conn, text| {
                Box::pin(async move { Ok(conn.simple_query(text).await?.into_results().await?) })
            })
            .await
    }

    /// Runs a statement with parameters `@P1`, `@P2` … and says how many rows it changed.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub async fn execute(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> Result<u64, StatementError> {
        let params = Params::new(params);
        self.inner
            .run(sql, move |conn: &mut Conn, text| {
                let params = params.clone();
                Box::pin(async move {
                    let done = conn.execute(text, &params.as_sql()).await?;
                    Ok(done.rows_affected().iter().sum())
                })
            })
            .await
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl TokenDriver for MsSql {
    /// There is none.
    type Token = Infallible;

    async fn position(&self, _: &mut Conn) -> Result<Option<Infallible>, Error> {
        Ok(None)
    }

    async fn reached(&self, _: &mut Conn, token: &Infallible, _: Duration) -> Result<bool, Error> {
        match *token {}
    }
}
