//! Leases for reads: which host, and what if it does not serve.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, timeout_at};

use crate::access::Access;
use crate::balance::endpoint::{Choice, Eligibility, EndpointRules, eligible, verdict};
use crate::balance::{Candidate, Eligible};
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::error::{Cause, Error, ErrorKind, Phase};
use crate::host::{HostId, Role};
use crate::lag::Lag;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::route::{Route, Target};
use crate::slots::state::Slot;
use crate::slots::store::{HostSlots, Refusal};
use crate::verdict::Verdict;

/// Hosts tried in vain by one checkout. Stays on the stack for clusters of usual size.
pub(crate) type Tried = SmallVec<[HostId; 8]>;

/// What one read asks of its host, beyond the rules of the endpoint. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadWish {
    tried: Tried,
    only_replicas: bool,
    lag: LagRule,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LagRule {
    Any,
    AtMost(Duration),
    #[default]
    Endpoint,
}

impl ReadWish {
    /// Asks for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a routed statement asks for: its hint comes before weights and lag, and may set a limit of its
    /// own for the lag (sections 3 and 6 of the routing rules).
    #[must_use]
    pub fn of(route: &Route<'_>) -> Self {
        let hinted = route.is_hinted() && route.target == Target::Replica;
        let lag = match route.max_lag {
            Some(limit) => LagRule::AtMost(limit),
            None if hinted => LagRule::Any,
            None => LagRule::Endpoint,
        };
        Self { tried: Tried::new(), only_replicas: hinted, lag }
    }

    /// Leaves out a host that this caller already tried in vain.
    #[must_use]
    pub fn without(mut self, host: HostId) -> Self {
        self.tried.push(host);
        self
    }

    /// Keeps the source out, whatever its weight, while a replica can serve.
    #[must_use]
    pub fn only_replicas(mut self) -> Self {
        self.only_replicas = true;
        self
    }

    /// Admits replicas up to this lag, instead of the endpoint's limit.
    #[must_use]
    pub fn max_lag(mut self, limit: Duration) -> Self {
        self.lag = LagRule::AtMost(limit);
        self
    }

    /// Admits replicas whatever their lag.
    #[must_use]
    pub fn any_lag(mut self) -> Self {
        self.lag = LagRule::Any;
        self
    }

    /// The rules of the endpoint with this wish.
    pub(crate) fn rules(&self, endpoint: &EndpointRules) -> EndpointRules {
        let max_lag = match self.lag {
            LagRule::Any => None,
            LagRule::AtMost(limit) => Some(limit),
            LagRule::Endpoint => endpoint.max_lag,
        };
        EndpointRules { max_lag, only_replicas: self.only_replicas, ..*endpoint }
    }
}

/// Candidates of one pick. Stays on the stack for clusters of usual size.
type Candidates = SmallVec<[Candidate; 16]>;

impl<D: Driver> Pool<D> {
    /// Leases a connection for reads: the balance policy picks among the eligible hosts.
    ///
    /// A host that cannot be reached is excluded and another one picked; when no replica can serve, the
    /// source does, if allowed. If all that could serve are at their connection limits, the caller queues at
    /// each of them and the first free slot is its own. In a pool so young that a probe must first tell who
    /// may serve, the caller waits for that. The hot path is that of [`Pool::get`].
    ///
    /// Cancellation safety: as [`Pool::get`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoHost`] at once, with the reason per host, when nobody may serve; otherwise as
    /// [`Pool::get`].
    pub async fn get_read(&self) -> Result<Lease<D>, Error> {
        self.read_by(self.cluster().rules, &[]).await
    }

    /// As [`Pool::get_read`], with what this read asks of its host.
    ///
    /// # Errors
    ///
    /// As [`Pool::get_read`].
    pub async fn get_read_as(&self, wish: &ReadWish) -> Result<Lease<D>, Error> {
        self.read_by(wish.rules(&self.cluster().rules), &wish.tried).await
    }

