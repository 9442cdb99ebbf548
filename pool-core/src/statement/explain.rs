//! The whole decision about one statement, explained without taking it.

use std::fmt;
use std::sync::Arc;

use crate::balance::endpoint::verdict;
use crate::driver::Driver;
use crate::pool::Pool;
use crate::read::ReadWish;
use crate::route::{HintFate, Route, Target};
use crate::slots::store::HostSlots;

impl<D: Driver> Pool<D> {
    /// Explains what [`Pool::get_for`] would do with `sql` now: the route and why, whether each host is
    /// eligible for it, and the host that would be asked. Changes nothing: the turn of the balance policy
    /// does not move on, and nothing is counted.
    #[must_use]
    pub fn explain(&self, sql: &str) -> Explanation {
        self.explain_route(self.route(sql), false, None)
    }

    /// Explains a route. `bound`: of a session that is bound to the host `held`.
    pub(crate) fn explain_route(
        &self,
        route: Route<'_>,
        bound: bool,
        held: Option<Arc<str>>,
    ) -> Explanation {
        let cluster = self.cluster();
        let rules = ReadWish::of(&route).rules(&cluster.rules);
        let name_of = |slots: &HostSlots<D>| slots.host.shared_name();
        let hosts = cluster.hosts.load();
        let eligibility = hosts.iter().map(|slots| {
            let facts = cluster.facts(slots, false);
            (name_of(slots), verdict(&facts, &rules).to_string())
        });
        let writer = || {
            let serves = cluster.rules.mode.serves_writes();
            cluster.usable_writer().filter(|_| serves).map(|slots| name_of(&slots))
        };
        let pick = match route.target {
            Target::Replica => cluster.peek(&rules).map(|slots| name_of(&slots)),
            Target::Host(name) => self.hinted(name).ok().map(|slots| name_of(&slots)),
            Target::Refused(_) => None,
            Target::Held => held.or_else(writer),
            Target::Source => writer(),
        };
        let target = match route.target {
            Target::Replica => "replica".to_owned(),
            Target::Host(name) => format!("host:{name}"),
            Target::Refused(refusal) => format!("refused: {refusal}"),
            Target::Held if bound => "held".to_owned(),
            Target::Source | Target::Held => "source".to_owned(),
        };
        Explanation {
            target,
            why: route.why.as_str(),
            hint: route.hint,
            sent: route.sent.into_owned(),
            hosts: eligibility.collect(),
            pick,
        }
    }
}

/// The whole decision about one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// `source`, `replica`, `host:NAME`, `held` for a session that is bound, or why it is refused.
    pub target: String,
    /// A short stable word: why it goes there.
    pub why: &'static str,
    /// What became of its hint.
    pub hint: HintFate,
    /// The text that the server gets.
    pub sent: String,
    /// Whether each host may serve reads now, or what stops it, in list order.
    pub hosts: Vec<(Arc<str>, String)>,
    /// The host that would be asked; `None` if there is none now.
    pub pick: Option<Arc<str>>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.target, self.why)?;
        match &self.pick {
            Some(host) => write!(f, " on {host}")?,
            None => f.write_str(" on no host")?,
        }
        for (host, eligibility) in &self.hosts {
            write!(f, "; {host}: {eligibility}")?;
        }
        Ok(())
    }
}
