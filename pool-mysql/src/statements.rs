//! Routed statements: each goes where its kind, its hint and the caller's own writes say.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Error as DriverError, Params};
use pool_core::error::Error as PoolError;
use pool_core::host::HostId;
use pool_core::retry::RetryBudget;
use pool_core::route::{Pin, Route, Target};
use pool_core::session::Work;

use crate::conn::Conn;
use crate::pool::{Lease, Pool};
use crate::token::Token;

/// How reads see the caller's own writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// Reads may be behind by the lag of their replica.
    #[default]
    Eventual,
    /// After a write, a read waits on its replica for that write, up to this bound, then uses the source.
    /// Costs one round trip after each write and one before each read on a replica.
    Token(Duration),
    /// Reads go to the source for this long after a write. Costs nothing, and promises only as much as
    /// the replicas' lag stays below it.
    Window(Duration),
}

/// Statements of one caller (a web request, a job), routed one by one.
///
/// A statement that would bind a session (`BEGIN`, `SET`, a temporary table, `LAST_INSERT_ID()` …) is refused:
/// its effect would be lost with the lease. Use [`Pool::get`] or a [`Session`](crate::Session) for those.
#[derive(Clone, Debug)]
pub struct Statements {
    pool: Pool,
    consistency: Consistency,
    retries: Option<Arc<RetryBudget>>,
    token: Option<Token>,
    wrote: Option<Instant>,
}

impl Statements {
    /// Statements on `pool`: eventual consistency, no retries.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            consistency: Consistency::default(),
            retries: None,
            token: None,
            wrote: None,
        }
    }

    /// Sets how reads see this caller's writes. Defaults to [`Consistency::Eventual`].
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Lets a read whose link broke run once more on another host, while the budget lasts. Share one
    /// budget per pool. Only for statements that are certain to be plain reads; never for writes.
    #[must_use]
    pub fn retry_reads(mut self, budget: &Arc<RetryBudget>) -> Self {
        self.retries = Some(Arc::clone(budget));
        self
    }

    /// Makes reads see everything up to `token`, which another request of the same user left.
    #[must_use]
    pub fn at_least(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The position of the last write, to carry to the caller's next request; `None` before a write, and
    /// without [`Consistency::Token`].
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Runs a text statement and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query<T>(&mut self, sql: &str) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        self.run(sql, |conn, text| Box::pin(conn.query(text))).await
    }

    /// Runs a text statement and returns its first row.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query_first<T>(&mut self, sql: &str) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        self.run(sql, |conn, text| Box::pin(conn.query_first(text))).await
    }

    /// Runs a text statement and drops its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn query_drop(&mut self, sql: &str) -> Result<(), StatementError> {
        self.run(sql, |conn, text| Box::pin(conn.query_drop(text))).await
    }

    /// Runs a statement with parameters and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec<T>(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        let params = params.into();
        self.run(sql, move |conn, text| Box::pin(conn.exec(text, params.clone()))).await
    }

    /// Runs a statement with parameters and returns its first row.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec_first<T>(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Option<T>, StatementError>
    where
        T: FromRow + Send + 'static,
    {
        let params = params.into();
        self.run(sql, move |conn, text| Box::pin(conn.exec_first(text, params.clone()))).await
    }

    /// Runs a statement with parameters and drops its rows.
    ///
    /// # Errors
    ///
    /// See [`StatementError`].
    pub async fn exec_drop(
        &mut self,
        sql: &str,
        params: impl Into<Params> + Send,
    ) -> Result<(), StatementError> {
        let params = params.into();
        self.run(sql, move |conn, text| Box::pin(conn.exec_drop(text, params.clone()))).await
    }

    /// Cancellation safety: nothing is lost but the statement; its connection is not handed out again.
    async fn run<T, W>(&mut self, sql: &str, work: W) -> Result<T, StatementError>
    where
        T: Send,
        W: for<'c> Fn(&'c mut Conn, String) -> Work<'c, T, DriverError> + Send + Sync,
    {
        let pool = self.pool.clone();
        let route = pool.route(sql);
        if let Some(pin) = route.pin {
            return Err(StatementError::NeedsSession(pin));
        }
        let retry_safe = route.is_retry_safe();
        if let (true, Some(budget)) = (retry_safe, &self.retries) {
            budget.deposit();
        }
        let mut lease = self.lease_for(&route, &[]).await?;
        let result = match work(&mut lease, route.sent.to_string()).await {
            Err(error) if retry_safe && self.may_repeat(&lease, &error) => {
                let failed = lease.host().id();
                drop(lease);
                // The first error is the one to report if nobody else can serve.
                match self.lease_for(&route, &[failed]).await {
                    Ok(other) => lease = other,
                    Err(_) => return Err(error.into()),
                }
                work(&mut lease, route.sent.to_string()).await
            }
            result => result,
        }?;
        if !route.kind.is_read() && route.target != Target::Replica {
            self.wrote = Some(Instant::now());
            if matches!(self.consistency, Consistency::Token(_)) {
                self.token = Some(Token::of(&mut lease).await?);
            }
        }
        Ok(result)
    }

    /// Only a lost link, and only while the budget lasts.
    fn may_repeat(&self, lease: &Lease, error: &DriverError) -> bool {
        let lost = !crate::classify(error).keeps_connection() || lease.raw().is_disconnected();
        lost && self.retries.as_ref().is_some_and(|budget| budget.withdraw())
    }

    async fn lease_for(
        &self,
        route: &Route<'_>,
        tried: &[HostId],
    ) -> Result<Lease, StatementError> {
        if route.target != Target::Replica {
            return Ok(self.pool.get_routed(route).await?);
        }
        match self.consistency {
            Consistency::Window(window) if self.wrote.is_some_and(|at| at.elapsed() < window) => {
                Ok(self.pool.get().await?)
            }
            Consistency::Token(limit) => {
                let mut lease = self.pool.get_read_except(tried).await?;
                let Some(token) = self.token.as_ref().filter(|_| !lease.is_writable()) else {
                    return Ok(lease);
                };
                // A replica that cannot say is as good as one that is behind.
                match token.reached_by(&mut lease, limit).await {
                    Ok(true) => Ok(lease),
                    Ok(false) | Err(_) => {
                        drop(lease);
                        Ok(self.pool.get().await?)
                    }
                }
            }
            _ => Ok(self.pool.get_read_except(tried).await?),
        }
    }
}

/// Why a routed statement failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum StatementError {
    /// The server or the link. Whether a write was done is unknown if the link broke.
    Driver(DriverError),
    /// It would bind a session, and there is none: use a lease or a session.
    NeedsSession(Pin),
    /// No connection could be had; the statement did not run.
    Pool(PoolError),
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => error.fmt(f),
            Self::NeedsSession(pin) => {
                write!(
                    f,
                    "the statement binds a session ({}); use a lease or a session",
                    pin.as_str()
                )
            }
            Self::Pool(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StatementError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Driver(error) => Some(error),
            Self::NeedsSession(_) => None,
            Self::Pool(error) => Some(error),
        }
    }
}

impl From<DriverError> for StatementError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<PoolError> for StatementError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}
