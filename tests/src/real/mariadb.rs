//! MariaDB as child processes: a source and replicas with MariaDB's GTID replication.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::process::Command;

use super::cluster::Ground;
use super::process::Process;
use super::server::{run, value};
use super::{Cluster, Error, STARTUP, Server, env, port};

/// The first statement makes the bootstrapping server know accounts at all. `READ_ONLY ADMIN` would
/// let the application write to a read-only server.
const USERS: &str = "\
FLUSH PRIVILEGES;
CREATE USER 'pool'@'%' IDENTIFIED BY 'pool-pw';
GRANT ALL PRIVILEGES ON *.* TO 'pool'@'%' WITH GRANT OPTION;
REVOKE READ_ONLY ADMIN ON *.* FROM 'pool'@'%';
CREATE USER 'admin'@'%' IDENTIFIED BY 'admin-pw';
GRANT ALL PRIVILEGES ON *.* TO 'admin'@'%' WITH GRANT OPTION;
CREATE USER 'repl'@'%' IDENTIFIED BY 'repl-pw';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
CREATE DATABASE test;
";

const DIR_PREFIX: &str = "pool-tests-mariadb-";

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// A MariaDB source and its replicas, each a process of its own.
pub type MariaDb = Cluster<MariaDbHost>;

impl Cluster<MariaDbHost> {
    /// Starts one server, and returns when it answers.
    ///
    /// # Errors
    /// When a program of the MariaDB package is missing or fails.
    pub async fn start() -> Result<Self, Error> {
        Self::start_with_replicas(0).await
    }

    /// Starts a source and `replicas` replicas, and returns when replication runs. Commits are
    /// durable, replicas read-only and quick to find their source again, as in
    /// [`MySqlCluster`](super::MySqlCluster).
    ///
    /// # Errors
    /// When a program of the MariaDB package is missing or fails.
    pub async fn start_with_replicas(replicas: usize) -> Result<Self, Error> {
        let dir = Dir::create()?;
        let template = dir.path.join("0");
        install(&dir.path, &template).await?;
        let mut hosts = Vec::new();
        for index in 0..=replicas {
            let data = dir.path.join(index.to_string());
            if index > 0 {
                let mut copy = Command::new("cp");
                checked("copy a data directory", copy.arg("-a").args([&template, &data])).await?;
            }
            hosts.push(MariaDbHost { index, data, port: port::free()?, process: Mutex::new(None) });
        }
        let cluster = Self::new(hosts, dir);

        for host in cluster.hosts() {
            host.start().await?;
        }
        cluster.wait_until_up(STARTUP).await?;
        let source = cluster.host(0).port;
        for replica in &cluster.hosts()[1..] {
            replica.follow(source).await?;
        }
        cluster.replication_caught_up().await?;
        Ok(cluster)
    }

    /// Kills the source: [`Server::kill`] of host 0.
    ///
    /// # Errors
    /// When the process takes no signal.
    pub async fn kill(&self) -> Result<(), Error> {
        self.host(0).kill().await
    }

    /// Restarts the source, or starts it when it is dead, and waits until it answers.
    ///
    /// # Errors
    /// When the server does not stop, start or answer in time.
    pub async fn restart(&self) -> Result<(), Error> {
        self.host(0).restart().await?;
        self.host(0).wait_until_up(STARTUP).await
    }
}

/// One MariaDB server in a process of its own.
#[derive(Debug)]
pub struct MariaDbHost {
    index: usize,
    data: PathBuf,
    port: u16,
    process: Mutex<Option<Process>>,
}

impl MariaDbHost {
    /// The host's place in the cluster: 0 is the source.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Makes this server a replica of the one on `port`.
    async fn follow(&self, port: u16) -> Result<(), Error> {
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, \
             MASTER_USER = 'repl', MASTER_PASSWORD = 'repl-pw', MASTER_USE_GTID = slave_pos, \
             MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1"
        );
        run(self, &[change, "START SLAVE".into()]).await
    }

    fn command(&self) -> Vec<String> {
        let file = |name: &str| self.data.join(name).display().to_string();
        let mut command = vec![
            env::mariadbd().display().to_string(),
            // First, or it is refused: nothing of the machine's configuration counts.
            "--no-defaults".into(),
            format!("--datadir={}", self.data.display()),
            format!("--socket={}", file("mariadbd.sock")),
            format!("--pid-file={}", file("mariadbd.pid")),
            format!("--log-error={}", file("error.log")),
            format!("--port={}", self.port),
            format!("--server-id={}", self.index + 1),
            // As clients reach it.
            "--report-host=127.0.0.1".into(),
            format!("--report-port={}", self.port),
        ];
        let fixed = [
            "--bind-address=127.0.0.1",
            "--log-bin=binlog",
            "--relay-log=relay",
            "--log-slave-updates=ON",
            "--gtid-strict-mode=ON",
            // No acknowledged commit may be lost in a kill.
            "--sync-binlog=1",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=16M",
            "--skip-name-resolve",
            "--max-connections=1000",
            "--slave-net-timeout=10",
        ];
        command.extend(fixed.map(String::from));
        if self.index > 0 {
            command.push("--read-only=ON".into());
        }
        command.extend(user_option());
        command
    }

    async fn signal(&self, name: &str) -> Result<(), Error> {
        let process = self.take_process()?;
        let result = process.signal(name).await;
        *self.process.lock() = Some(process);
        result
    }

    async fn end(&self, signal: &str) -> Result<(), Error> {
        let process = self.take_process()?;
        process.signal(signal).await?;
        process.ended(STARTUP).await
    }

    /// Takes the process out, so that no lock is held while something is asked of it. A future
    /// dropped meanwhile takes the server with it.
    fn take_process(&self) -> Result<Process, Error> {
        let process = self.process.lock().take();
        process.ok_or_else(|| Error::new(format!("MariaDB host {} does not run", self.index)))
    }
}

