//! Availability groups: reads through the listener's routing or to replicas dialled directly.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use mssql_support::{options, request, soon};
use pool_core::access::Access;
use pool_core::driver::Driver;
use pool_core::host::Role;
use pool_mssql::{Lease, MsSqlOptions, Pool, ReadIntent};
use pool_tests::mssql::{AvailabilityGroup, MssqlServer, SecondaryAccess};

fn through_listener(group: &AvailabilityGroup) -> MsSqlOptions {
    options(&group.ado_string()).read_intent(ReadIntent::ForReads)
}

fn directly(group: &AvailabilityGroup) -> MsSqlOptions {
    let replicas = group.replicas();
    let at = |server: &MssqlServer| format!("{},{}", server.host(), server.port());
    let mut options = options(&replicas[0].ado_string()).read_intent(ReadIntent::ForReads);
    for replica in &replicas[1..] {
        options = options.replica(&at(replica)).unwrap();
    }
    options
}

fn pool(options: &MsSqlOptions) -> Pool {
    options.pool_builder().unwrap().build().unwrap()
}

async fn name(mut lease: Lease) -> String {
    let row = lease.simple_query("SELECT @@SERVERNAME").await.unwrap().into_row().await.unwrap();
    row.unwrap().get::<&str, _>(0).unwrap().to_owned()
}

/// Gets write leases until one is served by this server.
async fn writes_reach(pool: &Pool, server: &str) {
    let reached = async {
        loop {
            if let Ok(lease) = pool.get().await
                && name(lease).await == server
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(soon(), reached).await.unwrap();
}

#[tokio::test]
async fn a_listener_serves_writes_and_routes_reads() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let pool = pool(&through_listener(&group));
    assert_eq!(name(pool.get().await.unwrap()).await, "SQL-0");
    assert_ne!(name(pool.get_read().await.unwrap()).await, "SQL-0");
    group.failover_to(1).await.unwrap();
    writes_reach(&pool, "SQL-1").await;
}

#[tokio::test]
async fn reads_fall_back_to_the_primary_only_when_allowed() {
    for allowed in [true, false] {
        let group = AvailabilityGroup::start(2).await.unwrap();
        group.replicas()[1].switches().set_secondary_access(SecondaryAccess::No);
        let builder = through_listener(&group).pool_builder().unwrap();
        let builder = builder.read_fallback_primary(allowed);
        let pool = builder.acquire_timeout(std::time::Duration::from_secs(2)).build().unwrap();
        assert_eq!(name(pool.get().await.unwrap()).await, "SQL-0");
        match pool.get_read().await {
            Ok(lease) => {
                assert!(allowed);
                assert_eq!(name(lease).await, "SQL-0");
            }
            Err(error) => assert!(!allowed, "{error}"),
        }
    }
}

#[tokio::test]
async fn replicas_that_are_dialled_directly_are_read_and_promoted() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let pool = pool(&directly(&group));
    assert_eq!(name(pool.get().await.unwrap()).await, "SQL-0");
    assert_ne!(name(pool.get_read().await.unwrap()).await, "SQL-0");
    group.failover_to(2).await.unwrap();
    writes_reach(&pool, "SQL-2").await;
}

#[tokio::test]
async fn a_promoted_replica_is_seen_as_the_source_even_with_read_intent() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let options = directly(&group);
    let driver = options.driver().unwrap();
    let hosts = options.hosts();
    let mut conn = driver.connect(request(&hosts[1], Access::Read)).await.unwrap();
    assert_eq!(driver.probe(&mut conn).await.unwrap().role, Role::Replica);
    group.failover_to(1).await.unwrap();
    let mut conn = driver.connect(request(&hosts[1], Access::Read)).await.unwrap();
    assert_eq!((conn.redirects(), conn.server().port()), (0, Some(group.replicas()[1].port())));
    assert_eq!(driver.probe(&mut conn).await.unwrap().role, Role::Source);
}
