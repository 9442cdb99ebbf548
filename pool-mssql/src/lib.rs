#![doc = include_str!("../README.md")]

mod address;
mod ado;
mod answer;
#[cfg(feature = "sql-browser")]
mod browser;
mod classify;
mod conn;
mod dial;
mod driver;
mod error;
mod jdbc;
mod login;
mod options;
mod pair;
mod params;
mod partner;
mod peek;
mod policy;
mod pool;
mod queries;
mod role;
mod statements;
mod stream;
mod tidy;
mod track;

pub use pool_core::statement::Consistency;
pub use tiberius;

pub use crate::address::{Address, AddressError, DEFAULT_PORT};
pub use crate::answer::{Answer, BulkLoad, CommandStream, QueryStream};
pub use crate::classify::Phase;
pub use crate::conn::{Client, Conn, Stream};
pub use crate::driver::MsSql;
pub use crate::error::{Error, Stage};
pub use crate::options::{
    Encrypt, MsSqlOptions, OptionsError, PartnerSource, ReadIntent, ResetMode, RoleProbe,
};
pub use crate::pair::{PairStatus, Side};
pub use crate::pool::{Lease, Pool};
pub use crate::queries::Queries;
pub use crate::statements::{StatementError, Statements};
