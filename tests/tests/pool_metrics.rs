//! Every metric is there, under the labels pool, host and role.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use pool_core::host::Role;
use pool_core::verdict::Verdict;
use pool_tests::scripted::{Answer, Scripted};
use support::{builder, ms, secs};
use tokio::time::sleep;

type Found = BTreeMap<(String, String), DebugValue>;

/// Everything recorded, by name and sorted labels.
fn take(snapshotter: &Snapshotter) -> Found {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    metrics
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            ((key.name().to_owned(), labels.join(" ")), value)
        })
        .collect()
}

fn value<'a>(found: &'a Found, name: &str, labels: &str) -> &'a DebugValue {
    let key = (name.to_owned(), labels.to_owned());
    found.get(&key).unwrap_or_else(|| panic!("no {name} {labels} among {:?}", found.keys()))
}

fn counter(found: &Found, name: &str, labels: &str) -> u64 {
    match value(found, name, labels) {
        DebugValue::Counter(count) => *count,
        other => panic!("{name} is {other:?}"),
    }
}

fn gauge(found: &Found, name: &str, labels: &str) -> f64 {
    match value(found, name, labels) {
        DebugValue::Gauge(value) => value.into_inner(),
        other => panic!("{name} is {other:?}"),
    }
}

fn histogram(found: &Found, name: &str, labels: &str) -> Vec<f64> {
    match value(found, name, labels) {
        DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).collect(),
        other => panic!("{name} is {other:?}"),
    }
}

const H1: &str = "host=h1 pool=shop role=source";

fn with(label: &str) -> String {
    let mut labels: Vec<&str> = H1.split(' ').chain([label]).collect();
    labels.sort_unstable();
    labels.join(" ")
}

#[tokio::test(start_paused = true)]
async fn histograms_gauges_and_counters_tell_what_happened() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let driver = Scripted::new();
    driver.host("h1").connect(Answer::Slow(ms(30)));
    let pool = builder(&driver, 1).name("shop").max_size(2).build().unwrap();

    let held = pool.get().await.unwrap();
    sleep(ms(100)).await;
    drop(held);
    pool.get().await.unwrap().discard();
    let (a, b) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(drop) }
    });
    // Gauges are published once a second.
    sleep(ms(2100)).await;
    let found = take(&snapshotter);
    assert_eq!(gauge(&found, "pool_in_use", H1), 2.0);
    assert_eq!(gauge(&found, "pool_waiting", H1), 1.0);
    assert_eq!(gauge(&found, "pool_idle", H1), 0.0);
    assert_eq!(gauge(&found, "pool_connecting", H1), 0.0);
    assert_eq!(histogram(&found, "pool_dial_seconds", H1), [0.03, 0.03, 0.03]);
    assert_eq!(histogram(&found, "pool_hold_seconds", H1), [0.1]);
    let waits = histogram(&found, "pool_wait_seconds", H1);
    assert_eq!(waits.iter().filter(|wait| **wait == 0.0).count(), 1, "{waits:?}");
    assert_eq!(waits.iter().filter(|wait| **wait >= 0.03).count(), 3, "{waits:?}");
    assert_eq!(counter(&found, "pool_closed_total", &with("reason=discarded")), 1);

    a.kill();
    drop(a);
    waiting.await.unwrap().unwrap();
    b.fail(Verdict::ConnectionLost);
    drop(b);
    driver.host("h1").up();
    drop(pool.get().await.unwrap());
    sleep(secs(1)).await;
    drop(pool.get().await.unwrap());
    driver.host("h1").ping(Answer::Fail(Verdict::ConnectionEnded));
    sleep(secs(1)).await;
    drop(pool.get().await.unwrap());
    let found = take(&snapshotter);
    assert_eq!(histogram(&found, "pool_validate_seconds", H1).len(), 2);
    assert_eq!(counter(&found, "pool_verdicts_total", &with("verdict=connection-lost")), 1);
    assert_eq!(counter(&found, "pool_verdicts_total", &with("verdict=connection-ended")), 1);
    let reasons = [("dead", 2), ("void", 1), ("untidy", 1), ("idle-timeout", 0), ("lifetime", 0)];
    for (reason, closed) in reasons {
        let label = with(&format!("reason={reason}"));
        assert_eq!(counter(&found, "pool_closed_total", &label), closed, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn failovers_and_returns_are_counted_and_a_role_is_a_label() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let driver = Scripted::new();
    let pool = builder(&driver, 2).name("shop").probe_interval(Some(secs(1))).build().unwrap();
    drop(pool.get().await.unwrap());
    driver.host("h1").role(Role::Replica);
    driver.host("h2").role(Role::Source);
    let lease = pool.get().await.unwrap();
    lease.fail(Verdict::Demoted);
    drop(lease);
    drop(pool.get().await.unwrap());
    driver.host("h1").role(Role::Source);
    driver.host("h2").role(Role::Replica);
    sleep(secs(5)).await;
    drop(pool.get().await.unwrap());
    let found = take(&snapshotter);
    assert_eq!(counter(&found, "pool_failovers_total", "pool=shop"), 1);
    assert_eq!(counter(&found, "pool_returns_total", "pool=shop"), 1);
    for labels in ["host=h2 pool=shop role=replica", "host=h2 pool=shop role=source"] {
        value(&found, "pool_idle", labels);
    }
    assert_eq!(gauge(&found, "pool_weight", "host=h2 pool=shop role=replica"), 100.0);
}
