//! An embedded SQL Server for failover tests.
//!
//! It speaks TDS 7.4 over TCP on the loopback interface, inside the test's own process and runtime,
//! and runs statements on SQLite. Everything a failover needs can be switched while it runs: roles,
//! refusals, silence, resets, errors by number and class, redirects, damaged replies.
//!
//! - [`MssqlServer`]: one server, its [`Switches`] and [`Counts`].
//! - [`MirroredPair`]: a principal and a mirror.
//! - [`AvailabilityGroup`]: a primary, its secondaries, and a listener.
//! - [`RedirectChain`]: logins sent on a given number of times.
//! - [`BlackHole`]: an address that does not answer.
//!
//! Nothing here was compared with a real SQL Server; what is modelled comes from the protocol's
//! documentation and from what clients accept. Types of functions and system views are those of the
//! real server, so that a client which reads them wrongly fails here as well.
//!
//! ```
//! use pool_tests::mssql::MirroredPair;
//! use tiberius::{Client, Config};
//! use tokio_util::compat::TokioAsyncWriteCompatExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pair = MirroredPair::start().await?;
//! pair.failover().await;
//!
//! let config = Config::from_ado_string(&pair.b().ado_string())?;
//! let stream = tokio::net::TcpStream::connect(pair.b().address()).await?;
//! let mut client = Client::connect(config, stream.compat_write()).await?;
//! let row = client.query("SELECT @@SERVERNAME", &[]).await?.into_row().await?;
//! assert_eq!(row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned)), Some("SQL-B".into()));
//! assert_eq!(pair.b().counts().logins_accepted, 1);
//! # Ok(())
//! # }
//! ```

mod ado;
mod black_hole;
mod boundaries;
mod chain;
mod columns;
mod connection;
mod context;
mod conversation;
mod core;
mod counters;
mod data;
mod datetime;
mod dialect;
mod encode;
mod endpoint;
mod engine;
mod faults;
mod group;
mod lexer;
mod login;
mod login_reply;
mod packet;
mod pair;
mod parser;
mod prelogin;
mod program;
mod request;
mod rpc;
mod server;
mod session;
mod socket;
mod sql_error;
mod substitution;
mod switches;
mod system_views;
mod tables;
mod tls;
mod token;
mod transport;
mod value;
mod wire;

pub use ado::{AdoString, ClientEncryption};
pub use black_hole::BlackHole;
pub use chain::RedirectChain;
pub use counters::{Counts, WaitTimeout};
pub use data::DataSet;
pub use faults::{Fault, Malformed, Refusal, Role, Route, SecondaryAccess};
pub use group::AvailabilityGroup;
pub use login::LoginRecord;
pub use pair::{Failover, MirroredPair, Partner};
pub use prelogin::Encryption;
pub use server::{MssqlServer, ServerBuilder};
pub use socket::Close;
pub use sql_error::SqlError;
pub use switches::Switches;
