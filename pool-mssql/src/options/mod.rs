//! Everything that can be configured, by Rust names or by an ADO.NET or JDBC connection string.

mod build;
mod error;
mod keys;
mod kinds;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pool_core::failover::DelayRule;
use pool_core::verdict::Verdict;
use tiberius::AuthMethod;

pub(crate) use self::build::LEARNED_PARTNER;
pub use self::error::OptionsError;
pub use self::kinds::{Encrypt, PartnerSource, ReadIntent, ResetMode, RoleProbe};
use crate::address::{Address, AddressError};
use crate::classify::{Classify, Phase};
use crate::{ado, jdbc};

/// What to connect to, and how.
///
/// Made by [`MsSqlOptions::new`] or from a connection string; nothing is checked as a whole before
/// [`MsSqlOptions::validate`] or [`MsSqlOptions::driver`]. `Debug` hides passwords.
#[derive(Clone)]
pub struct MsSqlOptions {
    pub(crate) server: Option<Address>,
    pub(crate) partner: Option<Address>,
    pub(crate) replicas: Vec<Address>,
    pub(crate) database: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) integrated: bool,
    pub(crate) auth: Option<AuthMethod>,
    pub(crate) login_timeout: Option<Duration>,
    pub(crate) command_timeout: Option<Duration>,
    pub(crate) connect_retry_count: u8,
    pub(crate) connect_retry_interval: Duration,
    pub(crate) multi_subnet_failover: bool,
    pub(crate) read_intent: ReadIntent,
    pub(crate) encrypt: Option<Encrypt>,
    pub(crate) trust_server_certificate: bool,
    pub(crate) ca_files: Vec<PathBuf>,
    pub(crate) ca_bundles: Vec<Vec<u8>>,
    pub(crate) host_name_in_certificate: Option<String>,
    pub(crate) application_name: Option<String>,
    pub(crate) workstation_id: Option<String>,
    pub(crate) packet_size: Option<u32>,
    pub(crate) max_pool_size: Option<u32>,
    pub(crate) min_pool_size: Option<u32>,
    pub(crate) pooling: bool,
    pub(crate) connection_lifetime: Option<Duration>,
    pub(crate) tcp_user_timeout: Option<Duration>,
    pub(crate) reset_mode: ResetMode,
    pub(crate) role_probe: Option<RoleProbe>,
    pub(crate) partner_source: PartnerSource,
    pub(crate) partner_must_be_mirrored: bool,
    pub(crate) allowed_partners: Vec<String>,
    pub(crate) mapped_partners: Vec<(String, Address)>,
    pub(crate) classify: Option<Classify>,
    pub(crate) delay_rule: DelayRule,
    pub(crate) min_slice: Duration,
}

impl Default for MsSqlOptions {
    fn default() -> Self {
        Self {
            server: None,
            partner: None,
            replicas: Vec::new(),
            database: None,
            user: None,
            password: None,
            integrated: false,
            auth: None,
            login_timeout: Some(Duration::from_secs(15)),
            command_timeout: Some(Duration::from_secs(30)),
            connect_retry_count: 1,
            connect_retry_interval: Duration::from_secs(10),
            multi_subnet_failover: false,
            read_intent: ReadIntent::Never,
            encrypt: None,
            trust_server_certificate: false,
            ca_files: Vec::new(),
            ca_bundles: Vec::new(),
            host_name_in_certificate: None,
            application_name: None,
            workstation_id: None,
            packet_size: None,
            max_pool_size: None,
            min_pool_size: None,
            pooling: true,
            connection_lifetime: Some(Duration::from_secs(1800)),
            tcp_user_timeout: Some(Duration::from_secs(30)),
            reset_mode: ResetMode::Rollback,
            role_probe: None,
            partner_source: PartnerSource::Configured,
            partner_must_be_mirrored: false,
            allowed_partners: Vec::new(),
            mapped_partners: Vec::new(),
            classify: None,
            delay_rule: DelayRule::Early,
            min_slice: Duration::ZERO,
        }
    }
}

