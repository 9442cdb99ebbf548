//! Waiting for the probes of a pool.

use std::time::Duration;

use pool_core::driver::Driver;
use pool_core::host::Role;
use pool_core::pool::Pool;

/// Longer than probes take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a probe has told the role of every host.
///
/// # Panics
///
/// After 30 seconds.
pub async fn roles_are_known<D: Driver>(pool: &Pool<D>) {
    let known = async {
        while pool.status().hosts.iter().any(|host| host.role == Role::Unknown) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("the roles are probed");
}
