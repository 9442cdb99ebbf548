//! Looking for a connection: the walk after a loss, and the attempt to return to the source.

use std::fmt;
use std::time::Duration;

use super::super::{FailoverPlan, GiveUp, HostView, Outcome, Step, View};
use super::api::{Call, Command, Failure, Open};
use super::machine::{Closed, Link, Logical, Phase, UnderWay};
use crate::host::{HostId, Role};

/// A plan that is being carried out.
pub(super) struct Walk {
    plan: Box<dyn FailoverPlan>,
    trying: Option<HostId>,
    /// Started on the source or on nothing, or came past the source.
    via_source: bool,
    /// Nothing but the source was tried so far.
    source_only: bool,
}

/// What follows when a walk found a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The call fails: this is the error that started the walk.
    Fail(Failure),
    /// The call, of which nothing was sent yet, runs.
    Run,
}

impl Logical {
    /// First connect, after a loss, or reopening.
    pub(super) fn acquire(&mut self, now: Duration, call: Call, after: After) -> Command {
        let walk = self.start_walk(self.current);
        self.next(now, call, walk, after, None)
    }

    pub(super) fn opened(
        &mut self,
        now: Duration,
        call: Call,
        walk: Walk,
        after: After,
        outcome: Outcome,
    ) -> Command {
        match (outcome, walk.trying) {
            (Outcome::Connected, Some(host)) => {
                self.switch_to(host);
                if walk.via_source && self.on_secondary() {
                    self.restart_counters(now);
                }
                match after {
                    After::Fail(failure) => Command::Done(Err(failure)),
                    After::Run => self.run(now, call),
                }
            }
            _ => {
                if walk.source_only && self.on_secondary() {
                    // The source was due, and is put off for a whole interval.
                    self.restart_counters(now);
                }
                self.next(now, call, walk, after, Some(outcome))
            }
        }
    }

    pub(super) fn waited(
        &mut self,
        now: Duration,
        call: Call,
        walk: Walk,
        after: After,
    ) -> Command {
        self.next(now, call, walk, after, Some(Outcome::Waited))
    }

    /// Opens the source before the current connection is closed; `result` is what the caller gets.
    pub(super) fn try_source(
        &mut self,
        now: Duration,
        call: Call,
        result: Result<(), Failure>,
    ) -> Command {
        // A first connect begins with the source: that part of its plan is the attempt.
        let walk = self.start_walk(None);
        self.next_return(now, call, walk, result, None)
    }

    pub(super) fn returned(
        &mut self,
        now: Duration,
        call: Call,
        walk: Walk,
        result: Result<(), Failure>,
        outcome: Outcome,
    ) -> Command {
        if let (Outcome::Connected, Some(host)) = (outcome, walk.trying) {
            self.switch_to(host);
            return Command::Done(result);
        }
        self.next_return(now, call, walk, result, Some(outcome))
    }

    pub(super) fn return_waited(
        &mut self,
        now: Duration,
        call: Call,
        walk: Walk,
        result: Result<(), Failure>,
    ) -> Command {
        self.next_return(now, call, walk, result, Some(Outcome::Waited))
    }

    fn start_walk(&self, origin: Option<HostId>) -> Walk {
        let source = self.source();
        let hosts: Vec<HostView> = self
            .hosts
            .iter()
            .map(|id| HostView {
                id: *id,
                role: if Some(*id) == source { Role::Source } else { Role::Replica },
                blocked_for: None,
            })
            .collect();
        let away = origin.is_some() && origin != source;
        let view = View {
            hosts: &hosts,
            current: origin,
            left_source_at: away.then_some(self.left_at),
            statements: if away { self.statements } else { 0 },
        };
        Walk { plan: self.policy.plan(&view), trying: None, via_source: !away, source_only: true }
    }

    fn next(
        &mut self,
        now: Duration,
        call: Call,
        mut walk: Walk,
        after: After,
        last: Option<Outcome>,
    ) -> Command {
        let command = match walk.plan.next(now, last.as_ref()) {
            Step::Try { host, budget } => {
                let is_source = self.source() == Some(host);
                walk.trying = Some(host);
                walk.via_source |= is_source;
                walk.source_only &= is_source;
                self.open(host, budget, false)
            }
            Step::Wait(pause) => Command::Wait(pause),
            Step::GiveUp(why) => return self.give_up(why),
        };
        self.under_way = Some(UnderWay { call, phase: Phase::Walk { walk, after } });
        command
    }

    fn next_return(
        &mut self,
        now: Duration,
        call: Call,
        mut walk: Walk,
        result: Result<(), Failure>,
        last: Option<Outcome>,
    ) -> Command {
        let command = match walk.plan.next(now, last.as_ref()) {
            Step::Try { host, budget } if self.source() == Some(host) => {
                walk.trying = Some(host);
                self.open(host, budget, self.policy.leaves_demoted())
            }
            Step::Wait(pause) => Command::Wait(pause),
            Step::Try { .. } | Step::GiveUp(_) => {
                self.restart_counters(now);
                return Command::Done(result);
            }
        };
        self.under_way = Some(UnderWay { call, phase: Phase::Return { walk, result } });
        command
    }

    fn open(&self, host: HostId, budget: Duration, check_role: bool) -> Command {
        Command::Open(Open { host, budget, carry: self.carry(host), check_role })
    }

    fn switch_to(&mut self, host: HostId) {
        self.mode = Some(self.carry(host).mode);
        self.current = Some(host);
        self.link = Link::Up;
        self.in_transaction = false;
        self.generation += 1;
    }

    /// Nobody could be reached. An error that ended the walk early leaves the session open, without
    /// a connection: its next use looks for one again.
    fn give_up(&mut self, why: GiveUp) -> Command {
        if why == GiveUp::Permanent {
            self.link = if self.current.is_none() { Link::None } else { Link::Lost };
        } else {
            self.closed = Closed::Implicit;
            self.link = Link::None;
        }
        Command::Done(Err(Failure::FailoverFailed(why)))
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk")
            .field("trying", &self.trying)
            .field("via_source", &self.via_source)
            .finish_non_exhaustive()
    }
}
