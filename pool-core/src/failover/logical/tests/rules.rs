//! The rules one by one: counters, boundaries, outcomes, closing, reconnection, gaps.

use super::super::super::sim::Query;
use super::super::super::{GiveUp, Mirrored, Outcome};
use super::*;
use crate::verdict::Verdict;

/// A session of two hosts that is on H2 because H1 was down, and H1 is up again.
fn away(policy: CyclingBuilder) -> Bench {
    let mut bench = Bench::new(2, policy);
    assert_eq!(bench.down(&[1]).connect(), OK);
    bench.up(&[1]).fresh();
    bench
}

#[test]
fn failing_statements_count_as_well() {
    let mut bench = away(two_turns().queries_before_retry_source(3));
    for _ in 0..2 {
        assert_eq!(bench.run(Query::Bad), Err(Failure::Statement));
    }
    assert_eq!(bench.logical().statements_on_secondaries(), 2);
    // The third returns its own error, and the session is back.
    assert_eq!(bench.run(Query::Bad), Err(Failure::Statement));
    assert_eq!(bench.host(), Some(1));
}

#[test]
fn statements_on_the_source_do_not_count() {
    let mut bench = Bench::new(2, two_turns().queries_before_retry_source(3));
    assert_eq!(bench.connect(), OK);
    bench.queries(10);
    assert_eq!(bench.logical().statements_on_secondaries(), 0);
    assert_eq!(bench.history(), "/H1");
}

#[test]
fn a_failed_return_is_invisible_and_puts_the_next_one_off_for_a_whole_interval() {
    let mut bench = away(two_turns().queries_before_retry_source(3));
    bench.down(&[1]);
    bench.queries(3);
    assert_eq!((bench.fresh(), bench.host()), (r"\H1".to_owned(), Some(2)));
    bench.queries(2);
    assert_eq!(bench.fresh(), "");
    bench.up(&[1]).queries(1);
    assert_eq!((bench.fresh(), bench.host()), ("/H1".to_owned(), Some(1)));
}

#[test]
fn a_failed_return_restarts_the_clock_too() {
    let mut bench = away(two_turns());
    bench.down(&[1]).wait(30 * S).queries(1);
    assert_eq!(bench.fresh(), r"\H1");
    bench.wait(29 * S).queries(1);
    assert_eq!(bench.fresh(), "");
    bench.wait(S).queries(1);
    assert_eq!(bench.fresh(), r"\H1");
}

#[test]
fn a_silent_source_costs_the_returning_call_its_connect_timeout() {
    let mut bench = away(two_turns().queries_before_retry_source(1));
    bench.set(HostState::Hang, &[1]);
    assert_eq!(bench.query(), OK);
    assert_eq!((bench.fresh(), bench.host()), (r"\H1".to_owned(), Some(2)));
    assert_eq!(bench.session.world().now(), 5 * S);
}

#[test]
fn with_both_halves_off_nothing_ever_returns() {
    let policy =
        two_turns().seconds_before_retry_source(Duration::ZERO).queries_before_retry_source(0);
    let mut bench = away(policy);
    bench.wait(1_000 * S).queries(1_000);
    assert_eq!((bench.fresh(), bench.host()), (String::new(), Some(2)));
}

#[test]
fn either_half_works_alone() {
    let mut by_count = away(two_turns().seconds_before_retry_source(Duration::ZERO));
    by_count.wait(1_000 * S).queries(49);
    assert_eq!(by_count.host(), Some(2));
    by_count.queries(1);
    assert_eq!(by_count.host(), Some(1));

    let mut by_time = away(two_turns().queries_before_retry_source(0));
    by_time.queries(1_000);
    assert_eq!(by_time.host(), Some(2));
    by_time.wait(30 * S).queries(1);
    assert_eq!(by_time.host(), Some(1));
}

#[test]
fn a_walk_between_secondaries_keeps_both_counters_running() {
    let mut bench = Bench::new(3, two_turns().queries_before_retry_source(5));
    assert_eq!(bench.down(&[1]).connect(), OK);
    bench.up(&[1]).queries(3);
    bench.down(&[2]).query().unwrap_err();
    assert_eq!(bench.host(), Some(3));
    assert_eq!(bench.logical().statements_on_secondaries(), 4);
    bench.queries(1);
    assert_eq!(bench.host(), Some(1));
}

