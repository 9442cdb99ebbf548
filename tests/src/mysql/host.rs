//! The switches of one host, as a test sees them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::connection::{self, Arrival};
use super::counters::{Counters, count};
use super::state::{HostState, Link, Listening, Shared};
use super::switches::{Accept, Fault, Injection};
use crate::port;
use crate::sql::{Delay, Interrupt, SqlError};

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// In the orderly way, as when a server process dies: the client sees the end of the stream.
    Fin,
    /// By a TCP reset.
    Reset,
}

/// One host of a [`Cluster`](super::Cluster). Clones are the same host; all switches act at once.
///
/// Switches that end connections or close the port are `async` and return when that has happened:
/// afterwards no connection of the earlier time is open, and no statement of one still runs.
#[derive(Debug, Clone)]
pub struct Host {
    shared: Arc<Shared>,
    index: usize,
    runtime: Handle,
}

impl Host {
    pub(super) fn new(shared: &Arc<Shared>, index: usize, runtime: &Handle) -> Self {
        Self { shared: Arc::clone(shared), index, runtime: runtime.clone() }
    }

    /// Takes the host down, as `kill -9` does: the port is closed, so new connections are refused,
    /// and all connections end with a FIN.
    pub async fn stop(&self) {
        self.stop_with(Ending::Fin).await;
    }

    /// Takes the host down and ends its connections in the given way.
    pub async fn stop_with(&self, ending: Ending) {
        self.refuse().await;
        self.state().set(|switches| switches.stopped = true);
        self.kill_connections(ending).await;
    }

