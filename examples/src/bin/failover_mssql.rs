//! A mirrored pair under load, failed over by hand again and again, and a closing table.
//!
//! `cargo run -p pool-examples --bin failover_mssql`
//!
//! Every promise of the pool is checked while it runs; the program fails if one was broken:
//!
//! - one walk per failover, whatever the number of tasks that wait;
//! - after the first failure nothing dead and nothing of the old principal is handed out;
//! - no checkout fails: those that come during the failover wait for the new principal;
//! - every task is served by the new principal, within the limit of connections per server;
//! - in the end no connection is left open.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pool_core::event::Event;
use pool_mssql::{Conn, MsSqlOptions, Pool};
use pool_tests::mssql::{MirroredPair, MssqlServer, Partner};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;

const TASKS: usize = 64;
const LIMIT: u32 = 16;
const FAILOVERS: usize = 6;
/// Load between two failovers.
const CALM: Duration = Duration::from_secs(2);
/// A failover that takes longer than the login timeout is lost.
const PATIENCE: Duration = Duration::from_secs(15);
const NAMES: [&str; 2] = ["SQL-A", "SQL-B"];

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let pair = MirroredPair::start().await?;
    let options: MsSqlOptions = pair.ado_string().parse()?;
    let pool = options.max_pool_size(LIMIT).pool_builder()?.name("orders").build()?;
    let mut events = pool.events();
    let load = Arc::new(Load::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(work(task, pool.clone(), Arc::clone(&load)));
    }
    println!(
        "{TASKS} tasks, at most {LIMIT} connections per server; {FAILOVERS} manual failovers\n"
    );

    let mut rows = Vec::new();
    load.everyone_served(0).await;
    walks(&mut events);
    for turn in 1..=FAILOVERS {
        tokio::time::sleep(CALM).await;
        rows.push(fail_over(turn, &pair, &load, &mut events).await);
        println!("failover {turn}: {} serves", NAMES[turn % 2]);
    }
    tokio::time::sleep(CALM).await;
    load.stop.store(true, SeqCst);
    tasks.join_all().await;
    let status = pool.status();
    drop(pool);
    for server in [pair.a(), pair.b()] {
        if server.wait_for(PATIENCE, |counts| counts.open_connections == 0).await.is_err() {
            load.broken("a connection was left open");
        }
        if server.counts().peak_connections > u64::from(LIMIT) {
            load.broken("more connections than the limit");
        }
    }
    report(&rows, &load, &pair);
    println!("\n{status}");
    let broken = load.promises.lock();
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the tasks saw.
#[derive(Default)]
struct Load {
    /// The number of failovers so far; says who is the principal.
    turn: AtomicUsize,
    /// Whether a use failed in this turn.
    failed: AtomicBool,
    stop: AtomicBool,
    served: AtomicU64,
    failures: AtomicU64,
    slowest_checkout: AtomicU64,
    /// The last turn in which each task was served by the principal, plus one.
    seen: parking_lot::Mutex<Vec<usize>>,
    first_service: parking_lot::Mutex<Option<Instant>>,
    promises: parking_lot::Mutex<Vec<&'static str>>,
}

impl Load {
    fn broken(&self, promise: &'static str) {
        let mut promises = self.promises.lock();
        if !promises.contains(&promise) {
            promises.push(promise);
        }
    }

    /// A task was served in this turn.
    fn note(&self, task: usize, turn: usize) {
        self.served.fetch_add(1, SeqCst);
        let mut seen = self.seen.lock();
        seen.resize(TASKS, 0);
        if seen[task] <= turn {
            seen[task] = turn + 1;
            self.first_service.lock().get_or_insert_with(Instant::now);
        }
    }

