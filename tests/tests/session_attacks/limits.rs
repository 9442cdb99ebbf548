//! Few connections, few hosts, and endpoints that take no writes.

use pool_core::balance::endpoint::EndpointMode;
use pool_core::failover::{Failure, SessionOptions};
use pool_core::host::{Host, Role};
use pool_core::route::StatementRouter;
use pool_mysql::{MySqlOptions, Queries, Session};
use pool_tests::mysql::Cluster;

use crate::bench::{Bench, until, within};

#[tokio::test]
async fn a_session_never_waits_for_a_connection_that_it_holds_itself() {
    let keys = "maxPoolSize=1&failOverReadOnly=false";
    let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
    bench.session.connect().await.unwrap();
    bench.cluster.host(0).stop().await;
    let _ = bench.session.query_drop("DO 1").await.unwrap_err();
    assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(1).port());
    within("a read by the main connection", bench.read()).await;
    assert_eq!(bench.hosts("marked"), [1]);
    assert_eq!(bench.in_use(), 1);
}

#[tokio::test]
async fn the_connection_of_the_last_read_does_not_stand_in_the_way_of_the_main_one() {
    for prepares in [false, true] {
        let keys = "maxPoolSize=1&failOverReadOnly=false&retriesAllDown=0";
        let mut bench = Bench::with(2, keys, StatementRouter::default()).await;
        bench.cluster.host(0).stop().await;
        assert_eq!(bench.read().await, 1);
        let connected = async {
            match prepares {
                false => bench.session.connect().await,
                true => bench.session.prepare("SELECT 1").await.map(drop),
            }
        };
        within("the main connection", connected).await.unwrap();
        assert_eq!(bench.session.host().unwrap().port(), bench.cluster.host(1).port());
    }
}

#[tokio::test]
async fn a_read_only_endpoint_opens_nothing_on_the_source() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    cluster.create_database("app");
    let host =
        |index: usize, role| Host::new("127.0.0.1", cluster.host(index).port()).with_role(role);
    let mut options = MySqlOptions::new()
        .host(host(0, Role::Source))
        .user(cluster.user())
        .password(cluster.password())
        .database("app");
    for index in [1, 2] {
        options = options.host(host(index, Role::Replica).with_weight(1));
    }
    let builder = options.pool_builder().unwrap().endpoint_mode(EndpointMode::ReadOnly);
    let pool = builder.build().unwrap();
    until("the roles are probed", || {
        pool.status().hosts.iter().skip(1).all(|host| host.role == Role::Replica)
    })
    .await;
    cluster.log_statements(true);
    for routes in [true, false] {
        let mut settings = SessionOptions::default();
        settings.route_statements = routes;
        let mut session = Session::new(&pool, settings);
        for sql in ["INSERT INTO t VALUES (1)", "BEGIN", "SELECT * FROM t FOR UPDATE"] {
            let refused = session.query_drop(sql).await.unwrap_err();
            assert_eq!(refused.failure, Failure::NotWritable, "{sql}: {refused}");
        }
        if routes {
            session.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
            session.begin_read_only().await.unwrap();
            session.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
            session.commit().await.unwrap();
        }
        assert_eq!(session.host().map(Host::port), None);
    }
    assert!(pool.query_drop("INSERT INTO t VALUES (1)").await.is_err());
    pool.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
    let on_source = cluster.statements().into_iter().find(|line| {
        line.host == 0 && ["INSERT", "BEGIN", " t"].iter().any(|part| line.text.contains(part))
    });
    assert_eq!(on_source, None);
}

#[tokio::test]
async fn sessions_that_share_single_connections_wait_for_each_other_and_get_through() {
    let keys = "maxPoolSize=1";
    let bench = Bench::with(2, keys, StatementRouter::default()).await;
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let pool = bench.pool.clone();
            tokio::spawn(async move {
                // Each leaves a connection beside its main one behind, in turn.
                for _ in 0..5 {
                    let mut session = Session::new(&pool, SessionOptions::default());
                    session.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
                    if number % 2 == 0 {
                        session.begin_read_only().await.unwrap();
                        session.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
                        session.commit().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        within("a session", task).await.unwrap();
    }
    assert_eq!(bench.in_use(), 0);
}
