//! A few logical sessions live through the loss of their source and its return.
//!
//! ```text
//! cargo run -p pool-examples --bin failover_mysql              # embedded servers
//! cargo run -p pool-examples --bin failover_mysql -- --docker  # real MySQL in containers
//! ```
//!
//! Every promise it shows is checked: the exit status is 1 if one was broken.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pool_core::access::AccessMode;
use pool_core::failover::Failure;
use pool_mysql::{Failed, MySqlOptions, Pool, Session};
use pool_tests::mysql::Cluster;
use pool_tests::real::{MySqlCluster, STARTUP, Server};
use tokio::time::{Instant, sleep, timeout};

type Fallible<T> = Result<T, Box<dyn Error>>;

const SESSIONS: usize = 4;
const LIMIT: Duration = Duration::from_secs(28);

#[derive(Parser)]
#[command(about = "Shows logical sessions through the loss and return of their source")]
struct Arguments {
    /// Use real MySQL servers in containers: a source and two secondaries
    #[arg(long)]
    docker: bool,
}

/// The servers under the sessions.
enum Servers {
    Embedded(Cluster),
    Real(MySqlCluster),
}

impl Servers {
    async fn start(docker: bool) -> Fallible<Self> {
        Ok(if docker {
            Self::Real(MySqlCluster::start(2).await?)
        } else {
            Self::Embedded(Cluster::start(3).await?)
        })
    }

    fn url(&self) -> String {
        match self {
            Self::Embedded(cluster) => cluster.url("test"),
            Self::Real(cluster) => cluster.url("test"),
        }
    }

    fn ports(&self) -> Vec<u16> {
        match self {
            Self::Embedded(cluster) => cluster.hosts().map(|host| host.port()).collect(),
            Self::Real(cluster) => cluster.hosts().iter().map(Server::port).collect(),
        }
    }

    async fn kill_source(&self) -> Fallible<()> {
        match self {
            Self::Embedded(cluster) => cluster.host(0).stop().await,
            Self::Real(cluster) => cluster.host(0).kill().await?,
        }
        Ok(())
    }

    async fn start_source(&self) -> Fallible<()> {
        match self {
            Self::Embedded(cluster) => cluster.host(0).start().await?,
            Self::Real(cluster) => {
                cluster.host(0).start().await?;
                cluster.host(0).wait_until_up(STARTUP).await?;
            }
        }
        Ok(())
    }

    async fn settled(&self) -> Fallible<()> {
        if let Self::Real(cluster) = self {
            cluster.replication_caught_up().await?;
        }
        Ok(())
    }
}