/// Where to connect to.
impl MsSqlOptions {
    /// Options for one server: `host`, `host,port` or `host\instance`, with or without `tcp:`.
    ///
    /// # Errors
    /// [`OptionsError::Address`] if `server` is none of these.
    pub fn new(server: &str) -> Result<Self, OptionsError> {
        Self::default().server(server)
    }

    /// Reads an ADO.NET connection string.
    ///
    /// # Errors
    /// Bad syntax, an unknown key, a value that is not supported or out of range. Conflicts between keys
    /// are found by [`MsSqlOptions::validate`].
    pub fn from_ado(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        keys::apply(&mut options, &ado::split(text)?, keys::Dialect::Ado)?;
        Ok(options)
    }

    /// Reads a connection URL of Microsoft's JDBC driver (`jdbc:sqlserver://…`).
    ///
    /// # Errors
    /// As [`MsSqlOptions::from_ado`].
    pub fn from_jdbc(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        let (server, pairs) = jdbc::split(text)?;
        let spread = keys::apply(&mut options, &pairs, keys::Dialect::Jdbc)?;
        let name = if server.is_empty() { spread.name } else { Some(server) };
        if let Some(name) = name {
            let refused = |error| OptionsError::Address { key: "serverName".to_owned(), error };
            let mut address = Address::parse_jdbc(&name).map_err(refused)?;
            if let Some(port) = spread.port {
                address = address.with_port(port);
            }
            if let Some(instance) = spread.instance {
                Address::parse(&format!("h\\{instance}")).map_err(|_| OptionsError::Address {
                    key: "instanceName".to_owned(),
                    error: AddressError::BadInstance(instance.chars().take(80).collect()),
                })?;
                address = address.with_instance(&instance);
            }
            options.server = Some(address);
        }
        Ok(options)
    }

    /// Sets the server: the initial partner, the listener, or the only one.
    ///
    /// # Errors
    /// [`OptionsError::Address`] if `server` cannot be read or is not TCP.
    pub fn server(mut self, server: &str) -> Result<Self, OptionsError> {
        self.server = Some(parse("server", server)?);
        Ok(self)
    }

    /// Sets the failover partner of a mirrored database. Defaults to none.
    ///
    /// # Errors
    /// [`OptionsError::Address`] if `partner` cannot be read or is not TCP.
    pub fn failover_partner(mut self, partner: &str) -> Result<Self, OptionsError> {
        self.partner = Some(parse("failover_partner", partner)?);
        Ok(self)
    }

    /// Adds a readable secondary, dialled directly and not through a listener. Defaults to none.
    ///
    /// # Errors
    /// [`OptionsError::Address`] if `replica` cannot be read or is not TCP.
    pub fn replica(mut self, replica: &str) -> Result<Self, OptionsError> {
        self.replicas.push(parse("replica", replica)?);
        Ok(self)
    }

    /// Sets the database. Defaults to the login's own. Required with a failover partner.
    #[must_use]
    pub fn database(mut self, name: &str) -> Self {
        self.database = Some(name.to_owned());
        self
    }

    /// Dials all addresses of a name at once, the first that answers wins. Defaults to false: in turn.
    #[must_use]
    pub fn multi_subnet_failover(mut self, on: bool) -> Self {
        self.multi_subnet_failover = on;
        self
    }

    /// Sets which logins ask for a readable secondary. Defaults to [`ReadIntent::Never`].
    #[must_use]
    pub fn read_intent(mut self, which: ReadIntent) -> Self {
        self.read_intent = which;
        self
    }
}

/// Who logs in, and how the conversation is protected.
impl MsSqlOptions {
    /// Sets a SQL Server login. Defaults to none.
    #[must_use]
    pub fn credentials(mut self, user: &str, password: &str) -> Self {
        self.user = Some(user.to_owned());
        self.password = Some(password.to_owned());
        self
    }

    /// Sets any other way to log in that the driver was built with. Defaults to the credentials.
    #[must_use]
    pub fn authentication(mut self, method: AuthMethod) -> Self {
        self.auth = Some(method);
        self
    }

