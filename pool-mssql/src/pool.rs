//! From options to a pool: which settings of the pool the options decide.

use std::time::Duration;

use pool_core::builder::PoolBuilder;
use pool_core::failover::{Mirrored, Ordered};
use pool_core::route::{Dialect, StatementRouter};

use crate::driver::MsSql;
use crate::options::{MsSqlOptions, OptionsError};
use crate::policy::PairPolicy;

/// A pool of connections to SQL Server.
pub type Pool = pool_core::pool::Pool<MsSql>;

/// A connection on loan from a [`Pool`].
pub type Lease = pool_core::lease::Lease<MsSql>;

/// Stands for "never" where the pool adds to it.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The default of `Max Pool Size` (SqlClient).
const MAX_POOL_SIZE: u32 = 100;

/// An idle connection is checked after this long, or sooner if it does not live that long.
const KEEPALIVE: Duration = Duration::from_secs(120);

impl MsSqlOptions {
    /// A pool with these options, still to be built: hosts, failover policy, sizes and times are set, the
    /// rest has the pool's defaults.
    ///
    /// One server, a listener or a mirrored pair fail over by SQL Server's connection retry algorithm
    /// ([`Mirrored`]); with [`MsSqlOptions::replica`] the hosts are tried in order. The login timeout is
    /// the time for one checkout. The partners of a pair are asked for their role when they are logged in to
    /// for a walk, not at an interval.
    ///
    /// # Errors
    /// As [`MsSqlOptions::validate`].
    pub fn pool_builder(&self) -> Result<PoolBuilder<MsSql>, OptionsError> {
        let driver = self.driver()?;
        let policy = PairPolicy { inner: self.mirrored()?, pair: driver.shared_pair() };
        let login_timeout = self.login_timeout.unwrap_or(FOREVER);
        let lifetime = self.connection_lifetime.unwrap_or(FOREVER);
        let builder = Pool::builder(driver)
            .hosts(self.hosts())
            .router(StatementRouter::new(Dialect::TSql))
            .max_size(self.max_pool_size.unwrap_or(MAX_POOL_SIZE) as usize)
            .min_idle(self.min_pool_size.unwrap_or(0) as usize)
            .acquire_timeout(login_timeout)
            .connect_timeout(self.connect_timeout())
            .max_lifetime(lifetime)
            .keepalive(KEEPALIVE.min(lifetime));
        // A mirror refuses every login, and a wrong password must not reach the partner: who is asked, and
        // when, is the algorithm's to say.
        let builder = if self.is_pair() { builder.probe_interval(None) } else { builder };
        Ok(if self.replicas.is_empty() {
            builder.failover(policy)
        } else {
            builder.failover(Ordered::default())
        })
    }

    /// The failover policy of these options.
    ///
    /// # Errors
    /// [`OptionsError::Value`] if a time cannot be used.
    pub fn mirrored(&self) -> Result<Mirrored, OptionsError> {
        Mirrored::builder()
            .login_timeout(self.login_timeout.unwrap_or(Duration::ZERO))
            .delay_rule(self.delay_rule)
            .min_slice(self.min_slice)
            .connect_retry_count(self.connect_retry_count)
            .connect_retry_interval(self.connect_retry_interval)
            .build()
            .map_err(|error| OptionsError::value(error.option(), error.to_string()))
    }

    /// One connect outside a walk: to the active side, which answered last. It gets the first slice of
    /// the walk that follows if it fails, when there is a partner to go to.
    fn connect_timeout(&self) -> Duration {
        match self.login_timeout {
            Some(limit) if self.is_pair() => (limit * 8 / 100).max(self.min_slice),
            Some(limit) => limit,
            None => Duration::from_secs(15),
        }
    }
}
