//! The behaviour cases of the logical connection over real TCP: exact histories of physical connects
//! (reference `mysql-failover`, section 10; the same cases as the tests of the pure machine).

#![allow(clippy::unwrap_used)]

mod session_support;

use std::time::Duration;

use pool_core::failover::{Failure, GiveUp};
use pool_mysql::{MySqlOptions, Pool, Session};
use pool_tests::mysql::Cluster;
use session_support::*;
use tokio::time::sleep;

const S: Duration = Duration::from_millis(1100);
const EXHAUSTED: Result<(), Failure> = Err(Failure::FailoverFailed(GiveUp::Exhausted));

#[tokio::test]
async fn f01_a_first_connect_takes_the_first_reachable_host_and_works() {
    for up in 1..8_usize {
        let mut bench = Bench::new(3, "").await;
        let reachable = |number: &usize| up & (1 << (number - 1)) != 0;
        let down: Vec<usize> = (1..=3).filter(|number| !reachable(number)).collect();
        bench.down(&down).await;
        assert_eq!(bench.connect().await, OK);
        assert_eq!(bench.host(), (1..=3).find(reachable));
        assert_eq!(bench.query().await, OK);
    }
}

#[tokio::test]
async fn f02_all_down_fails_after_the_turns() {
    let mut bench = Bench::new(3, "").await;
    bench.down(&[1, 2, 3]).await;
    assert_eq!(bench.connect().await, EXHAUSTED);
    assert_eq!(bench.history(), r"\H1 \H2 \H3 \H1 \H2 \H3 \H1");
}

#[tokio::test]
async fn f03_a_failing_statement_stays_on_its_host() {
    let mut bench = Bench::new(3, "").await;
    let missing = bench.run("SELECT * FROM missing").await;
    assert_eq!(missing, Err(Failure::Statement));
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.history(), "/H1");
}

#[tokio::test]
async fn f04_to_f08_a_lost_host_is_followed_by_the_next_of_the_ring() {
    type Hosts = &'static [usize];
    // down at the start; then up, then down; history
    let rows: [(Hosts, Hosts, Hosts, &str); 5] = [
        (&[], &[], &[1], "/H1 /H2"),
        (&[2], &[], &[1], r"/H1 \H2 /H3"),
        (&[1], &[], &[2], r"\H1 /H2 /H3"),
        (&[1, 3], &[1], &[2], r"\H1 /H2 \H3 \H2 \H3 /H1"),
        (&[1, 2], &[1], &[3], r"\H1 \H2 /H3 \H2 \H3 /H1"),
    ];
    for (down, then_up, then_down, history) in rows {
        let mut bench = Bench::new(3, "").await;
        bench.down(down).await;
        assert_eq!(bench.connect().await, OK);
        bench.up(then_up).await.down(then_down).await;
        assert_eq!(bench.query().await, UNKNOWN);
        assert_eq!(bench.query().await, OK);
        assert_eq!(bench.history(), history);
    }
}

#[tokio::test]
async fn f10_a_statement_of_the_old_host_is_refused_and_a_new_one_works() {
    let mut bench = Bench::new(3, "").await;
    let old = bench.session.prepare("SELECT ? + 1").await.unwrap();
    let rows: Vec<i64> = bench.session.run(&old, (1,)).await.unwrap();
    assert_eq!(rows, [2]);
    bench.down(&[1]).await;
    assert_eq!(bench.query().await, UNKNOWN);
    let stale = bench.session.run::<i64>(&old, (1,)).await.unwrap_err();
    assert_eq!(stale.failure, Failure::StaleStatement);
    let new = bench.session.prepare("SELECT ? + 1").await.unwrap();
    let rows: Vec<i64> = bench.session.run(&new, (2,)).await.unwrap();
    assert_eq!(rows, [3]);
}

const F11: &str = r"/H1 /H2 /H3 /H2 \H3 \H2 \H3 /H1";

#[tokio::test]
async fn f11_a_session_hops_between_secondaries_while_the_source_is_not_due() {
    let mut bench = Bench::new(3, "").await;
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
    assert_eq!(bench.down(&[2]).await.query().await, UNKNOWN);
    bench.up(&[1, 2]).await;
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.host(), Some(3));
    assert_eq!(bench.down(&[3]).await.query().await, UNKNOWN);
    assert_eq!(bench.down(&[2]).await.query().await, UNKNOWN);
    assert_eq!(bench.history(), F11);
}

