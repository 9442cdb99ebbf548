//! What a read waits for that finds nothing at once: a free slot at any of several hosts, or the first probe.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

use crate::balance::endpoint::{Eligibility, EndpointRules, verdict};
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::host::{HostId, Role};
use crate::lag::Lag;
use crate::slots::state::Slot;
use crate::slots::store::{HostSlots, Refusal};

/// Waits at several hosts at once: the first answer, and who gave it. The places at the others are given up.
pub(super) async fn first_slot<D: Driver>(
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
pub(super) enum FirstProbe {
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
    pub(super) async fn first_probe(
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
}
