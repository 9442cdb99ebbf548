//! The hosts of a pool, which of them takes writes, and what follows from what is seen there.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, watch};

use crate::access::{Access, AccessMode};
use crate::balance::BalancePolicy;
use crate::balance::endpoint::{EndpointRules, HostFacts};
use crate::clock::Clock;
use crate::config::{Config, Roles};
use crate::driver::{Driver, Probe};
use crate::error::{Cause, HostReport};
use crate::event::Event;
use crate::failover::{FailoverPolicy, HostView};
use crate::host::{Host, HostId, Role};
use crate::slots::store::{HostSlots, Watch};
use crate::status::{HostStatus, Status};
use crate::verdict::Verdict;
use crate::walk::WalkEnd;

/// Events that a slow listener may fall behind by.
const EVENT_BACKLOG: usize = 256;

pub(crate) type Hosts<D> = Vec<Arc<HostSlots<D>>>;

pub(crate) struct Cluster<D: Driver> {
    pub(crate) name: Arc<str>,
    pub(crate) config: Arc<Config>,
    pub(crate) rules: EndpointRules,
    pub(crate) driver: Arc<D>,
    pub(crate) clock: Clock,
    pub(crate) runtime: Handle,
    pub(crate) failover: Arc<dyn FailoverPolicy>,
    pub(crate) balance: Arc<dyn BalancePolicy>,
    pub(crate) hosts: ArcSwap<Hosts<D>>,
    /// Where writes go. Empty while nobody is known to take them.
    pub(crate) writer: ArcSwapOption<HostSlots<D>>,
    /// The host that took writes last, also while nobody does.
    pub(crate) last_writer: ArcSwapOption<HostSlots<D>>,
    /// The host that the application made the source, by [`HostId::index`]; `usize::MAX` if it did not.
    pub(crate) promoted: AtomicUsize,
    /// Wakes a walk that pauses: somebody else found a writer.
    pub(crate) writer_found: Notify,
    /// Wakes reads that wait for the first probe of a host.
    pub(crate) first_probe: Notify,
    /// The walk under way, if any: one per cluster.
    pub(crate) walk: Mutex<Option<watch::Receiver<Option<WalkEnd>>>>,
    /// When writes left the first host (nanoseconds on the pool's clock, 0 while they are there), and
    /// the checkouts for writes since.
    pub(crate) left_at: AtomicU64,
    pub(crate) checkouts: AtomicU64,
    pub(crate) closed: AtomicBool,
    pub(crate) paused: AtomicBool,
    pub(crate) me: Weak<Self>,
    events: broadcast::Sender<Event>,
    tickets: AtomicU64,
    next_id: AtomicU32,
    failovers: metrics::Counter,
    returns: metrics::Counter,
}

impl<D: Driver> Cluster<D> {
    pub(crate) fn new(
        config: Config,
        rules: EndpointRules,
        driver: D,
        failover: Arc<dyn FailoverPolicy>,
        balance: Arc<dyn BalancePolicy>,
        runtime: Handle,
        hosts: Vec<Host>,
    ) -> Arc<Self> {
        let name: Arc<str> = config.name.as_str().into();
        let pool = || [("pool", name.to_string())];
        let (failovers, returns) = (
            metrics::counter!("pool_failovers_total", &pool()),
            metrics::counter!("pool_returns_total", &pool()),
        );
        let clock = Clock::start(config.precise_clock || config.measure_latency);
        let cluster = Arc::new_cyclic(|me| Self {
            name: Arc::clone(&name),
            config: Arc::new(config),
            rules,
            driver: Arc::new(driver),
            clock,
            runtime,
            failover,
            balance,
            hosts: ArcSwap::default(),
            writer: ArcSwapOption::empty(),
            last_writer: ArcSwapOption::empty(),
            promoted: AtomicUsize::new(usize::MAX),
            writer_found: Notify::new(),
            first_probe: Notify::new(),
            walk: Mutex::new(None),
            left_at: AtomicU64::new(0),
            checkouts: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            me: Weak::clone(me),
            events: broadcast::channel(EVENT_BACKLOG).0,
            tickets: AtomicU64::new(0),
            next_id: AtomicU32::new(0),
            failovers,
            returns,
        });
        let members: Hosts<D> = hosts.into_iter().map(|host| cluster.member(host)).collect();
        // With one host there is nothing to choose; otherwise the first write walks and finds out.
        if let [only] = members.as_slice()
            && only.host.role() != Role::Replica
        {
            only.health.set_role(Role::Source);
            cluster.writer.store(Some(Arc::clone(only)));
            cluster.last_writer.store(Some(Arc::clone(only)));
        }
        cluster.hosts.store(Arc::new(members));
        cluster
    }

