//! The source dies under load, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use mysql_async::prelude::Queryable;
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::verdict::Verdict;
use pool_mysql::{Pool, classify};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::site::Site;
use super::{assert_whole, builder, direct, eventually, ms, prepare, secs, sent, soon};

const TASKS: u64 = 16;

#[derive(Default)]
struct Traffic {
    over: AtomicBool,
    next_id: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    /// Writes that failed before they had a connection, and on one.
    refused: AtomicU64,
    broken: AtomicU64,
}

/// 16 readers and 16 writers. Reads go on without a single error; each failed write says why; when the
/// source is back, so is the pool, by itself, and every acknowledged row is there.
pub async fn reads_go_on_and_the_pool_heals_itself(site: &impl Site) {
    prepare(site, &["CREATE TABLE survivors (id BIGINT PRIMARY KEY)"]).await;
    let pool = builder(site).acquire_timeout(secs(2)).build().unwrap();
    let source = site.name(0);
    let mut events = pool.events();
    let traffic = Arc::new(Traffic::default());
    let (mut readers, mut writers) = (JoinSet::new(), JoinSet::new());
    for _ in 0..TASKS {
        readers.spawn(read(pool.clone(), Arc::clone(&traffic)));
        writers.spawn(write(pool.clone(), Arc::clone(&traffic)));
    }
    more(&pool, &traffic.reads, 200).await;
    more(&pool, &traffic.writes, 200).await;

    site.kill(0).await;
    more(&pool, &traffic.refused, 1).await;
    more(&pool, &traffic.reads, 500).await;

    site.revive(0).await;
    let up = Instant::now();
    // Four times as many as there are writers: not only those that were lucky.
    more(&pool, &traffic.writes, 4 * TASKS).await;
    println!("writes are back {:?} after the server", up.elapsed());
    assert!(up.elapsed() < secs(10), "{:?}", up.elapsed());

    traffic.over.store(true, SeqCst);
    while let Some(reader) = soon("readers", readers.join_next()).await {
        reader.unwrap();
    }
    let mut acknowledged = Vec::new();
    while let Some(writer) = soon("writers", writers.join_next()).await {
        acknowledged.extend(writer.unwrap());
    }
    println!(
        "{} reads, {} writes, {} refused by the pool, {} broken",
        traffic.reads.load(SeqCst),
        acknowledged.len(),
        traffic.refused.load(SeqCst),
        traffic.broken.load(SeqCst),
    );
    assert_whole(&pool, &source).await;
    assert_history(&sent(&mut events), &source);

    let mut conn = direct(site, 0).await;
    let kept: Vec<u64> = conn.query("SELECT id FROM survivors").await.unwrap();
    let kept: std::collections::HashSet<u64> = kept.into_iter().collect();
    let lost: Vec<&u64> = acknowledged.iter().filter(|id| !kept.contains(id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    conn.disconnect().await.unwrap();
}

/// The source went down, then came up; nothing happened to anybody else.
fn assert_history(events: &[Event], source: &str) {
    let of_source = |event: &Event| match event {
        Event::HostDown { host, .. } | Event::HostUp { host } => &**host == source,
        _ => false,
    };
    let steps: Vec<&Event> = events.iter().filter(|event| of_source(event)).collect();
    assert!(!steps.is_empty(), "{events:?}");
    for pair in steps.chunks(2) {
        let in_turn = matches!(pair, [Event::HostDown { .. }, Event::HostUp { .. }]);
        assert!(in_turn, "{events:?}");
    }
    let first_down = events.iter().position(|event| matches!(event, Event::HostDown { .. }));
    for (place, event) in events.iter().enumerate() {
        match event {
            Event::HostDown { host, .. } | Event::Demoted { host } => {
                assert_eq!(&**host, source, "{events:?}");
            }
            // Nobody else takes writes here.
            Event::Failover { to, .. } => assert_eq!(&**to, source, "{events:?}"),
            Event::WalkFailed { .. } => assert!(Some(place) > first_down, "{events:?}"),
            _ => {}
        }
    }
}

/// Waits for `count` more than now.
async fn more(pool: &Pool, counter: &AtomicU64, count: u64) {
    let goal = counter.load(SeqCst) + count;
    eventually("more traffic", pool, || counter.load(SeqCst) >= goal).await;
}

async fn read(pool: Pool, traffic: Arc<Traffic>) {
    while !traffic.over.load(SeqCst) {
        let mut lease = pool.get_read().await.expect("reads go on");
        let rows = lease.query_first::<u64, _>("SELECT COUNT(*) FROM survivors").await;
        rows.unwrap_or_else(|error| panic!("a read on {} failed: {error}", lease.host().name()));
        traffic.reads.fetch_add(1, SeqCst);
        drop(lease);
        sleep(ms(2)).await;
    }
}

/// The ids that were acknowledged.
async fn write(pool: Pool, traffic: Arc<Traffic>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    while !traffic.over.load(SeqCst) {
        match pool.get().await {
            Ok(mut lease) => {
                let id = traffic.next_id.fetch_add(1, SeqCst);
                match lease.exec_drop("INSERT INTO survivors VALUES (?)", (id,)).await {
                    Ok(()) => {
                        acknowledged.push(id);
                        traffic.writes.fetch_add(1, SeqCst);
                    }
                    Err(error) => {
                        let verdict = classify(&error);
                        let telling = [Verdict::ConnectionLost, Verdict::ConnectionEnded];
                        assert!(telling.contains(&verdict), "{verdict}: {error}");
                        traffic.broken.fetch_add(1, SeqCst);
                    }
                }
            }
            Err(error) => {
                let telling = [ErrorKind::NoHost, ErrorKind::Timeout].contains(&error.kind());
                assert!(telling, "{error}");
                traffic.refused.fetch_add(1, SeqCst);
            }
        }
        // Not to ask as fast as errors come.
        sleep(ms(5)).await;
    }
    acknowledged
}
