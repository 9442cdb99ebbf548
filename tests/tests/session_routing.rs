//! A session that routes each of its statements, on the embedded cluster: what is bound stays on the
//! connection that owns it, what is not is served by replicas.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pool_core::failover::{Failure, SessionOptions};
use pool_core::route::hint::WhilePinned;
use pool_core::route::{Pin, Refusal, StatementRouter};
use pool_mysql::{Consistency, MySqlOptions, Pool, Session};
use pool_tests::mysql::{Cluster, Ending};
use pool_tests::roles_are_known;

const SOON: Duration = Duration::from_secs(20);

struct Bench {
    cluster: Cluster,
    pool: Pool,
    session: Session,
}

impl Bench {
    /// A source, two replicas with known roles, and a session on the pool's defaults.
    async fn new() -> Self {
        Self::with(3, "", StatementRouter::default()).await
    }

    async fn with(hosts: usize, keys: &str, router: StatementRouter) -> Self {
        let cluster = Cluster::start(hosts).await.unwrap();
        cluster.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)").await.unwrap();
        cluster.log_statements(true);
        let url = format!("{}?probeInterval=100&{keys}", cluster.url("app"));
        let options = MySqlOptions::from_url(url.trim_end_matches('&')).unwrap();
        let pool = options.pool_builder().unwrap().router(router).build().unwrap();
        roles_are_known(&pool).await;
        let session = Session::new(&pool, SessionOptions::default());
        Self { cluster, pool, session }
    }

    async fn run(&mut self, sql: &str) {
        self.session.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    async fn number(&mut self, sql: &str) -> i64 {
        let number = self.session.query_first(sql).await;
        number.unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap()
    }

    /// Runs a marked read and says whether a replica served it.
    async fn reads_beside(&mut self) -> bool {
        let before = self.cluster.statements().len();
        let _ = self.number("SELECT COUNT(*) AS marked FROM t").await;
        let log = self.cluster.statements();
        let mut ran = log[before..].iter().filter(|line| line.text.contains("marked"));
        let host = ran.next().unwrap().host;
        assert!(ran.next().is_none(), "it ran once");
        host != 0
    }

    /// The connections that got a text with this in it, with their hosts.
    fn ran(&self, text: &str) -> Vec<(usize, u32)> {
        let log = self.cluster.statements();
        let lines = log.iter().filter(|line| line.text.contains(text));
        lines.map(|line| (line.host, line.connection)).collect()
    }

    fn in_use(&self) -> Vec<usize> {
        self.pool.status().hosts.iter().map(|host| host.counts.in_use).collect()
    }
}

#[tokio::test]
async fn reads_are_spread_over_replicas_and_writes_stay_on_the_main_connection() {
    let mut bench = Bench::new().await;
    for n in 0..6 {
        bench.run(&format!("INSERT INTO t (v) VALUES ({n})")).await;
        assert_eq!(bench.number("SELECT COUNT(*) FROM t").await, n + 1);
    }
    let writes = bench.ran("INSERT");
    assert!(writes.iter().all(|ran| *ran == writes[0]), "one connection to the source");
    assert_eq!(writes[0].0, 0);
    let reads: Vec<usize> = bench.ran("COUNT").iter().map(|ran| ran.0).collect();
    assert_eq!(reads, [1, 2, 1, 2, 1, 2]);
    assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(0).port());
    assert_eq!(bench.session.served_by().unwrap().port(), bench.cluster.host(2).port());
    assert_eq!(bench.in_use(), [1, 0, 1], "the connection of the last read is kept until the next");
    let locked = "SELECT v FROM t WHERE id = 1 FOR UPDATE";
    assert_eq!(bench.number(locked).await, 0);
    assert_eq!(bench.ran("FOR UPDATE")[0], writes[0]);
    assert_eq!(bench.in_use(), [1, 0, 0]);
    drop(bench.session);
    let used: usize = bench.pool.status().hosts.iter().map(|host| host.counts.in_use).sum();
    assert_eq!(used, 0);
}

