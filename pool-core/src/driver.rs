//! The database plug-in.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::access::Access;
use crate::host::{Host, Role};
pub use crate::lag::Lag;
use crate::verdict::Verdict;

/// What a look at a connection found, without any I/O round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Idle, no transaction, nothing pending: may be handed out.
    Clean,
    /// Over: closed by the peer, failed, or in a state nobody can repair.
    Dead,
    /// Alive as far as can be seen, but something must be tidied first.
    Dirty,
}

/// How thoroughly a connection is tidied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tidy {
    /// Everything a session can hold: transaction, settings, variables, temporary tables.
    Full,
    /// The least that makes it clean: roll back, read away what is pending.
    Rollback,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// [`Role::Source`] if the host takes writes.
    pub role: Role,
    /// How far it is behind.
    pub lag: Lag,
    /// How many connections the server takes, if that is known: the size that
    /// [`Weights::by_capacity`](crate::weights::Weights::by_capacity) goes by.
    pub capacity: Option<u32>,
    /// Whether it is kept behind on purpose (a configured replication delay). Its weight is 0 then, even one
    /// set by hand (`rds-read-weights`, procedure, notes on weights).
    pub delayed: bool,
}

impl Probe {
    /// A host of this role that is so far behind; size not known, not delayed.
    #[must_use]
    pub const fn new(role: Role, lag: Lag) -> Self {
        Self { role, lag, capacity: None, delayed: false }
    }

    /// Sets how many connections the server takes. Defaults to `None`: not known.
    #[must_use]
    pub const fn with_capacity(mut self, connections: Option<u32>) -> Self {
        self.capacity = connections;
        self
    }

    /// Sets whether the host is kept behind on purpose. Defaults to `false`.
    #[must_use]
    pub const fn with_delayed(mut self, delayed: bool) -> Self {
        self.delayed = delayed;
        self
    }
}

/// A connection as its server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSession {
    /// What [`Driver::session_id`] said when it was opened.
    pub id: u64,
    /// How long ago that was. A server that is up for less has forgotten it, and may use the id anew.
    pub age: Duration,
}

/// Receives what a connection notices about its host, as it happens. Implemented by the pool.
pub trait Report: Send + Sync {
    /// An error with this verdict was seen. `message` is the error's text, without secrets.
    fn report(&self, verdict: Verdict, message: &dyn fmt::Display);
}

/// Lets a connection tell its pool about an error the moment a statement fails.
///
/// Cheap to clone; a connection keeps one. Reporting never blocks and does no I/O.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<dyn Report>>);

impl Reporter {
    /// Reports to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn Report>) -> Self {
        Self(Some(sink))
    }

    /// Reports to nobody.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Tells the pool about an error with this verdict.
    pub fn report(&self, verdict: Verdict, message: &dyn fmt::Display) {
        if let Some(sink) = &self.0 {
            sink.report(verdict, message);
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reporter" } else { "Reporter(none)" })
    }
}

/// One request to connect.
#[derive(Clone, Debug)]
pub struct ConnectRequest<'a> {
    /// Where to.
    pub host: &'a Host,
    /// What for. A driver may log in differently for reads (`ApplicationIntent=ReadOnly`).
    pub access: Access,
    /// When the attempt is over at the latest; the pool enforces it as well, by dropping the future.
    pub deadline: Instant,
    /// Where the new connection reports its errors.
    pub reporter: Reporter,
}

/// A database driver. Statically dispatched: it is on the hot path.
///
/// Futures returned by a driver may be dropped at any await: the pool then drops the connection as well.
pub trait Driver: Send + Sync + 'static {
    /// A physical connection. Dropping it closes it.
    type Conn: Send + 'static;
    /// The driver's error.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Opens a connection: name look-up, dial, TLS, login.
    fn connect(
        &self,
        request: ConnectRequest<'_>,
    ) -> impl Future<Output = Result<Self::Conn, Self::Error>> + Send;

    /// Looks at a connection without a round trip. Runs first on return and again at checkout.
    fn peek(&self, conn: &mut Self::Conn) -> Liveness;

    /// Makes a dirty connection clean. An error means that the connection is closed.
    fn tidy(
        &self,
        conn: &mut Self::Conn,
        how: Tidy,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Asks the server whether it lives and what it is. Leaves the connection clean.
    fn probe(
        &self,
        conn: &mut Self::Conn,
    ) -> impl Future<Output = Result<Probe, Self::Error>> + Send;

    /// Asks the server for the cheapest sign of life. Defaults to [`Driver::probe`].
    fn ping(&self, conn: &mut Self::Conn) -> impl Future<Output = Result<(), Self::Error>> + Send {
        async move { self.probe(conn).await.map(|_| ()) }
    }

    /// Judges an error.
    fn verdict(&self, error: &Self::Error) -> Verdict;

    /// Closes a connection politely; the pool bounds the time it takes. Defaults to dropping it.
    fn close(&self, conn: Self::Conn) -> impl Future<Output = ()> + Send {
        async move { drop(conn) }
    }

    /// The number by which the server knows this connection, if [`Driver::end_sessions`] can end it. Asked
    /// once, when it was opened. Defaults to `None`: it cannot be ended from elsewhere.
    fn session_id(&self, conn: &Self::Conn) -> Option<u64> {
        let _ = conn;
        None
    }

    /// Ends connections that callers hold, over a connection of its own: their next use fails. Returns how
    /// many are over now. Stops at `deadline` and counts what it did; the pool enforces it as well.
    ///
    /// Defaults to doing nothing.
    fn end_sessions(
        &self,
        host: &Host,
        sessions: &[ServerSession],
        deadline: Instant,
    ) -> impl Future<Output = Result<usize, Self::Error>> + Send {
        let _ = (host, sessions, deadline);
        async { Ok(0) }
    }
}
