//! Routed statements: leases by statement, statements of one caller, and every decision explained.

mod caller;
mod error;
mod explain;
mod statements;

use std::sync::Arc;

use crate::driver::Driver;
use crate::error::Error;
use crate::host::Role;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::read::ReadWish;
use crate::route::{Route, SessionState, Target};
use crate::slots::store::HostSlots;

pub(crate) use self::caller::{Caller, Has};
pub use self::caller::{Consistency, TokenDriver, Work};
pub use self::error::StatementError;
pub use self::explain::Explanation;
pub use self::statements::Statements;

impl<D: Driver> Pool<D> {
    /// Routes a statement that stands for itself: not sent, nothing leased.
    ///
    /// [`Route::sent`] is the text for the server, without its hint.
    #[must_use]
    pub fn route<'s>(&'s self, sql: &'s str) -> Route<'s> {
        self.router().route(sql, &SessionState::new())
    }

    /// Leases a connection for `sql`, as its hint or its kind says: a read by [`Pool::get_read`], a named host
    /// by [`Pool::get_host`], everything else by [`Pool::get`].
    ///
    /// The lease is one connection: what follows on it stays there. Text from users at the start of a
    /// statement can carry a hint; switch hints off in the router where that matters.
    ///
    /// Cancellation safety: as [`Pool::get`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused) for a hint where none is allowed, or one
    /// to a host that is unknown, drained or of weight 0; otherwise as the method it uses.
    pub async fn get_for(&self, sql: &str) -> Result<Lease<D>, Error> {
        self.get_routed(&self.route(sql)).await
    }

    /// As [`Pool::get_for`], for a statement that was routed already.
    ///
    /// # Errors
    ///
    /// As [`Pool::get_for`].
    pub async fn get_routed(&self, route: &Route<'_>) -> Result<Lease<D>, Error> {
        self.route_counts().count(route);
        self.lease_for(route).await
    }

    /// As [`Pool::get_routed`], for a route that is counted already.
    pub(crate) async fn lease_for(&self, route: &Route<'_>) -> Result<Lease<D>, Error> {
        match route.target {
            Target::Replica => self.get_read_as(&ReadWish::of(route)).await,
            Target::Host(name) => {
                self.hinted(name)?;
                self.get_host(name).await
            }
            Target::Refused(refusal) => Err(self.refused(refusal.to_string())),
            Target::Source | Target::Held => self.get().await,
        }
    }

    /// The host that a hint names, if hints may name it.
    pub(crate) fn hinted(&self, name: &str) -> Result<Arc<HostSlots<D>>, Error> {
        let slots = self.member(name)?;
        if slots.health.is_draining() {
            return Err(self.refused(format!("host {name:?} is drained")));
        }
        if slots.health.is_delayed() {
            return Err(self.refused(format!("host {name:?} is kept behind on purpose")));
        }
        if slots.health.weight() == 0 {
            return Err(self.refused(format!("host {name:?} has weight 0")));
        }
        let mode = self.cluster().rules.mode;
        if !mode.serves_writes() && slots.health.role() != Role::Replica {
            let detail = format!("host {name:?} is not a replica, the endpoint is read-only");
            return Err(self.refused(detail));
        }
        Ok(slots)
    }
}
