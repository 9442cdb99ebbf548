//! The launcher of real servers: what it promises to every other test of real servers.

#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use pool_tests::real::{self, Cluster, MariaDb, MySqlCluster, STARTUP, Server};
use tokio::time::timeout;

/// Long enough for a loopback server to say something, short enough to wait for silence.
const SILENCE: Duration = Duration::from_secs(2);
/// "Read-only server": the same number on both products.
const READ_ONLY: u16 = 1290;

/// A connection of the application's user, as a pool would make it.
async fn connect(server: &impl Server) -> Result<Conn, Error> {
    let opts = Opts::from_url(&server.url("test")).unwrap();
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
    timeout(STARTUP, Conn::new(opts)).await.unwrap()
}

async fn insert(conn: &mut Conn, id: u32) -> Result<(), Error> {
    let statement = format!("INSERT INTO rows_seen VALUES ({id})");
    timeout(STARTUP, conn.query_drop(statement)).await.unwrap()
}

async fn ids(server: &impl Server) -> Vec<u32> {
    let mut conn = connect(server).await.unwrap();
    let query = conn.query("SELECT id FROM rows_seen ORDER BY id");
    timeout(STARTUP, query).await.unwrap().unwrap()
}

async fn create_table(cluster: &Cluster<impl Server>) -> Conn {
    let mut source = connect(cluster.host(0)).await.unwrap();
    source.query_drop("CREATE TABLE rows_seen (id INT PRIMARY KEY)").await.unwrap();
    source
}

/// Writes reach the replicas, which refuse writes of their own; the source does when told to.
async fn replicates<S: Server>(cluster: &Cluster<S>) {
    let mut source = create_table(cluster).await;
    insert(&mut source, 1).await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    for replica in &cluster.hosts()[1..] {
        assert_eq!(ids(replica).await, [1]);
        let mut conn = connect(replica).await.unwrap();
        let refused = insert(&mut conn, 2).await.unwrap_err();
        assert!(matches!(&refused, Error::Server(error) if error.code == READ_ONLY), "{refused}");
    }

    cluster.host(0).set_read_only(true).await.unwrap();
    let refused = insert(&mut source, 2).await.unwrap_err();
    assert!(matches!(&refused, Error::Server(error) if error.code == READ_ONLY), "{refused}");
    cluster.host(0).set_read_only(false).await.unwrap();
    insert(&mut source, 2).await.unwrap();
}

/// A killed source refuses, comes back on its port with everything it acknowledged, and the
/// replicas follow it again.
async fn survives_kill<S: Server>(cluster: &Cluster<S>) {
    let mut source = create_table(cluster).await;
    for id in 0..100 {
        insert(&mut source, id).await.unwrap();
    }
    cluster.host(0).kill().await.unwrap();
    assert!(insert(&mut source, 100).await.is_err());
    assert!(connect(cluster.host(0)).await.is_err());

    cluster.host(0).start().await.unwrap();
    cluster.host(0).wait_until_up(STARTUP).await.unwrap();
    let mut source = connect(cluster.host(0)).await.unwrap();
    insert(&mut source, 100).await.unwrap();
    assert_eq!(ids(cluster.host(0)).await, Vec::from_iter(0..=100));
    cluster.replication_caught_up().await.unwrap();
    for replica in &cluster.hosts()[1..] {
        assert_eq!(ids(replica).await, Vec::from_iter(0..=100));
    }

    cluster.host(0).restart().await.unwrap();
    cluster.wait_until_up(STARTUP).await.unwrap();
    assert_eq!(ids(cluster.host(0)).await.len(), 101);
}

/// A paused host says nothing to old and new connections, and goes on where it was.
async fn pauses<S: Server>(cluster: &Cluster<S>) {
    let host = cluster.host(0);
    let mut conn = connect(host).await.unwrap();
    host.pause().await.unwrap();
    let mut query = Box::pin(conn.query_first::<u32, _>("SELECT 7"));
    assert!(timeout(SILENCE, &mut query).await.is_err());
    assert!(timeout(SILENCE, connect(host)).await.is_err());
    host.unpause().await.unwrap();
    assert_eq!(timeout(STARTUP, query).await.unwrap().unwrap(), Some(7));

    host.pause().await.unwrap();
    host.kill().await.unwrap();
    assert!(connect(host).await.is_err());
    host.start().await.unwrap();
    host.wait_until_up(STARTUP).await.unwrap();
}

