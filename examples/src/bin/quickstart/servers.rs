//! The servers of the show: embedded, real in containers, or the user's own.

use std::error::Error;
use std::time::Duration;

use pool_tests::mysql::Cluster;
use pool_tests::real::{MySqlCluster, Server};

const DATABASE: &str = "quickstart";

/// Where the pool connects to.
pub(crate) enum Servers {
    Embedded(Cluster),
    Docker(MySqlCluster),
    Own(String),
}

impl Servers {
    pub(crate) async fn start(url: Option<String>, docker: bool) -> Result<Self, Box<dyn Error>> {
        if let Some(url) = url {
            return Ok(Self::Own(url));
        }
        if docker {
            println!("starting three MySQL servers in containers …");
            let cluster = MySqlCluster::start(2).await?;
            let mut admin = cluster.host(0).admin().await?;
            let create = format!("CREATE DATABASE IF NOT EXISTS {DATABASE}");
            mysql_async::prelude::Queryable::query_drop(&mut admin, create).await?;
            cluster.replication_caught_up().await?;
            return Ok(Self::Docker(cluster));
        }
        Ok(Self::Embedded(Cluster::start(3).await?))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Embedded(cluster) => cluster.url(DATABASE),
            Self::Docker(cluster) => cluster.url(DATABASE),
            Self::Own(url) => url.clone(),
        }
    }

    /// The table that the show writes to and drops at the end.
    pub(crate) fn table(&self) -> &'static str {
        "pool_quickstart"
    }

    pub(crate) fn can_kill(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    pub(crate) async fn kill_source(&self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Embedded(cluster) => cluster.host(0).stop().await,
            Self::Docker(cluster) => cluster.host(0).kill().await?,
            Self::Own(_) => {}
        }
        Ok(())
    }

    pub(crate) async fn restart_source(&self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Embedded(cluster) => cluster.host(0).start().await?,
            Self::Docker(cluster) => {
                cluster.host(0).start().await?;
                cluster.wait_until_up(Duration::from_secs(30)).await?;
            }
            Self::Own(_) => {}
        }
        Ok(())
    }
}