    /// Sets how much is encrypted. Defaults to [`Encrypt::Mandatory`]; in a build without a TLS feature
    /// to [`Encrypt::Plaintext`].
    #[must_use]
    pub fn encrypt(mut self, how: Encrypt) -> Self {
        self.encrypt = Some(how);
        self
    }

    /// **Accepts any certificate**, whatever its chain and name. Defaults to false.
    #[must_use]
    pub fn trust_server_certificate(mut self, on: bool) -> Self {
        self.trust_server_certificate = on;
        self
    }

    /// Trusts the certificates of this PEM or DER file besides the platform's. Defaults to none.
    #[must_use]
    pub fn trust_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// Trusts these PEM or DER certificates besides the platform's. Defaults to none.
    #[must_use]
    pub fn trust_ca_bundle(mut self, bundle: impl Into<Vec<u8>>) -> Self {
        self.ca_bundles.push(bundle.into());
        self
    }

    /// Sets the name that the certificate must carry. Defaults to the dialled host.
    #[must_use]
    pub fn host_name_in_certificate(mut self, name: &str) -> Self {
        self.host_name_in_certificate = Some(name.to_owned());
        self
    }

    /// Sets the application name (`APP_NAME()`). Defaults to none.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.application_name = Some(name.to_owned());
        self
    }

    /// Sets the workstation name (`HOST_NAME()`). Defaults to none.
    #[must_use]
    pub fn workstation_id(mut self, name: &str) -> Self {
        self.workstation_id = Some(name.to_owned());
        self
    }
}

/// Time and size.
impl MsSqlOptions {
    /// Sets the time for one request to connect, all attempts included. `None` is unlimited. Defaults to
    /// 15 seconds; with a partner less than 5 seconds may leave no room for later rounds.
    #[must_use]
    pub fn login_timeout(mut self, limit: Option<Duration>) -> Self {
        self.login_timeout = limit;
        self
    }

    /// Sets the time for one statement, from its sending to the end of its answer. `None` is unlimited.
    /// Defaults to 30 seconds.
    #[must_use]
    pub fn command_timeout(mut self, limit: Option<Duration>) -> Self {
        self.command_timeout = limit;
        self
    }

    /// Sets how often a throttled login is repeated on the same server. Defaults to 1; 0 is never.
    #[must_use]
    pub fn connect_retry_count(mut self, count: u8) -> Self {
        self.connect_retry_count = count;
        self
    }

    /// Sets after which rounds of a walk over a mirrored pair there is a pause. Defaults to
    /// [`DelayRule::Early`].
    #[must_use]
    pub fn delay_rule(mut self, rule: DelayRule) -> Self {
        self.delay_rule = rule;
        self
    }

    /// Sets the least time that one attempt of a walk gets, for slow links. Defaults to zero: the
    /// documented slices, the first 8 % of the login timeout.
    #[must_use]
    pub fn min_slice(mut self, slice: Duration) -> Self {
        self.min_slice = slice;
        self
    }

    /// Sets the pause before a throttled login is repeated. Defaults to 10 seconds.
    #[must_use]
    pub fn connect_retry_interval(mut self, pause: Duration) -> Self {
        self.connect_retry_interval = pause;
        self
    }

    /// Sets how long sent data may stay unacknowledged before the connection counts as lost. `None`
    /// leaves it to the system. Defaults to 30 seconds.
    #[must_use]
    pub fn tcp_user_timeout(mut self, limit: Option<Duration>) -> Self {
        self.tcp_user_timeout = limit;
        self
    }

    /// Asks for this TDS packet size, 512 to 32767 bytes. Defaults to 4096.
    #[must_use]
    pub fn packet_size(mut self, bytes: u32) -> Self {
        self.packet_size = Some(bytes);
        self
    }

    /// Sets the most connections to one host. Defaults to 100.
    #[must_use]
    pub fn max_pool_size(mut self, connections: u32) -> Self {
        self.max_pool_size = Some(connections);
        self
    }

    /// Sets the connections kept ready. Defaults to 0.
    #[must_use]
    pub fn min_pool_size(mut self, connections: u32) -> Self {
        self.min_pool_size = Some(connections);
        self
    }

