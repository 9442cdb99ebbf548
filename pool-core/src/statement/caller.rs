//! One caller's routed reads: they see its own writes, and may be repeated on another host.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::driver::{Driver, Liveness};
use crate::error::Error;
use crate::host::HostId;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::read::ReadWish;
use crate::route::Route;
use crate::statement::StatementError;
use crate::verdict::Verdict;

/// The future of a statement on a connection.
pub type Work<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// How reads see the caller's own writes (section 7 of the routing rules).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// Reads may be behind by the lag of their replica.
    #[default]
    Eventual,
    /// All reads go to the source, save for those that a hint sends elsewhere.
    Source,
    /// After a write, a read waits on its replica for that write, up to this bound, then uses the source.
    /// Costs one round trip after each write and one before each read on a replica.
    Token(Duration),
    /// Reads go to the source for this long after a write. Costs nothing, and promises only as much as
    /// the replicas' lag stays below it.
    Window(Duration),
}

/// What a driver must be able to do so that reads see the caller's own writes.
pub trait TokenDriver: Driver {
    /// A position in the history of writes: everything up to it has happened.
    type Token: Clone + fmt::Debug + Send + Sync + 'static;

    /// The position of the host behind `conn`, as of now. `None` if the server has none: reads then stay on
    /// the source after a write.
    fn position(
        &self,
        conn: &mut Self::Conn,
    ) -> impl Future<Output = Result<Option<Self::Token>, Self::Error>> + Send;

    /// Waits on the host behind `conn` until it has everything up to `token`, for at most `limit`. `false`
    /// if it has not by then.
    fn reached(
        &self,
        conn: &mut Self::Conn,
        token: &Self::Token,
        limit: Duration,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Makes each statement on `conn` a transaction of its own, if the connection was set up otherwise. The
    /// pool puts it back. Defaults to doing nothing.
    fn stand_alone(
        &self,
        conn: &mut Self::Conn,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = conn;
        async { Ok(()) }
    }
}

/// What the caller of a read has already.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Has {
    /// A main connection, to this host if it is open. It serves what the source has to, and no second one
    /// is wanted there.
    Main(Option<HostId>),
    /// No connection.
    Nothing,
}

/// How long reads wait for a token if the caller did not say. (MySQL Router waits as long.)
const PATIENCE: Duration = Duration::from_secs(1);

/// What one caller wrote, and how its reads are to be served.
pub(crate) struct Caller<D: TokenDriver> {
    consistency: Consistency,
    retries: bool,
    token: Option<D::Token>,
    /// Wrote something whose position is not known: only the source is sure to have it.
    unplaced: bool,
    wrote: Option<Instant>,
}

impl<D: TokenDriver> Caller<D> {
    pub(crate) fn new(pool: &Pool<D>) -> Self {
        Self {
            consistency: Consistency::default(),
            retries: pool.retries_reads(),
            token: None,
            unplaced: false,
            wrote: None,
        }
    }

    pub(crate) fn set_consistency(&mut self, consistency: Consistency) {
        self.consistency = consistency;
    }

    pub(crate) fn set_retries(&mut self, on: bool) {
        self.retries = on;
    }

    /// The token counts, so reads that were content with anything wait for it from now on.
    pub(crate) fn set_token(&mut self, token: D::Token) {
        if self.consistency == Consistency::Eventual {
            self.consistency = Consistency::Token(PATIENCE);
        }
        self.token = Some(token);
    }

    pub(crate) fn token(&self) -> Option<&D::Token> {
        self.token.as_ref()
    }

    /// Whether this read has to see something that the caller wrote. A hint comes before that.
    pub(crate) fn minds(&self, route: &Route<'_>) -> bool {
        !route.is_hinted()
            && match self.consistency {
                Consistency::Eventual => false,
                Consistency::Source => true,
                Consistency::Token(_) => self.unplaced || self.token.is_some(),
                Consistency::Window(window) => self.wrote.is_some_and(|at| at.elapsed() < window),
            }
    }

    /// A connection for a read; `None` if the source has to serve it.
    pub(crate) async fn lease(
        &self,
        pool: &Pool<D>,
        route: &Route<'_>,
        tried: &[HostId],
        has: Has,
    ) -> Result<Option<Lease<D>>, Error> {
        let token = match self.consistency {
            _ if !self.minds(route) => None,
            Consistency::Token(limit) if !self.unplaced => {
                self.token.as_ref().map(|token| (token, limit))
            }
            // Only the source is sure to have it.
            _ => return Ok(None),
        };
        let mut wish = ReadWish::of(route);
        for host in tried {
            wish = wish.without(*host);
        }
        let lease = match has {
            Has::Nothing => pool.get_read_as(&wish).await?,
            Has::Main(host) => match pool.get_beside(wish, host).await? {
                Some(lease) => lease,
                None => return Ok(None),
            },
        };
        match token {
            Some((token, limit)) if !lease.is_writable() => {
                Ok(reached(pool, lease, token, limit).await)
            }
            _ => Ok(Some(lease)),
        }
    }