    /// A new member with the next id. Not in the list yet.
    pub(crate) fn member(&self, host: Host) -> Arc<HostSlots<D>> {
        let host = host.with_id(HostId::new(self.next_id.fetch_add(1, Relaxed)));
        let watch: Weak<dyn Watch> = self.me.clone();
        HostSlots::new(
            host,
            Arc::clone(&self.driver),
            Arc::clone(&self.config),
            self.clock,
            watch,
            self.runtime.clone(),
        )
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Relaxed)
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub(crate) fn emit(&self, event: Event) {
        match &event {
            Event::HostDown { .. } | Event::Demoted { .. } | Event::WalkFailed { .. } => {
                tracing::warn!(pool = %self.name, ?event);
            }
            _ => tracing::info!(pool = %self.name, ?event),
        }
        // Nobody listening is fine.
        let _ = self.events.send(event);
    }

    pub(crate) fn host(&self, id: HostId) -> Option<Arc<HostSlots<D>>> {
        self.hosts.load().iter().find(|slots| slots.id() == id).cloned()
    }

    pub(crate) fn host_named(&self, name: &str) -> Option<Arc<HostSlots<D>>> {
        self.hosts.load().iter().find(|slots| slots.host.name() == name).cloned()
    }

    /// The source as the user sees it: the host that was promoted, or else the first of the list.
    pub(crate) fn first(&self) -> Option<Arc<HostSlots<D>>> {
        let hosts = self.hosts.load();
        let promoted = self.promoted.load(Relaxed);
        if let Some(slots) = hosts.iter().find(|slots| slots.id().index() == promoted) {
            return Some(Arc::clone(slots));
        }
        let by_role = hosts.iter().find(|slots| slots.host.role() == Role::Source);
        by_role.or_else(|| hosts.first()).cloned()
    }

    /// Whether this is [`Cluster::first`].
    pub(crate) fn is_first(&self, host: HostId) -> bool {
        self.first().is_some_and(|first| first.id() == host)
    }

    /// The host that takes writes, if it is worth asking.
    pub(crate) fn usable_writer(&self) -> Option<Arc<HostSlots<D>>> {
        let writer = self.writer.load_full()?;
        (!writer.health.is_blocked() && !writer.health.is_draining()).then_some(writer)
    }

    /// Whether a stand-in for the source may take writes without being asked about its role.
    pub(crate) fn trusts_stand_in(&self) -> bool {
        self.failover.mode_on(false, None, None) == AccessMode::ReadWrite
    }

    /// Makes `host` the one that takes writes.
    pub(crate) fn set_writer(&self, host: &Arc<HostSlots<D>>) {
        self.set_writer_from(host, 0);
    }

    /// As [`Cluster::set_writer`], by a walk that itself holds `own` places of the host.
    pub(crate) fn set_writer_from(&self, host: &Arc<HostSlots<D>>, own: usize) {
        let before = self.writer.swap(Some(Arc::clone(host)));
        let last = self.last_writer.swap(Some(Arc::clone(host)));
        let last = last.filter(|last| last.id() != host.id());
        let first = self.is_first(host.id());
        let was_away = self.left_at.load(Relaxed) != 0;
        if first {
            self.left_at.store(0, Relaxed);
        } else if !was_away {
            self.note_left();
        }
        self.checkouts.store(0, Relaxed);
        if before.as_ref().is_some_and(|before| before.id() == host.id()) {
            self.writer_found.notify_waiters();
            return;
        }
        if let Some(before) = &before {
            // Who waits there may wait for a host that takes writes.
            before.turn_away();
        }
        // Connections opened for reads may be read-only sessions.
        if self.config.roles == Roles::Probed {
            let was = host.health.set_role(Role::Source);
            if was != Role::Source && host.counts().total() > own {
                self.void(host, None);
            }
        }
        if let (Roles::Static, Some(before)) = (self.config.roles, before) {
            // The idle ones served writes; leases finish undisturbed.
            self.void(&before, None);
        }
        let from = last.map(|last| last.host.shared_name());
        let to = host.host.shared_name();
        match from {
            Some(from) if first && was_away => {
                self.returns.increment(1);
                self.emit(Event::ReturnedToSource { from, to });
            }
            from => {
                if from.is_some() || was_away {
                    self.failovers.increment(1);
                }
                self.emit(Event::Failover { from, to });
            }
        }
        self.writer_found.notify_waiters();
    }