#[tokio::test]
async fn f12_without_autocommit_the_loss_is_noticed_by_query_commit_or_rollback() {
    for rotation in 0..3 {
        let mut bench = Bench::without_autocommit(3, "").await;
        let events: [(&[usize], &[usize]); 4] =
            [(&[1], &[]), (&[2], &[]), (&[3], &[1, 2]), (&[2], &[])];
        for (index, (down, up)) in events.into_iter().enumerate() {
            bench.queries(1).await;
            bench.up(up).await.down(down).await;
            match (index + rotation) % 3 {
                0 => {
                    assert_eq!(bench.query().await, LOST);
                    // Nothing runs until the loss is acknowledged.
                    assert_eq!(bench.query().await, LOST);
                    assert_eq!(done(bench.session.commit().await), LOST);
                    assert_eq!(done(bench.session.rollback().await), OK);
                }
                1 => assert_eq!(done(bench.session.commit().await), UNKNOWN),
                _ => assert_eq!(done(bench.session.rollback().await), SWITCHED),
            }
        }
        assert_eq!(bench.history(), F11, "rotation {rotation}");
        assert_eq!(bench.query().await, OK);
    }
}

#[tokio::test]
async fn f14_without_forced_read_only_every_host_is_read_write() {
    let mut bench = Bench::new(3, "failOverReadOnly=false").await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    assert_eq!(bench.at(), (Some(2), "rw"));
    for (down, up, host) in [(2, 1, 3), (3, 2, 2), (2, 3, 3)] {
        bench.up(&[up]).await.down(&[down]).await;
        assert_eq!(bench.query().await, UNKNOWN);
        assert_eq!(bench.at(), (Some(host), "rw"));
        assert!(!bench.server_says_read_only().await);
    }
}

/// Source and first secondary fall together, the session is on H3.
async fn on_h3(keys: &str) -> Bench {
    let mut bench = Bench::without_autocommit(3, keys).await;
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.down(&[1, 2]).await.query().await, SWITCHED);
    assert_eq!(bench.history(), r"/H1 \H2 /H3");
    bench
}

#[tokio::test]
async fn f15_enough_statements_make_the_source_come_first() {
    let mut bench = on_h3("queriesBeforeRetrySource=10").await;
    bench.queries(10).await;
    bench.up(&[1, 2]).await.down(&[3]).await;
    assert_eq!(bench.query().await, LOST);
    assert_eq!(bench.history(), r"/H1 \H2 /H3 /H1");
}

#[tokio::test]
async fn f17_enough_time_makes_the_source_come_first() {
    for (seconds, end) in [(1, "/H1"), (30, "/H2")] {
        let mut bench = on_h3(&format!("secondsBeforeRetrySource={seconds}")).await;
        sleep(2 * S).await;
        bench.queries(1).await;
        bench.up(&[1, 2]).await.down(&[3]).await;
        assert_eq!(bench.query().await, LOST);
        assert_eq!(bench.history(), format!(r"/H1 \H2 /H3 {end}"));
    }
}

#[tokio::test]
async fn f18_with_autocommit_the_session_moves_by_itself_and_without_error() {
    let mut by_count = Bench::new(2, "queriesBeforeRetrySource=10").await;
    assert_eq!(by_count.down(&[1]).await.connect().await, OK);
    by_count.up(&[1]).await.queries(9).await;
    assert_eq!(by_count.host(), Some(2));
    by_count.queries(1).await;
    assert_eq!(by_count.history(), r"\H1 /H2 /H1");

    let mut by_time = Bench::new(2, "secondsBeforeRetrySource=2").await;
    assert_eq!(by_time.down(&[1]).await.connect().await, OK);
    by_time.up(&[1]).await.queries(1).await;
    assert_eq!(by_time.host(), Some(2));
    sleep(2 * S).await;
    by_time.queries(1).await;
    assert_eq!(by_time.history(), r"\H1 /H2 /H1");
}

#[tokio::test]
async fn f19_without_autocommit_it_stays_until_the_next_link_error() {
    for (keys, pause) in
        [("queriesBeforeRetrySource=10", Duration::ZERO), ("secondsBeforeRetrySource=1", S)]
    {
        let mut bench = Bench::without_autocommit(2, keys).await;
        assert_eq!(bench.down(&[1]).await.connect().await, OK);
        bench.up(&[1]).await;
        sleep(pause).await;
        bench.queries(10).await;
        assert_eq!(bench.host(), Some(2));
        assert_eq!(bench.down(&[2]).await.query().await, LOST);
        assert_eq!(bench.history(), r"\H1 /H2 /H1");
    }
}

