//! A transaction whose errors are noticed.

use std::fmt;

use mysql_async::Error;

use crate::queryable::watched_queryable;
use crate::watch::Watch;

/// A transaction on a [`Conn`](crate::Conn). Dropping it leaves a connection that the pool rolls back
/// before it becomes idle, so that its row locks go away at once and not with the next user's statement.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<'a> {
    inner: Option<mysql_async::Transaction<'a>>,
    watch: &'a mut Watch,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(inner: mysql_async::Transaction<'a>, watch: &'a mut Watch) -> Self {
        Self { inner: Some(inner), watch }
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// If the connection is lost meanwhile, nobody knows whether the commit was done.
    ///
    /// # Cancellation
    ///
    /// The same holds if the future is dropped; the connection is not used again.
    pub async fn commit(mut self) -> Result<(), Error> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        let outcome = self.watch.bounded(inner.commit()).await;
        self.ended(outcome)
    }

    /// Rolls back.
    ///
    /// # Errors
    ///
    /// Lost connections: the server then rolls back by itself.
    pub async fn rollback(mut self) -> Result<(), Error> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        let outcome = self.watch.bounded(inner.rollback()).await;
        self.ended(outcome)
    }

    fn ended(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        match &outcome {
            Ok(()) => self.watch.unsure = false,
            Err(error) => {
                self.watch.note(error);
            }
        }
        outcome
    }

    fn parts(&mut self) -> (&mut mysql_async::Transaction<'a>, &mut Watch) {
        (self.inner.as_mut().expect("present until it ends"), self.watch)
    }
}

watched_queryable!(Transaction<'_>);

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.inner.is_some() {
            self.watch.rollback_owed = true;
        }
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("watch", &self.watch).finish_non_exhaustive()
    }
}
