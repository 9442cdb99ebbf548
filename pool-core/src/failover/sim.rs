//! A simulated world of hosts: scripted states, a clock of its own, a record of every attempt.
//!
//! It drives the very plans that the pool runs, so a configuration can be tried, or a rule tested,
//! in no time and without a server. Nothing here sleeps.

mod session;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::session::{CallEnd, Query, Session};
use super::{FailoverPlan, FailoverPolicy, GiveUp, HostView, Outcome, Step, View};
use crate::host::{HostId, Role};
use crate::verdict::Verdict;

/// What a simulated host does when it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum HostState {
    /// Refuses the password at once.
    Auth,
    /// Throttles: refuses at once because it is busy.
    Busy,
    /// Refuses every connect at once; its connections broke.
    Down,
    /// Answers nothing; its connections hang.
    Hang,
    /// Answers at once that it does not serve now (a mirror); its connections broke.
    Inactive,
    /// Serves reads and refuses writes.
    ReadOnly,
    /// Serves.
    Up,
}

impl HostState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Auth, Self::Busy, Self::Down, Self::Hang, Self::Inactive, Self::ReadOnly, Self::Up];

    /// The word used in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Busy => "busy",
            Self::Down => "down",
            Self::Hang => "hang",
            Self::Inactive => "inactive",
            Self::ReadOnly => "readonly",
            Self::Up => "up",
        }
    }

    /// Whether entering this state breaks every connection to the host.
    #[must_use]
    pub const fn breaks_connections(self) -> bool {
        matches!(self, Self::Down | Self::Inactive)
    }

    /// The verdict of an answer to a connect; `None` if the host lets it in, or does not answer.
    fn refusal(self) -> Option<Verdict> {
        match self {
            Self::Auth => Some(Verdict::Permanent),
            Self::Busy => Some(Verdict::Overloaded),
            Self::Down => Some(Verdict::HostDown),
            Self::Inactive => Some(Verdict::Inactive),
            Self::Hang | Self::ReadOnly | Self::Up => None,
        }
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HostState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == word);
        known.ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// A word that names no [`HostState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownState(String);

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown host state `{}` (one of", self.0)?;
        for (index, state) in HostState::ALL.iter().enumerate() {
            write!(f, "{} {state}", if index == 0 { "" } else { "," })?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for UnknownState {}

/// One physical connect that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The host that was tried.
    pub host: HostId,
    /// When it began.
    pub start: Duration,
    /// The longest time it was allowed to take.
    pub budget: Duration,
    /// When it ended.
    pub end: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

impl Attempt {
    /// Whether a connection was made.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.outcome == Outcome::Connected
    }
}

/// How a simulated walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// A connection to this host was made.
    Connected(HostId),
    /// The plan gave up.
    GaveUp(GiveUp),
    /// The simulation was told to stop by then.
    Limit,
}

/// A connection to a simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    host: HostId,
    breaks_seen: usize,
}

impl Link {
    /// The host at its other end.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.host
    }
}

/// Hosts that do as they are told, and a clock that moves only when something takes time.
#[derive(Clone, Debug)]
pub struct World {
    names: Vec<String>,
    /// Per host, the states and since when, in order.
    states: Vec<Vec<(Duration, HostState)>>,
    now: Duration,
    answer_after: Duration,
    attempts: Vec<Attempt>,
}

