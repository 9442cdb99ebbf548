//! Where each statement of a file goes, and why.
//!
//! Runs against the embedded cluster of a source and two replicas, or against real servers with `--url`. Each
//! line of the file is a statement of its own; without a file a built-in list is used. Statements that
//! would bind a session are explained, not run.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use mysql_async::prelude::Queryable;
use pool_mysql::MySqlOptions;
use pool_tests::mysql::Cluster;

const STATEMENTS: &str = "\
CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, stock INT)
REPLACE INTO items VALUES (1, 5)
SELECT stock FROM items WHERE id = 1
select stock from items -- a comment; with a semicolon
SELECT stock FROM items WHERE id = 1 FOR UPDATE
/*FORCE_MASTER*/ SELECT stock FROM items
/*FORCE_SLAVE*/ SELECT stock FROM items
SELECT '/*FORCE_MASTER*/' FROM items
WITH low AS (SELECT id FROM items WHERE stock < 9) SELECT id FROM low
SELECT GET_LOCK('x', 1)
SELECT LAST_INSERT_ID()
SET @a = 1
BEGIN
EXPLAIN SELECT stock FROM items";

#[derive(Parser)]
#[command(about = "Where each statement of a file goes, and why")]
struct Args {
    /// One statement a line; blank lines are left out.
    file: Option<PathBuf>,
    /// Real servers instead of the embedded cluster.
    #[arg(long)]
    url: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let text = match &args.file {
        Some(file) => std::fs::read_to_string(file)?,
        None => STATEMENTS.to_owned(),
    };
    // Kept alive to the end: dropping it stops the servers.
    let embedded = if args.url.is_none() { Some(Cluster::start(3).await?) } else { None };
    let url = match (&args.url, &embedded) {
        (Some(url), _) => url.clone(),
        (None, Some(cluster)) => cluster.url("app"),
        (None, None) => unreachable!("one of the two is there"),
    };
    let pool = MySqlOptions::from_url(&url)?.pool_builder()?.name("routing").build()?;
    for sql in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        println!("{sql}");
        let route = pool.route(sql);
        println!("    {}", pool.explain(sql));
        if let Some(pin) = route.pin {
            println!("    not run here: it binds a session ({})", pin.as_str());
            continue;
        }
        match pool.get_routed(&route).await {
            Ok(mut lease) => match lease.query_drop(&*route.sent).await {
                Ok(()) => println!("    ran on {}", lease.host()),
                Err(error) => println!("    failed on {}: {error}", lease.host()),
            },
            Err(error) => println!("    {error}"),
        }
    }
    Ok(())
}