    /// Brings the host up again on the same port, after [`stop`](Self::stop) or
    /// [`refuse`](Self::refuse). Hanging and silence end, as in a fresh process; the role stays.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    pub async fn start(&self) -> io::Result<()> {
        let state = self.state();
        let mut listening = state.listening.lock().await;
        if listening.is_some() {
            return Ok(());
        }
        state.set(|switches| {
            switches.accept = Accept::Serve;
            switches.frozen = false;
            switches.stopped = false;
            switches.started = Instant::now();
        });
        let listener = state.port.listen(&self.runtime)?;
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_sender, stopped) = oneshot::channel();
        let (shared, index) = (Arc::clone(&self.shared), self.index);
        self.runtime.spawn(async move {
            accept(shared, index, listener, stop_seen).await;
            let _ = stopped_sender.send(());
        });
        *listening = Some(Listening { stop, stopped });
        Ok(())
    }

    /// Closes the port: new connections are refused, open ones stay.
    pub async fn refuse(&self) {
        if let Some(listening) = self.state().listening.lock().await.take() {
            let _ = listening.stop.send(());
            let _ = listening.stopped.await;
        }
    }

    /// Goes silent without a word, as a paused machine does: new connections are accepted and get no
    /// greeting, open ones get no answer. Nothing is closed until [`release`](Self::release).
    pub fn hang(&self) {
        self.state().set(|switches| {
            switches.accept = Accept::Hang;
            switches.frozen = true;
        });
    }

    /// Keeps new connections without a greeting; open ones work on.
    pub fn hang_new_connections(&self) {
        self.state().set(|switches| switches.accept = Accept::Hang);
    }

    /// Open connections get no answer any more, not even to a statement that runs now; new ones are
    /// greeted, and then silent too.
    pub fn freeze(&self) {
        self.state().set(|switches| switches.frozen = true);
    }

    /// Ends [`hang`](Self::hang), [`freeze`](Self::freeze) and what was set for new connections.
    /// What was held back goes on: statements received meanwhile run, even if their client gave up.
    pub fn release(&self) {
        self.state().set(|switches| {
            switches.accept = Accept::Serve;
            switches.frozen = false;
        });
    }

    /// Resets new connections right after they were accepted; open ones work on.
    pub fn reset_new_connections(&self) {
        self.state().set(|switches| switches.accept = Accept::Reset);
    }

    /// Closes new connections right after they were accepted; open ones work on.
    pub fn close_new_connections(&self) {
        self.state().set(|switches| switches.accept = Accept::Close);
    }

    /// Waits this long before each greeting. Defaults to zero.
    pub fn set_connect_delay(&self, delay: Duration) {
        self.state().set(|switches| switches.connect_delay = delay);
    }

    /// Waits this long before each statement runs. Defaults to zero. Pings and resets are not
    /// delayed.
    pub fn set_statement_delay(&self, delay: Duration) {
        self.state().set(|switches| switches.statement_delay = delay);
    }

    /// Refuses writes with error 1290, naming `--read-only`. Defaults to `false` on the first host
    /// and `true` on the others.
    ///
    /// Transactions with uncommitted writes are undone at once; their clients learn of it at their
    /// next write or commit, which fails with 1290.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().set(|switches| {
            switches.read_only = read_only;
            switches.super_read_only &= read_only;
        });
    }

    /// Like [`set_read_only`](Self::set_read_only), naming `--super-read-only`.
    pub fn set_super_read_only(&self, read_only: bool) {
        self.state().set(|switches| {
            switches.read_only |= read_only;
            switches.super_read_only = read_only;
        });
    }

    /// Makes the host lie about its role: `@@read_only` says this, whatever it does with writes.
    /// `None` for the truth, the default.
    pub fn claim_read_only(&self, claim: Option<bool>) {
        self.state().set(|switches| switches.claims_read_only = claim);
    }

    /// Applies the writes of others this late; `None`, the default, at once. Meant for replicas.
    ///
    /// Rows, `@@gtid_executed` and `WAIT_FOR_EXECUTED_GTID_SET` lag together, counted from each
    /// write; what was committed before is there. `SHOW REPLICA STATUS` reports the whole seconds of
    /// the lag set here from now on, whether or not anything is being written.
    ///
    /// # Errors
    ///
    /// When the late copy of the data cannot be made.
    pub async fn set_lag(&self, lag: Option<Duration>) -> Result<(), SqlError> {
        self.set_delay(lag.map(Delay::By)).await
    }

    /// Breaks replication: nothing is applied any more, and the lag is reported as NULL. Until the
    /// next [`set_lag`](Self::set_lag), which applies what is due then.
    ///
    /// # Errors
    ///
    /// When the late copy of the data cannot be made.
    pub async fn stop_replication(&self) -> Result<(), SqlError> {
        self.set_delay(Some(Delay::Stopped)).await
    }

    /// Refuses every login with error 1045, whatever the password. Defaults to `false`.
    pub fn reject_logins(&self, reject: bool) {
        self.state().set(|switches| switches.reject_logins = reject);
    }

    /// Refuses every database with error 1049. Defaults to `false`.
    pub fn reject_databases(&self, reject: bool) {
        self.state().set(|switches| switches.unknown_database = reject);
    }

    /// Refuses connections beyond this many with error 1040. Defaults to no limit.
    pub fn set_max_connections(&self, max: Option<usize>) {
        self.state().set(|switches| switches.max_connections = max);
    }

    /// The state reported in `performance_schema.replication_group_members`, such as `RECOVERING`.
    /// Defaults to `ONLINE`. A host that is down or hangs is `UNREACHABLE` anyway.
    pub fn set_group_state(&self, state: &'static str) {
        self.state().set(|switches| switches.group_state = state);
    }

    /// What this host itself says about the group: these members, in these states, and no others. `None`,
    /// the default, for the truth, which all hosts know. A host that was cut off or expelled does not.
    ///
    /// An `OFFLINE` member has neither host nor port, as on a server that is in no group.
    pub fn set_group_view(&self, view: Option<Vec<(usize, &'static str)>>) {
        self.state().set(|switches| switches.group_view = view);
    }

    /// The configured delay (`SOURCE_DELAY`) that `SHOW REPLICA STATUS` reports. Defaults to zero. Nothing
    /// is delayed by it: that is [`set_lag`](Self::set_lag).
    pub fn report_source_delay(&self, delay: Duration) {
        self.state().set(|switches| switches.source_delay = delay);
    }

    /// Fails the next `times` statements with this error; they do not run.
    pub fn fail_next(&self, times: u64, code: u16, message: impl Into<String>) {
        self.inject(times, Fault::Error { code, message: message.into() });
    }

    /// Applies a fault to the next `times` statements. Faults are used up in the order they were
    /// set.
    pub fn inject(&self, times: u64, fault: Fault) {
        self.inject_into(times, None, fault);
    }

    /// Applies a fault to the next `times` statements that contain this text, in any case.
    pub fn inject_matching(&self, times: u64, containing: impl Into<String>, fault: Fault) {
        self.inject_into(times, Some(containing.into()), fault);
    }

    /// Forgets faults that have not been used up.
    pub fn clear_faults(&self) {
        self.state().faults.lock().clear();
    }

    /// Ends all connections; answers how many there were.
    pub async fn kill_connections(&self, ending: Ending) -> usize {
        let (killed, earlier) = self.state().end_all(ending);
        earlier.gone().await;
        killed
    }

    /// Ends one connection, as `KILL` does; false when there is none of this id.
    pub async fn kill(&self, connection: u32) -> bool {
        let link = self.state().links.lock().get(&connection).map(|link| Arc::clone(&link.end));
        let Some(link) = link else { return false };
        let killed = self.state().end(connection, Ending::Fin);
        link.closed().await;
        killed
    }

    /// Place in the cluster, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where the host listens. Stays the same for the cluster's life.
    pub fn addr(&self) -> SocketAddr {
        self.state().port.addr()
    }

    /// The port of [`addr`](Self::addr).
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// What `@@hostname` says: `db1` for the first host.
    pub fn name(&self) -> String {
        format!("db{}", self.index + 1)
    }

    /// What `@@server_uuid` says; GTIDs of writes to this host begin with it.
    pub fn uuid(&self) -> &str {
        &self.state().uuid
    }

    /// Whether this is the source at the moment.
    pub fn is_source(&self) -> bool {
        self.shared.source() == self.index
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.state().switches.borrow().check_writable().is_err()
    }

    /// The ids of the connections open now.
    pub fn connections(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.state().links.lock().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// What the host has seen.
    pub fn counters(&self) -> Counters {
        let mut counters = self.state().counts.snapshot();
        counters.open = self.state().links.lock().len() as u64;
        counters
    }

    pub(super) fn state(&self) -> &HostState {
        &self.shared.hosts[self.index]
    }

    fn inject_into(&self, times: u64, containing: Option<String>, fault: Fault) {
        if times > 0 {
            self.state().faults.lock().push(Injection { remaining: times, containing, fault });
        }
    }

    async fn set_delay(&self, delay: Option<Delay>) -> Result<(), SqlError> {
        let (shared, index) = (Arc::clone(&self.shared), self.index);
        let set =
            self.runtime.spawn_blocking(move || shared.store.replication().set_delay(index, delay));
        set.await.map_err(|error| SqlError::Other(error.to_string()))?
    }
}

/// Removes a connection from the list of its host.
struct Registered {
    shared: Arc<Shared>,
    host: usize,
    id: u32,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.hosts[self.host].links.lock().remove(&self.id);
    }
}

