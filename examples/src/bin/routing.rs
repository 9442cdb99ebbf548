//! Where each statement of a file goes, and why.
//!
//! Runs the statements of one session against the embedded cluster of a source and two replicas, or against
//! real servers with `--url` (their roles named, as in `mysql:replication://source,replica/db`). Each line of
//! the file is a statement of its own; without a file a built-in list is used.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use pool_mysql::{MySqlOptions, Session};
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
EXPLAIN SELECT stock FROM items
SELECT LAST_INSERT_ID()
SELECT stock FROM items
SELECT FOUND_ROWS()
BEGIN
SELECT stock FROM items WHERE id = 1
/*FORCE_SLAVE*/ SELECT stock FROM items
UPDATE items SET stock = stock - 1 WHERE id = 1
COMMIT
SELECT stock FROM items WHERE id = 1
START TRANSACTION READ ONLY
SELECT stock FROM items WHERE id = 1
COMMIT
DO GET_LOCK('stock', 1)
SELECT stock FROM items WHERE id = 1
DO RELEASE_LOCK('stock')
/*FORCE_MASTER*/ SET @a = 1
KILL 5
SET @a = 1
SELECT stock + @a FROM items";

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
        (None, Some(cluster)) => cluster.url("app").replace("mysql://", "mysql:replication://"),
        (None, None) => unreachable!("one of the two is there"),
    };
    let options = MySqlOptions::from_url(&url)?;
    let pool = options.pool_builder()?.name("routing").build()?;
    // From the first connect on the pool knows who takes writes, which explanations name.
    drop(pool.get().await?);
    let mut session = Session::new(&pool, options.session_options()?);
    for sql in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        println!("{sql}");
        println!("    {}", session.explain(sql));
        match session.query_drop(sql).await {
            Ok(()) => match session.served_by() {
                Some(host) => println!("    ran on {host}"),
                None => println!("    ran"),
            },
            Err(error) => println!("    {error}"),
        }
        let pins: Vec<String> = session.pins().iter().map(|pin| pin.to_string()).collect();
        if !pins.is_empty() {
            println!("    what follows stays there: {}", pins.join(", "));
        }
    }
    Ok(())
}
