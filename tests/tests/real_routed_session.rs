//! A routing session on real MySQL and MariaDB: what is bound stays, reads move, own writes are seen.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mysql_async::prelude::Queryable;
use pool_core::failover::{Failure, SessionOptions};
use pool_mysql::{Consistency, MySqlOptions, Pool, Session};
use pool_tests::real::{self, Cluster, MariaDb, MySqlCluster, Server};
use pool_tests::roles_are_known;

const PAIRS: i64 = 500;

async fn open<S: Server>(cluster: &Cluster<S>) -> Pool {
    let mut admin = cluster.host(0).admin().await.unwrap();
    let table = "CREATE TABLE test.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)";
    admin.query_drop(table).await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    let url = format!("{}?probeInterval=100", cluster.url("test"));
    let pool = MySqlOptions::from_url(&url).unwrap().pool_builder().unwrap().build().unwrap();
    roles_are_known(&pool).await;
    pool
}

async fn number(session: &mut Session, sql: &str) -> i64 {
    session.query_first(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap()
}

/// Runs a statement and says whether a replica served it.
async fn beside<S: Server>(cluster: &Cluster<S>, session: &mut Session, sql: &str) -> bool {
    session.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    session.served_by().unwrap().port() != cluster.host(0).port()
}

async fn binds_what_lives_on_a_connection<S: Server>(cluster: &Cluster<S>) {
    let pool = open(cluster).await;
    let mut session = Session::new(&pool, SessionOptions::default());
    assert!(!beside(cluster, &mut session, "INSERT INTO t (v) VALUES (1), (2), (3)").await);
    cluster.replication_caught_up().await.unwrap();
    assert!(beside(cluster, &mut session, "SELECT v FROM t").await);
    session.query_drop("INSERT INTO t (id, v) VALUES (41, 4)").await.unwrap();
    session.query_drop("INSERT INTO t (v) VALUES (5)").await.unwrap();
    assert!(beside(cluster, &mut session, "SELECT v FROM t").await);
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()").await, 42);
    cluster.replication_caught_up().await.unwrap();
    let calc = "SELECT SQL_CALC_FOUND_ROWS v FROM t ORDER BY id LIMIT 1";
    assert_eq!(number(&mut session, calc).await, 1);
    assert!(beside(cluster, &mut session, "SELECT 1").await);
    assert_eq!(number(&mut session, calc).await, 1);
    assert_eq!(number(&mut session, "SELECT FOUND_ROWS()").await, 5);

    for (begin, read, value, end) in [
        ("BEGIN", "SELECT MIN(v) FROM t", 1, Some("ROLLBACK")),
        (
            "CREATE TEMPORARY TABLE x SELECT 7 AS a",
            "SELECT a FROM x",
            7,
            Some("DROP TEMPORARY TABLE x"),
        ),
        (
            "DO GET_LOCK('routed', 1)",
            "SELECT IS_USED_LOCK('routed') = CONNECTION_ID()",
            1,
            Some("DO RELEASE_LOCK('routed')"),
        ),
        ("LOCK TABLES t WRITE", "SELECT MIN(v) FROM t", 1, Some("UNLOCK TABLES")),
        ("SET autocommit = 0", "SELECT MIN(v) FROM t", 1, Some("SET autocommit = 1")),
        ("SET @a = 9", "SELECT @a", 9, None),
    ] {
        assert!(beside(cluster, &mut session, "SELECT 1").await, "before {begin}");
        assert!(!beside(cluster, &mut session, begin).await, "{begin}");
        assert_eq!(number(&mut session, read).await, value, "{begin}");
        assert!(!beside(cluster, &mut session, "SELECT 1").await, "after {begin}");
        if let Some(end) = end {
            session.query_drop(end).await.unwrap();
            assert!(session.pins().is_empty(), "{end}: {:?}", session.pins());
        }
    }
}

async fn reads_in_a_transaction_on_a_replica<S: Server>(cluster: &Cluster<S>) {
    let pool = open(cluster).await;
    let mut session = Session::new(&pool, SessionOptions::default());
    session.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    session.begin_read_only().await.unwrap();
    let on = session.served_by().unwrap().port();
    assert_ne!(on, cluster.host(0).port());
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t").await, 1);
    let mut other = Session::new(&pool, SessionOptions::default());
    other.query_drop("INSERT INTO t (v) VALUES (2)").await.unwrap();
    cluster.replication_caught_up().await.unwrap();
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t").await, 1, "one snapshot");
    let refused = session.query_drop("INSERT INTO t (v) VALUES (3)").await.unwrap_err();
    assert!(matches!(refused.failure, Failure::NotWritable | Failure::Statement), "{refused}");
    assert_eq!(session.served_by().unwrap().port(), on);
    session.commit().await.unwrap();
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM t").await, 2);
    assert!(!beside(cluster, &mut session, "INSERT INTO t (v) VALUES (3)").await);
}

async fn sees_its_own_writes<S: Server>(cluster: &Cluster<S>) {
    let pool = open(cluster).await;
    for replica in &cluster.hosts()[1..] {
        replica.delay_replication(Duration::from_secs(5)).await.unwrap();
    }
    let new = || Session::new(&pool, SessionOptions::default());
    let mut own = new().consistency(Consistency::Token(Duration::from_millis(5)));
    let mut stale = 0;
    for n in 1..=PAIRS {
        if n % 2 == 0 {
            own.begin().await.unwrap();
        }
        own.query_drop("INSERT INTO t (v) VALUES (1)").await.unwrap();
        if n % 2 == 0 {
            own.commit().await.unwrap();
        }
        assert_eq!(number(&mut own, "SELECT COUNT(*) FROM t").await, n);
        stale += i64::from(number(&mut new(), "SELECT COUNT(*) FROM t").await < n);
    }
    assert!(stale > 0, "without a token old data is read, so this test can fail");
    let token = own.token().unwrap().clone();
    assert!(!token.as_str().is_empty());
    for replica in &cluster.hosts()[1..] {
        replica.delay_replication(Duration::ZERO).await.unwrap();
    }
    let patient = Consistency::Token(Duration::from_secs(30));
    let mut next = new().consistency(patient).at_least(token);
    assert_eq!(number(&mut next, "SELECT COUNT(*) FROM t").await, PAIRS);
    let on = next.served_by().unwrap().port();
    assert_ne!(on, cluster.host(0).port(), "the replica was waited for");
}

macro_rules! on_real_servers {
    ($($test:ident),*) => {
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if !super::real::mysql_available() {
                    return;
                }
                let _turn = super::real::exclusive().await;
                super::$test(&super::MySqlCluster::start(1).await.unwrap()).await;
            })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if !super::real::mariadb_available() {
                    return;
                }
                let _turn = super::real::exclusive().await;
                super::$test(&super::MariaDb::start_with_replicas(1).await.unwrap()).await;
            })*
        }
    };
}

on_real_servers!(
    binds_what_lives_on_a_connection,
    reads_in_a_transaction_on_a_replica,
    sees_its_own_writes
);
