//! Who has executed which write, and servers that apply writes late.
//!
//! Every committed write gets a number at the server that took it, as a GTID does. A server without
//! delay reads the shared file and so has executed everything. A server with a delay reads a copy of
//! the file, made when the delay was set; each committed transaction is kept, as the final values of
//! the rows it touched, and applied to the copy when it is old enough. So a lagged server shows
//! stale rows and stale GTIDs, together.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::{SqlError, Value, store};

/// How late a server applies the writes of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delay {
    /// Each write is applied when it is this old.
    By(Duration),
    /// Nothing is applied: replication is broken and its lag unknown.
    Stopped,
}

/// The log of committed writes. Its methods block for a few disk writes: call them on a blocking
/// thread.
#[derive(Debug)]
pub struct Replication {
    log: Mutex<Log>,
    directory: PathBuf,
}

#[derive(Debug)]
struct Log {
    /// Number of writes taken, per server.
    executed: Vec<u64>,
    copies: Vec<Option<Copy>>,
    copies_made: u64,
    main: Connection,
}

#[derive(Debug)]
struct Copy {
    delay: Delay,
    applied: Vec<u64>,
    waiting: VecDeque<Arc<Change>>,
    connection: Connection,
    file: CopyFile,
}

/// Names one copy: a server that is told to lag twice has two, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyId {
    pub(super) path: PathBuf,
}

#[derive(Debug)]
struct CopyFile(CopyId);

/// One committed transaction.
#[derive(Debug)]
struct Change {
    at: Instant,
    origin: usize,
    effects: Vec<Effect>,
}

#[derive(Debug)]
enum Effect {
    Delete { table: String, row: i64 },
    Put { table: String, columns: Vec<String>, values: Vec<Value> },
    Schema(String),
}

/// What a transaction touched, noted as it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Row { table: String, row: i64 },
    Schema(String),
}

impl Replication {
    pub(super) fn new(sites: usize, main: Connection, directory: PathBuf) -> Self {
        let log = Log {
            executed: vec![0; sites],
            copies: (0..sites).map(|_| None).collect(),
            copies_made: 0,
            main,
        };
        Self { log: Mutex::new(log), directory }
    }

    /// Sets how late a server applies writes; `None` puts it back on the shared data at once.
    ///
    /// Unknown servers are ignored.
    ///
    /// # Errors
    ///
    /// When the copy cannot be made.
    pub fn set_delay(&self, site: usize, delay: Option<Delay>) -> Result<(), SqlError> {
        let mut log = self.log.lock();
        let log = &mut *log;
        let Some(slot) = log.copies.get_mut(site) else { return Ok(()) };
        match (delay, slot) {
            (None, slot) => *slot = None,
            (Some(delay), Some(copy)) => {
                // What was due under the old delay has been seen by readers and stays.
                copy.catch_up(Instant::now())?;
                copy.delay = delay;
            }
            (Some(delay), slot) => {
                log.copies_made += 1;
                let path = self.directory.join(format!("copy-{}.db", log.copies_made));
                let file = CopyFile(CopyId { path });
                // No commit can slip in: it needs the log that is locked here.
                let connection = clone_database(&log.main, &file.0)?;
                let applied = log.executed.clone();
                let waiting = VecDeque::new();
                *slot = Some(Copy { delay, applied, waiting, connection, file });
            }
        }
        Ok(())
    }

    /// The delay of a server, as last set.
    pub fn delay(&self, site: usize) -> Option<Delay> {
        self.log.lock().copies.get(site)?.as_ref().map(|copy| copy.delay)
    }

    /// How many writes of each server this one has executed: `[3, 0]` means the writes 1 to 3 of
    /// server 0 and none of server 1.
    ///
    /// # Errors
    ///
    /// When applying what has become due fails.
    pub fn executed(&self, site: usize) -> Result<Vec<u64>, SqlError> {
        let mut log = self.log.lock();
        match log.copies.get_mut(site) {
            Some(Some(copy)) => {
                copy.catch_up(Instant::now())?;
                Ok(copy.applied.clone())
            }
            _ => Ok(log.executed.clone()),
        }
    }

