//! Taking a host out of service: wait for its leases, end the rest if asked to, remove it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::clock::deadline_in;
use crate::driver::Driver;
use crate::error::Error;
use crate::event::Event;
use crate::pool::Pool;
use crate::slots::store::HostSlots;

/// How long a drain waits for the leases of a host, and what becomes of those that are still out then.
///
/// A plain [`Duration`] is a grace period after which nothing is forced.
///
/// ```
/// use std::time::Duration;
/// use pool_core::admin::Drain;
///
/// assert_eq!(Drain::default(), Drain::from(Duration::from_secs(15)));
/// let firm = Drain::within(Duration::from_secs(60)).force();
/// # let _ = firm;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drain {
    grace: Duration,
    force: Option<Duration>,
}

impl Drain {
    /// The grace period if nothing else is said: 15 seconds.
    pub const GRACE: Duration = Duration::from_secs(15);

    /// How long forcing takes at most if nothing else is said: 5 seconds.
    pub const FORCE: Duration = Duration::from_secs(5);

    /// Waits up to `grace` for leases. Those that are out later are closed when they come back.
    pub const fn within(grace: Duration) -> Self {
        Self { grace, force: None }
    }

    /// Ends what is still out after the grace period: see [`Pool::end_leases`]. Then waits for the callers
    /// to give back what is of no use to them any more, all within [`Drain::FORCE`].
    ///
    /// Defaults to not forcing.
    pub const fn force(self) -> Self {
        self.force_within(Self::FORCE)
    }

    /// As [`Drain::force`], within `limit` instead.
    pub const fn force_within(self, limit: Duration) -> Self {
        Self { force: Some(limit), ..self }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self::within(Self::GRACE)
    }
}

impl From<Duration> for Drain {
    fn from(grace: Duration) -> Self {
        Self::within(grace)
    }
}

/// How a drain or a close ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settled {
    /// Leases that were still out when the time was over. They are closed when they come back.
    pub abandoned: usize,
    /// Connections of leases that were ended on the server. A caller may still hold such a lease: its next
    /// statement fails.
    pub ended: usize,
}

impl<D: Driver> Pool<D> {
    /// Takes a host out of service without disturbing a lease: no new work, idle connections closed now,
    /// leased ones on return. Waits for the last of them as `how` says. The host stays a member.
    ///
    /// Each step is an [`Event`]: `Draining`, `DrainProgress` while leases come back, then `Drained`, or
    /// `DrainTimedOut` and, if forced, `LeasesEnded`.
    ///
    /// Cancellation safety: dropping the future ends the waiting; the host stays drained.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for an unknown host, and if
    /// [`Pool::undrain`] called it off.
    pub async fn drain(&self, name: &str, how: impl Into<Drain>) -> Result<Settled, Error> {
        let Drain { grace, force } = how.into();
        let slots = self.member(name)?;
        let cluster = self.cluster();
        let host = || slots.host.shared_name();
        let mut in_use = 0;
        // Flag and state change together, or a concurrent `undrain` could leave them apart.
        slots.update(|state| {
            slots.health.set_draining(true);
            in_use = state.in_use();
            state.drain()
        });
        cluster.emit(Event::Draining { host: host(), in_use });
        cluster.yield_writer(&slots);
        let progress = |in_use| cluster.emit(Event::DrainProgress { host: host(), in_use });
        let mut waited = slots.settle_by(deadline_in(grace), progress).await;
        let mut ended = 0;
        if let Waited::Late { in_use } = waited {
            cluster.emit(Event::DrainTimedOut { host: host(), in_use });
            if let Some(limit) = force {
                let deadline = deadline_in(limit);
                ended = slots.end_leases(deadline).await;
                cluster.emit(Event::LeasesEnded { host: host(), ended, of: in_use });
                waited = slots.settle_by(deadline, progress).await;
            }
        }
        match waited {
            Waited::CalledOff => {
                return Err(self.refused(format!("host {name:?} was taken back into service")));
            }
            Waited::Settled => cluster.emit(Event::Drained { host: host() }),
            Waited::Late { .. } => {}
        }
        Ok(Settled { abandoned: waited.in_use(), ended })
    }

