//! Live topology on the embedded MySQL cluster: group members, role probes, weights by size, forced drains.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::admin::{Drain, Settled};
use pool_core::discovery::Discovery;
use pool_core::event::Event;
use pool_core::host::Role;
use pool_core::verdict::Verdict;
use pool_core::weights::Weights;
use pool_mysql::{GroupMembers, LagSource, MySql, MySqlOptions, Pool, Replicas};
use pool_tests::mysql::{Cluster, Host};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(30);
const PROBES: Duration = Duration::from_millis(50);

type Builder = pool_core::builder::PoolBuilder<MySql>;

fn options(url: &str) -> MySqlOptions {
    MySqlOptions::from_url(url).unwrap().connect_timeout(Duration::from_secs(2))
}

fn builder(url: &str) -> Builder {
    let builder = options(url).pool_builder().unwrap().probe_interval(Some(PROBES));
    builder.acquire_timeout(Duration::from_secs(10))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

/// What a pool calls a host of the cluster.
fn name(host: &Host) -> String {
    host.addr().to_string()
}

fn names(cluster: &Cluster, hosts: &[usize]) -> Vec<String> {
    hosts.iter().map(|index| name(&cluster.host(*index))).collect()
}

fn members(pool: &Pool) -> Vec<String> {
    pool.status().hosts.iter().map(|host| host.name.to_string()).collect()
}

fn writer(pool: &Pool) -> Option<String> {
    pool.status().writer().map(|host| host.name.to_string())
}

fn weight(pool: &Pool, host: &Host) -> u32 {
    pool.status().host(&name(host)).unwrap().weight
}

/// Which members the group has, as the pool finds out.
async fn listed(pool: &Pool) -> Result<Vec<String>, String> {
    let hosts = GroupMembers::of(pool).hosts().await.map_err(|error| error.to_string())?;
    Ok(hosts.iter().map(|host| host.name().to_owned()).collect())
}

#[tokio::test]
async fn a_pool_that_knows_one_member_follows_the_group() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.host(2).set_group_state("RECOVERING");
    let pool = builder(&cluster.url_of(0, "app")).build().unwrap();
    let mut lease = pool.get().await.unwrap();
    pool.follow(GroupMembers::of(&pool), PROBES);
    until("the second member joins", || members(&pool) == names(&cluster, &[0, 1])).await;
    // A member that recovers is no member yet.
    cluster.host(2).set_group_state("ONLINE");
    until("the third one joins", || members(&pool) == names(&cluster, &[0, 1, 2])).await;
    until("both serve reads", || {
        pool.status().hosts.iter().filter(|host| host.role == Role::Replica).count() == 2
    })
    .await;
    let held = pool.get_host(&name(&cluster.host(1))).await.unwrap();
    cluster.host(1).set_group_state("OFFLINE");
    until("the second member leaves", || members(&pool) == names(&cluster, &[0, 2])).await;
    let mut held = held;
    for lease in [&mut lease, &mut held] {
        lease.query_drop("SELECT 1").await.expect("no lease is disturbed");
    }
}

#[tokio::test]
async fn a_primary_change_moves_the_writes_and_no_member() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = builder(&cluster.url("app")).build().unwrap();
    assert_eq!(pool.get().await.unwrap().host().name(), name(&cluster.host(0)));
    let mut events = pool.events();
    pool.follow(GroupMembers::of(&pool), PROBES);
    cluster.log_statements(true);
    cluster.promote(2).await.unwrap();
    until("writes have moved", || writer(&pool) == Some(name(&cluster.host(2)))).await;
    let asked = || {
        let logged = cluster.statements();
        logged.iter().filter(|one| one.text.contains("replication_group_members")).count()
    };
    let before = asked();
    until("the members are asked for again", || asked() > before + 2).await;
    assert_eq!(members(&pool), names(&cluster, &[0, 1, 2]));
    while let Ok(event) = events.try_recv() {
        let moved = matches!(event, Event::HostAdded { .. } | Event::HostRemoved { .. });
        assert!(!moved, "{event:?}");
    }
}

