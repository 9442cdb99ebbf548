//! The behaviour cases: exact histories of failovers and returns (reference, section 10).

use super::super::super::GiveUp;
use super::*;

const UNKNOWN: Result<(), Failure> = Err(Failure::OutcomeUnknown);
const SWITCHED: Result<(), Failure> = Err(Failure::Switched);
const LOST: Result<(), Failure> = Err(Failure::TransactionLost);

#[test]
fn f01_a_first_connect_takes_the_first_reachable_host_and_works() {
    for up in 1..8_u32 {
        let mut bench = Bench::new(3, two_turns());
        let reachable: Vec<u32> = (1..=3).filter(|number| up & (1 << (number - 1)) != 0).collect();
        bench.down(&[1, 2, 3]).up(&reachable);
        assert_eq!(bench.connect(), OK);
        assert_eq!(bench.host(), Some(reachable[0] as usize));
        assert_eq!(bench.query(), OK);
    }
}

#[test]
fn f02_all_down_fails_after_the_turns() {
    let mut bench = Bench::new(3, two_turns());
    bench.down(&[1, 2, 3]);
    assert_eq!(bench.connect(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
    assert_eq!(bench.history(), r"\H1 \H2 \H3 \H1 \H2 \H3 \H1");
    assert_eq!(bench.session.world().now(), Duration::from_millis(500));
}

#[test]
fn f03_a_failing_statement_stays_on_its_host() {
    let mut bench = Bench::new(3, two_turns());
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.run(Query::Bad), Err(Failure::Statement));
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.history(), "/H1");
}

#[test]
fn f04_to_f08_a_lost_host_is_followed_by_the_next_of_the_ring() {
    type Hosts = &'static [u32];
    // down at the start; then up, then down; history
    let rows: [(Hosts, Hosts, Hosts, &str); 5] = [
        (&[], &[], &[1], "/H1 /H2"),
        (&[2], &[], &[1], r"/H1 \H2 /H3"),
        (&[1], &[], &[2], r"\H1 /H2 /H3"),
        (&[1, 3], &[1], &[2], r"\H1 /H2 \H3 \H2 \H3 /H1"),
        (&[1, 2], &[1], &[3], r"\H1 \H2 /H3 \H2 \H3 /H1"),
    ];
    for (down, then_up, then_down, history) in rows {
        let mut bench = Bench::new(3, two_turns());
        assert_eq!(bench.down(down).connect(), OK);
        bench.up(then_up).down(then_down);
        assert_eq!(bench.query(), UNKNOWN);
        assert_eq!(bench.query(), OK);
        assert_eq!(bench.history(), history);
    }
}

#[test]
fn f10_a_switch_is_told_by_the_generation() {
    let mut bench = Bench::new(3, two_turns());
    assert_eq!(bench.connect(), OK);
    let before = bench.logical().generation();
    bench.down(&[1]).query().unwrap_err();
    assert_eq!(bench.logical().generation(), before + 1);
    assert!(!bench.logical().keeps_statements());
}

const F11: &str = r"/H1 /H2 /H3 /H2 \H3 \H2 \H3 /H1";

#[test]
fn f11_a_session_hops_between_secondaries_while_the_source_is_not_due() {
    let mut bench = Bench::new(3, two_turns());
    assert_eq!(bench.connect(), OK);
    bench.down(&[1]).query().unwrap_err();
    bench.down(&[2]).query().unwrap_err();
    bench.up(&[1, 2]);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.host(), Some(3));
    bench.down(&[3]).query().unwrap_err();
    bench.down(&[2]).query().unwrap_err();
    assert_eq!(bench.history(), F11);
}

#[test]
fn f12_without_autocommit_the_loss_is_noticed_by_query_commit_or_rollback() {
    type Notice = fn(&mut Bench);
    let by_query: Notice = |bench| {
        assert_eq!(bench.query(), LOST);
        // Nothing runs until the loss is acknowledged.
        assert_eq!(bench.query(), LOST);
        assert_eq!(bench.call(Call::Commit), LOST);
        assert_eq!(bench.call(Call::Rollback), OK);
    };
    let by_commit: Notice = |bench| assert_eq!(bench.call(Call::Commit), UNKNOWN);
    let by_rollback: Notice = |bench| assert_eq!(bench.call(Call::Rollback), SWITCHED);
    let notices = [by_query, by_commit, by_rollback];
    for rotation in 0..3 {
        let mut bench = Bench::with_autocommit(3, two_turns(), false);
        assert_eq!(bench.connect(), OK);
        let events: [(&[u32], &[u32]); 4] =
            [(&[1], &[]), (&[2], &[]), (&[3], &[1, 2]), (&[2], &[])];
        for (index, (down, up)) in events.into_iter().enumerate() {
            bench.queries(1);
            bench.up(up).down(down);
            notices[(index + rotation) % 3](&mut bench);
        }
        assert_eq!(bench.history(), F11, "rotation {rotation}");
        assert_eq!(bench.query(), OK);
    }
}

