//! Ending a statement on the server.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Error, Opts, OptsBuilder};
use tokio::time::{Instant, timeout_at};

use crate::classify::connect_timed_out;

/// Ends what a connection is running, over a connection of its own.
///
/// Dropping the future of a statement does not stop the server. The handle outlives the borrow of the
/// connection, and never uses the pool: a pool that is exhausted by slow statements could not cancel them.
#[derive(Clone)]
pub struct CancelHandle {
    opts: Opts,
    id: u32,
}

impl CancelHandle {
    pub(crate) fn new(opts: Opts, id: u32) -> Self {
        let opts = OptsBuilder::from_opts(opts)
            .init(Vec::<String>::new())
            .setup(Vec::<String>::new())
            .after_connect(|_| Box::pin(std::future::ready(Ok(()))));
        Self { opts: opts.into(), id }
    }

    /// Sends `KILL QUERY`. The statement fails with 1317; the connection lives on.
    ///
    /// A statement that ended in the meantime is not hurt, but the *next* one of the same connection may
    /// be, so do not use it for a connection that was given back.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached before `deadline`, or refuses.
    pub async fn kill_query(&self, deadline: Instant) -> Result<(), Error> {
        let work = async {
            let mut conn = mysql_async::Conn::new(self.opts.clone()).await?;
            conn.query_drop(format!("KILL QUERY {}", self.id)).await?;
            conn.disconnect().await
        };
        timeout_at(deadline, work).await.unwrap_or_else(|_| Err(connect_timed_out()))
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