    /// Waits until every task was served in this turn.
    async fn everyone_served(&self, turn: usize) {
        let started = Instant::now();
        let all = || self.seen.lock().iter().filter(|seen| **seen > turn).count() == TASKS;
        while !all() {
            if started.elapsed() > PATIENCE {
                self.broken("a task was not served by the new principal");
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn work(task: usize, pool: Pool, load: Arc<Load>) {
    while !load.stop.load(SeqCst) {
        // Read before the checkout begins: whatever it gets was handed out after that failure.
        let (turn, failed) = (load.turn.load(SeqCst), load.failed.load(SeqCst));
        let started = Instant::now();
        let mut lease = match pool.get().await {
            Ok(lease) => lease,
            Err(error) => {
                eprintln!("{error}");
                load.broken("a checkout failed");
                continue;
            }
        };
        let waited = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        load.slowest_checkout.fetch_max(waited, SeqCst);
        let result = server_name(&mut lease).await;
        let same_turn = load.turn.load(SeqCst) == turn;
        match result {
            Ok(name) if name == NAMES[turn % 2] => load.note(task, turn),
            // Served by the old principal, before it was gone or after the next failover began.
            Ok(_) if !failed || !same_turn => {}
            Ok(_) => load.broken("a connection to the old principal was handed out"),
            Err(_) => {
                load.failures.fetch_add(1, SeqCst);
                if failed && same_turn {
                    load.broken("a dead connection was handed out after the first failure");
                }
                if same_turn {
                    load.failed.store(true, SeqCst);
                }
            }
        }
    }
}

async fn server_name(conn: &mut Conn) -> Result<String, Box<dyn Error + Send + Sync>> {
    let row = conn.simple_query("SELECT @@SERVERNAME").await?.into_row().await?;
    let name = row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned));
    Ok(name.ok_or("no row")?)
}

/// One line of the table.
struct Row {
    turn: usize,
    first: Duration,
    all: Duration,
    failures: u64,
    walks: usize,
    refused: u64,
    slowest_checkout: Duration,
}

async fn fail_over(
    turn: usize,
    pair: &MirroredPair,
    load: &Load,
    events: &mut Receiver<Event>,
) -> Row {
    let old = pair.server(pair.principal());
    let logins = refused(old);
    let failures = load.failures.load(SeqCst);
    load.slowest_checkout.store(0, SeqCst);
    load.failed.store(false, SeqCst);
    *load.first_service.lock() = None;
    let started = Instant::now();
    load.turn.store(turn, SeqCst);
    pair.failover().await;
    load.everyone_served(turn).await;
    let all = started.elapsed();
    let first = load.first_service.lock().map_or(all, |at| at.duration_since(started));
    let walks = walks(events);
    if walks != 1 {
        load.broken("a failover took more than one walk");
    }
    Row {
        turn,
        first,
        all,
        failures: load.failures.load(SeqCst) - failures,
        walks,
        refused: refused(old) - logins,
        slowest_checkout: Duration::from_micros(load.slowest_checkout.load(SeqCst)),
    }
}

/// Logins that the server turned away.
fn refused(server: &MssqlServer) -> u64 {
    let counts = server.counts();
    counts.logins - counts.logins_accepted
}

/// Walks that ended since the last call.
fn walks(events: &mut Receiver<Event>) -> usize {
    let walk = |event: &Event| {
        matches!(
            event,
            Event::Failover { .. } | Event::ReturnedToSource { .. } | Event::WalkFailed { .. }
        )
    };
    let mut count = 0;
    loop {
        match events.try_recv() {
            Ok(event) => count += usize::from(walk(&event)),
            Err(tokio::sync::broadcast::error::TryRecvError::Lagged(_)) => {}
            Err(_) => return count,
        }
    }
}

fn report(rows: &[Row], load: &Load, pair: &MirroredPair) {
    println!(
        "\n {:>2}  {:<16} {:>13} {:>10} {:>17} {:>12} {:>6} {:>15}",
        "#",
        "failover",
        "first served",
        "all served",
        "slowest checkout",
        "failed uses",
        "walks",
        "logins refused"
    );
    for row in rows {
        let way = format!("{} -> {}", NAMES[(row.turn + 1) % 2], NAMES[row.turn % 2]);
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        println!(
            " {:>2}  {way:<16} {:>13} {:>10} {:>17} {:>12} {:>6} {:>15}",
            row.turn,
            ms(row.first),
            ms(row.all),
            ms(row.slowest_checkout),
            row.failures,
            row.walks,
            row.refused
        );
    }
    println!(
        "\n{} uses served, {} failed in flight",
        load.served.load(SeqCst),
        load.failures.load(SeqCst)
    );
    for partner in [Partner::A, Partner::B] {
        let (server, counts) = (pair.server(partner), pair.server(partner).counts());
        println!(
            "{}: {} logins, {} accepted, at most {} connections at once, {} open now",
            server.name(),
            counts.logins,
            counts.logins_accepted,
            counts.peak_connections,
            counts.open_connections
        );
    }
    let promises = load.promises.lock();
    match promises.as_slice() {
        [] => println!("every promise was kept"),
        broken => println!("BROKEN: {}", broken.join("; ")),
    }
}
