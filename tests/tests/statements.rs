//! Routed statements on the embedded cluster: own writes, retries, refusals, explanations.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use pool_core::failover::SessionOptions;
use pool_core::route::StatementRouter;
use pool_core::route::hint::MaxScaleHints;
use pool_mysql::{
    Consistency, MySqlOptions, Pool, Queries, Session, StatementError, Statements, Token,
};
use pool_tests::mysql::{Cluster, Ending};
use pool_tests::roles_are_known;

async fn open(cluster: &Cluster) -> Pool {
    let options = MySqlOptions::from_url(&cluster.url("app")).unwrap();
    let pool = options.pool_builder().unwrap().build().unwrap();
    Statements::new(&pool).query_drop("CREATE TABLE t (id INT PRIMARY KEY, v INT)").await.unwrap();
    pool
}

/// The hosts that ran a statement containing `text`, by index.
fn ran(cluster: &Cluster, text: &str) -> Vec<usize> {
    let log = cluster.statements();
    log.iter().filter(|line| line.text.contains(text)).map(|line| line.host).collect()
}

#[tokio::test]
async fn reads_go_to_replicas_and_everything_else_to_the_source() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.log_statements(true);
    let pool = open(&cluster).await;
    let mut statements = Statements::new(&pool);
    statements.exec_drop("INSERT INTO t VALUES (?, ?)", (1, 10)).await.unwrap();
    for n in 0..6 {
        let sql = format!("SELECT v AS plain_{n} FROM t");
        let _: Vec<i64> = statements.query(&sql).await.unwrap();
        assert_ne!(ran(&cluster, &format!("plain_{n} ")), [0], "{sql}");
    }
    let _: Vec<i64> = statements.query("SELECT v AS locked FROM t FOR UPDATE").await.unwrap();
    assert_eq!(ran(&cluster, "locked"), [0]);
    let forced = "/*FORCE_MASTER*/ SELECT v AS forced FROM t";
    let _: Vec<i64> = statements.query(forced).await.unwrap();
    assert_eq!(ran(&cluster, "forced"), [0]);
    assert!(ran(&cluster, "FORCE_MASTER").is_empty(), "the hint is not sent");
}

#[tokio::test]
async fn a_statement_that_binds_a_session_is_refused() {
    let cluster = Cluster::start(1).await.unwrap();
    let pool = open(&cluster).await;
    for sql in ["BEGIN", "CREATE TEMPORARY TABLE x (a INT)", "SELECT @a := 1"] {
        let refused = Statements::new(&pool).query_drop(sql).await.unwrap_err();
        assert!(matches!(refused, StatementError::NeedsSession(_)), "{sql}: {refused}");
    }
}

#[tokio::test]
async fn a_token_makes_a_lagging_replica_wait_or_the_source_answer() {
    let cluster = Cluster::start(2).await.unwrap();
    let pool = open(&cluster).await;
    cluster.host(1).set_lag(Some(Duration::from_secs(3600))).await.unwrap();
    let patient = Consistency::Token(Duration::from_millis(50));
    let mut statements = Statements::new(&pool).consistency(patient);
    let mut stale = 0;
    for n in 0..20 {
        let insert = format!("INSERT INTO t VALUES ({n}, {n})");
        statements.query_drop(&insert).await.unwrap();
        let select = format!("SELECT v FROM t WHERE id = {n}");
        let own: Option<i64> = statements.query_first(&select).await.unwrap();
        assert_eq!(own, Some(n), "the caller sees its own write");
        let others: Option<i64> = Statements::new(&pool).query_first(&select).await.unwrap();
        stale += usize::from(others.is_none());
    }
    assert_eq!(stale, 20, "without a token the replica's old data is seen, so the test can fail");
}

#[tokio::test]
async fn a_token_travels_to_the_next_request() {
    let cluster = Cluster::start(2).await.unwrap();
    let pool = open(&cluster).await;
    cluster.host(1).set_lag(Some(Duration::from_secs(3600))).await.unwrap();
    let patient = Consistency::Token(Duration::from_millis(50));
    let mut first = Statements::new(&pool).consistency(patient);
    first.query_drop("INSERT INTO t VALUES (7, 7)").await.unwrap();
    let text = serde_json::to_string(first.token().unwrap()).unwrap();
    let token: Token = serde_json::from_str(&text).unwrap();
    let mut second = Statements::new(&pool).consistency(patient).at_least(token);
    let seen: Option<i64> = second.query_first("SELECT v FROM t WHERE id = 7").await.unwrap();
    assert_eq!(seen, Some(7));
}