    /// Whether connections are kept after use. Defaults to true.
    #[must_use]
    pub fn pooling(mut self, on: bool) -> Self {
        self.pooling = on;
        self
    }

    /// Sets the age at which a connection is replaced. `None` is never. Defaults to 30
    /// minutes.
    #[must_use]
    pub fn connection_lifetime(mut self, age: Option<Duration>) -> Self {
        self.connection_lifetime = age;
        self
    }
}

/// Behaviour of the pool's side.
impl MsSqlOptions {
    /// Sets how a used connection is cleaned. Defaults to [`ResetMode::Rollback`].
    #[must_use]
    pub fn reset_mode(mut self, mode: ResetMode) -> Self {
        self.reset_mode = mode;
        self
    }

    /// Sets what a role probe asks. Defaults to [`RoleProbe::Mirroring`] with a partner,
    /// [`RoleProbe::PrimaryReplica`] with replicas or a read intent, else [`RoleProbe::Updateability`].
    #[must_use]
    pub fn role_probe(mut self, probe: RoleProbe) -> Self {
        self.role_probe = Some(probe);
        self
    }

    /// Sets where the partner's name comes from. Defaults to [`PartnerSource::Configured`]; the other two
    /// cost one query per login on the initial partner.
    #[must_use]
    pub fn partner_source(mut self, source: PartnerSource) -> Self {
        self.partner_source = source;
        self
    }

    /// Refuses a login on the partner if its database is not mirrored. Defaults to false.
    #[must_use]
    pub fn partner_must_be_mirrored(mut self, on: bool) -> Self {
        self.partner_must_be_mirrored = on;
        self
    }

    /// Allows a learned partner of this name to be dialled even though its certificate is not checked.
    /// Names ignore case. Defaults to none.
    #[must_use]
    pub fn allow_partner_name(mut self, name: &str) -> Self {
        self.allowed_partners.push(name.to_owned());
        self
    }

    /// Dials this address when the server names a partner so. Names ignore case. Defaults to none.
    ///
    /// # Errors
    /// [`OptionsError::Address`] if `address` cannot be read or is not TCP.
    pub fn map_partner_name(mut self, name: &str, address: &str) -> Result<Self, OptionsError> {
        self.mapped_partners.push((name.to_owned(), parse("map_partner_name", address)?));
        Ok(self)
    }

    /// Judges errors before the built-in table does; `None` leaves an error to the table. Defaults to
    /// nothing.
    #[must_use]
    pub fn classify_with(
        mut self,
        judge: impl Fn(&tiberius::error::Error, Phase) -> Option<Verdict> + Send + Sync + 'static,
    ) -> Self {
        self.classify = Some(Classify::new(judge));
        self
    }
}

impl FromStr for MsSqlOptions {
    type Err = OptionsError;

    /// Reads a JDBC URL if it starts so, else an ADO.NET string.
    fn from_str(text: &str) -> Result<Self, OptionsError> {
        if jdbc::is_url(text) { Self::from_jdbc(text) } else { Self::from_ado(text) }
    }
}

impl fmt::Debug for MsSqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only what is known to be harmless is shown.
        f.debug_struct("MsSqlOptions")
            .field("server", &self.server.as_ref().map(Address::to_string))
            .field("partner", &self.partner.as_ref().map(Address::to_string))
            .field("replicas", &self.replicas)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("login_timeout", &self.login_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("multi_subnet_failover", &self.multi_subnet_failover)
            .field("read_intent", &self.read_intent)
            .field("encrypt", &self.encrypt)
            .field("trust_server_certificate", &self.trust_server_certificate)
            .field("partner_source", &self.partner_source)
            .field("reset_mode", &self.reset_mode)
            .finish_non_exhaustive()
    }
}

fn parse(option: &str, text: &str) -> Result<Address, OptionsError> {
    Address::parse(text).map_err(|error| OptionsError::Address { key: option.to_owned(), error })
}

/// A closure that may replace the built-in judgement.
pub(crate) type Judge =
    Arc<dyn Fn(&tiberius::error::Error, Phase) -> Option<Verdict> + Send + Sync>;
