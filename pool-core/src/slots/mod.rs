//! One bounded store of connections per host.
//!
//! [`state`] decides (pure, told the time), `store` puts it behind one short lock and hands over,
//! `upkeep` spawns what takes I/O: connects, keepalives, tidying, closing.

pub mod state;

#[cfg(feature = "runtime")]
pub(crate) mod caught;
#[cfg(feature = "runtime")]
pub(crate) mod health;
#[cfg(feature = "runtime")]
pub(crate) mod meter;
#[cfg(feature = "runtime")]
pub(crate) mod reserved;
#[cfg(feature = "runtime")]
mod roster;
#[cfg(feature = "runtime")]
pub(crate) mod store;
#[cfg(feature = "runtime")]
mod upkeep;