#[tokio::test]
async fn an_open_transaction_keeps_every_statement_on_its_connection() {
    for (begin, end) in [("BEGIN", "COMMIT"), ("START TRANSACTION", "ROLLBACK")] {
        let mut bench = Bench::new().await;
        // As texts that are methods, and as texts that are not recognised as such.
        for texts in [true, false] {
            assert!(bench.reads_beside().await);
            if texts {
                bench.run(begin).await;
            } else {
                let _: Vec<i64> = bench.session.query(begin).await.unwrap();
            }
            assert!(bench.session.pins().contains(Pin::Transaction));
            assert!(!bench.reads_beside().await, "{begin}");
            bench.run("INSERT INTO t (v) VALUES (1)").await;
            assert!(!bench.reads_beside().await);
            assert!(
                bench.session.explain("SELECT 1").to_string().starts_with("held (transaction)")
            );
            if texts {
                bench.run(end).await;
            } else {
                let _: Vec<i64> = bench.session.query(end).await.unwrap();
            }
            assert!(bench.session.pins().is_empty(), "{:?}", bench.session.pins());
            assert!(bench.reads_beside().await, "{end}");
        }
    }
}

#[tokio::test]
async fn without_autocommit_reads_stay_on_the_source() {
    let mut bench = Bench::new().await;
    bench.run("SET autocommit = 0").await;
    assert!(!bench.reads_beside().await);
    bench.run("COMMIT").await;
    assert!(!bench.reads_beside().await, "the next transaction begins by itself");
    bench.run("SET autocommit = 1").await;
    assert!(bench.reads_beside().await);
}

#[tokio::test]
async fn what_lives_on_a_connection_binds_the_session_until_it_ends() {
    // what begins it, a read that needs it, what ends it
    let cases = [
        (
            "CREATE TEMPORARY TABLE x (a INT)",
            "SELECT COUNT(*) FROM x",
            Some("DROP TEMPORARY TABLE x"),
        ),
        ("DO GET_LOCK('a', 1)", "SELECT 0", Some("DO RELEASE_LOCK('a')")),
        ("SET @a = 0", "SELECT @a", None),
        ("USE app", "SELECT 0", None),
    ];
    for (begin, read, end) in cases {
        let mut bench = Bench::new().await;
        assert!(bench.reads_beside().await);
        bench.run(begin).await;
        assert_eq!(bench.number(read).await, 0, "{begin}");
        assert!(!bench.reads_beside().await, "{begin}");
        match end {
            Some(end) => {
                bench.run(end).await;
                assert!(bench.reads_beside().await, "{end}");
            }
            None => assert!(!bench.session.pins().is_empty()),
        }
    }
}

#[tokio::test]
async fn an_insert_id_is_asked_for_where_the_insert_ran_also_after_reads_elsewhere() {
    let mut bench = Bench::new().await;
    bench.run("INSERT INTO t (id, v) VALUES (41, 1)").await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert!(bench.reads_beside().await);
    assert_eq!(bench.number("SELECT LAST_INSERT_ID()").await, 42);
    assert!(bench.reads_beside().await, "asking binds nothing");
}

#[tokio::test]
async fn found_rows_are_asked_for_where_the_read_ran() {
    let mut bench = Bench::new().await;
    bench.run("INSERT INTO t (v) VALUES (1), (2), (3)").await;
    for _ in 0..3 {
        assert_eq!(bench.number("SELECT v AS calc FROM t").await, 1);
        assert_eq!(bench.number("SELECT FOUND_ROWS()").await, 3);
    }
    assert_eq!(bench.ran("calc"), bench.ran("SELECT FOUND_ROWS()"));
    assert!(bench.ran("calc").iter().all(|ran| ran.0 != 0));
    bench.run("UPDATE t SET v = v + 1 WHERE v > 1").await;
    assert_eq!(bench.number("SELECT ROW_COUNT()").await, 2, "this one is where the write ran");
}

#[tokio::test]
async fn several_statements_in_one_text_bind_only_themselves() {
    let mut bench = Bench::new().await;
    bench.run("INSERT INTO t (v) VALUES (1); SELECT 1").await;
    assert_eq!(bench.ran("INSERT INTO t (v) VALUES (1)")[0].0, 0);
    assert!(bench.reads_beside().await);
    bench.run("INSERT INTO t (v) VALUES (2); BEGIN").await;
    assert!(!bench.reads_beside().await, "this one opened a transaction");
    bench.run("COMMIT").await;
    assert!(bench.reads_beside().await);
}

