//! Which host serves next, in what order, and for how long each is tried.
//!
//! Everything here is pure: a plan is told the time and the last outcome and answers the next step. The
//! same plan runs in the pool, in a logical session, inside another pool's manager and in simulations.

mod cycling;
mod invalid;
pub mod logical;
mod mirrored;
mod ordered;
pub mod sim;

use std::fmt::Debug;
use std::time::Duration;

pub use self::cycling::{Cycling, CyclingBuilder, TURN_PAUSE};
pub use self::invalid::InvalidOption;
pub use self::logical::{
    Call, Carry, Command, Failure, Isolation, Job, Logical, Open, Ran, Report, SessionOptions,
    Statement,
};
pub use self::mirrored::{DelayRule, Mirrored, MirroredBuilder};
pub use self::ordered::{Ordered, OrderedBuilder};
use crate::access::AccessMode;
use crate::host::{HostId, Role};
use crate::verdict::Verdict;

/// One host as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostView {
    /// The host.
    pub id: HostId,
    /// Its role, as configured or last probed.
    pub role: Role,
    /// How long it is still blocked after failures; `None` if it is not.
    pub blocked_for: Option<Duration>,
}

/// What a policy may know when a walk starts.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// All hosts that are not drained, in list order. The first is the source (or initial partner).
    pub hosts: &'a [HostView],
    /// The host that serves now or served last; `None` before the first connect.
    pub current: Option<HostId>,
    /// When the source was left (same clock as `now` of [`FailoverPlan::next`]); `None` while on it.
    pub left_source_at: Option<Duration>,
    /// Statements (or checkouts) served by secondaries since then.
    pub statements: u64,
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A usable connection was opened: the walk is over.
    Connected,
    /// The attempt failed.
    Failed {
        /// What the error says.
        verdict: Verdict,
        /// Whether the budget of the attempt ended it, and not an answer.
        by_budget: bool,
    },
    /// A [`Step::Wait`] is over.
    Waited,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Connect to this host, for at most this long (name look-up, dial, TLS and login together).
    Try {
        /// The host to connect to.
        host: HostId,
        /// The longest time that the attempt may take.
        budget: Duration,
    },
    /// Do nothing for this long.
    Wait(Duration),
    /// Stop: nobody could be reached.
    GiveUp(GiveUp),
}

/// Why a walk ended without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum GiveUp {
    /// Every host was tried as often as configured.
    Exhausted,
    /// An error that no other attempt can cure.
    Permanent,
    /// The overall deadline (or login timeout) ended it.
    TimedOut,
}

/// When new work goes back to the source by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnRule {
    /// This long after the source was left; `None` disables this half.
    pub after: Option<Duration>,
    /// After this many statements on secondaries; `None` disables this half.
    pub after_statements: Option<u64>,
}

impl ReturnRule {
    /// Whether a return is due. Either half suffices.
    #[must_use]
    pub fn due(&self, away_for: Duration, statements: u64) -> bool {
        self.after.is_some_and(|after| away_for >= after)
            || self.after_statements.is_some_and(|limit| statements >= limit)
    }
}

/// Which host, when, for how long.
pub trait FailoverPolicy: Debug + Send + Sync {
    /// Starts a walk. The walk ends when the caller reports [`Outcome::Connected`] or the plan gives up.
    fn plan(&self, view: &View<'_>) -> Box<dyn FailoverPlan>;

    /// When work returns to the source. Defaults to `None`: it stays where it is.
    fn return_rule(&self) -> Option<ReturnRule> {
        None
    }

    /// The access mode of a session that arrives at a host.
    ///
    /// `asked` is the last explicit wish of the caller, `current` the mode before the switch. Defaults to
    /// the wish, else read/write.
    fn mode_on(
        &self,
        on_source: bool,
        asked: Option<AccessMode>,
        current: Option<AccessMode>,
    ) -> AccessMode {
        let _ = (on_source, current);
        asked.unwrap_or(AccessMode::ReadWrite)
    }

    /// Whether a source that became read-only is left as a dead one is. Defaults to `true`.
    fn leaves_demoted(&self) -> bool {
        true
    }
}

/// One walk over the hosts. Pure.
pub trait FailoverPlan: Send {
    /// The next step. `now` is any monotonic clock, the same for all calls; `last` is `None` on the first
    /// call and the outcome of the previous step afterwards.
    fn next(&mut self, now: Duration, last: Option<&Outcome>) -> Step;
}

/// Whether an attempt that failed so ends a walk: no other host can cure it.
fn ends_walk(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Permanent | Verdict::Statement)
}
