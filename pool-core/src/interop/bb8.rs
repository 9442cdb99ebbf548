//! `bb8` both ways.

use std::fmt;

use bb8::ManageConnection;

use crate::driver::{ConnectRequest, Driver, Lag, Liveness, Probe, Tidy};
use crate::error::Error;
use crate::host::{Host, Role};
use crate::interop::foreign::{Ask, Asking, Foreign, ForeignError, Managers};
use crate::interop::{FailoverManager, Managed};
use crate::verdict::Verdict;

impl<D: Driver> ManageConnection for FailoverManager<D> {
    type Connection = Managed<D>;
    type Error = Error;

    async fn connect(&self) -> Result<Managed<D>, Error> {
        self.open().await
    }

    async fn is_valid(&self, conn: &mut Managed<D>) -> Result<(), Error> {
        self.check(conn, None).await
    }

    /// Runs on every return, so it also stamps the time.
    fn has_broken(&self, conn: &mut Managed<D>) -> bool {
        let broken = conn.is_broken();
        if !broken {
            conn.heard = conn.home.clock.now();
        }
        broken
    }
}

/// Any `bb8` manager as a [`Driver`]: one manager per host.
///
/// What a manager cannot tell is taken as follows: its `has_broken` is the look at a connection, its
/// `is_valid` is check and probe, the configured role is the role unless [`Bb8Driver::ask_role`] asks the
/// server, and every error says [`Verdict::HostDown`] unless [`Bb8Driver::judge`] knows better. Nothing
/// tells whether a query was abandoned half-way: the manager's `has_broken` must know.
pub struct Bb8Driver<M: ManageConnection> {
    managers: Managers<M, M::Error>,
    ask: Option<Ask<M::Connection, M::Error>>,
}

impl<M: ManageConnection> Bb8Driver<M> {
    /// Makes the manager of each host by `manager`, when the host is first connected to.
    pub fn new(manager: impl Fn(&Host) -> M + Send + Sync + 'static) -> Self {
        Self { managers: Managers::new(manager), ask: None }
    }

    /// Judges the manager's errors.
    #[must_use]
    pub fn judge(mut self, verdict: impl Fn(&M::Error) -> Verdict + Send + Sync + 'static) -> Self {
        self.managers.judge(verdict);
        self
    }

    /// Asks the server for its role. Defaults to the configured role.
    #[must_use]
    pub fn ask_role(
        mut self,
        ask: impl for<'a> Fn(&'a mut M::Connection) -> Asking<'a, Role, M::Error>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }
}

impl<M: ManageConnection> fmt::Debug for Bb8Driver<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bb8Driver").field("managers", &self.managers).finish_non_exhaustive()
    }
}

impl<M: ManageConnection> Driver for Bb8Driver<M> {
    type Conn = Foreign<M::Connection, M>;
    type Error = ForeignError;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<Self::Conn, ForeignError> {
        let manager = self.managers.of(request.host);
        let conn = manager.connect().await.map_err(|error| self.managers.wrap(&error))?;
        Ok(Foreign::new(conn, manager, request.host.role(), request.reporter))
    }

    fn peek(&self, conn: &mut Self::Conn) -> Liveness {
        let (inner, manager, ()) = conn.parts();
        if manager.has_broken(inner) { Liveness::Dead } else { Liveness::Clean }
    }

    async fn tidy(&self, conn: &mut Self::Conn, _how: Tidy) -> Result<(), ForeignError> {
        self.ping(conn).await
    }

    async fn probe(&self, conn: &mut Self::Conn) -> Result<Probe, ForeignError> {
        let role = match &self.ask {
            Some(ask) => ask(conn.parts().0).await.map_err(|error| self.managers.wrap(&error))?,
            None => {
                self.ping(conn).await?;
                conn.role()
            }
        };
        Ok(Probe::new(role, Lag::NotAsked))
    }

    async fn ping(&self, conn: &mut Self::Conn) -> Result<(), ForeignError> {
        let (inner, manager, ()) = conn.parts();
        manager.is_valid(inner).await.map_err(|error| self.managers.wrap(&error))
    }

    fn verdict(&self, error: &ForeignError) -> Verdict {
        error.verdict()
    }
}
