//! Answers of statements as streams that tell the connection when they end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{BoxStream, Stream, TryStreamExt};
use tiberius::{Column, CommandItem, CommandResult, ExecuteResult, Row, TokenRow};
use tokio::time::{Sleep, sleep_until};

use crate::conn;
use crate::track::{Limit, Track};

/// An answer that is being read. Dropped before its end it leaves the connection with an answer pending;
/// the pool cancels it when the connection comes back.
pub struct Answer<'a, S> {
    inner: S,
    track: &'a mut Track,
    limit: Limit,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The answer of a query: as [`tiberius::QueryStream`].
pub type QueryStream<'a> = Answer<'a, tiberius::QueryStream<'a>>;

/// The answer of a stored procedure: as [`tiberius::CommandStream`].
pub type CommandStream<'a> = Answer<'a, tiberius::CommandStream<'a>>;

impl<'a, S> Answer<'a, S> {
    pub(crate) fn new(inner: S, track: &'a mut Track, limit: Limit) -> Self {
        Self { inner, track, limit, timer: None }
    }

    fn timed_out(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(ends) = self.limit.ends else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(ends)));
        timer.as_mut().poll(cx).is_ready()
    }
}

impl<'a> QueryStream<'a> {
    /// The columns of the current result set, or of the next one.
    ///
    /// # Errors
    /// Whatever ends the answer.
    pub async fn columns(&mut self) -> tiberius::Result<Option<&[Column]>> {
        let result = self.limit.run(self.inner.columns()).await;
        if let Err(error) = &result {
            self.track.failed(error);
        }
        result
    }

    /// All rows of all result sets.
    ///
    /// # Errors
    /// The first error of the answer.
    pub async fn into_results(self) -> tiberius::Result<Vec<Vec<Row>>> {
        let result = self.limit.run(self.inner.into_results()).await;
        self.track.settle(&result);
        result
    }

    /// All rows of the first result set; the others are read and dropped.
    ///
    /// # Errors
    /// The first error of the answer.
    pub async fn into_first_result(self) -> tiberius::Result<Vec<Row>> {
        let mut results = self.into_results().await?.into_iter();
        Ok(results.next().unwrap_or_default())
    }

    /// The first row of the first result set; the others are read and dropped.
    ///
    /// # Errors
    /// The first error of the answer.
    pub async fn into_row(self) -> tiberius::Result<Option<Row>> {
        let mut rows = self.into_first_result().await?.into_iter();
        Ok(rows.next())
    }

    /// The rows alone, without the metadata between result sets.
    pub fn into_row_stream(self) -> BoxStream<'a, tiberius::Result<Row>> {
        Box::pin(self.try_filter_map(|item| async move { Ok(item.into_row()) }))
    }
}

impl<'a> CommandStream<'a> {
    /// The whole answer: result sets, return code, OUT parameters, affected rows.
    ///
    /// # Errors
    /// The first error of the answer.
    pub async fn into_command_result(self) -> tiberius::Result<CommandResult> {
        let result = self.limit.run(self.inner.into_command_result()).await;
        self.track.settle(&result);
        result
    }

    /// The rows alone.
    pub fn into_row_stream(self) -> BoxStream<'a, tiberius::Result<Row>> {
        Box::pin(self.try_filter_map(|item| async move {
            Ok(match item {
                CommandItem::Row(row) => Some(row),
                _ => None,
            })
        }))
    }
}

impl<T, S> Stream for Answer<'_, S>
where
    S: Stream<Item = tiberius::Result<T>> + Unpin,
{
    type Item = tiberius::Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        match Pin::new(&mut this.inner).poll_next(cx) {
            Poll::Ready(None) => {
                this.track.done();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                this.track.failed(&error);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(item) => Poll::Ready(item),
            Poll::Pending if this.timed_out(cx) => {
                let error = this.limit.error();
                this.track.failed(&error);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S> fmt::Debug for Answer<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A bulk load under way: as [`tiberius::BulkLoadRequest`]. Dropped before [`BulkLoad::finalize`] it costs
/// the connection.
#[derive(Debug)]
pub struct BulkLoad<'a> {
    inner: tiberius::BulkLoadRequest<'a, conn::Stream>,
    track: &'a mut Track,
}

impl<'a> BulkLoad<'a> {
    pub(crate) fn new(
        inner: tiberius::BulkLoadRequest<'a, conn::Stream>,
        track: &'a mut Track,
    ) -> Self {
        track.dead = Some("a bulk load was not finished");
        Self { inner, track }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The row does not fit the table, or the connection failed.
    pub async fn send(&mut self, row: TokenRow<'a>) -> tiberius::Result<()> {
        let limit = Limit::new(self.track.limit);
        let result = limit.run(self.inner.send(row)).await;
        if let Err(error) = &result {
            self.track.failed(error);
        }
        result
    }

    /// Sends what is left and reads the answer.
    ///
    /// # Errors
    /// The server's answer, or the connection failed.
    pub async fn finalize(self) -> tiberius::Result<ExecuteResult> {
        let limit = Limit::new(self.track.limit);
        let result = limit.run(self.inner.finalize()).await;
        if result.is_ok() || matches!(result, Err(tiberius::error::Error::Server(_))) {
            self.track.dead = None;
        }
        self.track.settle(&result);
        result
    }
}