#[tokio::test]
async fn a_read_only_transaction_runs_on_one_replica_to_its_end() {
    let mut bench = Bench::new().await;
    for (begin, end) in [(true, "COMMIT"), (false, "ROLLBACK")] {
        if begin {
            bench.session.begin_read_only().await.unwrap();
        } else {
            bench.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await;
        }
        let started = *bench.ran("START TRANSACTION").last().unwrap();
        assert_ne!(started.0, 0, "on a replica");
        for _ in 0..3 {
            assert!(bench.reads_beside().await);
            assert_eq!(*bench.ran("marked").last().unwrap(), started);
        }
        let refused = bench.session.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap_err();
        assert!(matches!(refused.failure, Failure::NotWritable | Failure::Statement), "{refused}");
        let held = bench.session.set_autocommit(false).await.unwrap_err();
        assert_eq!(held.failure, Failure::HeldBeside);
        bench.run(end).await;
        assert!(bench.session.pins().is_empty());
        bench.run("INSERT INTO t (v) VALUES (1)").await;
        assert_eq!(bench.ran("INSERT").last().unwrap().0, 0);
    }
    let status = bench.pool.status();
    assert!(status.hosts.iter().all(|host| host.blocked_for.is_none()), "{status:?}");
}

#[tokio::test]
async fn a_lost_read_only_transaction_is_acknowledged_by_a_rollback() {
    let mut bench = Bench::new().await;
    bench.session.begin_read_only().await.unwrap();
    let host = bench.ran("START TRANSACTION")[0].0;
    bench.cluster.host(host).kill_connections(Ending::Reset).await;
    for _ in 0..2 {
        let lost = bench.session.query_drop("SELECT 1").await.unwrap_err();
        assert_eq!(lost.failure, Failure::TransactionLost, "{lost}");
    }
    assert_eq!(bench.session.commit().await.unwrap_err().failure, Failure::TransactionLost);
    bench.session.rollback().await.unwrap();
    bench.run("SELECT 1").await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
}

#[tokio::test]
async fn a_hint_moves_a_statement_but_never_a_transaction() {
    let mut bench = Bench::new().await;
    let master = "/*FORCE_MASTER*/ SELECT COUNT(*) AS forced FROM t";
    let slave = "/*FORCE_SLAVE*/ SELECT COUNT(*) AS forced FROM t";
    assert_eq!(bench.number(master).await, 0);
    assert_eq!(bench.number(slave).await, 0);
    bench.run("BEGIN").await;
    assert_eq!(bench.number(slave).await, 0);
    bench.run("COMMIT").await;
    let hosts: Vec<bool> = bench.ran("forced").iter().map(|ran| ran.0 == 0).collect();
    assert_eq!(hosts, [true, false, true]);
    let refused = bench.session.query_drop("/*FORCE_SLAVE*/ SET @a = 1").await.unwrap_err();
    assert_eq!(refused.failure, Failure::Refused(Refusal::HintOnSet));

    let strict = StatementRouter::default().with_hints_while_pinned(WhilePinned::Refuse);
    let mut bench = Bench::with(2, "", strict).await;
    bench.run("BEGIN").await;
    let refused = bench.session.query_drop(slave).await.unwrap_err();
    assert_eq!(refused.failure, Failure::Refused(Refusal::HintWhilePinned));
    bench.run("COMMIT").await;
    bench.run(slave).await;
}

