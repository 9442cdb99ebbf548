//! The file that all servers of a cluster share, and its write lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Interrupt, Replication, SqlError};

/// How long SQLite itself waits for a lock. The write lock above it makes such a wait rare: only
/// checkpoints and schema reads can cause one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// One data set in a temporary directory of its own, removed when the last user is gone.
#[derive(Debug)]
pub struct Store {
    // Declared before the directory: the copies in it go first.
    replication: Replication,
    write_lock: Arc<Semaphore>,
    main: PathBuf,
    directory: Directory,
}

impl Store {
    /// Makes an empty data set for a cluster of `sites` servers.
    ///
    /// # Errors
    ///
    /// When the temporary directory or the file in it cannot be made.
    pub fn create(sites: usize) -> Result<Arc<Self>, SqlError> {
        let directory = Directory::create()
            .map_err(|error| SqlError::Other(format!("no temporary directory: {error}")))?;
        let main = directory.path.join("main.db");
        let connection = open(&main)?;
        // Write-ahead logging: readers and the writer never wait for each other. Kept in the file.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let replication = Replication::new(sites, connection, directory.path.clone());
        Ok(Arc::new(Self { replication, write_lock: Arc::new(Semaphore::new(1)), main, directory }))
    }

    /// The log of committed writes, and the servers that apply it late.
    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    /// Removes the files now. Sessions that are open keep what they have open and end in errors
    /// sooner or later; new ones fail.
    ///
    /// For owners who are dropped before their sessions are: a process that ends soon after would
    /// leave the files behind.
    pub fn discard(&self) {
        self.directory.remove();
    }

    /// Opens the shared file.
    pub(super) fn open_main(&self) -> Result<Connection, SqlError> {
        open(&self.main)
    }

    /// Waits for the write lock, first come first served.
    pub(super) async fn lock(
        &self,
        wait: Duration,
        interrupt: &Interrupt,
    ) -> Result<OwnedSemaphorePermit, SqlError> {
        let lock = Arc::clone(&self.write_lock);
        tokio::select! {
            biased;
            permit = lock.acquire_owned() => permit.map_err(|_| SqlError::LockTimeout),
            () = interrupt.interrupted() => Err(SqlError::Interrupted),
            () = tokio::time::sleep(wait) => Err(SqlError::LockTimeout),
        }
    }
}

/// Opens a SQLite file with the settings every connection needs.
pub(super) fn open(path: &Path) -> Result<Connection, SqlError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The data outlives no process, so nothing needs to reach the disk.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A fresh directory, removed with its content on drop.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn create() -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!(
            "pool-tests-{}-{}-{}",
            std::process::id(),
            now.as_nanos(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        // Fails when it exists: nobody else's files are used or removed.
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.remove();
    }
}