    /// Takes a drained host back into service. A drain that still waits ends with an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for an unknown host.
    pub fn undrain(&self, name: &str) -> Result<(), Error> {
        let slots = self.member(name)?;
        let cluster = self.cluster();
        let now = cluster.clock.now();
        slots.update(|state| {
            slots.health.set_draining(false);
            let actions = state.resume(now);
            if cluster.paused.load(Relaxed) {
                state.pause();
            }
            actions
        });
        slots.settled.notify_waiters();
        slots.suspect.notify_one();
        Ok(())
    }

    /// Drains a host and removes it, even if leases are still out then: those end on return.
    ///
    /// Cancellation safety: dropping the future leaves the host drained, and a member.
    ///
    /// # Errors
    ///
    /// As [`Pool::drain`]; the host stays.
    pub async fn remove_host(&self, name: &str, how: impl Into<Drain>) -> Result<Settled, Error> {
        let settled = self.drain(name, how).await?;
        let slots = self.member(name)?;
        slots.shut();
        let cluster = self.cluster();
        cluster.hosts.rcu(|hosts| {
            hosts.iter().filter(|other| other.id() != slots.id()).cloned().collect::<Vec<_>>()
        });
        cluster.balance.forget(slots.id());
        cluster.emit(Event::HostRemoved { host: slots.host.shared_name() });
        Ok(settled)
    }

    /// Ends the connections of a host that callers hold now, on the server, within `limit`; how many are
    /// over. 0 if the driver cannot: pool-mysql can.
    ///
    /// A lease cannot be taken out of its caller's hands. Its connection is ended from elsewhere, so that its
    /// next statement fails, or the one that runs; an open transaction is rolled back. It counts as in use
    /// until the caller gives it back, and is never handed out again. Neither is any other connection that
    /// the host has now. This is the last resort for a host that stays in use, and can be used step by step:
    /// [`Pool::set_weight`] 0, wait until nobody is active, end the rest, [`Pool::remove_host`].
    ///
    /// Cancellation safety: some may have been ended.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for an unknown host.
    pub async fn end_leases(&self, name: &str, limit: Duration) -> Result<usize, Error> {
        let slots = self.member(name)?;
        let of = slots.counts().in_use;
        let ended = slots.end_leases(deadline_in(limit)).await;
        self.cluster().emit(Event::LeasesEnded { host: slots.host.shared_name(), ended, of });
        Ok(ended)
    }
}

/// How a wait for the leases of a host ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waited {
    /// The host serves again.
    CalledOff,
    /// Some are still out.
    Late { in_use: usize },
    /// The last one has come back.
    Settled,
}

impl Waited {
    pub(super) fn in_use(self) -> usize {
        match self {
            Self::Late { in_use } => in_use,
            Self::CalledOff | Self::Settled => 0,
        }
    }
}

impl<D: Driver> HostSlots<D> {
    /// Waits until the last lease of a drained or closed host has come back. `progress` hears of every other
    /// change that is seen on the way.
    pub(super) async fn settle_by(
        &self,
        deadline: Instant,
        mut progress: impl FnMut(usize),
    ) -> Waited {
        let mut last = None;
        loop {
            let changed = self.settled.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before the look, so that a return in between is not missed.
            changed.as_mut().enable();
            let (in_use, settled, serves) =
                self.with_state(|state| (state.in_use(), state.is_settled(), state.takes_work()));
            if serves {
                return Waited::CalledOff;
            }
            if settled {
                return Waited::Settled;
            }
            if last.replace(in_use).is_some_and(|last| last != in_use) {
                progress(in_use);
            }
            if timeout_at(deadline, changed).await.is_err() {
                return Waited::Late { in_use };
            }
        }
    }
}
