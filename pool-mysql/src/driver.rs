//! The plug-in.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mysql_async::consts::StatusFlags;
use mysql_async::prelude::Queryable;
use mysql_async::{Error, Opts, OptsBuilder};
use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Driver, Liveness, Probe, ServerSession, Tidy};
use pool_core::host::{Host, Role};
use pool_core::verdict::Verdict;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cancel;
use crate::classify::{Classifier, command_timed_out, connect_timed_out};
use crate::conn::{Conn, session_access};
use crate::peek::peek;
use crate::role::{LagSource, Prober, RoleCheck, configured_role};
use crate::tidy::{self, ResetMode};
use crate::watch::Watch;

/// The largest packet that is sent or accepted if nothing else is said: 64 MiB, as MySQL's own.
pub const DEFAULT_MAX_ALLOWED_PACKET: usize = 64 * 1024 * 1024;

/// The longest time that a ping, a probe, a clean-up or a goodbye takes if nothing else is said.
pub const DEFAULT_UPKEEP_TIMEOUT: Duration = Duration::from_secs(5);

/// `wait_timeout` only matters to the driver's own pool, but if it is not given the driver asks for it.
const WAIT_TIMEOUT_SECONDS: usize = 28_800;

/// Which sessions the pool makes read-only.
///
/// A read-only session costs one round trip when it is opened, none at checkout. The server refuses
/// writes in it with 1792, whatever the privileges of the account; an explicit `START TRANSACTION READ
/// WRITE` is not refused on every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOnlySessions {
    /// Sessions on secondaries (`failOverReadOnly`): hosts configured as replicas, and of hosts without a
    /// role all but the first, unless opened for [`Access::Write`]. Defaults to `false`.
    pub on_secondaries: bool,
    /// Sessions opened for [`Access::Read`], on any host. Use it if such sessions are kept apart from
    /// those for writes. Defaults to `false`.
    pub for_reads: bool,
}

/// The MySQL and MariaDB driver.
///
/// Holds the login and everything else that is the same for all hosts; the options of one host are derived
/// from it at each connect.
pub struct MySql {
    base: OptsBuilder,
    init: Vec<String>,
    setup: Vec<String>,
    classifier: Classifier,
    prober: Prober,
    reset_mode: ResetMode,
    read_only: ReadOnlySessions,
    statement_limit: Option<Duration>,
    upkeep_limit: Duration,
    kill_abandoned: bool,
}

impl MySql {
    /// A driver that logs in as `base` says. Host and port of `base` are not used.
    ///
    /// Two options are given a value if `base` leaves them out, which saves a round trip at each connect:
    /// `max_allowed_packet` ([`DEFAULT_MAX_ALLOWED_PACKET`]) and `wait_timeout`. `prefer_socket` is always
    /// off: with it the driver would ask the server for a socket path and open it *locally*, which reaches
    /// the wrong server as soon as there is a proxy or a second server on the machine. A `socket` that is
    /// set explicitly is used.
    ///
    /// The statements of `init` and `setup` run in the order in which they are listed (the driver itself
    /// runs both lists backwards), each list in one round trip: at connect `after_connect`, then `init`,
    /// then `setup`. Only `setup` runs again after a session was reset, so session settings belong there.
    #[must_use]
    pub fn new(base: OptsBuilder) -> Self {
        let opts = Opts::from(base.clone());
        let base = base
            .prefer_socket(false)
            .max_allowed_packet(Some(
                opts.max_allowed_packet().unwrap_or(DEFAULT_MAX_ALLOWED_PACKET),
            ))
            .wait_timeout(Some(opts.wait_timeout().unwrap_or(WAIT_TIMEOUT_SECONDS)));
        Self {
            base,
            init: opts.init().to_vec(),
            setup: opts.setup().to_vec(),
            classifier: Classifier::default(),
            prober: Prober::default(),
            reset_mode: ResetMode::default(),
            read_only: ReadOnlySessions::default(),
            statement_limit: None,
            upkeep_limit: DEFAULT_UPKEEP_TIMEOUT,
            kill_abandoned: true,
        }
    }

