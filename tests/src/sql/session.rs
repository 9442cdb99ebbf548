//! One client's view of the data: its transaction, on blocking threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::inner::{Inner, columns, is_schema, query};
use super::replication::Edit;
use super::{Interrupt, SqlError, Store, Value};

/// Prepares a fresh SQLite connection: adds the functions a dialect needs.
pub(super) type Setup = Arc<dyn Fn(&Connection) -> rusqlite::Result<()> + Send + Sync>;

/// What a statement answered. Without columns it returned no rows.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Rows inserted, changed or deleted; 0 for a read or a schema change.
    pub affected: u64,
    /// The columns of the result.
    pub columns: Vec<Column>,
    /// Number of the row inserted last by this session, ever.
    pub last_row: i64,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

/// One column of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name or alias.
    pub name: String,
    /// The type in the table's declaration; `None` for an expression.
    pub declared: Option<String>,
}

/// What the reads of a transaction see of later commits, until its first write.
///
/// From its first write on, a transaction holds the write lock and so sees the newest data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Snapshot {
    /// Nothing: the first read fixes the view (REPEATABLE READ).
    FirstRead,
    /// Everything: each statement looks anew (READ COMMITTED).
    PerStatement,
}

/// One client's connection to the data set. Dropping it rolls back.
///
/// # Cancellation safety
///
/// A dropped future loses the session: its transaction is rolled back when the running statement
/// ends, and every later call fails.
pub struct Session {
    /// Never contended: the mutex only lets the session be shared between threads.
    inner: Option<Box<Mutex<Inner>>>,
    interrupt: Arc<Interrupt>,
    setup: Setup,
    site: usize,
    store: Arc<Store>,
    transaction: Option<Snapshot>,
}

