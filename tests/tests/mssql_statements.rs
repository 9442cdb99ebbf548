//! Routed statements on an embedded availability group whose replicas are dialled directly.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use std::time::Duration;

use mssql_support::{options, soon};
use pool_mssql::{Consistency, Pool, Queries, ReadIntent, StatementError, Statements};
use pool_tests::mssql::{AvailabilityGroup, Close, MssqlServer};
use pool_tests::roles_are_known;

struct Bench {
    group: AvailabilityGroup,
    pool: Pool,
}

impl Bench {
    async fn new(replicas: usize) -> Self {
        let group = AvailabilityGroup::start(replicas).await.unwrap();
        let servers = group.replicas();
        let at = |server: &MssqlServer| format!("{},{}", server.host(), server.port());
        let mut options = options(&servers[0].ado_string()).read_intent(ReadIntent::ForReads);
        for replica in &servers[1..] {
            options = options.replica(&at(replica)).unwrap();
        }
        let builder = options.pool_builder().unwrap();
        let pool = builder.probe_interval(Some(Duration::from_millis(50))).build().unwrap();
        pool.execute("CREATE TABLE t (id INT, name NVARCHAR(20))", &[]).await.unwrap();
        roles_are_known(&pool).await;
        Self { group, pool }
    }

    /// The servers that got a text with this in it.
    fn ran(&self, text: &str) -> Vec<usize> {
        let of = |server: &MssqlServer| {
            server.statements().iter().filter(|sql| sql.contains(text)).count()
        };
        let servers = self.group.replicas().iter().enumerate();
        servers.flat_map(|(index, server)| vec![index; of(server)]).collect()
    }
}

#[tokio::test]
async fn reads_go_to_secondaries_and_everything_else_to_the_primary() {
    let bench = Bench::new(3).await;
    let inserted =
        bench.pool.execute("INSERT INTO t VALUES (@P1, @P2)", &[&7, &"seven"]).await.unwrap();
    assert_eq!(inserted, 1);
    let by_id = "SELECT name AS plain FROM t WHERE id = @P1";
    for _ in 0..4 {
        let row = bench.pool.query_first(by_id, &[&7]).await.unwrap().unwrap();
        assert_eq!(row.get::<&str, _>(0), Some("seven"));
    }
    assert!(bench.pool.query(by_id, &[&8]).await.unwrap().is_empty());
    let plain = bench.ran("plain");
    assert!(plain.len() == 5 && plain.contains(&1) && plain.contains(&2), "{plain:?}");
    assert!(!plain.contains(&0));
    bench.pool.query("SELECT name AS locked FROM t WITH (UPDLOCK)", &[]).await.unwrap();
    bench.pool.simple_query("/*FORCE_MASTER*/ SELECT name AS forced FROM t").await.unwrap();
    assert_eq!((bench.ran("locked"), bench.ran("forced")), (vec![0], vec![0]));
    assert!(bench.ran("FORCE_MASTER").is_empty(), "the hint is not sent");
    assert_eq!(bench.pool.explain("SELECT [a;b], N'x' FROM t").target, "replica", "T-SQL is read");
}

#[tokio::test]
async fn a_statement_that_binds_a_session_is_refused() {
    let bench = Bench::new(2).await;
    for sql in ["BEGIN TRAN", "SELECT * INTO #x FROM t", "SET LOCK_TIMEOUT 5"] {
        let refused = bench.pool.execute(sql, &[]).await.unwrap_err();
        assert!(matches!(refused, StatementError::NeedsSession(_)), "{sql}: {refused}");
    }
}

#[tokio::test]
async fn after_a_write_reads_that_must_see_it_are_served_by_the_primary() {
    let bench = Bench::new(2).await;
    for consistency in [Consistency::Token(Duration::from_millis(10)), Consistency::Window(soon())]
    {
        bench.group.replicas().iter().for_each(MssqlServer::clear_records);
        let mut caller = Statements::new(&bench.pool).consistency(consistency);
        caller.simple_query("SELECT 1 AS early FROM t").await.unwrap();
        caller.execute("INSERT INTO t VALUES (1, 'x')", &[]).await.unwrap();
        caller.simple_query("SELECT 1 AS late FROM t").await.unwrap();
        assert_eq!((bench.ran("early"), bench.ran("late")), (vec![1], vec![0]), "{consistency:?}");
    }
}

#[tokio::test]
async fn a_read_whose_link_broke_runs_once_more_elsewhere() {
    for retries in [true, false] {
        let bench = Bench::new(3).await;
        for secondary in &bench.group.replicas()[1..] {
            secondary.switches().set_request_delay(Duration::from_millis(500));
        }
        let mut caller = Statements::new(&bench.pool).retry_reads(retries);
        // Spawned: the future is `Send`, as a web service needs it.
        let read = tokio::spawn(async move {
            caller.query("SELECT COUNT(*) AS slow FROM t WHERE id > @P1", &[&0]).await
        });
        let arrived = async {
            while bench.ran("slow").is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(soon(), arrived).await.expect("the read arrives");
        let first = bench.ran("slow")[0];
        bench.group.replicas()[first].kill_connections(Close::Rst).await;
        match read.await.unwrap() {
            Ok(rows) => assert!(retries && rows[0].get::<i32, _>(0) == Some(0)),
            Err(error) => assert!(!retries, "{error}"),
        }
        assert_eq!(bench.ran("slow").len(), if retries { 2 } else { 1 });
    }
}
