//! A logical connection in the simulated world.

use std::sync::Arc;
use std::time::Duration;

use super::super::{
    Call, Command, FailoverPolicy, Failure, Job, Logical, Open, Outcome, Ran, Report,
    SessionOptions, Statement,
};
use super::{HostState, Link, World};
use crate::access::AccessMode;

/// What a simulated statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// The server refuses it (a missing table).
    Bad,
    /// `BEGIN` sent as text.
    BeginAsText,
    /// `COMMIT` sent as text.
    CommitAsText,
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// How a simulated call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With this result.
    Done(Result<(), Failure>),
    /// Not within the limit; the caller was dropped.
    Limit,
}

/// A [`Logical`] connection whose commands are carried out in a [`World`].
#[derive(Debug)]
pub struct Session {
    world: World,
    logical: Logical,
    link: Option<Link>,
    /// The transaction flag of the server at the other end.
    in_transaction: bool,
    socket_timeout: Duration,
    limit: Duration,
}

impl Session {
    /// A session over all hosts of the world, not connected yet.
    ///
    /// A statement on a silent host is cut after 30 seconds, a call that takes longer than an hour
    /// is dropped.
    #[must_use]
    pub fn new(world: World, policy: Arc<dyn FailoverPolicy>, options: SessionOptions) -> Self {
        let hosts: Vec<_> = world.views().iter().map(|host| host.id).collect();
        Self {
            world,
            logical: Logical::new(policy, options, hosts),
            link: None,
            in_transaction: false,
            socket_timeout: Duration::from_secs(30),
            limit: Duration::from_secs(3_600),
        }
    }

    /// Sets how long a statement on a silent host takes to fail.
    #[must_use]
    pub fn with_socket_timeout(mut self, limit: Duration) -> Self {
        self.socket_timeout = limit;
        self
    }

    /// Carries out a call that is no statement.
    pub fn call(&mut self, call: Call) -> CallEnd {
        self.perform(call, Query::Read)
    }

    /// Runs a statement.
    pub fn query(&mut self, query: Query) -> CallEnd {
        let statement = match query {
            Query::BeginAsText | Query::CommitAsText => Statement::EndsTransaction,
            Query::Bad | Query::Read | Query::Write => Statement::Plain,
        };
        self.perform(Call::Execute(statement), query)
    }

    /// The world around the session.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The world around the session, to be changed.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The state machine.
    #[must_use]
    pub fn logical(&self) -> &Logical {
        &self.logical
    }

    fn perform(&mut self, call: Call, query: Query) -> CallEnd {
        let until = self.world.now().saturating_add(self.limit);
        let mut command = self.logical.call(self.world.now(), call);
        loop {
            if self.world.now() > until {
                self.logical.abandon(self.world.now());
                return CallEnd::Limit;
            }
            let report = match command {
                Command::Close => {
                    self.link = None;
                    return CallEnd::Done(Ok(()));
                }
                Command::Done(result) => return CallEnd::Done(result),
                Command::Open(open) => Report::Opened(self.open(&open)),
                Command::Run(job) => Report::Ran(self.run(&job, query)),
                Command::Wait(pause) => {
                    self.world.advance(pause);
                    Report::Waited
                }
            };
            command = self.logical.report(self.world.now(), report);
        }
    }

    fn open(&mut self, open: &Open) -> Outcome {
        let outcome = self.world.connect_checked(open.host, open.budget, open.check_role);
        if outcome == Outcome::Connected {
            self.link = Some(self.world.link(open.host));
            self.in_transaction = false;
        }
        outcome
    }

    fn run(&mut self, job: &Job, query: Query) -> Ran {
        let Some(link) = self.link.filter(|link| !self.world.broken(*link)) else {
            return Ran::Lost { maybe_executed: true };
        };
        let state = self.world.state(link.host());
        if state == HostState::Hang {
            self.world.advance(self.socket_timeout);
            return Ran::Lost { maybe_executed: true };
        }
        let read_only = self.logical.mode() == Some(AccessMode::ReadOnly);
        match (job, query) {
            (Job::Statement, Query::Bad) => return Ran::Refused,
            (Job::Statement, Query::Write) if read_only || state == HostState::ReadOnly => {
                return Ran::NotWritable;
            }
            (Job::Statement, Query::BeginAsText) | (Job::Begin, _) => self.in_transaction = true,
            (Job::Statement, Query::CommitAsText)
            | (Job::Commit | Job::Rollback | Job::SetAutocommit(true), _) => {
                self.in_transaction = false;
            }
            (Job::Statement, _) => self.in_transaction |= !self.logical.autocommit(),
            _ => {}
        }
        Ran::Done { in_transaction: self.in_transaction }
    }
}
