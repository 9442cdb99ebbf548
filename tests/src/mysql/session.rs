//! One client's session: runs statements, keeps the transaction and the settings.

mod settings;
mod transactions;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mysql_common::constants::StatusFlags;

use super::Ending;
use super::context::{Context, Vars};
use super::counters::count;
use super::error::MySqlError;
use super::functions;
use super::show;
use super::statement::Statement;
use super::wire::{Done, Table};
use crate::sql::{self, Answer, Column, SqlError, Value};

/// What a statement answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Done(Done),
    /// The statement ends the connection after its answer.
    Goodbye,
    Table(Table),
}

/// Statements run here.
#[derive(Debug)]
pub(super) struct Session {
    context: Arc<Context>,
    data: sql::Session,
    transaction: Option<Transaction>,
    next_read_only: Option<bool>,
    next_isolation: Option<String>,
    temporary: HashSet<String>,
}

#[derive(Debug, Clone, Copy)]
struct Transaction {
    read_only: bool,
    /// The host was demoted and the writes of this transaction are gone.
    lost: bool,
}

impl Session {
    pub(super) async fn open(context: Context) -> Result<Self, MySqlError> {
        let context = Arc::new(context);
        let store = Arc::clone(&context.cluster.store);
        let interrupt = Arc::clone(&context.interrupt);
        let functions = Arc::clone(&context);
        let data = sql::Session::open_with(&store, context.host, interrupt, move |connection| {
            functions::install(connection, &functions)
        })
        .await
        .map_err(|error| MySqlError::from_sql(error, ""))?;
        Ok(Self {
            context,
            data,
            transaction: None,
            next_read_only: None,
            next_isolation: None,
            temporary: HashSet::new(),
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The flags that go with every answer.
    pub(super) fn status(&self) -> StatusFlags {
        let mut status = StatusFlags::empty();
        if self.context.vars.lock().autocommit {
            status |= StatusFlags::SERVER_STATUS_AUTOCOMMIT;
        }
        if let Some(transaction) = self.transaction {
            status |= StatusFlags::SERVER_STATUS_IN_TRANS;
            if transaction.read_only {
                status |= StatusFlags::SERVER_STATUS_IN_TRANS_READONLY;
            }
        }
        status
    }

    /// The host stopped being writable: what this session has written and not committed is undone.
    pub(super) async fn demoted(&mut self) {
        if self.data.has_write_lock()
            && self.data.rollback().await.is_ok()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.lost = true;
        }
    }

    /// Puts everything back to where it was after the login. Keeps the current database.
    pub(super) async fn reset(&mut self) -> Result<(), MySqlError> {
        self.roll_back().await?;
        self.context.host().release_named_locks(self.context.id);
        self.next_read_only = None;
        self.next_isolation = None;
        let drops: String = self
            .temporary
            .drain()
            .map(|name| format!("DROP TABLE IF EXISTS temp.\"{}\";", name.replace('"', "\"\"")))
            .collect();
        let dropped = self.data.local(drops).await;
        let mut vars = self.context.vars.lock();
        let (user, database) = (vars.user.clone(), vars.database.clone());
        *vars = Vars::new(user, database);
        drop(vars);
        dropped.map_err(|error| self.error(error))
    }

    /// Changes the current database.
    pub(super) fn change_database(&self, name: &str) -> Result<(), MySqlError> {
        let known = self.context.cluster.has_database(name);
        if !known || self.context.host().switches.borrow().unknown_database {
            return Err(MySqlError::unknown_database(name));
        }
        self.context.vars.lock().database = Some(name.to_owned());
        let mut links = self.context.host().links.lock();
        if let Some(link) = links.get_mut(&self.context.id) {
            link.database = Some(name.to_owned());
        }
        Ok(())
    }

    /// The columns a statement will answer with, as far as that can be known before.
    pub(super) async fn describe(
        &mut self,
        statement: &Statement,
    ) -> Result<Vec<Column>, MySqlError> {
        let sql = match statement {
            Statement::Read { sql, .. } | Statement::Write { sql, .. } => sql.clone(),
            Statement::Unknown(text) => return Err(MySqlError::syntax(text)),
            _ => return Ok(Vec::new()),
        };
        let described = self.data.describe(sql).await;
        described.map(|(columns, _)| columns).map_err(|error| self.error(error))
    }

    /// Runs one statement.
    pub(super) async fn run(
        &mut self,
        statement: &Statement,
        params: Vec<Value>,
    ) -> Result<Reply, MySqlError> {
        let reply = self.dispatch(statement, params).await;
        // SQLite may have had to give up a whole transaction.
        if self.transaction.is_some_and(|transaction| !transaction.lost)
            && !self.data.in_transaction()
        {
            self.transaction = None;
        }
        let mut vars = self.context.vars.lock();
        match &reply {
            Ok(Reply::Done(done)) => vars.row_count = done.affected as i64,
            Ok(Reply::Table(table)) => {
                vars.row_count = -1;
                vars.found_rows = table.rows.len() as u64;
            }
            Ok(Reply::Goodbye) | Err(_) => vars.row_count = -1,
        }
        drop(vars);
        reply
    }

    async fn dispatch(
        &mut self,
        statement: &Statement,
        params: Vec<Value>,
    ) -> Result<Reply, MySqlError> {
        match statement {
            Statement::Read { sql, locks, tables } => self.read(sql, params, *locks, *tables).await,
            Statement::Write { sql, insert, table } => {
                self.write(sql, params, *insert, table.as_deref()).await
            }
            Statement::Do(sql) => {
                self.query(sql, params).await?;
                Ok(Reply::Done(Done::default()))
            }
            Statement::Begin { read_only, snapshot } => self.begin(*read_only, *snapshot).await,
            Statement::Commit { chain, release } => {
                count(&self.context.host().counts.commits);
                let ended = self.transaction;
                self.commit().await?;
                self.ended(ended, *chain, *release)
            }
            Statement::Rollback { chain, release } => {
                count(&self.context.host().counts.rollbacks);
                let ended = self.transaction;
                self.roll_back().await?;
                self.ended(ended, *chain, *release)
            }
            Statement::Savepoint(sql) => self.savepoint(sql).await,
            Statement::Schema { sqls, temporary, table } => {
                self.schema(sqls, *temporary, table.as_deref()).await
            }
            Statement::Set(assignments) => {
                for assignment in assignments {
                    self.assign(assignment, &params).await?;
                }
                Ok(Reply::Done(Done::default()))
            }
            Statement::SetTransaction { scope, read_only, isolation } => {
                self.set_transaction(*scope, *read_only, isolation.clone())
            }
            Statement::Use(name) => {
                self.change_database(name)?;
                Ok(Reply::Done(Done::default()))
            }
            Statement::Kill { query_only, id } => self.kill(*query_only, id, params).await,
            Statement::Show(what) => show::show(self, what).await.map(Reply::Table),
            Statement::CreateDatabase { name, if_missing } => {
                self.check_write()?;
                self.commit().await?;
                if self.context.cluster.has_database(name) && !if_missing {
                    let text = format!("Can't create database '{name}'; database exists");
                    return Err(MySqlError::new(1007, text));
                }
                self.context.cluster.add_database(name);
                Ok(Reply::Done(Done { affected: 1, ..Done::default() }))
            }
            Statement::DropDatabase(name) => {
                self.check_write()?;
                self.commit().await?;
                self.context.cluster.databases.lock().remove(&name.to_ascii_lowercase());
                Ok(Reply::Done(Done::default()))
            }
            Statement::Nothing => Ok(Reply::Done(Done::default())),
            Statement::Unknown(text) => Err(MySqlError::syntax(text)),
        }
    }

    /// Runs a query outside any rule of transactions.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        params: Vec<Value>,
    ) -> Result<Answer, MySqlError> {
        let answer = self.data.read(sql, params).await;
        // A function that waited returns, and the statement ends, when it is interrupted.
        if answer.is_ok() && self.context.interrupt.is_set() {
            return Err(MySqlError::interrupted());
        }
        answer.map_err(|error| self.error(error))
    }

    async fn read(
        &mut self,
        sql: &str,
        params: Vec<Value>,
        locks: bool,
        tables: bool,
    ) -> Result<Reply, MySqlError> {
        if tables {
            self.begin_implicitly();
        }
        if locks
            && self
                .transaction
                .is_some_and(|transaction| !transaction.read_only && !transaction.lost)
            && self.is_writable()
        {
            let wait = self.lock_wait();
            self.data.lock(wait).await.map_err(|error| self.error(error))?;
        }
        let answer = self.query(sql, params).await?;
        Ok(Reply::Table(Table { columns: answer.columns, rows: answer.rows }))
    }

    async fn write(
        &mut self,
        sql: &str,
        params: Vec<Value>,
        insert: bool,
        table: Option<&str>,
    ) -> Result<Reply, MySqlError> {
        let temporary = table.is_some_and(|table| self.temporary.contains(table));
        if !temporary {
            self.check_write()?;
        }
        self.begin_implicitly();
        let wait = self.lock_wait();
        let answer = self.data.write(sql, params, wait).await.map_err(|error| self.error(error))?;
        let counting = insert
            && answer.affected > 0
            && table
                .is_some_and(|table| self.context.cluster.counting_tables.lock().contains(table));
        let mut insert_id = 0;
        if counting {
            // MySQL names the first row of several.
            insert_id = (answer.last_row - answer.affected as i64 + 1).max(0) as u64;
            self.context.vars.lock().last_insert_id = insert_id;
        }
        if answer.columns.is_empty() {
            let info = String::new();
            return Ok(Reply::Done(Done { affected: answer.affected, insert_id, info }));
        }
        Ok(Reply::Table(Table { columns: answer.columns, rows: answer.rows }))
    }

    async fn schema(
        &mut self,
        sqls: &[String],
        temporary: bool,
        table: Option<&str>,
    ) -> Result<Reply, MySqlError> {
        let known = table.is_some_and(|table| self.temporary.contains(table));
        if temporary || known {
            for sql in sqls {
                self.data.local(sql.clone()).await.map_err(|error| self.error(error))?;
            }
            if let Some(table) = table {
                if sqls.iter().any(|sql| sql.starts_with("DROP")) {
                    self.temporary.remove(table);
                } else {
                    self.temporary.insert(table.to_owned());
                }
            }
            return Ok(Reply::Done(Done::default()));
        }
        self.check_write()?;
        // Changes of the schema commit what is open.
        self.commit().await?;
        let wait = self.lock_wait();
        for sql in sqls {
            self.data
                .write(sql.clone(), Vec::new(), wait)
                .await
                .map_err(|error| self.error(error))?;
            if let Some(table) = table
                && sql.contains("AUTOINCREMENT")
            {
                self.context.cluster.counting_tables.lock().insert(table.to_owned());
            }
        }
        Ok(Reply::Done(Done::default()))
    }

    async fn kill(
        &mut self,
        query_only: bool,
        id: &str,
        params: Vec<Value>,
    ) -> Result<Reply, MySqlError> {
        let answer = self.query(&format!("SELECT {id}"), params).await?;
        let id = match answer.rows.into_iter().flatten().next() {
            Some(Value::Integer(id)) => u32::try_from(id).unwrap_or(0),
            _ => 0,
        };
        let host = self.context.host();
        let found = if query_only {
            let links = host.links.lock();
            links.get(&id).inspect(|link| link.interrupt.interrupt()).is_some()
        } else {
            host.end(id, Ending::Fin)
        };
        if !found {
            return Err(MySqlError::new(1094, format!("Unknown thread id: {id}")));
        }
        Ok(Reply::Done(Done::default()))
    }

    /// Fails when this session may not write now.
    fn check_write(&self) -> Result<(), MySqlError> {
        self.check_host()?;
        if self.transaction.is_some_and(|transaction| transaction.lost) {
            return Err(MySqlError::server_read_only("--read-only"));
        }
        let read_only = match self.transaction {
            Some(transaction) => transaction.read_only,
            None => self.next_read_only.unwrap_or_else(|| self.context.vars.lock().read_only),
        };
        if read_only { Err(MySqlError::read_only_transaction()) } else { Ok(()) }
    }

    fn check_host(&self) -> Result<(), MySqlError> {
        if self.context.privileged {
            return Ok(());
        }
        self.context.host().switches.borrow().check_writable()
    }

    fn is_writable(&self) -> bool {
        self.check_host().is_ok()
    }

    fn lock_wait(&self) -> Duration {
        let vars = self.context.vars.lock();
        match vars.session.get("innodb_lock_wait_timeout") {
            Some(Value::Integer(seconds)) => Duration::from_secs((*seconds).max(1) as u64),
            _ => self.context.cluster.lock_wait,
        }
    }

    fn error(&self, error: SqlError) -> MySqlError {
        MySqlError::from_sql(error, &self.context.database())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.context.host().release_named_locks(self.context.id);
    }
}
