//! Interop with `bb8` and `deadpool`, both ways.
//!
//! *Out*: [`FailoverManager`] lets an application keep its `bb8::Pool` or `deadpool::managed::Pool` and gain
//! the failover walk. *In*: [`bb8::Bb8Driver`] and [`deadpool::DeadpoolDriver`] make a [`Driver`] of any
//! manager of those pools, so that its database gets failover and balancing here.
//!
//! [`Driver`]: crate::driver::Driver

#[cfg(feature = "bb8")]
pub mod bb8;
#[cfg(feature = "deadpool")]
pub mod deadpool;
mod foreign;
mod managed;
mod manager;

pub use self::foreign::{Asking, Foreign, ForeignError};
pub use self::managed::Managed;
pub use self::manager::FailoverManager;
