//! Statements of one caller, each routed for itself.

use std::fmt;

use crate::driver::Driver;
use crate::pool::Pool;
use crate::route::Target;
use crate::statement::caller::{failed, is_lost};
use crate::statement::{Caller, Consistency, Has, StatementError, TokenDriver, Work};

/// Statements of one caller (a web request, a job), routed one by one.
///
/// A driver's own crate wraps it with the driver's ways to run a statement. A statement that would bind a
/// session (`BEGIN`, `SET`, a temporary table, `LAST_INSERT_ID()` …) is refused: its effect would be lost with
/// the lease. Use [`Pool::get`] or a session for those.
pub struct Statements<D: TokenDriver> {
    pool: Pool<D>,
    caller: Caller<D>,
}

impl<D: TokenDriver> Statements<D> {
    /// Statements on `pool`: eventual consistency, reads repeated as the pool is set.
    #[must_use]
    pub fn new(pool: &Pool<D>) -> Self {
        Self { pool: pool.clone(), caller: Caller::new(pool) }
    }

    /// Sets how reads see this caller's writes. Defaults to [`Consistency::Eventual`].
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.caller.set_consistency(consistency);
        self
    }

    /// Sets whether a read whose link broke runs once more on another host, while the pool's budget lasts.
    /// Only what is certain to be a plain read; never a write.
    ///
    /// Defaults to the setting of the pool.
    #[must_use]
    pub fn retry_reads(mut self, on: bool) -> Self {
        self.caller.set_retries(on);
        self
    }

    /// Makes reads see everything up to `token`, which another request of the same user left. They wait for up
    /// to a second, if [`Consistency::Token`] did not say otherwise before.
    #[must_use]
    pub fn at_least(mut self, token: D::Token) -> Self {
        self.caller.set_token(token);
        self
    }

    /// The position of the last write, to carry to the caller's next request; `None` before a write, and
    /// without [`Consistency::Token`].
    #[must_use]
    pub fn token(&self) -> Option<&D::Token> {
        self.caller.token()
    }

    /// Runs `sql` with `work`, which gets the connection and the text for the server, and runs a second time
    /// only for a read that is repeated.
    ///
    /// Cancellation safety: nothing is lost but the statement; its connection is not handed out again as it is.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn run<T, W>(&mut self, sql: &str, work: W) -> Result<T, StatementError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let pool = self.pool.clone();
        let route = pool.route(sql);
        pool.route_counts().count(&route);
        if let Some(pin) = route.pin {
            return Err(StatementError::NeedsSession(pin));
        }
        let mut beside = match route.target {
            Target::Replica => self.caller.lease(&pool, &route, &[], Has::Nothing).await?,
            _ => None,
        };
        if route.is_retry_safe()
            && let Some(lease) = beside.take()
            && let Some((value, _)) =
                self.caller.read(&pool, &route, Has::Nothing, lease, &work).await?
        {
            return Ok(value);
        }
        let mut lease = match beside {
            Some(lease) => lease,
            None if route.target == Target::Replica => pool.get().await?,
            None => pool.lease_for(&route).await?,
        };
        // What a hint sends to a replica writes nothing, and the position there says nothing.
        let writes = route.kind.may_write() && !lease.is_replica();
        if writes {
            // Also if it is given up half-way, or fails and nobody knows how far it came.
            self.caller.unplace();
        }
        let host = lease.host().shared_name();
        let ran = match pool.cluster().driver.stand_alone(&mut lease).await {
            Ok(()) => work(&mut lease, route.sent.to_string()).await,
            Err(error) => Err(error),
        };
        let lost = ran.as_ref().is_err_and(|error| is_lost(&pool, &mut lease, error));
        if writes && !lost && !self.caller.wrote(&pool, &mut lease).await {
            lease.discard();
        }
        ran.map_err(|error| failed(&pool, host, error))
    }
}

impl<D: TokenDriver> Clone for Statements<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), caller: self.caller.clone() }
    }
}

impl<D: TokenDriver + Driver> fmt::Debug for Statements<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").field("caller", &self.caller).finish_non_exhaustive()
    }
}
