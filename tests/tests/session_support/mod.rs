//! A session on the embedded cluster, driven in the words of the behaviour cases.
#![allow(dead_code, unreachable_pub)]

use std::sync::{Mutex, Once};
use std::time::Duration;

use pool_core::access::AccessMode;
use pool_core::failover::{Failure, SessionOptions};
use pool_mysql::{MySqlOptions, Pool, Session};
use pool_tests::mysql::Cluster;
use tokio::time::{Instant, sleep, timeout};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A bound for everything that is expected to happen.
pub const SOON: Duration = Duration::from_secs(20);

pub const OK: Result<(), Failure> = Ok(());
pub const UNKNOWN: Result<(), Failure> = Err(Failure::OutcomeUnknown);
pub const SWITCHED: Result<(), Failure> = Err(Failure::Switched);
pub const LOST: Result<(), Failure> = Err(Failure::TransactionLost);
pub const NOT_WRITABLE: Result<(), Failure> = Err(Failure::NotWritable);

/// A query that opens a transaction where one is to be opened.
pub const READ: &str = "SELECT COUNT(*) FROM t";

/// Hosts H1 … and one session. Hosts are not probed: every connect is the session's.
pub struct Bench {
    pub cluster: Cluster,
    pub pool: Pool,
    pub session: Session,
    from: usize,
    seen: usize,
}

impl Bench {
    /// Two turns, unless `keys` (`key=value&…`) say otherwise.
    pub async fn new(hosts: usize, keys: &str) -> Self {
        Self::with(hosts, keys, |_| ()).await
    }

    pub async fn with(hosts: usize, keys: &str, change: impl FnOnce(&mut SessionOptions)) -> Self {
        let cluster = Cluster::start(hosts).await.unwrap();
        cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
        Self::on(cluster, keys, change).await
    }

    pub async fn without_autocommit(hosts: usize, keys: &str) -> Self {
        Self::with(hosts, keys, |options| options.autocommit = false).await
    }

    pub async fn on(
        cluster: Cluster,
        keys: &str,
        change: impl FnOnce(&mut SessionOptions),
    ) -> Self {
        let from = attempts(|all| all.len());
        let options = options(&cluster, keys);
        let pool = options.connect_later().await.unwrap();
        let mut session_options = options.session_options().unwrap();
        change(&mut session_options);
        let session = Session::new(&pool, session_options);
        Self { cluster, pool, session, from, seen: 0 }
    }

    pub async fn down(&mut self, hosts: &[usize]) -> &mut Self {
        for number in hosts {
            self.cluster.host(number - 1).stop().await;
        }
        self
    }

    pub async fn up(&mut self, hosts: &[usize]) -> &mut Self {
        for number in hosts {
            self.cluster.host(number - 1).start().await.unwrap();
        }
        self
    }

    pub async fn connect(&mut self) -> Result<(), Failure> {
        done(timeout(SOON, self.session.connect()).await.unwrap())
    }

    pub async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        done(timeout(SOON, self.session.query_drop(sql)).await.unwrap())
    }

    pub async fn query(&mut self) -> Result<(), Failure> {
        self.run(READ).await
    }

    pub async fn queries(&mut self, times: usize) {
        for number in 1..=times {
            assert_eq!(self.query().await, OK, "query {number}");
        }
    }

    pub async fn set_read_only(&mut self, on: bool) -> Result<(), Failure> {
        done(self.session.set_read_only(on).await)
    }

    /// All attempts of the session to connect, in order: `/H1` connected, `\H1` failed.
    pub fn history(&self) -> String {
        self.attempts().join(" ")
    }

    /// The attempts since the last call of this method.
    pub fn fresh(&mut self) -> String {
        let all = self.attempts();
        let fresh = all[self.seen..].join(" ");
        self.seen = all.len();
        fresh
    }

    fn attempts(&self) -> Vec<String> {
        let ports: Vec<u16> = self.cluster.hosts().map(|host| host.port()).collect();
        let list: Vec<String> = attempts(|all| {
            let mine = all[self.from..].iter().filter_map(|(port, connected)| {
                let at = ports.iter().position(|mine| mine == port)?;
                Some(format!("{}H{}", if *connected { '/' } else { '\\' }, at + 1))
            });
            mine.collect()
        });
        // The servers saw the very same.
        for (at, host) in self.cluster.hosts().enumerate() {
            let reported = list.iter().filter(|text| **text == format!("/H{}", at + 1)).count();
            assert_eq!(host.counters().logins, reported as u64, "logins on H{}", at + 1);
        }
        list
    }

    /// The number of the current host.
    pub fn host(&self) -> Option<usize> {
        let port = self.session.host()?.port();
        self.cluster.hosts().position(|host| host.port() == port).map(|at| at + 1)
    }

    pub fn mode(&self) -> &'static str {
        self.session.state().mode().map_or("none", AccessMode::as_str)
    }

    pub fn at(&self) -> (Option<usize>, &'static str) {
        (self.host(), self.mode())
    }

    /// Whether the server itself refuses writes of this session, and accepts reads.
    pub async fn server_says_read_only(&mut self) -> bool {
        let sql = "SELECT @@session.transaction_read_only";
        self.session.query_first::<i64>(sql).await.unwrap() == Some(1)
    }
}

pub fn options(cluster: &Cluster, keys: &str) -> MySqlOptions {
    record();
    let mut url = format!("{}?probeInterval=0&{keys}", cluster.url("app"));
    for (key, value) in [("connectTimeout", 1000), ("retriesAllDown", 2)] {
        if !keys.contains(key) {
            url = format!("{}&{key}={value}", url.trim_end_matches('&'));
        }
    }
    MySqlOptions::from_url(&url).unwrap()
}

pub fn done<T>(result: Result<T, pool_mysql::Failed>) -> Result<(), Failure> {
    result.map(drop).map_err(|error| error.failure)
}

/// Waits, in small steps, until it is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "never happened: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// What sessions of this process tried, by port: the pool says so in a trace event.
static ATTEMPTS: Mutex<Vec<(u16, bool)>> = Mutex::new(Vec::new());

fn attempts<T>(read: impl FnOnce(&[(u16, bool)]) -> T) -> T {
    read(&ATTEMPTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let recorder = tracing_subscriber::registry().with(Recorder);
        tracing::subscriber::set_global_default(recorder).unwrap();
    });
}

struct Recorder;

impl<S: tracing::Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("pool_core::session") {
            return;
        }
        let mut seen = Seen::default();
        event.record(&mut seen);
        if let (Some(port), Some(connected)) = (seen.port, seen.connected) {
            let mut all = ATTEMPTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            all.push((port, connected));
        }
    }
}

#[derive(Default)]
struct Seen {
    port: Option<u16>,
    connected: Option<bool>,
}

impl Visit for Seen {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "host" {
            self.port = value.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "connected" {
            self.connected = Some(value);
        }
    }
}