#[test]
fn a_walk_past_the_source_restarts_the_counters() {
    let mut bench = Bench::new(3, two_turns().queries_before_retry_source(9));
    assert_eq!(bench.down(&[1, 3]).connect(), OK);
    bench.queries(3);
    bench.fresh();
    // H3, H2, H3, the source, and H2 in the second turn, where it is up again by then.
    let world = bench.session.world_mut();
    world.set(HostId::new(1), HostState::Down);
    let later = world.now() + Duration::from_millis(200);
    world.set_at(HostId::new(1), later, HostState::Up);
    bench.query().unwrap_err();
    assert_eq!(bench.fresh(), r"\H3 \H2 \H3 \H1 /H2");
    assert_eq!(bench.logical().statements_on_secondaries(), 0);
}

#[test]
fn a_due_source_that_fails_at_the_start_of_a_walk_restarts_the_counters() {
    let mut bench = Bench::new(3, two_turns().queries_before_retry_source(4));
    assert_eq!(bench.down(&[1]).connect(), OK);
    bench.queries(3);
    bench.fresh();
    // The fourth statement makes the return due, and finds its host gone.
    bench.down(&[2]).query().unwrap_err();
    assert_eq!(bench.fresh(), r"\H1 \H2 /H3");
    assert_eq!(bench.logical().statements_on_secondaries(), 0);
}

#[test]
fn returns_happen_at_transaction_boundaries_only() {
    let mut bench = away(two_turns().queries_before_retry_source(2));
    assert_eq!(bench.call(Call::Begin), OK);
    bench.queries(10);
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadOnly)), OK);
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.call(Call::Commit), OK);
    assert_eq!((bench.fresh(), bench.host()), ("/H1".to_owned(), Some(1)));
}

#[test]
fn commit_and_rollback_run_on_the_old_host_and_return_afterwards() {
    for call in [Call::Commit, Call::Rollback] {
        let policy = two_turns().queries_before_retry_source(2);
        let mut bench = Bench::with_autocommit(2, policy, false);
        assert_eq!(bench.down(&[1]).connect(), OK);
        bench.up(&[1]).queries(5);
        assert_eq!(bench.host(), Some(2));
        assert_eq!(bench.call(call), OK);
        assert_eq!(bench.host(), Some(1));
    }
}

/// The gap of the original: a `BEGIN` sent as text is not seen by it.
#[test]
fn a_begin_sent_as_text_keeps_the_session_where_it_is() {
    let mut bench = away(two_turns().queries_before_retry_source(2));
    assert_eq!(bench.run(Query::BeginAsText), OK);
    bench.queries(10);
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.run(Query::CommitAsText), OK);
    assert_eq!(bench.host(), Some(1));
}

#[test]
fn any_connection_level_call_may_return_with_autocommit() {
    for call in [
        Call::SetMode(AccessMode::ReadOnly),
        Call::SetDatabase("shop".into()),
        Call::SetIsolation(Isolation::Serializable),
        Call::Rollback,
    ] {
        let mut bench = away(two_turns());
        bench.wait(30 * S);
        assert_eq!(bench.call(call.clone()), OK);
        assert_eq!(bench.host(), Some(1), "{call:?}");
    }
    let mut off = away(two_turns());
    off.wait(30 * S);
    assert_eq!(off.call(Call::SetAutocommit(false)), OK);
    assert_eq!(off.host(), Some(2));
}