#[tokio::test]
async fn within_the_window_after_a_write_reads_stay_on_the_source() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.log_statements(true);
    let pool = open(&cluster).await;
    let window = Consistency::Window(Duration::from_secs(3600));
    let mut statements = Statements::new(&pool).consistency(window);
    let _: Vec<i64> = statements.query("SELECT v AS early FROM t").await.unwrap();
    statements.query_drop("INSERT INTO t VALUES (1, 1)").await.unwrap();
    let _: Vec<i64> = statements.query("SELECT v AS late FROM t").await.unwrap();
    assert_eq!((ran(&cluster, "early"), ran(&cluster, "late")), (vec![1], vec![0]));
}

#[tokio::test]
async fn a_read_whose_link_broke_runs_once_more_elsewhere_and_a_write_never_does() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = open(&cluster).await;
    let slow = Duration::from_millis(300);
    let mut broken = 0;
    for round in 0..4 {
        cluster.host(1).set_statement_delay(slow);
        let mut statements = Statements::new(&pool).retry_reads(true);
        // Spawned: the future is `Send`, as a web service needs it.
        let read = tokio::spawn(async move {
            statements.query_first::<i64>(&format!("SELECT {round} + COUNT(*) FROM t")).await
        });
        let victim = cluster.host(1);
        let before = victim.counters().statements;
        let waited = tokio::time::timeout(Duration::from_secs(1), async {
            while victim.counters().statements == before {
                tokio::task::yield_now().await;
            }
        });
        if waited.await.is_ok() {
            broken += victim.kill_connections(Ending::Reset).await;
        }
        assert_eq!(read.await.unwrap().unwrap(), Some(round));
    }
    assert!(broken > 0, "at least one read was on the host that broke");

    cluster.host(0).set_statement_delay(slow);
    let mut statements = Statements::new(&pool).retry_reads(true);
    let write =
        tokio::spawn(async move { statements.query_drop("INSERT INTO t VALUES (9, 9)").await });
    let source = cluster.host(0);
    let before = source.counters().statements;
    while source.counters().statements == before && !write.is_finished() {
        tokio::task::yield_now().await;
    }
    source.kill_connections(Ending::Reset).await;
    assert!(matches!(write.await.unwrap(), Err(StatementError::Driver { .. }) | Ok(())));
}

#[tokio::test]
async fn reads_of_a_caller_who_wants_the_source_stay_there_unless_a_hint_says_otherwise() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.log_statements(true);
    let pool = open(&cluster).await;
    let mut statements = Statements::new(&pool).consistency(Consistency::Source);
    let mut session =
        Session::new(&pool, SessionOptions::default()).consistency(Consistency::Source);
    for sql in ["SELECT v AS plain FROM t", "/*FORCE_SLAVE*/ SELECT v AS forced FROM t"] {
        statements.query_drop(sql).await.unwrap();
        session.query_drop(sql).await.unwrap();
    }
    assert_eq!((ran(&cluster, "plain"), ran(&cluster, "forced")), (vec![0, 0], vec![1, 1]));
}

#[tokio::test]
async fn a_refused_write_did_not_run_and_may_be_sent_again() {
    let cluster = Cluster::start(2).await.unwrap();
    let pool = open(&cluster).await;
    cluster.promote(1).await.unwrap();
    let insert = "INSERT INTO t VALUES (5, 5)";
    let refused = pool.query_drop(insert).await.unwrap_err();
    assert!(matches!(refused, StatementError::NotWritable { .. }), "{refused}");
    assert!(refused.safe_to_retry());
    pool.query_drop(insert).await.unwrap();
    assert_eq!(pool.status().writer().unwrap().name, cluster.host(1).addr().to_string().into());
    let failed = pool.query_drop(insert).await.unwrap_err();
    assert!(!failed.safe_to_retry(), "{failed}");
}

#[tokio::test]
async fn explain_shows_the_route_the_hosts_and_the_pick() {
    let cluster = Cluster::start(2).await.unwrap();
    let pool = open(&cluster).await;
    let read = pool.explain("SELECT 1");
    assert_eq!((read.target.as_str(), read.why), ("replica", "select"));
    assert_eq!(read.pick.as_deref(), Some(&*cluster.host(1).addr().to_string()));
    assert_eq!(read.hosts[1].1, "eligible");
    let write = pool.explain("DELETE FROM t");
    assert_eq!((write.target.as_str(), write.why), ("source", "write"));
    assert_eq!(write.pick.as_deref(), Some(&*cluster.host(0).addr().to_string()));
    let named = format!("/*force_node='{}'*/ SELECT 1", cluster.host(1).addr());
    assert_eq!(pool.explain(&named).pick.as_deref(), Some(&*cluster.host(1).addr().to_string()));
}