    /// The copy a server reads from, brought up to date as far as its delay allows.
    pub(super) fn copy(&self, site: usize) -> Result<Option<CopyId>, SqlError> {
        let mut log = self.log.lock();
        let Some(Some(copy)) = log.copies.get_mut(site) else { return Ok(None) };
        copy.catch_up(Instant::now())?;
        Ok(Some(copy.file.0.clone()))
    }

    /// Commits the open write transaction of `connection` and numbers it.
    pub(super) fn commit(
        &self,
        connection: &Connection,
        origin: usize,
        edits: Vec<Edit>,
    ) -> Result<(), SqlError> {
        let mut log = self.log.lock();
        connection.execute_batch("COMMIT")?;
        if edits.is_empty() {
            return Ok(());
        }
        if let Some(executed) = log.executed.get_mut(origin) {
            *executed += 1;
        }
        if log.copies.iter().all(Option::is_none) {
            return Ok(());
        }
        // The caller still holds the write lock, so the rows are as it committed them.
        let effects = effects(connection, edits)?;
        let change = Arc::new(Change { at: Instant::now(), origin, effects });
        for copy in log.copies.iter_mut().flatten() {
            copy.waiting.push_back(Arc::clone(&change));
        }
        Ok(())
    }
}

impl Copy {
    fn catch_up(&mut self, now: Instant) -> Result<(), SqlError> {
        let Delay::By(delay) = self.delay else { return Ok(()) };
        while let Some(change) = self.waiting.front() {
            if now.saturating_duration_since(change.at) < delay {
                break;
            }
            let transaction = self.connection.transaction()?;
            for effect in &change.effects {
                effect.apply(&transaction)?;
            }
            transaction.commit()?;
            if let Some(applied) = self.applied.get_mut(change.origin) {
                *applied += 1;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

impl Effect {
    fn apply(&self, connection: &Connection) -> Result<(), SqlError> {
        match self {
            Self::Schema(sql) => connection.execute_batch(sql)?,
            Self::Delete { table, row } => {
                let sql = format!("DELETE FROM {} WHERE rowid = ?", quote(table));
                connection.prepare_cached(&sql)?.execute([row])?;
            }
            Self::Put { table, columns, values } => {
                let names: Vec<String> = columns.iter().map(|name| quote(name)).collect();
                let marks = vec!["?"; columns.len()].join(", ");
                let table = quote(table);
                let sql = format!(
                    "INSERT OR REPLACE INTO {table}({}) VALUES ({marks})",
                    names.join(", ")
                );
                connection.prepare_cached(&sql)?.execute(params_from_iter(values))?;
            }
        }
        Ok(())
    }
}

impl Drop for CopyFile {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.0.path.clone().into_os_string();
            name.push(suffix);
            let _ = fs::remove_file(name);
        }
    }
}

/// Page by page, so that row numbers stay the same.
fn clone_database(from: &Connection, to: &CopyId) -> Result<Connection, SqlError> {
    let mut connection = Connection::open(&to.path)?;
    let backup = Backup::new(from, &mut connection)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(backup);
    drop(connection);
    // Opened again: the settings belong to the copied file.
    store::open(&to.path)
}

fn effects(connection: &Connection, edits: Vec<Edit>) -> Result<Vec<Effect>, SqlError> {
    let mut effects = Vec::with_capacity(edits.len());
    for edit in edits {
        match edit {
            Edit::Schema(sql) => effects.push(Effect::Schema(sql)),
            Edit::Row { table, row } => {
                let sql = format!("SELECT rowid, * FROM {} WHERE rowid = ?", quote(&table));
                let mut select = match connection.prepare(&sql) {
                    Ok(select) => select,
                    // The same transaction dropped the table afterwards.
                    Err(_) => continue,
                };
                let columns: Vec<String> =
                    select.column_names().into_iter().skip(1).map(str::to_owned).collect();
                let count = columns.len() + 1;
                let values = select
                    .query_row([row], |found| (0..count).map(|at| found.get(at)).collect())
                    .optional()?;
                effects.push(match values {
                    Some(values) => {
                        let columns = std::iter::once("rowid".to_owned()).chain(columns).collect();
                        Effect::Put { table, columns, values }
                    }
                    None => Effect::Delete { table, row },
                });
            }
        }
    }
    Ok(effects)
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
