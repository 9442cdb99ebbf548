//! Physical connections for a session: taken from the pool's store or dialled, and brought into its state.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::SessionDriver;
use crate::access::Access;
use crate::driver::Driver;
use crate::error::{Cause, Phase};
use crate::failover::{Open, Outcome};
use crate::host::Role;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::slots::reserved::Reserved;
use crate::slots::store::{HostSlots, Refusal, Watch};
use crate::verdict::Verdict;

/// Opens connections of a pool. Not a method of the session, whose futures would not be `Send` then.
pub(super) struct Opener<'p, D: Driver>(pub(super) &'p Pool<D>);

impl<D: SessionDriver> Opener<'_, D> {
    /// A connection to that host in the state of the session, within the budget.
    ///
    /// Cancellation safety: a connection that is under way is closed and its place is free.
    pub(super) async fn open(&self, open: &Open) -> Result<Lease<D>, Outcome> {
        let Some(slots) = self.0.cluster().host(open.host) else {
            return Err(failed(Verdict::HostDown));
        };
        let outcome = self.open_on(&slots, open).await;
        tracing::debug!(
            pool = %self.0.cluster().name,
            host = slots.host.name(),
            connected = outcome.is_ok(),
            "session tries a host"
        );
        outcome
    }

    async fn open_on(&self, slots: &Arc<HostSlots<D>>, open: &Open) -> Result<Lease<D>, Outcome> {
        let deadline = Instant::now() + open.budget;
        if let Some(slot) = slots.try_checkout() {
            let idle = Lease::new(Arc::clone(slots), slot, Access::Host(slots.id()));
            // Idle ones may have died unnoticed, so the server is asked. If it does not answer, the
            // attempt is a new connection: that one says what is wrong.
            if let Some(lease) = self.still_alive(idle, deadline).await {
                return self.ready(slots, lease, open, deadline).await;
            }
        }
        let lease = self.dial(slots, deadline).await?;
        self.ready(slots, lease, open, deadline).await
    }

    async fn still_alive(&self, mut lease: Lease<D>, deadline: Instant) -> Option<Lease<D>> {
        let cluster = self.0.cluster();
        let limit = deadline.min(Instant::now() + cluster.config.check_timeout);
        match timeout_at(limit, cluster.driver.ping(&mut lease)).await {
            Ok(Ok(())) => Some(lease),
            Ok(Err(_)) | Err(_) => {
                lease.discard();
                None
            }
        }
    }

    /// A new connection. The back-off of the store does not apply: the walk has its own timing. A full
    /// host is waited for, in its queue.
    async fn dial(
        &self,
        slots: &Arc<HostSlots<D>>,
        deadline: Instant,
    ) -> Result<Lease<D>, Outcome> {
        let cluster = self.0.cluster();
        let access = Access::Host(slots.id());
        let Some(place) = Reserved::take(slots) else {
            return match slots.checkout(cluster.ticket(), deadline).await {
                Ok(slot) => Ok(Lease::new(Arc::clone(slots), slot, access)),
                Err(Refusal::Unreachable(cause)) => Err(failed(cause.verdict)),
                Err(Refusal::Late(_)) => {
                    Err(Outcome::Failed { verdict: Verdict::Overloaded, by_budget: true })
                }
                Err(Refusal::Away) => Err(failed(Verdict::Inactive)),
            };
        };
        let budget = deadline.saturating_duration_since(Instant::now());
        let generation = slots.with_state(|state| state.generation());
        match slots.dial(Access::Write, budget, Phase::Walking).await {
            Ok(slot) => {
                place.claim();
                cluster.unblock(slots);
                Ok(Lease::new(Arc::clone(slots), slot, access))
            }
            Err(cause) => {
                drop(place);
                let by_budget = cause.error.is_none() && Instant::now() >= deadline;
                let outcome = Outcome::Failed { verdict: cause.verdict, by_budget };
                cluster.failed(slots.id(), generation, cause);
                Err(outcome)
            }
        }
    }

    /// Asks for the role where that matters, and applies what the session carries.
    async fn ready(
        &self,
        slots: &HostSlots<D>,
        mut lease: Lease<D>,
        open: &Open,
        deadline: Instant,
    ) -> Result<Lease<D>, Outcome> {
        let driver = &self.0.cluster().driver;
        let ready = async {
            if open.check_role && driver.probe(&mut lease).await?.role == Role::Replica {
                return Ok(false);
            }
            driver.carry(&mut lease, &open.carry).await.map(|()| true)
        };
        let note = |cause: Cause| {
            let outcome = failed(cause.verdict);
            slots.health.note_cause(cause);
            Err(outcome)
        };
        let cause =
            |verdict, text: String, error| slots.cause(Phase::Walking, verdict, text, error);
        match timeout_at(deadline, ready).await {
            Ok(Ok(true)) => Ok(lease),
            // Nothing is wrong with the connection: it goes back to the pool.
            Ok(Ok(false)) => note(cause(Verdict::Demoted, "takes no writes".to_owned(), None)),
            Ok(Err(error)) => {
                // The state cannot be had there: no other error of that statement is to be expected.
                let verdict = match driver.verdict(&error) {
                    Verdict::Statement => Verdict::Permanent,
                    verdict => verdict,
                };
                lease.discard();
                note(cause(verdict, error.to_string(), Some(Arc::new(error))))
            }
            Err(_) => {
                lease.discard();
                let text = "no answer while the session was set up".to_owned();
                slots.health.note_cause(cause(Verdict::HostDown, text, None));
                Err(Outcome::Failed { verdict: Verdict::HostDown, by_budget: true })
            }
        }
    }
}

fn failed(verdict: Verdict) -> Outcome {
    Outcome::Failed { verdict, by_budget: false }
}
