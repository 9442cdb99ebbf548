//! A pool keeps serving while the source dies and returns.
//!
//! Without options it needs no server: it starts an embedded cluster of a source and two replicas, opens
//! the pool by URL and lets 32 tasks read and write. After a few seconds the source is killed; reads go
//! on, writes wait for a source up to their deadline and then fail with an error that says so; the source
//! returns, and so do writes. The table at the end shows what each host served. The exit status is not
//! zero if a promise shown here was broken.

mod load;
mod servers;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pool_mysql::{MySqlOptions, Pool};

use load::{Load, Phase};
use servers::Servers;

/// When the source is killed, when it returns, and when the show ends.
const KILL: Duration = Duration::from_secs(4);
const RESTART: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(16);

/// The longest time that a read may have to wait while the source is away.
const READ_GAP: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(about = "A pool keeps serving while the source dies and returns")]
struct Args {
    /// Use these servers instead of the embedded ones. Nothing is killed there: do it by hand.
    #[arg(long, conflicts_with = "docker")]
    url: Option<String>,
    /// Use real MySQL servers in containers.
    #[arg(long)]
    docker: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match show(Args::parse()).await {
        Ok(broken) if broken.is_empty() => {
            println!("\nEvery promise was kept.");
            ExitCode::SUCCESS
        }
        Ok(broken) => {
            for promise in broken {
                println!("\nBROKEN: {promise}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn show(args: Args) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let servers = Servers::start(args.url, args.docker).await?;
    let pool = MySqlOptions::from_url(&servers.url())?
        .pool_builder()?
        .name("quickstart")
        .acquire_timeout(Duration::from_secs(2))
        .build()?;
    let load = Load::start(&pool, servers.table()).await?;
    println!("32 tasks read and write; {}", pool.status());

    let started = Instant::now();
    let mut events = pool.events();
    let mut killed = None;
    let mut back = None;
    while started.elapsed() < END {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if killed.is_none() && started.elapsed() >= KILL && servers.can_kill() {
            servers.kill_source().await?;
            load.enter(Phase::Away);
            killed = Some(Instant::now());
            println!("--- the source is killed");
        }
        if back.is_none() && started.elapsed() >= RESTART && servers.can_kill() {
            servers.restart_source().await?;
            load.enter(Phase::Back);
            back = Some(Instant::now());
            println!("--- the source is back");
        }
        while let Ok(event) = events.try_recv() {
            println!("    event: {event:?}");
        }
        println!("{:>3} s  {}", started.elapsed().as_secs(), load.line());
    }
    let report = load.stop().await;
    println!("\n{report}");
    let mut broken = report.broken(READ_GAP, killed.is_some());
    broken.extend(unwhole(&pool).await);
    println!("{}", pool.status());
    let settled = pool.close(Duration::from_secs(2)).await;
    if settled.abandoned > 0 {
        broken.push(format!("{} leases were never returned", settled.abandoned));
    }
    Ok(broken)
}

/// What is wrong with the pool after everything is up again.
async fn unwhole(pool: &Pool) -> Option<String> {
    let status = pool.status();
    let counts = status.total();
    if counts.in_use + counts.waiting > 0 {
        return Some(format!("the pool is not at rest: {status}"));
    }
    match pool.get().await {
        Ok(_) => None,
        Err(error) => Some(format!("no connection for writes at the end: {error}")),
    }
}
