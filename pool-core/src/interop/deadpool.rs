//! `deadpool` both ways.

use std::fmt;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};

use crate::driver::{ConnectRequest, Driver, Lag, Liveness, Probe, Tidy};
use crate::error::Error;
use crate::host::{Host, Role};
use crate::interop::foreign::{Ask, Asking, Foreign, ForeignError, Managers};
use crate::interop::{FailoverManager, Managed};
use crate::verdict::Verdict;

impl<D: Driver> Manager for FailoverManager<D> {
    type Type = Managed<D>;
    type Error = Error;

    async fn create(&self) -> Result<Managed<D>, Error> {
        self.open().await
    }

    /// `deadpool` says nothing on return, so the idle time counts from the checkout: it may be checked
    /// once more than needed, never once less.
    async fn recycle(&self, conn: &mut Managed<D>, metrics: &Metrics) -> RecycleResult<Error> {
        self.check(conn, Some(metrics.last_used())).await.map_err(RecycleError::Backend)
    }
}

/// Any `deadpool` manager as a [`Driver`]: one manager per host.
///
/// A manager has no look at a connection without I/O, so one that was handed out is closed on return unless
/// [`DeadpoolDriver::trust_returns`] says that abandoned work leaves it usable; its `recycle` is check, probe
/// and tidying in one. The configured role is the role unless [`DeadpoolDriver::ask_role`] asks the server,
/// and every error says [`Verdict::HostDown`] unless [`DeadpoolDriver::judge`] knows better.
pub struct DeadpoolDriver<M: Manager> {
    managers: Managers<M, M::Error>,
    ask: Option<Ask<M::Type, M::Error>>,
    trust_returns: bool,
}

impl<M: Manager + 'static> DeadpoolDriver<M>
where
    M::Error: 'static,
{
    /// Makes the manager of each host by `manager`, when the host is first connected to.
    pub fn new(manager: impl Fn(&Host) -> M + Send + Sync + 'static) -> Self {
        Self { managers: Managers::new(manager), ask: None, trust_returns: false }
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
        ask: impl for<'a> Fn(&'a mut M::Type) -> Asking<'a, Role, M::Error> + Send + Sync + 'static,
    ) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// Keeps returned connections after a successful `recycle` in the background. Defaults to off: each is
    /// closed on return.
    #[must_use]
    pub fn trust_returns(mut self) -> Self {
        self.trust_returns = true;
        self
    }

    async fn recycle(&self, conn: &mut Foreign<M::Type, M, Metrics>) -> Result<(), ForeignError> {
        let (inner, manager, metrics) = conn.parts();
        let recycled = manager.recycle(inner, metrics).await;
        metrics.recycle_count += 1;
        metrics.recycled = Some(std::time::Instant::now());
        conn.used = false;
        match recycled {
            Ok(()) => Ok(()),
            Err(RecycleError::Message(message)) => {
                Err(ForeignError::new(Verdict::ConnectionEnded, message.into_owned()))
            }
            Err(RecycleError::Backend(error)) => Err(self.managers.wrap_silent(&error)),
        }
    }
}

impl<M: Manager> fmt::Debug for DeadpoolDriver<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadpoolDriver")
            .field("managers", &self.managers)
            .field("trust_returns", &self.trust_returns)
            .finish_non_exhaustive()
    }
}

impl<M> Driver for DeadpoolDriver<M>
where
    M: Manager + 'static,
    M::Type: 'static,
    M::Error: 'static,
{
    type Conn = Foreign<M::Type, M, Metrics>;
    type Error = ForeignError;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<Self::Conn, ForeignError> {
        let manager = self.managers.of(request.host);
        let conn = manager.create().await.map_err(|error| self.managers.wrap_silent(&error))?;
        Ok(Foreign::new(conn, manager, request.host.role(), request.reporter))
    }

    fn peek(&self, conn: &mut Self::Conn) -> Liveness {
        match (conn.used, self.trust_returns) {
            (false, _) => Liveness::Clean,
            (true, true) => Liveness::Dirty,
            (true, false) => Liveness::Dead,
        }
    }

    async fn tidy(&self, conn: &mut Self::Conn, _how: Tidy) -> Result<(), ForeignError> {
        self.recycle(conn).await
    }

    async fn probe(&self, conn: &mut Self::Conn) -> Result<Probe, ForeignError> {
        let role = match &self.ask {
            Some(ask) => {
                ask(conn.parts().0).await.map_err(|error| self.managers.wrap_silent(&error))?
            }
            None => {
                self.recycle(conn).await?;
                conn.role()
            }
        };
        Ok(Probe::new(role, Lag::NotAsked))
    }

    fn verdict(&self, error: &ForeignError) -> Verdict {
        error.verdict()
    }

    async fn close(&self, mut conn: Self::Conn) {
        let (inner, manager, _) = conn.parts();
        // Pairs with `create`, as the manager expects.
        manager.detach(inner);
    }
}
