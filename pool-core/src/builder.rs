//! Sets up a pool. Every option has a default; contradictions are found by [`PoolBuilder::build`].

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::admin::check_host;
use crate::balance::endpoint::{EndpointMode, EndpointRules};
use crate::balance::{BalancePolicy, Weighted};
use crate::cluster::Cluster;
use crate::config::{Config, ConfigError, Roles};
use crate::driver::Driver;
use crate::failover::{FailoverPolicy, Ordered};
use crate::host::{Host, Role};
use crate::pool::Pool;
use crate::route::{Dialect, RoutePolicy, StatementRouter};
use crate::weights::Weights;

/// Sets up a [`Pool`].
#[derive(Debug)]
#[must_use]
pub struct PoolBuilder<D: Driver> {
    driver: D,
    hosts: Vec<Host>,
    config: Config,
    rules: EndpointRules,
    failover: Arc<dyn FailoverPolicy>,
    balance: Arc<dyn BalancePolicy>,
    router: Arc<dyn RoutePolicy>,
    retry_reads: bool,
}

impl<D: Driver> Pool<D> {
    /// Starts from the defaults.
    pub fn builder(driver: D) -> PoolBuilder<D> {
        PoolBuilder {
            driver,
            hosts: Vec::new(),
            config: Config::default(),
            rules: EndpointRules::default(),
            failover: Arc::new(Ordered::default()),
            balance: Arc::new(Weighted::default()),
            router: Arc::new(StatementRouter::new(Dialect::MySql)),
            retry_reads: false,
        }
    }
}

/// Essential.
impl<D: Driver> PoolBuilder<D> {
    /// Adds a host. The first one is the source unless another has that role.
    pub fn host(mut self, host: Host) -> Self {
        self.hosts.push(host);
        self
    }

    /// Adds hosts, in list order.
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = Host>) -> Self {
        self.hosts.extend(hosts);
        self
    }

    /// Sets the name used in metrics, logs and errors. Give each pool of a process its own.
    ///
    /// Defaults to `default`.
    pub fn name(mut self, name: &str) -> Self {
        self.config.name = name.to_owned();
        self
    }

    /// Sets the most connections per host: idle, in use and being opened together.
    ///
    /// Defaults to 10. At least 1.
    pub fn max_size(mut self, connections: usize) -> Self {
        self.config.max_size = connections;
        self
    }

    /// Sets the longest time one checkout may take, from call to usable connection.
    ///
    /// Defaults to 30 seconds.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.config.acquire_timeout = timeout;
        self
    }

    /// Sets which host serves writes, and in what order and timing others follow.
    ///
    /// Defaults to [`Ordered`].
    pub fn failover(mut self, policy: impl FailoverPolicy + 'static) -> Self {
        self.failover = Arc::new(policy);
        self
    }

    /// Sets which of the eligible hosts serves a read.
    ///
    /// Defaults to [`Weighted`].
    pub fn balance(mut self, policy: impl BalancePolicy + 'static) -> Self {
        self.balance = Arc::new(policy);
        self
    }

    /// Builds the pool and starts its background tasks. Opens no connection for callers yet, except
    /// those of [`PoolBuilder::min_idle`].
    ///
    /// # Errors
    ///
    /// The first option that cannot work, by name; or that there is no tokio runtime here.
    pub fn build(self) -> Result<Pool<D>, ConfigError> {
        let Self { driver, hosts, mut config, rules, failover, balance, router, retry_reads } =
            self;
        config.validate()?;
        config.measure_latency = balance.wants_latency();
        if hosts.is_empty() {
            return Err(ConfigError::new("hosts", "at least one is needed"));
        }
        for (place, host) in hosts.iter().enumerate() {
            check_host(host)?;
            if hosts[..place].iter().any(|other| other.name() == host.name()) {
                return Err(ConfigError::new("hosts", format!("{host} is listed twice")));
            }
        }
        if rules.mode == EndpointMode::ReadOnly {
            // Every host but a replica is left out of reads, so one must be declared.
            let roles = hosts.iter().map(Host::role);
            if rules.mode.check(roles).is_err() && config.roles == Roles::Static {
                return Err(ConfigError::new("endpoint_mode", "read-only needs a replica"));
            }
            let weighted = |host: &&Host| {
                host.role() == Role::Source && host.weight().is_some_and(|weight| weight > 0)
            };
            if let Some(host) = hosts.iter().find(weighted) {
                let what = format!("the source of a read-only endpoint has none: {host}");
                return Err(ConfigError::new("weight", what));
            }
        }
        let runtime = Handle::try_current()
            .map_err(|_| ConfigError::new("runtime", "a pool is built inside a tokio runtime"))?;
        let cluster = Cluster::new(config, rules, driver, failover, balance, runtime, hosts);
        for slots in cluster.hosts.load().iter() {
            cluster.start(slots);
        }
        Ok(Pool::new(cluster, router, retry_reads))
    }
}

/// Frequent.
impl<D: Driver> PoolBuilder<D> {
    /// Sets how many idle connections per host are kept ready. Defaults to 0. At most `max_size`.
    pub fn min_idle(mut self, connections: usize) -> Self {
        self.config.min_idle = connections;
        self
    }

