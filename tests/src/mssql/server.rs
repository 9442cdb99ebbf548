//! One server: what it is made of, and its remote control.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::ado::{AdoString, ClientEncryption};
use super::core::{Core, Identity};
use super::counters::{Counts, WaitTimeout};
use super::data::DataSet;
use super::endpoint::Endpoint;
use super::login::LoginRecord;
use super::prelogin::Encryption;
use super::socket::Close;
use super::switches::Switches;
use super::tls;

/// An embedded SQL Server on a port of its own. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct MssqlServer {
    core: Arc<Core>,
    endpoint: Endpoint,
}

/// What a server is made of.
#[derive(Clone)]
pub struct ServerBuilder {
    identity: Identity,
    databases: Vec<String>,
    data: Option<DataSet>,
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("name", &self.identity.name)
            .field("user", &self.identity.user)
            .field("encryption", &self.identity.encryption)
            .field("databases", &self.databases)
            .finish_non_exhaustive()
    }
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            identity: Identity {
                name: "SQL-1".to_owned(),
                user: "kit".to_owned(),
                password: "kit-Passw0rd".to_owned(),
                encryption: Encryption::default(),
            },
            databases: vec!["app".to_owned()],
            data: None,
        }
    }
}

impl ServerBuilder {
    /// Sets the name, as `@@SERVERNAME` gives it. Defaults to `SQL-1`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.identity.name = name.into();
        self
    }

    /// Sets the only login. Defaults to `kit` with the password `kit-Passw0rd`.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.identity.user = user.into();
        self.identity.password = password.into();
        self
    }

    /// Sets how encryption is treated. Defaults to [`Encryption::Optional`].
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.identity.encryption = encryption;
        self
    }

    /// Sets the databases; the first is the default of the login. Defaults to one named `app`.
    #[must_use]
    pub fn databases(mut self, names: &[&str]) -> Self {
        self.databases = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Uses existing databases instead of new ones, as a partner or replica does.
    #[must_use]
    pub fn data(mut self, data: DataSet) -> Self {
        self.data = Some(data);
        self
    }

    /// Starts the server on a free port of the loopback interface, inside the current runtime.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no port can be had.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn launch(self) -> io::Result<MssqlServer> {
        let data = self.data_set()?;
        let core = Arc::new(Core::new(self.identity, data));
        let endpoint = Endpoint::open_new(Arc::clone(&core))?;
        Ok(MssqlServer { core, endpoint })
    }

    /// The databases: those given, or new ones.
    pub(crate) fn data_set(&self) -> io::Result<DataSet> {
        match &self.data {
            Some(data) => Ok(data.clone()),
            None => {
                let names: Vec<&str> = self.databases.iter().map(String::as_str).collect();
                DataSet::new(&names)
            }
        }
    }
}

impl MssqlServer {
    /// Starts a server with all defaults.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no port can be had.
    pub async fn launch() -> io::Result<Self> {
        Self::builder().launch().await
    }

    /// A server still to be started.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address it listens on, or listened on before it was stopped.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// The host to connect to.
    #[must_use]
    pub fn host(&self) -> String {
        self.address().ip().to_string()
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// The name, as `@@SERVERNAME` gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// The user name of the login.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.core.identity().user
    }

    /// The password of the login.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.core.identity().password
    }

    /// The default database of the login.
    #[must_use]
    pub fn database(&self) -> &str {
        self.core.default_database()
    }

    /// The databases.
    #[must_use]
    pub fn data(&self) -> &DataSet {
        self.core.data()
    }

    /// A connection string for this server, unencrypted; see [`AdoString`] for variants.
    #[must_use]
    pub fn ado_string(&self) -> String {
        self.ado().to_string()
    }

    /// The parts of the connection string.
    #[must_use]
    pub fn ado(&self) -> AdoString {
        AdoString::new(self.address(), self.database(), self.user(), self.password())
    }

    /// A connection string with the given encryption.
    #[must_use]
    pub fn ado_string_with(&self, encryption: ClientEncryption) -> String {
        self.ado().encryption(encryption).to_string()
    }

    /// The certificate the server presents, in PEM form. It is self-signed for `localhost` and
    /// `127.0.0.1`, shared by all servers of the process, and can serve as its own trust anchor.
    ///
    /// # Errors
    ///
    /// When no key could be generated.
    pub fn certificate_pem() -> io::Result<&'static str> {
        tls::certificate_pem()
    }

    /// The switches.
    #[must_use]
    pub fn switches(&self) -> &Switches {
        self.core.switches()
    }

    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.core.counters().snapshot()
    }

    /// Waits until the counters satisfy a condition.
    ///
    /// # Errors
    ///
    /// When they do not within the time.
    pub async fn wait_for(
        &self,
        within: Duration,
        condition: impl FnMut(&Counts) -> bool,
    ) -> Result<Counts, WaitTimeout> {
        self.core.counters().wait_for(within, condition).await
    }

    /// Every login read so far, oldest first.
    #[must_use]
    pub fn logins(&self) -> Vec<LoginRecord> {
        self.core.logins()
    }

    /// The text of every batch and RPC so far, oldest first.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        self.core.statements()
    }

    /// Empties both logs and sets the counters to zero, save for connections that are open now.
    pub fn clear_records(&self) {
        self.core.clear();
    }

    /// Closes every connection, and returns when all are closed, with their number.
    pub async fn kill_connections(&self, how: Close) -> usize {
        self.core.kill_all_and_wait(how).await
    }

    /// Closes the port: new connections are refused, existing ones stay.
    pub async fn refuse(&self) {
        self.endpoint.close().await;
    }

    /// Closes the port and every connection.
    pub async fn stop(&self, how: Close) {
        self.endpoint.close().await;
        self.core.kill_all_and_wait(how).await;
    }

    /// Opens the same port again. Does nothing while it is open.
    ///
    /// # Errors
    ///
    /// When the port cannot be listened on.
    pub fn start(&self) -> io::Result<()> {
        self.endpoint.open()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for MssqlServer {
    fn drop(&mut self) {
        self.core.kill_all(Close::Fin);
    }
}
