#![doc = include_str!("../README.md")]

pub mod access;
#[cfg(feature = "runtime")]
pub mod admin;
pub mod balance;
#[cfg(feature = "runtime")]
pub mod builder;
#[cfg(feature = "runtime")]
mod clock;
#[cfg(feature = "runtime")]
mod cluster;
pub mod config;
#[cfg(feature = "runtime")]
pub mod discovery;
#[cfg(feature = "runtime")]
pub mod driver;
pub mod error;
pub mod event;
pub mod failover;
pub mod host;
#[cfg(any(feature = "bb8", feature = "deadpool"))]
pub mod interop;
pub mod lag;
#[cfg(feature = "runtime")]
pub mod lease;
#[cfg(feature = "runtime")]
mod monitor;
#[cfg(feature = "runtime")]
pub mod pool;
#[cfg(feature = "runtime")]
pub mod read;
pub mod retry;
pub mod route;
#[cfg(feature = "runtime")]
mod route_counts;
#[cfg(feature = "runtime")]
pub mod session;
pub mod slots;
#[cfg(feature = "runtime")]
pub mod statement;
pub mod status;
pub mod verdict;
#[cfg(feature = "runtime")]
mod walk;
pub mod weights;
