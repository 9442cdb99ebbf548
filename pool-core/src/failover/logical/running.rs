//! Calls on the connection that is there: what is sent, and what its outcome means.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Call, Command, Failure, Job, Ran, Statement};
use super::machine::{Closed, Link, Logical, Phase, UnderWay};
use super::walking::After;
use crate::access::AccessMode;

impl Logical {
    /// Runs the call on the connection that is there.
    pub(super) fn run(&mut self, now: Duration, call: Call) -> Command {
        let job = match &call {
            Call::Close | Call::Connect => return Command::Done(Ok(())),
            Call::Begin | Call::Execute(_) => {
                self.count_statement();
                if call == Call::Begin { Job::Begin } else { Job::Statement }
            }
            Call::Commit => Job::Commit,
            Call::Rollback if self.transaction_lost => {
                // The server rolled back long ago: this only acknowledges it.
                self.transaction_lost = false;
                return self.finish(now, call, Ok(()));
            }
            Call::Rollback => Job::Rollback,
            Call::SetAutocommit(on) if *on == self.autocommit => {
                return self.finish(now, call, Ok(()));
            }
            Call::SetAutocommit(on) => Job::SetAutocommit(*on),
            Call::SetDatabase(name) => Job::SetDatabase(Arc::clone(name)),
            Call::SetIsolation(level) => Job::SetIsolation(*level),
            Call::SetMode(_) => {
                let mode = self.policy.mode_on(!self.on_secondary(), self.asked, self.mode);
                if self.mode == Some(mode) {
                    return self.finish(now, call, Ok(()));
                }
                Job::SetMode(mode)
            }
        };
        self.under_way = Some(UnderWay { call, phase: Phase::Run });
        Command::Run(job)
    }

    /// Statements are counted before they run, so failing ones count as well.
    pub(super) fn count_statement(&mut self) {
        if self.on_secondary() {
            self.statements += 1;
        }
    }

    /// The call is over; where it ended a transaction, the source may be tried first.
    pub(super) fn finish(
        &mut self,
        now: Duration,
        call: Call,
        result: Result<(), Failure>,
    ) -> Command {
        let boundary = self.autocommit || matches!(call, Call::Commit | Call::Rollback);
        let free = !self.in_transaction && !self.transaction_lost && !self.held;
        if boundary && free && self.return_due(now) {
            return self.try_source(now, call, result);
        }
        Command::Done(result)
    }

    pub(super) fn close(&mut self) -> Command {
        self.closed = Closed::Explicit;
        self.in_transaction = false;
        let open = self.link == Link::Up;
        self.link = Link::None;
        if open { Command::Close } else { Command::Done(Ok(())) }
    }

    pub(super) fn ran(&mut self, now: Duration, call: Call, ran: Ran) -> Command {
        match ran {
            Ran::Done { in_transaction } => {
                self.in_transaction = in_transaction;
                match &call {
                    Call::Commit | Call::Rollback => {
                        self.ping_first |= self.reconnects() && self.options.reconnect_at_tx_end;
                    }
                    Call::SetAutocommit(on) => self.autocommit = *on,
                    Call::SetDatabase(name) => self.database = Some(Arc::clone(name)),
                    Call::SetIsolation(level) => self.isolation = Some(*level),
                    Call::SetMode(_) => {
                        let on_source = !self.on_secondary();
                        self.mode = Some(self.policy.mode_on(on_source, self.asked, self.mode));
                    }
                    Call::Begin | Call::Close | Call::Connect | Call::Execute(_) => {}
                }
                self.finish(now, call, Ok(()))
            }
            Ran::Refused => self.finish(now, call, Err(Failure::Statement)),
            Ran::NotWritable if self.leaves_demoted_source() => {
                self.transaction_lost = self.in_transaction;
                self.lose(now, call, Failure::NotWritable)
            }
            Ran::NotWritable => self.finish(now, call, Err(Failure::NotWritable)),
            Ran::Lost { maybe_executed } => {
                let failure = self.failure_of_lost(&call, maybe_executed);
                // A text that might have ended the transaction: if it did not, what follows must not
                // run as if inside it.
                let unsure = self.in_transaction && matches!(call, Call::Execute(_));
                self.transaction_lost = failure == Failure::TransactionLost || unsure;
                self.lose(now, call, failure)
            }
        }
    }

    /// Looks for another connection and fails the call with `failure` once there is one.
    fn lose(&mut self, now: Duration, call: Call, failure: Failure) -> Command {
        self.in_transaction = false;
        self.link = Link::Lost;
        self.ping_first |= self.reconnects() && !self.options.reconnect_at_tx_end;
        self.acquire(now, call, After::Fail(failure))
    }

    /// What the caller must assume about a call whose link broke.
    fn failure_of_lost(&self, call: &Call, maybe_executed: bool) -> Failure {
        let ends = ends_transaction(call);
        if ends && maybe_executed && (self.in_transaction || matches!(call, Call::Execute(_))) {
            return Failure::OutcomeUnknown;
        }
        if self.in_transaction {
            // Whatever ran inside it is rolled back with it.
            return if *call == Call::Rollback {
                Failure::Switched
            } else {
                Failure::TransactionLost
            };
        }
        let alone = self.autocommit && matches!(call, Call::Execute(_));
        if alone && maybe_executed { Failure::OutcomeUnknown } else { Failure::Switched }
    }

    /// A source that takes no writes although it should is left as a dead one is. Where no host is
    /// the one to return to (a mirrored pair), each of them is such a source.
    fn leaves_demoted_source(&self) -> bool {
        self.policy.leaves_demoted()
            && (!self.on_secondary() || self.policy.return_rule().is_none())
            && self.mode == Some(AccessMode::ReadWrite)
            && self.hosts.len() > 1
    }

    pub(super) fn reconnects(&self) -> bool {
        self.options.auto_reconnect || self.options.auto_reconnect_for_pools
    }

    pub(super) fn pings_before(&self, call: &Call) -> bool {
        self.ping_first
            && !self.in_transaction
            && matches!(call, Call::Begin | Call::Execute(_))
            && (self.autocommit || self.options.auto_reconnect_for_pools)
    }
}

/// Whether the call may commit what is open. `BEGIN` does so in MySQL.
pub(super) fn ends_transaction(call: &Call) -> bool {
    matches!(
        call,
        Call::Begin
            | Call::Commit
            | Call::SetAutocommit(true)
            | Call::Execute(Statement::EndsTransaction)
    )
}