async fn accept(
    shared: Arc<Shared>,
    index: usize,
    listener: TcpListener,
    mut stop: oneshot::Receiver<()>,
) {
    let host = &shared.hosts[index];
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        count(&host.counts.accepts);
        match host.switches.borrow().accept {
            Accept::Close => continue,
            Accept::Reset => {
                port::reset(stream);
                continue;
            }
            Accept::Hang | Accept::Serve => {}
        }
        let id = shared.next_id();
        let (end, end_seen) = watch::channel(None);
        let end = Arc::new(end);
        let ended = end_seen.clone();
        let interrupt = Arc::new(Interrupt::default());
        // One lock for both: whoever ends all connections waits for exactly those it has told.
        let alive = {
            let mut links = host.links.lock();
            let interrupt = Arc::clone(&interrupt);
            links.insert(id, Link { end, interrupt, database: None, running: None });
            host.alive.guard()
        };
        let registered = Registered { shared: Arc::clone(&shared), host: index, id };
        let cluster = Arc::clone(&shared);
        let arrival =
            Arrival { cluster, host: index, id, interrupt, end: end_seen, alive: alive.clone() };
        tokio::spawn(async move {
            connection::serve(arrival, stream).await;
            // Off the list first, then those who wait for the end hear of it.
            drop(registered);
            drop(ended);
            drop(alive);
        });
    }
}