    /// Sets the longest time to open one connection: name look-up, dial, TLS and login together.
    ///
    /// Defaults to 5 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self
    }

    /// Sets how long a connection above the minimum may be idle. Defaults to 10 minutes.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.config.idle_timeout = timeout;
        self
    }

    /// Sets how old a connection may become; up to a tenth is subtracted at random, so that
    /// connections opened together do not end together. Defaults to 30 minutes.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.config.max_lifetime = lifetime;
        self
    }

    /// Sets how the pool learns which host takes writes. Defaults to [`Roles::Probed`].
    pub fn roles(mut self, roles: Roles) -> Self {
        self.config.roles = roles;
        self
    }

    /// Sets the read/write attribute. Defaults to [`EndpointMode::ReadWrite`].
    pub fn endpoint_mode(mut self, mode: EndpointMode) -> Self {
        self.rules.mode = mode;
        self
    }

    /// Sets where the read weight of a host without one comes from (`rds-read-weights`, read weight
    /// allocation). [`Weights::automatic`]: 0 on the source, 100 elsewhere, and a new replica takes part
    /// at once; [`Weights::by_capacity`] and [`Weights::by`] go by the size of the host.
    /// [`Weights::custom`]: 0 until [`Pool::set_weight`] or the host's configuration says otherwise. The
    /// two methods of the document, [`WeightMethod`](crate::balance::endpoint::WeightMethod), are taken as
    /// well.
    ///
    /// Defaults to [`Weights::automatic`].
    pub fn weights(mut self, weights: impl Into<Weights>) -> Self {
        self.config.weights = weights.into();
        self
    }

    /// Sets the largest replication lag of a replica that serves reads; zero admits only replicas without
    /// lag, and unknown lag is over every limit. The source is never checked.
    ///
    /// Defaults to `None`: not checked.
    pub fn max_lag(mut self, limit: Option<Duration>) -> Self {
        self.rules.max_lag = limit;
        self
    }

    /// Sets whether the source serves reads when no replica can. Defaults to `true`.
    pub fn read_fallback_primary(mut self, allowed: bool) -> Self {
        self.rules.read_fallback_primary = allowed;
        self
    }
}

/// Statements.
impl<D: Driver> PoolBuilder<D> {
    /// Sets how [`Pool::get_for`] routes statements. Defaults to a [`StatementRouter`] for MySQL.
    pub fn router(mut self, policy: impl RoutePolicy + 'static) -> Self {
        self.router = Arc::new(policy);
        self
    }

    /// Sets whether a routed read whose link broke before it delivered anything runs once more on another
    /// host. Only what is certain to be a plain read outside of transactions; never a write. A budget (one
    /// repetition for ten reads) keeps a failing cluster from getting everything twice.
    ///
    /// Defaults to `false`.
    pub fn retry_reads(mut self, on: bool) -> Self {
        self.retry_reads = on;
        self
    }
}

/// Rare.
impl<D: Driver> PoolBuilder<D> {
    /// Sets how many connections to one host are opened at once. Defaults to 2.
    pub fn max_connecting(mut self, connects: usize) -> Self {
        self.config.max_connecting = connects;
        self
    }

    /// Sets the pause after a failed connect and its upper limit; it doubles with each failure and is
    /// drawn between half and all of itself. Defaults to 10 ms and 5 seconds.
    pub fn connect_backoff(mut self, first: Duration, limit: Duration) -> Self {
        self.config.connect_backoff = first;
        self.config.connect_backoff_max = limit;
        self
    }

    /// Sets after how long without a word from the server an idle connection is checked, oldest first.
    ///
    /// Defaults to 2 minutes. Not longer than `max_lifetime`.
    pub fn keepalive(mut self, interval: Duration) -> Self {
        self.config.keepalive = interval;
        self
    }

    /// Sets within how long after the last word from the server an idle connection is handed out
    /// without a check. A failure seen on the host ends the window at once.
    ///
    /// Defaults to 500 ms. **A longer window hands out connections that died in it.**
    pub fn bypass_window(mut self, window: Duration) -> Self {
        self.config.bypass_window = window;
        self
    }

    /// Sets the longest time for one check of an idle connection or one probe of a host.
    ///
    /// Defaults to 2 seconds. A connection that does not answer in time is closed.
    pub fn check_timeout(mut self, timeout: Duration) -> Self {
        self.config.check_timeout = timeout;
        self
    }

    /// Sets the longest time to make a returned connection clean. Defaults to 2 seconds.
    pub fn tidy_timeout(mut self, timeout: Duration) -> Self {
        self.config.tidy_timeout = timeout;
        self
    }

    /// Sets the longest time to close a connection politely. Defaults to 1 second.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.config.close_timeout = timeout;
        self
    }

    /// Sets how often each host is asked for its role and lag, over a connection of its own; `None`
    /// switches probes off. A host in doubt is asked at once, then at growing pauses up to this one.
    ///
    /// Defaults to 5 seconds. **Without probes a failed host is only tried again by callers.**
    pub fn probe_interval(mut self, interval: Option<Duration>) -> Self {
        self.config.probe_interval = interval;
        self
    }

    /// Sets how many silent probes in a row take a host out. Defaults to 3. A refused one does at once.
    pub fn probe_failures(mut self, failures: u32) -> Self {
        self.config.probe_failures = failures;
        self
    }

    /// Sets whether the precise clock is read on each checkout and return, so that the `pool_hold_seconds`
    /// histogram resolves less than the 4 ms of the coarse one. Costs about 50 ns per lease.
    ///
    /// Defaults to `false`, and to `true` with a balance policy that looks at latencies.
    pub fn precise_clock(mut self, precise: bool) -> Self {
        self.config.precise_clock = precise;
        self
    }
}
