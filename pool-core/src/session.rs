//! The logical connection over a pool: one caller's session that may move between hosts.
//!
//! [`Logical`] decides (pure); this file carries out its commands on leases of the pool. Where [`Pool::get`]
//! lends one physical connection that never changes, a session survives the loss of its host: the error
//! that caused a switch is always returned, and says whether the statement ran.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::access::{Access, AccessMode};
use crate::driver::Driver;
use crate::error::{Cause, Phase};
use crate::failover::{
    Call, Carry, Command, Failure, Isolation, Job, Logical, Open, Outcome, Ran, Report,
    SessionOptions, Statement,
};
use crate::host::{Host, Role};
use crate::lease::Lease;
use crate::pool::Pool;
use crate::slots::store::{HostSlots, Refusal, Watch};
use crate::verdict::Verdict;

/// What a driver must be able to do for sessions.
pub trait SessionDriver: Driver {
    /// Brings a connection into the state that a session carries with it, sending only what differs.
    fn carry(
        &self,
        conn: &mut Self::Conn,
        carry: &Carry,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Does a job of the session other than [`Job::Statement`].
    fn perform(
        &self,
        conn: &mut Self::Conn,
        job: &Job,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether the server says that a transaction is open; `None` if that is not known.
    fn in_transaction(&self, conn: &Self::Conn) -> Option<bool>;
}

/// The future of a statement on the session's connection.
pub type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// A logical connection. Keeps the rules of the failover policy per connection: counters, access mode,
/// return to the source at transaction boundaries (see [`Logical`]).
///
/// Cancellation safety: a future that is dropped in the middle of a statement leaves the connection in an
/// unknown state; the next call finds the link lost, gets another connection and says so.
pub struct Session<D: SessionDriver> {
    pool: Pool<D>,
    logical: Logical,
    lease: Option<Lease<D>>,
}

/// Why a call on a session failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionError<E> {
    /// What became of the statement and of the session.
    pub failure: Failure,
    /// The host where it happened, if there was a connection.
    pub host: Option<Arc<str>>,
    /// The host that the session is on now, if it is on one.
    pub now_on: Option<Arc<str>>,
    /// The driver's error that caused it; `None` for a call that was refused.
    pub error: Option<E>,
}

impl<E> SessionError<E> {
    /// Whether the same statement may be sent again without the danger of running it twice.
    #[must_use]
    pub fn safe_to_retry(&self) -> bool {
        self.failure.safe_to_retry()
    }
}

impl<E: fmt::Display> fmt::Display for SessionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)?;
        if let Some(host) = &self.host {
            write!(f, " (on {host}")?;
            match &self.now_on {
                Some(now) => write!(f, ", now on {now})")?,
                None => f.write_str(", now on no host)")?,
            }
        }
        if let Some(error) = &self.error {
            write!(f, ": {error}")?;
        }
        Ok(())
    }
}

impl<E: std::error::Error + 'static> std::error::Error for SessionError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_ref().map(|error| error as _)
    }
}

impl<D: SessionDriver> Pool<D> {
    /// Opens a logical connection with the failover policy of the pool. It connects on first use.
    #[must_use]
    pub fn session(&self, options: SessionOptions) -> Session<D> {
        let cluster = self.cluster();
        let hosts: Vec<_> = cluster.hosts.load().iter().map(|slots| slots.id()).collect();
        let logical = Logical::new(Arc::clone(&cluster.failover), options, hosts);
        Session { pool: self.clone(), logical, lease: None }
    }
}

