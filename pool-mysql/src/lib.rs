#![doc = include_str!("../README.md")]

mod cancel;
mod classify;
mod conn;
mod driver;
mod group;
mod hosts;
mod keys;
mod options;
mod peek;
mod pool;
mod queries;
mod queryable;
mod replicas;
mod role;
mod secret;
mod session;
mod sniff;
#[cfg(feature = "srv")]
pub mod srv;
mod statements;
mod tidy;
mod tls;
mod token;
mod transaction;
mod units;
mod url;
mod watch;

pub use mysql_async;
pub use pool_core::statement::Consistency;

pub use cancel::CancelHandle;
pub use classify::{classify, is_not_writable};
pub use conn::Conn;
pub use driver::{DEFAULT_MAX_ALLOWED_PACKET, DEFAULT_UPKEEP_TIMEOUT, MySql, ReadOnlySessions};
pub use group::GroupMembers;
pub use options::MySqlOptions;
pub use pool::{Lease, OpenError, Pool};
pub use queries::Queries;
pub use replicas::Replicas;
pub use role::{LagSource, RoleCheck};
pub use session::{Failed, Prepared, Session};
pub use statements::{Done, StatementError, Statements};
pub use tidy::ResetMode;
pub use tls::TlsMode;
pub use token::Token;
pub use transaction::Transaction;
