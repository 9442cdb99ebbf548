//! The data behind one server or one cluster: SQLite files in a temporary directory, shared by all
//! servers that hold a handle, removed with the last one.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::tables::CreatedTable;
use super::value::SqlType;

/// A set of databases. Cloning shares it; so do mirrored partners and the replicas of a group.
#[derive(Clone, Debug)]
pub struct DataSet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    names: Vec<String>,
    databases: HashMap<String, Database>,
}

#[derive(Debug)]
struct Database {
    path: PathBuf,
    /// Keeps the write-ahead log alive between connections, and serves [`DataSet::scalar`].
    anchor: Mutex<Connection>,
    catalog: Mutex<HashMap<String, CreatedTable>>,
}

impl DataSet {
    /// Creates empty databases with these names.
    ///
    /// # Errors
    ///
    /// When the temporary directory or a database in it cannot be created.
    pub fn new(names: &[&str]) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique =
            format!("mssql-kit-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&directory)?;
        let mut inner = Inner {
            directory,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            databases: HashMap::new(),
        };
        for (index, name) in names.iter().enumerate() {
            let path = inner.directory.join(format!("{index}.db"));
            let anchor = open(&path).map_err(io::Error::other)?;
            anchor.pragma_update(None, "journal_mode", "wal").map_err(io::Error::other)?;
            // A read makes the anchor attach to the log.
            anchor
                .query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))
                .map_err(io::Error::other)?;
            let database = Database { path, anchor: Mutex::new(anchor), catalog: Mutex::default() };
            inner.databases.insert((*name).to_owned(), database);
        }
        Ok(Self(Arc::new(inner)))
    }

    /// The names of the databases.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Runs a query in SQLite's own dialect past every server and answers its first value, `None`
    /// for NULL or no row: what is durable, whatever any connection believes.
    ///
    /// # Errors
    ///
    /// When there is no such database, or SQLite refuses the query.
    pub fn scalar(&self, database: &str, sql: &str) -> io::Result<Option<i64>> {
        let database = self.0.databases.get(database).ok_or(io::ErrorKind::NotFound)?;
        let anchor = database.anchor.lock();
        match anchor.query_row(sql, [], |row| row.get(0)) {
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            other => other.map_err(io::Error::other),
        }
    }

    pub(crate) fn contains(&self, database: &str) -> bool {
        self.0.databases.contains_key(database)
    }

    /// A connection of its own to one of the databases; to an empty one for `master`.
    pub(crate) fn connect(&self, database: &str) -> rusqlite::Result<Connection> {
        match self.0.databases.get(database) {
            Some(database) => open(&database.path),
            None => Connection::open_in_memory(),
        }
    }

    pub(crate) fn remember(&self, database: &str, table: CreatedTable) {
        if let Some(database) = self.0.databases.get(database) {
            database.catalog.lock().insert(table.name.to_lowercase(), table);
        }
    }

    /// The declared type of the column in the first of the tables that has it.
    pub(crate) fn column_type(
        &self,
        database: &str,
        tables: &[String],
        column: &str,
    ) -> Option<SqlType> {
        let catalog = self.0.databases.get(database)?.catalog.lock();
        tables.iter().find_map(|table| {
            let columns = &catalog.get(table)?.columns;
            columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, ty)| *ty)
        })
    }

    pub(crate) fn has_identity(&self, database: &str, table: &str) -> bool {
        let catalog = self.0.databases.get(database).map(|database| database.catalog.lock());
        catalog.is_some_and(|catalog| {
            catalog.get(&table.to_lowercase()).is_some_and(|table| table.identity)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.databases.clear();
        // Nothing can be done about a directory that refuses to go.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn open(path: &PathBuf) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    // Waiting for a lock is done by the session, without blocking the runtime.
    connection.busy_timeout(std::time::Duration::ZERO)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_directory_goes_with_the_last_handle() {
        let data = DataSet::new(&["app"]).unwrap();
        let directory = data.0.directory.clone();
        let other = data.clone();
        drop(data);
        assert!(directory.exists());
        assert_eq!(other.scalar("app", "SELECT 7").unwrap(), Some(7));
        assert!(other.scalar("nope", "SELECT 7").is_err());
        drop(other);
        assert!(!directory.exists());
    }
}
