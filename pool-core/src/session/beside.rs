//! Work on a connection beside the main one that the session holds.

use crate::driver::Liveness;
use crate::failover::{Call, Failure, Job, Ran, Statement};
use crate::lease::Lease;
use crate::route::{Answer, Effect, Pin, Route, ServerFlags};
use crate::session::{Last, Session, SessionDriver, SessionError, Work};

impl<D: SessionDriver> Session<D> {
    /// Runs a statement on the connection beside the main one.
    pub(super) async fn run_beside<T, W>(
        &mut self,
        route: &Route<'_>,
        kind: Statement,
        work: W,
    ) -> Result<T, SessionError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let Some(routing) = &mut self.routing else { return Err(self.gone()) };
        let Some(lease) = routing.beside.take() else { return Err(self.gone()) };
        let was_free = routing.pins.pins().is_empty();
        let had_written = routing.wrote_beside;
        routing.pins.sent(route);
        routing.wrote_beside |= route.kind.may_write() && !lease.is_replica();
        // Cancellation safety: the lease is here while the statement runs; dropped with it, it is tidied or
        // closed, and what binds the session to it stays noted.
        let mut out = Out::new(lease, routing.leaves_traces());
        match work(out.lease(), route.sent.to_string()).await {
            Ok(value) => {
                let lease = out.back();
                let answer = match was_free && route.kind.is_read() {
                    // A plain read binds nothing, whatever the settings of its connection.
                    true => Answer::Ok(None),
                    false => self.answer_of(&lease),
                };
                self.keep_beside(lease, &route.effect, answer).await;
                Ok(value)
            }
            Err(error) => {
                let lost = match (route.kind.is_read(), was_free) {
                    (true, true) => Failure::ReadLost,
                    (true, false) => Failure::Switched,
                    (false, _) => Failure::OutcomeUnknown,
                };
                let commits = kind == Statement::EndsTransaction;
                let failed = self.broke_beside(out.back(), &route.effect, error, lost, commits);
                if let (Failure::NotWritable, Some(routing)) = (failed.failure, &mut self.routing) {
                    routing.wrote_beside = had_written;
                }
                Err(failed)
            }
        }
    }

    /// A call of the session while it is held beside the main connection.
    pub(super) async fn call_beside(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        let (job, transaction) = match call {
            Call::Begin => (Job::Begin, true),
            Call::Commit => (Job::Commit, false),
            Call::Rollback => (Job::Rollback, false),
            // The only way to end it.
            Call::SetAutocommit(true) if self.pins().contains(Pin::AutocommitOff) => {
                (Job::SetAutocommit(true), false)
            }
            _ => return Err(self.refuse(Failure::HeldBeside)),
        };
        let pool = self.pool.clone();
        let Some(routing) = &mut self.routing else { return Err(self.gone()) };
        let Some(lease) = routing.beside.take() else { return Err(self.gone()) };
        let mut out = Out::new(lease, routing.leaves_traces());
        let driver = &pool.cluster().driver;
        match driver.perform(out.lease(), &job).await {
            Ok(()) => {
                let lease = out.back();
                let autocommit = driver.autocommit(&lease).unwrap_or(true);
                let answer = Answer::Ok(Some(ServerFlags { transaction, autocommit }));
                self.keep_beside(lease, &Effect::default(), answer).await;
                Ok(())
            }
            Err(error) => {
                let (effect, commits) = (Effect::default(), call != Call::Rollback);
                let failed =
                    self.broke_beside(out.back(), &effect, error, Failure::Switched, commits);
                if let (Failure::OutcomeUnknown, Some(routing)) =
                    (failed.failure, &mut self.routing)
                {
                    // That error says it all: there is nothing left to roll back.
                    routing.leave();
                }
                Err(failed)
            }
        }
    }

    /// A call while the connection that the session was held on is gone.
    pub(super) fn acknowledge(&mut self, call: &Call) -> Result<(), SessionError<D::Error>> {
        match (call, &mut self.routing) {
            (Call::Rollback, Some(routing)) => {
                routing.leave();
                Ok(())
            }
            _ => Err(self.gone()),
        }
    }

    /// The connection that the session was bound to is gone. A transaction has to be acknowledged by a
    /// rollback, everything else is told once.
    pub(super) fn gone(&mut self) -> SessionError<D::Error> {
        match &mut self.routing {
            Some(routing) if routing.pins.pins().contains(Pin::Transaction) => {
                self.refuse(Failure::TransactionLost)
            }
            Some(routing) => {
                routing.leave();
                self.refuse(Failure::Switched)
            }
            None => self.refuse(Failure::Closed),
        }
    }

    /// Keeps the connection beside after a success, and asks it for its position if it wrote.
    pub(super) async fn keep_beside(&mut self, lease: Lease<D>, effect: &Effect, answer: Answer) {
        let Some(routing) = &mut self.routing else { return };
        routing.ran_beside(effect, answer);
        let mut out = Out::new(lease, routing.leaves_traces());
        if routing.wrote_beside && !routing.pins.pins().contains(Pin::Transaction) {
            let usable = routing.caller.wrote(&self.pool, out.lease()).await;
            routing.wrote_beside = false;
            if !usable {
                // Without a connection, what it was bound by is told to be gone.
                return out.back().discard();
            }
        }
        routing.beside = Some(out.back());
    }

    /// What the connection says about its session after a success.
    fn answer_of(&self, lease: &Lease<D>) -> Answer {
        let driver = &self.pool.cluster().driver;
        let flags = match (driver.in_transaction(lease), driver.autocommit(lease)) {
            (Some(transaction), Some(autocommit)) => Some(ServerFlags { transaction, autocommit }),
            _ => None,
        };
        Answer::Ok(flags)
    }

    /// An error on the connection beside: it is kept if it is still good. `lost` is what it is if the link
    /// broke outside a transaction; `commits` says whether what failed may have ended one.
    fn broke_beside(
        &mut self,
        mut lease: Lease<D>,
        effect: &Effect,
        error: D::Error,
        lost: Failure,
        commits: bool,
    ) -> SessionError<D::Error> {
        let host = lease.host().shared_name();
        let driver = &self.pool.cluster().driver;
        let ran = Ran::failed(driver.judge(&lease, &error), true);
        let is_gone = matches!(ran, Ran::Lost { .. }) || driver.peek(&mut lease) == Liveness::Dead;
        let failure = match ran {
            Ran::NotWritable => Failure::NotWritable,
            _ if is_gone => lost,
            _ => Failure::Statement,
        };
        let failure = match &mut self.routing {
            Some(routing) if !is_gone => {
                routing.ran_beside(effect, Answer::Failed);
                routing.beside = Some(lease);
                failure
            }
            Some(routing) => {
                lease.discard();
                match (routing.pins.pins().contains(Pin::Transaction), failure) {
                    (true, Failure::NotWritable) => Failure::TransactionLost,
                    (true, _) if commits && routing.wrote_beside => Failure::OutcomeUnknown,
                    (true, _) => Failure::TransactionLost,
                    // It did not run; what went with the connection is told by the next one.
                    (false, Failure::NotWritable) => failure,
                    (false, _) => {
                        routing.leave();
                        failure
                    }
                }
            }
            None => failure,
        };
        self.failed(failure, Some(Last { host: Some(host), error }))
    }
}

/// The connection beside while something runs on it. If that is given up, one that is bound is closed: what
/// binds it would surprise its next user.
struct Out<D: SessionDriver> {
    /// Empty only once it is back.
    lease: Option<Lease<D>>,
    bound: bool,
}

impl<D: SessionDriver> Out<D> {
    fn new(lease: Lease<D>, bound: bool) -> Self {
        Self { lease: Some(lease), bound }
    }

    fn lease(&mut self) -> &mut Lease<D> {
        self.lease.as_mut().expect("out until it is back")
    }

    fn back(mut self) -> Lease<D> {
        self.lease.take().expect("out until it is back")
    }
}

impl<D: SessionDriver> Drop for Out<D> {
    fn drop(&mut self) {
        if let (Some(lease), true) = (self.lease.take(), self.bound) {
            lease.discard();
        }
    }
}