#[test]
fn what_the_caller_hears_of_a_lost_link() {
    let (unknown, switched, lost) =
        (Failure::OutcomeUnknown, Failure::Switched, Failure::TransactionLost);
    let statement = Call::Execute(Statement::Plain);
    let ends = Call::Execute(Statement::EndsTransaction);
    // autocommit, in a transaction, call, sent, failure
    let rows = [
        (true, false, statement.clone(), true, unknown),
        (true, false, statement.clone(), false, switched),
        (true, true, statement.clone(), true, lost),
        (true, true, ends.clone(), true, unknown),
        (true, true, ends.clone(), false, lost),
        (true, true, Call::Commit, true, unknown),
        (true, true, Call::Commit, false, lost),
        (true, true, Call::Rollback, true, switched),
        (true, true, Call::Begin, true, unknown),
        (true, false, Call::Begin, true, switched),
        (true, false, Call::SetMode(AccessMode::ReadOnly), true, switched),
        (false, false, statement.clone(), true, switched),
        (false, true, statement, true, lost),
        (false, true, Call::SetAutocommit(true), true, unknown),
        (false, true, Call::SetDatabase("shop".into()), true, lost),
    ];
    for (autocommit, in_transaction, call, maybe_executed, failure) in rows {
        let (mut logical, now) = (raw(autocommit), Duration::ZERO);
        if in_transaction {
            logical.call(now, Call::Execute(Statement::Plain));
            logical.report(now, Report::Ran(Ran::Done { in_transaction }));
        }
        let run = logical.call(now, call.clone());
        assert!(matches!(run, Command::Run(_)), "{call:?}: {run:?}");
        let open = logical.report(now, Report::Ran(Ran::Lost { maybe_executed }));
        assert!(matches!(open, Command::Open(_)), "{call:?}: {open:?}");
        let done = logical.report(now, Report::Opened(Outcome::Connected));
        assert_eq!(done, Command::Done(Err(failure)), "{call:?}");
        let acknowledge = failure == lost || (in_transaction && call == ends);
        assert_eq!(logical.transaction_lost(), acknowledge, "{call:?}");
        assert!(!logical.in_transaction());
    }
}

/// A connected session on the source of two hosts.
fn raw(autocommit: bool) -> Logical {
    let policy = two_turns().build().unwrap();
    let options = SessionOptions { autocommit, ..policy.session_options() };
    let hosts = [HostId::new(0), HostId::new(1)];
    let mut logical = Logical::new(Arc::new(policy), options, hosts);
    logical.call(Duration::ZERO, Call::Connect);
    let done = logical.report(Duration::ZERO, Report::Opened(Outcome::Connected));
    assert_eq!(done, Command::Done(OK));
    logical
}

#[test]
fn a_lost_transaction_refuses_all_but_rollback_until_acknowledged() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::Begin), OK);
    bench.down(&[1]);
    assert_eq!(bench.query(), Err(Failure::TransactionLost));
    bench.fresh();
    for call in [
        Call::Begin,
        Call::Commit,
        Call::SetAutocommit(true),
        Call::Execute(Statement::EndsTransaction),
        Call::SetDatabase("shop".into()),
    ] {
        assert_eq!(bench.call(call), Err(Failure::TransactionLost));
    }
    assert_eq!(bench.logical().statements_on_secondaries(), 0, "refused, not run");
    assert_eq!(bench.call(Call::SetMode(AccessMode::ReadOnly)), OK);
    assert_eq!(bench.call(Call::Rollback), OK);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.fresh(), "");
}

#[test]
fn everything_the_session_set_is_carried_to_the_next_host() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    let done = Report::Ran(Ran::Done { in_transaction: false });
    for call in [
        Call::SetAutocommit(false),
        Call::SetDatabase("shop".into()),
        Call::SetIsolation(Isolation::ReadCommitted),
    ] {
        logical.call(now, call);
        assert_eq!(logical.report(now, done), Command::Done(OK));
    }
    logical.note_database("stock".into());
    logical.call(now, Call::Execute(Statement::Plain));
    let command = logical.report(now, Report::Ran(Ran::Lost { maybe_executed: true }));
    let Command::Open(open) = command else { panic!("{command:?}") };
    let carry = Carry {
        autocommit: false,
        database: Some("stock".into()),
        isolation: Some(Isolation::ReadCommitted),
        mode: AccessMode::ReadOnly,
    };
    assert_eq!((open.host, open.carry), (HostId::new(1), carry));
}