    /// A host that goes out of service takes no writes. True if it took them.
    pub(crate) fn yield_writer(&self, host: &HostSlots<D>) -> bool {
        let held = self.writer.load();
        let was_writer = held.as_ref().is_some_and(|writer| writer.id() == host.id());
        if was_writer {
            self.writer.compare_and_swap(&held, None);
        }
        was_writer
    }

    /// Writes are away from the first host since now.
    pub(crate) fn note_left(&self) {
        self.left_at.store(nanos(self.clock.now()).max(1), Relaxed);
    }

    /// `host` refuses writes that it should take.
    pub(crate) fn demote(&self, host: &Arc<HostSlots<D>>, role: Role) {
        if !self.failover.leaves_demoted() {
            return;
        }
        let was_source = host.health.set_role(role) == Role::Source;
        let was_writer = self.yield_writer(host);
        if was_writer && self.left_at.load(Relaxed) == 0 {
            self.note_left();
        }
        if was_source || was_writer {
            self.emit(Event::Demoted { host: host.host.shared_name() });
        }
        // Who waits here may wait for a host that takes writes.
        host.turn_away();
        host.suspect.notify_one();
    }

    /// Keeps what a probe says about a host besides its role.
    pub(crate) fn measure(&self, host: &HostSlots<D>, probe: &Probe) {
        host.health.set_lag(probe.lag);
        let before = host.health.weight();
        host.health.set_delayed(probe.delayed);
        host.health.resize(&host.host, &self.config.weights, probe.capacity);
        let weight = host.health.weight();
        if weight != before {
            self.emit(Event::WeightChanged { host: host.host.shared_name(), weight });
        }
    }

    /// Leaves a host out until a connect or a probe succeeds. True if it was not left out already.
    pub(crate) fn block(&self, host: &Arc<HostSlots<D>>, cause: &Cause) -> bool {
        let Config { connect_backoff, connect_backoff_max, .. } = *self.config;
        let base = connect_backoff.max(Duration::from_millis(100));
        let newly = host.health.block(self.clock.now(), base, connect_backoff_max.max(base));
        if newly {
            self.emit(Event::HostDown {
                host: host.host.shared_name(),
                verdict: cause.verdict,
                message: Arc::clone(&cause.message),
            });
        }
        host.turn_away_stranded(cause);
        newly
    }

    /// A connect or a probe succeeded.
    pub(crate) fn unblock(&self, host: &HostSlots<D>) {
        if host.health.unblock() {
            self.emit(Event::HostUp { host: host.host.shared_name() });
        }
    }

    /// Voids the connections of a host, once per generation.
    pub(crate) fn void(&self, host: &HostSlots<D>, generation: Option<u64>) {
        if let Some(generation) = host.void(generation) {
            self.emit(Event::Voided { host: host.host.shared_name(), generation });
        }
    }

    /// The hosts as a failover policy sees them.
    pub(crate) fn views(&self) -> Vec<HostView> {
        let now = self.clock.now();
        self.hosts
            .load()
            .iter()
            .filter(|slots| !slots.health.is_draining())
            .map(|slots| HostView {
                id: slots.id(),
                role: slots.health.role(),
                blocked_for: slots.health.blocked_for(now),
            })
            .collect()
    }

