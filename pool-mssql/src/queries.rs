//! Statements straight on a pool.

use std::future::Future;

use tiberius::{Row, ToSql};

use crate::pool::Pool;
use crate::statements::{StatementError, Statements};

/// Statements straight on a [`Pool`], each routed for itself: as those of a fresh [`Statements`].
///
/// # Errors
/// See [`StatementError`].
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use pool_mssql::{MsSqlOptions, Queries};
///
/// let options: MsSqlOptions = "Server=db1;Database=Sales;User ID=app;Password=…".parse()?;
/// let pool = options.replica("db2")?.pool_builder()?.build()?;
/// pool.execute("UPDATE orders SET paid = 1 WHERE id = @P1", &[&7]).await?;
/// let row = pool.query_first("SELECT paid FROM orders WHERE id = @P1", &[&7]).await?;
/// # Ok(())
/// # }
/// ```
pub trait Queries {
    /// Runs a query with parameters and returns the rows of its first result set.
    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> impl Future<Output = Result<Vec<Row>, StatementError>> + Send;

    /// Runs a query with parameters and returns the first row.
    fn query_first(
        &self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> impl Future<Output = Result<Option<Row>, StatementError>> + Send;

    /// Runs a batch without parameters and returns the rows of all its result sets.
    fn simple_query(
        &self,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<Vec<Row>>, StatementError>> + Send;

    /// Runs a statement with parameters and says how many rows it changed.
    fn execute(
        &self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> impl Future<Output = Result<u64, StatementError>> + Send;
}

impl Queries for Pool {
    async fn query(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<Row>, StatementError> {
        Statements::new(self).query(sql, params).await
    }

    async fn query_first(
        &self,
        sql: &str,
        params: &[&dyn ToSql],
    ) -> Result<Option<Row>, StatementError> {
        Statements::new(self).query_first(sql, params).await
    }

    async fn simple_query(&self, sql: &str) -> Result<Vec<Vec<Row>>, StatementError> {
        Statements::new(self).simple_query(sql).await
    }

    async fn execute(&self, sql: &str, params: &[&dyn ToSql]) -> Result<u64, StatementError> {
        Statements::new(self).execute(sql, params).await
    }
}