#[test]
fn f14_without_forced_read_only_every_host_is_read_write() {
    let mut bench = Bench::new(3, two_turns().fail_over_read_only(false));
    assert_eq!(bench.down(&[1]).connect(), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(2), "rw"));
    for (down, up, host) in [(2, 1, 3), (3, 2, 2), (2, 3, 3)] {
        bench.up(&[up]).down(&[down]).query().unwrap_err();
        assert_eq!((bench.host(), bench.mode()), (Some(host), "rw"));
    }
}

/// Source and first secondary fall together, the session is on H3.
fn on_h3(policy: CyclingBuilder, autocommit: bool) -> Bench {
    let mut bench = Bench::with_autocommit(3, policy, autocommit);
    assert_eq!(bench.connect(), OK);
    bench.down(&[1, 2]).query().unwrap_err();
    assert_eq!(bench.history(), r"/H1 \H2 /H3");
    bench
}

#[test]
fn f15_enough_statements_make_the_source_come_first() {
    let mut bench = on_h3(two_turns().queries_before_retry_source(10), false);
    bench.queries(10);
    bench.up(&[1, 2]).down(&[3]);
    assert_eq!(bench.query(), LOST);
    assert_eq!(bench.history(), r"/H1 \H2 /H3 /H1");
}

#[test]
fn f17_enough_time_makes_the_source_come_first() {
    for (seconds, end) in [(1, "/H1"), (30, "/H2")] {
        let policy = two_turns().seconds_before_retry_source(seconds * S);
        let mut bench = on_h3(policy, false);
        bench.wait(2 * S).queries(1);
        bench.up(&[1, 2]).down(&[3]);
        assert_eq!(bench.query(), LOST);
        assert_eq!(bench.history(), format!(r"/H1 \H2 /H3 {end}"));
    }
}

#[test]
fn f18_with_autocommit_the_session_moves_by_itself_and_without_error() {
    let mut by_count = Bench::new(2, two_turns().queries_before_retry_source(10));
    assert_eq!(by_count.down(&[1]).connect(), OK);
    by_count.up(&[1]).queries(9);
    assert_eq!(by_count.host(), Some(2));
    by_count.queries(1);
    assert_eq!(by_count.history(), r"\H1 /H2 /H1");

    let mut by_time = Bench::new(2, two_turns().seconds_before_retry_source(S));
    assert_eq!(by_time.down(&[1]).connect(), OK);
    by_time.up(&[1]).queries(1);
    assert_eq!(by_time.host(), Some(2));
    by_time.wait(S).queries(1);
    assert_eq!(by_time.history(), r"\H1 /H2 /H1");
}

#[test]
fn f19_without_autocommit_it_stays_until_the_next_link_error() {
    let rows: [(CyclingBuilder, u32); 2] = [
        (two_turns().queries_before_retry_source(10), 0),
        (two_turns().seconds_before_retry_source(S), 1),
    ];
    for (policy, seconds) in rows {
        let mut bench = Bench::with_autocommit(2, policy, false);
        assert_eq!(bench.down(&[1]).connect(), OK);
        bench.up(&[1]).wait(seconds * S).queries(10);
        assert_eq!(bench.host(), Some(2));
        bench.down(&[2]);
        assert_eq!(bench.query(), LOST);
        assert_eq!(bench.history(), r"\H1 /H2 /H1");
    }
}

#[test]
fn f22_with_auto_reconnect_each_failing_attempt_is_made_that_often() {
    let policy = two_turns().auto_reconnect(true).max_reconnects(2);
    let mut bench = Bench::new(3, policy);
    assert_eq!(bench.down(&[1]).connect(), OK);
    assert_eq!(bench.fresh(), r"\H1 \H1 /H2");
    bench.down(&[2]);
    assert_eq!(bench.query(), UNKNOWN);
    assert_eq!(bench.fresh(), "/H3");
    // The ping after a failure notices the next losses, so the statements meet none.
    bench.down(&[3]).up(&[2]);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.fresh(), "/H2");
    bench.down(&[2]).up(&[1]);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.fresh(), r"\H3 \H3 \H2 \H2 \H3 \H3 /H1");
    assert!(bench.logical().keeps_statements());
    assert_eq!(bench.query(), OK);
}

#[test]
fn sequence_a_forced_read_only_remembers_the_wish_for_the_source() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.connect(), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadOnly)), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "ro"));
    bench.down(&[1]).query().unwrap_err();
    assert_eq!((bench.host(), bench.mode()), (Some(2), "ro"));
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadWrite)), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(2), "ro"));
    bench.up(&[1]).wait(30 * S).queries(1);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
}

