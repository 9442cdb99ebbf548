//! The state machine: calls and their outcomes. Walks are in `walking`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::FailoverPolicy;
use super::api::{
    Call, Carry, Command, Failure, Isolation, Job, Ran, Report, SessionOptions, Statement,
};
use super::walking::{After, Walk};
use crate::access::AccessMode;
use crate::host::HostId;

/// One caller's connection, which may move between hosts. See the [module](super).
pub struct Logical {
    pub(super) policy: Arc<dyn FailoverPolicy>,
    pub(super) options: SessionOptions,
    pub(super) hosts: Vec<HostId>,

    pub(super) current: Option<HostId>,
    pub(super) link: Link,
    pub(super) closed: Closed,
    pub(super) generation: u64,

    pub(super) asked: Option<AccessMode>,
    pub(super) mode: Option<AccessMode>,
    autocommit: bool,
    database: Option<Arc<str>>,
    isolation: Option<Isolation>,

    pub(super) in_transaction: bool,
    transaction_lost: bool,
    pub(super) left_at: Duration,
    pub(super) statements: u64,
    ping_first: bool,

    pub(super) under_way: Option<UnderWay>,
}

/// Whether there is a physical connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Lost, or in an unknown state.
    Lost,
    /// Not yet made, or given up with the logical connection.
    None,
    /// Usable.
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// By the caller; final.
    Explicit,
    /// Because no host was reachable.
    Implicit,
    No,
}

/// A call that is not over.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) call: Call,
    pub(super) phase: Phase,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// The connection is checked before the call.
    Ping,
    /// The source is tried once more; the call itself is over.
    Return { walk: Walk, result: Result<(), Failure> },
    /// The call itself runs.
    Run,
    /// A connection is looked for.
    Walk { walk: Walk, after: After },
}

impl Logical {
    /// A session that is not connected yet. The first host is the source.
    ///
    /// The options usually come from the policy, such as
    /// [`Cycling::session_options`](super::super::Cycling::session_options).
    pub fn new(
        policy: Arc<dyn FailoverPolicy>,
        options: SessionOptions,
        hosts: impl IntoIterator<Item = HostId>,
    ) -> Self {
        Self {
            policy,
            autocommit: options.autocommit,
            options,
            hosts: hosts.into_iter().collect(),
            current: None,
            link: Link::None,
            closed: Closed::No,
            generation: 0,
            asked: None,
            mode: None,
            database: None,
            isolation: None,
            in_transaction: false,
            transaction_lost: false,
            left_at: Duration::ZERO,
            statements: 0,
            ping_first: false,
            under_way: None,
        }
    }

    /// Starts a call. `now` is any monotonic clock, the same for all methods.
    ///
    /// A call that is still under way counts as [abandoned](Self::abandon).
    pub fn call(&mut self, now: Duration, call: Call) -> Command {
        self.abandon(now);
        if let Call::SetMode(mode) = call {
            self.asked = Some(mode);
        }
        match self.closed {
            _ if call == Call::Close => return self.close(),
            Closed::Explicit => return Command::Done(Err(Failure::Closed)),
            Closed::Implicit if call != Call::Connect && !self.reconnects() => {
                return Command::Done(Err(Failure::Closed));
            }
            Closed::Implicit | Closed::No => {}
        }
        if self.transaction_lost
            && !matches!(call, Call::Connect | Call::Rollback | Call::SetMode(_))
        {
            return Command::Done(Err(Failure::TransactionLost));
        }
        if self.closed == Closed::Implicit {
            // Open again as with nothing connected.
            self.closed = Closed::No;
            self.current = None;
            self.link = Link::None;
        }
        match self.link {
            Link::None => self.acquire(now, call, After::Run),
            Link::Lost => {
                let after = match call {
                    Call::Connect | Call::Rollback | Call::SetMode(_) => After::Run,
                    _ => After::Fail(Failure::Switched),
                };
                self.acquire(now, call, after)
            }
            Link::Up if self.pings_before(&call) => {
                self.under_way = Some(UnderWay { call, phase: Phase::Ping });
                Command::Run(Job::Ping)
            }
            Link::Up => self.run(now, call),
        }
    }