/// A source that serves reads as well and two replicas, with known roles.
async fn balanced(cluster: &Cluster, keys: &str, router: StatementRouter) -> Pool {
    let url = format!("{}?probeInterval=50{keys}", cluster.url("app"));
    let options = MySqlOptions::from_url(&url).unwrap();
    let pool = options.pool_builder().unwrap().router(router).build().unwrap();
    roles_are_known(&pool).await;
    pool.set_weight(&cluster.host(0).addr().to_string(), 1000).unwrap();
    pool
}

async fn hosts_of(pool: &Pool, cluster: &Cluster, sql: &str) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    for _ in 0..30 {
        let port = pool.get_for(sql).await.unwrap().host().port();
        seen.insert((0..3).find(|index| cluster.host(*index).port() == port).unwrap());
    }
    seen
}

#[tokio::test]
async fn a_hint_comes_before_every_weight() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = balanced(&cluster, "", StatementRouter::default()).await;
    let all = hosts_of(&pool, &cluster, "SELECT 1").await;
    assert_eq!(all, BTreeSet::from([0, 1, 2]), "the source has a weight");
    let slave = hosts_of(&pool, &cluster, "/*FORCE_SLAVE*/ SELECT 1").await;
    assert_eq!(slave, BTreeSet::from([1, 2]), "a replica was asked for");
    let master = hosts_of(&pool, &cluster, "/*FORCE_MASTER*/ SELECT 1").await;
    assert_eq!(master, BTreeSet::from([0]));
    for index in [1, 2] {
        pool.set_weight(&cluster.host(index).addr().to_string(), 0).unwrap();
    }
    let fallback = hosts_of(&pool, &cluster, "/*FORCE_SLAVE*/ SELECT 1").await;
    assert_eq!(fallback, BTreeSet::from([0]), "replicas of weight 0 are not used, whoever asks");
    pool.set_weight(&cluster.host(0).addr().to_string(), 0).unwrap();
    let master = hosts_of(&pool, &cluster, "/*FORCE_MASTER*/ SELECT 1").await;
    assert_eq!(master, BTreeSet::from([0]), "also with weight 0");
}

#[tokio::test]
async fn a_lag_limit_in_a_hint_is_for_its_statement() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.host(1).set_lag(Some(Duration::from_secs(60))).await.unwrap();
    let second = Duration::from_secs(1);
    let router = StatementRouter::default().with_hints(MaxScaleHints::new());
    let pool = balanced(&cluster, "&maxLag=1000&lagSource=status", router).await;
    let known = async {
        while pool.status().hosts[1].lag.is_none_or(|lag| lag < second)
            || pool.status().hosts[2].lag.is_none()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("the lag is probed");
    let plain = hosts_of(&pool, &cluster, "SELECT 1").await;
    assert_eq!(plain, BTreeSet::from([0, 2]));
    let patient = "SELECT 1 -- maxscale max_slave_replication_lag=3600";
    assert_eq!(hosts_of(&pool, &cluster, patient).await, BTreeSet::from([0, 1, 2]));
    let slave = "SELECT 1 -- maxscale route to slave";
    assert_eq!(hosts_of(&pool, &cluster, slave).await, BTreeSet::from([1, 2]), "before the lag");
    let explained = pool.explain(patient);
    assert_eq!(explained.hosts[1].1, "eligible");
    assert_eq!(pool.explain("SELECT 1").hosts[1].1, "lag 60s");
}

#[tokio::test]
async fn explaining_changes_nothing() {
    let cluster = Cluster::start(3).await.unwrap();
    let pool = balanced(&cluster, "", StatementRouter::default()).await;
    for _ in 0..30 {
        let told = pool.explain("SELECT 1").pick.unwrap();
        assert_eq!(pool.explain("SELECT 1").pick.unwrap(), told);
        let got = pool.get_for("SELECT 1").await.unwrap().host().shared_name();
        assert_eq!(told, got);
    }
}

