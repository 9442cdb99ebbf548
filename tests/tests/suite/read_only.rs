//! A source that turns read-only, by accident or because another host takes over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use mysql_async::Error;
use mysql_async::prelude::Queryable;
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_core::host::Role;
use pool_mysql::{Pool, is_not_writable};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::site::Site;
use super::{assert_whole, builder, eventually, host_status, ms, prepare, secs, sent, soon};

const IDLE: usize = 4;
const WRITERS: usize = 16;

/// The server's error reaches the caller, and in the same moment the pool knows.
pub async fn a_refused_write_demotes_the_host_at_once(site: &impl Site) {
    prepare(site, &["CREATE TABLE refused (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)"]).await;
    let (first, second) = (site.name(0), site.name(1));
    let write = "INSERT INTO refused (n) VALUES (1)";
    // So rarely that a probe in this test is one that the refusal asked for.
    let pool = builder(site).probe_interval(Some(secs(600))).acquire_timeout(secs(2));
    let pool = pool.build().unwrap();
    drop(soon("leases", join_all((0..=IDLE).map(|_| pool.get()))).await);
    // The monitors' first round is over.
    eventually("roles are known", &pool, || {
        pool.status().hosts.iter().all(|host| host.role != Role::Unknown)
    })
    .await;
    let mut lease = pool.get().await.unwrap();
    lease.query_drop(write).await.unwrap();
    let before = host_status(&pool, &first);
    assert_eq!((before.role, before.counts.idle), (Role::Source, IDLE));
    let mut events = pool.events();

    site.set_read_only(0, true).await;
    let refused = lease.query_drop(write).await.unwrap_err();
    let after = host_status(&pool, &first);
    assert!(matches!(&refused, Error::Server(error) if error.code == 1290), "{refused}");
    assert!(is_not_writable(&refused));
    assert_ne!(after.role, Role::Source);
    assert!(!after.writer && pool.status().writer().is_none());
    assert_eq!((after.counts.idle, after.generation), (0, before.generation + 1));
    let told = sent(&mut events);
    assert!(told.iter().any(|event| matches!(event, Event::Demoted { host } if **host == *first)));
    drop(lease);
    assert_eq!(host_status(&pool, &first).counts.idle, 0, "handed back as if nothing had happened");
    eventually("a probe of the role", &pool, || host_status(&pool, &first).role == Role::Replica)
        .await;

    // Nobody takes writes now, and a caller is told so.
    let error = pool.get().await.unwrap_err();
    assert!([ErrorKind::NoHost, ErrorKind::Timeout].contains(&error.kind()), "{error}");

    site.set_read_only(1, false).await;
    let mut lease = soon("a writer", a_lease(&pool)).await;
    assert_eq!(lease.host().name(), second);
    lease.query_drop(write).await.unwrap();
    drop(lease);
    let moved = Event::Failover { from: Some((*first).into()), to: (*second).into() };
    assert!(sent(&mut events).contains(&moved));
    assert_whole(&pool, &second).await;
}

/// A planned switch-over under load. Writes that were under way are refused, each connection to the old
/// source at most once; from then on no write is sent there, not even of those who had queued for it.
pub async fn a_switch_over_moves_all_writes(site: &impl Site) {
    prepare(site, &["CREATE TABLE moved (id BIGINT PRIMARY KEY)"]).await;
    let (first, second) = (site.name(0), site.name(1));
    let pool = builder(site).acquire_timeout(secs(5)).build().unwrap();
    let traffic = Arc::new(Traffic::default());
    let mut events = pool.events();
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write(pool.clone(), Arc::clone(&traffic), first.clone()));
    }
    eventually("writes", &pool, || traffic.writes.load(SeqCst) >= 100).await;
    site.set_read_only(0, true).await;
    site.caught_up().await;
    site.set_read_only(1, false).await;
    let took = eventually("the switch-over", &pool, || {
        pool.status().writer().is_some_and(|writer| *writer.name == *second)
    })
    .await;
    traffic.switched.store(true, SeqCst);
    let before = traffic.writes.load(SeqCst);
    eventually("writes", &pool, || traffic.writes.load(SeqCst) >= before + 200).await;
    traffic.over.store(true, SeqCst);
    while let Some(writer) = soon("writers", writers.join_next()).await {
        writer.unwrap();
    }
    let (refused, unserved) = (traffic.refused.load(SeqCst), traffic.unserved.load(SeqCst));
    println!("moved in {took:?}; {refused} writes refused by the server, {unserved} by the pool");
    let capacity = host_status(&pool, &first).capacity as u64;
    // A server that goes read-only may say for a moment that it is not, and is then found out again.
    let demoted = |event: &Event| matches!(event, Event::Demoted { host } if **host == *first);
    let demotions = sent(&mut events).into_iter().filter(demoted).count() as u64;
    assert!(
        refused <= capacity * demotions,
        "{refused} refusals, {capacity} connections, {demotions} times"
    );
    let mut connections = traffic.refused_on.lock().unwrap().clone();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len() as u64, refused, "a connection was refused twice");
    assert_whole(&pool, &second).await;
}

#[derive(Default)]
struct Traffic {
    next_id: AtomicU64,
    over: AtomicBool,
    switched: AtomicBool,
    writes: AtomicU64,
    refused: AtomicU64,
    /// The connections that met a refusal.
    refused_on: Mutex<Vec<u32>>,
    unserved: AtomicU64,
}

async fn write(pool: Pool, traffic: Arc<Traffic>, old: String) {
    while !traffic.over.load(SeqCst) {
        let switched = traffic.switched.load(SeqCst);
        match pool.get().await {
            Ok(mut lease) => {
                assert!(!switched || lease.host().name() != old, "a lease of the old source");
                let id = traffic.next_id.fetch_add(1, SeqCst);
                match lease.query_drop(format!("INSERT INTO moved VALUES ({id})")).await {
                    Ok(()) => {
                        traffic.writes.fetch_add(1, SeqCst);
                    }
                    Err(error) => {
                        assert!(is_not_writable(&error), "{error}");
                        assert_eq!(lease.host().name(), old);
                        traffic.refused.fetch_add(1, SeqCst);
                        traffic.refused_on.lock().unwrap().push(lease.id());
                    }
                }
            }
            Err(error) => {
                let telling = [ErrorKind::NoHost, ErrorKind::Timeout].contains(&error.kind());
                assert!(telling, "{error}");
                traffic.unserved.fetch_add(1, SeqCst);
            }
        }
        // Not to ask as fast as errors come.
        sleep(ms(5)).await;
    }
}

async fn a_lease(pool: &Pool) -> pool_mysql::Lease {
    loop {
        match pool.get().await {
            Ok(lease) => return lease,
            Err(_) => sleep(ms(20)).await,
        }
    }
}
