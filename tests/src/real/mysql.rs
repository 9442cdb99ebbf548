//! MySQL in containers: a source and replicas with GTID replication.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::time::Duration;

use testcontainers::bollard::models::{
    EndpointSettings, NetworkConnectRequest, NetworkDisconnectRequest, PortBinding,
};
use testcontainers::bollard::query_parameters::KillContainerOptions;
use testcontainers::core::IntoContainerPort as _;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::task::JoinSet;

use super::docker::{self, Network, ask};
use super::server::{run, value};
use super::{Cluster, Error, STARTUP, Server, env, port};

/// Makes the data directory if the image has none, and becomes the server.
const SERVER_SCRIPT: &str = include_str!("../../setup/mysql-server.sh");
const GROUP_PORT: u16 = 33061;
const PAUSE_TRIES: u32 = 20;
const PAUSE_RETRY: Duration = Duration::from_millis(100);

/// A MySQL source and its replicas, each in a container.
pub type MySqlCluster = Cluster<MySqlHost>;

impl Cluster<MySqlHost> {
    /// Starts a source and `replicas` replicas, and returns when replication runs.
    ///
    /// Commits are durable on every host (`sync_binlog`, `innodb_flush_log_at_trx_commit`), so a
    /// killed source comes back with all that it acknowledged. Replicas are `super_read_only`,
    /// look for a lost source every second, for ever, and take a silent one for lost after 10 s.
    ///
    /// # Errors
    /// When the container daemon or a server does not do its part.
    pub async fn start(replicas: usize) -> Result<Self, Error> {
        let network = Network::create().await?;
        let image = env::mysql_image().await?;
        let mut starting = JoinSet::new();
        for index in 0..=replicas {
            starting.spawn(MySqlHost::create(
                index,
                image.clone(),
                network.name().to_string(),
                network.labels(),
                port::free()?,
            ));
        }
        // All of them before the first failure: a container that is still being made would escape
        // the removal.
        let hosts: Result<Vec<MySqlHost>, Error> = starting.join_all().await.into_iter().collect();
        let mut hosts = match hosts {
            Ok(hosts) => hosts,
            Err(error) => {
                drop(network);
                return Err(error);
            }
        };
        hosts.sort_by_key(MySqlHost::index);
        let cluster = Self::new(hosts, network);

        cluster.wait_until_up(STARTUP).await?;
        for replica in &cluster.hosts()[1..] {
            replica.follow(cluster.host(0)).await?;
        }
        cluster.replication_caught_up().await?;
        Ok(cluster)
    }
}

/// One MySQL server in a container.
#[derive(Debug)]
pub struct MySqlHost {
    index: usize,
    network: String,
    port: u16,
    /// Its own drop would need a runtime and take one container after the other: the network
    /// removes them all at once, wherever it is dropped.
    container: ManuallyDrop<ContainerAsync<GenericImage>>,
}

impl MySqlHost {
    async fn create(
        index: usize,
        (image, tag): (String, String),
        network: String,
        labels: HashMap<String, String>,
        port: u16,
    ) -> Result<Self, Error> {
        let mut command = vec!["-c".to_string(), SERVER_SCRIPT.into(), "mysql-server".into()];
        command.extend(options(index));
        // As clients reach it.
        command.extend([format!("--port={port}"), "--report-host=127.0.0.1".into()]);
        let request = GenericImage::new(image, tag)
            .with_entrypoint("/bin/sh")
            .with_cmd(command)
            .with_container_name(container_name(&network, index))
            .with_network(&network)
            .with_user("0")
            .with_labels(labels)
            .with_startup_timeout(STARTUP)
            .with_mapped_port(port, port.tcp())
            // A mapped port alone would listen on every interface of the machine.
            .with_host_config_modifier(move |host| {
                let binding = PortBinding {
                    host_ip: Some("127.0.0.1".into()),
                    host_port: Some(port.to_string()),
                };
                let bindings = HashMap::from([(format!("{port}/tcp"), Some(vec![binding]))]);
                host.port_bindings = Some(bindings);
            });
        let container =
            request.start().await.map_err(Error::doing(format!("start MySQL host {index}")))?;
        Ok(Self { index, network, port, container: ManuallyDrop::new(container) })
    }

    /// The host's place in the cluster: 0 is the source.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The container's name. Other containers of the cluster reach the server by it, on the port
    /// that it has on 127.0.0.1.
    pub fn container_name(&self) -> String {
        container_name(&self.network, self.index)
    }

    /// Takes the container off its network. The daemon then closes its published port: connections
    /// through it break and new ones are refused, while the server keeps their sessions with all
    /// their locks and transactions, and hosts of the cluster find it silent.
    ///
    /// # Errors
    /// When the container daemon refuses.
    pub async fn disconnect(&self) -> Result<(), Error> {
        let request =
            NetworkDisconnectRequest { container: self.container.id().into(), force: Some(false) };
        let docker = docker::client().await?;
        ask("disconnect a container", docker.disconnect_network(&self.network, request)).await
    }

    /// Brings the container back to its network, on the port it had.
    ///
    /// # Errors
    /// When the container daemon refuses.
    pub async fn connect(&self) -> Result<(), Error> {
        let request = NetworkConnectRequest {
            container: self.container.id().into(),
            endpoint_config: Some(EndpointSettings::default()),
        };
        let docker = docker::client().await?;
        ask("connect a container", docker.connect_network(&self.network, request)).await
    }

