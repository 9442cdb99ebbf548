//! The data set behind the embedded servers: one SQLite file that every server of a cluster
//! shares, which stands for replication without delay.
//!
//! - [`Store`] is the file, its single write lock and its [`Replication`] log. Dropping it removes
//!   the file.
//! - [`Session`] is one client's view: its own transaction, run on blocking threads.
//! - [`Interrupt`] stops whatever a session is doing from outside.
//! - [`lexer`] cuts MySQL and T-SQL text into tokens, for the translators of the fakes.
//!
//! # What is real and what is not
//!
//! Isolation is real: nobody sees uncommitted rows, and a rollback undoes everything. Writers
//! exclude each other by *one* lock for the whole data set, taken by the first write of a
//! transaction and held to its end, where a real server locks rows; who waits too long gets
//! [`SqlError::LockTimeout`]. Deadlocks cannot occur.
//!
//! A server told to lag reads from a private copy of the data, to which committed rows are applied
//! late: see [`Replication`].

pub mod lexer;

mod error;
mod inner;
mod interrupt;
mod replication;
mod session;
mod store;

pub use error::SqlError;
pub use interrupt::Interrupt;
pub use replication::{Delay, Replication};
pub use rusqlite::types::Value;
pub use session::{Answer, Column, Session, Snapshot};
pub use store::Store;
