//! An availability group behind a listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ado::AdoString;
use super::data::DataSet;
use super::endpoint::Endpoint;
use super::faults::{Refusal, Role, Route};
use super::pair::Failover;
use super::server::{MssqlServer, ServerBuilder};

/// A primary and its secondaries over the same databases, and a listener: an address of its own
/// whose connections the primary of the moment serves. Replica 0 is the first primary.
///
/// The primary routes logins with the read-only intent over the secondaries in turn, whether they
/// came through the listener or directly.
#[derive(Debug)]
pub struct AvailabilityGroup {
    replicas: Vec<MssqlServer>,
    listener: Endpoint,
    primary: Mutex<usize>,
}

impl AvailabilityGroup {
    /// Starts a group of `replicas` servers with all defaults.
    ///
    /// # Errors
    ///
    /// When there are no replicas, the databases cannot be created or no ports can be had.
    pub async fn start(replicas: usize) -> io::Result<Self> {
        Self::start_with(replicas, MssqlServer::builder()).await
    }

    /// Starts a group whose replicas are made like `builder`, their names aside.
    ///
    /// # Errors
    ///
    /// When there are no replicas, the databases cannot be created or no ports can be had.
    pub async fn start_with(replicas: usize, builder: ServerBuilder) -> io::Result<Self> {
        let builder = builder.clone().data(builder.data_set()?);
        let mut servers = Vec::with_capacity(replicas);
        for index in 0..replicas {
            servers.push(builder.clone().name(format!("SQL-{index}")).launch().await?);
        }
        let Some(first) = servers.first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a group needs a replica"));
        };
        let listener = Endpoint::open_new(Arc::clone(first.core()))?;
        let group = Self { replicas: servers, listener, primary: Mutex::new(0) };
        group.assign_roles(0);
        Ok(group)
    }

    /// The replicas.
    #[must_use]
    pub fn replicas(&self) -> &[MssqlServer] {
        &self.replicas
    }

    /// The index of the primary.
    #[must_use]
    pub fn primary_index(&self) -> usize {
        *self.primary.lock()
    }

    /// The primary.
    #[must_use]
    pub fn primary(&self) -> &MssqlServer {
        &self.replicas[self.primary_index()]
    }

    /// The replicas that are not the primary.
    #[must_use]
    pub fn secondaries(&self) -> Vec<&MssqlServer> {
        let primary = self.primary_index();
        let others = self.replicas.iter().enumerate().filter(|(index, _)| *index != primary);
        others.map(|(_, server)| server).collect()
    }

    /// The address of the listener.
    #[must_use]
    pub fn listener(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The databases.
    #[must_use]
    pub fn data(&self) -> &DataSet {
        self.replicas[0].data()
    }

    /// A connection string for the listener, unencrypted, for reading and writing.
    #[must_use]
    pub fn ado_string(&self) -> String {
        self.ado().to_string()
    }

    /// A connection string for the listener with the read-only intent.
    #[must_use]
    pub fn read_only_ado_string(&self) -> String {
        self.ado().read_only().to_string()
    }

    /// The parts of the connection string for the listener.
    #[must_use]
    pub fn ado(&self) -> AdoString {
        let server = &self.replicas[0];
        AdoString::new(self.listener(), server.database(), server.user(), server.password())
    }

    /// Makes replica `index` the primary and closes the connections of the old one.
    ///
    /// # Errors
    ///
    /// When there is no such replica.
    pub async fn failover_to(&self, index: usize) -> io::Result<()> {
        self.failover_to_with(index, Failover::default()).await
    }

    /// Makes replica `index` the primary.
    ///
    /// # Errors
    ///
    /// When there is no such replica.
    pub async fn failover_to_with(&self, index: usize, how: Failover) -> io::Result<()> {
        let Some(new) = self.replicas.get(index) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such replica"));
        };
        if !how.inactive_for.is_zero() {
            for server in &self.replicas {
                server.switches().set_inactive_for(Refusal::InTransition, how.inactive_for);
            }
        }
        let old = self.primary();
        // The old primary steps down first: there never are two.
        old.switches().set_role(Role::Secondary);
        if let Some(close) = how.close {
            old.kill_connections(close).await;
        }
        *self.primary.lock() = index;
        self.assign_roles(index);
        self.listener.retarget(Arc::clone(new.core()));
        Ok(())
    }

    /// Closes the listener: new connections to it are refused.
    pub async fn close_listener(&self) {
        self.listener.close().await;
    }

    /// Opens the listener again.
    ///
    /// # Errors
    ///
    /// When its port cannot be listened on.
    pub fn open_listener(&self) -> io::Result<()> {
        self.listener.open()
    }

    fn assign_roles(&self, primary: usize) {
        let routes = |of: usize| {
            let others = self.replicas.iter().enumerate().filter(|(index, _)| *index != of);
            others.map(|(_, server)| Route::new(server.host(), server.port())).collect()
        };
        for (index, server) in self.replicas.iter().enumerate() {
            let role = if index == primary { Role::Primary } else { Role::Secondary };
            server.switches().set_read_routing(routes(index));
            server.switches().set_role(role);
        }
    }
}
