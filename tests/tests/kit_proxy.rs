//! The fault proxy between a plain client and the embedded server.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use mysql_async::prelude::*;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use pool_tests::mysql::Cluster;
use pool_tests::proxy::FaultProxy;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(10);
const SILENT: Duration = Duration::from_millis(50);

async fn start() -> (Cluster, FaultProxy) {
    let cluster = Cluster::start(1).await.unwrap();
    let proxy = FaultProxy::start(cluster.host(0).addr()).await.unwrap();
    (cluster, proxy)
}

fn opts(cluster: &Cluster, proxy: &FaultProxy) -> Opts {
    let opts = Opts::from_url(&cluster.url_of(0, "app")).unwrap();
    OptsBuilder::from_opts(opts)
        .tcp_port(proxy.addr().port())
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 20))
        .wait_timeout(Some(1000))
        .into()
}

async fn connect(cluster: &Cluster, proxy: &FaultProxy) -> Conn {
    timeout(LONG, Conn::new(opts(cluster, proxy))).await.unwrap().unwrap()
}

#[tokio::test]
async fn each_request_is_one_round_trip() {
    let (cluster, proxy) = start().await;
    let mut conn = connect(&cluster, &proxy).await;
    let login = proxy.counters();
    assert_eq!((login.connections, login.open, login.round_trips), (1, 1, 1));
    for expected in 2..5 {
        conn.query_drop("SELECT 1").await.unwrap();
        assert_eq!(proxy.counters().round_trips, expected);
    }
    conn.query::<i64, _>("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n")
        .await
        .unwrap();
    let counters = proxy.counters();
    assert_eq!(counters.round_trips, 5);
    assert!(counters.to_client > 100_000 && counters.to_server < 1_000, "{counters:?}");
    assert!(counters.to_server > login.to_server);
}

#[tokio::test]
async fn a_stall_holds_everything_back_and_loses_nothing() {
    let (cluster, proxy) = start().await;
    let mut conn = connect(&cluster, &proxy).await;
    proxy.stall();
    let mut running = Box::pin(conn.query_first::<i64, _>("SELECT 7"));
    assert!(timeout(SILENT, &mut running).await.is_err());
    let mut dialling = Box::pin(Conn::new(opts(&cluster, &proxy)));
    assert!(timeout(SILENT, &mut dialling).await.is_err());
    // The server ends the connections; the client must not hear of it.
    proxy.resume();
    assert_eq!(timeout(LONG, running).await.unwrap().unwrap(), Some(7));
    timeout(LONG, dialling).await.unwrap().unwrap();
    proxy.stall();
    cluster.host(0).stop().await;
    let mut running = Box::pin(conn.ping());
    assert!(timeout(SILENT, &mut running).await.is_err());
    proxy.resume();
    assert!(timeout(LONG, running).await.unwrap().is_err());
}

#[tokio::test]
async fn connections_can_be_reset_or_cut() {
    let (cluster, proxy) = start().await;
    let mut conn = connect(&cluster, &proxy).await;
    proxy.reset().await;
    assert_eq!(proxy.counters().open, 0);
    assert!(matches!(conn.ping().await, Err(Error::Io(_))));
    let mut conn = connect(&cluster, &proxy).await;
    proxy.stall();
    proxy.cut().await;
    assert_eq!(proxy.counters().open, 0);
    assert!(matches!(conn.ping().await, Err(Error::Io(_))));
    proxy.resume();
    connect(&cluster, &proxy).await;
}

#[tokio::test]
async fn a_reset_is_a_reset_and_a_cut_is_not() {
    use tokio::io::AsyncReadExt;
    let (_cluster, proxy) = start().await;
    for (cut, kind) in [(true, None), (false, Some(std::io::ErrorKind::ConnectionReset))] {
        let mut stream = tokio::net::TcpStream::connect(proxy.addr()).await.unwrap();
        let mut greeting = vec![0; 4];
        stream.read_exact(&mut greeting).await.unwrap();
        if cut {
            proxy.cut().await;
        } else {
            proxy.reset().await;
        }
        let end = timeout(LONG, stream.read_to_end(&mut greeting)).await.unwrap();
        assert_eq!(end.err().map(|error| error.kind()), kind);
    }
}

#[tokio::test]
async fn a_refusing_proxy_keeps_its_connections() {
    let (cluster, proxy) = start().await;
    let mut conn = connect(&cluster, &proxy).await;
    for _ in 0..10 {
        proxy.refuse().await;
        assert!(Conn::new(opts(&cluster, &proxy)).await.is_err());
        conn.ping().await.unwrap();
        proxy.accept().await.unwrap();
        connect(&cluster, &proxy).await;
    }
}

#[tokio::test]
async fn delays_add_up_over_both_directions() {
    let (cluster, proxy) = start().await;
    let mut conn = connect(&cluster, &proxy).await;
    let delay = Duration::from_millis(40);
    for (to_server, to_client, expected) in
        [(delay, Duration::ZERO, delay), (Duration::ZERO, delay, delay), (delay, delay, 2 * delay)]
    {
        proxy.set_delay_to_server(to_server);
        proxy.set_delay_to_client(to_client);
        let start = Instant::now();
        conn.ping().await.unwrap();
        assert!(start.elapsed() >= expected);
    }
}

#[tokio::test]
async fn a_dead_server_resets_the_client() {
    let (cluster, proxy) = start().await;
    cluster.host(0).stop().await;
    assert!(matches!(
        timeout(LONG, Conn::new(opts(&cluster, &proxy))).await.unwrap(),
        Err(Error::Io(_))
    ));
}

#[tokio::test]
async fn requests_that_wait_for_no_answer_share_a_round_trip() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
    let mut client = tokio::net::TcpStream::connect(proxy.addr()).await.unwrap();
    let (mut server, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    let mut byte = [0];
    for round in 1..4 {
        for _ in 0..3 {
            client.write_all(b"x").await.unwrap();
            timeout(LONG, server.read_exact(&mut byte)).await.unwrap().unwrap();
        }
        assert_eq!(proxy.counters().round_trips, round);
        server.write_all(b"y").await.unwrap();
        timeout(LONG, client.read_exact(&mut byte)).await.unwrap().unwrap();
    }
    assert_eq!(proxy.counters().to_server, 9);
    // The end of one direction is passed on; the other goes on.
    client.shutdown().await.unwrap();
    assert_eq!(timeout(LONG, server.read(&mut byte)).await.unwrap().unwrap(), 0);
    server.write_all(b"z").await.unwrap();
    timeout(LONG, client.read_exact(&mut byte)).await.unwrap().unwrap();
    assert_eq!(&byte, b"z");
}
