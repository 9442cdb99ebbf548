//! ADO.NET connection strings for the kit's servers.

use std::fmt;
use std::net::SocketAddr;

/// What a client asks of the encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientEncryption {
    /// None at all: `Encrypt=DANGER_PLAINTEXT`.
    #[default]
    Plaintext,
    /// Of the login only: `Encrypt=false`.
    LoginOnly,
    /// Throughout: `Encrypt=true`.
    Full,
}

/// A connection string, to be changed and then written out with `to_string()`.
#[derive(Clone)]
pub struct AdoString {
    server: SocketAddr,
    partner: Option<SocketAddr>,
    database: String,
    user: String,
    password: String,
    encryption: ClientEncryption,
    read_only: bool,
    more: Vec<(String, String)>,
}

impl fmt::Debug for AdoString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdoString")
            .field("server", &self.server)
            .field("partner", &self.partner)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("encryption", &self.encryption)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl AdoString {
    pub(crate) fn new(server: SocketAddr, database: &str, user: &str, password: &str) -> Self {
        Self {
            server,
            partner: None,
            database: database.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            encryption: ClientEncryption::default(),
            read_only: false,
            more: Vec::new(),
        }
    }

    /// Adds `Failover Partner`.
    #[must_use]
    pub fn partner(mut self, partner: SocketAddr) -> Self {
        self.partner = Some(partner);
        self
    }

    /// Replaces the database.
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = database.into();
        self
    }

    /// Replaces the encryption. Defaults to [`ClientEncryption::Plaintext`].
    #[must_use]
    pub fn encryption(mut self, encryption: ClientEncryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// Adds `ApplicationIntent=ReadOnly`.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Adds any other keyword.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.more.push((key.into(), value.to_string()));
        self
    }
}

impl fmt::Display for AdoString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server=tcp:{},{};", self.server.ip(), self.server.port())?;
        if let Some(partner) = self.partner {
            write!(f, "Failover Partner=tcp:{},{};", partner.ip(), partner.port())?;
        }
        let encrypt = match self.encryption {
            ClientEncryption::Plaintext => "DANGER_PLAINTEXT",
            ClientEncryption::LoginOnly => "false",
            ClientEncryption::Full => "true",
        };
        write!(
            f,
            "Database={};User ID={};Password={};Encrypt={encrypt};TrustServerCertificate=true",
            self.database, self.user, self.password
        )?;
        if self.read_only {
            f.write_str(";ApplicationIntent=ReadOnly")?;
        }
        self.more.iter().try_for_each(|(key, value)| write!(f, ";{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_come_in_the_usual_order() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ado = AdoString::new(address(1), "app", "kit", "pw")
            .partner(address(2))
            .encryption(ClientEncryption::Full)
            .with("Connect Timeout", 5);
        assert_eq!(
            ado.to_string(),
            "Server=tcp:127.0.0.1,1;Failover Partner=tcp:127.0.0.1,2;Database=app;User ID=kit;\
             Password=pw;Encrypt=true;TrustServerCertificate=true;Connect Timeout=5"
        );
        assert!(!format!("{ado:?}").contains("pw"));
    }
}
