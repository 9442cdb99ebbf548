//! The state machine: calls and their outcomes. Walks are in `walking`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::FailoverPolicy;
use super::api::{Call, Carry, Command, Failure, Isolation, Job, Ran, Report, SessionOptions};
use super::running::ends_transaction;
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
    pub(super) autocommit: bool,
    pub(super) database: Option<Arc<str>>,
    pub(super) isolation: Option<Isolation>,

    pub(super) in_transaction: bool,
    pub(super) transaction_lost: bool,
    pub(super) left_at: Duration,
    pub(super) statements: u64,
    pub(super) ping_first: bool,
    /// Something that would be lost is bound to the connection.
    pub(super) held: bool,

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
            held: false,
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
                if matches!(call, Call::Begin | Call::Execute(_)) {
                    self.count_statement();
                }
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

    /// Tells that the connection was lost between two calls: the next one looks for another and says so.
    pub fn link_lost(&mut self) {
        if self.link == Link::Up {
            self.transaction_lost |= self.in_transaction;
            self.in_transaction = false;
            self.link = Link::Lost;
        }
    }

    /// Sets whether something beside a transaction (a lock, a temporary table …) is bound to the connection.
    /// The session does not return to the source by itself then: it would be lost without a word.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
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

    /// Notes whether autocommit is on after a statement changed it (`SET autocommit`).
    pub fn note_autocommit(&mut self, on: bool) {
        self.autocommit = on;
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
