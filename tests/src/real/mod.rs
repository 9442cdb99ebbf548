//! Real servers for tests: MySQL in containers, MariaDB as child processes, on loopback ports that
//! stay the same over restarts.
//!
//! `tests/run` prepares the machine and says so in the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `POOL_TESTS_REAL` | `1`: real servers are wanted, so a test that cannot start one fails |
//! | `POOL_TESTS_MYSQL_IMAGE` | image for MySQL. Defaults to the one that `tests/run` made last on this machine, which carries a data directory and so starts faster, and without one to `mysql:8.4` |
//! | `POOL_TESTS_MARIADBD` | path of the MariaDB server. Defaults to `/usr/sbin/mariadbd` |
//!
//! Without `POOL_TESTS_REAL` a test skips, loudly. A test of real servers starts like this:
//!
//! ```no_run
//! use pool_tests::real::{self, MySqlCluster, Server};
//!
//! # async fn test() -> Result<(), real::Error> {
//! if !real::mysql_available() {
//!     return Ok(());
//! }
//! let _turn = real::exclusive().await;
//! let cluster = MySqlCluster::start(2).await?;
//! let url = cluster.url("test");
//! cluster.host(0).kill().await?;
//! // … what the pool does without its source …
//! cluster.host(0).start().await?;
//! cluster.host(0).wait_until_up(real::STARTUP).await?;
//! # let _ = url;
//! # Ok(())
//! # }
//! ```
//!
//! `cargo test` runs test binaries one after the other, but the tests of one binary together:
//! [`exclusive`] makes those that load the machine or measure time take turns. A cluster belongs
//! to the test that started it. Dropping it removes its containers, networks, processes and files,
//! also when the test panics; what a killed test process leaves behind is removed by the next
//! cluster that starts and by `tests/run`.

mod cluster;
mod docker;
mod env;
mod error;
mod mariadb;
mod mysql;
mod port;
mod process;
mod server;

pub use cluster::Cluster;
pub use env::{exclusive, mariadb_available, mysql_available, skip};
pub use error::Error;
pub use mariadb::{MariaDb, MariaDbHost};
pub use mysql::{MySqlCluster, MySqlHost};
pub use server::{ADMIN_PASSWORD, ADMIN_USER, PASSWORD, STARTUP, Server, USER};
