//! What the tests of the SQL Server driver share.

#![allow(dead_code, clippy::unwrap_used)]

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Report, Reporter};
use pool_core::host::Host;
use pool_core::verdict::Verdict;
use pool_mssql::MsSqlOptions;
use tokio::time::Instant;

/// Options from a connection string of the embedded server.
pub(crate) fn options(text: &str) -> MsSqlOptions {
    MsSqlOptions::from_ado(text).unwrap()
}

/// A request to connect with a generous deadline.
pub(crate) fn request(host: &Host, access: Access) -> ConnectRequest<'_> {
    ConnectRequest { host, access, deadline: Instant::now() + soon(), reporter: Reporter::none() }
}

/// Generous: only a failing test waits this long.
pub(crate) fn soon() -> Duration {
    Duration::from_secs(10)
}

/// Keeps what a connection reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<Verdict>>>);

impl Reports {
    pub(crate) fn reporter(&self) -> Reporter {
        Reporter::new(Arc::new(self.clone()))
    }

    pub(crate) fn take(&self) -> Vec<Verdict> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Report for Reports {
    fn report(&self, verdict: Verdict, _: &dyn fmt::Display) {
        self.0.lock().unwrap().push(verdict);
    }
}