    /// A connection for a caller that has a main connection, to the host `main` if it is open; `None` if that
    /// one is to serve: for the source, and for the host that it is to.
    pub(crate) async fn get_beside(
        &self,
        mut wish: ReadWish,
        main: Option<HostId>,
    ) -> Result<Option<Lease<D>>, Error> {
        let cluster = self.cluster();
        let mut rules = wish.rules(&cluster.rules);
        let falls_back = rules.mode.serves_writes() && rules.read_fallback_primary;
        let picked = cluster.pick(&rules, &wish.tried);
        let is_replica = |slots: &HostSlots<D>| slots.health.role() == Role::Replica;
        if picked
            .as_ref()
            .is_some_and(|slots| slots.health.role() == Role::Source || Some(slots.id()) == main)
        {
            return Ok(None);
        }
        // If that host fails, the main connection can serve: neither the source nor a place that the caller
        // takes itself must be waited for here.
        let falls_back = falls_back
            || main.is_some_and(|main| {
                !wish.tried.contains(&main)
                    && cluster.host(main).is_some_and(|slots| is_replica(&slots))
            });
        wish.tried.extend(main);
        rules.only_replicas = true;
        rules.read_fallback_primary = false;
        if picked.is_none() && falls_back {
            return Ok(None);
        }
        match self.read_from(picked, rules, &wish.tried).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if falls_back && error.kind() == ErrorKind::NoHost => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A connection to the source for a caller whose main connection is to a replica; `None` if the main
    /// connection is to serve: it is to the source, or no source is known.
    pub(crate) async fn source_beside(
        &self,
        main: Option<HostId>,
    ) -> Result<Option<Lease<D>>, Error> {
        let cluster = self.cluster();
        let strayed = main
            .and_then(|main| cluster.host(main))
            .is_some_and(|slots| slots.health.role() == Role::Replica);
        match cluster.usable_writer() {
            Some(writer) if strayed && Some(writer.id()) != main => self.get().await.map(Some),
            _ => Ok(None),
        }
    }

    async fn read_by(&self, rules: EndpointRules, tried: &[HostId]) -> Result<Lease<D>, Error> {
        let picked = self.cluster().pick(&rules, tried);
        self.read_from(picked, rules, tried).await
    }

    async fn read_from(
        &self,
        picked: Option<Arc<HostSlots<D>>>,
        rules: EndpointRules,
        tried: &[HostId],
    ) -> Result<Lease<D>, Error> {
        if let Some(host) = &picked
            && let Some(slot) = host.try_checkout()
        {
            return Ok(Lease::new(Arc::clone(host), slot, Access::Read));
        }
        let tried = Tried::from_slice(tried);
        Box::pin(self.wait_to_read(picked, rules, tried, self.deadline())).await
    }

    /// Leases a connection to the host of this name, whatever its role or weight.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] for an unknown or drained host; otherwise as [`Pool::get`].
    pub async fn get_host(&self, name: &str) -> Result<Lease<D>, Error> {
        let cluster = self.cluster();
        let started = cluster.clock.now();
        let Some(slots) = cluster.host_named(name).filter(|slots| !slots.health.is_draining())
        else {
            let error = self.error(ErrorKind::Refused, Phase::Selecting, Access::Read, started);
            return Err(error.with_detail(format!("no host named {name:?} takes work")));
        };
        let access = Access::Host(slots.id());
        if let Some(slot) = slots.try_checkout() {
            return Ok(Lease::new(slots, slot, access));
        }
        let (ticket, deadline) = (cluster.ticket(), self.deadline());
        loop {
            let refusal = match slots.checkout(ticket, deadline).await {
                Ok(slot) => return Ok(Lease::new(slots, slot, access)),
                Err(refusal) => refusal,
            };
            let source = match &refusal {
                // The host is still the one that was asked for, whatever it is now.
                Refusal::Away if slots.with_state(|state| state.takes_work()) => continue,
                Refusal::Unreachable(cause) => cause.error.clone(),
                _ => None,
            };
            self.settle(refusal, access, started)?;
            let error = self.error(ErrorKind::NoHost, Phase::Dialling, access, started);
            return Err(error.with_source(source));
        }
    }

    pub(crate) async fn wait_to_read(
        &self,
        mut first: Option<Arc<HostSlots<D>>>,
        rules: EndpointRules,
        mut tried: Tried,
        deadline: Instant,
    ) -> Result<Lease<D>, Error> {
        let cluster = self.cluster();
        let started = cluster.clock.now();
        let ticket = cluster.ticket();
        let mut permanent: Option<Cause> = None;
        let mut curable = false;
        let mut looked_again = false;
        loop {
            if cluster.closed.load(Relaxed) {
                return Err(self.error(ErrorKind::Closed, Phase::Selecting, Access::Read, started));
            }
            let picked = first.take().or_else(|| cluster.pick(&rules, &tried));
            let Some(slots) = picked else {
                match cluster.first_probe(&rules, &tried, deadline).await {
                    FirstProbe::Came => continue,
                    FirstProbe::Late => {
                        let (kind, phase) = (ErrorKind::Timeout, Phase::Validating);
                        return Err(self.error(kind, phase, Access::Read, started));
                    }
                    // It may have come since nobody could be picked.
                    FirstProbe::None if !looked_again => {
                        looked_again = true;
                        continue;
                    }
                    FirstProbe::None => {}
                }
                let refused = |slots: &HostSlots<D>| {
                    let facts = cluster.facts(slots, tried.contains(&slots.id()));
                    Some(verdict(&facts, &rules).as_str())
                };
                // Permanent only if every host that was tried said so: another may come back.
                let permanent = permanent.filter(|_| !curable);
                let (kind, phase) = match &permanent {
                    Some(_) => (ErrorKind::Permanent, Phase::Dialling),
                    None => (ErrorKind::NoHost, Phase::Selecting),
                };
                let error = self.error_with(kind, phase, Access::Read, started, refused);
                let last = || tried.last().and_then(|id| cluster.host(*id)?.health.cause());
                let Some(cause) = permanent.or_else(last) else { return Err(error) };
                return Err(match kind {
                    ErrorKind::Permanent => error.with_detail(&*cause.message),
                    _ => error,
                }
                .with_source(cause.error));
            };
            let queues = cluster.queues(&rules, &tried);
            let (slots, answer) = match queues.len() {
                // At their limits, all of them: whoever is free first.
                2.. => first_slot(queues, ticket, deadline).await,
                _ => {
                    let answer = slots.checkout(ticket, deadline).await;
                    (slots, answer)
                }
            };
            match answer {
                Ok(slot) => return Ok(Lease::new(slots, slot, Access::Read)),
                Err(Refusal::Unreachable(cause)) => {
                    tried.push(slots.id());
                    match cause.verdict {
                        Verdict::Permanent => permanent = Some(cause),
                        _ => curable = true,
                    }
                }
                Err(refusal) => {
                    self.settle(refusal, Access::Read, started)?;
                    if !slots.with_state(|state| state.takes_work()) {
                        tried.push(slots.id());
                    }
                }
            }
        }
    }
}

/// Waits at several hosts at once: the first answer, and who gave it. The places at the others are given up.
async fn first_slot<D: Driver>(
    mut queues: Vec<Arc<HostSlots<D>>>,
    ticket: u64,
    deadline: Instant,
) -> (Arc<HostSlots<D>>, Result<Box<Slot<D::Conn>>, Refusal>) {
    let (place, answer) = {
        let mut waiting: Vec<_> =
            queues.iter().map(|slots| Box::pin(slots.checkout(ticket, deadline))).collect();
        poll_fn(|context| {
            let answers = waiting.iter_mut().map(|wait| wait.as_mut().poll(context)).enumerate();
            for (place, answer) in answers {
                if let Poll::Ready(answer) = answer {
                    return Poll::Ready((place, answer));
                }
            }
            Poll::Pending
        })
        .await
    };
    (queues.swap_remove(place), answer)
}

/// How a wait for the first probe of a host ended.
enum FirstProbe {
    /// One has come: worth another look.
    Came,
    /// The deadline passed.
    Late,
    /// There is none to wait for.
    None,
}

impl<D: Driver> Cluster<D> {
    /// Waits for the first probe of a host that may serve these reads once it is known what it is or how far
    /// behind. A host that does not answer keeps nobody waiting for longer than its probe takes.
    async fn first_probe(
        &self,
        rules: &EndpointRules,
        tried: &[HostId],
        deadline: Instant,
    ) -> FirstProbe {
        if self.config.probe_interval.is_none() {
            return FirstProbe::None;
        }
        let probed = self.first_probe.notified();
        let mut probed = std::pin::pin!(probed);
        // Registered before the look, so that a probe in between is not missed.
        probed.as_mut().enable();
        let is_awaited = |slots: &Arc<HostSlots<D>>| {
            let facts = self.facts(slots, tried.contains(&slots.id()));
            let doubt = verdict(&facts, rules);
            let curable = matches!(
                doubt,
                Eligibility::WrongRole(Role::Unknown) | Eligibility::Lagging(Lag::NotAsked)
            );
            curable && !facts.drained && !facts.tried && !slots.health.was_probed()
        };
        if !self.hosts.load().iter().any(is_awaited) {
            return FirstProbe::None;
        }
        match timeout_at(deadline, probed).await {
            Ok(()) => FirstProbe::Came,
            Err(_) => FirstProbe::Late,
        }
    }

