//! A driver without a database: a test decides how each connect, check and tidying ends.
//!
//! [`Scripted`] connections carry a serial number, so that a test can tell them apart. Each host has its
//! own [`HostScript`]; a script may be changed while the pool runs.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use pool_core::driver::{
    ConnectRequest, Driver, Lag, Liveness, Probe, Reporter, ServerSession, Tidy,
};
use pool_core::host::{Host, Role};
use pool_core::verdict::Verdict;
use tokio::time::Instant;

/// How an operation on a host ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// It succeeds.
    #[default]
    Ok,
    /// It fails at once with this verdict.
    Fail(Verdict),
    /// It never ends.
    Hang,
    /// It succeeds after this time.
    Slow(Duration),
    /// The driver panics.
    Panic,
}

/// The error of a scripted driver.
#[derive(Debug)]
pub struct ScriptedError(pub Verdict);

impl std::fmt::Display for ScriptedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scripted {}", self.0)
    }
}

impl std::error::Error for ScriptedError {}

/// What one host does, and what was done to it.
#[derive(Debug, Default)]
pub struct HostScript {
    connect: Mutex<Answer>,
    ping: Mutex<Answer>,
    tidy: Mutex<Answer>,
    role: Mutex<Option<Role>>,
    lag: Mutex<Option<Lag>>,
    size: Mutex<(Option<u32>, bool)>,
    ending: Mutex<Option<Answer>>,
    sessions: Mutex<HashMap<u64, Arc<AtomicU8>>>,
    /// Connects begun.
    pub connects: AtomicUsize,
    /// Connects under way now.
    pub connecting: AtomicUsize,
    /// The most connects that were under way at once.
    pub most_connecting: AtomicUsize,
    /// Checks and probes.
    pub pings: AtomicUsize,
    /// Tidyings.
    pub tidied: AtomicUsize,
    /// Connections that exist now.
    pub open: AtomicUsize,
}

impl HostScript {
    /// How connects end from now on.
    pub fn connect(&self, answer: Answer) {
        *self.connect.lock() = answer;
    }

    /// How checks and probes end from now on.
    pub fn ping(&self, answer: Answer) {
        *self.ping.lock() = answer;
    }

    /// How tidying ends from now on.
    pub fn tidy(&self, answer: Answer) {
        *self.tidy.lock() = answer;
    }

    /// The role that probes find. Defaults to the configured one, or the source.
    pub fn role(&self, role: Role) {
        *self.role.lock() = Some(role);
    }

    /// The lag that probes find. Defaults to not asked.
    pub fn lag(&self, lag: Lag) {
        *self.lag.lock() = Some(lag);
    }

    /// The size that probes find, and whether the host is kept behind on purpose. Defaults to not known.
    pub fn size(&self, connections: u32, delayed: bool) {
        *self.size.lock() = (Some(connections), delayed);
    }

    /// The server can end connections, and how that ends. Defaults to a server that cannot. Set it before
    /// the first connect.
    pub fn end_sessions(&self, answer: Answer) {
        *self.ending.lock() = Some(answer);
    }

    /// Everything fails at once with `verdict`.
    pub fn down(&self, verdict: Verdict) {
        self.connect(Answer::Fail(verdict));
        self.ping(Answer::Fail(verdict));
    }

    /// Everything succeeds again.
    pub fn up(&self) {
        self.connect(Answer::Ok);
        self.ping(Answer::Ok);
    }
}

const CLEAN: u8 = 0;
const DIRTY: u8 = 1;
const DEAD: u8 = 2;

/// A connection to nowhere.
#[derive(Debug)]
pub struct ScriptedConn {
    /// Unique in its driver, counted from 1.
    pub serial: u64,
    state: Arc<AtomicU8>,
    script: Arc<HostScript>,
    reporter: Reporter,
}

impl ScriptedConn {
    /// Leaves something to tidy, such as an open transaction.
    pub fn soil(&self) {
        self.state.store(DIRTY, SeqCst);
    }

    /// Breaks, unnoticed until somebody looks.
    pub fn kill(&self) {
        self.state.store(DEAD, SeqCst);
    }

    /// Whether it broke, or was ended from elsewhere.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.state.load(SeqCst) == DEAD
    }

    /// A handle that breaks the connection from elsewhere, as a server does.
    pub fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move || state.store(DEAD, SeqCst)
    }

    /// A statement fails with this verdict.
    pub fn fail(&self, verdict: Verdict) {
        if !verdict.keeps_connection() {
            self.kill();
        }
        self.reporter.report(verdict, &ScriptedError(verdict));
    }
}

