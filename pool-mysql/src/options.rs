//! The options of a pool of MySQL hosts: by URL, by builder methods, by serde.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use pool_core::balance::endpoint::EndpointMode;
use pool_core::config::ConfigError;
use pool_core::failover::{Cycling, InvalidOption};
use pool_core::host::{Host, Role};

use crate::driver::{MySql, ReadOnlySessions};
use crate::role::{LagSource, RoleCheck};
use crate::secret::Secret;
use crate::tidy::ResetMode;
use crate::tls::TlsMode;
use crate::{hosts, keys, units, url};

/// How long a connection is idle before the operating system asks whether the peer is still there.
const TCP_KEEP_ALIVE_TIME: Duration = Duration::from_secs(30);

/// Declares the options that have a URL key: field, builder method, key and serde field in one place.
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty, $read:expr, [$($key:literal),+] $(, serde $with:literal)?;
    )+) => {
        /// Everything that a pool of MySQL hosts needs to know.
        ///
        /// An option that is not set has the default that its method names. A URL sets options by the
        /// keys that the methods name, most of them Connector/J's; serde fields are called as the methods.
        ///
        /// The password is never printed and never serialised.
        ///
        /// ```
        /// use std::time::Duration;
        /// use pool_mysql::MySqlOptions;
        ///
        /// let options = MySqlOptions::from_url(
        ///     "mysql://app:s%40crt@db1,db2:3307/shop?secondsBeforeRetrySource=10",
        /// )?
        /// .connect_timeout(Duration::from_secs(2));
        /// assert_eq!(options.hosts().len(), 2);
        /// assert!(!format!("{options:?}").contains("s@crt"));
        /// # Ok::<(), pool_core::config::ConfigError>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
        pub struct MySqlOptions {
            #[cfg_attr(feature = "serde", serde(with = "hosts::list"))]
            pub(crate) hosts: Vec<Host>,
            #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
            pub(crate) service: Option<String>,
            #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
            pub(crate) user: Option<String>,
            #[cfg_attr(feature = "serde", serde(skip_serializing))]
            pub(crate) password: Option<Secret>,
            #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
            pub(crate) database: Option<String>,
            #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
            pub(crate) init: Vec<String>,
            #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
            pub(crate) setup: Vec<String>,
            $(
                $(#[cfg_attr(feature = "serde", serde(with = $with))])?
                #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
                pub(crate) $field: Option<$type>,
            )+
        }

        impl MySqlOptions {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nURL key: ", $("`", $key, "` ",)+)]
                #[must_use]
                pub fn $field(mut self, value: $type) -> Self {
                    self.$field = Some(value);
                    self
                }
            )+
        }

        /// Every URL key.
        pub(crate) const KEYS: &[keys::Key] = &[$(
            keys::Key {
                names: &[$($key),+],
                read: |options, text| {
                    options.$field = Some($read(text)?);
                    Ok(())
                },
            },
        )+];
    };
}