    /// Reports what came of the last command.
    ///
    /// A report that fits nothing under way ends the call with [`Failure::Closed`].
    pub fn report(&mut self, now: Duration, report: Report) -> Command {
        let Some(UnderWay { call, phase }) = self.under_way.take() else {
            return Command::Done(Err(Failure::Closed));
        };
        match (phase, report) {
            (Phase::Ping, Report::Ran(Ran::Lost { .. })) => {
                self.link = Link::Lost;
                self.acquire(now, call, After::Run)
            }
            (Phase::Ping, Report::Ran(_)) => {
                self.ping_first = false;
                self.run(now, call)
            }
            (Phase::Run, Report::Ran(ran)) => self.ran(now, call, ran),
            (Phase::Walk { walk, after }, Report::Opened(outcome)) => {
                self.opened(now, call, walk, after, outcome)
            }
            (Phase::Walk { walk, after }, Report::Waited) => self.waited(now, call, walk, after),
            (Phase::Return { walk, result }, Report::Opened(outcome)) => {
                self.returned(now, call, walk, result, outcome)
            }
            (Phase::Return { walk, result }, Report::Waited) => {
                self.return_waited(now, call, walk, result)
            }
            (phase, _) => {
                self.under_way = Some(UnderWay { call, phase });
                self.abandon(now);
                Command::Done(Err(Failure::Closed))
            }
        }
    }

    /// Tells that whoever performed the last command was dropped in the middle of it.
    ///
    /// The connection is in an unknown state then, so it counts as lost, unless only the source was
    /// being tried; an open transaction is lost with it. Does nothing if no call is under way.
    pub fn abandon(&mut self, now: Duration) {
        let Some(UnderWay { call, phase }) = self.under_way.take() else { return };
        match phase {
            Phase::Return { .. } => self.restart_counters(now),
            Phase::Ping | Phase::Run => {
                if self.in_transaction && !ends_transaction(&call) {
                    self.transaction_lost = true;
                }
                self.in_transaction = false;
                self.link = Link::Lost;
            }
            Phase::Walk { after, .. } => {
                // The error that started the walk was never delivered; the next call gets one.
                if self.current.is_none() && matches!(after, After::Run) {
                    self.link = Link::None;
                }
            }
        }
    }

    /// Replaces the list of hosts, for instance after a new name look-up. The first is the source.
    ///
    /// The session stays where it is.
    pub fn set_hosts(&mut self, hosts: impl IntoIterator<Item = HostId>) {
        self.hosts = hosts.into_iter().collect();
    }

    /// Notes the current database after a statement changed it (`USE`).
    pub fn note_database(&mut self, database: Arc<str>) {
        self.database = Some(database);
    }

    /// The host of the current connection; `None` without one.
    #[must_use]
    pub fn host(&self) -> Option<HostId> {
        self.current.filter(|_| self.link == Link::Up && self.closed == Closed::No)
    }

    /// The access mode on the current host, or the last one; `None` before the first connect.
    #[must_use]
    pub fn mode(&self) -> Option<AccessMode> {
        self.mode
    }

    /// The last explicit wish for an access mode.
    #[must_use]
    pub fn asked_mode(&self) -> Option<AccessMode> {
        self.asked
    }