impl Drop for ScriptedConn {
    fn drop(&mut self) {
        self.script.open.fetch_sub(1, SeqCst);
        self.script.sessions.lock().remove(&self.serial);
    }
}

/// The driver. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    scripts: Arc<Mutex<HashMap<String, Arc<HostScript>>>>,
    serials: Arc<AtomicU64>,
}

impl Scripted {
    /// A driver whose hosts all answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The script of the host of this name.
    #[must_use]
    pub fn host(&self, name: &str) -> Arc<HostScript> {
        Arc::clone(self.scripts.lock().entry(name.to_owned()).or_default())
    }

    async fn play(answer: Answer) -> Result<(), ScriptedError> {
        match answer {
            Answer::Ok => Ok(()),
            Answer::Fail(verdict) => Err(ScriptedError(verdict)),
            Answer::Hang => pending().await,
            Answer::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Answer::Panic => panic!("scripted panic"),
        }
    }
}

struct Connecting<'a>(&'a HostScript);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.fetch_sub(1, SeqCst);
    }
}

impl Driver for Scripted {
    type Conn = ScriptedConn;
    type Error = ScriptedError;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<ScriptedConn, ScriptedError> {
        let script = self.host(request.host.name());
        script.connects.fetch_add(1, SeqCst);
        let now = script.connecting.fetch_add(1, SeqCst) + 1;
        script.most_connecting.fetch_max(now, SeqCst);
        let _connecting = Connecting(&script);
        let answer = script.connect.lock().clone();
        Self::play(answer).await?;
        script.open.fetch_add(1, SeqCst);
        let serial = self.serials.fetch_add(1, SeqCst) + 1;
        let state = Arc::new(AtomicU8::new(CLEAN));
        script.sessions.lock().insert(serial, Arc::clone(&state));
        Ok(ScriptedConn { serial, state, script: Arc::clone(&script), reporter: request.reporter })
    }

    fn peek(&self, conn: &mut ScriptedConn) -> Liveness {
        match conn.state.load(SeqCst) {
            CLEAN => Liveness::Clean,
            DIRTY => Liveness::Dirty,
            _ => Liveness::Dead,
        }
    }

    async fn tidy(&self, conn: &mut ScriptedConn, _how: Tidy) -> Result<(), ScriptedError> {
        conn.script.tidied.fetch_add(1, SeqCst);
        let answer = conn.script.tidy.lock().clone();
        Self::play(answer).await?;
        conn.state.store(CLEAN, SeqCst);
        Ok(())
    }

    async fn probe(&self, conn: &mut ScriptedConn) -> Result<Probe, ScriptedError> {
        conn.script.pings.fetch_add(1, SeqCst);
        let answer = conn.script.ping.lock().clone();
        Self::play(answer).await?;
        let role = conn.script.role.lock().unwrap_or(Role::Source);
        let lag = conn.script.lag.lock().unwrap_or(Lag::NotAsked);
        let (capacity, delayed) = *conn.script.size.lock();
        Ok(Probe::new(role, lag).with_capacity(capacity).with_delayed(delayed))
    }

    fn verdict(&self, error: &ScriptedError) -> Verdict {
        error.0
    }

    fn session_id(&self, conn: &ScriptedConn) -> Option<u64> {
        conn.script.ending.lock().as_ref().map(|_| conn.serial)
    }

    async fn end_sessions(
        &self,
        host: &Host,
        sessions: &[ServerSession],
        _deadline: Instant,
    ) -> Result<usize, ScriptedError> {
        let script = self.host(host.name());
        let answer = script.ending.lock().clone().unwrap_or_default();
        Self::play(answer).await?;
        let known = script.sessions.lock();
        let states = sessions.iter().filter_map(|session| known.get(&session.id));
        Ok(states.inspect(|state| state.store(DEAD, SeqCst)).count())
    }
}

/// Hosts `h1`, `h2`, …: the first a source, the others replicas, and scripts to match.
#[must_use]
pub fn hosts(driver: &Scripted, count: usize) -> Vec<Host> {
    (1..=count)
        .map(|n| {
            let role = if n == 1 { Role::Source } else { Role::Replica };
            let name = format!("h{n}");
            driver.host(&name).role(role);
            Host::new("127.0.0.1", 1).named(&name).with_role(role)
        })
        .collect()
}
