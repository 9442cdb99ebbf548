//! A source and its replicas, of any kind of server.

use std::fmt::Debug;
use std::time::Duration;

use super::server::{self, Server};
use super::{Error, STARTUP};

/// A source (host 0) and its replicas (host 1 and on). Dropping it removes every trace of it.
#[derive(Debug)]
pub struct Cluster<S> {
    hosts: Vec<S>,
    /// Whatever has to go after the hosts.
    _ground: Box<dyn Ground>,
}

/// What hosts stand on: removed when dropped.
pub(super) trait Ground: Debug + Send + Sync {}

impl<S: Server> Cluster<S> {
    pub(super) fn new(hosts: Vec<S>, ground: impl Ground + 'static) -> Self {
        Self { hosts, _ground: Box::new(ground) }
    }

    /// The source, then the replicas.
    pub fn hosts(&self) -> &[S] {
        &self.hosts
    }

    /// Host `index`: 0 is the source.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn host(&self, index: usize) -> &S {
        &self.hosts[index]
    }

    /// A URL of all hosts, source first, with user and password. The database `test` exists.
    pub fn url(&self, database: &str) -> String {
        let ports: Vec<u16> = self.hosts.iter().map(Server::port).collect();
        server::url(&ports, database)
    }

    /// Waits until every host answers a login.
    ///
    /// # Errors
    /// When one does not within `within`.
    pub async fn wait_until_up(&self, within: Duration) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + within;
        for host in &self.hosts {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            host.wait_until_up(left).await?;
        }
        Ok(())
    }

    /// Waits until every replica has what the source has now. Delays count: a replica delayed by
    /// 5 s takes that long.
    ///
    /// # Errors
    /// When a host cannot be reached, or a replica needs longer than [`STARTUP`].
    pub async fn replication_caught_up(&self) -> Result<(), Error> {
        let Some((source, replicas)) = self.hosts.split_first() else {
            return Ok(());
        };
        let position = source.position().await?;
        for replica in replicas {
            replica.wait_for(&position, STARTUP).await?;
        }
        Ok(())
    }
}
