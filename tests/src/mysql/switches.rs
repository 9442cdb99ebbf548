//! How a host behaves, changeable at run time.

use std::time::{Duration, Instant};

use super::error::MySqlError;

/// What a host does with a connection it has accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Accept {
    /// Ends it in the orderly way.
    Close,
    /// Keeps it open and silent.
    Hang,
    /// Resets it.
    Reset,
    /// Greets.
    #[default]
    Serve,
}

/// All switches of one host.
#[derive(Debug, Clone)]
pub(super) struct Switches {
    pub(super) accept: Accept,
    pub(super) stopped: bool,
    /// Established connections neither read nor answer.
    pub(super) frozen: bool,
    pub(super) connect_delay: Duration,
    pub(super) statement_delay: Duration,
    pub(super) read_only: bool,
    pub(super) super_read_only: bool,
    /// What the host says about `read_only`, when that is not the truth.
    pub(super) claims_read_only: Option<bool>,
    pub(super) reject_logins: bool,
    pub(super) unknown_database: bool,
    pub(super) max_connections: Option<usize>,
    pub(super) group_state: &'static str,
    /// The members of the group and their states, as this host sees them, when that is not the truth.
    pub(super) group_view: Option<Vec<(usize, &'static str)>>,
    /// The configured delay of replication, as it is reported.
    pub(super) source_delay: Duration,
    /// When the process began.
    pub(super) started: Instant,
}

impl Switches {
    pub(super) fn new(read_only: bool) -> Self {
        Self {
            accept: Accept::Serve,
            stopped: false,
            frozen: false,
            connect_delay: Duration::ZERO,
            statement_delay: Duration::ZERO,
            read_only,
            super_read_only: false,
            claims_read_only: None,
            reject_logins: false,
            unknown_database: false,
            max_connections: None,
            group_state: "ONLINE",
            group_view: None,
            source_delay: Duration::ZERO,
            started: Instant::now(),
        }
    }

    pub(super) fn says_read_only(&self) -> bool {
        self.claims_read_only.unwrap_or(self.read_only || self.super_read_only)
    }

    pub(super) fn says_super_read_only(&self) -> bool {
        self.claims_read_only.map_or(self.super_read_only, |claims| claims && self.super_read_only)
    }

    /// Fails when no client may write here.
    pub(super) fn check_writable(&self) -> Result<(), MySqlError> {
        if self.super_read_only {
            return Err(MySqlError::server_read_only("--super-read-only"));
        }
        if self.read_only {
            return Err(MySqlError::server_read_only("--read-only"));
        }
        Ok(())
    }
}

/// What happens to chosen statements instead of, or besides, running them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The statement runs, then the connection is reset without an answer: the client cannot know
    /// the outcome.
    DropAfter,
    /// The connection is reset and the statement does not run.
    DropBefore,
    /// The statement does not run; this error is returned.
    Error {
        /// MySQL's error number.
        code: u16,
        /// The text.
        message: String,
    },
    /// The statement does not run, and the connection stays open and silent.
    Hang,
}

/// A fault waiting for its statements.
#[derive(Debug, Clone)]
pub(super) struct Injection {
    pub(super) remaining: u64,
    /// Only statements that contain this text, in any case.
    pub(super) containing: Option<String>,
    pub(super) fault: Fault,
}

/// Takes the first waiting fault that applies to a statement.
pub(super) fn take_fault(waiting: &mut Vec<Injection>, statement: &str) -> Option<Fault> {
    let at = waiting.iter().position(|injection| {
        injection
            .containing
            .as_ref()
            .is_none_or(|text| statement.to_ascii_lowercase().contains(&text.to_ascii_lowercase()))
    })?;
    let injection = &mut waiting[at];
    let fault = injection.fault.clone();
    injection.remaining = injection.remaining.saturating_sub(1);
    if injection.remaining == 0 {
        waiting.remove(at);
    }
    Some(fault)
}
