//! One attempt to log in: dial, TLS, login and every redirect inside one deadline.

use std::time::Duration;

use tiberius::Config;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::conn::Client;
use crate::dial::Dial;
use crate::error::{Error, Stage};

/// How often a server may send a client on (SqlClient: 10; the 11th is an error).
const MAX_REDIRECTS: u8 = 10;

/// The pool ends an attempt at its deadline and then knows that the budget ended it. Our own timer is for
/// callers without a pool; it fires a little later, or the two would race.
const GRACE: Duration = Duration::from_millis(100);

/// What a login declares, and whether it lets itself be sent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct As {
    pub(crate) read_only: bool,
    pub(crate) follows: bool,
}

/// A finished login.
pub(crate) struct LoggedIn {
    pub(crate) client: Client,
    pub(crate) socket: std::sync::Arc<crate::stream::Socket>,
    /// The server that let us in: after redirects not the one asked for.
    pub(crate) server: Address,
    pub(crate) hops: u8,
}

/// How to log in: all but where and for what.
#[derive(Debug)]
pub(crate) struct Login {
    /// Without host, port and intent.
    pub(crate) config: Config,
    pub(crate) dial: Dial,
}

impl Login {
    /// Logs in at `target`, or wherever it sends us if redirects are followed.
    ///
    /// Cancellation safety: dropping the future closes the connection; the server ends the session.
    pub(crate) async fn run(
        &self,
        target: &Address,
        as_what: As,
        deadline: Instant,
    ) -> Result<LoggedIn, Error> {
        let started = Instant::now();
        let limit = deadline.checked_add(GRACE).unwrap_or(deadline);
        let mut progress = Progress { stage: Stage::Dial, server: target.clone() };
        let result = timeout_at(limit, self.follow(target, as_what, deadline, &mut progress)).await;
        result.unwrap_or_else(|_| {
            Err(Error::TimedOut {
                target: progress.server.to_string(),
                during: progress.stage,
                after: started.elapsed(),
            })
        })
    }

    async fn follow(
        &self,
        target: &Address,
        as_what: As,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<LoggedIn, Error> {
        let mut hops = 0;
        loop {
            let server = progress.server.clone();
            let stream = self.dial.connect(&server, deadline, &mut progress.stage).await;
            let stream = stream.map_err(|error| routed(error, hops))?;
            progress.stage = Stage::Login;
            let socket = stream.socket();
            match Client::connect(self.config_for(&server, as_what.read_only), stream).await {
                Ok(client) => return Ok(LoggedIn { client, socket, server, hops }),
                Err(tiberius::error::Error::Routing { host, port }) if as_what.follows => {
                    let bad = |reason| Error::BadRedirect { target: server.to_string(), reason };
                    let next = Address::routed(&host, port).map_err(bad)?;
                    if hops == MAX_REDIRECTS {
                        return Err(Error::TooManyRedirects {
                            target: target.to_string(),
                            last: next.to_string(),
                        });
                    }
                    hops += 1;
                    tracing::info!(
                        target: "pool_mssql",
                        from = %server, to = %next, hop = hops,
                        "the server sent the login on"
                    );
                    progress.server = next;
                }
                Err(error) => {
                    return Err(Error::Login { target: server.to_string(), hops, error });
                }
            }
        }
    }

    /// Redirects change host and port and nothing else: the same TLS rules, the same credentials.
    fn config_for(&self, server: &Address, read_only: bool) -> Config {
        let mut config = self.config.clone();
        config.host(server.host());
        if let Some(port) = server.dial_port() {
            config.port(port);
        }
        if let Some(instance) = server.instance() {
            config.instance_name(instance);
        }
        config.readonly(read_only);
        config
    }
}

/// What an attempt is doing, for the error if its time ends.
struct Progress {
    stage: Stage,
    server: Address,
}

/// A dial that fails after a redirect is a failed login at the listener, not a listener that is down.
fn routed(error: Error, hops: u8) -> Error {
    if hops == 0 {
        return error;
    }
    let (target, reason) = match &error {
        Error::Dial { target, .. }
        | Error::Resolve { target, .. }
        | Error::Browser { target, .. }
        | Error::TooManyAddresses { target, .. } => (target.clone(), error.to_string()),
        _ => return error,
    };
    let error =
        tiberius::error::Error::Io { kind: std::io::ErrorKind::NotConnected, message: reason };
    Error::Login { target, hops, error }
}