#[test]
fn a_setting_that_failed_is_not_carried() {
    let mut logical = raw(true);
    logical.call(Duration::ZERO, Call::SetAutocommit(false));
    let refused = logical.report(Duration::ZERO, Report::Ran(Ran::Refused));
    assert_eq!(refused, Command::Done(Err(Failure::Statement)));
    assert!(logical.autocommit());
}

#[test]
fn an_explicit_close_is_final_and_values_stay_readable() {
    let mut bench = Bench::new(2, two_turns().auto_reconnect(true));
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::SetDatabase("shop".into())), OK);
    assert_eq!(bench.call(Call::Close), OK);
    assert_eq!(bench.call(Call::Close), OK);
    for call in [Call::Connect, Call::Execute(Statement::Plain), Call::Rollback] {
        assert_eq!(bench.call(call), Err(Failure::Closed));
    }
    assert_eq!(bench.history(), "/H1");
    assert!(bench.logical().is_closed());
    assert_eq!(bench.logical().database(), Some("shop"));
    assert!(bench.logical().autocommit());
}

#[test]
fn with_auto_reconnect_the_next_use_after_an_implicit_close_starts_at_the_source() {
    for for_pools in [false, true] {
        let policy = two_turns()
            .auto_reconnect(!for_pools)
            .auto_reconnect_for_pools(for_pools)
            .max_reconnects(1);
        let mut bench = Bench::new(3, policy);
        assert_eq!(bench.down(&[1]).connect(), OK);
        bench.down(&[2, 3]);
        assert_eq!(bench.query(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
        bench.fresh();
        bench.up(&[3]);
        assert_eq!(bench.query(), OK);
        assert_eq!(bench.fresh(), r"\H1 \H2 /H3");
    }
}

#[test]
fn an_implicit_close_can_be_opened_again_by_hand() {
    let mut bench = Bench::new(2, two_turns());
    assert!(bench.down(&[1, 2]).connect().is_err());
    assert_eq!(bench.up(&[1]).query(), Err(Failure::Closed));
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.query(), OK);
}

/// The commands of a statement after one failure was seen.
fn statement_after_failure(options: impl FnOnce(&mut SessionOptions)) -> Command {
    let policy = two_turns().build().unwrap();
    let mut session_options = policy.session_options();
    options(&mut session_options);
    let hosts = [HostId::new(0), HostId::new(1)];
    let mut logical = Logical::new(Arc::new(policy), session_options, hosts);
    let now = Duration::ZERO;
    logical.call(now, Call::Connect);
    logical.report(now, Report::Opened(Outcome::Connected));
    logical.call(now, Call::Execute(Statement::Plain));
    logical.report(now, Report::Ran(Ran::Lost { maybe_executed: true }));
    logical.report(now, Report::Opened(Outcome::Connected));
    logical.call(now, Call::Execute(Statement::Plain))
}

#[test]
fn a_ping_precedes_the_next_statement_after_a_failure() {
    let (ping, run) = (Command::Run(Job::Ping), Command::Run(Job::Statement));
    assert_eq!(statement_after_failure(|_| ()), run);
    assert_eq!(statement_after_failure(|options| options.auto_reconnect = true), ping);
    let off = |options: &mut SessionOptions| {
        options.auto_reconnect = true;
        options.autocommit = false;
    };
    assert_eq!(statement_after_failure(off), run);
    let pools = |options: &mut SessionOptions| {
        options.auto_reconnect_for_pools = true;
        options.autocommit = false;
    };
    assert_eq!(statement_after_failure(pools), ping);
    let at_end = |options: &mut SessionOptions| {
        options.auto_reconnect = true;
        options.reconnect_at_tx_end = true;
    };
    assert_eq!(statement_after_failure(at_end), run);
}

#[test]
fn with_reconnect_at_tx_end_a_dead_connection_is_replaced_before_the_next_transaction() {
    let policy = two_turns().auto_reconnect(true).max_reconnects(1).reconnect_at_tx_end(true);
    let mut bench = Bench::new(2, policy);
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::Begin), OK);
    assert_eq!(bench.call(Call::Commit), OK);
    bench.down(&[1]);
    // Nothing of the statement was sent, so it runs on the new connection.
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.history(), "/H1 /H2");
}

