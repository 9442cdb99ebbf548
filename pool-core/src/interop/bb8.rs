//! `bb8` both ways.

use bb8::ManageConnection;

use crate::access::Access;
use crate::driver::{ConnectRequest, Driver, Lag, Liveness, Probe, Tidy};
use crate::error::Error;
use crate::host::{Host, Role};
use crate::interop::foreign::{Foreign, ForeignError, Managers};
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
/// `is_valid` is check and probe, the configured role is the role, and every error says
/// [`Verdict::HostDown`] unless [`Bb8Driver::judge`] knows better. Nothing tells whether a query was
/// abandoned half-way: the manager's `has_broken` must know.
#[derive(Debug)]
pub struct Bb8Driver<M: ManageConnection> {
    managers: Managers<M, M::Error>,
}

impl<M: ManageConnection> Bb8Driver<M> {
    /// Makes the manager of each host by `manager`, when the host is first connected to.
    pub fn new(manager: impl Fn(&Host) -> M + Send + Sync + 'static) -> Self {
        Self { managers: Managers::new(manager) }
    }

    /// Judges the manager's errors.
    #[must_use]
    pub fn judge(mut self, verdict: impl Fn(&M::Error) -> Verdict + Send + Sync + 'static) -> Self {
        self.managers.judge(verdict);
        self
    }
}

impl<M: ManageConnection> Driver for Bb8Driver<M> {
    type Conn = Foreign<M::Connection, M>;
    type Error = ForeignError;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<Self::Conn, ForeignError> {
        let _: Access = request.access;
        let manager = self.managers.of(request.host);
        let conn = manager.connect().await.map_err(|error| self.managers.wrap(&error))?;
        Ok(Foreign::new(conn, manager, request.host.role(), request.reporter))
    }

    fn peek(&self, conn: &mut Self::Conn) -> Liveness {
        let (inner, manager) = conn.parts();
        if manager.has_broken(inner) { Liveness::Dead } else { Liveness::Clean }
    }

    async fn tidy(&self, conn: &mut Self::Conn, _how: Tidy) -> Result<(), ForeignError> {
        self.ping(conn).await
    }

    async fn probe(&self, conn: &mut Self::Conn) -> Result<Probe, ForeignError> {
        let role = match conn.role() {
            Role::Replica => Role::Replica,
            _ => Role::Source,
        };
        self.ping(conn).await.map(|()| Probe { role, lag: Lag::NotAsked })
    }

    async fn ping(&self, conn: &mut Self::Conn) -> Result<(), ForeignError> {
        let (inner, manager) = conn.parts();
        manager.is_valid(inner).await.map_err(|error| self.managers.wrap(&error))
    }

    fn verdict(&self, error: &ForeignError) -> Verdict {
        error.verdict()
    }
}
