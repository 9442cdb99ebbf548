//! The SQLite connections of a session, on whatever thread uses them.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::OwnedSemaphorePermit;

use super::replication::{CopyId, Edit};
use super::session::{Answer, Column, Setup};
use super::store::open;
use super::{Interrupt, SqlError, Store, Value};

/// Moves to a blocking thread and back. The order of the fields matters: the connections close, and
/// so roll back, before the write lock is released.
pub(super) struct Inner {
    pub(super) main: Connection,
    stale: Option<Stale>,
    pub(super) edits: Arc<Mutex<Vec<Edit>>>,
    /// The open transaction is one that writes; goes with the permit.
    pub(super) writing: bool,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

struct Stale {
    connection: Connection,
    copy: CopyId,
}

impl Inner {
    pub(super) fn new(main: Connection, edits: Arc<Mutex<Vec<Edit>>>) -> Self {
        Self { main, stale: None, edits, writing: false, permit: None }
    }

    /// The connection reads go to: that of the open transaction; else the late copy, when this
    /// server lags; else the shared file.
    pub(super) fn reader(
        &mut self,
        store: &Store,
        site: usize,
        setup: &Setup,
        interrupt: &Interrupt,
    ) -> Result<&Connection, SqlError> {
        if !self.main.is_autocommit() {
            return Ok(&self.main);
        }
        let fixed = self.stale.as_ref().is_some_and(|stale| !stale.connection.is_autocommit());
        if !fixed {
            match store.replication().copy(site)? {
                None => self.stale = None,
                Some(copy) => {
                    if self.stale.as_ref().is_none_or(|stale| stale.copy != copy) {
                        let connection = open(&copy.path)?;
                        setup(&connection)?;
                        interrupt.watch(connection.get_interrupt_handle());
                        self.stale = Some(Stale { connection, copy });
                    }
                }
            }
        }
        Ok(self.stale.as_ref().map_or(&self.main, |stale| &stale.connection))
    }

    /// Opens the transaction that goes with the write lock, if it is not open.
    pub(super) fn begin_write(&mut self) -> Result<(), SqlError> {
        if self.writing {
            return Ok(());
        }
        self.end_reads()?;
        if let Err(error) = self.main.execute_batch("BEGIN IMMEDIATE") {
            self.permit = None;
            return Err(error.into());
        }
        self.edits.lock().clear();
        self.writing = true;
        Ok(())
    }

    pub(super) fn commit(&mut self, store: &Store, site: usize) -> Result<(), SqlError> {
        let edits = std::mem::take(&mut *self.edits.lock());
        let committed = store.replication().commit(&self.main, site, edits);
        if committed.is_err() {
            self.rollback()?;
        }
        self.release();
        committed
    }

    pub(super) fn rollback(&mut self) -> Result<(), SqlError> {
        let undone =
            if self.main.is_autocommit() { Ok(()) } else { self.main.execute_batch("ROLLBACK") };
        self.edits.lock().clear();
        self.release();
        Ok(undone?)
    }

    fn release(&mut self) {
        self.writing = false;
        self.permit = None;
    }

    /// Ends transactions that only read.
    pub(super) fn end_reads(&mut self) -> Result<(), SqlError> {
        if !self.main.is_autocommit() {
            self.main.execute_batch("COMMIT")?;
        }
        match &self.stale {
            Some(stale) if !stale.connection.is_autocommit() => {
                Ok(stale.connection.execute_batch("COMMIT")?)
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn query(
    connection: &Connection,
    sql: &str,
    params: &[Value],
) -> Result<Answer, SqlError> {
    // Not cached: a cached statement keeps the columns `*` had before a schema change.
    let mut statement = connection.prepare(sql)?;
    for (at, value) in params.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(at + 1, value)?;
    }
    let columns = columns(&statement);
    let reads = statement.readonly();
    let mut found = statement.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push((0..columns.len()).map(|at| row.get(at)).collect::<Result<_, _>>()?);
    }
    let affected = if reads { 0 } else { connection.changes() };
    Ok(Answer { affected, columns, last_row: connection.last_insert_rowid(), rows })
}

pub(super) fn columns(statement: &rusqlite::Statement<'_>) -> Vec<Column> {
    let column = |column: &rusqlite::Column<'_>| Column {
        name: column.name().to_owned(),
        declared: column.decl_type().map(str::to_owned),
    };
    statement.columns().iter().map(column).collect()
}

pub(super) fn is_schema(sql: &str) -> bool {
    let word: String =
        sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect::<String>();
    ["ALTER", "CREATE", "DROP"].iter().any(|schema| word.eq_ignore_ascii_case(schema))
}
