//! The failover walk as a manager for `bb8` and `deadpool`.

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use crate::access::Access;
use crate::builder::PoolBuilder;
use crate::config::ConfigError;
use crate::driver::{Driver, Liveness, Tidy};
use crate::error::{Error, ErrorKind, Phase};
use crate::interop::managed::Managed;
use crate::lease::Lease;
use crate::pool::Pool;

/// Connects that a foreign pool may have under way at once; its own limit is the one that counts.
const CONNECTS: usize = 64;

/// Places for connections on their way: being opened, or left over by a caller that went away.
const PLACES: usize = 4 * CONNECTS;

/// Makes connections by the failover walk, and judges them, for a pool of another crate.
///
/// It wants the same settings as a [`Pool`]; those about idle connections have no effect, since the other
/// pool keeps them. One manager serves one access: writes, or reads by [`FailoverManager::for_reads`].
///
/// What the other pools cannot express: `bb8` shows a connect error to nobody (every caller sees a
/// time-out; [`FailoverManager::last_error`] has the cause), neither names a host or a role per checkout,
/// and neither closes the idle connections of a failed host at once: each is refused, without a round
/// trip, when it is next looked at. In `bb8`, keep `test_on_check_out(true)`, its default: tidying
/// happens there.
pub struct FailoverManager<D: Driver> {
    pool: Pool<D>,
    access: Access,
    last_error: parking_lot::Mutex<Option<Error>>,
}

impl<D: Driver> FailoverManager<D> {
    /// A manager of connections that take writes.
    ///
    /// # Errors
    ///
    /// As [`PoolBuilder::build`].
    pub fn new(settings: PoolBuilder<D>) -> Result<Self, ConfigError> {
        let pool = settings.min_idle(0).max_size(PLACES).max_connecting(CONNECTS).build()?;
        Ok(Self { pool, access: Access::Write, last_error: parking_lot::Mutex::new(None) })
    }

    /// A manager of connections for reads, balanced over the replicas.
    ///
    /// # Errors
    ///
    /// As [`PoolBuilder::build`].
    pub fn for_reads(settings: PoolBuilder<D>) -> Result<Self, ConfigError> {
        Ok(Self { access: Access::Read, ..Self::new(settings)? })
    }

    /// The pool behind the walk: its status, events and hosts. Its counts cover connects only.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// The last error of a connect or a check.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        self.last_error.lock().clone()
    }

    /// Opens a connection: on the active host, or wherever the walk ends. Callers share one walk.
    pub(super) async fn open(&self) -> Result<Managed<D>, Error> {
        let lease = match self.access {
            Access::Read => self.pool.get_read().await,
            _ => self.pool.get().await,
        };
        let lease = lease.inspect_err(|error| *self.last_error.lock() = Some(error.clone()))?;
        Ok(Lease::into_managed(lease))
    }

    /// Decides whether a connection may be handed out: a look first, then tidying or a ping where due,
    /// each within its deadline.
    ///
    /// Cancellation safety: `in_flight` stays set, so the connection is never handed out again.
    pub(super) async fn check(
        &self,
        conn: &mut Managed<D>,
        idle: Option<Duration>,
    ) -> Result<(), Error> {
        if conn.is_void() {
            return Err(self.refuse("its host failed or changed its role after it was opened"));
        }
        let config = &self.pool.cluster().config;
        let driver = std::sync::Arc::clone(&conn.home.driver);
        match driver.peek(&mut conn.conn) {
            Liveness::Dead => return Err(self.refuse("found closed")),
            Liveness::Dirty => {
                conn.in_flight = true;
                let tidied =
                    timeout(config.tidy_timeout, driver.tidy(&mut conn.conn, Tidy::Rollback));
                let tidied = tidied.await;
                if !matches!(tidied, Ok(Ok(()))) || driver.peek(&mut conn.conn) != Liveness::Clean {
                    return Err(self.refuse("could not be tidied"));
                }
            }
            Liveness::Clean => {
                let now = conn.home.clock.now();
                let idle = idle.unwrap_or_else(|| now.saturating_sub(conn.heard));
                if idle >= config.bypass_window {
                    conn.in_flight = true;
                    let home = std::sync::Arc::clone(&conn.home);
                    let Err((verdict, message)) = home.knock(&mut conn.conn).await else {
                        self.vouch(conn);
                        return Ok(());
                    };
                    let refused = self.refuse(&message);
                    // What voids every connection to the host spares each of them a check in vain.
                    if let Some(watch) = home.watch.upgrade() {
                        let cause = home.cause(Phase::Validating, verdict, message, None);
                        watch.reported(home.id(), conn.generation, cause);
                    }
                    return Err(refused);
                }
            }
        }
        self.vouch(conn);
        Ok(())
    }

    /// The connection is good now.
    fn vouch(&self, conn: &mut Managed<D>) {
        conn.in_flight = false;
        conn.heard = conn.home.clock.now();
    }

    fn refuse(&self, why: &str) -> Error {
        let now = self.pool.cluster().clock.now();
        let error = self.pool.error(ErrorKind::NoHost, Phase::Validating, self.access, now);
        let error = error.with_detail(format!("connection refused: {why}"));
        *self.last_error.lock() = Some(error.clone());
        error
    }
}

impl<D: Driver> fmt::Debug for FailoverManager<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailoverManager").field("pool", &self.pool).finish_non_exhaustive()
    }
}
