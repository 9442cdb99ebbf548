//! Operations on a running pool: pause, drain, close, and changes of its hosts.

mod drain;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::deadline_in;
use crate::cluster::Cluster;
use crate::config::{ConfigError, Roles};
use crate::driver::Driver;
use crate::error::Error;
use crate::event::Event;
use crate::host::{Host, MAX_WEIGHT, Role};
use crate::pool::Pool;
use crate::slots::store::HostSlots;

pub use drain::{Drain, Settled};

impl<D: Driver> Pool<D> {
    /// Hands out nothing until [`Pool::resume`]. Callers queue up; their deadlines run on.
    pub fn pause(&self) {
        let cluster = self.cluster();
        cluster.paused.store(true, Relaxed);
        for slots in cluster.hosts.load().iter() {
            slots.with_state(|state| state.pause());
        }
        cluster.emit(Event::Paused);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let cluster = self.cluster();
        cluster.paused.store(false, Relaxed);
        let now = cluster.clock.now();
        for slots in cluster.hosts.load().iter().filter(|slots| !slots.health.is_draining()) {
            slots.update(|state| state.resume(now));
        }
        cluster.emit(Event::Resumed);
    }

    /// Closes the pool: callers are refused, idle connections closed, leases awaited for up to `grace`.
    ///
    /// Cancellation safety: dropping the future ends the waiting; the pool stays closed.
    pub async fn close(&self, grace: Duration) -> Settled {
        let cluster = self.cluster();
        cluster.shut();
        let deadline = deadline_in(grace);
        let mut abandoned = 0;
        for slots in cluster.hosts.load_full().iter() {
            abandoned += slots.settle_by(deadline, |_| ()).await.in_use();
        }
        cluster.emit(Event::Closed { abandoned });
        Settled { abandoned, ended: 0 }
    }

    /// Sets the read weight of a host, 0 to 10 000. Counts from the next checkout on; no lease is disturbed.
    /// A weight set so wins over an automatic one. While a probe finds the host kept behind on purpose, it
    /// counts as 0 and cannot be set (`rds-read-weights`, procedure, notes on weights).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for an unknown host, a weight out of
    /// range, and one above 0 for the source of a read-only endpoint or for a host that is kept behind on
    /// purpose.
    pub fn set_weight(&self, name: &str, weight: u32) -> Result<(), Error> {
        let slots = self.member(name)?;
        if weight > MAX_WEIGHT {
            let detail = format!("weight {weight} of host {name:?} is more than {MAX_WEIGHT}");
            return Err(self.refused(detail));
        }
        let mode = self.cluster().rules.mode;
        if weight > 0 && !mode.serves_writes() && slots.health.role() == Role::Source {
            let detail = format!("host {name:?} is the source of a read-only endpoint");
            return Err(self.refused(detail));
        }
        if weight > 0 && slots.health.is_delayed() {
            let detail =
                format!("host {name:?} is kept behind on purpose, it cannot have a weight");
            return Err(self.refused(detail));
        }
        slots.health.set_weight(weight);
        self.cluster().emit(Event::WeightChanged { host: slots.host.shared_name(), weight });
        Ok(())
    }

    /// The hosts of the pool now, as they were configured, added or listed: not their roles or weights of
    /// the moment, which [`Pool::status`] has.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        self.cluster().hosts.load().iter().map(|slots| slots.host.clone()).collect()
    }

    /// Adds a host.
    ///
    /// # Errors
    ///
    /// The name is taken, or the weight out of range.
    pub fn add_host(&self, host: Host) -> Result<(), ConfigError> {
        check_host(&host)?;
        let cluster = self.cluster();
        let name = host.shared_name();
        let slots = cluster.member(host);
        let mut taken = false;
        cluster.hosts.rcu(|hosts| {
            taken = hosts.iter().any(|other| other.host.name() == &*name);
            let mut hosts = Vec::clone(hosts);
            if !taken {
                hosts.push(Arc::clone(&slots));
            }
            hosts
        });
        if taken {
            return Err(ConfigError::new("host", format!("{name} is a member already")));
        }
        if cluster.closed.load(Relaxed) {
            slots.shut();
            return Err(ConfigError::new("host", "cannot join a pool that is closed"));
        }
        if cluster.paused.load(Relaxed) {
            slots.with_state(|state| state.pause());
        }
        cluster.start(&slots);
        cluster.emit(Event::HostAdded { host: name });
        Ok(())
    }

    /// Makes this host the source from now on, without asking it: for a planned switchover that the
    /// application itself directs. Writes go there, and return there after a failover. With probed roles
    /// the next probe has the last word.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for an unknown or drained host.
    pub fn promote(&self, name: &str) -> Result<(), Error> {
        let slots = self.member(name)?;
        if slots.health.is_draining() {
            return Err(self.refused(format!("host {name:?} is drained")));
        }
        let cluster = self.cluster();
        cluster.promoted.store(slots.id().index(), Relaxed);
        for other in cluster.hosts.load().iter().filter(|other| other.id() != slots.id()) {
            if other.health.role() == Role::Source {
                other.health.set_role(Role::Replica);
                if cluster.config.roles == Roles::Probed {
                    // What is idle there was opened for writes. With static roles the move itself says so.
                    cluster.void(other, None);
                }
            }
        }
        if slots.health.set_role(Role::Source) != Role::Source && slots.counts().total() > 0 {
            // And here for reads.
            cluster.void(&slots, None);
        }
        cluster.set_writer(&slots);
        Ok(())
    }
}

impl<D: Driver> Cluster<D> {
    /// Starts what runs in the background for a member.
    pub(crate) fn start(&self, slots: &Arc<HostSlots<D>>) {
        slots.spawn_upkeep();
        self.spawn_monitor(slots);
    }

    /// Closes every store. What is leased is closed on return.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Relaxed);
        self.writer.store(None);
        self.writer_found.notify_waiters();
        self.first_probe.notify_waiters();
        for slots in self.hosts.load().iter() {
            slots.shut();
        }
    }
}

impl<D: Driver> HostSlots<D> {
    /// Closes the store, and wakes its background tasks so that they end now.
    fn shut(&self) {
        self.update(|state| state.close());
        self.rearm.notify_one();
        self.suspect.notify_one();
    }
}

pub(crate) fn check_host(host: &Host) -> Result<(), ConfigError> {
    if host.weight().is_some_and(|weight| weight > MAX_WEIGHT) {
        let reason = format!("more than {MAX_WEIGHT} for host {host}");
        return Err(ConfigError::new("weight", reason));
    }
    if host.address().is_empty() {
        return Err(ConfigError::new("host", "has no address"));
    }
    Ok(())
}
