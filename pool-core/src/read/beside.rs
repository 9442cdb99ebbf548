//! Leases beside the main connection that a session has.

use crate::driver::Driver;
use crate::error::{Error, ErrorKind};
use crate::host::{HostId, Role};
use crate::lease::Lease;
use crate::pool::Pool;
use crate::read::ReadWish;
use crate::slots::store::HostSlots;

impl<D: Driver> Pool<D> {
    /// A connection for a caller that has a main connection, to the host `main` if it is open; `None` if that
    /// one is to serve: for the source, and for the host that it is to.
    pub(crate) async fn get_beside(
        &self,
        mut wish: ReadWish,
        main: Option<HostId>,
    ) -> Result<Option<Lease<D>>, Error> {
        let cluster = self.cluster();
        let mut rules = wish.rules(&cluster.rules);
        let falls_back = rules.mode.serves_writes() && rules.read_fallback_primary;
        let picked = cluster.pick(&rules, &wish.tried);
        let is_replica = |slots: &HostSlots<D>| slots.health.role() == Role::Replica;
        if picked
            .as_ref()
            .is_some_and(|slots| slots.health.role() == Role::Source || Some(slots.id()) == main)
        {
            return Ok(None);
        }
        // If that host fails, the main connection can serve: neither the source nor a place that the caller
        // takes itself must be waited for here.
        let falls_back = falls_back
            || main.is_some_and(|main| {
                !wish.tried.contains(&main)
                    && cluster.host(main).is_some_and(|slots| is_replica(&slots))
            });
        wish.tried.extend(main);
        rules.only_replicas = true;
        rules.read_fallback_primary = false;
        if picked.is_none() && falls_back {
            return Ok(None);
        }
        match self.read_from(picked, rules, &wish.tried).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if falls_back && error.kind() == ErrorKind::NoHost => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A connection to the source for a caller whose main connection is to a replica; `None` if the main
    /// connection is to serve: it is to the source, or no source is known.
    pub(crate) async fn source_beside(
        &self,
        main: Option<HostId>,
    ) -> Result<Option<Lease<D>>, Error> {
        let cluster = self.cluster();
        let strayed = main
            .and_then(|main| cluster.host(main))
            .is_some_and(|slots| slots.health.role() == Role::Replica);
        match cluster.usable_writer() {
            Some(writer) if strayed && Some(writer.id()) != main => self.get().await.map(Some),
            _ => Ok(None),
        }
    }
}
