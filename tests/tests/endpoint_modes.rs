//! The table of read/write attributes (`rds-read-weights`), row by row, on the embedded cluster.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pool_core::balance::endpoint::{EndpointMode, WeightMethod};
use pool_core::error::ErrorKind;
use pool_core::host::{Host, Role};
use pool_mysql::{MySqlOptions, Pool};
use pool_tests::mysql::Cluster;

/// What an endpoint serves: writes on the source, and reads by these hosts (0 is the source).
#[derive(Debug, PartialEq, Eq)]
struct Serves {
    writes: bool,
    reads: Vec<usize>,
}

fn serves(writes: bool, reads: &[usize]) -> Serves {
    Serves { writes, reads: reads.to_vec() }
}

/// A source and two replicas; the replicas have weight 100 where weights are set by hand.
fn pool(cluster: &Cluster, mode: EndpointMode, method: WeightMethod, source: Option<u32>) -> Pool {
    let host = |index: usize, role: Role, weight: Option<u32>| {
        let host = Host::new("127.0.0.1", cluster.host(index).port()).with_role(role);
        weight.map_or(host.clone(), |weight| host.with_weight(weight))
    };
    let replica = (method == WeightMethod::Custom).then_some(100);
    cluster.create_database("app");
    let mut options = MySqlOptions::new()
        .host(host(0, Role::Source, source))
        .user(cluster.user())
        .password(cluster.password())
        .database("app");
    for index in [1, 2] {
        options = options.host(host(index, Role::Replica, replica));
    }
    let builder = options.pool_builder().unwrap().endpoint_mode(mode).weights(method);
    let builder = builder.read_fallback_primary(true).acquire_timeout(Duration::from_secs(10));
    builder.probe_interval(Some(Duration::from_millis(100))).build().unwrap()
}

async fn look(pool: &Pool, cluster: &Cluster) -> Serves {
    let writes = match pool.get().await {
        Ok(lease) => {
            assert_eq!(lease.host().port(), cluster.host(0).port());
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotWritable, "{error}");
            false
        }
    };
    let mut reads = Vec::new();
    for _ in 0..30 {
        match pool.get_read().await {
            Ok(lease) => {
                let port = lease.host().port();
                reads.push((0..3).find(|index| cluster.host(*index).port() == port).unwrap());
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoHost, "{error}"),
        }
    }
    reads.sort_unstable();
    reads.dedup();
    Serves { writes, reads }
}

/// The three columns of a row: normal operation, all replicas failed, last replica removed.
async fn row(mode: EndpointMode, method: WeightMethod, source: Option<u32>) -> [Serves; 3] {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = pool(&cluster, mode, method, source);
    let known = async {
        while pool.status().hosts.iter().skip(1).any(|host| host.role != Role::Replica) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), known).await.expect("the roles are probed");
    let normal = look(&pool, &cluster).await;

    cluster.host(1).stop().await;
    cluster.host(2).stop().await;
    let down = async {
        while pool.status().hosts.iter().skip(1).any(|host| host.blocked_for.is_none()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), down).await.expect("the failures are noticed");
    let failed = look(&pool, &cluster).await;

    for index in [1, 2] {
        let name = cluster.host(index).addr().to_string();
        assert_eq!(pool.remove_host(&name, Duration::ZERO).await.unwrap().abandoned, 0);
    }
    let removed = look(&pool, &cluster).await;
    [normal, failed, removed]
}

#[tokio::test]
async fn read_only_serves_reads_of_replicas_and_never_touches_the_source() {
    for method in [WeightMethod::Automatic, WeightMethod::Custom] {
        let columns = row(EndpointMode::ReadOnly, method, None).await;
        let expected = [serves(false, &[1, 2]), serves(false, &[]), serves(false, &[])];
        assert_eq!(columns, expected, "{method:?}");
    }
}

#[tokio::test]
async fn read_write_with_automatic_weights_reads_from_the_source_only_without_replicas() {
    let columns = row(EndpointMode::ReadWrite, WeightMethod::Automatic, None).await;
    assert_eq!(columns, [serves(true, &[1, 2]), serves(true, &[0]), serves(true, &[0])]);
}

#[tokio::test]
async fn read_write_with_a_weighted_source_reads_from_it_as_well() {
    let columns = row(EndpointMode::ReadWrite, WeightMethod::Custom, Some(100)).await;
    assert_eq!(columns, [serves(true, &[0, 1, 2]), serves(true, &[0]), serves(true, &[0])]);
}

#[tokio::test]
async fn read_write_with_source_weight_zero_reads_from_it_only_without_replicas() {
    let columns = row(EndpointMode::ReadWrite, WeightMethod::Custom, Some(0)).await;
    assert_eq!(columns, [serves(true, &[1, 2]), serves(true, &[0]), serves(true, &[0])]);
}
