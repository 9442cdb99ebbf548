//! get+drop on an idle connection: ours against `bb8`, `deadpool`, `mobc` and `r2d2`.
//!
//! One process, one runtime, the same no-op connection, every pool of 10 connections with all checks on
//! checkout switched off where that is an option. The pools take turns, several rounds each; the table
//! shows the median round and its ratio to ours. Run it with
//! `cargo bench -p pool-tests --bench checkout`.

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pool_core::driver::{ConnectRequest, Driver, Lag, Liveness, Probe, Tidy};
use pool_core::host::{Host, Role};
use pool_core::pool::Pool;
use pool_core::verdict::Verdict;

const ROUNDS: usize = 9;
const GETS: usize = 64_000;
const SIZE: u32 = 10;

struct Noop;

impl Driver for Noop {
    type Conn = u64;
    type Error = Infallible;

    async fn connect(&self, _: ConnectRequest<'_>) -> Result<u64, Infallible> {
        Ok(7)
    }

    fn peek(&self, _: &mut u64) -> Liveness {
        Liveness::Clean
    }

    async fn tidy(&self, _: &mut u64, _: Tidy) -> Result<(), Infallible> {
        Ok(())
    }

    async fn probe(&self, _: &mut u64) -> Result<Probe, Infallible> {
        Ok(Probe::new(Role::Source, Lag::NotAsked))
    }

    fn verdict(&self, error: &Infallible) -> Verdict {
        match *error {}
    }
}

impl bb8::ManageConnection for Noop {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(7)
    }

    async fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

impl deadpool::managed::Manager for Noop {
    type Type = u64;
    type Error = Infallible;

    async fn create(&self) -> Result<u64, Infallible> {
        Ok(7)
    }

    async fn recycle(
        &self,
        _: &mut u64,
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Infallible> {
        Ok(())
    }
}

#[mobc::async_trait]
impl mobc::Manager for Noop {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(7)
    }

    async fn check(&self, conn: u64) -> Result<u64, Infallible> {
        Ok(conn)
    }
}

impl r2d2::ManageConnection for Noop {
    type Connection = u64;
    type Error = Infallible;

    fn connect(&self) -> Result<u64, Infallible> {
        Ok(7)
    }

    fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

/// Nanoseconds per get+drop, `tasks` tasks at once.
async fn round<F, Fut>(tasks: usize, once: F) -> f64
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let each = GETS / tasks;
    let started = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let once = once.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    once().await;
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("a bench task does not panic");
    }
    started.elapsed().as_nanos() as f64 / (each * tasks) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn compare() {
    let ours = Pool::builder(Noop)
        .host(Host::new("localhost", 1))
        .max_size(SIZE as usize)
        .build()
        .expect("the options are valid");
    let bb8 = bb8::Pool::builder().max_size(SIZE).test_on_check_out(false).build(Noop).await;
    let bb8 = bb8.expect("a no-op manager connects");
    let deadpool = deadpool::managed::Pool::<Noop>::builder(Noop).max_size(SIZE as usize).build();
    let deadpool = deadpool.expect("the options are valid");
    let mobc = mobc::Pool::builder().max_open(SIZE.into()).max_idle(SIZE.into());
    let mobc = mobc.test_on_check_out(false).build(Noop);
    let r2d2 = r2d2::Pool::builder().max_size(SIZE).test_on_check_out(false).build(Noop);
    let r2d2 = r2d2.expect("a no-op manager connects");

    println!("ns per get+drop, median of {ROUNDS} rounds of {GETS} (ratio to ours)");
    println!(
        "{:>6} {:>8} {:>16} {:>16} {:>16} {:>16}",
        "tasks", "ours", "bb8", "deadpool", "mobc", "r2d2"
    );
    for tasks in [1, 2, 64] {
        let mut times: [Vec<f64>; 5] = Default::default();
        for _ in 0..=ROUNDS {
            let pool = ours.clone();
            times[0].push(
                round(tasks, move || {
                    let pool = pool.clone();
                    async move { drop(black_box(pool.get().await.expect("an idle connection"))) }
                })
                .await,
            );
            let pool = bb8.clone();
            times[1].push(
                round(tasks, move || {
                    let pool = pool.clone();
                    async move { drop(black_box(pool.get().await.expect("an idle connection"))) }
                })
                .await,
            );
            let pool = deadpool.clone();
            times[2].push(
                round(tasks, move || {
                    let pool = pool.clone();
                    async move { drop(black_box(pool.get().await.expect("an idle connection"))) }
                })
                .await,
            );
            let pool = mobc.clone();
            times[3].push(
                round(tasks, move || {
                    let pool = pool.clone();
                    async move { drop(black_box(pool.get().await.expect("an idle connection"))) }
                })
                .await,
            );
            let pool = r2d2.clone();
            times[4].push(
                round(tasks, move || {
                    let pool = pool.clone();
                    async move { drop(black_box(pool.get().expect("an idle connection"))) }
                })
                .await,
            );
        }
        // The first round warms up.
        let [ours, rest @ ..] = times.map(|rounds| median(rounds[1..].to_vec()));
        let cells: Vec<_> = rest.iter().map(|t| format!("{t:.0} ({:.2}x)", t / ours)).collect();
        let fastest = rest.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{tasks:>6} {ours:>8.0} {:>16} {:>16} {:>16} {:>16}   ours / fastest peer = {:.2}",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            ours / fastest
        );
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let started = Instant::now();
    runtime.block_on(compare());
    runtime.shutdown_timeout(Duration::from_secs(1));
    println!("{:.1} s", started.elapsed().as_secs_f64());
}