    /// Sets how thoroughly used connections are cleaned. Defaults to [`ResetMode::Rollback`].
    #[must_use]
    pub fn with_reset_mode(mut self, mode: ResetMode) -> Self {
        self.reset_mode = mode;
        self
    }

    /// Sets which sessions are made read-only. Defaults to none.
    #[must_use]
    pub fn with_read_only_sessions(mut self, which: ReadOnlySessions) -> Self {
        self.read_only = which;
        self
    }

    /// Sets how a host's role is found out. Defaults to [`RoleCheck::Probe`].
    #[must_use]
    pub fn with_role_check(mut self, check: RoleCheck) -> Self {
        self.prober.role = check;
        self
    }

    /// Sets how replication lag is measured. Defaults to [`LagSource::Off`].
    #[must_use]
    pub fn with_lag_source(mut self, source: LagSource) -> Self {
        self.prober.lag = source;
        self
    }

    /// Replaces the probe. It has to leave the connection clean.
    #[must_use]
    pub fn probe_with<F>(mut self, probe: F) -> Self
    where
        F: for<'a> Fn(&'a mut mysql_async::Conn) -> BoxFuture<'a, Result<Probe, Error>>
            + Send
            + Sync
            + 'static,
    {
        self.prober.user = Some(Arc::new(probe));
        self
    }

    /// Puts rules in front of the verdict table ([`crate::classify`]); `None` leaves an error to it.
    #[must_use]
    pub fn classify_with<F>(mut self, rules: F) -> Self
    where
        F: Fn(&Error) -> Option<Verdict> + Send + Sync + 'static,
    {
        self.classifier = Classifier::with_rules(Arc::new(rules));
        self
    }

    /// Limits the time of one statement (of a stream, the time to its first row). A statement that takes
    /// longer fails, its connection is closed and the host is suspect. Defaults to no limit.
    #[must_use]
    pub fn with_statement_timeout(mut self, limit: Option<Duration>) -> Self {
        self.statement_limit = limit;
        self
    }

    /// Limits pings, probes, clean-ups and goodbyes; the pool's own limits hold as well. Defaults to
    /// [`DEFAULT_UPKEEP_TIMEOUT`].
    #[must_use]
    pub fn with_upkeep_timeout(mut self, limit: Duration) -> Self {
        self.upkeep_limit = limit;
        self
    }

    /// Sets whether a statement that was abandoned inside a transaction is ended on the server, by
    /// `KILL QUERY` over a connection of its own. Without it the server finds out that nobody is there only
    /// when the statement is done, and keeps the row locks of the transaction until then. Defaults to
    /// `true`. Switch it off where one address stands for several servers (a load balancer): the number of
    /// a connection means nothing on another server. Then `Pool::end_leases` and a forced drain end nothing
    /// either.
    #[must_use]
    pub fn with_kill_abandoned(mut self, kill: bool) -> Self {
        self.kill_abandoned = kill;
        self
    }

    /// Whether a session with this host is to be read-only.
    fn makes_read_only(&self, host: &Host, access: Access) -> bool {
        // A connection for writes goes to a host that was found writable, wherever it is in the list.
        (self.read_only.on_secondaries
            && access != Access::Write
            && configured_role(host) == Role::Replica)
            || (self.read_only.for_reads && access == Access::Read)
    }

    /// The driver's options for one host.
    fn opts_for(&self, host: &Host, addresses: Option<Vec<IpAddr>>, read_only: bool) -> Opts {
        let access = read_only.then(|| session_access(true));
        let setup = access.into_iter().chain(self.setup.iter().map(String::as_str));
        self.base
            .clone()
            .ip_or_hostname(host.address())
            .tcp_port(host.port())
            .resolved_ips(addresses)
            .init(one_text(self.init.iter().map(String::as_str)))
            .setup(one_text(setup))
            .into()
    }

    async fn open(&self, request: &ConnectRequest<'_>) -> Result<Conn, Error> {
        let host = request.host;
        let addresses = self.addresses(host).await?;
        let read_only = self.makes_read_only(host, request.access);
        let opts = self.opts_for(host, addresses, read_only);
        let inner = mysql_async::Conn::new(opts).await?;
        let flags = inner.last_ok_packet().map(mysql_async::OkPacket::status_flags);
        let mut watch =
            Watch::new(request.reporter.clone(), self.classifier.clone(), self.statement_limit);
        watch.forced_read_only = read_only;
        watch.read_only = read_only;
        watch.autocommit =
            flags.is_none_or(|flags| flags.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT));
        Ok(Conn::new(inner, host.clone(), watch))
    }

    /// The addresses of a host, unless a socket is used.
    async fn addresses(&self, host: &Host) -> Result<Option<Vec<IpAddr>>, Error> {
        match Opts::from(self.base.clone()).socket() {
            Some(_) => Ok(None),
            None => look_up(host).await.map(Some),
        }
    }

    async fn upkeep<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout(self.upkeep_limit, work).await.unwrap_or_else(|_| Err(command_timed_out()))
    }
}

