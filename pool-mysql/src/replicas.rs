//! Hosts from the source of a plain replication cluster.

use std::error::Error;

use async_trait::async_trait;
use mysql_async::Row;
use mysql_async::prelude::Queryable;
use pool_core::discovery::Discovery;
use pool_core::host::{Host, Role};
use pool_core::pool::WeakPool;

use crate::conn::is_mariadb;
use crate::driver::MySql;
use crate::pool::Pool;

/// The replicas that are connected to the source of a pool, besides the hosts that the pool knows already.
///
/// The source is asked by `SHOW REPLICAS` (`SHOW SLAVE HOSTS` on older servers and MariaDB); the account
/// needs REPLICATION SLAVE (REPLICATION MASTER ADMIN on MariaDB). A replica is listed there under its
/// `report_host` and `report_port`, as long as it is connected, and not at all without a `report_host`.
///
/// Only what was found so is taken away again: the hosts that the pool had when this was made are always
/// listed. Else a failover would leave the pool with the new source alone, while the other replicas still
/// look for it. Use it with [`pool_core::pool::Pool::follow`].
#[derive(Clone, Debug)]
pub struct Replicas {
    pool: WeakPool<MySql>,
    known: Vec<Host>,
}

impl Replicas {
    /// The replicas of the source of `pool`.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        Self { pool: pool.downgrade(), known: pool.hosts() }
    }
}

#[async_trait]
impl Discovery for Replicas {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
        let Some(pool) = self.pool.upgrade() else { return Ok(Vec::new()) };
        let mut lease = pool.get().await?;
        let renamed = !is_mariadb(&lease) && lease.server_version() >= (8, 0, 22);
        let ask = if renamed { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
        let rows: Vec<Row> = lease.query(ask).await?;
        Ok(list(&self.known, rows.iter().filter_map(address)))
    }
}

/// Where a replica says that it is; `None` if it does not.
fn address(row: &Row) -> Option<(String, u16)> {
    let host = row.get_opt::<Option<String>, _>("Host")?.ok()??;
    let port = row.get_opt::<Option<u16>, _>("Port")?.ok()??;
    (!host.is_empty()).then_some((host, port))
}

/// The known hosts under their names, and those found that are none of them.
fn list(known: &[Host], found: impl Iterator<Item = (String, u16)>) -> Vec<Host> {
    let mut hosts = known.to_vec();
    for (address, port) in found {
        if !hosts.iter().any(|host| (host.address(), host.port()) == (&*address, port)) {
            hosts.push(Host::new(&address, port).with_role(Role::Replica));
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_keeps_its_name_and_is_listed_once() {
        let known = [Host::new("10.0.0.1", 3306).named("db-a"), Host::new("10.0.0.2", 3306)];
        let found =
            [("10.0.0.2", 3306), ("10.0.0.1", 3307), ("10.0.0.1", 3306), ("10.0.0.1", 3307)];
        let listed = list(&known, found.into_iter().map(|(host, port)| (host.to_owned(), port)));
        let names: Vec<&str> = listed.iter().map(Host::name).collect();
        assert_eq!(names, ["db-a", "10.0.0.2:3306", "10.0.0.1:3307"]);
        assert_eq!(listed[2].role(), Role::Replica);
    }
}