options! {
    /// Forces sessions on a secondary to be read-only; a wish for read/write waits for the return to the
    /// source. Defaults to `true`. Costs one round trip when a session on a secondary is opened.
    fail_over_read_only: bool, units::flag, ["failOverReadOnly"];
    /// How long work stays on secondaries before it goes back. Zero switches this half of the rule off.
    /// Defaults to 30 seconds. Seconds in a URL.
    seconds_before_retry_source: Duration, units::seconds,
        ["secondsBeforeRetrySource", "secondsBeforeRetryMaster"], serde "units::as_seconds";
    /// How many statements run on secondaries before work goes back. Zero switches this half of the rule
    /// off. Defaults to 50.
    queries_before_retry_source: u64, units::count,
        ["queriesBeforeRetrySource", "queriesBeforeRetryMaster"];
    /// How many turns over all hosts end a walk. Defaults to 120; the deadline usually ends it first.
    retries_all_down: u32, units::count, ["retriesAllDown"];
    /// Lets a session go on after a switch as if nothing had happened. Defaults to `false`. **Not
    /// recommended**: see `Cycling`.
    auto_reconnect: bool, units::flag, ["autoReconnect"];
    /// As [`MySqlOptions::auto_reconnect`], and the connection is checked before a statement with
    /// autocommit off as well. Defaults to `false`.
    auto_reconnect_for_pools: bool, units::flag, ["autoReconnectForPools"];
    /// With `autoReconnect`: how often each host is tried in a row. At least 1. Defaults to 3.
    max_reconnects: u32, units::positive, ["maxReconnects"];
    /// With `autoReconnect`: the pause after each of these tries. At least 1 second. Defaults to 2
    /// seconds. Seconds in a URL.
    initial_timeout: Duration, units::positive_seconds, ["initialTimeout"],
        serde "units::as_seconds";
    /// With `autoReconnect`: checks the connection after the end of a transaction only. Defaults to
    /// `false`.
    reconnect_at_tx_end: bool, units::flag, ["reconnectAtTxEnd"];
    /// The longest time of one physical connect, name look-up, TLS and login included. Zero is no limit
    /// of its own: the deadline of the walk holds. Defaults to 5 seconds. Milliseconds in a URL and in
    /// serde.
    connect_timeout: Duration, units::millis, ["connectTimeout"], serde "units::as_millis";
    /// The longest time of one statement (of a stream, until its first row). Zero is no limit. Defaults
    /// to zero. Milliseconds in a URL and in serde.
    socket_timeout: Duration, units::millis, ["socketTimeout"], serde "units::as_millis";
    /// The longest time of one walk over the hosts (ours). Defaults to 30 seconds. Milliseconds in a URL
    /// and in serde.
    failover_deadline: Duration, units::positive_millis, ["failoverDeadline"],
        serde "units::as_millis";
    /// Whether a source that became read-only is left as a dead one is (ours). Defaults to `true`.
    leave_demoted_source: bool, units::flag, ["leaveDemotedSource"];
    /// Whether a read-only session is made so on the server. Defaults to `true`. With `false` a
    /// secondary is trusted to refuse writes by itself.
    read_only_propagates_to_server: bool, units::flag, ["readOnlyPropagatesToServer"];
    /// Whether a pool may open although no source can be reached. Defaults to `false`.
    allow_source_down_connections: bool, units::flag,
        ["allowSourceDownConnections", "allowMasterDownConnections"];
    /// Whether a pool may open although no replica can be reached. Defaults to `false`.
    allow_replica_down_connections: bool, units::flag,
        ["allowReplicaDownConnections", "allowSlaveDownConnections"];
    /// Whether reads go to the source when no replica can serve them. Defaults to `false` if hosts are
    /// configured as replicas, as in Connector/J; without configured replicas reads always may.
    read_from_source_when_no_replicas: bool, units::flag,
        ["readFromSourceWhenNoReplicas", "readFromMasterWhenNoSlaves"];
    /// Whether a session routes each of its statements: reads that nothing binds go to replicas. Defaults to
    /// `true` if hosts are configured as replicas; otherwise a session stays on one host, as in Connector/J.
    route_statements: bool, units::flag, ["routeStatements"];
    /// Whether a routed read whose link broke runs once more on another host. Defaults to `false`.
    retry_reads: bool, units::flag, ["retryReads"];
    /// Whether the host of the URL is the name of a DNS service. Defaults to `false`, or `true` with
    /// `mysql+srv://`.
    dns_srv: bool, units::flag, ["dnsSrv"];
    /// The name server that is asked for services. Defaults to the operating system's.
    name_server: SocketAddr, units::address, ["nameServer"];
    /// How often a service is asked for its hosts again. Defaults to 30 seconds. Milliseconds in a URL
    /// and in serde.
    srv_refresh_interval: Duration, units::positive_millis, ["srvRefreshInterval"],
        serde "units::as_millis";
    /// The UNIX socket of a server on this machine, instead of its port. Defaults to none.
    socket: String, units::text, ["socket"];
    /// Whether the operating system checks idle connections. Defaults to `true`.
    tcp_keep_alive: bool, units::flag, ["tcpKeepAlive"];
    /// How long a connection is idle before it does. Defaults to 30 seconds. Milliseconds in a URL and in
    /// serde.
    tcp_keep_alive_time: Duration, units::positive_millis, ["tcpKeepAliveTime"],
        serde "units::as_millis";
    /// Whether connections are encrypted and what is checked. Defaults to [`TlsMode::Disabled`].
    ssl_mode: TlsMode, TlsMode::read, ["sslMode"];
    /// A PEM or DER file with the certificates of the authorities to trust, instead of the built-in ones.
    ssl_ca: String, units::text, ["sslCa"];
    /// A PEM or DER file with the client's certificate chain.
    ssl_cert: String, units::text, ["sslCert"];
    /// A PEM or DER file with the client's private key.
    ssl_key: String, units::text, ["sslKey"];
    /// The name that the server's certificate must bear, if it is not the host's.
    ssl_host_name: String, units::text, ["sslHostName"];
    /// Whether the protocol is compressed. Defaults to `false`.
    use_compression: bool, units::flag, ["useCompression"];
    /// How hard to compress, 1 to 9. Defaults to 6.
    compression_level: u32, units::level, ["compressionLevel"];
    /// The largest packet sent or accepted, 1 KiB to 1 GiB, in bytes. Defaults to 64 MiB.
    max_allowed_packet: usize, units::packet, ["maxAllowedPacket"];
    /// Prepared statements kept per connection. Zero keeps none. Defaults to 32.
    prepared_statement_cache_size: usize, units::count, ["prepStmtCacheSize"];
    /// What the server's performance schema shows about the client. `name:value,name:value` in a URL.
    connection_attributes: BTreeMap<String, String>, units::attributes, ["connectionAttributes"];
    /// Whether a statement that was abandoned inside a transaction is ended on the server, which frees the
    /// row locks at once. Switch it off where one address stands for several servers (a load balancer).
    /// Defaults to `true`.
    kill_abandoned: bool, units::flag, ["killAbandoned"];
    /// Session variables set after login and after a reset: `name=value,name=value`.
    session_variables: String, units::text, ["sessionVariables"];
    /// Whether an UPDATE reports the rows that it found, not those that it changed. Defaults to `false`.
    client_found_rows: bool, units::flag, ["clientFoundRows"];
    /// Whether the password may be sent as it is, as some authentication plug-ins need. Defaults to
    /// `false`; use it with TLS only.
    allow_cleartext_password: bool, units::flag, ["allowCleartextPassword"];
    /// How thoroughly a connection is cleaned before its next user gets it: `rollback` or `full`.
    /// Defaults to [`ResetMode::Rollback`].
    reset_mode: ResetMode,
        |text| units::word(text, &[("rollback", ResetMode::Rollback), ("full", ResetMode::Full)]),
        ["resetMode"];
    /// How roles are found out: `probe` or `static`. Defaults to [`RoleCheck::Probe`].
    role_check: RoleCheck,
        |text| units::word(text, &[("probe", RoleCheck::Probe), ("static", RoleCheck::Static)]),
        ["roleCheck"];
    /// How replication lag is measured: `off`, `status`, `heartbeat:table` or `query:SELECT …`. Defaults
    /// to [`LagSource::Off`].
    lag_source: LagSource, keys::lag_source, ["lagSource"];
    /// The pool's name in logs and metrics.
    pool_name: String, units::text, ["poolName"];
    /// Connections per host at most.
    max_pool_size: usize, units::positive, ["maxPoolSize"];
    /// Idle connections per host at least.
    min_idle: usize, units::count, ["minIdle"];
    /// How long a caller waits for a connection. Milliseconds in a URL and in serde.
    acquire_timeout: Duration, units::positive_millis, ["acquireTimeout"],
        serde "units::as_millis";
    /// How long a check of an idle connection may take. Milliseconds in a URL and in serde.
    validation_timeout: Duration, units::positive_millis, ["validationTimeout"],
        serde "units::as_millis";
    /// How long a connection may be idle. Milliseconds in a URL and in serde.
    idle_timeout: Duration, units::positive_millis, ["idleTimeout"], serde "units::as_millis";
    /// How old a connection may get. Milliseconds in a URL and in serde.
    max_lifetime: Duration, units::positive_millis, ["maxLifetime"], serde "units::as_millis";
    /// How long an idle connection goes unchecked. Milliseconds in a URL and in serde.
    keepalive_time: Duration, units::positive_millis, ["keepaliveTime"], serde "units::as_millis";
    /// How long after its last use a connection is handed out without a check. Milliseconds in a URL and
    /// in serde.
    alive_bypass_window: Duration, units::millis, ["aliveBypassWindow"], serde "units::as_millis";
    /// The largest lag of a replica that serves reads; needs a lag source. Milliseconds in a URL and in
    /// serde.
    max_lag: Duration, units::millis, ["maxLag"], serde "units::as_millis";
    /// Connections per host that are opened at once.
    max_connecting: usize, units::positive, ["maxConnecting"];
    /// How often hosts are probed; zero switches probing off. Milliseconds in a URL and in serde.
    probe_interval: Duration, units::millis, ["probeInterval"], serde "units::as_millis";
    /// How many silent probes in a row take a host out.
    probe_failures: u32, units::positive, ["probeFailures"];
    /// The read/write attribute: `read-write` or `read-only`.
    endpoint_mode: EndpointMode,
        |text| units::word(
            text,
            &[("read-write", EndpointMode::ReadWrite), ("read-only", EndpointMode::ReadOnly)],
        ),
        ["endpointMode"];
}

