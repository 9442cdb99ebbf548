//! One background task per host: is it there, what is it, how far is it behind?
//!
//! It probes over a connection of its own, outside the pool's limit, so that it works when the pool is
//! exhausted and no caller ever waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::timeout_at;

use crate::access::Access;
use crate::clock::deadline_in;
use crate::cluster::Cluster;
use crate::config::Roles;
use crate::driver::{Driver, Probe};
use crate::error::{Cause, Phase};
use crate::event::Event;
use crate::host::Role;
use crate::slots::state::Slot;
use crate::slots::store::{HostSlots, Watch};
use crate::verdict::Verdict;

/// The first pause between probes of a host that is in doubt; doubles up to the probe interval.
const SUSPECT_PAUSE: Duration = Duration::from_millis(250);

impl<D: Driver> Cluster<D> {
    /// Starts the monitor of one host, if probes are on. Ends when the host leaves or the pool closes.
    pub(crate) fn spawn_monitor(&self, slots: &Arc<HostSlots<D>>) {
        let Some(interval) = self.config.probe_interval else { return };
        let (cluster, slots) = (self.me.clone(), Arc::downgrade(slots));
        self.runtime.spawn(async move {
            let mut control = None;
            let mut failures = 0;
            let mut others = false;
            loop {
                let (Some(cluster), Some(slots)) = (cluster.upgrade(), slots.upgrade()) else {
                    return;
                };
                if slots.with_state(|state| state.is_closed()) {
                    return;
                }
                match cluster.probe(&slots, &mut control).await {
                    Ok(probe) => {
                        failures = 0;
                        cluster.unblock(&slots);
                        cluster.learn(&slots, &probe, &mut others);
                    }
                    Err(cause) => {
                        failures += 1;
                        cluster.doubt(&slots, cause, failures);
                    }
                }
                if slots.health.note_probed() {
                    cluster.first_probe.notify_waiters();
                }
                let pause = if failures == 0 {
                    // Jitter, so that many pools do not ask in step.
                    cluster
                        .return_in()
                        .unwrap_or(interval)
                        .min(interval)
                        .mul_f64(0.9 + 0.1 * fastrand::f64())
                } else {
                    SUSPECT_PAUSE.saturating_mul(1 << (failures - 1).min(10)).min(interval)
                };
                let wake = deadline_in(pause.max(Duration::from_millis(10)));
                drop(cluster);
                let _ = timeout_at(wake, slots.suspect.notified()).await;
            }
        });
    }

    async fn probe(
        &self,
        slots: &HostSlots<D>,
        control: &mut Option<Box<Slot<D::Conn>>>,
    ) -> Result<Probe, Cause> {
        // Cancellation safety: taken out before the await, put back only when the probe succeeded.
        let slot = match control.take() {
            Some(slot) => slot,
            None => {
                slots.dial(Access::Read, self.config.connect_timeout, Phase::Validating).await?
            }
        };
        let (slot, probe) = slots.ask(slot, self.config.check_timeout, Phase::Validating).await?;
        *control = Some(slot);
        Ok(probe)
    }

    /// A probe succeeded.
    fn learn(&self, slots: &Arc<HostSlots<D>>, probe: &Probe, others: &mut bool) {
        self.measure(slots, probe);
        if self.config.roles == Roles::Static {
            self.return_if_due(slots);
            return;
        }
        let writer = self.writer.load_full();
        let is_writer = writer.as_ref().is_some_and(|writer| writer.id() == slots.id());
        match probe.role {
            // Out of service by order: what it is does not matter now.
            Role::Source if slots.health.is_draining() => {
                slots.health.set_role(Role::Source);
            }
            Role::Source => match self.usable_writer() {
                None => self.set_writer(slots),
                Some(writer) if writer.id() != slots.id() => {
                    slots.health.set_role(Role::Source);
                    if !std::mem::replace(others, true) {
                        self.emit(Event::TwoSources {
                            current: writer.host.shared_name(),
                            other: slots.host.shared_name(),
                        });
                    }
                    return;
                }
                Some(_) => {
                    slots.health.set_role(Role::Source);
                }
            },
            role => {
                if is_writer && role == Role::Replica && self.failover.leaves_demoted() {
                    self.void(slots, None);
                    self.demote(slots, role);
                } else if !is_writer && slots.health.set_role(role) == Role::Source {
                    // Its connections were opened for writes.
                    self.void(slots, None);
                }
            }
        }
        *others = false;
    }

    /// A probe failed.
    fn doubt(&self, slots: &HostSlots<D>, cause: Cause, failures: u32) {
        if self.is_return_due(slots) {
            // A failed attempt to return puts the next one off by a whole interval.
            self.note_left();
            self.checkouts.store(0, Relaxed);
        }
        let refused = cause.error.is_some() && cause.verdict == Verdict::HostDown;
        if refused || cause.verdict == Verdict::Inactive || failures >= self.config.probe_failures {
            let generation = slots.with_state(|state| state.generation());
            let verdict = match cause.verdict {
                Verdict::Permanent | Verdict::Overloaded | Verdict::Inactive => cause.verdict,
                _ => Verdict::HostDown,
            };
            self.failed_quietly(slots, generation, Cause { verdict, ..cause });
        } else {
            slots.health.note_cause(cause);
        }
    }

    /// As [`Watch::failed`], without waking the monitor that is talking.
    fn failed_quietly(&self, slots: &HostSlots<D>, generation: u64, cause: Cause) {
        self.failed(slots.id(), generation, cause);
        // `failed` asked for a probe at once; it was this one.
        let _ = futures_now(slots.suspect.notified());
    }

    /// How long until writes may return to the first host, if they are away and a rule says so.
    fn return_in(&self) -> Option<Duration> {
        let left_at = self.left_at.load(Relaxed);
        if left_at == 0 || self.config.roles != Roles::Static {
            return None;
        }
        let after = self.failover.return_rule()?.after?;
        let away = self.clock.now().saturating_sub(Duration::from_nanos(left_at));
        Some(after.saturating_sub(away))
    }

    /// With static roles, writes return to the first host when its rule says so.
    fn return_if_due(&self, slots: &Arc<HostSlots<D>>) {
        let is_away = self.is_first(slots.id()) && self.left_at.load(Relaxed) != 0;
        if is_away && (self.is_return_due(slots) || self.usable_writer().is_none()) {
            self.set_writer(slots);
        }
    }

    /// Whether these are the static source, writes are away from it, and the rule sends them back.
    fn is_return_due(&self, slots: &HostSlots<D>) -> bool {
        let left_at = self.left_at.load(Relaxed);
        if left_at == 0 || self.config.roles != Roles::Static || !self.is_first(slots.id()) {
            return false;
        }
        let away = self.clock.now().saturating_sub(Duration::from_nanos(left_at));
        let rule = self.failover.return_rule();
        rule.is_some_and(|rule| rule.due(away, self.checkouts.load(Relaxed)))
    }
}

/// Takes a permit of a `Notify` if one is there.
fn futures_now(notified: tokio::sync::futures::Notified<'_>) -> bool {
    let mut notified = std::pin::pin!(notified);
    notified.as_mut().enable()
}
