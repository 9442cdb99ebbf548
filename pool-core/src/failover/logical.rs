//! The logical connection: one caller's session that may move between hosts, as a state machine.
//!
//! It does no I/O and reads no clock. Whoever drives it starts a [`Call`], performs each
//! [`Command`] and reports back until [`Command::Done`] (or [`Command::Close`]):
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use pool_core::failover::{Call, Command, Cycling, Logical, Outcome, Ran, Report};
//! use pool_core::host::HostId;
//!
//! let policy = Cycling::default();
//! let options = policy.session_options();
//! let hosts = [HostId::new(0), HostId::new(1)];
//! let mut session = Logical::new(Arc::new(policy), options, hosts);
//!
//! let now = Duration::ZERO; // any monotonic clock
//! let mut command = session.call(now, Call::Connect);
//! loop {
//!     command = match command {
//!         // Here: connect to the host, bring the session into `open.carry`, drop the old connection.
//!         Command::Open(open) => {
//!             assert_eq!(open.host, hosts[0]);
//!             session.report(now, Report::Opened(Outcome::Connected))
//!         }
//!         Command::Wait(_pause) => session.report(now, Report::Waited),
//!         // Here: run the job on the current connection.
//!         Command::Run(_job) => {
//!             session.report(now, Report::Ran(Ran::Done { in_transaction: false }))
//!         }
//!         // Here: close the connection.
//!         Command::Close => break,
//!         Command::Done(result) => {
//!             assert_eq!(result, Ok(()));
//!             break;
//!         }
//!         _ => break,
//!     };
//! }
//! assert_eq!(session.host(), Some(hosts[0]));
//! ```
//!
//! # Rules
//! (`connectorj-server-failover` and the reference beside it, sections 1 and 3 to 6)
//!
//! - A lost link starts a walk; the error that caused it is **always** returned, and nothing is run
//!   again.
//! - A switch inside a transaction refuses every statement until a rollback acknowledges it.
//! - On a secondary, statements and time are counted; when the return rule of the policy is met,
//!   the source is tried once inside the call that met it, at a transaction boundary only. A
//!   failure of that attempt is invisible and starts a whole interval anew.
//! - The access mode, autocommit, the database and the isolation level are carried to the new host,
//!   nothing else is.
//! - A call that was started while another was still under way means that the older one was
//!   dropped: whatever it did with the connection is unknown, so the link counts as lost.

mod api;
mod machine;
mod running;
mod state;
mod walking;

pub use self::api::{
    Call, Carry, Command, Failure, Isolation, Job, Open, Ran, Report, SessionOptions, Statement,
};
pub use self::machine::Logical;

#[cfg(test)]
mod tests;