#[test]
fn a_demoted_source_is_left_and_the_error_says_not_executed() {
    let mut bench = Bench::new(3, two_turns());
    assert_eq!(bench.connect(), OK);
    bench.set(HostState::ReadOnly, &[1]);
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.host(), Some(1), "reads do not notice");
    assert_eq!(bench.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!((bench.host(), bench.mode()), (Some(2), "ro"));
    // It is not returned to before it is writable again.
    bench.wait(30 * S).queries(1);
    assert_eq!(bench.history(), r"/H1 /H2 \H1");
    bench.up(&[1]).wait(30 * S).queries(1);
    assert_eq!(bench.host(), Some(1));
}

#[test]
fn a_demoted_source_is_kept_if_configured_or_if_there_is_no_other_host() {
    let mut kept = Bench::new(3, two_turns().leave_demoted(false));
    assert_eq!(kept.connect(), OK);
    kept.set(HostState::ReadOnly, &[1]);
    assert_eq!(kept.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!(kept.history(), "/H1");

    let mut alone = Bench::new(1, two_turns());
    assert_eq!(alone.connect(), OK);
    alone.set(HostState::ReadOnly, &[1]);
    assert_eq!(alone.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!(alone.history(), "/H1");
}

#[test]
fn a_demotion_inside_a_transaction_loses_it() {
    let mut bench = Bench::new(2, two_turns());
    assert_eq!(bench.connect(), OK);
    assert_eq!(bench.call(Call::Begin), OK);
    bench.set(HostState::ReadOnly, &[1]);
    assert_eq!(bench.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!(bench.host(), Some(2));
    assert_eq!(bench.query(), Err(Failure::TransactionLost));
    assert_eq!(bench.call(Call::Rollback), OK);
}

#[test]
fn a_write_on_a_read_only_secondary_stays_there() {
    let mut bench = away(two_turns());
    assert_eq!(bench.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!((bench.fresh(), bench.host()), (String::new(), Some(2)));
}

#[test]
fn a_silent_host_is_left_after_the_socket_timeout() {
    let policy = two_turns().build().unwrap();
    let options = policy.session_options();
    let world = World::new(["H1", "H2"]);
    let session = Session::new(world, Arc::new(policy), options).with_socket_timeout(3 * S);
    let mut bench = Bench { session, seen: 0 };
    assert_eq!(bench.connect(), OK);
    bench.set(HostState::Hang, &[1]);
    assert_eq!(bench.query(), Err(Failure::OutcomeUnknown));
    assert_eq!((bench.history(), bench.session.world().now()), ("/H1 /H2".to_owned(), 3 * S));
}

#[test]
fn a_refused_password_ends_the_walk_but_not_the_session() {
    let mut bench = Bench::new(3, two_turns());
    assert_eq!(bench.connect(), OK);
    bench.down(&[1]).set(HostState::Auth, &[2]);
    assert_eq!(bench.query(), Err(Failure::FailoverFailed(GiveUp::Permanent)));
    assert_eq!((bench.fresh(), bench.host()), (r"/H1 \H2".to_owned(), None));
    // The next use looks for a connection again and says that the link was lost.
    bench.up(&[2]);
    assert_eq!(bench.query(), Err(Failure::Switched));
    assert_eq!(bench.query(), OK);
    assert_eq!(bench.fresh(), "/H2");
}

#[test]
fn one_host_alone_is_a_plain_reconnect() {
    let mut bench = Bench::new(1, two_turns());
    assert_eq!(bench.connect(), OK);
    bench.down(&[1]).up(&[1]);
    assert_eq!(bench.query(), Err(Failure::OutcomeUnknown));
    assert_eq!(bench.query(), OK);
    bench.down(&[1]);
    assert_eq!(bench.query(), Err(Failure::FailoverFailed(GiveUp::Exhausted)));
    assert_eq!(bench.history(), r"/H1 /H1 \H1 \H1");
}

#[test]
fn a_call_dropped_while_it_ran_costs_the_connection() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    logical.call(now, Call::Execute(Statement::Plain));
    // Its future is gone. The next call looks for a connection and fails loudly.
    let command = logical.call(now, Call::Execute(Statement::Plain));
    assert!(matches!(command, Command::Open(_)), "{command:?}");
    let done = logical.report(now, Report::Opened(Outcome::Connected));
    assert_eq!(done, Command::Done(Err(Failure::Switched)));
    assert_eq!(logical.call(now, Call::Execute(Statement::Plain)), Command::Run(Job::Statement));
}

#[test]
fn a_call_dropped_inside_a_transaction_loses_it() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    logical.call(now, Call::Begin);
    logical.report(now, Report::Ran(Ran::Done { in_transaction: true }));
    logical.call(now, Call::Execute(Statement::Plain));
    logical.abandon(now);
    assert!(logical.transaction_lost());
    assert_eq!(logical.call(now, Call::Commit), Command::Done(Err(Failure::TransactionLost)));
    let command = logical.call(now, Call::Rollback);
    assert!(matches!(command, Command::Open(_)), "{command:?}");
    let done = logical.report(now, Report::Opened(Outcome::Connected));
    assert_eq!(done, Command::Done(OK));
}

#[test]
fn a_call_dropped_during_the_walk_starts_it_anew_on_the_next_use() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    logical.call(now, Call::Execute(Statement::Plain));
    let failed = Outcome::Failed { verdict: Verdict::HostDown, by_budget: false };
    logical.report(now, Report::Ran(Ran::Lost { maybe_executed: true }));
    logical.report(now, Report::Opened(failed));
    assert_eq!(logical.host(), None);
    let Command::Open(open) = logical.call(now, Call::Commit) else { panic!() };
    assert_eq!(open.host, HostId::new(1));
}

#[test]
fn a_call_dropped_while_it_returned_keeps_the_connection() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    logical.call(now, Call::Execute(Statement::Plain));
    logical.report(now, Report::Ran(Ran::Lost { maybe_executed: true }));
    logical.report(now, Report::Opened(Outcome::Connected));
    logical.call(30 * S, Call::Execute(Statement::Plain));
    let command = logical.report(30 * S, Report::Ran(Ran::Done { in_transaction: false }));
    let Command::Open(open) = command else { panic!("{command:?}") };
    assert!(open.check_role);
    logical.abandon(31 * S);
    assert_eq!(logical.host(), Some(HostId::new(1)));
    // And the attempt counts: the next one is a whole interval later.
    logical.call(60 * S, Call::Execute(Statement::Plain));
    let command = logical.report(60 * S, Report::Ran(Ran::Done { in_transaction: false }));
    assert_eq!(command, Command::Done(OK));
}