#[test]
fn sequence_a_without_the_wish_the_source_is_read_only_as_before() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadOnly)), OK);
    bench.down(&[1]).query().unwrap_err();
    bench.up(&[1]).wait(30 * S).queries(1);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "ro"));
}

#[test]
fn sequence_b_a_free_access_mode_changes_at_once_everywhere() {
    let mut bench = Bench::new(2, two_turns().fail_over_read_only(false));
    assert_eq!(bench.connect(), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadOnly)), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "ro"));
    bench.down(&[1]).query().unwrap_err();
    assert_eq!((bench.host(), bench.mode()), (Some(2), "ro"));
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadWrite)), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(2), "rw"));
    bench.up(&[1]).wait(30 * S).queries(1);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
}

#[test]
fn r01_turning_autocommit_on_is_a_moment_to_return() {
    let mut bench = Bench::with_autocommit(2, two_turns(), false);
    assert_eq!(bench.down(&[1]).connect(), OK);
    bench.up(&[1]).queries(50);
    let before = bench.logical().generation();
    assert_eq!(bench.call(Call::SetAutocommit(true)), OK);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.host(), Some(1));
    assert_ne!(bench.logical().generation(), before);
    assert_eq!(bench.history(), r"\H1 /H2 /H1");
}

#[test]
fn r02_a_return_while_both_sides_fail_ends() {
    let mut bench = Bench::new(2, two_turns().queries_before_retry_source(1));
    assert_eq!(bench.down(&[1]).connect(), OK);
    bench.fresh();
    bench.down(&[2]);
    // The statement made the return due, so the source comes first, then the turns.
    assert_eq!(bench.query(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
    assert_eq!(bench.fresh(), r"\H1 \H2 \H1 \H2 \H1");
    assert_eq!(bench.query(), Err(Failure::Closed));
}

#[test]
fn r03_read_write_on_a_secondary_waits_for_the_return() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.down(&[1]).connect(), OK);
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadWrite)), OK);
    assert_eq!(bench.mode(), "ro");
    assert_eq!(bench.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!(bench.host(), Some(2));
    bench.up(&[1]).wait(30 * S).queries(1);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
    assert_eq!(bench.run(Query::Write), OK);
}

#[test]
fn r04_free_access_mode_and_a_return_after_one_second() {
    let policy = two_turns().fail_over_read_only(false).seconds_before_retry_source(S);
    let mut bench = Bench::new(2, policy);
    assert_eq!(bench.connect(), OK);
    bench.down(&[1]).query().unwrap_err();
    assert_eq!((bench.host(), bench.mode()), (Some(2), "rw"));
    bench.up(&[1]).wait(S);
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.query(), OK);
    assert_eq!((bench.host(), bench.mode()), (Some(1), "rw"));
}

#[test]
fn r05_the_second_host_serves_when_the_first_is_down_and_nobody_when_both_are() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.down(&[1]).connect(), OK);
    assert_eq!(bench.host(), Some(2));
    let mut none = Bench::new(2, two_turns());
    assert_eq!(none.down(&[1, 2]).connect(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
}

#[test]
fn r16_after_a_failed_failover_every_use_is_refused_even_with_hosts_up() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.connect(), OK);
    bench.down(&[1]).query().unwrap_err();
    bench.down(&[2]);
    assert_eq!(bench.query(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
    bench.up(&[1, 2]).fresh();
    for call in [Call::Begin, Call::Commit, Call::Rollback, Call::SetAutocommit(false)] {
        assert_eq!(bench.call(call), Err(Failure::Closed));
    }
    assert_eq!(bench.query(), Err(Failure::Closed));
    assert_eq!(bench.fresh(), "");
}

#[test]
fn r26_autocommit_is_set_on_every_connection_whatever_the_server_does() {
    let policy = Arc::new(Cycling::default());
    let hosts = [HostId::new(0), HostId::new(1)];
    let mut logical = Logical::new(policy.clone(), policy.session_options(), hosts);
    let Command::Open(open) = logical.call(Duration::ZERO, Call::Connect) else { panic!() };
    assert!(open.carry.autocommit);
}

#[test]
fn r27_a_reconnect_inside_a_transaction_does_not_go_on_as_if_inside_it() {
    let mut bench = Bench::new(2, two_turns().auto_reconnect(true));
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::Begin), OK);
    bench.queries(1);
    bench.down(&[1]);
    assert_eq!(bench.query(), LOST);
    assert_eq!(bench.run(Query::Write), LOST);
    assert_eq!(bench.call(Call::Begin), LOST);
    assert_eq!(bench.call(Call::Rollback), OK);
    assert_eq!(bench.query(), OK);
}
