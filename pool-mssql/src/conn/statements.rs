//! The methods of the driver's client, with the connection's own book-keeping around them.

use std::borrow::Cow;

use tiberius::{
    ColumnOrderHint, Command, ExecuteResult, IsolationLevel, MetaDataColumn, Query,
    SqlBulkCopyOptions, ToSql,
};

use super::Conn;
use crate::answer::{Answer, BulkLoad, CommandStream, QueryStream};

impl Conn {
    /// Runs a query with parameters `@P1`, `@P2` …: [`tiberius::Client::query`].
    ///
    /// # Errors
    /// As the original; a statement that ran out of time is an I/O error of kind `TimedOut`.
    pub async fn query<'a, 'b>(
        &'a mut self,
        query: impl Into<Cow<'b, str>>,
        params: &'b [&'b dyn ToSql],
    ) -> tiberius::Result<QueryStream<'a>>
    where
        'a: 'b,
    {
        let query = query.into();
        let limit = self.track.begin(&query);
        match limit.run(self.client.query(query, params)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs a batch: [`tiberius::Client::simple_query`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn simple_query<'a, 'b>(
        &'a mut self,
        query: impl Into<Cow<'b, str>>,
    ) -> tiberius::Result<QueryStream<'a>>
    where
        'a: 'b,
    {
        let query = query.into();
        let limit = self.track.begin(&query);
        match limit.run(self.client.simple_query(query)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs statements and counts the rows they touch: [`tiberius::Client::execute`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn execute<'a>(
        &mut self,
        query: impl Into<Cow<'a, str>>,
        params: &[&dyn ToSql],
    ) -> tiberius::Result<ExecuteResult> {
        let query = query.into();
        let limit = self.track.begin(&query);
        let result = limit.run(self.client.execute(query, params)).await;
        self.track.settle(&result);
        result
    }

    /// Runs a [`Query`] with bound parameters for its rows: [`Query::query`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn query_bound<'a>(
        &'a mut self,
        query: Query<'_>,
    ) -> tiberius::Result<QueryStream<'a>> {
        // Runs inside `sp_executesql`, which restores session settings when it returns.
        let limit = self.track.begin_quiet();
        match limit.run(query.query(&mut self.client)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs a [`Query`] with bound parameters for its counts: [`Query::execute`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn execute_bound(&mut self, query: Query<'_>) -> tiberius::Result<ExecuteResult> {
        let limit = self.track.begin_quiet();
        let result = limit.run(query.execute(&mut self.client)).await;
        self.track.settle(&result);
        result
    }

    /// Calls a stored procedure: [`Command::exec`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn exec<'a>(
        &'a mut self,
        command: Command<'_>,
    ) -> tiberius::Result<CommandStream<'a>> {
        let limit = self.track.begin_quiet();
        match limit.run(command.exec(&mut self.client)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Starts a bulk load into all columns: [`tiberius::Client::bulk_insert`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert<'a>(&'a mut self, table: &'a str) -> tiberius::Result<BulkLoad<'a>> {
        self.bulk_insert_columns(table, &["*"]).await
    }

    /// Starts a bulk load into some columns: [`tiberius::Client::bulk_insert_columns`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert_columns<'a>(
        &'a mut self,
        table: &'a str,
        columns: &'a [&'a str],
    ) -> tiberius::Result<BulkLoad<'a>> {
        self.bulk_insert_with_options(table, columns, SqlBulkCopyOptions::empty(), &[]).await
    }

    /// Starts a bulk load: [`tiberius::Client::bulk_insert_with_options`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert_with_options<'a>(
        &'a mut self,
        table: &'a str,
        columns: &'a [&'a str],
        options: SqlBulkCopyOptions,
        order_hints: &'a [ColumnOrderHint<'a>],
    ) -> tiberius::Result<BulkLoad<'a>> {
        let limit = self.track.begin_quiet();
        let start = self.client.bulk_insert_with_options(table, columns, options, order_hints);
        match limit.run(start).await {
            Ok(inner) => Ok(BulkLoad::new(inner, &mut self.track)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// The columns of a table: [`tiberius::Client::column_metadata`].
    ///
    /// # Errors
    /// As the original.
    pub async fn column_metadata(
        &mut self,
        table: &str,
        columns: &[&str],
    ) -> tiberius::Result<Vec<MetaDataColumn<'static>>> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.column_metadata(table, columns)).await;
        self.track.settle(&result);
        result
    }

    /// Begins a transaction: [`tiberius::Client::begin_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn begin_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.begin_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Begins a transaction at an isolation level, which then stays with the session:
    /// [`tiberius::Client::begin_transaction_with_isolation`].
    ///
    /// # Errors
    /// As the original.
    pub async fn begin_transaction_with_isolation(
        &mut self,
        level: IsolationLevel,
    ) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        self.track.isolation |= !matches!(level, IsolationLevel::Unspecified);
        let result = limit.run(self.client.begin_transaction_with_isolation(level)).await;
        self.track.settle(&result);
        result
    }

    /// Commits the transaction: [`tiberius::Client::commit_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn commit_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.commit_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Rolls the transaction back: [`tiberius::Client::rollback_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn rollback_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.rollback_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Sets a savepoint: [`tiberius::Client::save_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn save_transaction<'a>(
        &mut self,
        name: impl Into<Cow<'a, str>>,
    ) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.save_transaction(name)).await;
        self.track.settle(&result);
        result
    }

    /// Tells the server to stop what it still does for this connection:
    /// [`tiberius::Client::cancel_query`].
    ///
    /// # Errors
    /// As the original; the connection is then closed when it goes back.
    pub async fn cancel_query(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        self.track.doubtful = true;
        let result = limit.run(self.client.cancel_query()).await;
        self.track.settle(&result);
        result
    }
}