#[tokio::test]
async fn a_member_that_is_cut_off_or_expelled_is_not_believed() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = builder(&cluster.url("app")).build().unwrap();
    assert_eq!(pool.get().await.unwrap().host().name(), name(&cluster.host(0)));
    let all = names(&cluster, &[0, 1, 2]);
    assert_eq!(listed(&pool).await, Ok(all.clone()));
    // What the source says of the group, which is asked first.
    for view in [
        vec![(0, "ONLINE"), (1, "UNREACHABLE"), (2, "UNREACHABLE")],
        vec![(0, "ERROR")],
        vec![(0, "OFFLINE")],
        vec![],
    ] {
        cluster.host(0).set_group_view(Some(view.clone()));
        assert_eq!(listed(&pool).await, Ok(all.clone()), "the others know better: {view:?}");
        for index in [1, 2] {
            let own = view.iter().map(|(member, state)| ((member + index) % 3, *state));
            cluster.host(index).set_group_view(Some(own.collect()));
        }
        let error = listed(&pool).await.expect_err("nobody can be believed");
        assert!(error.contains("majority") || error.contains("not an online member"), "{error}");
        for index in [1, 2] {
            cluster.host(index).set_group_view(None);
        }
    }
    // The majority has expelled the source, which has not heard of it.
    cluster.host(0).set_group_view(Some(vec![
        (0, "ONLINE"),
        (1, "UNREACHABLE"),
        (2, "UNREACHABLE"),
    ]));
    for index in [1, 2] {
        cluster.host(index).set_group_view(Some(vec![(1, "ONLINE"), (2, "ONLINE")]));
    }
    assert_eq!(listed(&pool).await, Ok(names(&cluster, &[1, 2])));
}

#[tokio::test]
async fn nobody_leaves_while_no_member_can_be_believed() {
    let cluster = Cluster::start(2).await.unwrap();
    for index in [0, 1] {
        cluster.host(index).set_group_view(Some(vec![(index, "ERROR")]));
    }
    let pool = builder(&cluster.url("app")).build().unwrap();
    drop(pool.get().await.unwrap());
    cluster.log_statements(true);
    pool.follow(GroupMembers::of(&pool), PROBES);
    until("both are asked, twice", || {
        let logged = cluster.statements();
        logged.iter().filter(|one| one.text.contains("replication_group_members")).count() >= 4
    })
    .await;
    assert_eq!(members(&pool), names(&cluster, &[0, 1]));
}

#[tokio::test]
async fn a_silent_member_does_not_keep_the_others_from_answering() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = builder(&cluster.url("app")).probe_interval(None).build().unwrap();
    drop(pool.get().await.unwrap());
    cluster.host(0).freeze();
    let found = timeout(SOON, listed(&pool)).await.expect("bounded");
    assert_eq!(found, Ok(names(&cluster, &[1, 2])));
}

#[tokio::test]
async fn a_pool_that_knows_the_source_follows_its_replicas() {
    let cluster = Cluster::builder(3).start().await.unwrap();
    cluster.host(2).stop_replication().await.unwrap();
    let url = cluster.url("app").replace(&format!(",{}", name(&cluster.host(2))), "");
    let pool = builder(&url).build().unwrap();
    assert_eq!(members(&pool), names(&cluster, &[0, 1]));
    pool.follow(Replicas::of(&pool), PROBES);
    cluster.host(2).set_lag(None).await.unwrap();
    until("the new replica joins", || members(&pool) == names(&cluster, &[0, 1, 2])).await;
    until("it serves reads", || {
        pool.status().hosts.iter().filter(|host| host.role == Role::Replica).count() == 2
    })
    .await;
    // One that was found leaves, one that was configured stays: it may be a source tomorrow.
    cluster.host(1).stop_replication().await.unwrap();
    cluster.host(2).stop_replication().await.unwrap();
    until("the replica that was found leaves", || members(&pool) == names(&cluster, &[0, 1])).await;
    cluster.promote(1).await.unwrap();
    until("writes have moved", || writer(&pool) == Some(name(&cluster.host(1)))).await;
    cluster.host(2).set_lag(None).await.unwrap();
    until("the new source is asked", || members(&pool) == names(&cluster, &[0, 1, 2])).await;
}

