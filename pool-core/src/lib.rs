#![doc = include_str!("../README.md")]

pub mod access;
pub mod balance;
#[cfg(feature = "runtime")]
mod clock;
pub mod config;
#[cfg(feature = "runtime")]
pub mod driver;
pub mod error;
pub mod event;
pub mod failover;
pub mod host;
pub mod lag;
pub mod route;
pub mod slots;
pub mod status;
pub mod verdict;
