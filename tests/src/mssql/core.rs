//! The heart of one server, shared by its listeners and connections.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::counters::Counters;
use super::data::DataSet;
use super::login::LoginRecord;
use super::prelogin::Encryption;
use super::socket::Close;
use super::switches::Switches;

/// The log keeps this many of the newest statements and logins.
const LOG_LIMIT: usize = 100_000;
/// How long killed connections may take to be gone. They need one turn of the runtime each.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// The fixed properties of a server.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) encryption: Encryption,
}

pub(crate) struct Core {
    identity: Identity,
    data: DataSet,
    switches: Switches,
    counters: Counters,
    connections: Mutex<HashMap<u64, watch::Sender<Option<Close>>>>,
    next_connection: AtomicU64,
    next_descriptor: AtomicU64,
    logins: Mutex<VecDeque<LoginRecord>>,
    statements: Mutex<VecDeque<String>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("name", &self.identity.name)
            .field("switches", &self.switches)
            .field("counters", &self.counters.snapshot())
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(identity: Identity, data: DataSet) -> Self {
        Self {
            identity,
            data,
            switches: Switches::default(),
            counters: Counters::default(),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(0),
            next_descriptor: AtomicU64::new(0x0000_0001_0000_0001),
            logins: Mutex::default(),
            statements: Mutex::default(),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn encryption(&self) -> Encryption {
        self.identity.encryption
    }

    pub(crate) fn knows(&self, user: &str, password: &str) -> bool {
        user == self.identity.user && password == self.identity.password
    }

    pub(crate) fn data(&self) -> &DataSet {
        &self.data
    }

    /// Where a login without a database lands: the first one, as the user's default.
    pub(crate) fn default_database(&self) -> &str {
        self.data.names().first().map_or("master", String::as_str)
    }

    pub(crate) fn switches(&self) -> &Switches {
        &self.switches
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn next_descriptor(&self) -> u64 {
        self.next_descriptor.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn note_login(&self, login: &LoginRecord) {
        self.counters.update(|counts| {
            counts.logins += 1;
            counts.logins_read_intent += u64::from(login.read_only_intent);
        });
        push(&self.logins, login.clone());
    }

    pub(crate) fn note_statement(&self, statement: String) {
        push(&self.statements, statement);
    }

    pub(crate) fn logins(&self) -> Vec<LoginRecord> {
        self.logins.lock().iter().cloned().collect()
    }

    pub(crate) fn statements(&self) -> Vec<String> {
        self.statements.lock().iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.logins.lock().clear();
        self.statements.lock().clear();
        self.counters.reset();
    }

    /// Takes a new connection into the books.
    pub(crate) fn register(self: &Arc<Self>) -> Ticket {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let (sender, killed) = watch::channel(None);
        self.connections.lock().insert(id, sender);
        self.counters.update(|counts| {
            counts.accepts += 1;
            counts.open_connections += 1;
            counts.peak_connections = counts.peak_connections.max(counts.open_connections);
        });
        Ticket { core: Arc::clone(self), id, killed }
    }

    /// Tells every connection to close and does not wait. Answers their ids.
    pub(crate) fn kill_all(&self, how: Close) -> Vec<u64> {
        let connections = self.connections.lock();
        for kill in connections.values() {
            kill.send_replace(Some(how));
        }
        connections.keys().copied().collect()
    }

    /// Closes every connection there is now, and returns when all are closed.
    pub(crate) async fn kill_all_and_wait(&self, how: Close) -> usize {
        let ids = self.kill_all(how);
        let gone = |_: &_| {
            let connections = self.connections.lock();
            ids.iter().all(|id| !connections.contains_key(id))
        };
        // Running into the limit means the runtime is stuck; the caller's assertions will tell.
        let _ = self.counters.wait_for(KILL_LIMIT, gone).await;
        ids.len()
    }

    pub(crate) fn kill_spid(&self, spid: u16) -> bool {
        let connections = self.connections.lock();
        let victim = connections.iter().find(|(id, _)| spid_of(**id) == spid);
        victim.is_some_and(|(_, kill)| {
            kill.send_replace(Some(Close::Fin));
            true
        })
    }
}

/// One connection in the books, until dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    core: Arc<Core>,
    id: u64,
    killed: watch::Receiver<Option<Close>>,
}

impl Ticket {
    pub(crate) fn spid(&self) -> u16 {
        spid_of(self.id)
    }

    /// Returns when somebody wants the connection closed.
    pub(crate) async fn killed(&mut self) -> Close {
        match self.killed.wait_for(Option::is_some).await {
            Ok(how) => how.unwrap_or(Close::Fin),
            Err(_) => Close::Fin,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.core.connections.lock().remove(&self.id);
        self.core.counters.update(|counts| counts.open_connections -= 1);
    }
}

/// User sessions count from 51.
fn spid_of(connection: u64) -> u16 {
    51 + (connection % 32_000) as u16
}

fn push<T>(log: &Mutex<VecDeque<T>>, entry: T) {
    let mut log = log.lock();
    if log.len() == LOG_LIMIT {
        log.pop_front();
    }
    log.push_back(entry);
}