/// The hosts are known and nothing lists them: probes find out which one takes writes.
#[tokio::test]
async fn a_role_swap_is_found_by_probes_alone() {
    let cluster = Cluster::start(2).await.unwrap();
    let pool = builder(&cluster.url("app")).build().unwrap();
    assert_eq!(pool.get().await.unwrap().host().name(), name(&cluster.host(0)));
    let mut events = pool.events();
    cluster.promote(1).await.unwrap();
    let [old, new] = [0, 1].map(|index| name(&cluster.host(index)));
    // No statement fails and no caller asks.
    until("the swap is seen", || {
        let status = pool.status();
        let role = |name: &str| status.host(name).unwrap().role;
        role(&old) == Role::Replica
            && role(&new) == Role::Source
            && writer(&pool).as_ref() == Some(&new)
    })
    .await;
    assert_eq!(pool.get().await.unwrap().host().name(), new);
    assert_eq!(pool.get_read().await.unwrap().host().name(), old);
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        seen.push(event);
    }
    let moved = Event::Failover { from: Some(old.as_str().into()), to: new.as_str().into() };
    assert!(seen.contains(&moved), "{seen:?}");
}

#[tokio::test]
async fn weights_follow_the_sizes_that_probes_find() {
    let cluster = Cluster::start(4).await.unwrap();
    for (index, connections) in [(0, 900), (1, 200), (2, 400), (3, 600)] {
        cluster.host(index).set_max_connections(Some(connections));
    }
    cluster.host(3).report_source_delay(Duration::from_secs(3600));
    let delays = options(&cluster.url("app")).lag_source(LagSource::Status);
    let build = |weights: Weights| {
        let builder = delays.pool_builder().unwrap().probe_interval(Some(PROBES));
        builder.weights(weights).build().unwrap()
    };
    let weights = |pool: &Pool| cluster.hosts().map(|host| weight(pool, &host)).collect::<Vec<_>>();

    let pool = build(Weights::by_capacity());
    let mut events = pool.events();
    // Nothing for the source, and nothing for a replica that is kept behind on purpose.
    until("the sizes are found", || weights(&pool) == [0, 200, 400, 0]).await;
    let mut on = [0; 4];
    for _ in 0..30 {
        let lease = pool.get_read().await.unwrap();
        let at = cluster.hosts().position(|host| host.port() == lease.host().port());
        on[at.unwrap()] += 1;
    }
    // The credits of the picks before the last size was found are kept: one cycle may be off by one.
    assert!(on[0] + on[3] == 0 && (9..=11).contains(&on[1]), "{on:?}");
    // A host that grows counts at once, a lease stays where it is.
    let mut lease = pool.get_host(&name(&cluster.host(1))).await.unwrap();
    cluster.host(1).set_max_connections(Some(800));
    until("the new size is found", || weights(&pool) == [0, 800, 400, 0]).await;
    lease.query_drop("SELECT 1").await.unwrap();
    // By hand wins, whatever probes find, but for a delay.
    pool.set_weight(&name(&cluster.host(1)), 7).unwrap();
    assert!(pool.set_weight(&name(&cluster.host(3)), 1).is_err());
    cluster.host(1).set_max_connections(Some(300));
    cluster.host(2).set_max_connections(Some(500));
    until("the next probes have answered", || weights(&pool)[2] == 500).await;
    assert_eq!(weights(&pool), [0, 7, 500, 0]);
    let mut changes = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::WeightChanged { host, weight } = event
            && *host == *name(&cluster.host(1))
        {
            changes.push(weight);
        }
    }
    assert_eq!(changes, [200, 800, 7]);
    // The roles swap, and the automatic weights with them.
    cluster.promote(2).await.unwrap();
    until("the swap is seen", || weights(&pool) == [900, 7, 0, 0]).await;

    let pool = build(Weights::by(|host| match host.role {
        Role::Source => 5,
        _ => host.capacity.map_or(50, |connections| connections * 100),
    }));
    // At most 10 000, and the function decides about the source as well.
    until("the sizes are found", || weights(&pool) == [10_000, 10_000, 5, 0]).await;

    let pool = build(Weights::custom());
    until("the source is found", || writer(&pool).is_some()).await;
    assert_eq!(weights(&pool), [0; 4]);
}

#[tokio::test]
async fn a_new_replica_joins_at_once_or_waits_for_its_weight() {
    let cluster = Cluster::start(2).await.unwrap();
    let replica = || pool_core::host::Host::new("127.0.0.1", cluster.host(1).port());
    for (weights, joins) in [(Weights::automatic(), true), (Weights::custom(), false)] {
        let pool = builder(&cluster.url_of(0, "app")).weights(weights).build().unwrap();
        drop(pool.get().await.unwrap());
        pool.add_host(replica()).unwrap();
        let read = || async { pool.get_read().await.unwrap().host().port() };
        assert_eq!(read().await == cluster.host(1).port(), joins);
        pool.set_weight(replica().name(), 40).unwrap();
        assert_eq!(read().await, cluster.host(1).port());
    }
}