    /// A host as the rules for reads see it. Takes no lock.
    pub(crate) fn facts(&self, slots: &HostSlots<D>, tried: bool) -> HostFacts {
        let health = &slots.health;
        let active = slots.active();
        let mut facts = HostFacts::new(slots.id(), health.role(), health.weight());
        facts.active = active;
        if self.config.measure_latency {
            facts.latency = health.latency(self.clock.now());
        }
        facts.drained = health.is_draining();
        facts.delayed = health.is_delayed();
        if health.is_blocked() {
            facts.blocked_for = health.blocked_for(self.clock.now());
            facts.probe_due = facts.blocked_for == Some(Duration::ZERO);
        }
        facts.lag = health.lag();
        facts.tried = tried;
        facts.full = active as usize >= self.config.max_size;
        facts
    }

    /// Every host's counts and last cause, for an error.
    pub(crate) fn reports(
        &self,
        refused: impl Fn(&HostSlots<D>) -> Option<&'static str>,
    ) -> Vec<HostReport> {
        let now = self.clock.now();
        let report = |slots: &Arc<HostSlots<D>>| HostReport {
            host: slots.host.shared_name(),
            counts: slots.counts(),
            capacity: self.config.max_size,
            refused: refused(slots),
            cause: slots.health.cause().map(|cause| {
                let age = now.saturating_sub(cause.at);
                (cause, age)
            }),
        };
        self.hosts.load().iter().map(report).collect()
    }

    pub(crate) fn status(&self) -> Status {
        let now = self.clock.now();
        let writer = self.writer.load_full().map(|writer| writer.id());
        let host = |slots: &Arc<HostSlots<D>>| {
            let cause = slots.health.cause();
            let (counts, generation) =
                slots.with_state(|state| (state.counts(), state.generation()));
            HostStatus {
                name: slots.host.shared_name(),
                role: slots.health.role(),
                writer: writer == Some(slots.id()),
                weight: slots.health.weight(),
                delayed: slots.health.is_delayed(),
                draining: slots.health.is_draining(),
                blocked_for: slots.health.blocked_for(now),
                lag: slots.health.lag().known(),
                generation,
                counts,
                capacity: self.config.max_size,
                last_error: cause.as_ref().map(|cause| Arc::clone(&cause.message)),
                last_error_age: cause.map(|cause| now.saturating_sub(cause.at)),
            }
        };
        Status { name: Arc::clone(&self.name), hosts: self.hosts.load().iter().map(host).collect() }
    }
}

impl<D: Driver> Watch for Cluster<D> {
    fn access_of(&self, host: HostId) -> Access {
        let writer = self.writer.load();
        let writes = match writer.as_ref() {
            Some(writer) => writer.id() == host,
            None => self.host(host).is_some_and(|slots| slots.health.role() == Role::Source),
        };
        if writes { Access::Write } else { Access::Read }
    }

    fn connected(&self, host: HostId) {
        if let Some(slots) = self.host(host) {
            self.unblock(&slots);
        }
    }

    fn failed(&self, host: HostId, generation: u64, cause: Cause) {
        let Some(slots) = self.host(host) else { return };
        slots.health.note_cause(cause.clone());
        match cause.verdict {
            Verdict::HostDown | Verdict::Inactive => {
                // Once: nothing is opened while it is left out.
                if self.block(&slots, &cause) {
                    self.void(&slots, Some(generation));
                }
                slots.suspect.notify_one();
            }
            Verdict::Demoted => self.demote(&slots, Role::Unknown),
            _ => {}
        }
    }

    fn reported(&self, host: HostId, generation: u64, cause: Cause) {
        let Some(slots) = self.host(host) else { return };
        let verdict = cause.verdict;
        slots.health.note_cause(cause);
        if !verdict.voids_host() {
            return;
        }
        // A connection of an older generation voids nothing that is newer. But a write that is refused is
        // refused now: ask the host what it is.
        if slots.with_state(|state| state.generation()) != generation {
            if verdict == Verdict::Demoted {
                slots.suspect.notify_one();
            }
            return;
        }
        // A write through a read lease: a replica that refuses it is what it is supposed to be.
        if verdict == Verdict::Demoted
            && slots.health.role() == Role::Replica
            && self.writer.load().as_ref().is_none_or(|writer| writer.id() != host)
        {
            return;
        }
        self.void(&slots, Some(generation));
        if verdict == Verdict::Demoted {
            self.demote(&slots, Role::Unknown);
        }
        slots.suspect.notify_one();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
