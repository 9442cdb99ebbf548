//! Runs a failover plan: the only place that turns a [`Step`] into I/O.
//!
//! One walk per cluster. The first caller that finds nobody to write to starts it, every other one joins
//! it, and it belongs to none of them: a caller that leaves neither stops it nor leaks anything. When
//! nobody waits for it any more it ends with its current attempt.

use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::access::Access;
use crate::cluster::Cluster;
use crate::config::Roles;
use crate::driver::Driver;
use crate::error::{Cause, Phase};
use crate::failover::{GiveUp, Outcome, Step, View};
use crate::host::{HostId, Role};
use crate::slots::reserved::Reserved;
use crate::slots::state::Slot;
use crate::slots::store::{HostSlots, Watch};
use crate::verdict::Verdict;

/// How a walk ended.
#[derive(Clone, Debug)]
pub(crate) enum WalkEnd {
    /// Somebody takes writes.
    Found,
    /// Nobody does: why, and the cause that ended it if one did.
    GaveUp(GiveUp, Option<Cause>),
    /// Nobody waited for it any more. Says nothing to a caller that joined in this very moment.
    Unwanted,
}

/// How joining a walk ended.
pub(crate) enum Joined {
    /// The walk ended.
    Ended(WalkEnd),
    /// The caller's deadline came first.
    Late,
}

