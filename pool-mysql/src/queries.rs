//! Statements straight on a pool.

use std::future::Future;

use mysql_async::Params;
use mysql_async::prelude::FromRow;

use crate::pool::Pool;
use crate::statements::{Done, StatementError, Statements};

/// Statements straight on a [`Pool`], each routed for itself: as those of a fresh [`Statements`].
///
/// Reads may be behind; use [`Statements`] with a consistency for a caller that must see its own writes.
///
/// # Errors
///
/// See [`StatementError`].
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use pool_mysql::{MySqlOptions, Queries};
///
/// let pool = MySqlOptions::from_url("mysql://app@db1,db2,db3/shop")?.open().await?;
/// let order = pool.execute("INSERT INTO orders (item) VALUES (?)", (7,)).await?;
/// let items: Vec<(u64, i32)> = pool.query("SELECT id, item FROM orders").await?;
/// # Ok(())
/// # }
/// ```
pub trait Queries {
    /// Runs a text statement and returns its rows.
    fn query<T>(&self, sql: &str) -> impl Future<Output = Result<Vec<T>, StatementError>> + Send
    where
        T: FromRow + Send + 'static;

    /// Runs a text statement and returns its first row.
    fn query_first<T>(
        &self,
        sql: &str,
    ) -> impl Future<Output = Result<Option<T>, StatementError>> + Send
    where
        T: FromRow + Send + 'static;

    /// Runs a text statement and drops its rows.
    fn query_drop(&self, sql: &str) -> impl Future<Output = Result<(), StatementError>> + Send;

    /// Runs a statement with parameters and returns its rows.
    fn exec<T>(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StatementError>> + Send
    where
        T: FromRow + Send + 'static;

    /// Runs a statement with parameters and returns its first row.
    fn exec_first<T>(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> impl Future<Output = Result<Option<T>, StatementError>> + Send
    where
        T: FromRow + Send + 'static;

    /// Runs a statement with parameters and drops its rows.
    fn exec_drop(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> impl Future<Output = Result<(), StatementError>> + Send;

    /// Runs a statement with parameters and says what it did.
    fn execute(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> impl Future<Output = Result<Done, StatementError>> + Send;
}

impl Queries for Pool {
    async fn query<T>(&self, sql: &str) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        Statements::new(self).query(sql).await
    }

    async fn query_first<T>(&self, sql: &str) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        Statements::new(self).query_first(sql).await
    }

    async fn query_drop(&self, sql: &str) -> Result<(), StatementError> {
        Statements::new(self).query_drop(sql).await
    }

    async fn exec<T>(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        Statements::new(self).exec(sql, params).await
    }

    async fn exec_first<T>(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        Statements::new(self).exec_first(sql, params).await
    }

    async fn exec_drop(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<(), StatementError> {
        Statements::new(self).exec_drop(sql, params).await
    }

    async fn execute(
        &self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Done, StatementError> {
        Statements::new(self).execute(sql, params).await
    }
}
