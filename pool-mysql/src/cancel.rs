//! Ending a statement or a connection on the server.

use std::fmt;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Error, Opts, OptsBuilder};
use pool_core::driver::ServerSession;
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
        Self { opts: bare(opts), id }
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

/// Ends connections by `KILL`, over one of its own; how many are over by `deadline`.
pub(crate) async fn end_sessions(
    opts: Opts,
    sessions: &[ServerSession],
    deadline: Instant,
) -> Result<usize, Error> {
    let connect = timeout_at(deadline, mysql_async::Conn::new(bare(opts))).await;
    let mut conn = connect.unwrap_or_else(|_| Err(connect_timed_out()))?;
    let mut over = 0;
    let work = async {
        let uptime = uptime(&mut conn).await?;
        for session in sessions {
            if uptime.is_some_and(|uptime| is_of_an_earlier_life(session.age, uptime)) {
                // Its number may be somebody else's by now.
                over += 1;
                continue;
            }
            match conn.query_drop(format!("KILL {}", session.id)).await {
                Ok(()) => over += 1,
                Err(Error::Server(error)) if error.code == UNKNOWN_THREAD => over += 1,
                Err(Error::Server(error)) => {
                    tracing::warn!(code = error.code, id = session.id, "not allowed to end it");
                }
                Err(error) => return Err(error),
            }
        }
        conn.disconnect().await
    };
    match timeout_at(deadline, work).await {
        Ok(Err(error)) if over == 0 => return Err(error),
        Ok(Err(error)) => tracing::warn!(%error, over, "not all connections were ended"),
        Ok(Ok(())) | Err(_) => {}
    }
    Ok(over)
}

/// The error code of `KILL` for a connection that is gone.
const UNKNOWN_THREAD: u16 = 1094;

/// How long the server is up, in whole seconds; `None` if it does not say.
async fn uptime(conn: &mut mysql_async::Conn) -> Result<Option<Duration>, Error> {
    match conn.query_first::<(String, String), _>("SHOW GLOBAL STATUS LIKE 'Uptime'").await {
        Ok(row) => Ok(row.and_then(|(_, text)| text.parse().ok()).map(Duration::from_secs)),
        Err(Error::Server(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a connection was opened before the server was started. The server rounds down.
fn is_of_an_earlier_life(age: Duration, uptime: Duration) -> bool {
    age > uptime + Duration::from_secs(1)
}

/// The same login, without statements of the application.
fn bare(opts: Opts) -> Opts {
    OptsBuilder::from_opts(opts)
        .init(Vec::<String>::new())
        .setup(Vec::<String>::new())
        .after_connect(|_| Box::pin(std::future::ready(Ok(()))))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_connection_ends_with_the_life_of_its_server() {
        let ms = Duration::from_millis;
        let rows = [
            (0, 0, false),
            (999, 0, false),
            (1000, 0, false),
            (1001, 0, true),
            (60_000, 90_000, false),
        ];
        for (age, uptime, earlier) in rows {
            assert_eq!(is_of_an_earlier_life(ms(age), ms(uptime)), earlier, "{age} {uptime}");
        }
    }
}
