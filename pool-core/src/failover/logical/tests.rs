#![allow(clippy::unwrap_used)]

mod cases;
mod model;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use super::super::sim::{CallEnd, HostState, Query, Session, World};
use super::super::{Cycling, CyclingBuilder};
use super::*;
use crate::access::AccessMode;
use crate::host::HostId;

const S: Duration = Duration::from_secs(1);
const OK: Result<(), Failure> = Ok(());

/// A session over simulated hosts, driven in the words of the cases.
struct Bench {
    session: Session,
    seen: usize,
}

impl Bench {
    /// Hosts H1 … and R = 2 unless the builder says otherwise.
    fn new(hosts: usize, policy: CyclingBuilder) -> Self {
        Self::with_autocommit(hosts, policy, true)
    }

    fn with_autocommit(hosts: usize, policy: CyclingBuilder, autocommit: bool) -> Self {
        let policy = policy.build().unwrap();
        let mut options = policy.session_options();
        options.autocommit = autocommit;
        let world = World::new((1..=hosts).map(|number| format!("H{number}")));
        Self { session: Session::new(world, Arc::new(policy), options), seen: 0 }
    }

    fn set(&mut self, state: HostState, hosts: &[u32]) -> &mut Self {
        for number in hosts {
            self.session.world_mut().set(HostId::new(number - 1), state);
        }
        self
    }

    fn down(&mut self, hosts: &[u32]) -> &mut Self {
        self.set(HostState::Down, hosts)
    }

    fn up(&mut self, hosts: &[u32]) -> &mut Self {
        self.set(HostState::Up, hosts)
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.session.world_mut().advance(time);
        self
    }

    fn call(&mut self, call: Call) -> Result<(), Failure> {
        done(self.session.call(call))
    }

    fn connect(&mut self) -> Result<(), Failure> {
        self.call(Call::Connect)
    }

    fn run(&mut self, query: Query) -> Result<(), Failure> {
        done(self.session.query(query))
    }

    fn query(&mut self) -> Result<(), Failure> {
        self.run(Query::Read)
    }

    fn queries(&mut self, times: usize) {
        for number in 1..=times {
            assert_eq!(self.query(), OK, "query {number}");
        }
    }

    /// All attempts so far.
    fn history(&self) -> String {
        self.session.world().history().join(" ")
    }

    /// The attempts since the last call of this method.
    fn fresh(&mut self) -> String {
        let history = self.session.world().history();
        let fresh = history[self.seen..].join(" ");
        self.seen = history.len();
        fresh
    }

    /// The number of the current host.
    fn host(&self) -> Option<usize> {
        self.session.logical().host().map(|id| id.index() + 1)
    }

    fn mode(&self) -> &'static str {
        self.session.logical().mode().map_or("none", AccessMode::as_str)
    }

    fn logical(&self) -> &Logical {
        self.session.logical()
    }
}

fn done(end: CallEnd) -> Result<(), Failure> {
    match end {
        CallEnd::Done(result) => result,
        CallEnd::Limit => panic!("the call did not end"),
    }
}

fn two_turns() -> CyclingBuilder {
    Cycling::builder().retries_all_down(2)
}
