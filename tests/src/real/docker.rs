//! The container daemon: networks, labels, and removal that does not depend on how a test ended.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::models::NetworkCreateRequest;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use tokio::task::JoinSet;

use super::Error;
use super::cluster::Ground;

/// The id of the process a container or network belongs to: when that is gone, so may they be.
/// `tests/run` relies on this name.
pub(super) const OWNER: &str = "pool-tests.pid";
/// The cluster a container or network belongs to.
pub(super) const CLUSTER: &str = "pool-tests.cluster";

/// A bound for one request to the daemon; stopping a server is the longest.
const REQUEST: Duration = Duration::from_secs(60);

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// A network of a cluster's own. Dropping it removes the cluster's containers and then itself.
#[derive(Debug)]
pub(super) struct Network {
    name: String,
}

impl Network {
    /// Creates a network, after removing what dead test processes left behind.
    pub(super) async fn create() -> Result<Self, Error> {
        sweep().await?;
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let network = Self { name: format!("pool-tests-{}-{number}", std::process::id()) };
        let request = NetworkCreateRequest {
            name: network.name.clone(),
            labels: Some(network.labels()),
            ..Default::default()
        };
        let docker = client().await?;
        ask("create a network", docker.create_network(request)).await?;
        Ok(network)
    }

    /// The name of the network, and of the cluster.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The labels for everything that belongs to this cluster.
    pub(super) fn labels(&self) -> HashMap<String, String> {
        HashMap::from([
            (OWNER.into(), std::process::id().to_string()),
            (CLUSTER.into(), self.name.clone()),
        ])
    }
}

impl Ground for Network {}

impl Drop for Network {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        // A thread and a runtime of its own: a drop may happen inside a runtime, outside of any,
        // or while one shuts down.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = match runtime {
                Ok(runtime) => runtime.block_on(remove(&name)),
                Err(error) => Err(Error::doing("start a runtime")(error)),
            };
            if let Err(error) = result {
                tracing::error!(cluster = name, %error, "cluster left behind");
            }
        });
        // A panic in there has been reported by its thread.
        let _ = removal.join();
    }
}

/// The daemon's client.
pub(super) async fn client() -> Result<Docker, Error> {
    docker_client_instance().await.map_err(Error::doing("reach the container daemon"))
}

/// Asks the daemon for something, with a deadline.
pub(super) async fn ask<T, E>(
    what: &str,
    request: impl Future<Output = Result<T, E>>,
) -> Result<T, Error>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match tokio::time::timeout(REQUEST, request).await {
        Ok(result) => result.map_err(Error::doing(what)),
        Err(_) => Err(Error::new(format!("{what}: no answer in {REQUEST:?}"))),
    }
}

async fn remove(cluster: &str) -> Result<(), Error> {
    let docker = client().await?;
    let filter = HashMap::from([("label", vec![format!("{CLUSTER}={cluster}")])]);
    let containers = containers(&docker, &filter).await?;
    remove_containers(&docker, containers.into_keys().collect()).await?;
    ask("remove a network", docker.remove_network(cluster)).await
}

/// Removes the containers and networks of processes that no longer exist.
async fn sweep() -> Result<(), Error> {
    let docker = client().await?;
    let filter = HashMap::from([("label", vec![OWNER.to_string()])]);
    let orphans = containers(&docker, &filter).await?;
    let orphans = orphans.into_iter().filter(|(_, labels)| orphaned(labels));
    remove_containers(&docker, orphans.map(|(id, _)| id).collect()).await?;

    let options = ListNetworksOptionsBuilder::new().filters(&filter).build();
    let networks = ask("list networks", docker.list_networks(Some(options))).await?;
    for network in networks {
        if !orphaned(&network.labels.unwrap_or_default()) {
            continue;
        }
        // Somebody else may sweep at the same time.
        let _ = docker.remove_network(&network.name.unwrap_or_default()).await;
    }
    Ok(())
}

fn orphaned(labels: &HashMap<String, String>) -> bool {
    labels
        .get(OWNER)
        .and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Ids and labels of the containers that match, running or not.
async fn containers(
    docker: &Docker,
    filter: &HashMap<&str, Vec<String>>,
) -> Result<HashMap<String, HashMap<String, String>>, Error> {
    let filter = filter.iter().map(|(key, values)| ((*key).to_string(), values.clone())).collect();
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filter).build();
    let list = ask("list containers", docker.list_containers(Some(options))).await?;
    Ok(list
        .into_iter()
        .map(|entry| (entry.id.unwrap_or_default(), entry.labels.unwrap_or_default()))
        .collect())
}

async fn remove_containers(docker: &Docker, ids: Vec<String>) -> Result<(), Error> {
    let mut removals = JoinSet::new();
    for id in ids {
        let docker = docker.clone();
        removals.spawn(async move {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            ask("remove a container", docker.remove_container(&id, Some(options))).await
        });
    }
    // All of them first, then the first failure.
    removals.join_all().await.into_iter().collect()
}