#[tokio::test]
async fn f22_with_auto_reconnect_each_failing_attempt_is_made_that_often() {
    let keys = "autoReconnect=true&maxReconnects=2&initialTimeout=1";
    let mut bench = Bench::new(3, keys).await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    assert_eq!(bench.fresh(), r"\H1 \H1 /H2");
    let old = bench.session.prepare("SELECT ? + 1").await.unwrap();
    assert_eq!(bench.down(&[2]).await.query().await, UNKNOWN);
    assert_eq!(bench.fresh(), "/H3");
    // The ping after a failure notices the next loss, so the statement meets none.
    bench.up(&[2]).await.down(&[3]).await;
    let rows: Vec<i64> = bench.session.run(&old, (1,)).await.unwrap();
    assert_eq!((rows, bench.fresh()), (vec![2], "/H2".to_owned()));
}

#[tokio::test]
async fn sequence_a_forced_read_only_remembers_the_wish_for_the_source() {
    for asks in [true, false] {
        let mut bench = Bench::new(2, "secondsBeforeRetrySource=1").await;
        assert_eq!(bench.connect().await, OK);
        assert_eq!(bench.at(), (Some(1), "rw"));
        assert_eq!(bench.set_read_only(true).await, OK);
        assert_eq!(bench.at(), (Some(1), "ro"));
        assert!(bench.server_says_read_only().await);
        assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
        assert_eq!(bench.at(), (Some(2), "ro"));
        if asks {
            assert_eq!(bench.set_read_only(false).await, OK);
            assert_eq!(bench.at(), (Some(2), "ro"));
        }
        assert!(bench.server_says_read_only().await);
        bench.up(&[1]).await;
        sleep(S).await;
        bench.queries(1).await;
        assert_eq!(bench.at(), (Some(1), if asks { "rw" } else { "ro" }));
        assert_eq!(bench.server_says_read_only().await, !asks);
    }
}

#[tokio::test]
async fn sequence_b_a_free_access_mode_changes_at_once_everywhere() {
    let mut bench = Bench::new(2, "failOverReadOnly=false&secondsBeforeRetrySource=1").await;
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.at(), (Some(1), "rw"));
    assert_eq!(bench.set_read_only(true).await, OK);
    assert_eq!(bench.at(), (Some(1), "ro"));
    assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
    assert_eq!(bench.at(), (Some(2), "ro"));
    assert!(bench.server_says_read_only().await);
    assert_eq!(bench.set_read_only(false).await, OK);
    assert_eq!(bench.at(), (Some(2), "rw"));
    assert!(!bench.server_says_read_only().await);
    bench.up(&[1]).await;
    sleep(S).await;
    bench.queries(1).await;
    assert_eq!(bench.at(), (Some(1), "rw"));
}

#[tokio::test]
async fn r01_turning_autocommit_on_is_a_moment_to_return() {
    let mut bench = Bench::without_autocommit(2, "").await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    bench.up(&[1]).await.queries(50).await;
    let before = bench.session.connection().unwrap().id();
    assert_eq!(done(bench.session.set_autocommit(true).await), OK);
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.host(), Some(1));
    assert_ne!(bench.session.connection().unwrap().id(), before);
    assert_eq!(bench.history(), r"\H1 /H2 /H1");
}

#[tokio::test]
async fn r02_a_return_while_both_sides_fail_ends() {
    let mut bench = Bench::new(2, "queriesBeforeRetrySource=1").await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    bench.fresh();
    assert_eq!(bench.down(&[2]).await.query().await, EXHAUSTED);
    assert_eq!(bench.fresh(), r"\H1 \H2 \H1 \H2 \H1");
    assert_eq!(bench.query().await, Err(Failure::Closed));
}

#[tokio::test]
async fn r03_read_write_on_a_secondary_waits_for_the_return() {
    let mut bench = Bench::new(2, "queriesBeforeRetrySource=3").await;
    assert_eq!(bench.down(&[1]).await.connect().await, OK);
    assert_eq!(bench.set_read_only(false).await, OK);
    assert_eq!(bench.mode(), "ro");
    bench.up(&[1]).await;
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, NOT_WRITABLE);
    assert_eq!(bench.host(), Some(2));
    bench.queries(2).await;
    assert_eq!(bench.at(), (Some(1), "rw"));
    assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
}

#[tokio::test]
async fn r04_free_access_mode_and_a_return_after_one_second() {
    let mut bench = Bench::new(2, "failOverReadOnly=false&secondsBeforeRetrySource=1").await;
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
    assert_eq!(bench.at(), (Some(2), "rw"));
    bench.up(&[1]).await;
    sleep(S).await;
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.at(), (Some(1), "rw"));
}

