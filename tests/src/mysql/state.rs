//! What the hosts of a cluster share, and what each has for itself.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::Ending;
use super::counters::{Counts, StatementLog, count};
use super::handshake::AuthPlugin;
use super::switches::{Injection, Switches};
use crate::alive::{Alive, Earlier};
use crate::port::Port;
use crate::sql::{Interrupt, Store};

/// The cluster, as its hosts and connections see it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) hosts: Vec<HostState>,
    pub(super) source: AtomicUsize,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) plugin: AuthPlugin,
    pub(super) version: String,
    pub(super) lock_wait: Duration,
    pub(super) databases: Mutex<BTreeSet<String>>,
    /// Tables with an AUTO_INCREMENT column, in lower case.
    pub(super) counting_tables: Mutex<HashSet<String>>,
    pub(super) log: StatementLog,
    pub(super) next_connection: AtomicU32,
}

/// One host.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) index: usize,
    pub(super) uuid: String,
    pub(super) port: Port,
    pub(super) switches: watch::Sender<Switches>,
    /// Grows when the host stops being writable.
    pub(super) demotions: watch::Sender<u64>,
    pub(super) counts: Counts,
    pub(super) faults: Mutex<Vec<Injection>>,
    pub(super) links: Mutex<HashMap<u32, Link>>,
    pub(super) alive: Alive,
    pub(super) listening: tokio::sync::Mutex<Option<Listening>>,
    /// Named locks (GET_LOCK): owner and depth.
    pub(super) named_locks: Mutex<HashMap<String, (u32, u32)>>,
}

/// How to reach one connection from outside.
#[derive(Debug)]
pub(super) struct Link {
    /// Closed when the connection is.
    pub(super) end: Arc<watch::Sender<Option<Ending>>>,
    pub(super) interrupt: Arc<Interrupt>,
    pub(super) database: Option<String>,
    pub(super) running: Option<String>,
}

/// A port that is open.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) stop: oneshot::Sender<()>,
    pub(super) stopped: oneshot::Receiver<()>,
}

impl Shared {
    pub(super) fn next_id(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::AcqRel)
    }

    pub(super) fn source(&self) -> usize {
        self.source.load(Ordering::Acquire)
    }

    pub(super) fn has_database(&self, name: &str) -> bool {
        self.databases.lock().contains(&name.to_ascii_lowercase())
    }

    pub(super) fn add_database(&self, name: &str) {
        self.databases.lock().insert(name.to_ascii_lowercase());
    }
}

impl HostState {
    pub(super) fn new(index: usize, uuid: String, port: Port) -> Self {
        Self {
            index,
            uuid,
            port,
            switches: watch::Sender::new(Switches::new(index != 0)),
            demotions: watch::Sender::new(0),
            counts: Counts::default(),
            faults: Mutex::new(Vec::new()),
            links: Mutex::new(HashMap::new()),
            alive: Alive::new(),
            listening: tokio::sync::Mutex::new(None),
            named_locks: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Switches)) {
        let was_writable = self.switches.borrow().check_writable().is_ok();
        self.switches.send_modify(change);
        if was_writable && self.switches.borrow().check_writable().is_err() {
            self.demotions.send_modify(|demotions| *demotions += 1);
        }
    }

    /// Ends one connection; false when there is none of this id.
    pub(super) fn end(&self, id: u32, ending: Ending) -> bool {
        let links = self.links.lock();
        let Some(link) = links.get(&id) else { return false };
        count(&self.counts.kills);
        link.end(ending);
        true
    }

    /// Ends all connections; answers how many there were, and who to wait for.
    pub(super) fn end_all(&self, ending: Ending) -> (usize, Earlier) {
        let earlier = self.alive.earlier();
        let links = self.links.lock();
        for link in links.values() {
            count(&self.counts.kills);
            link.end(ending);
        }
        (links.len(), earlier)
    }

    pub(super) fn release_named_locks(&self, connection: u32) -> u64 {
        let mut locks = self.named_locks.lock();
        let before: u64 = locks
            .values()
            .filter(|(owner, _)| *owner == connection)
            .map(|&(_, depth)| u64::from(depth))
            .sum();
        locks.retain(|_, (owner, _)| *owner != connection);
        before
    }
}

impl Link {
    fn end(&self, ending: Ending) {
        // The first ending counts.
        self.end.send_if_modified(|end| end.is_none() && end.replace(ending).is_none());
        self.interrupt.interrupt();
    }
}
