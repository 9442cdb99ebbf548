//! Transactions that nobody ends.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, IsolationLevel, TxOpts};
use pool_mysql::{Lease, Pool};
use pool_tests::stalls::Stalls;
use tokio::time::{Instant, timeout};

use super::site::Site;
use super::{builder, direct, ms, prepare, soon, spread};

/// How long the row locks of an abandoned transaction may last.
const LIMIT: Duration = Duration::from_millis(100);
const ROUNDS: usize = 20;
/// The machine is too busy to measure with if a thread of this process wakes up so late, or if a row that
/// nobody holds takes so long to update at the same time (a disk that is slow to sync): what is promised
/// takes several such steps, here and in the server. Such a round does not count.
const BUSY: Duration = Duration::from_millis(10);
const UPDATE: &str = "UPDATE held SET n = n + 1 WHERE id = 1";
const UPDATE_FREE: &str = "UPDATE held SET n = n + 1 WHERE id = 2";
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// How a caller walks away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The lease goes, after a `BEGIN` sent as text.
    Lease,
    /// The transaction goes, then the lease.
    Transaction,
    /// The future of a statement goes while the server works on it, then the rest.
    Statement,
}

/// Others get the row within 100 ms, and the next lease of the very same place starts clean.
pub async fn an_abandoned_transaction_frees_its_locks_at_once(site: &impl Site) {
    set_up(site).await;
    let pool = builder(site).max_size(1).build().unwrap();
    let mut rival = direct(site, 0).await;
    let mut control = direct(site, 0).await;
    let fresh: String = rival.query_first(site.session_facts()).await.unwrap().unwrap();
    let stalls = Stalls::watch();
    for way in [Way::Lease, Way::Transaction, Way::Statement] {
        let (mut times, mut uncounted) = (Vec::new(), Vec::new());
        while times.len() < ROUNDS {
            let mut lease = soon("a lease", pool.get()).await.unwrap();
            if times.is_empty() && uncounted.is_empty() {
                hold(&mut lease, Way::Lease).await;
                rival.query_drop("SET innodb_lock_wait_timeout = 1").await.unwrap();
                let refused = soon("a refusal", rival.query_drop(UPDATE)).await.unwrap_err();
                let waited = matches!(&refused, Error::Server(e) if e.code == LOCK_WAIT_TIMEOUT);
                assert!(waited, "the row is not locked: {refused}");
                rival.query_drop("SET innodb_lock_wait_timeout = 50").await.unwrap();
                lease.query_drop("ROLLBACK").await.unwrap();
            }
            hold(&mut lease, way).await;
            stalls.take();
            let left = Instant::now();
            drop(lease);
            let row = timed(left, &mut rival, UPDATE);
            let free = timed(left, &mut control, UPDATE_FREE);
            let (took, control_took) = tokio::join!(row, free);
            let busy = stalls.take().max(control_took) > BUSY;
            if took > LIMIT && busy && uncounted.len() < ROUNDS {
                uncounted.push(took);
            } else {
                times.push(took);
            }
        }
        assert_clean(&pool, site, &fresh).await;
        let (median, max) = spread(&mut times);
        println!("{way:?}: row free after {median:?} (median), {max:?} (max)");
        println!("rounds on a machine too busy to measure with: {uncounted:?}");
        assert!(max <= LIMIT, "{way:?}: {times:?}");
    }
    rival.disconnect().await.unwrap();
    control.disconnect().await.unwrap();
}

/// How long after `since` a statement ends, which has to succeed.
async fn timed(since: Instant, conn: &mut Conn, statement: &str) -> Duration {
    let outcome = soon(statement, conn.query_drop(statement)).await;
    let took = since.elapsed();
    outcome.unwrap_or_else(|error| panic!("{statement}, after {took:?}: {error}"));
    took
}

/// Whatever the last user did to the session: the next one finds it as after the login.
pub async fn the_next_lease_starts_clean(site: &impl Site) {
    set_up(site).await;
    let pool = builder(site).max_size(1).build().unwrap();
    let mut rival = direct(site, 0).await;
    let fresh: String = rival.query_first(site.session_facts()).await.unwrap().unwrap();
    rival.disconnect().await.unwrap();
    let texts: &[&[&str]] = &[
        &["BEGIN", UPDATE],
        &["SET autocommit = 0", UPDATE],
        &["START TRANSACTION READ ONLY", "SELECT 1"],
        &["SET SESSION TRANSACTION READ ONLY"],
        &["SET TRANSACTION READ ONLY"],
        &["BEGIN", UPDATE, "SELECT no_such_column FROM held"],
        &["BEGIN", UPDATE, "COMMIT", "BEGIN"],
    ];
    for statements in texts {
        let mut lease = soon("a lease", pool.get()).await.unwrap();
        for (place, statement) in statements.iter().enumerate() {
            let outcome = lease.query_drop(*statement).await;
            assert!(outcome.is_ok() || place == 2, "{statement}: {outcome:?}");
        }
        drop(lease);
        println!("after {statements:?}");
        assert_clean(&pool, site, &fresh).await;
    }
    let mut options = TxOpts::default();
    options.with_isolation_level(IsolationLevel::Serializable).with_readonly(true);
    let mut lease = soon("a lease", pool.get()).await.unwrap();
    let mut transaction = lease.start_transaction(options).await.unwrap();
    transaction.query_drop("SELECT * FROM held").await.unwrap();
    drop(transaction);
    drop(lease);
    assert_clean(&pool, site, &fresh).await;
}

async fn set_up(site: &impl Site) {
    let table = "CREATE TABLE IF NOT EXISTS held (id INT PRIMARY KEY, n INT NOT NULL)";
    prepare(site, &[table, "DELETE FROM held", "INSERT INTO held VALUES (1, 0), (2, 0)"]).await;
}

/// Locks the row, and abandons what `way` says short of the lease itself.
async fn hold(lease: &mut Lease, way: Way) {
    if way == Way::Lease {
        lease.query_drop("BEGIN").await.unwrap();
        return lease.query_drop(UPDATE).await.unwrap();
    }
    let mut transaction = lease.start_transaction(TxOpts::default()).await.unwrap();
    transaction.query_drop(UPDATE).await.unwrap();
    if way == Way::Statement {
        let slow = transaction.query_drop("SELECT SLEEP(20)");
        assert!(timeout(ms(30), slow).await.is_err());
    }
}

async fn assert_clean(pool: &Pool, site: &impl Site, fresh: &str) {
    let mut lease = soon("a lease", pool.get()).await.unwrap();
    assert_eq!((lease.in_transaction(), lease.autocommit()), (Some(false), Some(true)));
    assert!(!lease.is_read_only());
    // As the first transaction: what was set for the next one only would show here.
    lease.query_drop("BEGIN").await.unwrap();
    lease.query_drop(UPDATE).await.unwrap();
    lease.query_drop("COMMIT").await.unwrap();
    let facts: String = lease.query_first(site.session_facts()).await.unwrap().unwrap();
    assert_eq!(facts, fresh);
    let before: i64 = lease.query_first("SELECT n FROM held WHERE id = 1").await.unwrap().unwrap();
    lease.query_drop(UPDATE).await.unwrap();
    assert_eq!(lease.in_transaction(), Some(false));
    drop(lease);
    let mut other = direct(site, 0).await;
    let after: i64 = other.query_first("SELECT n FROM held WHERE id = 1").await.unwrap().unwrap();
    assert_eq!(after, before + 1, "not committed");
    other.disconnect().await.unwrap();
}
