//! The logical connection over a pool: one caller's session that may move between hosts.
//!
//! [`Logical`] decides (pure); this file carries out its commands on leases of the pool. Where [`Pool::get`]
//! lends one physical connection that never changes, a session survives the loss of its host: the error
//! that caused a switch is always returned, and says whether the statement ran.
//!
//! A session has one main connection, which follows the failover policy. When it routes its statements, reads
//! that nothing binds are served beside it, by other hosts ([`Session::run`]).

mod beside;
mod driver;
mod error;
mod main;
mod open;
mod routed;
mod routing;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use self::driver::SessionDriver;
pub use self::error::SessionError;
use self::open::Opener;
use self::routing::Routing;
use crate::access::AccessMode;
use crate::clock::Clock;
use crate::cluster::Hosts;
use crate::driver::Driver;
use crate::failover::{
    Call, Command, Failure, Isolation, Logical, Outcome, Ran, Report, SessionOptions, Statement,
};
use crate::host::{Host, HostId, Role};
use crate::lease::Lease;
use crate::pool::Pool;
pub use crate::statement::Work;

/// A logical connection. Keeps the rules of the failover policy per connection: counters, access mode,
/// return to the source at transaction boundaries (see [`Logical`]).
///
/// Cancellation safety: a future that is dropped in the middle of a statement leaves the connection in an
/// unknown state; the next call finds the link lost, gets another connection and says so.
pub struct Session<D: SessionDriver> {
    pool: Pool<D>,
    logical: Logical,
    lease: Option<Lease<D>>,
    /// The members of the pool as the logical connection knows them.
    hosts: Arc<Hosts<D>>,
    /// Precise: by the coarse one, a walk could begin a last attempt after its time.
    clock: Clock,
    /// What is kept to route each statement; `None` if all run on the main connection.
    routing: Option<Routing<D>>,
}

impl<D: SessionDriver> Pool<D> {
    /// Opens a logical connection with the failover policy of the pool. It connects on first use.
    ///
    /// On a read-only endpoint there is no main connection: routed reads and read-only transactions are
    /// served by replicas, everything else fails with [`Failure::NotWritable`].
    #[must_use]
    pub fn session(&self, options: SessionOptions) -> Session<D> {
        let cluster = self.cluster();
        let hosts = cluster.hosts.load_full();
        let failover = Arc::clone(&cluster.failover);
        let routing = options.route_statements.then(|| Routing::new(self));
        let logical = Logical::new(failover, options, in_order(&hosts));
        let clock = Clock::start(true);
        Session { pool: self.clone(), logical, lease: None, hosts, clock, routing }
    }
}

impl<D: SessionDriver> Session<D> {
    /// Connects now. Every other call does it as well if needed.
    ///
    /// # Errors
    ///
    /// [`Failure::FailoverFailed`] when no host could be reached.
    pub async fn connect(&mut self) -> Result<(), SessionError<D::Error>> {
        self.drive_main(Call::Connect).await
    }

