//! Work on a connection beside the main one that the session holds.

use crate::driver::Liveness;
use crate::failover::{Call, Failure, Job, Ran};
use crate::lease::Lease;
use crate::route::{Answer, Effect, Pin, Route, ServerFlags};
use crate::session::{Last, Session, SessionDriver, SessionError, Work};

impl<D: SessionDriver> Session<D> {
    /// Runs a statement on the connection beside the main one.
    pub(super) async fn run_beside<T, W>(
        &mut self,
        route: &Route<'_>,
        work: W,
    ) -> Result<T, SessionError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let pool = self.pool.clone();
        let taken = self.routing.as_mut().and_then(|routing| {
            let lease = routing.beside.take()?;
            routing.sent_beside(route);
            Some(lease)
        });
        // Cancellation safety: the lease is here while the statement runs; dropped with it, it is tidied or
        // closed, and what binds the session to it stays noted.
        let Some(mut lease) = taken else { return Err(self.gone()) };
        let value = match work(&mut lease, route.sent.to_string()).await {
            Ok(value) => value,
            Err(error) => {
                let lost =
                    if route.kind.is_read() { Failure::ReadLost } else { Failure::OutcomeUnknown };
                return Err(self.broke_beside(lease, &route.effect, error, lost));
            }
        };
        let answer = self.answer_of(&lease);
        if let Some(routing) = &mut self.routing {
            let wrote = route.kind.may_write() && lease.is_writable();
            if wrote && !routing.caller.wrote(&pool, &mut lease).await {
                lease.discard();
                routing.leave();
            } else {
                routing.ran_beside(lease, &route.effect, answer);
            }
        }
        Ok(value)
    }

    /// A call of the session while it is held beside the main connection.
    pub(super) async fn call_beside(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        let (job, transaction) = match call {
            Call::Begin => (Job::Begin, true),
            Call::Commit => (Job::Commit, false),
            Call::Rollback => (Job::Rollback, false),
            _ => return Err(self.refuse(Failure::HeldBeside)),
        };
        let pool = self.pool.clone();
        let taken = self.routing.as_mut().and_then(|routing| routing.beside.take());
        let Some(mut lease) = taken else { return Err(self.gone()) };
        let driver = &pool.cluster().driver;
        match driver.perform(&mut lease, &job).await {
            Ok(()) => {
                let autocommit = driver.autocommit(&lease).unwrap_or(true);
                let answer = Answer::Ok(Some(ServerFlags { transaction, autocommit }));
                if let Some(routing) = &mut self.routing {
                    routing.ran_beside(lease, &Effect::default(), answer);
                }
                Ok(())
            }
            Err(error) => {
                // Nothing can have been written there without being refused.
                Err(self.broke_beside(lease, &Effect::default(), error, Failure::ReadLost))
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

    /// What the connection says about its session after a success.
    pub(super) fn answer_of(&self, lease: &Lease<D>) -> Answer {
        let driver = &self.pool.cluster().driver;
        let flags = match (driver.in_transaction(lease), driver.autocommit(lease)) {
            (Some(transaction), Some(autocommit)) => Some(ServerFlags { transaction, autocommit }),
            _ => None,
        };
        Answer::Ok(flags)
    }

    /// An error on the connection beside: it is kept if it is still good.
    fn broke_beside(
        &mut self,
        mut lease: Lease<D>,
        effect: &Effect,
        error: D::Error,
        lost: Failure,
    ) -> SessionError<D::Error> {
        let host = lease.host().shared_name();
        let driver = &self.pool.cluster().driver;
        let failure = match Ran::failed(driver.judge(&lease, &error), true) {
            Ran::Lost { .. } => lost,
            _ if driver.peek(&mut lease) == Liveness::Dead => lost,
            Ran::NotWritable => Failure::NotWritable,
            _ => Failure::Statement,
        };
        let failure = match &mut self.routing {
            Some(routing) if failure != lost => {
                routing.ran_beside(lease, effect, Answer::Failed);
                failure
            }
            Some(routing) => {
                lease.discard();
                if routing.pins.pins().contains(Pin::Transaction) {
                    Failure::TransactionLost
                } else {
                    routing.leave();
                    failure
                }
            }
            None => failure,
        };
        self.failed(failure, Some(Last { host: Some(host), error }))
    }
}
