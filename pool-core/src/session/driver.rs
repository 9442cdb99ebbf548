//! What a driver must be able to do for sessions.

use std::future::Future;

use crate::failover::{Carry, Job};
use crate::statement::TokenDriver;
use crate::verdict::Verdict;

/// What a driver must be able to do for sessions.
pub trait SessionDriver: TokenDriver {
    /// Brings a connection into the state that a session carries with it, sending only what differs.
    fn carry(
        &self,
        conn: &mut Self::Conn,
        carry: &Carry,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Does a job of the session other than [`Job::Statement`].
    fn perform(
        &self,
        conn: &mut Self::Conn,
        job: &Job,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether the server says that a transaction is open; `None` if that is not known.
    fn in_transaction(&self, conn: &Self::Conn) -> Option<bool>;

    /// Whether autocommit is on as far as the server said; `None` if that is not known.
    fn autocommit(&self, conn: &Self::Conn) -> Option<bool>;

    /// Judges an error of a statement or job of a session. Defaults to [`Driver::verdict`](crate::driver::Driver::verdict).
    fn judge(&self, conn: &Self::Conn, error: &Self::Error) -> Verdict {
        let _ = conn;
        self.verdict(error)
    }
}
