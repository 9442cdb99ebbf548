//! Embedded servers that speak the MySQL protocol, and a switch for every way they can fail.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pool_tests::mysql::Cluster;
//!
//! // A source and two replicas, each on a loopback port of its own.
//! let cluster = Cluster::start(3).await?;
//! cluster.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)").await?;
//! let url = cluster.url("app"); // mysql://app:secret@127.0.0.1:…,127.0.0.1:…,127.0.0.1:…/app
//!
//! // … open the application's pool with `url`, start its work, then:
//! cluster.host(0).stop().await; // connections end, new ones are refused
//! cluster.promote(1).await?; // a replica takes over
//! cluster.host(0).start().await?; // back on the same port, read-only now
//! cluster.host(2).hang(); // accepts, and never says a word
//! assert_eq!(cluster.host(1).counters().resets, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What the servers can do
//!
//! The protocol: login with `caching_sha2_password` or `mysql_native_password`, text and prepared
//! statements, several statements in one query, ping, reset, change of user, kill. Every answer
//! carries the status flags (in a transaction, read-only, autocommit) a real server would send.
//!
//! Statements are translated and run on SQLite ([`crate::sql`]): tables with the usual column types
//! and `AUTO_INCREMENT`, queries, changes of data, transactions with savepoints, read-only
//! transactions, user and system variables, named locks, GTIDs, `SHOW`. All databases share one set
//! of tables. Stored programs, character sets, time zones and `INTERVAL` are not there; what is not
//! understood is a syntax error (1064), never silently ignored.
//!
//! # Replication
//!
//! All hosts serve the same data, so a write is on every replica at once. A host with
//! [`Host::set_lag`] reads from a copy to which each write is applied that much later, GTIDs
//! included: stale reads are real. Each host numbers the writes it takes.
//!
//! # Transactions
//!
//! Isolation is real, as said in [`crate::sql`]: one write lock for all data instead of row locks, and
//! error 1205 for who waits too long. When a host stops being writable, what its clients have
//! written and not committed is undone at once, and they learn by error 1290 at their next write or
//! commit: the lock of a dead source would block the promoted one otherwise.

mod clock;
mod cluster;
mod connection;
mod context;
mod counters;
mod ddl;
mod dialect;
mod error;
mod functions;
mod gtid;
mod handshake;
mod host;
mod packet;
mod params;
mod reader;
mod session;
mod show;
mod state;
mod statement;
mod switches;
mod text;
mod variables;
mod wire;

pub use cluster::{Cluster, ClusterBuilder};
pub use counters::{Counters, LoggedStatement, Outcome};
pub use handshake::AuthPlugin;
pub use host::{Ending, Host};
pub use switches::Fault;