#[test]
fn a_mirrored_pair_stays_where_it_is_and_walks_from_there() {
    let policy = Mirrored::default();
    let world = World::new(["A", "B"]);
    let session = Session::new(world, Arc::new(policy), SessionOptions::default());
    let mut bench = Bench { session, seen: 0 };
    assert_eq!(bench.connect(), OK);
    bench.set(HostState::Inactive, &[1]).query().unwrap_err();
    assert_eq!(bench.fresh(), r"/A \A /B");
    assert_eq!(bench.mode(), "rw");
    bench.up(&[1]).wait(1_000 * S).queries(100);
    assert_eq!(bench.fresh(), "");
    // The new principal is demoted in turn: found by a write, left, and the other side serves.
    bench.set(HostState::ReadOnly, &[2]);
    assert_eq!(bench.run(Query::Write), Err(Failure::NotWritable));
    assert_eq!(bench.fresh(), "/B");
}

#[test]
fn a_changed_host_list_is_used_by_the_next_walk() {
    let mut logical = raw(true);
    logical.set_hosts([HostId::new(7), HostId::new(8)]);
    assert_eq!(logical.host(), Some(HostId::new(0)));
    let now = Duration::ZERO;
    logical.call(now, Call::Execute(Statement::Plain));
    let command = logical.report(now, Report::Ran(Ran::Lost { maybe_executed: true }));
    let Command::Open(open) = command else { panic!("{command:?}") };
    assert_eq!(open.host, HostId::new(7));
}