    /// Runs a read on `lease`, and once more elsewhere if its link breaks and that is allowed; `None` if
    /// then only the source is left. Gives back the lease that served it.
    pub(crate) async fn read<T, W>(
        &self,
        pool: &Pool<D>,
        route: &Route<'_>,
        has: Has,
        mut lease: Lease<D>,
        work: &W,
    ) -> Result<Option<(T, Lease<D>)>, StatementError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let repeatable = self.retries && route.is_retry_safe();
        if repeatable {
            pool.retry_budget().deposit();
        }
        let ran = work(&mut lease, route.sent.to_string()).await;
        let error = match ran {
            Ok(value) => return Ok(Some((value, lease))),
            Err(error) => error,
        };
        let host = lease.host().shared_name();
        let id = lease.host().id();
        let report = |error| Err(failed(pool, host, error));
        if !repeatable || !is_lost(pool, &mut lease, &error) || !pool.retry_budget().withdraw() {
            return report(error);
        }
        drop(lease);
        // The first error is the one to report if nobody else can serve.
        let mut lease = match self.lease(pool, route, &[id], has).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(None),
            Err(_) => return report(error),
        };
        match work(&mut lease, route.sent.to_string()).await {
            Ok(value) => Ok(Some((value, lease))),
            Err(error) => Err(failed(pool, lease.host().shared_name(), error)),
        }
    }

    /// Notes that the caller wrote, or may have, where nobody can be asked for the position: reads stay on
    /// the source until the next write.
    pub(crate) fn unplace(&mut self) {
        self.wrote = Some(Instant::now());
        self.unplaced = true;
    }

    /// Notes that the caller wrote on `conn`. `false` if the connection is of no use any more.
    ///
    /// The write itself has succeeded, so nothing here is an error: without a position, reads stay on the
    /// source.
    pub(crate) async fn wrote(&mut self, pool: &Pool<D>, conn: &mut D::Conn) -> bool {
        self.unplace();
        if !matches!(self.consistency, Consistency::Token(_)) {
            return true;
        }
        let cluster = pool.cluster();
        let limit = cluster.config.check_timeout;
        match timeout(limit, cluster.driver.position(conn)).await {
            Ok(Ok(Some(token))) => {
                self.token = Some(token);
                self.unplaced = false;
                true
            }
            Ok(Ok(None)) => true,
            Ok(Err(error)) => cluster.driver.verdict(&error).keeps_connection(),
            Err(_) => false,
        }
    }
}

impl<D: TokenDriver> Clone for Caller<D> {
    fn clone(&self) -> Self {
        Self { token: self.token.clone(), ..*self }
    }
}

impl<D: TokenDriver> fmt::Debug for Caller<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("consistency", &self.consistency)
            .field("retries", &self.retries)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The lease if its host has everything up to `token` in time. A replica that cannot say is as good as one
/// that is behind.
async fn reached<D: TokenDriver>(
    pool: &Pool<D>,
    mut lease: Lease<D>,
    token: &D::Token,
    limit: Duration,
) -> Option<Lease<D>> {
    let cluster = pool.cluster();
    // The server ends the waiting; this is for one that does not answer.
    let patience = limit.saturating_add(cluster.config.check_timeout);
    match timeout(patience, cluster.driver.reached(&mut lease, token, limit)).await {
        Ok(Ok(true)) => Some(lease),
        Ok(Ok(false) | Err(_)) => None,
        Err(_) => {
            lease.discard();
            None
        }
    }
}

/// The error of a statement that ran on that host.
pub(super) fn failed<D: Driver>(
    pool: &Pool<D>,
    host: Arc<str>,
    error: D::Error,
) -> StatementError<D::Error> {
    match pool.cluster().driver.verdict(&error) {
        Verdict::Demoted => StatementError::NotWritable { host, error },
        _ => StatementError::Driver { host, error },
    }
}

/// Whether the connection is of no use after this error.
pub(super) fn is_lost<D: Driver>(pool: &Pool<D>, lease: &mut Lease<D>, error: &D::Error) -> bool {
    let driver = &pool.cluster().driver;
    !driver.verdict(error).keeps_connection() || driver.peek(lease) == Liveness::Dead
}
