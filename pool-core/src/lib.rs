#![doc = include_str!("../README.md")]

pub mod access;
pub mod balance;
#[cfg(feature = "runtime")]
pub mod driver;
pub mod failover;
pub mod host;
pub mod route;
pub mod verdict;
