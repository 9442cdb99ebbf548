//! A kit to test how an application behaves when its database fails.
//!
//! - [`mssql`]: embedded servers that speak TDS, as a mirrored pair or an availability group.
//! - [`mysql`]: a cluster of embedded servers that speak the MySQL protocol, with a switch for
//!   every way a server can misbehave.
//! - [`proxy`]: a TCP proxy that delays, stalls, resets and counts, in front of any server.
//! - [`real`]: real servers, started for a test.
//! - [`scripted`]: a driver without a server, whose every answer a test decides.
//! - [`stalls`]: whether the machine stood still, so that a time says nothing.
//! - [`sql`]: the SQLite data set behind the embedded servers.

// The programs in the README of the workspace are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

pub mod mssql;
pub mod mysql;
pub mod proxy;
pub mod real;
pub mod scripted;
pub mod sql;
pub mod stalls;

mod alive;
mod background;
mod port;
mod roles;

pub use roles::roles_are_known;
