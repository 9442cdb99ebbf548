//! Leases by statement: where it goes, and the whole decision explained.

use std::fmt;
use std::sync::Arc;

use crate::access::Access;
use crate::balance::endpoint::verdict;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Phase};
use crate::lease::Lease;
use crate::pool::Pool;
use crate::read::Tried;
use crate::route::{Route, SessionState, Target};

impl<D: Driver> Pool<D> {
    /// Routes a statement that stands for itself: not sent, nothing leased.
    ///
    /// [`Route::sent`] is the text for the server, without its hint.
    #[must_use]
    pub fn route<'s>(&'s self, sql: &'s str) -> Route<'s> {
        self.router().route(sql, &SessionState::new())
    }

    /// Leases a connection for `sql`, as its hint or its kind says: a read by [`Pool::get_read`], a named host
    /// by [`Pool::get_host`], everything else by [`Pool::get`].
    ///
    /// The lease is one connection: what follows on it stays there. Text from users at the start of a
    /// statement can carry a hint; switch hints off in the router where that matters.
    ///
    /// Cancellation safety: as [`Pool::get`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] for a hint where none is allowed, or one to a host that is unknown, drained
    /// or of weight 0; otherwise as the method it uses.
    pub async fn get_for(&self, sql: &str) -> Result<Lease<D>, Error> {
        self.get_routed(&self.route(sql)).await
    }

    /// As [`Pool::get_for`], for a statement that was routed already.
    ///
    /// # Errors
    ///
    /// As [`Pool::get_for`].
    pub async fn get_routed(&self, route: &Route<'_>) -> Result<Lease<D>, Error> {
        self.route_counts().count(route.why.as_str());
        match route.target {
            Target::Replica => self.get_read().await,
            Target::Host(name) => {
                let weight = self.cluster().host_named(name).map(|slots| slots.health.weight());
                if weight == Some(0) {
                    return Err(self.route_refused(format!("host {name:?} has weight 0")));
                }
                self.get_host(name).await
            }
            Target::Refused(refusal) => Err(self.route_refused(refusal.to_string())),
            Target::Source | Target::Held => self.get().await,
        }
    }

    /// Explains what [`Pool::get_for`] would do with `sql` now: the route and why, whether each host is
    /// eligible for reads, and the host that would be asked.
    ///
    /// The balance policy is asked as for a checkout, so its turn moves on by one.
    #[must_use]
    pub fn explain(&self, sql: &str) -> Explanation {
        let cluster = self.cluster();
        let route = self.route(sql);
        let hosts = cluster.hosts.load();
        let eligibility = hosts
            .iter()
            .map(|slots| {
                let facts = cluster.facts(slots, false);
                (slots.host.shared_name(), verdict(&facts, &cluster.rules).to_string())
            })
            .collect();
        let name_of = |slots: &crate::slots::store::HostSlots<D>| slots.host.shared_name();
        let pick = match route.target {
            Target::Replica => cluster.pick(&Tried::new()).map(|(slots, _)| name_of(&slots)),
            Target::Host(name) => cluster.host_named(name).map(|slots| name_of(&slots)),
            Target::Refused(_) => None,
            Target::Source | Target::Held => cluster.usable_writer().map(|slots| name_of(&slots)),
        };
        let target = match route.target {
            Target::Replica => "replica".to_owned(),
            Target::Host(name) => format!("host:{name}"),
            Target::Refused(refusal) => format!("refused: {refusal}"),
            Target::Source | Target::Held => "source".to_owned(),
        };
        Explanation {
            target,
            why: route.why.as_str(),
            sent: route.sent.into_owned(),
            hosts: eligibility,
            pick,
        }
    }

    fn route_refused(&self, detail: String) -> Error {
        let started = self.cluster().clock.now();
        self.error(ErrorKind::Refused, Phase::Selecting, Access::Read, started).with_detail(detail)
    }
}

/// The whole decision about one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// `source`, `replica`, `host:NAME`, or why it is refused.
    pub target: String,
    /// A short stable word: why it goes there.
    pub why: &'static str,
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