    /// Makes this server a member of the replication group of the cluster, which the first one that calls
    /// this with `bootstrap` founds. Members are known as clients reach them. It is no replica any more.
    ///
    /// # Errors
    /// When the server has no plug-in for that, or does not join.
    pub async fn join_group(&self, bootstrap: bool, members: usize) -> Result<(), Error> {
        let own = self.container_name();
        let seeds: Vec<String> = (0..members)
            .map(|index| format!("{}:{GROUP_PORT}", container_name(&self.network, index)))
            .collect();
        let set =
            |name: &str, value: &str| format!("SET GLOBAL group_replication_{name} = {value}");
        let mut statements = vec![
            "STOP REPLICA".to_string(),
            "RESET REPLICA ALL".into(),
            // A plug-in is a change of data; the group then decides who is read-only.
            "SET GLOBAL read_only = OFF".into(),
            "INSTALL PLUGIN group_replication SONAME 'group_replication.so'".into(),
            set("group_name", "'8d4f1bb6-3a39-4a6e-9d6e-2f8f4f1f9a01'"),
            set("local_address", &format!("'{own}:{GROUP_PORT}'")),
            set("group_seeds", &format!("'{}'", seeds.join(","))),
            set("advertise_recovery_endpoints", &format!("'{own}:{}'", self.port)),
            set("recovery_get_public_key", "ON"),
            "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl', SOURCE_PASSWORD = 'repl-pw' \
             FOR CHANNEL 'group_replication_recovery'"
                .into(),
        ];
        if bootstrap {
            statements.push(set("bootstrap_group", "ON"));
        }
        statements.push("START GROUP_REPLICATION".into());
        if bootstrap {
            statements.push(set("bootstrap_group", "OFF"));
        }
        run(self, &statements).await
    }

    /// Makes this server a replica of `source`.
    async fn follow(&self, source: &Self) -> Result<(), Error> {
        let (host, port) = (source.container_name(), source.port);
        // The number of retries is limited by default since 8.4: a source that stays away for
        // longer would lose its replicas for good.
        let change = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, \
             SOURCE_USER = 'repl', SOURCE_PASSWORD = 'repl-pw', GET_SOURCE_PUBLIC_KEY = 1, \
             SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 1000000, \
             SOURCE_HEARTBEAT_PERIOD = 1"
        );
        run(self, &[change, "START REPLICA".into()]).await
    }
}

impl Server for MySqlHost {
    fn port(&self) -> u16 {
        self.port
    }

    async fn kill(&self) -> Result<(), Error> {
        let docker = docker::client().await?;
        let id = self.container.id();
        ask("kill a container", docker.kill_container(id, None::<KillContainerOptions>)).await?;
        // The daemon answers when the signal is sent. This returns when it also noticed the end,
        // which is when it gives the port up.
        ask("stop a container", self.container.stop_with_timeout(Some(0))).await
    }

    // With replicas attached, MySQL takes some 10 s.
    async fn stop(&self) -> Result<(), Error> {
        ask("stop a container", self.container.stop_with_timeout(Some(30))).await
    }

    async fn start(&self) -> Result<(), Error> {
        ask("start a container", self.container.start()).await
    }

    async fn pause(&self) -> Result<(), Error> {
        // With cgroups of version 1 the daemon gives up ("unable to freeze") when the server starts
        // threads at that very moment; the container runs on as if nothing had been asked.
        let mut left = PAUSE_TRIES;
        loop {
            left -= 1;
            match ask("pause a container", self.container.pause()).await {
                Err(_) if left > 0 => tokio::time::sleep(PAUSE_RETRY).await,
                outcome => return outcome,
            }
        }
    }

    async fn unpause(&self) -> Result<(), Error> {
        ask("unpause a container", self.container.unpause()).await
    }

    async fn set_read_only(&self, on: bool) -> Result<(), Error> {
        // Each of the two implies the other in the direction that is needed.
        let statement = match on {
            true => "SET GLOBAL super_read_only = ON",
            false => "SET GLOBAL read_only = OFF",
        };
        run(self, &[statement.into()]).await
    }

    async fn delay_replication(&self, by: Duration) -> Result<(), Error> {
        let change = format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {}", by.as_secs());
        let stop = "STOP REPLICA SQL_THREAD".into();
        run(self, &[stop, change, "START REPLICA SQL_THREAD".into()]).await
    }

    async fn position(&self) -> Result<String, Error> {
        let set = value(self, "SELECT @@GLOBAL.gtid_executed", Duration::ZERO).await?;
        Ok(set.unwrap_or_default())
    }

    async fn wait_for(&self, position: &str, within: Duration) -> Result<(), Error> {
        let seconds = within.as_secs_f64();
        let query = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', {seconds})");
        match value(self, &query, within).await?.as_deref() {
            Some("0") => Ok(()),
            _ => Err(Error::new(format!(
                "replica on port {} not caught up in {within:?}",
                self.port
            ))),
        }
    }
}

fn container_name(network: &str, index: usize) -> String {
    format!("{network}-{index}")
}

fn options(index: usize) -> Vec<String> {
    let mut options: Vec<String> = [
        "--log-bin=binlog",
        "--relay-log=relay",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--log-replica-updates=ON",
        // No acknowledged commit may be lost in a kill.
        "--sync-binlog=1",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-size=32M",
        "--skip-name-resolve",
        "--max-connections=1000",
        // A source that is paused or cut off is noticed by its replicas within this many seconds.
        "--replica-net-timeout=10",
    ]
    .map(String::from)
    .into();
    options.push(format!("--server-id={}", index + 1));
    if index > 0 {
        options.push("--read-only=ON".into());
        options.push("--super-read-only=ON".into());
    }
    options
}