    /// The hosts that only lack a slot, if no host lacks nothing.
    fn queues(&self, rules: &EndpointRules, tried: &[HostId]) -> Vec<Arc<HostSlots<D>>> {
        let hosts = self.hosts.load();
        let facts = hosts.iter().map(|slots| self.facts(slots, tried.contains(&slots.id())));
        let mut ids = SmallVec::<[HostId; 16]>::new();
        match eligible(facts, rules, |candidate| ids.push(candidate.id)) {
            Choice::WaitForSlot => {
                hosts.iter().filter(|slots| ids.contains(&slots.id())).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Picks the host of one read. Takes no lock but the balance policy's own and allocates nothing for
    /// clusters of up to 16 eligible hosts.
    pub(crate) fn pick(
        &self,
        rules: &EndpointRules,
        tried: &[HostId],
    ) -> Option<Arc<HostSlots<D>>> {
        self.pick_by(rules, tried, |hosts| self.balance.pick(hosts))
    }

    /// The host that [`Cluster::pick`] would give now. The balance policy's turn does not move on.
    pub(crate) fn peek(&self, rules: &EndpointRules) -> Option<Arc<HostSlots<D>>> {
        self.pick_by(rules, &[], |hosts| self.balance.peek(hosts))
    }

    #[inline]
    fn pick_by(
        &self,
        rules: &EndpointRules,
        tried: &[HostId],
        balance: impl FnOnce(&Eligible<'_>) -> Option<HostId>,
    ) -> Option<Arc<HostSlots<D>>> {
        let hosts = self.hosts.load();
        let facts = hosts.iter().map(|slots| self.facts(slots, tried.contains(&slots.id())));
        let mut candidates = Candidates::new();
        let choice = eligible(facts, rules, |candidate| candidates.push(candidate));
        let id = match choice {
            Choice::Nobody => return None,
            Choice::Source(id) => id,
            _ => balance(&Eligible::new(&candidates))?,
        };
        // Ids are places until a host is removed.
        let slots = match hosts.get(id.index()) {
            Some(slots) if slots.id() == id => slots,
            _ => hosts.iter().find(|slots| slots.id() == id)?,
        };
        Some(Arc::clone(slots))
    }
}