    /// Runs one statement (or anything else that takes the connection) on the main connection, without
    /// routing it. It may do anything, so it counts as a write.
    ///
    /// `kind` says whether it may end the transaction by itself.
    ///
    /// # Errors
    ///
    /// [`Failure::Statement`] if only the statement failed; otherwise what became of the session.
    pub async fn execute<T, F>(
        &mut self,
        kind: Statement,
        work: F,
    ) -> Result<T, SessionError<D::Error>>
    where
        T: Send,
        F: for<'c> FnOnce(&'c mut D::Conn) -> Work<'c, T, D::Error> + Send,
    {
        self.send_main(None);
        if let Some(routing) = &mut self.routing {
            routing.wrote = true;
        }
        let result = self.run_main(kind, work).await;
        self.after_main(None, result.is_ok()).await;
        result
    }

    /// Starts a transaction.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn begin(&mut self) -> Result<(), SessionError<D::Error>> {
        self.call(Call::Begin).await
    }

    /// Commits, on the connection of the transaction. Then the session may return to the source.
    ///
    /// # Errors
    ///
    /// [`Failure::OutcomeUnknown`] if the link broke on the way: look before you repeat the work.
    pub async fn commit(&mut self) -> Result<(), SessionError<D::Error>> {
        self.call(Call::Commit).await
    }

    /// Rolls back; acknowledges a transaction that was lost with its link.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn rollback(&mut self) -> Result<(), SessionError<D::Error>> {
        self.call(Call::Rollback).await
    }

    /// Asks for read-only or read/write. Always remembered; applied where the policy allows
    /// (`connectorj-server-failover`, access mode).
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_read_only(&mut self, read_only: bool) -> Result<(), SessionError<D::Error>> {
        let mode = if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        self.call(Call::SetMode(mode)).await
    }

    /// Switches autocommit. On ends an open transaction with a commit.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_autocommit(&mut self, on: bool) -> Result<(), SessionError<D::Error>> {
        self.call(Call::SetAutocommit(on)).await
    }

    /// Changes the current database; follows the session to its next host.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_database(&mut self, name: &str) -> Result<(), SessionError<D::Error>> {
        self.call(Call::SetDatabase(name.into())).await
    }

    /// Changes the isolation level; follows the session to its next host.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_isolation(&mut self, level: Isolation) -> Result<(), SessionError<D::Error>> {
        self.call(Call::SetIsolation(level)).await
    }

    /// Closes for good: the physical connection goes back to the pool, every later call is refused.
    pub fn close(&mut self) {
        self.give_back();
        // The command is to close, which is done.
        let _ = self.logical.call(self.now(), Call::Close);
    }

    /// A call that is refused without reaching the server.
    pub fn refuse(&self, failure: Failure) -> SessionError<D::Error> {
        self.failed(failure, None)
    }

    /// The host of the current connection.
    #[must_use]
    pub fn host(&self) -> Option<&Host> {
        self.logical.host().and(self.lease.as_ref()).map(Lease::host)
    }

    /// The decisions and state of the session: access mode, autocommit, transaction, counters.
    #[must_use]
    pub fn state(&self) -> &Logical {
        &self.logical
    }

    /// The current connection, for what needs no statement. `None` without one.
    #[must_use]
    pub fn connection(&self) -> Option<&D::Conn> {
        self.logical.host().and(self.lease.as_deref())
    }

    /// Notes the current database after a statement changed it (`USE`).
    pub fn note_database(&mut self, name: &str) {
        self.logical.note_database(name.into());
    }

    /// Begins a call. Its host list is that of the pool at this moment.
    fn start(&mut self, call: Call) -> Result<Command, SessionError<D::Error>> {
        let cluster = self.pool.cluster();
        if cluster.closed.load(Relaxed) {
            return Err(self.refuse(Failure::Closed));
        }
        if !cluster.rules.mode.serves_writes() {
            return Err(self.refuse(Failure::NotWritable));
        }
        let members = cluster.hosts.load();
        if !Arc::ptr_eq(&members, &self.hosts) {
            self.hosts = Arc::clone(&members);
            self.logical.set_hosts(in_order(&members));
        }
        drop(members);
        self.notice_given_up();
        let command = self.logical.call(self.now(), call);
        self.drop_lost();
        Ok(command)
    }

    /// Closes a connection that the logical connection has given up. Its state is the old host's
    /// business: the server rolls back. Its place is free for the walk, which may come back to this host.
    fn drop_lost(&mut self) {
        if self.logical.host().is_none()
            && let Some(lost) = self.lease.take()
        {
            lost.discard();
        }
    }

    /// Carries out one command that is not a statement.
    async fn step(&mut self, command: Command, last: &mut Option<Last<D::Error>>) -> Next {
        match command {
            Command::Open(open) => {
                // Cancellation safety: on a return the old lease is kept until the new one is ready.
                let outcome = match Opener(&self.pool).open(&open).await {
                    Ok(lease) => {
                        if let Some(old) = self.lease.replace(lease) {
                            old.discard();
                        }
                        Outcome::Connected
                    }
                    Err(outcome) => outcome,
                };
                Next::Command(self.logical.report(self.now(), Report::Opened(outcome)))
            }
            Command::Wait(pause) => {
                tokio::time::sleep(pause).await;
                Next::Command(self.logical.report(self.now(), Report::Waited))
            }
            Command::Run(job) => {
                let driver = Arc::clone(&self.pool.cluster().driver);
                let ran = match self.lease.as_mut() {
                    Some(lease) => driver.perform(lease, &job).await,
                    None => return Next::Done(Err(Failure::Closed)),
                };
                Next::Command(self.ran(ran, last))
            }
            Command::Close => {
                self.let_go();
                Next::Done(Ok(()))
            }
            Command::Done(result) => Next::Done(result),
        }
    }

    fn ran(&mut self, ran: Result<(), D::Error>, last: &mut Option<Last<D::Error>>) -> Command {
        if let Some(routing) = &mut self.routing {
            routing.ran_on = self.logical.generation();
        }
        let driver = &self.pool.cluster().driver;
        let report = match ran {
            Ok(()) => {
                let conn = self.lease.as_deref();
                if let Some(on) = conn.and_then(|conn| driver.autocommit(conn)) {
                    self.logical.note_autocommit(on);
                }
                let known = conn.and_then(|conn| driver.in_transaction(conn));
                let in_transaction = known.unwrap_or_else(|| self.logical.in_transaction());
                Ran::Done { in_transaction }
            }
            Err(error) => {
                let verdict = match self.lease.as_deref() {
                    Some(conn) => driver.judge(conn, &error),
                    None => driver.verdict(&error),
                };
                let host = self.lease.as_ref().map(|lease| lease.host().shared_name());
                *last = Some(Last { host, error });
                Ran::failed(verdict, true)
            }
        };
        let command = self.logical.report(self.now(), Report::Ran(report));
        self.drop_lost();
        command
    }

    /// Gives everything back: the main connection, and the one beside it.
    fn give_back(&mut self) {
        self.logical.abandon(self.now());
        self.let_go();
        if let Some(routing) = &mut self.routing {
            routing.leave();
        }
    }

    /// Gives the physical connection back. What the session changed on it would surprise the next user,
    /// and not all of it shows at a look: then it is closed.
    fn let_go(&mut self) {
        self.notice_given_up();
        let logical = &self.logical;
        let as_new = logical.autocommit()
            && logical.mode() == Some(AccessMode::ReadWrite)
            && logical.database().is_none()
            && logical.isolation().is_none()
            && logical.host().is_some()
            && !self.routing.as_ref().is_some_and(Routing::leaves_traces);
        match self.lease.take() {
            Some(lease) if as_new => drop(lease),
            Some(lease) => lease.discard(),
            None => {}
        }
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn failed(&self, failure: Failure, last: Option<Last<D::Error>>) -> SessionError<D::Error> {
        let now_on = self.host().map(Host::shared_name);
        let (host, error) = match last {
            Some(last) => (last.host, Some(last.error)),
            None => (None, None),
        };
        let hosts = match failure {
            Failure::FailoverFailed(_) => self.pool.cluster().reports(|_| None),
            _ => Vec::new(),
        };
        SessionError { failure, host, now_on, error, hosts, pool: None }
    }
}

impl<D: SessionDriver> Drop for Session<D> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<D: SessionDriver> fmt::Debug for Session<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("logical", &self.logical)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// The error that a call met, and where.
struct Last<E> {
    host: Option<Arc<str>>,
    error: E,
}

enum Next {
    Command(Command),
    Done(Result<(), Failure>),
}

/// The hosts with the source in front.
fn in_order<D: Driver>(hosts: &Hosts<D>) -> Vec<HostId> {
    let mut ids: Vec<HostId> = hosts.iter().map(|slots| slots.id()).collect();
    if let Some(first) = first_of(hosts)
        && let Some(at) = ids.iter().position(|id| *id == first)
    {
        ids[..=at].rotate_right(1);
    }
    ids
}

fn first_of<D: Driver>(hosts: &Hosts<D>) -> Option<HostId> {
    let source = hosts.iter().find(|slots| slots.host.role() == Role::Source);
    source.or_else(|| hosts.first()).map(|slots| slots.id())
}