#[tokio::test]
async fn a_named_host_serves_one_statement_or_all_that_it_binds() {
    let mut bench = Bench::new().await;
    let name = bench.cluster.host(2).addr().to_string();
    let at = |sql: &str| format!("/*force_node='{name}'*/ {sql}");
    bench.run(&at("SELECT 1 AS named")).await;
    assert_eq!(bench.ran("named")[0].0, 2);
    let source = bench.cluster.host(0).addr().to_string();
    let refused = format!("/*force_node='{source}'*/ SELECT 1");
    let refused = bench.session.query_drop(&refused).await.unwrap_err();
    assert_eq!(refused.failure, Failure::NoReader, "its weight is 0: {refused}");
    bench.pool.set_weight(&source, 1).unwrap();
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    bench.run(&format!("/*force_node='{source}'*/ INSERT INTO t (v) VALUES (1)")).await;
    assert_eq!(bench.in_use(), [1, 0, 0], "the main connection is to that host already");
    bench.run(&at("DO GET_LOCK('a', 1)")).await;
    for _ in 0..3 {
        bench.run("SELECT 2 AS bound").await;
    }
    bench.run("DO RELEASE_LOCK('a')").await;
    let owner = bench.ran("DO GET_LOCK")[0];
    assert!(bench.ran("bound").iter().all(|ran| *ran == owner));
    assert_eq!(bench.ran("DO RELEASE_LOCK")[0], owner);
    bench.run("INSERT INTO t (v) VALUES (2)").await;
    assert_eq!(bench.ran("INSERT").last().unwrap().0, 0);
}

#[tokio::test]
async fn a_token_travels_with_the_session() {
    let bench = Bench::with(2, "", StatementRouter::default()).await;
    bench.cluster.host(1).set_lag(Some(Duration::from_secs(3600))).await.unwrap();
    let fresh = || Session::new(&bench.pool, SessionOptions::default());
    let patient = Consistency::Token(Duration::from_millis(20));
    let mut own = fresh().consistency(patient);
    for n in 0..10 {
        if n % 2 == 0 {
            own.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
        } else {
            own.begin().await.unwrap();
            own.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
            own.commit().await.unwrap();
        }
        let seen: Option<i64> = own.query_first("SELECT COUNT(*) FROM t").await.unwrap();
        assert_eq!(seen, Some(n + 1), "the session sees its own writes");
        let stale: Option<i64> = fresh().query_first("SELECT COUNT(*) FROM t").await.unwrap();
        assert_eq!(stale, Some(0), "another does not, so that the test can fail");
    }
    let mut next = fresh().consistency(patient).at_least(own.token().unwrap().clone());
    let seen: Option<i64> = next.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(seen, Some(10), "the next request sees them as well");
    assert_eq!(bench.in_use().iter().sum::<usize>(), 2, "the main connections serve, no others");
}

#[tokio::test]
async fn a_read_whose_link_breaks_leaves_the_session_as_it_was_and_may_run_again() {
    for retries in [false, true] {
        let bench = Bench::new().await;
        let mut session = Session::new(&bench.pool, SessionOptions::default()).retry_reads(retries);
        session.query_drop("INSERT INTO t (v) VALUES (7)").await.unwrap();
        for host in [1, 2] {
            bench.cluster.host(host).set_statement_delay(Duration::from_millis(500));
        }
        // Spawned: the future is `Send`, as a web service needs it.
        let read = tokio::spawn(async move {
            let read = session.query_first::<i64>("SELECT v AS slow FROM t").await;
            (session, read)
        });
        let arrived = async {
            while bench.ran("slow").is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, arrived).await.expect("the read arrives");
        let (host, connection) = bench.ran("slow")[0];
        assert!(bench.cluster.host(host).kill(connection).await);
        let (mut session, read) = read.await.unwrap();
        if retries {
            assert_eq!(read.unwrap(), Some(7));
            let hosts: Vec<usize> = bench.ran("slow").iter().map(|ran| ran.0).collect();
            assert!(hosts.len() == 2 && hosts[0] != hosts[1], "{hosts:?}");
        } else {
            let failed = read.unwrap_err();
            assert_eq!(failed.failure, Failure::ReadLost, "{failed}");
            assert!(failed.safe_to_retry());
        }
        session.query_drop("INSERT INTO t (v) VALUES (8)").await.unwrap();
        let inserts = bench.ran("INSERT");
        assert_eq!(inserts[0], inserts[1], "the main connection was not touched");
    }
}