#[test]
fn errors_by_verdict() {
    assert_eq!(Ran::failed(Verdict::Demoted, true), Ran::NotWritable);
    assert_eq!(Ran::failed(Verdict::Statement, true), Ran::Refused);
    for verdict in [Verdict::ConnectionLost, Verdict::ConnectionEnded, Verdict::HostDown] {
        assert_eq!(Ran::failed(verdict, false), Ran::Lost { maybe_executed: false });
    }
}

#[test]
fn a_report_out_of_turn_ends_the_call_and_never_panics() {
    let mut logical = raw(true);
    let now = Duration::ZERO;
    assert_eq!(logical.report(now, Report::Waited), Command::Done(Err(Failure::Closed)));
    logical.call(now, Call::Execute(Statement::Plain));
    assert_eq!(logical.report(now, Report::Waited), Command::Done(Err(Failure::Closed)));
    assert_eq!(logical.host(), None);
}

/// A logical connection on H2, whose source is due after every statement.
fn strayed() -> Logical {
    let policy = two_turns().queries_before_retry_source(1).build().unwrap();
    let options = policy.session_options();
    let hosts = [HostId::new(0), HostId::new(1)];
    let mut logical = Logical::new(Arc::new(policy), options, hosts);
    let mut command = logical.call(Duration::ZERO, Call::Connect);
    while let Command::Open(open) = &command {
        let outcome = match open.host == hosts[1] {
            true => Outcome::Connected,
            false => Outcome::Failed { verdict: Verdict::HostDown, by_budget: false },
        };
        command = logical.report(Duration::ZERO, Report::Opened(outcome));
    }
    assert_eq!((command, logical.host()), (Command::Done(OK), Some(hosts[1])));
    logical
}

fn run(logical: &mut Logical) -> Command {
    let run = logical.call(Duration::ZERO, Call::Execute(Statement::Plain));
    assert_eq!(run, Command::Run(Job::Statement));
    logical.report(Duration::ZERO, Report::Ran(Ran::Done { in_transaction: false }))
}

#[test]
fn what_is_bound_to_the_connection_holds_the_session_there() {
    let mut logical = strayed();
    logical.hold(true);
    for _ in 0..3 {
        assert_eq!(run(&mut logical), Command::Done(OK));
    }
    logical.hold(false);
    assert!(matches!(run(&mut logical), Command::Open(open) if open.host == HostId::new(0)));
}

#[test]
fn a_link_that_is_lost_between_two_calls_is_told_by_the_next_one() {
    let mut logical = strayed();
    logical.link_lost();
    assert_eq!(logical.host(), None);
    let command = logical.call(Duration::ZERO, Call::Execute(Statement::Plain));
    assert!(matches!(command, Command::Open(_)), "nothing is sent on the lost one: {command:?}");
    let told = logical.report(Duration::ZERO, Report::Opened(Outcome::Connected));
    assert_eq!(told, Command::Done(Err(Failure::Switched)));
}

#[test]
fn a_transaction_goes_with_a_link_that_is_lost_between_two_calls() {
    let mut logical = strayed();
    assert_eq!(logical.call(Duration::ZERO, Call::Begin), Command::Run(Job::Begin));
    let begun = logical.report(Duration::ZERO, Report::Ran(Ran::Done { in_transaction: true }));
    assert_eq!(begun, Command::Done(OK));
    logical.link_lost();
    assert!(logical.transaction_lost() && !logical.in_transaction());
    let refused = logical.call(Duration::ZERO, Call::Execute(Statement::Plain));
    assert_eq!(refused, Command::Done(Err(Failure::TransactionLost)));
}

#[test]
fn autocommit_that_a_text_switched_is_carried_along() {
    let mut logical = strayed();
    logical.note_autocommit(false);
    logical.link_lost();
    let command = logical.call(Duration::ZERO, Call::Connect);
    assert!(matches!(command, Command::Open(open) if !open.carry.autocommit));
}
