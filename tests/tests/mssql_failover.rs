//! The pool over a mirrored pair and an availability group while they fail over.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use mssql_support::{options, soon};
use pool_core::error::ErrorKind;
use pool_core::event::Event;
use pool_mssql::{MsSqlOptions, Pool, ReadIntent};
use pool_tests::mssql::{
    AvailabilityGroup, Close, Counts, Failover, Fault, MirroredPair, MssqlServer, Partner, Role,
    SecondaryAccess, SqlError,
};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tokio::time::timeout;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pool(options: &MsSqlOptions) -> Pool {
    options.pool_builder().unwrap().build().unwrap()
}

async fn pair() -> Arc<MirroredPair> {
    Arc::new(MirroredPair::start().await.unwrap())
}

/// The server that a lease is to, as the server itself says; or the error of the statement.
async fn name(conn: &mut pool_mssql::Conn) -> Result<String, pool_mssql::tiberius::error::Error> {
    let row = conn.simple_query("SELECT @@SERVERNAME").await?.into_row().await?;
    Ok(row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned)).unwrap_or_default())
}

/// Who serves a checkout.
async fn served_by(pool: &Pool) -> String {
    name(&mut pool.get().await.unwrap()).await.unwrap()
}

/// As many connections as this, idle in the pool.
async fn warm(pool: &Pool, connections: usize) {
    let mut leases = Vec::new();
    for _ in 0..connections {
        leases.push(pool.get().await.unwrap());
    }
}

/// How often writes moved to another host.
fn moves(events: &mut Receiver<Event>) -> usize {
    let moved =
        |event: &Event| matches!(event, Event::Failover { .. } | Event::ReturnedToSource { .. });
    std::iter::from_fn(|| events.try_recv().ok()).filter(moved).count()
}

