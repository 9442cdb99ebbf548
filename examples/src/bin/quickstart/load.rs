//! 32 tasks that read and write, and what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use pool_core::error::ErrorKind;
use pool_mysql::Pool;
use tokio::task::JoinHandle;

const TASKS: usize = 32;
const PAUSE: Duration = Duration::from_millis(10);

/// Where the show is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Up,
    Away,
    Back,
}

#[derive(Clone, Debug, Default)]
struct Host {
    reads: u64,
    writes: u64,
    errors: u64,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Host {
    fn served(&mut self) {
        let now = Instant::now();
        let gap = self.last.map_or(Duration::ZERO, |last| now - last);
        self.longest_gap = self.longest_gap.max(gap);
        self.last = Some(now);
    }
}

#[derive(Debug)]
struct Tally {
    phase: Phase,
    hosts: BTreeMap<String, Host>,
    /// Errors of the pool itself, by what they say: how often, and the first one in full.
    refused: BTreeMap<String, (u64, String)>,
    reads: Host,
    writes: Host,
    read_errors_while_away: u64,
    writes_after_return: u64,
}

/// The running load.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    tasks: Vec<JoinHandle<()>>,
    pool: Pool,
    table: &'static str,
}

impl Load {
    pub(crate) async fn start(
        pool: &Pool,
        table: &'static str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut lease = pool.get().await?;
        lease.query_drop(format!("DROP TABLE IF EXISTS {table}")).await?;
        let columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, task INT NOT NULL";
        lease.query_drop(format!("CREATE TABLE {table} ({columns})")).await?;
        drop(lease);
        let tally = Arc::new(Mutex::new(Tally {
            phase: Phase::Up,
            hosts: BTreeMap::new(),
            refused: BTreeMap::new(),
            reads: Host::default(),
            writes: Host::default(),
            read_errors_while_away: 0,
            writes_after_return: 0,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..TASKS)
            .map(|number| {
                let worker = Worker {
                    pool: pool.clone(),
                    table,
                    number,
                    tally: Arc::clone(&tally),
                    stop: Arc::clone(&stop),
                };
                tokio::spawn(worker.run())
            })
            .collect();
        Ok(Self { stop, tally, tasks, pool: pool.clone(), table })
    }

    pub(crate) fn enter(&self, phase: Phase) {
        lock(&self.tally).phase = phase;
    }

    /// One line of progress.
    pub(crate) fn line(&self) -> String {
        let tally = lock(&self.tally);
        let errors: u64 = tally.refused.values().map(|(count, _)| count).sum();
        let mut line = format!(
            "reads {} writes {} refused {errors}  |",
            tally.reads.reads, tally.writes.writes
        );
        for (name, host) in &tally.hosts {
            line += &format!("  {name}: {} r {} w {} err", host.reads, host.writes, host.errors);
        }
        line
    }

    pub(crate) async fn stop(self) -> Report {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            // A task that panicked has shown it already; the promises below will not hold.
            let _ = task.await;
        }
        if let Ok(mut lease) = self.pool.get().await {
            // Best effort: the next start drops it as well.
            let _ = lease.query_drop(format!("DROP TABLE IF EXISTS {}", self.table)).await;
        }
        let tally = lock(&self.tally);
        Report {
            hosts: tally.hosts.clone(),
            refused: tally.refused.clone(),
            reads: tally.reads.clone(),
            writes: tally.writes.clone(),
            read_errors_while_away: tally.read_errors_while_away,
            writes_after_return: tally.writes_after_return,
        }
    }
}

struct Worker {
    pool: Pool,
    table: &'static str,
    number: usize,
    tally: Arc<Mutex<Tally>>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    async fn run(self) {
        while !self.stop.load(Relaxed) {
            // One task in four writes, so that reads do not wait behind writes that wait for a source.
            if self.number.is_multiple_of(4) {
                self.write().await;
            } else {
                self.read().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read(&self) {
        let mut lease = match self.pool.get_read().await {
            Ok(lease) => lease,
            Err(error) => return self.refused("read", &error),
        };
        let sql = format!("SELECT COUNT(*) FROM {} WHERE task < {}", self.table, self.number);
        let result = lease.query_first::<i64, _>(sql).await;
        let name = lease.host().name().to_owned();
        let mut tally = lock(&self.tally);
        let host = tally.hosts.entry(name).or_default();
        if result.is_ok() {
            host.served();
            host.reads += 1;
            tally.reads.served();
            tally.reads.reads += 1;
        } else {
            host.errors += 1;
            // A statement in flight on the killed source fails, and nothing else does.
            if tally.phase == Phase::Away && !lease.is_writable() {
                tally.read_errors_while_away += 1;
            }
        }
    }

    async fn write(&self) {
        let mut lease = match self.pool.get().await {
            Ok(lease) => lease,
            Err(error) => return self.refused("write", &error),
        };
        let sql = format!("INSERT INTO {} (task) VALUES ({})", self.table, self.number);
        let result = lease.query_drop(sql).await;
        let name = lease.host().name().to_owned();
        let mut tally = lock(&self.tally);
        let host = tally.hosts.entry(name).or_default();
        if result.is_ok() {
            host.served();
            host.writes += 1;
            tally.writes.served();
            tally.writes.writes += 1;
            tally.writes_after_return += u64::from(tally.phase == Phase::Back);
        } else {
            host.errors += 1;
        }
    }

    fn refused(&self, what: &str, error: &pool_core::error::Error) {
        let mut tally = lock(&self.tally);
        if what == "read" && tally.phase == Phase::Away {
            tally.read_errors_while_away += 1;
        }
        let what = format!("{what}: {:?} while {:?}", error.kind(), error.phase());
        debug_assert_ne!(error.kind(), ErrorKind::Closed);
        tally.refused.entry(what).or_insert_with(|| (0, error.to_string())).0 += 1;
    }
}

/// What each host served.
pub(crate) struct Report {
    hosts: BTreeMap<String, Host>,
    refused: BTreeMap<String, (u64, String)>,
    reads: Host,
    writes: Host,
    read_errors_while_away: u64,
    writes_after_return: u64,
}

impl Report {
    /// The promises that were not kept.
    pub(crate) fn broken(&self, read_gap: Duration, killed: bool) -> Vec<String> {
        let mut broken = Vec::new();
        if self.reads.longest_gap > read_gap {
            broken.push(format!("no read for {:?}", self.reads.longest_gap));
        }
        if self.read_errors_while_away > 0 {
            broken.push(format!("{} reads failed on replicas", self.read_errors_while_away));
        }
        if killed && self.writes_after_return == 0 {
            broken.push("no write after the source returned".to_owned());
        }
        broken
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22} {:>8} {:>8} {:>7} {:>12}",
            "host", "reads", "writes", "errors", "longest gap"
        )?;
        let all = [("all reads".to_owned(), &self.reads), ("all writes".to_owned(), &self.writes)];
        let hosts = self.hosts.iter().map(|(name, host)| (name.clone(), host));
        for (name, host) in hosts.chain(all) {
            let gap = host.longest_gap.as_millis();
            let Host { reads, writes, errors, .. } = host;
            writeln!(f, "{name:<22} {reads:>8} {writes:>8} {errors:>7} {gap:>9} ms")?;
        }
        for (what, (count, first)) in &self.refused {
            writeln!(f, "{count} x {what}\n    first: {first}")?;
        }
        Ok(())
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
