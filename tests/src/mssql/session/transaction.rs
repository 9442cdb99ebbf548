//! The transaction of a session.

use super::super::engine::{self, Failure};
use super::super::sql_error::SqlError;
use super::super::token::Tokens;
use super::Session;

#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// `@@TRANCOUNT`
    pub(super) depth: u32,
    pub(super) descriptor: u64,
    pub(super) savepoints: Vec<String>,
}

impl Session {
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
            1 => {
                if self.writes_pending() {
                    self.sqlite("COMMIT").map_err(Failure::into_error)?;
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
            return self.sqlite(&sql).map_err(Failure::into_error);
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

    /// Whether SQLite has a transaction open.
    pub(super) fn writes_pending(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_autocommit())
    }

    /// Ends the transaction as if it had never been.
    pub(super) fn roll_back(&mut self, out: &mut Tokens) {
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
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.transaction.depth > 0 {
            self.core.counters().update(|counts| counts.abandoned_transactions += 1);
        }
    }
}
