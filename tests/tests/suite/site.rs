//! A cluster of any kind, as the suite sees it.

use std::net::SocketAddr;

use pool_tests::mysql;
use pool_tests::real::{self, Server};

/// A source (host 0) and its replicas.
pub trait Site: Send + Sync {
    /// All hosts, source first.
    fn url(&self) -> String;
    /// One host alone.
    fn url_of(&self, host: usize) -> String;
    /// Where a host listens.
    fn addr(&self, host: usize) -> SocketAddr;
    /// How many hosts there are.
    fn size(&self) -> usize;
    /// Ends a host as `kill -9` does.
    fn kill(&self, host: usize) -> impl Future<Output = ()> + Send;
    /// Starts a dead host; returns when it answers.
    fn revive(&self, host: usize) -> impl Future<Output = ()> + Send;
    /// Freezes a host: nothing is closed, nothing answered.
    fn pause(&self, host: usize) -> impl Future<Output = ()> + Send;
    /// Ends [`Site::pause`].
    fn unpause(&self, host: usize) -> impl Future<Output = ()> + Send;
    /// Switches a host's writability.
    fn set_read_only(&self, host: usize, on: bool) -> impl Future<Output = ()> + Send;
    /// Returns when the replicas have what the source has.
    fn caught_up(&self) -> impl Future<Output = ()> + Send;
    /// Autocommit, isolation level and access mode of a session, as one row of text.
    fn session_facts(&self) -> &'static str;

    /// The name that a pool gives to a host.
    fn name(&self, host: usize) -> String {
        self.addr(host).to_string()
    }

    /// [`Site::url`], with other addresses.
    fn url_over(&self, addrs: &[SocketAddr]) -> String {
        let url = self.url();
        let (login, rest) = url.rsplit_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        let hosts: Vec<String> = addrs.iter().map(SocketAddr::to_string).collect();
        format!("{login}@{}/{database}", hosts.join(","))
    }
}

const FACTS: &str =
    "SELECT CONCAT_WS(' ', @@autocommit, @@transaction_isolation, @@transaction_read_only)";
const MARIADB_FACTS: &str = "SELECT CONCAT_WS(' ', @@autocommit, @@tx_isolation, @@tx_read_only)";

/// What differs between the products.
pub trait Product: Server {
    const FACTS: &str;
}

impl Product for real::MySqlHost {
    const FACTS: &str = FACTS;
}

impl Product for real::MariaDbHost {
    const FACTS: &str = MARIADB_FACTS;
}

impl<S: Product> Site for real::Cluster<S> {
    fn url(&self) -> String {
        self.url("test")
    }

    fn url_of(&self, host: usize) -> String {
        self.host(host).url("test")
    }

    fn addr(&self, host: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.host(host).port()).into()
    }

    fn size(&self) -> usize {
        self.hosts().len()
    }

    async fn kill(&self, host: usize) {
        self.host(host).kill().await.unwrap();
    }

    async fn revive(&self, host: usize) {
        self.host(host).start().await.unwrap();
        self.host(host).wait_until_up(real::STARTUP).await.unwrap();
    }

    async fn pause(&self, host: usize) {
        self.host(host).pause().await.unwrap();
    }

    async fn unpause(&self, host: usize) {
        self.host(host).unpause().await.unwrap();
    }

    async fn set_read_only(&self, host: usize, on: bool) {
        self.host(host).set_read_only(on).await.unwrap();
    }

    async fn caught_up(&self) {
        self.replication_caught_up().await.unwrap();
    }

    fn session_facts(&self) -> &'static str {
        S::FACTS
    }
}

impl Site for mysql::Cluster {
    fn url(&self) -> String {
        self.url("app")
    }

    fn url_of(&self, host: usize) -> String {
        self.url_of(host, "app")
    }

    fn addr(&self, host: usize) -> SocketAddr {
        self.host(host).addr()
    }

    fn size(&self) -> usize {
        self.hosts().count()
    }

    async fn kill(&self, host: usize) {
        self.host(host).stop().await;
    }

    async fn revive(&self, host: usize) {
        self.host(host).start().await.unwrap();
    }

    async fn pause(&self, host: usize) {
        self.host(host).hang();
    }

    async fn unpause(&self, host: usize) {
        self.host(host).release();
    }

    async fn set_read_only(&self, host: usize, on: bool) {
        self.host(host).set_read_only(on);
    }

    async fn caught_up(&self) {}

    fn session_facts(&self) -> &'static str {
        FACTS
    }
}
