//! From options to a driver: what excludes what, and the driver's own configuration.

use std::time::Duration;

use pool_core::host::{Host, Role};
use tiberius::{AuthMethod, Config, EncryptionLevel};

use super::{Encrypt, MsSqlOptions, OptionsError, PartnerSource, ReadIntent, RoleProbe};
use crate::address::Address;
use crate::driver::MsSql;

const HAS_TLS: bool = cfg!(any(feature = "rustls", feature = "native-tls"));
const TLS_FEATURES: &str = "`rustls` or `native-tls`";

impl MsSqlOptions {
    /// Checks everything that can be checked without a server.
    ///
    /// # Errors
    /// The first conflict, missing option or feature found; each names what it is about (mirroring
    /// reference, section 7).
    pub fn validate(&self) -> Result<(), OptionsError> {
        let server = self.server.as_ref().ok_or(OptionsError::Missing {
            option: "Server",
            reason: "there is nothing to connect to",
        })?;
        self.check_partner(server)?;
        self.check_listener(server)?;
        self.check_protection()?;
        self.check_sizes()?;
        self.mirrored()?;
        self.check_login()
    }

    /// What is legal but worth a look, one sentence each. The failover policy has its own.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.encryption() == Encrypt::Plaintext
            || (self.encryption() == Encrypt::Optional && !HAS_TLS)
        {
            warnings.push("nothing is encrypted, not even the password".to_owned());
        }
        warnings
    }

    /// The driver for these options.
    ///
    /// # Errors
    /// As [`MsSqlOptions::validate`].
    pub fn driver(&self) -> Result<MsSql, OptionsError> {
        self.validate()?;
        for warning in self.warnings() {
            tracing::warn!(target: "pool_mssql", "{warning}");
        }
        Ok(MsSql::new(self.clone()))
    }

    /// The hosts of a cluster with these options: the server, then its partner or its replicas.
    ///
    /// With [`ReadIntent::ForReads`] and no replica the listener stands in the list twice: as the source,
    /// and as the place where logins with read intent are routed to a secondary. With a learned partner
    /// only, the second host is a place holder until a name is known.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        let Some(server) = &self.server else { return Vec::new() };
        let mut hosts = vec![host(server, Role::Source)];
        if let Some(partner) = &self.partner {
            // A mirror serves no reads: only a failover brings work to it.
            hosts.push(host(partner, Role::Replica).with_weight(0));
        } else if self.partner_source != PartnerSource::Configured {
            hosts.push(Host::new(LEARNED_PARTNER, 0).named("learned partner").with_weight(0));
        }
        hosts.extend(self.replicas.iter().map(|replica| host(replica, Role::Replica)));
        if self.read_intent == ReadIntent::ForReads && self.replicas.is_empty() {
            let name = format!("{} (read intent)", hosts[0].name());
            hosts.push(host(server, Role::Replica).named(&name));
        }
        hosts
    }

    /// Whether there may be a second endpoint for writes.
    pub(crate) fn is_pair(&self) -> bool {
        self.partner.is_some() || self.partner_source != PartnerSource::Configured
    }

    /// What is encrypted, the default resolved.
    pub(crate) fn encryption(&self) -> Encrypt {
        self.encrypt.unwrap_or(if HAS_TLS { Encrypt::Mandatory } else { Encrypt::Plaintext })
    }

    /// Whether a wrong server would be noticed by its certificate before the password is sent.
    pub(crate) fn checks_certificate(&self) -> bool {
        HAS_TLS
            && !self.trust_server_certificate
            && matches!(self.encryption(), Encrypt::Mandatory | Encrypt::Strict)
    }

    /// What a role probe asks, the default resolved.
    pub(crate) fn probe_kind(&self) -> RoleProbe {
        self.role_probe.unwrap_or_else(|| {
            if self.is_pair() {
                RoleProbe::Mirroring
            } else if !self.replicas.is_empty() || self.read_intent != ReadIntent::Never {
                RoleProbe::PrimaryReplica
            } else {
                RoleProbe::Updateability
            }
        })
    }

    /// The driver's configuration without host, port and intent. Call after `validate` only.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config.encryption(match (self.encryption(), HAS_TLS) {
            (Encrypt::Mandatory, _) => EncryptionLevel::Required,
            (Encrypt::Strict, _) => EncryptionLevel::Strict,
            (Encrypt::Optional, true) => EncryptionLevel::Off,
            (Encrypt::Optional, false) | (Encrypt::Plaintext, _) => EncryptionLevel::NotSupported,
        });
        // `trust_cert` panics when a CA was set; `validate` has refused that mix.
        if self.trust_server_certificate {
            config.trust_cert();
        } else {
            for file in &self.ca_files {
                config.trust_cert_ca(file.display());
            }
            for bundle in &self.ca_bundles {
                config.trust_cert_ca_bundle(bundle.clone());
            }
        }
        if let Some(name) = &self.host_name_in_certificate {
            config.hostname_in_certificate(name);
        }
        if let Some(name) = &self.database {
            config.database(name);
        }
        if let Some(name) = &self.application_name {
            config.application_name(name);
        }
        if let Some(name) = &self.workstation_id {
            config.client_name(name);
        }
        if let Some(size) = self.packet_size {
            config.packet_size(size);
        }
        if let Some(method) = self.login_method() {
            config.authentication(method);
        }
        // One deadline of ours covers dial, TLS, login and redirects.
        config.handshake_timeout(None);
        // A statement has a total limit of ours. The driver's own limit restarts with every token and
        // ruins the connection; it stays behind as a net for callers who use the bare client.
        config.command_timeout(self.command_timeout.map(|limit| limit + Duration::from_secs(1)));
        config
    }

    fn login_method(&self) -> Option<AuthMethod> {
        if let Some(method) = &self.auth {
            return Some(method.clone());
        }
        #[cfg(all(windows, feature = "winauth"))]
        if self.integrated {
            return Some(AuthMethod::Integrated);
        }
        let user = self.user.as_ref()?;
        Some(AuthMethod::sql_server(user, self.password.as_deref().unwrap_or_default()))
    }

    fn check_partner(&self, server: &Address) -> Result<(), OptionsError> {
        if !self.is_pair() {
            return Ok(());
        }
        let conflict = |second, reason| {
            Err(OptionsError::Conflict { first: "Failover Partner", second, reason })
        };
        if self.database.is_none() {
            return Err(OptionsError::Missing {
                option: "Database",
                reason: "mirroring is per database, so a failover partner needs one",
            });
        }
        if self.multi_subnet_failover {
            return conflict(
                "MultiSubnetFailover",
                "one is mirroring, the other availability groups",
            );
        }
        if self.read_intent != ReadIntent::Never {
            return conflict("ApplicationIntent=ReadOnly", "a mirror serves no reads");
        }
        if !self.replicas.is_empty() {
            return conflict("replica", "one is mirroring, the other availability groups");
        }
        if self.partner.as_ref().is_some_and(|partner| partner.same_server(server)) {
            return conflict("Server", "both are the same server");
        }
        Ok(())
    }

    fn check_listener(&self, server: &Address) -> Result<(), OptionsError> {
        let named = |address: &&Address| address.dial_port().is_none();
        let mut all = std::iter::once(server)
            .chain(&self.partner)
            .chain(&self.replicas)
            .chain(self.mapped_partners.iter().map(|(_, address)| address));
        if all.any(|address| named(&address)) {
            if self.multi_subnet_failover {
                return Err(OptionsError::Conflict {
                    first: "MultiSubnetFailover",
                    second: "a named instance without a port",
                    reason: "SQL Server Browser cannot be asked for several addresses at once",
                });
            }
            if !cfg!(feature = "sql-browser") {
                return Err(OptionsError::Feature {
                    option: "a named instance without a port",
                    feature: "`sql-browser`",
                });
            }
        }
        Ok(())
    }

    fn check_protection(&self) -> Result<(), OptionsError> {
        let option = match self.encryption() {
            Encrypt::Mandatory => Some("Encrypt=Mandatory"),
            Encrypt::Strict => Some("Encrypt=Strict"),
            Encrypt::Optional | Encrypt::Plaintext => None,
        };
        if let Some(option) = option.filter(|_| !HAS_TLS) {
            return Err(OptionsError::Feature { option, feature: TLS_FEATURES });
        }
        if self.trust_server_certificate
            && !(self.ca_files.is_empty() && self.ca_bundles.is_empty())
        {
            return Err(OptionsError::Conflict {
                first: "TrustServerCertificate",
                second: "TrustServerCertificateCA",
                reason: "one trusts every certificate, the other names whom to trust",
            });
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), OptionsError> {
        if self.packet_size.is_some_and(|size| !(512..=32_767).contains(&size)) {
            return Err(OptionsError::value("packet_size", "expected a number from 512 to 32767"));
        }
        let pause = self.connect_retry_interval;
        if pause < Duration::from_secs(1) || pause > Duration::from_secs(60) {
            return Err(OptionsError::value("connect_retry_interval", "expected 1 to 60 seconds"));
        }
        if self.max_pool_size == Some(0) {
            return Err(OptionsError::value("max_pool_size", "expected 1 or more"));
        }
        if self.min_pool_size.unwrap_or(0) > self.max_pool_size.unwrap_or(100) {
            return Err(OptionsError::Conflict {
                first: "Min Pool Size",
                second: "Max Pool Size",
                reason: "the least is more than the most",
            });
        }
        if !self.pooling && self.min_pool_size.unwrap_or(0) > 0 {
            return Err(OptionsError::Conflict {
                first: "Pooling=false",
                second: "Min Pool Size",
                reason: "no connection is kept",
            });
        }
        if self.login_timeout == Some(Duration::ZERO) {
            return Err(OptionsError::value("login_timeout", "unlimited is `None`, not zero"));
        }
        if self.command_timeout == Some(Duration::ZERO) {
            return Err(OptionsError::value("command_timeout", "unlimited is `None`, not zero"));
        }
        Ok(())
    }

    fn check_login(&self) -> Result<(), OptionsError> {
        if self.auth.is_some() {
            return Ok(());
        }
        if self.integrated && !cfg!(all(windows, feature = "winauth")) {
            return Err(OptionsError::Feature {
                option: "Integrated Security",
                feature: "`winauth` (Windows only; elsewhere set `authentication`)",
            });
        }
        if self.integrated && self.user.is_some() {
            return Err(OptionsError::Conflict {
                first: "Integrated Security",
                second: "User ID",
                reason: "only one of them can log in",
            });
        }
        if !self.integrated && self.user.is_none() {
            return Err(OptionsError::Missing {
                option: "User ID",
                reason: "nobody is named to log in",
            });
        }
        Ok(())
    }
}

/// The address of the second host while no partner is configured: a name that no parser accepts.
pub(crate) const LEARNED_PARTNER: &str = "<learned partner>";

fn host(address: &Address, role: Role) -> Host {
    let (name, port) = address.host_parts();
    let host = Host::new(&name, port).with_role(role);
    if address.instance().is_some() {
        return host.named(&address.to_string());
    }
    host
}
