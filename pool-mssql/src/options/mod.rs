//! Everything that can be configured, by Rust names or by an ADO.NET or JDBC connection string.

mod build;
mod error;
mod keys;
mod kinds;
mod setters;
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
