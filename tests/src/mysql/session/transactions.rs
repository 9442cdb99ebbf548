//! BEGIN, COMMIT, ROLLBACK and savepoints.

use super::{Reply, Session, Transaction};
use crate::mysql::error::MySqlError;
use crate::mysql::wire::Done;
use crate::sql::{Snapshot, SqlError};

impl Session {
    pub(super) async fn begin(
        &mut self,
        read_only: Option<bool>,
        snapshot: bool,
    ) -> Result<Reply, MySqlError> {
        if read_only == Some(false) && !self.context.privileged {
            self.context.host().switches.borrow().check_writable()?;
        }
        self.commit().await?;
        self.open_transaction(read_only);
        if snapshot {
            // The first read fixes what the transaction sees.
            self.query("SELECT 1 FROM sqlite_master", Vec::new()).await?;
        }
        Ok(Reply::Done(Done::default()))
    }

    pub(super) fn begin_implicitly(&mut self) {
        if self.transaction.is_none() && !self.context.vars.lock().autocommit {
            self.open_transaction(None);
        }
    }

    pub(super) fn open_transaction(&mut self, read_only: Option<bool>) {
        let vars = self.context.vars.lock();
        let next_read_only = self.next_read_only.take();
        let read_only = read_only.or(next_read_only).unwrap_or(vars.read_only);
        let isolation = self.next_isolation.take().unwrap_or_else(|| vars.isolation.clone());
        drop(vars);
        let fixed = matches!(isolation.as_str(), "REPEATABLE-READ" | "SERIALIZABLE");
        self.data.begin(if fixed { Snapshot::FirstRead } else { Snapshot::PerStatement });
        self.transaction = Some(Transaction { read_only, lost: false });
    }

    pub(super) async fn commit(&mut self) -> Result<(), MySqlError> {
        let transaction = self.transaction.take();
        let writable = self.check_host();
        let lost = transaction.is_some_and(|transaction| transaction.lost);
        if lost || (self.data.has_write_lock() && writable.is_err()) {
            self.data.rollback().await.map_err(|error| self.error(error))?;
            writable?;
            return Err(MySqlError::server_read_only("--read-only"));
        }
        self.data.commit().await.map_err(|error| self.error(error))
    }

    pub(super) async fn roll_back(&mut self) -> Result<(), MySqlError> {
        self.transaction = None;
        // What was set for the next transaction alone goes as well.
        (self.next_read_only, self.next_isolation) = (None, None);
        self.data.rollback().await.map_err(|error| self.error(error))
    }

    pub(super) fn ended(
        &mut self,
        ended: Option<Transaction>,
        chain: bool,
        release: bool,
    ) -> Result<Reply, MySqlError> {
        if release {
            return Ok(Reply::Goodbye);
        }
        if chain {
            self.open_transaction(ended.map(|transaction| transaction.read_only));
        }
        Ok(Reply::Done(Done::default()))
    }

    pub(super) async fn savepoint(&mut self, sql: &str) -> Result<Reply, MySqlError> {
        self.begin_implicitly();
        let Some(transaction) = self.transaction else {
            // Outside a transaction a savepoint is gone with its own statement.
            let setting = sql.get(..9).is_some_and(|word| word.eq_ignore_ascii_case("SAVEPOINT"));
            if setting {
                return Ok(Reply::Done(Done::default()));
            }
            return Err(MySqlError::new(1305, "SAVEPOINT does not exist"));
        };
        // A transaction that writes nothing has nothing to undo.
        if !transaction.read_only && !transaction.lost && self.is_writable() {
            let wait = self.lock_wait();
            match self.data.savepoint(sql, wait).await {
                Err(SqlError::Other(text)) if text.starts_with("no such savepoint") => {
                    return Err(MySqlError::new(1305, "SAVEPOINT does not exist"));
                }
                result => result.map_err(|error| self.error(error))?,
            }
        }
        Ok(Reply::Done(Done::default()))
    }
}