impl Driver for MySql {
    type Conn = Conn;
    type Error = Error;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<Conn, Error> {
        let deadline = request.deadline;
        timeout_at(deadline, self.open(&request)).await.unwrap_or_else(|_| Err(connect_timed_out()))
    }

    fn peek(&self, conn: &mut Conn) -> Liveness {
        peek(conn, self.reset_mode == ResetMode::Full)
    }

    async fn tidy(&self, conn: &mut Conn, how: Tidy) -> Result<(), Error> {
        let full = how == Tidy::Full || self.reset_mode == ResetMode::Full;
        self.upkeep(async {
            if full { tidy::reset(conn).await } else { tidy::roll_back(conn).await }
        })
        .await
    }

    async fn probe(&self, conn: &mut Conn) -> Result<Probe, Error> {
        self.upkeep(self.prober.probe(conn)).await
    }

    async fn ping(&self, conn: &mut Conn) -> Result<(), Error> {
        self.upkeep(conn.raw_mut().ping()).await
    }

    fn verdict(&self, error: &Error) -> Verdict {
        self.classifier.judge(error)
    }

    async fn close(&self, conn: Conn) {
        if self.kill_abandoned && conn.holds_locks_abandoned() {
            let handle = conn.cancel_handle();
            // The socket first: the server then finds nobody to answer, and rolls back.
            drop(conn);
            // A statement that ended by itself in the meantime is all right, too.
            let _ = handle.kill_query(Instant::now() + self.upkeep_limit).await;
            return;
        }
        // An error, or no answer in time: the socket is closed all the same.
        let _ = self.upkeep(conn.into_inner().disconnect()).await;
    }

    fn session_id(&self, conn: &Conn) -> Option<u64> {
        self.kill_abandoned.then(|| conn.raw().id().into())
    }

    async fn end_sessions(
        &self,
        host: &Host,
        sessions: &[ServerSession],
        deadline: Instant,
    ) -> Result<usize, Error> {
        let addresses = timeout_at(deadline, self.addresses(host)).await;
        let addresses = addresses.unwrap_or_else(|_| Err(connect_timed_out()))?;
        cancel::end_sessions(self.opts_for(host, addresses, false), sessions, deadline).await
    }
}

impl fmt::Debug for MySql {
    // The login is left out: it holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySql")
            .field("reset_mode", &self.reset_mode)
            .field("read_only", &self.read_only)
            .field("prober", &self.prober)
            .field("statement_limit", &self.statement_limit)
            .field("upkeep_limit", &self.upkeep_limit)
            .field("kill_abandoned", &self.kill_abandoned)
            .finish_non_exhaustive()
    }
}