impl Session {
    /// Opens the data set as a client of server number `site`.
    ///
    /// `setup` runs on every SQLite connection the session opens.
    ///
    /// # Errors
    ///
    /// When SQLite cannot open the file or `setup` fails.
    pub async fn open<F>(store: &Arc<Store>, site: usize, setup: F) -> Result<Self, SqlError>
    where
        F: Fn(&Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    {
        let interrupt = Arc::new(Interrupt::default());
        Self::open_with(store, site, interrupt, setup).await
    }

    /// Like [`open`](Self::open), with an interrupt that `setup` may know already.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_with<F>(
        store: &Arc<Store>,
        site: usize,
        interrupt: Arc<Interrupt>,
        setup: F,
    ) -> Result<Self, SqlError>
    where
        F: Fn(&Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    {
        let setup: Setup = Arc::new(setup);
        let edits = Arc::new(Mutex::new(Vec::new()));
        let main = {
            let (store, setup, edits) = (Arc::clone(store), Arc::clone(&setup), Arc::clone(&edits));
            blocking(move || {
                let main = store.open_main()?;
                setup(&main)?;
                main.update_hook(Some(move |_, database: &str, table: &str, row| {
                    if database == "main" {
                        edits.lock().push(Edit::Row { table: table.to_owned(), row });
                    }
                }));
                Ok::<_, SqlError>(main)
            })
            .await??
        };
        interrupt.watch(main.get_interrupt_handle());
        let inner = Inner::new(main, edits);
        let inner = Some(Box::new(Mutex::new(inner)));
        let store = Arc::clone(store);
        Ok(Self { inner, interrupt, setup, site, store, transaction: None })
    }

    /// Starts a transaction. Nothing is locked before its first write.
    ///
    /// A transaction that is open already goes on unchanged.
    pub fn begin(&mut self, snapshot: Snapshot) {
        self.transaction.get_or_insert(snapshot);
    }

    /// Runs a statement that changes no data of others.
    ///
    /// # Errors
    ///
    /// When the statement fails.
    pub async fn read(
        &mut self,
        sql: impl Into<String>,
        params: Vec<Value>,
    ) -> Result<Answer, SqlError> {
        let sql = sql.into();
        let fix = self.transaction == Some(Snapshot::FirstRead);
        let (store, setup, site) = (Arc::clone(&self.store), Arc::clone(&self.setup), self.site);
        let interrupt = Arc::clone(&self.interrupt);
        self.run(move |inner| {
            let reader = inner.reader(&store, site, &setup, &interrupt)?;
            if fix && reader.is_autocommit() {
                reader.execute_batch("BEGIN")?;
            }
            query(reader, &sql, &params)
        })
        .await
    }

    /// Runs a statement that changes data, in the open transaction or in one of its own. Waits for
    /// the write lock at most `lock_wait`.
    ///
    /// A failed statement leaves no trace; the transaction stays open, unless SQLite had to roll it
    /// back (it was interrupted while it wrote): look at [`in_transaction`](Self::in_transaction).
    ///
    /// # Errors
    ///
    /// When the lock is not free in time, or the statement fails.
    pub async fn write(
        &mut self,
        sql: impl Into<String>,
        params: Vec<Value>,
        lock_wait: Duration,
    ) -> Result<Answer, SqlError> {
        let sql = sql.into();
        self.take_lock(lock_wait).await?;
        let (store, site, own) = (Arc::clone(&self.store), self.site, self.transaction.is_none());
        let answer = self
            .run(move |inner| {
                inner.begin_write()?;
                let schema = is_schema(&sql);
                let mut answer = query(&inner.main, &sql, &params);
                if let (Ok(answer), true) = (&mut answer, schema) {
                    answer.affected = 0;
                    inner.edits.lock().push(Edit::Schema(sql));
                }
                if answer.is_err() && (own || inner.main.is_autocommit()) {
                    inner.rollback()?;
                } else if own {
                    inner.commit(&store, site)?;
                }
                answer
            })
            .await;
        if answer.is_err()
            && self.inner.as_ref().is_none_or(|inner| inner.lock().main.is_autocommit())
        {
            self.transaction = None;
        }
        answer
    }

    /// Takes the write lock for the open transaction, as a locking read does.
    ///
    /// # Errors
    ///
    /// When the lock is not free in time.
    pub async fn lock(&mut self, wait: Duration) -> Result<(), SqlError> {
        self.take_lock(wait).await?;
        self.run(Inner::begin_write).await
    }

    /// Commits. Without an open transaction nothing happens.
    ///
    /// # Errors
    ///
    /// When SQLite refuses; the transaction is rolled back then.
    pub async fn commit(&mut self) -> Result<(), SqlError> {
        self.transaction = None;
        let (store, site) = (Arc::clone(&self.store), self.site);
        self.run(move |inner| {
            if inner.writing {
                inner.commit(&store, site)?;
            }
            inner.end_reads()
        })
        .await
    }

    /// Rolls back. Without an open transaction nothing happens.
    ///
    /// # Errors
    ///
    /// When SQLite refuses.
    pub async fn rollback(&mut self) -> Result<(), SqlError> {
        self.transaction = None;
        self.run(|inner| {
            inner.rollback()?;
            inner.end_reads()
        })
        .await
    }

    /// Runs a savepoint statement (`SAVEPOINT a`, `ROLLBACK TO a`, `RELEASE a`) in the open
    /// transaction, which takes the write lock.
    ///
    /// # Errors
    ///
    /// When the lock is not free in time, or there is no such savepoint.
    pub async fn savepoint(
        &mut self,
        sql: impl Into<String>,
        lock_wait: Duration,
    ) -> Result<(), SqlError> {
        let sql = sql.into();
        self.lock(lock_wait).await?;
        self.run(move |inner| Ok(inner.main.execute_batch(&sql)?)).await
    }

    /// The columns and the number of parameters of a statement, without running it.
    ///
    /// # Errors
    ///
    /// When it cannot be prepared.
    pub async fn describe(
        &mut self,
        sql: impl Into<String>,
    ) -> Result<(Vec<Column>, usize), SqlError> {
        let sql = sql.into();
        let (store, setup, site) = (Arc::clone(&self.store), Arc::clone(&self.setup), self.site);
        let interrupt = Arc::clone(&self.interrupt);
        self.run(move |inner| {
            let reader = inner.reader(&store, site, &setup, &interrupt)?;
            let statement = reader.prepare(&sql)?;
            Ok((columns(&statement), statement.parameter_count()))
        })
        .await
    }

    /// Runs several statements on the session's own connection, outside any transaction and without
    /// the write lock: for temporary tables.
    ///
    /// # Errors
    ///
    /// When one of them fails.
    pub async fn local(&mut self, sql: impl Into<String>) -> Result<(), SqlError> {
        let sql = sql.into();
        self.run(move |inner| Ok(inner.main.execute_batch(&sql)?)).await
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether the open transaction holds the write lock.
    pub fn has_write_lock(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.lock().permit.is_some())
    }

    /// Stops this session from outside.
    pub fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// Waits for the write lock; the transaction that goes with it is not open yet.
    async fn take_lock(&mut self, wait: Duration) -> Result<(), SqlError> {
        let inner = self.inner.as_mut().ok_or_else(lost)?.get_mut();
        if inner.permit.is_none() {
            inner.permit = Some(self.store.lock(wait, &self.interrupt).await?);
        }
        Ok(())
    }

    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Inner) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let mut inner = self.inner.take().ok_or_else(lost)?;
        // Cancellation safety: `inner` is on the blocking thread. If this future is dropped, the
        // thread drops it after the statement, which rolls back and then frees the write lock.
        let (inner, result) = blocking(move || {
            let result = work(inner.get_mut());
            (inner, result)
        })
        .await?;
        self.inner = Some(inner);
        result
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("site", &self.site)
            .field("transaction", &self.transaction)
            .field("has_write_lock", &self.has_write_lock())
            .finish_non_exhaustive()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SqlError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| SqlError::Other(format!("statement thread failed: {error}")))
}

fn lost() -> SqlError {
    SqlError::Other("the session was lost".to_owned())
}
