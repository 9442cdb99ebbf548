//! Makes a used connection clean again, with as few round trips as its state allows.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use tiberius::Command;
use tokio::time::timeout;

use crate::classify::FATAL_CLASS;
use crate::conn::{Client, Conn};
use crate::error::Error;
use crate::peek::inspect;
use crate::role;

/// A cancelled query must be acknowledged within this time, or the connection is closed.
const CANCEL_LIMIT: Duration = Duration::from_millis(250);

/// The whole clean-up.
const TIDY_LIMIT: Duration = Duration::from_secs(5);

const ROLLBACK: &str = "IF @@TRANCOUNT > 0 ROLLBACK";
const DEFAULT_ISOLATION: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
const RESET: &str = "sys.sp_reset_connection";

/// How to clean, for all connections of a driver.
#[derive(Debug)]
pub(crate) struct Tidier {
    /// The database to go back to when the server cannot reset.
    pub(crate) database: Option<String>,
    /// The server refused the reset procedure: not asked again.
    pub(crate) reset_refused: AtomicBool,
    /// Numbers for the check of a cancelled connection, so that no old answer fits.
    pub(crate) checks: AtomicI32,
}

impl Tidier {
    pub(crate) fn new(database: Option<String>) -> Self {
        Self { database, reset_refused: AtomicBool::new(false), checks: AtomicI32::new(1) }
    }

    /// Cleans `conn`. An error means that it must be closed.
    ///
    /// Cancellation safety: a dropped future leaves the connection marked as pending, so it is cleaned
    /// again or closed, never handed out.
    pub(crate) async fn tidy(&self, conn: &mut Conn, full: bool) -> Result<(), Error> {
        let result = timeout(TIDY_LIMIT, self.steps(conn, full)).await;
        result.unwrap_or(Err(Error::Tidy("not finished in time")))
    }

    async fn steps(&self, conn: &mut Conn, full: bool) -> Result<(), Error> {
        let state = conn.state();
        let (client, track) = conn.parts();
        if track.dead.is_some() {
            return Err(Error::Tidy("the connection is broken"));
        }
        let pending = track.pending || state.answer_read != Some(true);
        let mut in_transaction = pending || track.unseen || state.in_transaction != Some(false);
        let isolation = track.isolation || track.unseen;
        let mut doubtful = track.doubtful;
        track.pending = true;
        if pending {
            let cancelled = timeout(CANCEL_LIMIT, client.cancel_query()).await;
            cancelled.map_err(|_| Error::Tidy("the cancelled query was not acknowledged"))??;
            doubtful = true;
        }
        let mut batch = Vec::new();
        if full {
            if in_transaction {
                run(client, ROLLBACK).await?;
                in_transaction = false;
            }
            if !self.reset(client).await? {
                batch.extend(self.database.as_deref().map(use_database));
                batch.push(DEFAULT_ISOLATION.to_owned());
            }
        }
        if in_transaction {
            batch.push(ROLLBACK.to_owned());
        }
        if isolation && batch.iter().all(|part| part != DEFAULT_ISOLATION) {
            batch.push(DEFAULT_ISOLATION.to_owned());
        }
        if !batch.is_empty() {
            run(client, &batch.join("; ")).await?;
        }
        if doubtful {
            let sent = self.checks.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if !role::echoes(client, sent).await? {
                return Err(Error::Tidy("the connection gave a wrong answer"));
            }
        }
        if inspect(client).in_transaction == Some(true) {
            return Err(Error::Tidy("the transaction could not be rolled back"));
        }
        track.cleaned();
        Ok(())
    }

    /// Resets the session. False if the server cannot: then T-SQL has to do.
    async fn reset(&self, client: &mut Client) -> Result<bool, Error> {
        if self.reset_refused.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let answer = match Command::new(RESET).exec(client).await {
            Ok(stream) => stream.into_command_result().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(result) if result.return_code() == 0 => Ok(true),
            Ok(_) => Ok(self.refused("a return code other than 0")),
            Err(tiberius::error::Error::Server(token)) if token.class() < FATAL_CLASS => {
                Ok(self.refused(token.message()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn refused(&self, reason: &str) -> bool {
        if !self.reset_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "pool_mssql",
                reason,
                "{RESET} was refused; connections are cleaned by T-SQL from now on"
            );
        }
        false
    }
}

/// Runs a batch that has no rows of interest.
async fn run(client: &mut Client, sql: &str) -> Result<(), Error> {
    client.simple_query(sql).await?.into_results().await?;
    Ok(())
}

fn use_database(name: &str) -> String {
    format!("USE [{}]", name.replace(']', "]]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_cannot_leave_its_brackets() {
        assert_eq!(use_database("Sales"), "USE [Sales]");
        assert_eq!(use_database("a]; DROP TABLE t --"), "USE [a]]; DROP TABLE t --]");
    }
}