#[tokio::test]
async fn a_forced_drain_ends_the_connections_of_leases_on_the_server() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let pool = builder(&cluster.url("test")).build().unwrap();
    let leaving = name(&cluster.host(0));
    drop(pool.get().await.unwrap());
    // One that is idle in a transaction, one that runs a statement, one that was taken out of the pool.
    let mut idle = pool.get().await.unwrap();
    idle.query_drop("BEGIN").await.unwrap();
    idle.query_drop("INSERT INTO t VALUES (1)").await.unwrap();
    let mut busy = pool.get().await.unwrap();
    let mut kept = pool.get().await.unwrap().detach();
    let running = tokio::spawn(async move {
        let ran = busy.query_drop("SELECT SLEEP(3600)").await;
        (ran, busy)
    });
    until("the statement runs", || {
        pool.status().host(&leaving).unwrap().counts.in_use == 2
            && cluster.host(0).counters().statements >= 3
    })
    .await;
    let mut events = pool.events();
    let drain = tokio::spawn({
        let (pool, leaving) = (pool.clone(), leaving.clone());
        let how = Drain::within(Duration::from_millis(100)).force_within(SOON);
        async move { pool.remove_host(&leaving, how).await.unwrap() }
    });
    let (ran, busy) = timeout(SOON, running).await.expect("it is ended").unwrap();
    ran.expect_err("the statement that ran fails");
    drop(busy);
    until("both are gone on the server", || {
        let ids = cluster.host(0).connections();
        !ids.contains(&idle.id()) && ids.contains(&kept.id())
    })
    .await;
    let error = idle.query_drop("SELECT 1").await.expect_err("the next statement fails");
    let verdict = idle.observe(&error);
    assert!(matches!(verdict, Verdict::ConnectionLost | Verdict::ConnectionEnded), "{verdict}");
    drop(idle);
    let settled = timeout(SOON, drain).await.expect("bounded").unwrap();
    assert_eq!(settled, Settled { abandoned: 0, ended: 2 });
    kept.query_drop("SELECT 1").await.expect("what left the pool is not touched");
    assert!(cluster.query("SELECT * FROM t").await.unwrap().is_empty(), "rolled back");
    let mut steps = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event {
            Event::Draining { in_use: 2, .. } => steps.push("draining"),
            Event::DrainTimedOut { in_use: 2, .. } => steps.push("timed out"),
            Event::LeasesEnded { ended: 2, of: 2, .. } => steps.push("ended"),
            Event::DrainProgress { in_use: 1, .. } => steps.push("one left"),
            Event::Drained { .. } => steps.push("drained"),
            Event::HostRemoved { .. } => steps.push("removed"),
            _ => {}
        }
    }
    let all = ["draining", "timed out", "ended", "one left", "drained", "removed"];
    let few = ["draining", "timed out", "ended", "drained", "removed"];
    assert!(steps == all || steps == few, "{steps:?}");
}

#[tokio::test]
async fn what_was_ended_is_not_handed_out_when_the_host_serves_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let pool = builder(&cluster.url("app")).build().unwrap();
    let host = name(&cluster.host(0));
    let lease = pool.get().await.unwrap();
    let id = lease.id();
    let how = Drain::within(Duration::ZERO).force_within(Duration::from_secs(2));
    assert_eq!(pool.drain(&host, how).await.unwrap(), Settled { abandoned: 1, ended: 1 });
    pool.undrain(&host).unwrap();
    drop(lease);
    let mut lease = pool.get().await.unwrap();
    assert_ne!(lease.id(), id);
    lease.query_drop("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn force_needs_one_server_behind_an_address_and_says_so() {
    let cluster = Cluster::start(1).await.unwrap();
    let driver = options(&cluster.url("app")).driver().unwrap().with_kill_abandoned(false);
    let pool = Pool::builder(driver)
        .host(pool_core::host::Host::new("127.0.0.1", cluster.host(0).port()))
        .build()
        .unwrap();
    let mut lease = pool.get().await.unwrap();
    let host = name(&cluster.host(0));
    assert_eq!(pool.end_leases(&host, SOON).await.unwrap(), 0);
    lease.query_drop("SELECT 1").await.unwrap();
}
