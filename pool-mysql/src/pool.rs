//! From options to a pool.

use std::error::Error as StdError;
use std::fmt;

use pool_core::builder::PoolBuilder;
use pool_core::config::{ConfigError, Roles};
use pool_core::error::Error;
use pool_core::host::{Host, Role};

use crate::driver::MySql;
use crate::options::MySqlOptions;
use crate::role::RoleCheck;

/// How often a DNS service is asked again.
#[cfg(feature = "srv")]
const SRV_INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// A pool of connections to MySQL hosts.
pub type Pool = pool_core::pool::Pool<MySql>;

/// A leased connection. Statements run through it are judged as they happen: see [`crate::Conn`].
pub type Lease = pool_core::lease::Lease<MySql>;

impl MySqlOptions {
    /// A pool builder with these options set, to set more of them.
    ///
    /// The hosts of a DNS service are not known yet: [`MySqlOptions::open`] looks them up.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or need a feature that is not compiled in.
    pub fn pool_builder(&self) -> Result<PoolBuilder<MySql>, ConfigError> {
        fn set<B, T>(builder: B, value: Option<T>, with: impl Fn(B, T) -> B) -> B {
            match value {
                Some(value) => with(builder, value),
                None => builder,
            }
        }
        type B = PoolBuilder<MySql>;
        let probes = self.probe_interval.map(|time| Some(time).filter(|time| !time.is_zero()));
        let builder = pool_core::pool::Pool::builder(self.driver()?)
            .hosts(self.hosts.iter().cloned())
            .failover(self.failover()?)
            .read_fallback_primary(self.reads_fall_back_to_source())
            .max_lag(self.max_lag)
            .retry_reads(self.retry_reads.unwrap_or(false));
        let builder = match self.role_check {
            Some(RoleCheck::Static) => builder.roles(Roles::Static),
            _ => builder,
        };
        let builder = set(builder, self.pool_name.as_deref(), B::name);
        let builder = set(builder, self.max_pool_size, B::max_size);
        let builder = set(builder, self.min_idle, B::min_idle);
        let builder = set(builder, self.max_connecting, B::max_connecting);
        let builder = set(builder, self.connect_limit(), B::connect_timeout);
        let builder = set(builder, self.acquire_timeout, B::acquire_timeout);
        let builder = set(builder, self.validation_timeout, B::check_timeout);
        let builder = set(builder, self.idle_timeout, B::idle_timeout);
        let builder = set(builder, self.max_lifetime, B::max_lifetime);
        let builder = set(builder, self.keepalive_time, B::keepalive);
        let builder = set(builder, self.alive_bypass_window, B::bypass_window);
        let builder = set(builder, probes, B::probe_interval);
        let builder = set(builder, self.probe_failures, B::probe_failures);
        Ok(set(builder, self.endpoint_mode, B::endpoint_mode))
    }

    /// Opens a pool and makes sure that it can serve.
    ///
    /// A DNS service is asked for its hosts now, and again at an interval and when a host fails. One host
    /// of an ordered list has to be reachable. Of configured sources and replicas one each has to be,
    /// unless `allow_source_down_connections` or `allow_replica_down_connections` lets one side be
    /// missing; never both.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open(&self) -> Result<Pool, OpenError> {
        let pool = self.connect_later().await?;
        if self.is_replication() {
            self.both_sides(&pool).await?;
        } else {
            any_host(&pool).await?;
        }
        Ok(pool)
    }

    /// Opens a pool without making sure that it can serve. A DNS service is asked for its hosts.
    ///
    /// # Errors
    ///
    /// If the options cannot be used, or a DNS service gave no hosts.
    pub async fn connect_later(&self) -> Result<Pool, OpenError> {
        #[cfg(feature = "srv")]
        if let Some(service) = self.srv_service()? {
            let hosts = service.resolve().await?;
            let pool = build(self.pool_builder()?.hosts(hosts))?;
            pool.follow(service, self.srv_refresh_interval.unwrap_or(SRV_INTERVAL));
            return Ok(pool);
        }
        Ok(build(self.pool_builder()?)?)
    }

    async fn both_sides(&self, pool: &Pool) -> Result<(), OpenError> {
        let of = |role: Role| self.hosts.iter().filter(move |host| host.role() == role);
        let replica = one_of(pool, of(Role::Replica)).await;
        let source = one_of(pool, of(Role::Source)).await;
        match (source, replica) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(error)) if !self.allows_replica_down() => Err(error.into()),
            (Err(error), Ok(())) if !self.allows_source_down() => Err(error.into()),
            (Err(error), Err(_)) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Builds the pool; names options as the user wrote them.
fn build(builder: PoolBuilder<MySql>) -> Result<Pool, ConfigError> {
    builder.build().map_err(|error| {
        let key = match error.option() {
            "max_size" => "maxPoolSize",
            "min_idle" => "minIdle",
            "max_connecting" => "maxConnecting",
            "keepalive" => "keepaliveTime",
            "max_lifetime" => "maxLifetime",
            other => other,
        };
        ConfigError::new(key, error.reason())
    })
}

async fn any_host(pool: &Pool) -> Result<(), Error> {
    match pool.get_read().await {
        Ok(_) => Ok(()),
        // A read-only endpoint, or roles that are not known yet.
        Err(_) => pool.get().await.map(|_| ()),
    }
}

/// The error of the last host if none can be reached.
async fn one_of(pool: &Pool, hosts: impl Iterator<Item = &Host>) -> Result<(), Error> {
    let mut last = None;
    for host in hosts {
        match pool.get_host(host.name()).await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(()), Err)
}

/// Why a pool could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The options cannot be used.
    Config(ConfigError),
    /// No connection could be had.
    Pool(Error),
    /// A session found no host.
    Session(Box<crate::session::Failed>),
    /// A DNS service gave no hosts.
    #[cfg(feature = "srv")]
    Srv(crate::srv::SrvError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Pool(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
            #[cfg(feature = "srv")]
            Self::Srv(error) => error.fmt(f),
        }
    }
}

impl StdError for OpenError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Pool(error) => Some(error),
            Self::Session(error) => Some(error),
            #[cfg(feature = "srv")]
            Self::Srv(error) => Some(error),
        }
    }
}

impl From<ConfigError> for OpenError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Pool(error)
    }
}

#[cfg(feature = "srv")]
impl From<crate::srv::SrvError> for OpenError {
    fn from(error: crate::srv::SrvError) -> Self {
        Self::Srv(error)
    }
}