#[tokio::test]
async fn a_read_that_is_given_up_costs_its_connection_and_nothing_else() {
    let mut bench = Bench::new().await;
    bench.run("INSERT INTO t (v) VALUES (7)").await;
    for host in [1, 2] {
        bench.cluster.host(host).set_statement_delay(Duration::from_secs(30));
    }
    let given_up = bench.session.query_first::<i64>("SELECT v FROM t");
    assert!(tokio::time::timeout(Duration::from_millis(50), given_up).await.is_err());
    for host in [1, 2] {
        bench.cluster.host(host).set_statement_delay(Duration::ZERO);
    }
    assert_eq!(bench.number("SELECT v + 1 FROM t").await, 8, "not the answer of the other read");
    bench.run("INSERT INTO t (v) VALUES (8)").await;
    assert_eq!(bench.ran("INSERT")[0], bench.ran("INSERT")[1]);
}

#[tokio::test]
async fn a_failing_read_says_where_and_keeps_everything() {
    let mut bench = Bench::new().await;
    let failed = bench.session.query_drop("SELECT * FROM missing").await.unwrap_err();
    assert_eq!(failed.failure, Failure::Statement);
    let replicas = [1, 2].map(|host| bench.cluster.host(host).addr().to_string());
    assert!(replicas.iter().any(|name| failed.host.as_deref() == Some(name)), "{failed}");
    assert!(bench.reads_beside().await);
}

#[tokio::test]
async fn without_a_replica_reads_run_on_the_main_connection() {
    let mut bench = Bench::with(1, "maxPoolSize=1", StatementRouter::default()).await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    for _ in 0..3 {
        assert!(!bench.reads_beside().await, "one connection is enough");
    }

    let keys = "maxPoolSize=1&retryReads=true";
    let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
    bench.run("INSERT INTO t (v) VALUES (1)").await;
    assert!(bench.reads_beside().await);
    bench.cluster.host(1).stop().await;
    for _ in 0..3 {
        assert!(!bench.reads_beside().await, "the replica is down");
    }
    let strict = "readFromSourceWhenNoReplicas=false&maxPoolSize=1";
    let mut bench = Bench::with(2, strict, StatementRouter::default()).await;
    bench.cluster.host(1).stop().await;
    let failed = bench.session.query_drop("SELECT 1").await.unwrap_err();
    assert_eq!(failed.failure, Failure::NoReader, "{failed}");
    assert!(failed.pool.is_some() && failed.safe_to_retry());
}

#[tokio::test]
async fn a_url_without_roles_opens_sessions_that_stay_on_one_host() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    cluster.log_statements(true);
    let addrs = [0, 1].map(|host| cluster.host(host).addr().to_string());
    let login = format!("{}:{}", cluster.user(), cluster.password());
    let plain = cluster.url("app");
    let roles = format!("mysql:replication://{login}@{}/app", addrs.join(","));
    for (url, beside) in [
        (plain.clone(), false),
        (format!("{plain}?routeStatements=true"), true),
        (roles.clone(), true),
        (format!("{roles}?routeStatements=false"), false),
    ] {
        let options = MySqlOptions::from_url(&url).unwrap();
        let pool = options.open().await.unwrap();
        roles_are_known(&pool).await;
        let mut session = Session::new(&pool, options.session_options().unwrap());
        let before = cluster.statements().len();
        session.query_drop("SELECT COUNT(*) AS marked FROM t").await.unwrap();
        let log = cluster.statements();
        let ran = log[before..].iter().find(|line| line.text.contains("marked")).unwrap();
        assert_eq!(ran.host != 0, beside, "{url}");
        let main = session.host().map(|host| host.port());
        assert_eq!(main, (!beside).then(|| cluster.host(0).port()), "{url}");
    }
}

#[tokio::test]
async fn what_was_bound_to_a_lost_main_connection_binds_no_longer() {
    let mut bench = Bench::new().await;
    bench.run("SET @a = 1").await;
    assert!(!bench.reads_beside().await);
    bench.cluster.host(0).kill_connections(Ending::Reset).await;
    let lost = bench.session.query_drop("SELECT @a").await.unwrap_err();
    assert!(matches!(lost.failure, Failure::OutcomeUnknown | Failure::Switched), "{lost}");
    assert!(bench.session.pins().is_empty());
    assert!(bench.reads_beside().await);
}
