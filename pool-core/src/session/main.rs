//! Work on the main connection, and what a session that routes notes about it.

use crate::failover::{Call, Command, Failure, Job, Statement};
use crate::route::{Route, ServerFlags};
use crate::session::{Next, Session, SessionDriver, SessionError, Work};

impl<D: SessionDriver> Session<D> {
    /// A call that is not a statement, on the main connection.
    pub(super) async fn drive_main(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        self.send_main(None);
        let result = self.drive(call).await;
        self.after_main(None, result.is_ok()).await;
        result
    }

    /// Runs one statement there.
    pub(super) async fn run_main<T, F>(
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
        let mut command = self.start(Call::Execute(kind))?;
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

    /// A statement or call is about to run on the main connection.
    pub(super) fn send_main(&mut self, route: Option<&Route<'_>>) {
        let Some(routing) = &mut self.routing else { return };
        routing.sent_main(route);
        self.logical.hold(routing.holds_main());
    }

    /// Notes what the main connection did, and asks it for its position after a write.
    pub(super) async fn after_main(&mut self, route: Option<&Route<'_>>, succeeded: bool) {
        let Some(routing) = &mut self.routing else { return };
        let logical = &self.logical;
        let lease = self.lease.as_mut().filter(|_| logical.host().is_some());
        let generation = if lease.is_some() { logical.generation() } else { 0 };
        let flags =
            ServerFlags { transaction: logical.in_transaction(), autocommit: logical.autocommit() };
        routing.ran_main(route, generation, succeeded.then_some(flags));
        let Some(lease) = lease else { return };
        if !routing.wrote || logical.in_transaction() {
            return;
        }
        // Only the connection of the write can say where it is in the history, and only a source.
        if routing.ran_on != generation || lease.is_replica() {
            routing.give_up_write();
            return;
        }
        // Cancellation safety: noted until there is an answer; see `notice_given_up`.
        routing.asking = true;
        let usable = routing.caller.wrote(&self.pool, lease).await;
        routing.asking = false;
        routing.wrote = false;
        if !usable {
            self.logical.link_lost();
            self.drop_lost();
        }
    }

    /// A question about the position that was given up leaves the main connection in an unknown state.
    pub(super) fn notice_given_up(&mut self) {
        if self.routing.as_mut().is_some_and(|routing| std::mem::take(&mut routing.asking)) {
            self.logical.link_lost();
        }
    }

    async fn drive(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        let mut last = None;
        let mut command = self.start(call)?;
        loop {
            command = match self.step(command, &mut last).await {
                Next::Command(command) => command,
                Next::Done(Ok(())) => return Ok(()),
                Next::Done(Err(failure)) => return Err(self.failed(failure, last)),
            };
        }
    }
}
