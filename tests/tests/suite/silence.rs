//! A source that goes silent: no packet says that it is gone.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use mysql_async::prelude::Queryable;
use pool_core::error::ErrorKind;
use pool_core::verdict::Verdict;
use pool_mysql::{MySqlOptions, Pool, classify};
use pool_tests::proxy::FaultProxy;
use pool_tests::stalls::Stalls;
use tokio::time::{Instant, sleep};

use super::site::Site;
use super::{SLACK, assert_whole, eventually, host_status, ms, secs, soon};

const ACQUIRE: Duration = Duration::from_millis(1000);
const STATEMENT: Duration = Duration::from_millis(500);
/// A thread of this process that wakes up so late says that the machine stood still: the bounds say nothing
/// then, and everything is done again, at most so often.
const BUSY: Duration = Duration::from_millis(100);
const ATTEMPTS: usize = 5;
const CONNECTIONS: usize = 6;
const WRITERS: usize = 16;
const READERS: usize = 8;

/// Behind proxies that stop forwarding.
pub async fn a_stalled_link_holds_up_nobody(site: &impl Site) {
    let mut proxies = Vec::new();
    for host in 0..site.size() {
        proxies.push(FaultProxy::start(site.addr(host)).await.unwrap());
    }
    let addrs: Vec<_> = proxies.iter().map(FaultProxy::addr).collect();
    let pool = open(&site.url_over(&addrs));
    let stall = async || proxies[0].stall();
    let resume = async || proxies[0].resume();
    holds_up_nobody(&pool, &addrs[0].to_string(), stall, resume).await;
}

/// The server itself is frozen.
pub async fn a_frozen_source_holds_up_nobody(site: &impl Site) {
    let pool = open(&site.url());
    let (pause, unpause) = (async || site.pause(0).await, async || site.unpause(0).await);
    holds_up_nobody(&pool, &site.name(0), pause, unpause).await;
}

fn open(url: &str) -> Pool {
    let options = MySqlOptions::from_url(url).unwrap().socket_timeout(STATEMENT);
    let builder = options.pool_builder().unwrap().max_size(CONNECTIONS).acquire_timeout(ACQUIRE);
    let builder = builder.connect_timeout(ms(400)).check_timeout(ms(300)).tidy_timeout(ms(300));
    builder.close_timeout(ms(300)).probe_interval(Some(secs(1))).build().unwrap()
}

/// The longest waits under load, and the reads that failed.
#[derive(Debug, Default)]
struct Longest {
    checkout: Duration,
    statement: Duration,
    read: Duration,
    failed_reads: Vec<String>,
}

impl Longest {
    fn is_within_bounds(&self) -> bool {
        self.checkout <= ACQUIRE + SLACK
            && self.statement <= STATEMENT + SLACK
            // Reads never go there, so they do not even notice.
            && self.read <= STATEMENT
            && self.failed_reads.is_empty()
    }
}

async fn holds_up_nobody(pool: &Pool, source: &str, stall: impl AsyncFn(), resume: impl AsyncFn()) {
    let stalls = Stalls::watch();
    let mut before = HashSet::new();
    for attempt in 1.. {
        before.extend(connection_ids(pool).await);
        // Reads have connections of their own to the replicas.
        drop(join_all((0..READERS).map(|_| pool.get_read())).await);
        stall().await;
        stalls.take();
        let longest = under_load(pool).await;
        let stood_still = stalls.take();
        println!("{longest:?}; the machine stood still for {stood_still:?}");
        if longest.is_within_bounds() {
            break;
        }
        assert!(stood_still > BUSY && attempt < ATTEMPTS, "{longest:?}");
        resume().await;
        is_back(pool, source).await;
    }

    eventually("the stalled connections leave the pool", pool, || {
        let counts = host_status(pool, source).counts;
        counts.idle + counts.in_use + counts.tending == 0
    })
    .await;
    resume().await;
    is_back(pool, source).await;
    assert_whole(pool, source).await;
    let after = connection_ids(pool).await;
    assert!(before.is_disjoint(&after), "{before:?} {after:?}");
}

async fn under_load(pool: &Pool) -> Longest {
    let until = Instant::now() + secs(3);
    let writes = join_all((0..WRITERS).map(|_| write_until(pool, until)));
    let reads = join_all((0..READERS).map(|_| read_until(pool, until)));
    let (writes, reads) = tokio::join!(writes, reads);
    writes.into_iter().chain(reads).fold(Longest::default(), |mut all, one| {
        all.failed_reads.extend(one.failed_reads);
        Longest {
            checkout: all.checkout.max(one.checkout),
            statement: all.statement.max(one.statement),
            read: all.read.max(one.read),
            ..all
        }
    })
}

async fn is_back(pool: &Pool, source: &str) {
    eventually("the source is back", pool, || {
        let status = pool.status();
        let writer = status.writer();
        writer.is_some_and(|writer| &*writer.name == source && writer.blocked_for.is_none())
    })
    .await;
}

/// Takes every connection of the source; their ids.
async fn connection_ids(pool: &Pool) -> HashSet<u32> {
    // The time to connect is short: a machine that stands still may use it up.
    let patient = async || loop {
        if let Ok(lease) = pool.get().await {
            return lease;
        }
    };
    let leases = soon("leases", join_all((0..CONNECTIONS).map(|_| patient()))).await;
    leases.into_iter().map(|lease| lease.id()).collect()
}

/// Writers: every outcome is fine, as long as it comes in time and says what it is.
async fn write_until(pool: &Pool, until: Instant) -> Longest {
    let mut longest = Longest::default();
    while Instant::now() < until {
        let asked = Instant::now();
        let lease = soon("a checkout", pool.get()).await;
        longest.checkout = longest.checkout.max(asked.elapsed());
        match lease {
            Ok(mut lease) => {
                let asked = Instant::now();
                if let Err(error) = soon("a statement", lease.query_drop("SELECT 1")).await {
                    assert_ne!(classify(&error), Verdict::Statement, "{error}");
                }
                longest.statement = longest.statement.max(asked.elapsed());
            }
            Err(error) => {
                let in_time = [ErrorKind::NoHost, ErrorKind::Timeout].contains(&error.kind());
                assert!(in_time, "{error}");
            }
        }
        // Not to ask as fast as errors come.
        sleep(ms(5)).await;
    }
    longest
}

async fn read_until(pool: &Pool, until: Instant) -> Longest {
    let mut longest = Longest::default();
    while Instant::now() < until {
        let asked = Instant::now();
        let failed = match pool.get_read().await {
            Ok(mut lease) => lease.query_drop("SELECT 1").await.err().map(|e| e.to_string()),
            Err(error) => Some(error.to_string()),
        };
        longest.read = longest.read.max(asked.elapsed());
        longest.failed_reads.extend(failed);
        sleep(ms(5)).await;
    }
    longest
}