impl<D: SessionDriver> Session<D> {
    /// Connects now. Every other call does it as well if needed.
    ///
    /// # Errors
    ///
    /// [`Failure::FailoverFailed`] when no host could be reached.
    pub async fn connect(&mut self) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::Connect).await
    }

    /// Runs one statement (or anything else that takes the connection).
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
        let mut value = None;
        let mut work = Some(work);
        let mut last = None;
        let mut command = self.logical.call(self.now(), Call::Execute(kind));
        loop {
            command = match command {
                Command::Run(Job::Statement) => {
                    let work = work.take();
                    let ran = match (self.lease.as_mut(), work) {
                        (Some(lease), Some(work)) => match work(lease).await {
                            Ok(done) => {
                                value = Some(done);
                                Ok(())
                            }
                            Err(error) => Err(error),
                        },
                        // Asked for a second time, or without a connection: never run anything twice.
                        _ => return Err(self.refuse(Failure::Closed)),
                    };
                    self.ran(ran, &mut last)
                }
                command => match self.step(command, &mut last).await {
                    Next::Command(command) => command,
                    Next::Done(Ok(())) => {
                        return value.ok_or_else(|| self.refuse(Failure::Closed));
                    }
                    Next::Done(Err(failure)) => return Err(self.failed(failure, last)),
                },
            };
        }
    }

    /// Starts a transaction.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn begin(&mut self) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::Begin).await
    }

    /// Commits, on the connection of the transaction. Then the session may return to the source.
    ///
    /// # Errors
    ///
    /// [`Failure::OutcomeUnknown`] if the link broke on the way: look before you repeat the work.
    pub async fn commit(&mut self) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::Commit).await
    }

    /// Rolls back; acknowledges a transaction that was lost with its link.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn rollback(&mut self) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::Rollback).await
    }

    /// Asks for read-only or read/write. Always remembered; applied where the policy allows
    /// (`connectorj-server-failover`, access mode).
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_read_only(&mut self, read_only: bool) -> Result<(), SessionError<D::Error>> {
        let mode = if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        self.drive(Call::SetMode(mode)).await
    }

    /// Switches autocommit. On ends an open transaction with a commit.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_autocommit(&mut self, on: bool) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::SetAutocommit(on)).await
    }

    /// Changes the current database; follows the session to its next host.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_database(&mut self, name: &str) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::SetDatabase(name.into())).await
    }

    /// Changes the isolation level; follows the session to its next host.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`].
    pub async fn set_isolation(&mut self, level: Isolation) -> Result<(), SessionError<D::Error>> {
        self.drive(Call::SetIsolation(level)).await
    }

    /// Closes for good: the physical connection goes back to the pool, every later call is refused.
    pub fn close(&mut self) {
        let now = self.now();
        self.logical.abandon(now);
        self.let_go();
        // The command is to close, which is done.
        let _ = self.logical.call(now, Call::Close);
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

    async fn drive(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        let mut last = None;
        let mut command = self.logical.call(self.now(), call);
        loop {
            command = match self.step(command, &mut last).await {
                Next::Command(command) => command,
                Next::Done(Ok(())) => return Ok(()),
                Next::Done(Err(failure)) => return Err(self.failed(failure, last)),
            };
        }
    }

    /// Carries out one command that is not a statement.
    async fn step(&mut self, command: Command, last: &mut Option<Last<D::Error>>) -> Next {
        match command {
            Command::Open(open) => {
                // Cancellation safety: the old lease is kept until the new one is ready.
                let outcome = match self.open(&open).await {
                    Ok(lease) => {
                        // Its state is the old host's business; the server rolls back.
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
        let driver = &self.pool.cluster().driver;
        let report = match ran {
            Ok(()) => {
                let known = self.lease.as_deref().and_then(|conn| driver.in_transaction(conn));
                let in_transaction = known.unwrap_or_else(|| self.logical.in_transaction());
                Ran::Done { in_transaction }
            }
            Err(error) => {
                let verdict = driver.verdict(&error);
                let host = self.lease.as_ref().map(|lease| lease.host().shared_name());
                *last = Some(Last { host, error });
                Ran::failed(verdict, true)
            }
        };
        self.logical.report(self.now(), Report::Ran(report))
    }

    /// A connection to that host in the state of the session, within the budget.
    async fn open(&self, open: &Open) -> Result<Lease<D>, Outcome> {
        let deadline = Instant::now() + open.budget;
        let failed = |verdict| Outcome::Failed { verdict, by_budget: false };
        let Some(slots) = self.pool.cluster().host(open.host) else {
            return Err(failed(Verdict::HostDown));
        };
        let mut lease = self.take(&slots, deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let driver = Arc::clone(&self.pool.cluster().driver);
        let ready = async {
            if open.check_role && driver.probe(&mut lease).await?.role == Role::Replica {
                return Ok(false);
            }
            driver.carry(&mut lease, &open.carry).await.map(|()| true)
        };
        match timeout(left, ready).await {
            Ok(Ok(true)) => Ok(lease),
            Ok(Ok(false)) => Err(failed(Verdict::Demoted)),
            Ok(Err(error)) => {
                lease.discard();
                Err(failed(driver.verdict(&error)))
            }
            Err(_) => {
                lease.discard();
                Err(Outcome::Failed { verdict: Verdict::HostDown, by_budget: true })
            }
        }
    }

    /// An idle connection, or a new one dialled now. The back-off of the store does not apply: the walk
    /// has its own timing. A full host is waited for, in its queue.
    async fn take(
        &self,
        slots: &Arc<HostSlots<D>>,
        deadline: Instant,
    ) -> Result<Lease<D>, Outcome> {
        let cluster = self.pool.cluster();
        let access = Access::Host(slots.id());
        if let Some(slot) = slots.try_checkout() {
            return Ok(Lease::new(Arc::clone(slots), slot, access));
        }
        if !slots.with_state(|state| state.reserve()) {
            return match slots.checkout(cluster.ticket(), deadline).await {
                Ok(slot) => Ok(Lease::new(Arc::clone(slots), slot, access)),
                Err(Refusal::Unreachable(cause)) => Err(outcome(&cause, false)),
                Err(Refusal::Late(_)) => {
                    Err(Outcome::Failed { verdict: Verdict::Overloaded, by_budget: true })
                }
                Err(Refusal::Away) => {
                    Err(Outcome::Failed { verdict: Verdict::Inactive, by_budget: false })
                }
            };
        }
        let place = Reserved(slots);
        let budget = deadline.saturating_duration_since(Instant::now());
        let generation = slots.with_state(|state| state.generation());
        match slots.dial(Access::Write, budget, Phase::Walking).await {
            Ok(slot) => {
                std::mem::forget(place);
                slots.with_state(|state| state.claim());
                cluster.unblock(slots);
                Ok(Lease::new(Arc::clone(slots), slot, access))
            }
            Err(cause) => {
                drop(place);
                let by_budget = cause.error.is_none() && Instant::now() >= deadline;
                let outcome = outcome(&cause, by_budget);
                cluster.failed(slots.id(), generation, cause);
                Err(outcome)
            }
        }
    }

    /// Gives the physical connection back. What the session changed on it would surprise the next user,
    /// and not all of it shows at a look: then it is closed.
    fn let_go(&mut self) {
        let logical = &self.logical;
        let as_new = logical.autocommit()
            && logical.mode() == Some(AccessMode::ReadWrite)
            && logical.database().is_none()
            && logical.isolation().is_none()
            && logical.host().is_some();
        match self.lease.take() {
            Some(lease) if as_new => drop(lease),
            Some(lease) => lease.discard(),
            None => {}
        }
    }

    fn now(&self) -> Duration {
        self.pool.cluster().clock.now()
    }

    fn failed(&self, failure: Failure, last: Option<Last<D::Error>>) -> SessionError<D::Error> {
        let now_on = self.host().map(Host::shared_name);
        let (host, error) = match last {
            Some(last) => (last.host, Some(last.error)),
            None => (None, None),
        };
        SessionError { failure, host, now_on, error }
    }
}

impl<D: SessionDriver> Drop for Session<D> {
    fn drop(&mut self) {
        let now = self.now();
        self.logical.abandon(now);
        self.let_go();
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

fn outcome(cause: &Cause, by_budget: bool) -> Outcome {
    Outcome::Failed { verdict: cause.verdict, by_budget }
}

/// A place in a host's counts while its connection is dialled. Freed if the session is dropped meanwhile.
struct Reserved<'a, D: Driver>(&'a Arc<HostSlots<D>>);

impl<D: Driver> Drop for Reserved<'_, D> {
    fn drop(&mut self) {
        let now = self.0.clock.now();
        self.0.update(|state| state.unreserve(now));
    }
}
