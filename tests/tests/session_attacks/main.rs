//! Attacks on sessions that route their statements: whatever is done to one, in whatever order, nothing
//! reaches a host that it must not reach, and nothing is left behind for the next user of a connection.
#![allow(clippy::unwrap_used)]

mod bench;
mod binding;
mod cancel;
mod chaos;
mod faults;
mod hints;
mod limits;
mod model;
mod tokens;
