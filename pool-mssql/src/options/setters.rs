//! The options that are not an address, by their Rust names.

use std::path::PathBuf;
use std::time::Duration;

use pool_core::failover::DelayRule;
use pool_core::verdict::Verdict;
use tiberius::AuthMethod;

use super::{Encrypt, MsSqlOptions, OptionsError, PartnerSource, ResetMode, RoleProbe, parse};
use crate::classify::{Classify, Phase};

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