impl MySqlOptions {
    /// No hosts, no login, every default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a connection URL.
    ///
    /// ```text
    /// mysql://user:password@h1:3306,[::1]:3307,address=(host=h3)(type=replica)/db?key=value
    /// mysql:replication://source,replica1,replica2/db
    /// mysql+srv://_mysql._tcp.example/db
    /// ```
    ///
    /// `jdbc:` in front is allowed. User, password, database and values are percent-encoded.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the part or the key: one that is unknown, given twice, out of range or
    /// in contradiction to another. It never holds the password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let parts = url::split(url)?;
        let mut options = Self {
            user: parts.user,
            password: parts.password.map(Secret::new),
            database: parts.database,
            ..Self::default()
        };
        keys::apply(&mut options, parts.properties)?;
        let service = match (parts.form, options.dns_srv) {
            (url::Form::Service, Some(false)) => {
                return Err(ConfigError::new("dnsSrv", "false contradicts mysql+srv://"));
            }
            (url::Form::Replication, Some(true)) => {
                return Err(ConfigError::new("dnsSrv", "not with mysql:replication://"));
            }
            (form, on) => form == url::Form::Service || on == Some(true),
        };
        if service {
            options.dns_srv = Some(true);
            options.service = Some(keys::service_name(&parts.hosts)?);
        } else {
            options.hosts = hosts::parse_list(&parts.hosts)?;
            if parts.form == url::Form::Replication {
                options.hosts = keys::replication_roles(options.hosts)?;
            }
        }
        options.validate()?;
        Ok(options)
    }

    /// Adds a host. The first one is the source unless roles say otherwise.
    #[must_use]
    pub fn host(mut self, host: Host) -> Self {
        self.hosts.push(host);
        self
    }

    /// Adds a host given as text: `db2:3307?type=replica&weight=50`.
    ///
    /// # Errors
    ///
    /// If the text is not understood.
    pub fn host_text(self, text: &str) -> Result<Self, ConfigError> {
        Ok(self.host(hosts::parse_one(text)?))
    }

    /// Sets the name of the DNS service that lists the hosts (feature `srv`).
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        self.service = Some(name.to_owned());
        self
    }

    /// Sets the account. URL key: `user`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Sets the password. URL key: `password`.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(Secret::new(password));
        self
    }

    /// Sets the database.
    #[must_use]
    pub fn database(mut self, database: &str) -> Self {
        self.database = Some(database.to_owned());
        self
    }

    /// Adds a statement that runs once after login, in the order of the calls.
    #[must_use]
    pub fn init(mut self, sql: &str) -> Self {
        self.init.push(sql.to_owned());
        self
    }

    /// Adds a statement that runs after login and after every reset, in the order of the calls: the place
    /// for session settings.
    #[must_use]
    pub fn setup(mut self, sql: &str) -> Self {
        self.setup.push(sql.to_owned());
        self
    }

    /// The hosts, in order. Empty if a DNS service lists them.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Whether hosts are configured as sources and replicas, and not merely in an order.
    #[must_use]
    pub fn is_replication(&self) -> bool {
        self.hosts.iter().any(|host| host.role() == Role::Replica)
    }

    /// Whether a pool may open although no source can be reached.
    #[must_use]
    pub fn allows_source_down(&self) -> bool {
        self.allow_source_down_connections.unwrap_or(false)
    }

    /// Whether a pool may open although no replica can be reached.
    #[must_use]
    pub fn allows_replica_down(&self) -> bool {
        self.allow_replica_down_connections.unwrap_or(false)
    }

    /// Whether reads go to the source when no replica can serve them.
    #[must_use]
    pub fn reads_fall_back_to_source(&self) -> bool {
        self.read_from_source_when_no_replicas.unwrap_or(!self.is_replication())
    }

    /// Whether a session routes each of its statements.
    #[must_use]
    pub fn routes_statements(&self) -> bool {
        self.route_statements.unwrap_or_else(|| self.is_replication())
    }

    /// The failover policy.
    ///
    /// # Errors
    ///
    /// If an option cannot be used.
    pub fn failover(&self) -> Result<Cycling, ConfigError> {
        fn set<B, T: Copy>(builder: B, value: Option<T>, with: impl Fn(B, T) -> B) -> B {
            match value {
                Some(value) => with(builder, value),
                None => builder,
            }
        }
        use pool_core::failover::CyclingBuilder as B;
        let builder = Cycling::builder();
        let builder = set(builder, self.fail_over_read_only, B::fail_over_read_only);
        let builder =
            set(builder, self.seconds_before_retry_source, B::seconds_before_retry_source);
        let builder =
            set(builder, self.queries_before_retry_source, B::queries_before_retry_source);
        let builder = set(builder, self.retries_all_down, B::retries_all_down);
        let builder = set(builder, self.auto_reconnect, B::auto_reconnect);
        let builder = set(builder, self.auto_reconnect_for_pools, B::auto_reconnect_for_pools);
        let builder = set(builder, self.max_reconnects, B::max_reconnects);
        let builder = set(builder, self.initial_timeout, B::initial_timeout);
        let builder = set(builder, self.reconnect_at_tx_end, B::reconnect_at_tx_end);
        let builder = set(builder, self.connect_limit(), B::connect_timeout);
        let builder = set(builder, self.failover_deadline, B::deadline);
        let builder = set(builder, self.leave_demoted_source, B::leave_demoted);
        let refused = |error: InvalidOption| ConfigError::new(error.option(), error.reason());
        builder.build().map_err(refused)
    }

    /// The connect limit, if one was set; the deadline in place of zero.
    pub(crate) fn connect_limit(&self) -> Option<Duration> {
        self.connect_timeout.map(|limit| {
            let deadline = self.failover_deadline.unwrap_or(Duration::from_secs(30));
            if limit.is_zero() { deadline } else { limit }
        })
    }

    /// The driver.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or need a feature that is not compiled in.
    pub fn driver(&self) -> Result<MySql, ConfigError> {
        self.validate()?;
        let mut base = mysql_async::OptsBuilder::default()
            .user(self.user.clone())
            .pass(self.password.as_ref().map(Secret::reveal))
            .db_name(self.database.clone())
            .socket(self.socket.clone())
            .max_allowed_packet(self.max_allowed_packet)
            .client_found_rows(self.client_found_rows.unwrap_or(false))
            .enable_cleartext_plugin(self.allow_cleartext_password.unwrap_or(false))
            .ssl_opts(crate::tls::ssl_opts(self)?)
            .init(self.init.clone())
            .setup(self.setup_statements());
        if self.tcp_keep_alive.unwrap_or(true) {
            let time = self.tcp_keep_alive_time.unwrap_or(TCP_KEEP_ALIVE_TIME);
            base = base.tcp_keepalive(Some(time));
        }
        if self.use_compression.unwrap_or(false) {
            let level = self.compression_level.unwrap_or(6);
            base = base.compression(mysql_async::Compression::new(level));
        }
        if let Some(size) = self.prepared_statement_cache_size {
            base = base.stmt_cache_size(size);
        }
        for (name, value) in self.connection_attributes.iter().flatten() {
            base = base.connect_attribute(name, value);
        }
        let on_secondaries = self.fail_over_read_only.unwrap_or(true)
            && self.read_only_propagates_to_server.unwrap_or(true);
        Ok(MySql::new(base)
            .with_read_only_sessions(ReadOnlySessions { on_secondaries, for_reads: false })
            .with_reset_mode(self.reset_mode.unwrap_or_default())
            .with_kill_abandoned(self.kill_abandoned.unwrap_or(true))
            .with_role_check(self.role_check.unwrap_or_default())
            .with_lag_source(self.lag_source.clone().unwrap_or_default())
            .with_statement_timeout(self.socket_timeout.filter(|limit| !limit.is_zero())))
    }

    fn setup_statements(&self) -> Vec<String> {
        let variables = self.session_variables.iter().map(|list| format!("SET SESSION {list}"));
        variables.chain(self.setup.iter().cloned()).collect()
    }

    /// Where the hosts come from, if a DNS service lists them.
    ///
    /// # Errors
    ///
    /// If the operating system's name servers are to be used and cannot be read.
    #[cfg(feature = "srv")]
    pub fn srv_service(&self) -> Result<Option<crate::srv::SrvService>, ConfigError> {
        let new = |name: &String| crate::srv::SrvService::new(name, self.name_server);
        self.service.as_ref().map(new).transpose()
    }

    /// Finds what is missing or contradicts itself.
    ///
    /// # Errors
    ///
    /// The first option that cannot be used, under the name of its URL key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        keys::validate(self)
    }
}

impl fmt::Display for MySqlOptions {
    /// `user@h1:3306,h2:3306/db`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match &self.service {
            Some(service) => f.write_str(service)?,
            None => {
                let names: Vec<&str> = self.hosts.iter().map(Host::name).collect();
                f.write_str(&names.join(","))?;
            }
        }
        write!(f, "/{}", self.database.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
