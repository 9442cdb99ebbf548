//! Live topology on real servers: forced drains, weights by size, replicas and group members that are found.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::admin::{Drain, Settled};
use pool_core::discovery::Discovery;
use pool_core::host::Role;
use pool_core::verdict::Verdict;
use pool_core::weights::Weights;
use pool_mysql::{GroupMembers, LagSource, MySqlOptions, Pool, Replicas};
use pool_tests::real::{self, Cluster, MariaDb, MySqlCluster, Server};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(60);
const PROBES: Duration = Duration::from_millis(200);

fn name(server: &impl Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn names<S: Server>(cluster: &Cluster<S>) -> Vec<String> {
    cluster.hosts().iter().map(name).collect()
}

fn members(pool: &Pool) -> Vec<String> {
    pool.status().hosts.iter().map(|host| host.name.to_string()).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

fn pool_of(url: &str, weights: Weights) -> Pool {
    let options = MySqlOptions::from_url(url).unwrap().lag_source(LagSource::Status);
    // The account that may read the status of replication and the list of replicas.
    let options = options.user(real::ADMIN_USER).password(real::ADMIN_PASSWORD);
    let builder = options.pool_builder().unwrap().probe_interval(Some(PROBES));
    builder.acquire_timeout(Duration::from_secs(20)).weights(weights).build().unwrap()
}

/// `url` of the first host alone.
fn first_of<S: Server>(cluster: &Cluster<S>) -> String {
    let mut url = cluster.url("test");
    for other in &names(cluster)[1..] {
        url = url.replace(&format!(",{other}"), "");
    }
    url
}

async fn a_forced_drain_ends_leases<S: Server>(cluster: &Cluster<S>) {
    let pool = pool_of(&first_of(cluster), Weights::automatic());
    let host = name(cluster.host(0));
    let mut idle = pool.get().await.unwrap();
    idle.query_drop("BEGIN").await.unwrap();
    let mut busy = pool.get().await.unwrap();
    let running = tokio::spawn(async move {
        // Cut short, a SLEEP of MariaDB may still answer; the connection is over all the same.
        let _ = busy.query_drop("SELECT SLEEP(600)").await;
        busy.query_drop("SELECT 1").await.expect_err("it is over")
    });
    until("both are out", || pool.status().host(&host).unwrap().counts.in_use == 2).await;
    let how = Drain::within(Duration::from_millis(200)).force_within(Duration::from_secs(20));
    let drain = tokio::spawn({
        let (pool, host) = (pool.clone(), host.clone());
        async move { pool.drain(&host, how).await.unwrap() }
    });
    let error = timeout(SOON, running).await.expect("ended at once").unwrap();
    let verdict = idle.observe(&error);
    assert!(matches!(verdict, Verdict::ConnectionEnded | Verdict::ConnectionLost), "{verdict}");
    let error = idle.query_drop("SELECT 1").await.expect_err("it is over");
    let verdict = idle.observe(&error);
    assert!(matches!(verdict, Verdict::ConnectionEnded | Verdict::ConnectionLost), "{verdict}");
    drop(idle);
    let settled = timeout(SOON, drain).await.expect("bounded").unwrap();
    assert_eq!(settled, Settled { abandoned: 0, ended: 2 });
    pool.undrain(&host).unwrap();
    pool.get().await.unwrap().query_drop("SELECT 1").await.unwrap();
}

async fn weights_and_replicas_are_found<S: Server>(cluster: &Cluster<S>) {
    let sizes = [900, 300, 600];
    for (host, size) in cluster.hosts().iter().zip(sizes) {
        let mut admin = host.admin().await.unwrap();
        admin.query_drop(format!("SET GLOBAL max_connections = {size}")).await.unwrap();
    }
    let pool = pool_of(&first_of(cluster), Weights::by_capacity());
    pool.follow(Replicas::of(&pool), PROBES);
    until("the replicas have joined", || {
        let mut found = members(&pool);
        let mut all = names(cluster);
        found.sort();
        all.sort();
        found == all
    })
    .await;
    let weight = |index: usize| pool.status().host(&name(cluster.host(index))).map(|h| h.weight);
    until("the sizes are found", || [0, 1, 2].map(weight) == [Some(0), Some(300), Some(600)]).await;
    // A replica that is kept behind on purpose has no weight of its own.
    cluster.host(2).delay_replication(Duration::from_secs(600)).await.unwrap();
    until("the delay is found", || weight(2) == Some(0)).await;
    assert_eq!(weight(1), Some(300));
    cluster.host(1).stop().await.unwrap();
    until("a replica that was found leaves with its end", || {
        !members(&pool).contains(&name(cluster.host(1)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_ended_and_sizes_and_replicas_found_on_mysql() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(2).await.unwrap();
    a_forced_drain_ends_leases(&cluster).await;
    weights_and_replicas_are_found(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_ended_and_sizes_and_replicas_found_on_mariadb() {
    if !real::mariadb_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MariaDb::start_with_replicas(2).await.unwrap();
    a_forced_drain_ends_leases(&cluster).await;
    weights_and_replicas_are_found(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_a_group_through_a_member_that_leaves_and_a_primary_that_dies() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(2).await.unwrap();
    let pool = pool_of(&first_of(&cluster), Weights::automatic());
    let discovery = GroupMembers::of(&pool);
    // A server that is in no group: nobody leaves.
    assert!(discovery.hosts().await.is_err());
    pool.follow(discovery, PROBES);
    for index in 0..3 {
        cluster.host(index).join_group(index == 0, 3).await.unwrap();
    }
    let all = names(&cluster);
    until("all members have joined", || {
        let found = members(&pool);
        found.len() == 3 && all.iter().all(|one| found.contains(one))
    })
    .await;
    until("their roles are found", || {
        let status = pool.status();
        status.writer().is_some_and(|writer| *writer.name == *all[0])
            && status.hosts.iter().filter(|host| host.role == Role::Replica).count() == 2
    })
    .await;

    // One that leaves lists nobody but itself, and is not believed.
    let mut admin = cluster.host(2).admin().await.unwrap();
    admin.query_drop("STOP GROUP_REPLICATION").await.unwrap();
    until("the member has left", || members(&pool).len() == 2).await;
    let alone = pool_of(
        &cluster.url("test").replace(&format!("{},{},", all[0], all[1]), ""),
        Weights::automatic(),
    );
    assert_eq!(members(&alone), all[2..]);
    let refused = GroupMembers::of(&alone).hosts().await.unwrap_err().to_string();
    assert!(refused.contains("not an online member"), "{refused}");
    admin.query_drop("START GROUP_REPLICATION").await.unwrap();
    until("it has come back", || members(&pool).len() == 3).await;

    // The primary dies; the group elects another one, and lists the dead one no longer.
    cluster.host(0).kill().await.unwrap();
    until("another primary is found, and the dead one has left", || {
        let status = pool.status();
        status.hosts.len() == 2
            && status.writer().is_some_and(|writer| all[1..].contains(&writer.name.to_string()))
    })
    .await;
    pool.get()
        .await
        .unwrap()
        .query_drop("CREATE TABLE after_death (id INT PRIMARY KEY)")
        .await
        .unwrap();

    // Without a majority there is no answer that could take a member away.
    cluster.host(1).kill().await.unwrap();
    let last = &all[2..];
    let lonely = pool_of(
        &cluster.url("test").replace(&format!("{},{},", all[0], all[1]), ""),
        Weights::automatic(),
    );
    assert_eq!(members(&lonely), last);
    let listed = GroupMembers::of(&lonely);
    let minority = async {
        loop {
            match listed.hosts().await {
                Err(error) if error.to_string().contains("majority") => return,
                // The others are not missed yet.
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
    };
    timeout(SOON, minority).await.expect("the loss of the majority is told");
    assert_eq!(members(&pool).len(), 2);
}
