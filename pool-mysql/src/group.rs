//! Hosts from MySQL Group Replication itself.

use std::error::Error;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use pool_core::discovery::Discovery;
use pool_core::host::Host;
use pool_core::pool::WeakPool;

use crate::driver::MySql;
use crate::pool::Pool;

/// The online members of the group that a pool belongs to, asked of any of its hosts.
///
/// Members are named `MEMBER_HOST:MEMBER_PORT`: configure the pool with the names that the group uses
/// (`report_host`), else every host is listed under two names. Which member takes writes is found by the
/// role probe. Use it with [`pool_core::pool::Pool::follow`].
#[derive(Clone, Debug)]
pub struct GroupMembers {
    pool: WeakPool<MySql>,
}

impl GroupMembers {
    /// The group of `pool`.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        Self { pool: pool.downgrade() }
    }
}

#[async_trait]
impl Discovery for GroupMembers {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
        let Some(pool) = self.pool.upgrade() else { return Ok(Vec::new()) };
        let mut lease = match pool.get_read().await {
            Ok(lease) => lease,
            Err(_) => pool.get().await?,
        };
        let online = "SELECT MEMBER_HOST, MEMBER_PORT \
                      FROM performance_schema.replication_group_members \
                      WHERE MEMBER_STATE = 'ONLINE'";
        let members: Vec<(String, u16)> = lease.query(online).await?;
        Ok(members.into_iter().map(|(host, port)| Host::new(&host, port)).collect())
    }
}
