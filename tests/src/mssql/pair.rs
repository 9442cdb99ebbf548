//! Two mirrored partners.

use std::io;
use std::time::Duration;

use parking_lot::Mutex;

use super::ado::{AdoString, ClientEncryption};
use super::data::DataSet;
use super::faults::{Refusal, Role};
use super::server::{MssqlServer, ServerBuilder};
use super::socket::Close;

/// How a failover goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// How the connections of the old principal are closed; `None` leaves them open, which a real
    /// server does not. Defaults to [`Close::Fin`].
    pub close: Option<Close>,
    /// How long neither partner can be opened. Defaults to not at all.
    pub inactive_for: Duration,
}

impl Default for Failover {
    fn default() -> Self {
        Self { close: Some(Close::Fin), inactive_for: Duration::ZERO }
    }
}

/// A principal and a mirror over the same databases. At the start A is the principal.
///
/// Each knows the other by its bare server name, `SQL-A` and `SQL-B`, which is what the principal
/// announces.
#[derive(Debug)]
pub struct MirroredPair {
    a: MssqlServer,
    b: MssqlServer,
    principal: Mutex<Partner>,
}

/// One of the two partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// The initial principal, `Server` in the connection string.
    A,
    /// The initial mirror, `Failover Partner` in the connection string.
    B,
}

impl Partner {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl MirroredPair {
    /// Starts a pair with all defaults.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no ports can be had.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(MssqlServer::builder()).await
    }

    /// Starts a pair whose partners are made like `builder`, their names aside.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no ports can be had.
    pub async fn start_with(builder: ServerBuilder) -> io::Result<Self> {
        let builder = builder.clone().data(builder.data_set()?);
        let a = builder.clone().name("SQL-A").launch().await?;
        let b = builder.name("SQL-B").launch().await?;
        let pair = Self { a, b, principal: Mutex::new(Partner::A) };
        pair.pair_up(Partner::A);
        Ok(pair)
    }

    /// The initial principal.
    #[must_use]
    pub fn a(&self) -> &MssqlServer {
        &self.a
    }

    /// The initial mirror.
    #[must_use]
    pub fn b(&self) -> &MssqlServer {
        &self.b
    }

    /// One of the two.
    #[must_use]
    pub fn server(&self, partner: Partner) -> &MssqlServer {
        match partner {
            Partner::A => &self.a,
            Partner::B => &self.b,
        }
    }

    /// Which one is the principal now.
    #[must_use]
    pub fn principal(&self) -> Partner {
        *self.principal.lock()
    }

    /// The databases.
    #[must_use]
    pub fn data(&self) -> &DataSet {
        self.a.data()
    }

    /// A connection string with A as server and B as failover partner, unencrypted.
    #[must_use]
    pub fn ado_string(&self) -> String {
        self.ado().to_string()
    }

    /// The same with the given encryption.
    #[must_use]
    pub fn ado_string_with(&self, encryption: ClientEncryption) -> String {
        self.ado().encryption(encryption).to_string()
    }

    /// The parts of the connection string.
    #[must_use]
    pub fn ado(&self) -> AdoString {
        self.a.ado().partner(self.b.address())
    }

    /// Exchanges the roles and closes the connections of the old principal. Answers the new
    /// principal.
    pub async fn failover(&self) -> Partner {
        self.failover_with(Failover::default()).await
    }

    /// Exchanges the roles. Answers the new principal.
    pub async fn failover_with(&self, how: Failover) -> Partner {
        let old = self.principal();
        let new = old.other();
        if !how.inactive_for.is_zero() {
            for server in [&self.a, &self.b] {
                server.switches().set_inactive_for(Refusal::CannotOpen, how.inactive_for);
            }
        }
        // The old principal steps down first: there never are two.
        self.server(old).switches().set_role(Role::Mirror);
        if let Some(close) = how.close {
            self.server(old).kill_connections(close).await;
        }
        self.server(new).switches().set_role(Role::Principal);
        *self.principal.lock() = new;
        new
    }

    /// The principal stops and the mirror takes over, alone: it has no partner to announce. Answers
    /// the new principal.
    pub async fn lose_principal(&self, how: Close) -> Partner {
        let old = self.principal();
        let new = old.other();
        self.server(old).stop(how).await;
        self.server(old).switches().set_role(Role::Mirror);
        self.server(new).switches().set_partner_name(None);
        self.server(new).switches().set_role(Role::Principal);
        *self.principal.lock() = new;
        new
    }

    /// The partner that was lost comes back, as the mirror.
    ///
    /// # Errors
    ///
    /// When its port cannot be listened on.
    pub fn rejoin(&self) -> io::Result<()> {
        let principal = self.principal();
        self.pair_up(principal);
        self.server(principal.other()).start()
    }

    fn pair_up(&self, principal: Partner) {
        for partner in [Partner::A, Partner::B] {
            let role = if partner == principal { Role::Principal } else { Role::Mirror };
            let switches = self.server(partner).switches();
            switches.set_role(role);
            switches.set_partner_name(Some(self.server(partner.other()).name().to_owned()));
        }
    }
}