/// The promises and whether they were kept.
#[derive(Default)]
struct Promises(Vec<(&'static str, String, bool)>);

impl Promises {
    fn check(&mut self, promise: &'static str, seen: impl Into<String>, kept: bool) {
        let seen = seen.into();
        println!("      {} {promise}: {seen}", if kept { "ok    " } else { "BROKEN" });
        self.0.push((promise, seen, kept));
    }

    fn table(&self) -> bool {
        let wide = self.0.iter().map(|(promise, ..)| promise.len()).max().unwrap_or(0);
        println!("\n{:wide$}  kept  seen", "promise");
        for (promise, seen, kept) in &self.0 {
            println!("{promise:wide$}  {:4}  {seen}", if *kept { "yes" } else { "NO" });
        }
        self.0.iter().all(|(.., kept)| *kept)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let servers = match Servers::start(arguments.docker).await {
        Ok(servers) => servers,
        Err(error) => {
            eprintln!("the servers do not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match timeout(LIMIT, story(&servers)).await {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("not over within {LIMIT:?}");
            ExitCode::FAILURE
        }
    }
}

async fn story(servers: &Servers) -> Fallible<bool> {
    let mut promises = Promises::default();
    let began = Instant::now();
    let url = format!(
        "{}?secondsBeforeRetrySource=2&connectTimeout=1000&socketTimeout=3000",
        servers.url()
    );
    let options = MySqlOptions::from_url(&url)?;
    let pool = options.connect_later().await?;
    let open =
        |pool: &Pool| -> Fallible<Session> { Ok(Session::new(pool, options.session_options()?)) };
    let ports = servers.ports();
    let names = |session: &Session| place(session, &ports);

    say(began, "sessions connect; the first host of the list is the source");
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = open(&pool)?;
        session.connect().await?;
        sessions.push(session);
    }
    sessions[0].query_drop("CREATE TABLE accounts (id INT PRIMARY KEY, cents INT)").await?;
    sessions[0].query_drop("INSERT INTO accounts VALUES (1, 100), (2, 0)").await?;
    servers.settled().await?;
    let all_there = sessions.iter().all(|session| names(session) == "source, rw");
    promises.check("sessions start on the source", names(&sessions[0]), all_there);

    say(began, "session 0 begins to move 40 cents, and the source dies");
    sessions[0].begin().await?;
    sessions[0].query_drop("UPDATE accounts SET cents = cents - 40 WHERE id = 1").await?;
    servers.kill_source().await?;

    let lost = failure(
        sessions[0].query_drop("UPDATE accounts SET cents = cents + 40 WHERE id = 2").await,
    );
    promises.check(
        "a transaction is lost loudly",
        text(lost),
        lost == Some(Failure::TransactionLost),
    );
    let refused = failure(sessions[0].query_drop("SELECT 1").await);
    promises.check(
        "nothing runs until that is acknowledged",
        text(refused),
        refused == Some(Failure::TransactionLost),
    );
    sessions[0].rollback().await?;
    let sum: Option<i64> =
        sessions[0].query_first("SELECT CAST(SUM(cents) AS SIGNED) FROM accounts").await?;
    promises.check(
        "after the rollback it reads on a secondary",
        format!("{} cents in all, on {}", sum.unwrap_or(-1), names(&sessions[0])),
        sum == Some(100) && names(&sessions[0]) == "secondary 1, ro",
    );

    say(began, "the other sessions notice with their next statement");
    let mut kinds = Vec::new();
    let started = Instant::now();
    for session in &mut sessions[1..] {
        kinds.push(failure(session.query_drop("SELECT cents FROM accounts").await));
        session.query_drop("SELECT cents FROM accounts").await?;
    }
    let took = started.elapsed();
    promises.check(
        "the error that caused a switch is returned",
        kinds.iter().map(|kind| text(*kind)).collect::<Vec<_>>().join(", "),
        kinds.iter().all(|kind| matches!(kind, Some(Failure::OutcomeUnknown | Failure::Switched))),
    );
    promises.check(
        "the next statement works",
        format!("{} sessions moved in {took:.1?}", SESSIONS - 1),
        sessions.iter().all(|session| names(session) == "secondary 1, ro"),
    );

    say(began, "a secondary is read-only");
    let write = sessions[1].query_drop("UPDATE accounts SET cents = 0 WHERE id = 1").await;
    let retry = write.as_ref().err().is_some_and(Failed::safe_to_retry);
    let write = failure(write);
    promises.check(
        "a write is refused with a type",
        text(write),
        write == Some(Failure::NotWritable) && retry,
    );
    sessions[1].set_read_only(false).await?;
    promises.check(
        "a wish for read/write is kept for the source",
        names(&sessions[1]),
        sessions[1].state().mode() == Some(AccessMode::ReadOnly)
            && sessions[1].state().asked_mode() == Some(AccessMode::ReadWrite),
    );

    say(began, "the source is back; sessions return between two statements");
    servers.start_source().await?;
    let back = Instant::now();
    let mut errors = 0;
    while !sessions.iter().all(|session| names(session) == "source, rw") {
        if back.elapsed() > Duration::from_secs(8) {
            break;
        }
        for session in &mut sessions {
            errors += usize::from(session.query_drop("SELECT cents FROM accounts").await.is_err());
        }
        sleep(Duration::from_millis(50)).await;
    }
    let took = back.elapsed();
    promises.check(
        "all are back in secondsBeforeRetrySource + 2 s",
        format!("{took:.1?}, {errors} errors"),
        took <= Duration::from_secs(4) && errors == 0,
    );
    sessions[0].begin().await?;
    sessions[0].query_drop("UPDATE accounts SET cents = cents - 40 WHERE id = 1").await?;
    sessions[0].query_drop("UPDATE accounts SET cents = cents + 40 WHERE id = 2").await?;
    sessions[0].commit().await?;
    let cents: Vec<i64> = sessions[2].query("SELECT cents FROM accounts ORDER BY id").await?;
    promises.check("the work can be done again", format!("{cents:?}"), cents == [60, 40]);

    say(began, "the end");
    Ok(promises.table())
}

fn say(began: Instant, what: &str) {
    println!("{:5.1} s  {what}", began.elapsed().as_secs_f64());
}

fn failure(outcome: Result<(), Failed>) -> Option<Failure> {
    outcome.err().map(|error| {
        println!("      {error}");
        error.failure
    })
}

fn text(failure: Option<Failure>) -> String {
    failure.map_or("no error".to_owned(), |failure| failure.as_str().to_owned())
}

/// `source, rw` or `secondary 1, ro`.
fn place(session: &Session, ports: &[u16]) -> String {
    let port = session.host().map(|host| host.port());
    let at = ports.iter().position(|known| Some(*known) == port);
    let mode = session.state().mode().map_or("no mode", AccessMode::as_str);
    match at {
        Some(0) => format!("source, {mode}"),
        Some(at) => format!("secondary {at}, {mode}"),
        None => "no host".to_owned(),
    }
}
