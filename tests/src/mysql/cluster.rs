//! A cluster: one source and its replicas.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::context::{Context, Vars};
use super::counters::{LoggedStatement, StatementLog};
use super::error::MySqlError;
use super::handshake::AuthPlugin;
use super::host::{Ending, Host};
use super::session::{Reply, Session};
use super::state::{HostState, Shared};
use super::statement;
use super::text::pieces;
use crate::alive::Alive;
use crate::background::Background;
use crate::port::Port;
use crate::sql::lexer::{Dialect, split, tokens};
use crate::sql::{Interrupt, SqlError, Store, Value};

/// Settings of a [`Cluster`].
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    hosts: usize,
    user: String,
    password: String,
    plugin: AuthPlugin,
    version: String,
    lock_wait: Duration,
    databases: BTreeSet<String>,
}

/// Embedded servers that speak the MySQL protocol: the first host is the source, the others are
/// read-only replicas.
///
/// The servers run on threads of their own, so they answer whatever the test does with its runtime.
/// Dropping the cluster ends them, closes the ports and removes the data.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    background: Background,
}

impl ClusterBuilder {
    /// The user who may log in. Defaults to `app`.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// The password; may be empty. Defaults to `secret`.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = password.into();
        self
    }

    /// How clients prove the password. Defaults to `caching_sha2_password`.
    pub fn auth_plugin(mut self, plugin: AuthPlugin) -> Self {
        self.plugin = plugin;
        self
    }

    /// What the servers call their version. Defaults to `8.4.0-embedded`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// How long a write waits for another transaction before it fails with error 1205. Defaults to
    /// 5 seconds. A client can set `innodb_lock_wait_timeout` for itself.
    pub fn lock_wait_timeout(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Adds a database. `test` exists always.
    pub fn database(mut self, name: impl AsRef<str>) -> Self {
        self.databases.insert(name.as_ref().to_ascii_lowercase());
        self
    }

    /// Starts all hosts.
    ///
    /// # Errors
    ///
    /// When a port, a thread or the data file cannot be had, or no host was asked for.
    pub async fn start(self) -> io::Result<Cluster> {
        if self.hosts == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a cluster needs a host"));
        }
        static CLUSTERS: AtomicU64 = AtomicU64::new(0);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let background = Background::start("mysql-cluster", 2)?;
        let mut hosts = Vec::with_capacity(self.hosts);
        for index in 0..self.hosts {
            let uuid = format!("{:08x}-0000-4000-8000-{:012x}", number & 0xffff_ffff, index + 1);
            hosts.push(HostState::new(index, uuid, Port::reserve()?));
        }
        let shared = Arc::new(Shared {
            store: Store::create(self.hosts).map_err(io::Error::other)?,
            hosts,
            source: AtomicUsize::new(0),
            user: self.user,
            password: self.password,
            plugin: self.plugin,
            version: self.version,
            lock_wait: self.lock_wait,
            databases: Mutex::new(self.databases),
            counting_tables: Mutex::new(HashSet::new()),
            log: StatementLog::default(),
            next_connection: AtomicU32::new(11),
        });
        let cluster = Cluster { shared, background };
        for host in cluster.hosts() {
            host.start().await?;
        }
        Ok(cluster)
    }
}

impl Cluster {
    /// Starts a cluster of this many hosts with all defaults.
    ///
    /// # Errors
    ///
    /// As [`ClusterBuilder::start`].
    pub async fn start(hosts: usize) -> io::Result<Self> {
        Self::builder(hosts).start().await
    }

    /// Begins with all defaults.
    pub fn builder(hosts: usize) -> ClusterBuilder {
        let databases = ["information_schema", "mysql", "performance_schema", "sys", "test"];
        ClusterBuilder {
            hosts,
            user: "app".to_owned(),
            password: "secret".to_owned(),
            plugin: AuthPlugin::default(),
            version: "8.4.0-embedded".to_owned(),
            lock_wait: Duration::from_secs(5),
            databases: databases.map(str::to_owned).into(),
        }
    }

    /// A URL with user, password and all hosts, the source of the start first:
    /// `mysql://app:secret@127.0.0.1:4001,127.0.0.1:4002/db`.
    ///
    /// The database is made if it does not exist. User and password are not percent-encoded: choose
    /// plain ones.
    pub fn url(&self, database: &str) -> String {
        let addrs: Vec<String> = self.hosts().map(|host| host.addr().to_string()).collect();
        self.url_with(&addrs.join(","), database)
    }

