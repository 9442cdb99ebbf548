//! Read weights that follow the hosts, in simulated time.
#![allow(clippy::unwrap_used)]

mod support;

use pool_core::config::Roles;
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::host::{Host, Role};
use pool_core::pool::Pool;
use pool_core::weights::Weights;
use pool_tests::scripted::{Scripted, hosts};
use support::{builder, eventually, secs, sent};
use tokio::time::sleep;

fn weights(pool: &Pool<Scripted>) -> Vec<u32> {
    pool.status().hosts.iter().map(|host| host.weight).collect()
}

fn changed(host: &str, weight: u32) -> Event {
    Event::WeightChanged { host: host.into(), weight }
}

/// Which hosts served this many reads.
async fn reads(pool: &Pool<Scripted>, count: usize) -> Vec<String> {
    let mut served = Vec::new();
    for _ in 0..count {
        served.push(pool.get_read().await.unwrap().host().name().to_owned());
    }
    served
}

#[tokio::test(start_paused = true)]
async fn reads_are_split_by_the_sizes_of_the_hosts() {
    let driver = Scripted::new();
    for (host, size) in [("h1", 500), ("h2", 100), ("h3", 300)] {
        driver.host(host).size(size, false);
    }
    let pool = builder(&driver, 3)
        .weights(Weights::by_capacity())
        .probe_interval(Some(secs(5)))
        .build()
        .unwrap();
    let mut events = pool.events();
    eventually("the sizes are known", || weights(&pool) == [0, 100, 300]).await;
    assert_eq!(
        sent(&mut events)
            .into_iter()
            .filter(|e| matches!(e, Event::WeightChanged { .. }))
            .collect::<Vec<_>>(),
        [changed("h3", 300)],
        "100 is the weight before a size is known"
    );
    let served = reads(&pool, 40).await;
    let on = |host: &str| served.iter().filter(|name| *name == host).count();
    assert_eq!((on("h1"), on("h2"), on("h3")), (0, 10, 30));
}

#[tokio::test(start_paused = true)]
async fn a_replica_kept_behind_on_purpose_has_no_weight_until_that_ends() {
    let driver = Scripted::new();
    driver.host("h3").size(100, true);
    let pool = builder(&driver, 3).probe_interval(Some(secs(1))).build().unwrap();
    let held = pool.get_host("h3").await.unwrap();
    eventually("the delay is known", || weights(&pool) == [0, 100, 0]).await;
    assert!(pool.status().host("h3").unwrap().delayed);
    assert!(reads(&pool, 10).await.iter().all(|host| host == "h2"));
    assert_eq!(held.host().name(), "h3", "no lease is disturbed");
    let why = pool.explain("SELECT 1").to_string();
    assert!(why.contains("kept behind on purpose"), "{why}");
    let mut events = pool.events();
    driver.host("h3").size(100, false);
    eventually("its end is known", || weights(&pool) == [0, 100, 100]).await;
    driver.host("h2").size(100, true);
    eventually("the delay of h2 is known", || weights(&pool) == [0, 0, 100]).await;
    driver.host("h2").size(100, false);
    eventually("its end as well", || weights(&pool) == [0, 100, 100]).await;
    assert_eq!(sent(&mut events), [changed("h3", 100), changed("h2", 0), changed("h2", 100)]);
}

#[tokio::test(start_paused = true)]
async fn a_weight_by_hand_does_not_reach_a_replica_kept_behind_on_purpose() {
    let driver = Scripted::new();
    driver.host("h3").size(100, true);
    let mut list = hosts(&driver, 3);
    let h3: Host = list.pop().unwrap().with_weight(50);
    let pool = Pool::builder(driver.clone()).hosts(list).host(h3);
    let pool = pool.probe_interval(Some(secs(1))).build().unwrap();
    eventually("the delay is known", || weights(&pool) == [0, 100, 0]).await;
    assert!(reads(&pool, 10).await.iter().all(|host| host == "h2"));
    for refused in [
        pool.set_weight("h3", 70).unwrap_err(),
        pool.get_for("/*force_node='h3'*/ SELECT 1").await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Refused);
        assert!(refused.to_string().contains("\"h3\" is kept behind on purpose"), "{refused}");
    }
    pool.set_weight("h3", 0).unwrap();
    driver.host("h3").size(100, false);
    eventually("the delay is over", || !pool.status().host("h3").unwrap().delayed).await;
    pool.set_weight("h3", 70).unwrap();
    assert_eq!(weights(&pool), [0, 100, 70]);
    driver.host("h3").size(100, true);
    eventually("it is delayed again", || weights(&pool) == [0, 100, 0]).await;
    driver.host("h3").size(100, false);
    eventually("the weight by hand is kept", || weights(&pool) == [0, 100, 70]).await;
}

#[tokio::test(start_paused = true)]
async fn without_probes_a_walk_that_asks_a_host_learns_its_size() {
    let driver = Scripted::new();
    for host in ["h1", "h2"] {
        driver.host(host).size(700, false);
    }
    let pool = builder(&driver, 2).weights(Weights::by_capacity()).build().unwrap();
    driver.host("h1").role(Role::Replica);
    driver.host("h2").role(Role::Source);
    assert_eq!(pool.get().await.unwrap().host().name(), "h2");
    assert_eq!(weights(&pool), [700, 0]);
}

#[tokio::test(start_paused = true)]
async fn automatic_weights_follow_the_roles() {
    let driver = Scripted::new();
    let user = Weights::by(|host| if host.role == Role::Source { 1 } else { 9 });
    let rows = [
        (Weights::automatic(), [0, 100], [100, 0]),
        (Weights::custom(), [0, 0], [0, 0]),
        (user, [1, 9], [9, 1]),
    ];
    for (rule, before, after) in rows {
        let pool = builder(&driver, 2).roles(Roles::Static).weights(rule.clone()).build().unwrap();
        drop(pool.get().await.unwrap());
        assert_eq!(weights(&pool), before, "{rule:?}");
        pool.promote("h2").unwrap();
        assert_eq!(weights(&pool), after, "{rule:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_weight_of_the_configuration_wins_over_every_rule() {
    let driver = Scripted::new();
    for rule in
        [Weights::automatic(), Weights::by_capacity(), Weights::by(|_| 1), Weights::custom()]
    {
        driver.host("h2").size(900, false);
        let mut list = hosts(&driver, 2);
        let h2: Host = list.pop().unwrap().with_weight(33);
        let pool = Pool::builder(driver.clone())
            .hosts(list)
            .host(h2)
            .weights(rule.clone())
            .probe_interval(Some(secs(1)))
            .build()
            .unwrap();
        sleep(secs(5)).await;
        assert_eq!(weights(&pool)[1], 33, "{rule:?}");
    }
}