impl<D: Driver> Cluster<D> {
    /// Waits for the walk under way, or starts one.
    ///
    /// Cancellation safety: the walk goes on for the others.
    pub(crate) async fn join_walk(&self, deadline: Instant) -> Joined {
        let mut progress = self.walk_under_way();
        let ended = tokio::time::timeout_at(deadline, progress.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(end)) => end.clone().map_or(Joined::Late, Joined::Ended),
            // The walk's task is gone without a word (its runtime shuts down): as if nobody was found.
            Ok(Err(_)) => Joined::Ended(WalkEnd::GaveUp(GiveUp::Exhausted, None)),
            Err(_) => Joined::Late,
        }
    }

    fn walk_under_way(&self) -> watch::Receiver<Option<WalkEnd>> {
        let mut walk = self.walk.lock();
        if let Some(progress) = walk.as_ref() {
            // A walk whose task died left its channel closed.
            if progress.borrow().is_none() && progress.has_changed().is_ok() {
                return progress.clone();
            }
        }
        let (report, progress) = watch::channel(None);
        *walk = Some(progress.clone());
        if let Some(cluster) = self.me.upgrade() {
            self.runtime.spawn(async move {
                let end = cluster.walk(&report).await;
                // Taken out first: a caller that comes now starts anew instead of joining the past.
                *cluster.walk.lock() = None;
                report.send_replace(Some(end));
            });
        }
        progress
    }

    async fn walk(&self, report: &watch::Sender<Option<WalkEnd>>) -> WalkEnd {
        let hosts = self.views();
        let left_at = self.left_at.load(Relaxed);
        let view = View {
            hosts: &hosts,
            current: self.last_writer.load().as_ref().map(|writer| writer.id()),
            left_source_at: (left_at != 0).then(|| Duration::from_nanos(left_at)),
            statements: self.checkouts.load(Relaxed),
        };
        let mut plan = self.failover.plan(&view);
        // The precise clock from here on: by the coarse one a last attempt could end before the time that
        // it was cut to, and one more would follow.
        let (since, begun) = (self.clock.now(), Instant::now());
        let mut last = None;
        let mut attempts = 0;
        let mut cause = None;
        loop {
            // Registered before the look, so that a writer found in between is not missed.
            let mut found = pin!(self.writer_found.notified());
            found.as_mut().enable();
            if self.usable_writer().is_some() {
                return WalkEnd::Found;
            }
            // One receiver is the cluster's own.
            if report.receiver_count() <= 1 || self.closed.load(Relaxed) {
                return WalkEnd::Unwanted;
            }
            match plan.next(since + begun.elapsed(), last.as_ref()) {
                Step::Try { host, budget } => {
                    attempts += 1;
                    let mut attempt = pin!(self.attempt(host, budget));
                    let ended = loop {
                        tokio::select! {
                            biased;
                            ended = &mut attempt => break Some(ended),
                            () = &mut found => {
                                found.set(self.writer_found.notified());
                                found.as_mut().enable();
                                // Cancellation safety: the attempt gives its place back when dropped.
                                if self.usable_writer().is_some() || self.closed.load(Relaxed) {
                                    break None;
                                }
                            }
                        }
                    };
                    match ended {
                        None => {}
                        Some(Ok(())) => return WalkEnd::Found,
                        Some(Err((outcome, error))) => {
                            last = Some(outcome);
                            cause = error.or(cause);
                        }
                    }
                }
                Step::Wait(pause) => {
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = found => {}
                    }
                    last = Some(Outcome::Waited);
                }
                Step::GiveUp(why) => {
                    self.emit(crate::event::Event::WalkFailed { attempts });
                    return WalkEnd::GaveUp(why, cause);
                }
            }
        }
    }

    /// One attempt: dial, and ask for the role where roles are probed. Success makes the host the writer
    /// and its connection available.
    async fn attempt(
        &self,
        host: HostId,
        budget: Duration,
    ) -> Result<(), (Outcome, Option<Cause>)> {
        let failed = |verdict, by_budget, cause| (Outcome::Failed { verdict, by_budget }, cause);
        let Some(slots) = self.host(host) else {
            return Err(failed(Verdict::HostDown, false, None));
        };
        if self.config.roles == Roles::Static && !self.is_first(host) && !self.trusts_stand_in() {
            // It would be read-only: no use for a write.
            return Err(failed(Verdict::Demoted, false, None));
        }
        tracing::debug!(pool = %self.name, host = %slots.host, ?budget, "walk tries a host");
        // A full host has no place to give: the connection then only proves that the host serves.
        let place = Reserved::take(&slots);
        let started = Instant::now();
        let generation = slots.with_state(|state| state.generation());
        let dialled = match slots.dial(Access::Write, budget, Phase::Walking).await {
            Ok(slot) => self.verify(&slots, slot, budget.saturating_sub(started.elapsed())).await,
            Err(cause) => Err(cause),
        };
        match dialled {
            Ok(slot) => {
                self.unblock(&slots);
                self.set_writer_from(&slots, usize::from(place.is_some()));
                match place {
                    Some(place) => place.fill(slot),
                    None => slots.close_politely(slot),
                }
                Ok(())
            }
            Err(cause) => {
                drop(place);
                // Only the end of the budget leaves no error of the driver behind.
                let by_budget = cause.error.is_none() && started.elapsed() >= budget;
                let outcome = failed(cause.verdict, by_budget, Some(cause.clone()));
                if cause.verdict == Verdict::Demoted {
                    slots.health.note_cause(cause);
                } else {
                    self.failed(host, generation, cause);
                }
                Err(outcome)
            }
        }
    }

    async fn verify(
        &self,
        slots: &HostSlots<D>,
        slot: Box<Slot<D::Conn>>,
        left: Duration,
    ) -> Result<Box<Slot<D::Conn>>, Cause> {
        if self.config.roles == Roles::Static {
            return Ok(slot);
        }
        let (slot, probe) = slots.ask(slot, left, Phase::Walking).await?;
        self.measure(slots, &probe);
        match probe.role {
            Role::Source => return Ok(slot),
            Role::Unknown if slots.host.role() == Role::Source => return Ok(slot),
            role => {
                self.unblock(slots);
                slots.health.set_role(role);
            }
        }
        slots.close_politely(slot);
        Err(slots.cause(Phase::Walking, Verdict::Demoted, "takes no writes".to_owned(), None))
    }
}