/// A delayed replica shows a row no earlier than it was told to.
async fn delays<S: Server>(cluster: &Cluster<S>) {
    const DELAY: Duration = Duration::from_secs(3);

    let mut source = create_table(cluster).await;
    cluster.replication_caught_up().await.unwrap();
    cluster.host(1).delay_replication(DELAY).await.unwrap();
    // The server measures whole seconds between two clock readings.
    let least = DELAY - Duration::from_secs(1);
    let written = Instant::now();
    insert(&mut source, 1).await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    assert!(written.elapsed() >= least, "{:?}", written.elapsed());
    assert_eq!(ids(cluster.host(1)).await, [1]);
    cluster.host(1).delay_replication(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn mysql_replicates_and_replicas_are_read_only() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    replicates(&MySqlCluster::start(2).await.unwrap()).await;
}

#[tokio::test]
async fn mysql_comes_back_from_a_kill_with_every_acknowledged_row() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    survives_kill(&MySqlCluster::start(1).await.unwrap()).await;
}

#[tokio::test]
async fn mysql_paused_is_silent_and_delayed_is_late() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(1).await.unwrap();
    pauses(&cluster).await;
    delays(&cluster).await;
}

#[tokio::test]
async fn mysql_off_its_network_breaks_and_refuses_and_comes_back() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(1).await.unwrap();
    let mut source = create_table(&cluster).await;
    insert(&mut source, 1).await.unwrap();
    let host = cluster.host(0);
    host.disconnect().await.unwrap();
    assert!(insert(&mut source, 2).await.is_err());
    assert!(connect(host).await.is_err());

    host.connect().await.unwrap();
    host.wait_until_up(STARTUP).await.unwrap();
    let mut source = connect(host).await.unwrap();
    insert(&mut source, 3).await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    assert!(ids(cluster.host(1)).await.ends_with(&[3]));
}

#[tokio::test]
async fn mysql_cluster_is_gone_after_a_panic() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async move {
        let cluster = MySqlCluster::start(0).await.unwrap();
        cluster.host(0).pause().await.unwrap();
        tell.send((cluster.host(0).container_name(), cluster.host(0).port())).unwrap();
        panic!("as a failing test does");
    });
    assert!(test.await.unwrap_err().is_panic());
    let (name, port) = told.await.unwrap();
    let docker = testcontainers::core::client::docker_client_instance().await.unwrap();
    assert!(docker.inspect_container(&name, None).await.is_err());
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
}

/// Without any runtime around the drop, as at the end of a synchronous `main`.
#[test]
fn mysql_cluster_can_be_dropped_outside_a_runtime() {
    if !real::mysql_available() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _turn = runtime.block_on(real::exclusive());
    let cluster = runtime.block_on(MySqlCluster::start(0)).unwrap();
    let port = cluster.host(0).port();
    drop(runtime);
    drop(cluster);
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
}

#[tokio::test]
async fn mariadb_replicates_and_replicas_are_read_only() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    replicates(&MariaDb::start_with_replicas(2).await.unwrap()).await;
}

#[tokio::test]
async fn mariadb_comes_back_from_a_kill_with_every_acknowledged_row() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    survives_kill(&MariaDb::start_with_replicas(1).await.unwrap()).await;
}

#[tokio::test]
async fn mariadb_paused_is_silent_and_delayed_is_late() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MariaDb::start_with_replicas(1).await.unwrap();
    pauses(&cluster).await;
    delays(&cluster).await;
}

#[tokio::test]
async fn mariadb_alone_is_gone_when_dropped() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let server = MariaDb::start().await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let port = server.host(0).port();
    drop(server);
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
}