    /// Whether each statement is a transaction of its own. Readable after closing as well.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        self.autocommit
    }

    /// The current database if the session changed it. Readable after closing as well.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The isolation level if the session set one. Readable after closing as well.
    #[must_use]
    pub fn isolation(&self) -> Option<Isolation> {
        self.isolation
    }

    /// Grows with each physical connection, so that statements of an older one can be told apart.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether a statement prepared on an older physical connection is to be prepared again
    /// silently (automatic reconnection) instead of being refused.
    #[must_use]
    pub fn keeps_statements(&self) -> bool {
        self.reconnects()
    }

    /// Whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Whether statements are refused until a rollback acknowledges that the transaction is gone.
    #[must_use]
    pub fn transaction_lost(&self) -> bool {
        self.transaction_lost
    }

    /// Whether it is closed, by the caller or because no host was reachable.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed != Closed::No
    }

    /// Statements that secondaries served since the source was left.
    #[must_use]
    pub fn statements_on_secondaries(&self) -> u64 {
        if self.on_secondary() { self.statements } else { 0 }
    }

    /// Whether a return to the source is due.
    #[must_use]
    pub fn return_due(&self, now: Duration) -> bool {
        self.on_secondary()
            && self
                .policy
                .return_rule()
                .is_some_and(|rule| rule.due(now.saturating_sub(self.left_at), self.statements))
    }

    pub(super) fn source(&self) -> Option<HostId> {
        self.hosts.first().copied()
    }

    pub(super) fn on_secondary(&self) -> bool {
        self.current.is_some() && self.current != self.source()
    }

    pub(super) fn restart_counters(&mut self, now: Duration) {
        self.left_at = now;
        self.statements = 0;
    }

    /// What a connection to `host` starts with.
    pub(super) fn carry(&self, host: HostId) -> Carry {
        Carry {
            autocommit: self.autocommit,
            database: self.database.clone(),
            isolation: self.isolation,
            mode: self.policy.mode_on(self.source() == Some(host), self.asked, self.mode),
        }
    }

    /// Runs the call on the connection that is there.
    pub(super) fn run(&mut self, now: Duration, call: Call) -> Command {
        let job = match &call {
            Call::Close | Call::Connect => return Command::Done(Ok(())),
            Call::Begin | Call::Execute(_) => {
                if self.on_secondary() {
                    self.statements += 1;
                }
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

    /// The call is over; where it ended a transaction, the source may be tried first.
    pub(super) fn finish(
        &mut self,
        now: Duration,
        call: Call,
        result: Result<(), Failure>,
    ) -> Command {
        let boundary = self.autocommit || matches!(call, Call::Commit | Call::Rollback);
        if boundary && !self.in_transaction && !self.transaction_lost && self.return_due(now) {
            return self.try_source(now, call, result);
        }
        Command::Done(result)
    }

    fn close(&mut self) -> Command {
        self.closed = Closed::Explicit;
        self.in_transaction = false;
        let open = self.link == Link::Up;
        self.link = Link::None;
        if open { Command::Close } else { Command::Done(Ok(())) }
    }

    fn ran(&mut self, now: Duration, call: Call, ran: Ran) -> Command {
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
                self.transaction_lost = failure == Failure::TransactionLost;
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

    fn reconnects(&self) -> bool {
        self.options.auto_reconnect || self.options.auto_reconnect_for_pools
    }

    fn pings_before(&self, call: &Call) -> bool {
        self.ping_first
            && !self.in_transaction
            && matches!(call, Call::Begin | Call::Execute(_))
            && (self.autocommit || self.options.auto_reconnect_for_pools)
    }
}

impl fmt::Debug for Logical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logical")
            .field("policy", &self.policy)
            .field("hosts", &self.hosts)
            .field("current", &self.current)
            .field("link", &self.link)
            .field("closed", &self.closed)
            .field("mode", &self.mode)
            .field("in_transaction", &self.in_transaction)
            .field("transaction_lost", &self.transaction_lost)
            .finish_non_exhaustive()
    }
}

/// Whether the call may commit what is open. `BEGIN` does so in MySQL.
fn ends_transaction(call: &Call) -> bool {
    matches!(
        call,
        Call::Begin
            | Call::Commit
            | Call::SetAutocommit(true)
            | Call::Execute(Statement::EndsTransaction)
    )
}