#[tokio::test]
async fn r15_errors_that_the_application_names_change_the_connection() {
    let cluster = Cluster::start(3).await.unwrap();
    let mut bench = Bench::on(cluster, "", |_| ()).await;
    let options = options(&bench.cluster, "");
    let driver = options.driver().unwrap().classify_with(|error| {
        let missing = matches!(error, pool_mysql::mysql_async::Error::Server(e) if e.code == 1146);
        missing.then_some(pool_core::verdict::Verdict::ConnectionLost)
    });
    let pool = Pool::builder(driver)
        .hosts(options.hosts().iter().cloned())
        .failover(options.failover().unwrap())
        .probe_interval(None)
        .build()
        .unwrap();
    bench.session = Session::new(&pool, options.session_options().unwrap());
    assert_eq!(bench.connect().await, OK);
    for _ in 0..2 {
        let before = bench.session.connection().unwrap().id();
        assert_eq!(bench.run("SELECT * FROM missing").await, UNKNOWN);
        assert_ne!(bench.session.connection().unwrap().id(), before);
    }
    assert_eq!(bench.history(), "/H1 /H2 /H3");
}

#[tokio::test]
async fn r16_after_a_failed_failover_every_use_is_refused_even_with_hosts_up() {
    let mut bench = Bench::new(2, "").await;
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
    assert_eq!(bench.down(&[2]).await.query().await, EXHAUSTED);
    bench.up(&[1, 2]).await.fresh();
    assert_eq!(bench.query().await, Err(Failure::Closed));
    assert_eq!(done(bench.session.rollback().await), Err(Failure::Closed));
    assert_eq!(bench.fresh(), "");
    // Only when asked to.
    assert_eq!(bench.connect().await, OK);
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.fresh(), "/H1");
}

#[tokio::test]
async fn r26_autocommit_is_on_whatever_the_server_does() {
    let mut bench = Bench::new(2, "sessionVariables=autocommit%3D0").await;
    for _ in 0..2 {
        let on: Option<i64> = bench.session.query_first("SELECT @@autocommit").await.unwrap();
        assert_eq!(on, Some(1));
        if bench.host() == Some(1) {
            assert_eq!(bench.down(&[1]).await.query().await, UNKNOWN);
        }
    }
    assert_eq!(bench.host(), Some(2));
}

#[tokio::test]
async fn r27_a_reconnect_inside_a_transaction_does_not_go_on_as_if_inside_it() {
    for reconnects in ["false", "true"] {
        let keys = format!("autoReconnect={reconnects}&maxReconnects=1&failOverReadOnly=false");
        let mut bench = Bench::new(2, &keys).await;
        bench.cluster.host(1).set_read_only(false);
        assert_eq!(done(bench.session.begin().await), OK);
        assert_eq!(bench.run("INSERT INTO t VALUES (1)").await, OK);
        assert_eq!(bench.down(&[1]).await.run("INSERT INTO t VALUES (2)").await, LOST);
        assert_eq!(bench.run("INSERT INTO t VALUES (3)").await, LOST);
        assert_eq!(done(bench.session.begin().await), LOST);
        // As text it acknowledges as well.
        assert_eq!(bench.run("ROLLBACK").await, OK);
        assert_eq!(bench.run("INSERT INTO t VALUES (4)").await, OK);
        let rows: Vec<i64> = bench.session.query("SELECT id FROM t").await.unwrap();
        assert_eq!(rows, [4]);
    }
}

#[tokio::test]
async fn a_list_of_one_host_is_a_plain_reconnect() {
    let mut bench = Bench::new(1, "").await;
    assert_eq!(bench.connect().await, OK);
    bench.down(&[1]).await.up(&[1]).await;
    assert_eq!(bench.query().await, UNKNOWN);
    assert_eq!(bench.query().await, OK);
    assert_eq!(bench.history(), "/H1 /H1");
}

#[tokio::test]
async fn a_session_opens_straight_from_a_url() {
    let cluster = Cluster::start(2).await.unwrap();
    let options = MySqlOptions::from_url(&cluster.url("app")).unwrap();
    cluster.host(0).stop().await;
    let mut session = options.open_session().await.unwrap();
    let hello: Option<String> = session.query_first("SELECT 'hello'").await.unwrap();
    assert_eq!(hello.as_deref(), Some("hello"));
    assert_eq!(session.host().unwrap().port(), cluster.host(1).port());
}
