//! Leases for reads: which host, and what if it does not serve.

mod beside;
mod pick;
mod waiting;
mod wish;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::access::Access;
use crate::balance::endpoint::{EndpointRules, verdict};
use crate::driver::Driver;
use crate::error::{Cause, Error, ErrorKind, Phase};
use crate::host::HostId;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::slots::store::{HostSlots, Refusal};
use crate::verdict::Verdict;

use self::waiting::{FirstProbe, first_slot};
pub use self::wish::ReadWish;

/// Hosts tried in vain by one checkout. Stays on the stack for clusters of usual size.
pub(crate) type Tried = SmallVec<[HostId; 8]>;

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
            return Err(self.refused(format!("no host named {name:?} takes work")));
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
