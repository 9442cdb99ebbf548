//! What one connection knows, shared by its session and by the SQL functions it calls.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::state::{HostState, Shared};
use crate::alive::Guard;
use crate::sql::{Interrupt, Value};

/// One connection's surroundings.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) cluster: Arc<Shared>,
    pub(super) host: usize,
    pub(super) id: u32,
    /// May write on a read-only host: the cluster's own hands.
    pub(super) privileged: bool,
    pub(super) interrupt: Arc<Interrupt>,
    pub(super) vars: Mutex<Vars>,
    /// SQL functions hold the context, so this lives as long as the connection to the data.
    pub(super) _alive: Guard,
}

/// What statements of this connection set and ask for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vars {
    pub(super) user: String,
    pub(super) database: Option<String>,
    pub(super) autocommit: bool,
    pub(super) read_only: bool,
    pub(super) isolation: String,
    pub(super) last_insert_id: u64,
    pub(super) row_count: i64,
    pub(super) found_rows: u64,
    pub(super) user_variables: HashMap<String, Value>,
    /// System variables set for the session.
    pub(super) session: HashMap<String, Value>,
}

impl Context {
    pub(super) fn host(&self) -> &HostState {
        &self.cluster.hosts[self.host]
    }

    /// The current database, for error texts.
    pub(super) fn database(&self) -> String {
        self.vars.lock().database.clone().unwrap_or_default()
    }
}

impl Vars {
    pub(super) fn new(user: String, database: Option<String>) -> Self {
        Self {
            user,
            database,
            autocommit: true,
            read_only: false,
            isolation: "REPEATABLE-READ".to_owned(),
            last_insert_id: 0,
            row_count: -1,
            found_rows: 0,
            user_variables: HashMap::new(),
            session: HashMap::new(),
        }
    }
}