    /// Like [`url`](Self::url), for one host alone.
    ///
    /// # Panics
    ///
    /// When there is no host of this number.
    pub fn url_of(&self, host: usize, database: &str) -> String {
        self.url_with(&self.host(host).addr().to_string(), database)
    }

    /// One host; 0 is the source of the start.
    ///
    /// # Panics
    ///
    /// When there is no host of this number.
    pub fn host(&self, index: usize) -> Host {
        assert!(index < self.shared.hosts.len(), "no host {index} in this cluster");
        Host::new(&self.shared, index, self.background.handle())
    }

    /// All hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = Host> + '_ {
        (0..self.shared.hosts.len()).map(|index| self.host(index))
    }

    /// The source at the moment.
    pub fn source(&self) -> Host {
        self.host(self.shared.source())
    }

    /// Makes a host the source: it becomes writable and stops lagging, all others become read-only.
    ///
    /// What others have written and not committed is undone, as in a failover.
    ///
    /// # Errors
    ///
    /// When its late copy of the data cannot be given up.
    ///
    /// # Panics
    ///
    /// When there is no host of this number.
    pub async fn promote(&self, index: usize) -> Result<(), SqlError> {
        let promoted = self.host(index);
        for host in self.hosts().filter(|host| host.index() != index) {
            host.set_read_only(true);
        }
        promoted.set_lag(None).await?;
        self.shared.source.store(index, Ordering::Release);
        promoted.set_read_only(false);
        Ok(())
    }

    /// Makes a database.
    pub fn create_database(&self, name: &str) {
        self.shared.add_database(name);
    }

    /// Runs statements on the data itself, past all switches and counters: to prepare a test.
    ///
    /// # Errors
    ///
    /// The text of the first MySQL error.
    pub async fn execute(&self, sql: &str) -> Result<(), SqlError> {
        self.query(sql).await.map(drop)
    }

    /// Like [`execute`](Self::execute), with the rows of the last statement: to check what a test
    /// has left behind.
    ///
    /// # Errors
    ///
    /// The text of the first MySQL error.
    pub async fn query(&self, sql: &str) -> Result<Vec<Vec<Value>>, SqlError> {
        let (shared, sql) = (Arc::clone(&self.shared), sql.to_owned());
        let work = async move { run_privileged(shared, &sql).await };
        let ran = self.background.run(work).await;
        ran.map_err(|error| SqlError::Other(error.to_string()))?
            .map_err(|error| SqlError::Other(format!("{}: {}", error.code, error.message)))
    }

    /// Begins or ends the log of statements. Off at the start.
    pub fn log_statements(&self, on: bool) {
        self.shared.log.switch(on);
    }

    /// All statements logged so far, of all hosts, in order of arrival.
    pub fn statements(&self) -> Vec<LoggedStatement> {
        self.shared.log.entries()
    }

    /// The user who may log in.
    pub fn user(&self) -> &str {
        &self.shared.user
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.shared.password
    }

    fn url_with(&self, hosts: &str, database: &str) -> String {
        self.create_database(database);
        format!("mysql://{}:{}@{hosts}/{database}", self.shared.user, self.shared.password)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Wakes statements that sleep on blocking threads, which nothing else can end.
        for host in &self.shared.hosts {
            host.end_all(Ending::Reset);
        }
        // The threads end on their own time; the process may not wait for them.
        self.shared.store.discard();
    }
}

async fn run_privileged(shared: Arc<Shared>, sql: &str) -> Result<Vec<Vec<Value>>, MySqlError> {
    let context = Context {
        host: shared.source(),
        id: 0,
        privileged: true,
        interrupt: Arc::new(Interrupt::default()),
        vars: Mutex::new(Vars::new(shared.user.clone(), Some("test".to_owned()))),
        _alive: Alive::new().guard(),
        cluster: shared,
    };
    let mut session = Session::open(context).await?;
    let mut rows = Vec::new();
    let cut = tokens(sql, Dialect::MySql);
    for part in split(&cut) {
        let Some(statement) = statement::parse(&pieces(part)) else {
            return Err(MySqlError::syntax(sql));
        };
        rows = match session.run(&statement, Vec::new()).await? {
            Reply::Table(table) => table.rows,
            Reply::Done(_) | Reply::Goodbye => Vec::new(),
        };
    }
    Ok(rows)
}