#[tokio::test]
async fn a_pool_runs_statements_by_itself_and_says_what_a_write_did() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.log_statements(true);
    let pool = MySqlOptions::from_url(&cluster.url("app")).unwrap().open().await.unwrap();
    pool.query_drop("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)").await.unwrap();
    let inserted = pool.execute("INSERT INTO t (v) VALUES (?), (?)", (7, 7)).await.unwrap();
    assert_eq!((inserted.affected_rows, inserted.last_insert_id), (2, Some(1)));
    pool.exec_drop("UPDATE t SET v = ? WHERE id = ?", (8, 2)).await.unwrap();
    let rows: Vec<(i64, i64)> = pool.query("SELECT id, v FROM t ORDER BY id").await.unwrap();
    assert_eq!(rows, [(1, 7), (2, 8)]);
    let by_id = "SELECT v FROM t WHERE id = ?";
    assert_eq!(pool.exec::<i64>(by_id, (2,)).await.unwrap(), [8]);
    assert_eq!(pool.exec_first::<i64>(by_id, (3,)).await.unwrap(), None);
    assert_eq!(pool.query_first::<i64>("SELECT COUNT(*) FROM t").await.unwrap(), Some(2));
    let writes = [ran(&cluster, "INSERT"), ran(&cluster, "UPDATE")].concat();
    assert!(writes.iter().all(|host| *host == 0), "{writes:?}");
    let failed = pool.query_drop("SELECT * FROM missing").await.unwrap_err();
    assert!(failed.to_string().starts_with("on 127.0.0.1:"), "{failed}");
}

#[tokio::test]
async fn routes_are_counted_by_reason_and_hints_by_what_became_of_them() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::start(2).await.unwrap();
    let pool = balanced(&cluster, "", StatementRouter::default()).await;
    pool.query_drop("SELECT 1").await.unwrap();
    pool.query_drop("/*FORCE_SLAVE*/ SELECT 1").await.unwrap();
    drop(pool.get_for("/*FORCE_MASTER*/ SELECT 1").await.unwrap());
    let _ = pool.explain("SELECT 1");
    let mut session = Session::new(&pool, SessionOptions::default());
    session.begin().await.unwrap();
    session.query_drop("/*FORCE_SLAVE*/ SELECT 1").await.unwrap();
    session.commit().await.unwrap();
    let counted: BTreeSet<String> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| {
            let name = key.key().name().strip_prefix("pool_")?.strip_suffix("s_total")?.to_owned();
            let label = key.key().labels().find(|label| label.key() != "pool")?.value().to_owned();
            let DebugValue::Counter(count) = value else { return None };
            ["route", "hint"].contains(&&*name).then(|| format!("{name} {label} {count}"))
        })
        .collect();
    let expected = [
        "hint applied 2",
        "hint ignored 1",
        "route hint 2",
        "route select 1",
        "route transaction 1",
    ];
    assert_eq!(counted, BTreeSet::from(expected.map(str::to_owned)));
}

#[tokio::test]
async fn hints_mean_the_same_in_both_protocols_and_reach_neither_server() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.log_statements(true);
    let pool = balanced(&cluster, "", StatementRouter::default()).await;
    let named = cluster.host(2).addr().to_string();
    let cases = [
        ("/*FORCE_MASTER*/".to_owned(), [0].as_slice()),
        ("/* force_slave */".to_owned(), &[1, 2]),
        (format!("/*force_node='{named}'*/"), &[2]),
    ];
    let mut session = Session::new(&pool, SessionOptions::default());
    for (number, (hint, hosts)) in cases.iter().enumerate() {
        let sql = |way: &str| format!("{hint} SELECT 1 AS {way}_{number}_");
        for _ in 0..4 {
            pool.query_drop(&sql("text")).await.unwrap();
            pool.exec_drop(&format!("{} WHERE 1 = ?", sql("prepared")), (1,)).await.unwrap();
            session.query_drop(&sql("session_text")).await.unwrap();
            let prepared = format!("{} WHERE 1 = ?", sql("session_prepared"));
            session.exec_drop(&prepared, (1,)).await.unwrap();
        }
        for way in ["text", "prepared", "session_text", "session_prepared"] {
            let seen = ran(&cluster, &format!(" {way}_{number}_"));
            assert!(!seen.is_empty() && seen.iter().all(|host| hosts.contains(host)), "{seen:?}");
        }
    }
    let log = cluster.statements();
    assert!(log.iter().any(|line| line.prepared));
    assert!(!log.iter().any(|line| line.text.to_lowercase().contains("force_")));
}
