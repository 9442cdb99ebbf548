//! Statements of a session, each routed for itself.

use std::sync::Arc;

use crate::failover::{Call, Failure, Ran, Statement};
use crate::host::Host;
use crate::lease::Lease;
use crate::route::{Answer, HintFate, Pin, Pins, Route, SessionState, Target, Why};
use crate::session::routing::Way;
use crate::session::{Last, Session, SessionDriver, SessionError, Work};
use crate::statement::{Consistency, Explanation, Has, StatementError};

/// Routing. Without [`SessionOptions::route_statements`](crate::failover::SessionOptions::route_statements) these
/// settings have no effect, and every statement runs on the main connection.
impl<D: SessionDriver> Session<D> {
    /// Sets how routed reads see the session's own writes. Defaults to [`Consistency::Eventual`].
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        if let Some(routing) = &mut self.routing {
            routing.caller.set_consistency(consistency);
        }
        self
    }

    /// Sets whether a routed read whose link broke runs once more on another host, while the pool's budget
    /// lasts. Defaults to the setting of the pool.
    #[must_use]
    pub fn retry_reads(mut self, on: bool) -> Self {
        if let Some(routing) = &mut self.routing {
            routing.caller.set_retries(on);
        }
        self
    }

    /// Makes routed reads see everything up to `token`, which another request of the same user left. They wait
    /// for up to a second, if [`Consistency::Token`] did not say otherwise before.
    #[must_use]
    pub fn at_least(mut self, token: D::Token) -> Self {
        if let Some(routing) = &mut self.routing {
            routing.caller.set_token(token);
        }
        self
    }

    /// The position of the session's last write, to carry to the caller's next request; `None` before a
    /// write, and without [`Consistency::Token`].
    #[must_use]
    pub fn token(&self) -> Option<&D::Token> {
        self.routing.as_ref()?.caller.token()
    }

    /// What binds the session to its connection now.
    #[must_use]
    pub fn pins(&self) -> Pins {
        self.seen_by_router().pins
    }

    /// The host that the last statement ran on, which may be another one than [`Session::host`]. `None`
    /// without a connection.
    #[must_use]
    pub fn served_by(&self) -> Option<&Host> {
        let beside = self.routing.as_ref().and_then(|routing| routing.beside.as_ref());
        beside.map(Lease::host).or_else(|| self.host())
    }

    /// Whether a hint stands in `sql`, so that it has to be routed.
    #[must_use]
    pub fn is_hinted(&self, sql: &str) -> bool {
        let route = || self.pool.router().route(sql, &SessionState::new());
        self.routing.is_some() && route().hint != HintFate::None
    }

    /// Explains where `sql` would run in this session now. Changes nothing.
    #[must_use]
    pub fn explain(&self, sql: &str) -> Explanation {
        let state = self.seen_by_router();
        let mut route = self.pool.router().route(sql, &state);
        let asks = self.routing.as_ref().is_some_and(|routing| routing.way(&route) == Way::Beside);
        if asks {
            // For what is on that connection, whatever else is known.
            route.target = Target::Held;
            route.why = route.pin.map_or(route.why, Why::Pinned);
        }
        let held = self.served_by().map(Host::shared_name);
        self.pool.explain_route(route, asks || !state.pins.is_empty(), held)
    }

    /// Runs a statement where it belongs: a read that nothing binds on a replica, for as long as it takes;
    /// everything else on the main connection; all that follows a statement which binds the session (an
    /// open transaction, a lock, a temporary table, a user variable …) on the connection of that statement.
    ///
    /// `work` gets the connection and the text for the server; `kind` says whether it may end the
    /// transaction by itself. It runs a second time only for a read that is repeated.
    ///
    /// The connection of a read is kept until the next statement of the session, which may ask it for row
    /// counts or warnings. A session with a database or an isolation level of its own, or without
    /// autocommit, stays on its main connection. A read that has to see the session's own writes is served by
    /// the source even if the main connection has moved to a replica, while a source is known.
    ///
    /// Cancellation safety: as the session; a read that is dropped costs its connection at most.
    ///
    /// # Errors
    ///
    /// As [`Session::execute`]. A routed read that fails leaves the session as it was:
    /// [`Failure::NoReader`], [`Failure::ReadLost`], or [`Failure::TransactionLost`] if a read-only
    /// transaction went with it. [`Failure::Refused`] for a hint that is not allowed here.
    pub async fn run<T, W>(
        &mut self,
        sql: &str,
        kind: Statement,
        work: W,
    ) -> Result<T, SessionError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let (pool, state) = (self.pool.clone(), self.seen_by_router());
        let Some(routing) = &mut self.routing else {
            let text = sql.to_owned();
            return self.execute(kind, move |conn| work(conn, text)).await;
        };
        let mut route = pool.router().route(sql, &state);
        pool.route_counts().count(&route);
        if let Target::Refused(refusal) = route.target {
            return Err(self.refuse(Failure::Refused(refusal)));
        }
        if route.target != Target::Held && !routing.pins.pins().is_empty() {
            // It moves the session (`USE name@replica`): what bound it stays behind.
            routing.leave();
        }
        let way = if self.logical.is_closed() { Way::Main } else { routing.way(&route) };
        match way {
            Way::Beside => {
                route.target = Target::Held;
                return self.run_beside(&route, kind, work).await;
            }
            Way::Gone => return Err(self.gone()),
            Way::Main => {}
            Way::Other => {
                if let Some(value) = self.run_elsewhere(&route, kind, &work).await? {
                    return Ok(value);
                }
                // The source is to serve it, which is here.
                route.target = Target::Source;
            }
        }
        self.send_main(Some(&route));
        let text = route.sent.to_string();
        let result = self.run_main(kind, move |conn| work(conn, text)).await;
        self.after_main(Some(&route), result.is_ok()).await;
        result
    }

    /// A call other than a statement: where the session is bound.
    pub(super) async fn call(&mut self, call: Call) -> Result<(), SessionError<D::Error>> {
        if let Some(routing) = &mut self.routing {
            match routing.held() {
                // It ends the transaction there, and the next one may write.
                Way::Beside if call == Call::Begin && routing.only_read() => routing.leave(),
                Way::Beside => return self.call_beside(call).await,
                Way::Gone => return self.acknowledge(&call),
                Way::Main | Way::Other => {}
            }
        }
        self.drive_main(call).await
    }

    /// The session as the router must see it: what statements bound, and what is set by methods.
    fn seen_by_router(&self) -> SessionState {
        let logical = &self.logical;
        let mut state = match &self.routing {
            Some(routing) => routing.pins.session(),
            None => SessionState::new(),
        };
        for (pin, holds) in [
            (Pin::Transaction, logical.in_transaction() || logical.transaction_lost()),
            (Pin::AutocommitOff, !logical.autocommit()),
            (Pin::SessionSetting, logical.database().is_some() || logical.isolation().is_some()),
        ] {
            if holds {
                state = state.pinned_by(pin);
            }
        }
        state
    }

    /// Runs a statement on a connection that is not the main one; `None` if the source has to serve it.
    async fn run_elsewhere<T, W>(
        &mut self,
        route: &Route<'_>,
        kind: Statement,
        work: &W,
    ) -> Result<Option<T>, SessionError<D::Error>>
    where
        T: Send,
        W: for<'c> Fn(&'c mut D::Conn, String) -> Work<'c, T, D::Error> + Send + Sync,
    {
        let pool = self.pool.clone();
        let main = self.logical.host();
        let Some(routing) = &mut self.routing else { return Ok(None) };
        // Given back first: one session never holds two connections beside its own.
        routing.let_go();
        if routing.wrote {
            // It was given up half-way.
            routing.give_up_write();
        }
        let has = Has::Main(main);
        let lease = match route.target {
            Target::Host(name) => match pool.hinted(name) {
                Ok(slots) if Some(slots.id()) == main => Ok(None),
                Ok(_) => pool.get_host(name).await.map(Some),
                Err(error) => Err(error),
            },
            _ => match routing.caller.lease(&pool, route, &[], has).await {
                Ok(None) if routing.caller.minds(route) => pool.source_beside(main).await,
                lease => lease,
            },
        };
        let mut lease = match lease {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.unserved(error)),
        };
        // A session without autocommit is bound to its main connection.
        if let Err(error) = pool.cluster().driver.stand_alone(&mut lease).await {
            let host = lease.host().shared_name();
            return Err(self.failed_beside(host, error, Failure::ReadLost));
        }
        if !route.is_retry_safe() {
            routing.beside = Some(lease);
            return self.run_beside(route, kind, work).await.map(Some);
        }
        routing.pins.sent(route);
        match routing.caller.read(&pool, route, has, lease, work).await {
            Ok(Some((value, lease))) => {
                // A plain read binds nothing, whatever the settings of its connection.
                self.keep_beside(lease, &route.effect, Answer::Ok(None)).await;
                Ok(Some(value))
            }
            Ok(None) => Ok(None),
            Err(
                StatementError::Driver { host, error }
                | StatementError::NotWritable { host, error },
            ) => Err(self.failed_beside(host, error, Failure::ReadLost)),
            Err(StatementError::Pool(error)) => Err(self.unserved(error)),
            Err(StatementError::NeedsSession(_)) => Ok(None),
        }
    }

    fn unserved(&self, error: crate::error::Error) -> SessionError<D::Error> {
        let mut failed = self.refuse(Failure::NoReader);
        failed.pool = Some(error);
        failed
    }

    /// An error of a statement that ran on another host. `lost` is what it is if the link broke.
    fn failed_beside(
        &self,
        host: Arc<str>,
        error: D::Error,
        lost: Failure,
    ) -> SessionError<D::Error> {
        let verdict = self.pool.cluster().driver.verdict(&error);
        let failure = match Ran::failed(verdict, true) {
            Ran::Lost { .. } => lost,
            Ran::NotWritable => Failure::NotWritable,
            _ => Failure::Statement,
        };
        self.failed(failure, Some(Last { host: Some(host), error }))
    }
}