impl World {
    /// Hosts of these names, all up. The clock starts at zero, answers take no time.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Self {
            states: vec![vec![(Duration::ZERO, HostState::Up)]; names.len()],
            names,
            now: Duration::ZERO,
            answer_after: Duration::ZERO,
            attempts: Vec::new(),
        }
    }

    /// Sets how long every answer takes, good or bad. Defaults to zero.
    #[must_use]
    pub fn answering_after(mut self, time: Duration) -> Self {
        self.answer_after = time;
        self
    }

    /// Changes the state of a host from `at` on; changes must come in the order of time. An attempt
    /// keeps to the state in which it began.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set_at(&mut self, host: HostId, at: Duration, state: HostState) {
        self.states[host.index()].push((at, state));
    }

    /// Changes the state of a host now.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set(&mut self, host: HostId, state: HostState) {
        self.set_at(host, self.now, state);
    }

    /// Lets time pass.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// One connect to `host`, allowed to take `budget`. Takes simulated time and is recorded.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn connect(&mut self, host: HostId, budget: Duration) -> Outcome {
        self.connect_checked(host, budget, false)
    }

    /// As [`connect`](Self::connect); with `check_role`, a read-only host counts as failed.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn connect_checked(&mut self, host: HostId, budget: Duration, check_role: bool) -> Outcome {
        let start = self.now;
        let state = self.state(host);
        let silent = state == HostState::Hang || self.answer_after >= budget;
        let outcome = if silent {
            Outcome::Failed { verdict: Verdict::HostDown, by_budget: true }
        } else {
            let demoted = (check_role && state == HostState::ReadOnly).then_some(Verdict::Demoted);
            state
                .refusal()
                .or(demoted)
                .map_or(Outcome::Connected, |verdict| Outcome::Failed { verdict, by_budget: false })
        };
        self.advance(if silent { budget } else { self.answer_after });
        self.attempts.push(Attempt { host, start, budget, end: self.now, outcome });
        outcome
    }

    /// Runs a whole walk, or as much of it as begins before `limit` on the simulated clock.
    ///
    /// # Panics
    /// If the plan names a host that does not exist.
    pub fn walk(&mut self, plan: &mut dyn FailoverPlan, limit: Option<Duration>) -> WalkEnd {
        let mut last = None;
        loop {
            let step = plan.next(self.now, last.as_ref());
            if let Step::GiveUp(why) = step {
                return WalkEnd::GaveUp(why);
            }
            if limit.is_some_and(|limit| self.now >= limit) {
                return WalkEnd::Limit;
            }
            match step {
                Step::Try { host, budget } => match self.connect(host, budget) {
                    Outcome::Connected => return WalkEnd::Connected(host),
                    outcome => last = Some(outcome),
                },
                Step::Wait(pause) => {
                    let until = self.now.saturating_add(pause);
                    self.now = limit.map_or(until, |limit| until.min(limit));
                    last = Some(Outcome::Waited);
                }
                Step::GiveUp(_) => {}
            }
        }
    }

    /// Plans a first connect, or one from `current`, over all hosts and runs it.
    pub fn walk_from(&mut self, policy: &dyn FailoverPolicy, current: Option<HostId>) -> WalkEnd {
        let hosts = self.views();
        let left_source_at = current.filter(|id| id.index() > 0).map(|_| self.now);
        let view = View { hosts: &hosts, current, left_source_at, statements: 0 };
        let mut plan = policy.plan(&view);
        self.walk(plan.as_mut(), None)
    }

    /// The connection that the last successful attempt made to `host`.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn link(&self, host: HostId) -> Link {
        Link { host, breaks_seen: self.breaks(host) }
    }

    /// Whether the host broke this connection since it was made.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn broken(&self, link: Link) -> bool {
        self.breaks(link.host) > link.breaks_seen
    }

    /// The hosts as a policy sees them: the first is the source, the others are replicas.
    #[must_use]
    pub fn views(&self) -> Vec<HostView> {
        let role = |index| if index == 0 { Role::Source } else { Role::Replica };
        let view = |index| HostView { id: id(index), role: role(index), blocked_for: None };
        (0..self.names.len()).map(view).collect()
    }

    /// The state of a host now.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn state(&self, host: HostId) -> HostState {
        let since_then = self.states[host.index()].iter().rev();
        since_then
            .copied()
            .find(|(since, _)| *since <= self.now)
            .map_or(HostState::Up, |(_, state)| state)
    }

    /// The name of a host.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn name(&self, host: HostId) -> &str {
        &self.names[host.index()]
    }

    /// The host of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<HostId> {
        self.names.iter().position(|known| known == name).map(id)
    }

    /// The simulated time.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Every attempt so far.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The attempts as a history: `/H1` was made, `\H1` failed.
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        self.attempts
            .iter()
            .map(|attempt| {
                let mark = if attempt.connected() { '/' } else { '\\' };
                format!("{mark}{}", self.name(attempt.host))
            })
            .collect()
    }

    fn breaks(&self, host: HostId) -> usize {
        self.states[host.index()]
            .iter()
            .filter(|(since, state)| *since <= self.now && state.breaks_connections())
            .count()
    }
}

fn id(index: usize) -> HostId {
    HostId::new(u32::try_from(index).unwrap_or(u32::MAX))
}