/// Joins statements, so that they run in this order and in one round trip.
fn one_text<'a>(statements: impl Iterator<Item = &'a str>) -> Vec<String> {
    let texts: Vec<&str> = statements
        .map(|text| text.trim_end_matches(|c: char| c == ';' || c.is_whitespace()))
        .filter(|text| !text.trim().is_empty())
        .collect();
    // The line break ends a comment that runs to the end of the line.
    if texts.is_empty() { Vec::new() } else { vec![texts.join(";\n")] }
}

/// The addresses of a host. Looked up here and not by the driver, to tell an unknown name from a lost link.
async fn look_up(host: &Host) -> Result<Vec<IpAddr>, Error> {
    if let Ok(address) = host.address().parse() {
        return Ok(vec![address]);
    }
    let unknown = |cause: &dyn fmt::Display| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("cannot resolve {}: {cause}", host.address()),
        )
    };
    let found = tokio::net::lookup_host((host.address(), host.port())).await;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map_err(|error| unknown(&error))? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() { Err(unknown(&"no address").into()) } else { Ok(addresses) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use pool_core::host::HostId;

    fn driver() -> MySql {
        let base = OptsBuilder::default().user(Some("u")).pass(Some("secret"));
        MySql::new(base.setup(vec!["SET a = 1;", "SET b = 2 -- why"]).init(vec!["DO 1", " "]))
    }

    #[test]
    fn options_of_a_host_spare_the_settings_query_and_never_prefer_a_socket() {
        let opts = driver().opts_for(&Host::new("db1", 3307), None, false);
        assert_eq!((opts.ip_or_hostname(), opts.tcp_port()), ("db1", 3307));
        assert!(!opts.prefer_socket());
        assert_eq!(opts.max_allowed_packet(), Some(DEFAULT_MAX_ALLOWED_PACKET));
        assert!(opts.wait_timeout().is_some());
        assert!(opts.tcp_nodelay());
    }

    #[test]
    fn statements_run_in_their_order_and_the_access_mode_comes_first() {
        let opts = driver().opts_for(&Host::new("db1", 3307), None, true);
        assert_eq!(opts.init(), ["DO 1"]);
        let expected = "SET SESSION TRANSACTION READ ONLY;\nSET a = 1;\nSET b = 2 -- why";
        assert_eq!(opts.setup(), [expected]);
    }

    #[test]
    fn read_only_sessions_are_those_that_were_asked_for() {
        let host = |id: u32| Host::new("h", 3306).with_id(HostId::new(id));
        let which = |on_secondaries, for_reads| {
            driver().with_read_only_sessions(ReadOnlySessions { on_secondaries, for_reads })
        };
        let rows = [
            (false, false, 1, Access::Read, false),
            (true, false, 0, Access::Read, false),
            (true, false, 1, Access::Write, false),
            (true, false, 1, Access::Host(HostId::new(1)), true),
            (false, true, 0, Access::Read, true),
            (false, true, 1, Access::Write, false),
        ];
        for (secondaries, reads, id, access, expected) in rows {
            let driver = which(secondaries, reads);
            assert_eq!(driver.makes_read_only(&host(id), access), expected, "{id} {access}");
        }
        let driver = which(true, false);
        assert!(!driver.makes_read_only(&host(1).with_role(Role::Source), Access::Write));
        assert!(driver.makes_read_only(&host(0).with_role(Role::Replica), Access::Read));
    }

    #[test]
    fn debug_output_holds_no_password() {
        assert!(!format!("{:?}", driver()).contains("secret"));
    }

    #[tokio::test]
    async fn an_unknown_name_is_a_host_that_is_down() {
        let host = Host::new("no-such-host.invalid", 3306);
        let error = look_up(&host).await.unwrap_err();
        assert_eq!(driver().verdict(&error), Verdict::HostDown);
        assert_eq!(look_up(&Host::new("::1", 3306)).await.unwrap().len(), 1);
    }
}