/// Waits until the server has that many connections.
async fn open(server: &MssqlServer, connections: u64) {
    server.wait_for(soon(), |counts| counts.open_connections == connections).await.unwrap();
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < soon(), "never happened: {what}");
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_follow_one_walk_to_the_new_principal() {
    const LIMIT: u32 = 16;
    const TASKS: usize = 64;
    let pair = pair().await;
    let pool = pool(&options(&pair.ado_string()).max_pool_size(LIMIT));
    warm(&pool, LIMIT as usize).await;
    let mut events = pool.events();
    let before = pair.a().counts();
    let failed = Arc::new(AtomicBool::new(false));
    let busy = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (pool, failed, busy) = (pool.clone(), Arc::clone(&failed), Arc::clone(&busy));
        tasks.spawn(async move {
            let mut on_b = 0;
            let mut uses = 0;
            while on_b < 20 {
                // Read before the checkout begins: whatever it gets was handed out after the failure.
                let after_failure = failed.load(SeqCst);
                let mut lease = pool.get().await.unwrap();
                let result = name(&mut lease).await;
                uses += 1;
                if uses == 1 {
                    busy.fetch_add(1, SeqCst);
                }
                match result {
                    Ok(name) if name == "SQL-B" => on_b += 1,
                    Ok(name) => assert!(!after_failure, "{name} after the first failure"),
                    Err(error) => {
                        assert!(!after_failure, "a dead connection was handed out: {error}");
                        failed.store(true, SeqCst);
                    }
                }
            }
        });
    }
    eventually("every task is at work", || busy.load(SeqCst) == TASKS).await;
    pair.failover().await;
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap()
        }
    };
    timeout(soon() * 3, all).await.expect("every task is served by the new principal");

    assert_eq!(moves(&mut events), 1, "one walk found the principal, and nobody walked again");
    let a = pair.a().counts();
    // Two connects outside the walk may be under way when the first fails, and the walk asks A once a round.
    let storm = a.accepts - before.accepts;
    assert!(storm <= 6, "{storm} logins reached the old principal");
    assert_eq!(a.logins_accepted, before.logins_accepted);
    assert!(pair.b().counts().peak_connections <= u64::from(LIMIT));
    open(pair.a(), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_failovers_leak_nothing() {
    const LIMIT: u32 = 6;
    let pair = pair().await;
    let options = options(&pair.ado_string()).max_pool_size(LIMIT);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let tasks_before = tasks();
    let pool = pool(&options);
    let mut events = pool.events();
    let mut moved = 0;
    for turn in 0..100 {
        warm(&pool, 4).await;
        let held = pool.get().await.unwrap();
        pair.failover().await;
        let new = pair.server(pair.principal()).name().to_owned();
        assert_eq!(served_by(&pool).await, new, "turn {turn}");
        // Given back after the failover: closed, not kept.
        drop(held);
        let peak = pair.a().counts().open_connections.max(pair.b().counts().open_connections);
        assert!(peak <= u64::from(LIMIT), "{peak} connections in turn {turn}");
        moved += moves(&mut events);
    }
    assert_eq!(moved, 101, "the first walk, then one per failover");
    let principal = pair.server(pair.principal());
    let mirror = pair.server(pair.principal().other());
    open(mirror, 0).await;
    eventually("no connection is on its way", || pool.status().total().connecting == 0).await;
    let total = pool.status().total();
    assert_eq!((total.in_use, total.waiting), (0, 0), "{}", pool.status());
    open(principal, total.idle as u64).await;
    drop(pool);
    open(principal, 0).await;
    eventually("every task of the pool is gone", || tasks() <= tasks_before).await;
}

#[tokio::test]
async fn after_the_principal_is_lost_the_next_checkout_reaches_the_partner() {
    let pair = pair().await;
    let pool = pool(&options(&pair.ado_string()));
    let early = pool.get().await.unwrap();
    warm(&pool, 3).await;
    pair.lose_principal(Close::Fin).await;
    assert_eq!(served_by(&pool).await, "SQL-B");
    // Taken before the loss: not reused after its return.
    drop(early);
    let a = pool.status().hosts[0].clone();
    assert_eq!(a.counts.total(), 0, "{}", pool.status());
    assert_eq!(served_by(&pool).await, "SQL-B");
}

#[tokio::test]
async fn a_partner_that_never_completes_a_login_is_passed_by() {
    let pair = pair().await;
    pair.failover().await;
    pair.a().switches().set_fault(Fault::HangAfterPrelogin);
    let pool = pool(&options(&pair.ado_string()).login_timeout(Some(Duration::from_secs(10))));
    assert_eq!(served_by(&pool).await, "SQL-B");
    assert_eq!((pair.a().counts().accepts, pair.a().counts().logins), (1, 0));
    assert_eq!(pair.b().counts().logins_accepted, 1);
}

#[tokio::test]
async fn idle_connections_that_the_server_ended_are_replaced_silently() {
    for how in [Close::Fin, Close::Rst] {
        let pair = pair().await;
        let pool = pool(&options(&pair.ado_string()));
        warm(&pool, 5).await;
        pair.a().kill_connections(how).await;
        for _ in 0..5 {
            assert_eq!(served_by(&pool).await, "SQL-A", "{how:?}");
        }
        assert_eq!(pair.b().counts().accepts, 0, "{how:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_the_server_ended_is_the_callers_to_know() {
    let pair = pair().await;
    let pool = pool(&options(&pair.ado_string()));
    let mut lease = pool.get().await.unwrap();
    lease.execute("CREATE TABLE t (id INT)", &[]).await.unwrap();
    lease.begin_transaction().await.unwrap();
    lease.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap();
    pair.a().kill_connections(Close::Fin).await;
    lease.execute("INSERT INTO t VALUES (2)", &[]).await.unwrap_err();
    // Nor does the lease come back to life: the connection is over.
    lease.execute("INSERT INTO t VALUES (3)", &[]).await.unwrap_err();
    drop(lease);
    let mut lease = pool.get().await.unwrap();
    let row = lease.query("SELECT COUNT(*) FROM t", &[]).await.unwrap().into_row().await.unwrap();
    assert_eq!(row.unwrap().get::<i32, _>(0), Some(0), "nothing was repeated");
}

#[tokio::test]
async fn a_partner_that_becomes_principal_meanwhile_is_found_in_the_next_round() {
    let pair = pair().await;
    for partner in [Partner::A, Partner::B] {
        pair.server(partner).switches().set_role(Role::Mirror);
    }
    let pool = pool(&options(&pair.ado_string()));
    let started = Instant::now();
    let waiting = tokio::spawn(async move { served_by(&pool).await });
    // The sixth round starts at 2.5 s, the seventh at 3.5 s: between them, when the sixth login is refused.
    let refused = |counts: &Counts| counts.logins == 6 && counts.open_connections == 0;
    pair.b().wait_for(soon(), refused).await.unwrap();
    pair.b().switches().set_role(Role::Principal);
    assert_eq!(timeout(soon(), waiting).await.unwrap().unwrap(), "SQL-B");
    assert!(started.elapsed() >= ms(3490), "{:?}", started.elapsed());
    assert_eq!((pair.a().counts().logins, pair.b().counts().logins), (7, 7));
}

#[tokio::test]
async fn a_change_of_sides_closes_the_idle_and_the_returned_there_and_back() {
    let pair = pair().await;
    let pool = pool(&options(&pair.ado_string()));
    // A failover that leaves the old connections open: nobody but the pool closes them.
    let leave_open = Failover { close: None, ..Failover::default() };
    for turn in 0..4 {
        let old = pair.principal();
        warm(&pool, 3).await;
        let leased = pool.get().await.unwrap();
        open(pair.server(old), 3).await;
        pair.failover_with(leave_open).await;
        // The next new connection finds out.
        let mut more = Vec::new();
        while more.last().is_none_or(|lease: &pool_mssql::Lease| {
            lease.server().port() != Some(pair.server(old.other()).port())
        }) {
            more.push(pool.get().await.unwrap());
        }
        open(pair.server(old), 3).await;
        drop(more);
        drop(leased);
        open(pair.server(old), 0).await;
        assert_eq!(served_by(&pool).await, pair.server(old.other()).name(), "turn {turn}");
    }
}

#[tokio::test]
async fn a_callers_own_deadline_wins_and_the_walk_goes_on_for_the_others() {
    let pair = pair().await;
    pair.failover().await;
    pair.a().switches().set_fault(Fault::HangBeforePrelogin);
    let pool = pool(&options(&pair.ado_string()).login_timeout(Some(Duration::from_secs(30))));
    let patient = tokio::spawn({
        let pool = pool.clone();
        async move { served_by(&pool).await }
    });
    pair.a().wait_for(soon(), |counts| counts.accepts == 1).await.unwrap();
    // Early in A's slice of 2.4 s one caller runs out of time, and another walks away.
    let started = Instant::now();
    let error = pool.get_within(ms(100)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(started.elapsed() >= ms(95));
    let left = timeout(ms(50), pool.get()).await;
    assert!(left.is_err());
    assert_eq!(pair.b().counts().accepts, 0, "the walk is still at A");
    assert_eq!(timeout(soon(), patient).await.unwrap().unwrap(), "SQL-B");
    assert_eq!((pair.a().counts().accepts, pair.b().counts().accepts), (1, 1), "one walk");
    let total = pool.status().total();
    assert_eq!((total.in_use, total.waiting, total.connecting), (0, 0, 0), "{}", pool.status());
}

#[tokio::test]
async fn a_walk_that_nobody_waits_for_ends_with_its_attempt() {
    let pair = pair().await;
    pair.a().switches().set_fault(Fault::HangBeforePrelogin);
    let pool = pool(&options(&pair.ado_string()).login_timeout(Some(Duration::from_secs(5))));
    assert!(timeout(ms(100), pool.get()).await.is_err());
    // The attempt under way ends at its slice; B, next in turn, is not asked.
    open(pair.a(), 0).await;
    assert_eq!(pair.b().counts().accepts, 0);
    assert_eq!(pool.status().total().connecting, 0, "{}", pool.status());
    pair.a().switches().set_fault(Fault::None);
    assert_eq!(served_by(&pool).await, "SQL-A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_cause_one_attempt_at_a_time() {
    let pair = pair().await;
    for partner in [Partner::A, Partner::B] {
        pair.server(partner).switches().set_fault(Fault::HangBeforePrelogin);
    }
    // Slices of 80 80 160 160 240 240 40 ms.
    let pool = pool(&options(&pair.ado_string()).login_timeout(Some(ms(1000))));
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let pool = pool.clone();
        tasks.spawn(async move { pool.get().await.map(drop).unwrap_err().kind() });
    }
    while let Some(kind) = timeout(soon(), tasks.join_next()).await.unwrap() {
        assert!(matches!(kind.unwrap(), ErrorKind::Timeout | ErrorKind::NoHost));
    }
    let (a, b) = (pair.a().counts(), pair.b().counts());
    assert_eq!((a.peak_connections, b.peak_connections), (1, 1));
    // Seven attempts, and one more if a caller that outlives the walk by a hair starts the next.
    assert!(a.accepts + b.accepts <= 8, "{} + {}", a.accepts, b.accepts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_error_reaches_a_thousand_waiters_at_once() {
    let pair = pair().await;
    pair.a().switches().set_login_delay(ms(2000));
    pair.a().switches().set_login_error(Some(SqlError::known(18456)));
    // Slices of 4.8 s.
    let pool = pool(&options(&pair.ado_string()).login_timeout(Some(Duration::from_secs(60))));
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let pool = pool.clone();
        tasks.spawn(async move { pool.get().await.map(drop).unwrap_err().kind() });
    }
    eventually("everybody waits for the walk", || pair.a().counts().logins == 1).await;
    let started = Instant::now();
    while let Some(kind) = timeout(soon(), tasks.join_next()).await.unwrap() {
        assert_eq!(kind.unwrap(), ErrorKind::Permanent);
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!((pair.a().counts().logins, pair.b().counts().accepts), (1, 0));
}

#[tokio::test]
async fn the_primary_that_changed_is_noticed_without_a_caller() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let at = |server: &MssqlServer| format!("{},{}", server.host(), server.port());
    let mut options = options(&group.replicas()[0].ado_string()).read_intent(ReadIntent::ForReads);
    for replica in &group.replicas()[1..] {
        options = options.replica(&at(replica)).unwrap();
    }
    let builder = options.pool_builder().unwrap().probe_interval(Some(ms(50)));
    let pool = builder.build().unwrap();
    assert_eq!(served_by(&pool).await, "SQL-0");
    let mut events = pool.events();
    // The connections of the old primary stay: only a question about its role tells.
    let leave_open = Failover { close: None, ..Failover::default() };
    group.failover_to_with(2, leave_open).await.unwrap();
    let moved = async {
        loop {
            if let Event::Failover { to, .. } = events.recv().await.unwrap() {
                return to;
            }
        }
    };
    let to = timeout(soon(), moved).await.unwrap();
    assert!(to.contains(&group.replicas()[2].port().to_string()), "{to}");
    assert_eq!(served_by(&pool).await, "SQL-2");
    assert_eq!(pool.status().writer().unwrap().name, to);
}

#[tokio::test]
async fn read_leases_declare_their_intent_and_write_leases_do_not() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let options = options(&group.ado_string()).read_intent(ReadIntent::ForReads);
    let pool = options.pool_builder().unwrap().probe_interval(None).build().unwrap();
    assert_eq!(served_by(&pool).await, "SQL-0");
    let primary = group.replicas()[0].counts();
    assert_eq!((primary.logins_read_intent, primary.logins_routed), (0, 0));
    for _ in 0..4 {
        let mut lease = pool.get_read().await.unwrap();
        assert_ne!(name(&mut lease).await.unwrap(), "SQL-0");
        lease.discard();
    }
    let primary = group.replicas()[0].counts();
    assert_eq!((primary.logins_read_intent, primary.logins_routed), (4, 4));
    for secondary in group.secondaries() {
        let counts = secondary.counts();
        assert_eq!((counts.logins_accepted, counts.logins_read_intent), (2, 2), "in turn");
    }
}

#[tokio::test]
async fn reads_go_to_the_primary_only_when_that_is_allowed() {
    for allowed in [true, false] {
        let group = AvailabilityGroup::start(2).await.unwrap();
        let options = options(&group.ado_string()).read_intent(ReadIntent::ForReads);
        let builder = options.pool_builder().unwrap().read_fallback_primary(allowed);
        let pool = builder.acquire_timeout(ms(1500)).build().unwrap();
        assert_eq!(name(&mut pool.get_read().await.unwrap()).await.unwrap(), "SQL-1");
        group.replicas()[1].switches().set_secondary_access(SecondaryAccess::No);
        group.replicas()[1].kill_connections(Close::Fin).await;
        match pool.get_read().await {
            Ok(mut lease) => {
                assert!(allowed);
                assert_eq!(name(&mut lease).await.unwrap(), "SQL-0");
            }
            Err(error) => assert!(!allowed, "{error}"),
        }
    }
}
