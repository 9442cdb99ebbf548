//! What every real server can do, whatever it is and however it runs.

use std::fmt::Debug;
use std::time::Duration;

use mysql_async::{Conn, OptsBuilder};
use tokio::time::Instant;

use super::Error;

/// The application's user. On MySQL it has all rights; on MariaDB all but the one to write to a
/// read-only server, which MySQL refuses to everybody here (`super_read_only`).
pub const USER: &str = "pool";
/// The password of [`USER`].
pub const PASSWORD: &str = "pool-pw";
/// The user of [`Server::admin`], with all rights.
pub const ADMIN_USER: &str = "admin";
/// The password of [`ADMIN_USER`].
pub const ADMIN_PASSWORD: &str = "admin-pw";

/// A bound for everything a server does while it starts, crash recovery on a busy machine included.
pub const STARTUP: Duration = Duration::from_secs(90);

/// One step of reaching a server out of band: a connect or a statement.
const STEP: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(50);

/// One real server on a fixed port of 127.0.0.1.
///
/// Every future has a deadline of its own and may be dropped; what was asked of the server may
/// then still happen.
///
/// # Errors
/// All of them fail when the container daemon, the process or the server refuses or does not
/// answer in time.
pub trait Server: Debug + Send + Sync + Sized + 'static {
    /// The port on 127.0.0.1. It never changes.
    fn port(&self) -> u16;

    /// Kills the server (SIGKILL) and returns when it is gone. Its port refuses, its connections
    /// break.
    fn kill(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Shuts the server down (SIGTERM) and returns when it is gone. Does nothing to a dead one.
    fn stop(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Starts a dead server. Returns before it answers: see [`Server::wait_until_up`].
    fn start(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Freezes the server: connections stay open, new ones may even be accepted by the kernel,
    /// and nothing is ever answered.
    fn pause(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Lets a frozen server go on.
    fn unpause(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Sets or clears the server's read-only switch until its next start. Replicas start with it
    /// set, the source with it clear.
    fn set_read_only(&self, on: bool) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes a replica apply every transaction `by` whole seconds after the source committed it.
    fn delay_replication(&self, by: Duration) -> impl Future<Output = Result<(), Error>> + Send;

    /// The transactions this server has, in its own notation.
    fn position(&self) -> impl Future<Output = Result<String, Error>> + Send;

    /// Waits until this server has the transactions of `position`.
    fn wait_for(
        &self,
        position: &str,
        within: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Shuts the server down if it runs, and starts it.
    fn restart(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async {
            self.stop().await?;
            self.start().await
        }
    }

    /// A URL for this server alone, with user and password.
    fn url(&self, database: &str) -> String {
        url(&[self.port()], database)
    }

    /// A connection around any pool, as [`ADMIN_USER`].
    fn admin(&self) -> impl Future<Output = Result<Conn, Error>> + Send {
        async {
            let opts = OptsBuilder::default()
                .ip_or_hostname("127.0.0.1")
                .tcp_port(self.port())
                .prefer_socket(false)
                .user(Some(ADMIN_USER))
                .pass(Some(ADMIN_PASSWORD));
            step("connect", self.port(), STEP, Conn::new(opts)).await
        }
    }

    /// Waits until the server answers a login.
    fn wait_until_up(&self, within: Duration) -> impl Future<Output = Result<(), Error>> + Send {
        async move {
            let deadline = Instant::now() + within;
            loop {
                let last = match tokio::time::timeout_at(deadline, self.admin()).await {
                    Ok(Ok(conn)) => return disconnect(conn).await,
                    Ok(Err(error)) => Some(error),
                    Err(_) => None,
                };
                if Instant::now() + RETRY >= deadline {
                    let what = format!("server on port {} not up in {within:?}", self.port());
                    return Err(match last {
                        Some(error) => Error::doing(what)(error),
                        None => Error::new(what),
                    });
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// `mysql://user:password@host:port,…/database` over `ports` of 127.0.0.1.
pub(super) fn url(ports: &[u16], database: &str) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("mysql://{USER}:{PASSWORD}@{}/{database}", hosts.join(","))
}

/// Runs statements one by one on an admin connection of `server`.
pub(super) async fn run<S: Server>(server: &S, statements: &[String]) -> Result<(), Error> {
    use mysql_async::prelude::Queryable as _;

    let mut conn = server.admin().await?;
    for statement in statements {
        // `CHANGE REPLICATION SOURCE` carries a password: only the verb goes into an error.
        let verb = statement.split_whitespace().next().unwrap_or("statement");
        step(verb, server.port(), STEP, conn.query_drop(statement)).await?;
    }
    disconnect(conn).await
}

/// Runs one query on an admin connection of `server` and returns the first column of its only row.
/// `None` is an empty result or NULL.
pub(super) async fn value<S: Server>(
    server: &S,
    query: &str,
    within: Duration,
) -> Result<Option<String>, Error> {
    use mysql_async::prelude::Queryable as _;

    let mut conn = server.admin().await?;
    let row: Option<Option<String>> =
        step(query, server.port(), within + STEP, conn.query_first(query)).await?;
    disconnect(conn).await?;
    Ok(row.flatten())
}

async fn disconnect(conn: Conn) -> Result<(), Error> {
    // The answer is not needed, and a server may die instead of giving it.
    let _ = tokio::time::timeout(STEP, conn.disconnect()).await;
    Ok(())
}

async fn step<T>(
    what: &str,
    port: u16,
    within: Duration,
    step: impl Future<Output = mysql_async::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(within, step).await {
        Ok(result) => result.map_err(Error::doing(format!("{what} on port {port}"))),
        Err(_) => Err(Error::new(format!("{what} on port {port}: no answer in {within:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_lists_the_hosts_in_order() {
        assert_eq!(
            url(&[3, 1, 2], "db"),
            "mysql://pool:pool-pw@127.0.0.1:3,127.0.0.1:1,127.0.0.1:2/db"
        );
    }
}