impl Server for MariaDbHost {
    fn port(&self) -> u16 {
        self.port
    }

    async fn kill(&self) -> Result<(), Error> {
        self.end("KILL").await
    }

    async fn stop(&self) -> Result<(), Error> {
        if self.process.lock().is_none() {
            return Ok(());
        }
        self.end("TERM").await
    }

    async fn start(&self) -> Result<(), Error> {
        if self.process.lock().is_some() {
            return Err(Error::new(format!("MariaDB host {} runs already", self.index)));
        }
        let process = Process::start(self.command()).await?;
        *self.process.lock() = Some(process);
        Ok(())
    }

    async fn pause(&self) -> Result<(), Error> {
        self.signal("STOP").await
    }

    async fn unpause(&self) -> Result<(), Error> {
        self.signal("CONT").await
    }

    async fn set_read_only(&self, on: bool) -> Result<(), Error> {
        run(self, &[format!("SET GLOBAL read_only = {}", u8::from(on))]).await
    }

    async fn delay_replication(&self, by: Duration) -> Result<(), Error> {
        let change = format!("CHANGE MASTER TO MASTER_DELAY = {}", by.as_secs());
        run(self, &["STOP SLAVE".into(), change, "START SLAVE".into()]).await
    }

    async fn position(&self) -> Result<String, Error> {
        let position = value(self, "SELECT @@GLOBAL.gtid_binlog_pos", Duration::ZERO).await?;
        Ok(position.unwrap_or_default())
    }

    async fn wait_for(&self, position: &str, within: Duration) -> Result<(), Error> {
        let seconds = within.as_secs_f64();
        let query = format!("SELECT MASTER_GTID_WAIT('{position}', {seconds})");
        match value(self, &query, within).await?.as_deref() {
            Some("0") => Ok(()),
            _ => Err(Error::new(format!(
                "replica on port {} not caught up in {within:?}",
                self.port
            ))),
        }
    }
}

/// The directory of a cluster. Dropping it removes it.
#[derive(Debug)]
struct Dir {
    path: PathBuf,
}

impl Dir {
    /// Creates a directory, after removing those of dead test processes: their servers are dead
    /// as well.
    fn create() -> Result<Self, Error> {
        let temp = std::env::temp_dir();
        sweep(&temp);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let path = temp.join(format!("{DIR_PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir(&path).map_err(Error::doing(format!("create {}", path.display())))?;
        Ok(Self { path })
    }
}

impl Ground for Dir {}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::error!(path = %self.path.display(), %error, "directory left behind");
        }
    }
}

fn sweep(temp: &Path) {
    for entry in std::fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(DIR_PREFIX))
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another user's, or gone meanwhile: somebody else's business.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes a data directory in `data`.
async fn install(dir: &Path, data: &Path) -> Result<(), Error> {
    let users = dir.join("users.sql");
    std::fs::write(&users, USERS).map_err(Error::doing("write users.sql"))?;
    let mut command = Command::new(install_program());
    command
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--extra-file={}", users.display()))
        .args(user_option());
    checked("make a MariaDB data directory", &mut command).await
}

/// The program that makes data directories: beside the server, or wherever `PATH` has it.
fn install_program() -> PathBuf {
    let name = "mariadb-install-db";
    let beside = env::mariadbd()
        .parent()
        .map(|dir| [dir.join(name), dir.join("../bin").join(name)])
        .into_iter()
        .flatten()
        .find(|path| path.is_file());
    beside.unwrap_or_else(|| name.into())
}

/// The server refuses to run as root unless it is told so.
fn user_option() -> Option<String> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    root.then(|| "--user=root".into())
}

async fn checked(what: &str, command: &mut Command) -> Result<(), Error> {
    let output = tokio::time::timeout(STARTUP, command.kill_on_drop(true).output())
        .await
        .map_err(Error::doing(what))?
        .map_err(Error::doing(what))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "{what}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
