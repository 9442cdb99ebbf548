#![allow(clippy::unwrap_used)]

use super::super::sim::{HostState, WalkEnd, World};
use super::super::{GiveUp, Outcome, Step};
use super::*;
use crate::host::HostId;
use crate::verdict::Verdict;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const TIMED_OUT: WalkEnd = WalkEnd::GaveUp(GiveUp::TimedOut);

const A: HostId = HostId::new(0);
const B: HostId = HostId::new(1);

fn pair(a: HostState, b: HostState) -> World {
    let mut world = World::new(["A", "B"]);
    world.set(A, a);
    world.set(B, b);
    world
}

fn timeout(seconds: u32, rule: DelayRule) -> Mirrored {
    Mirrored::builder().login_timeout(seconds * S).delay_rule(rule).build().unwrap()
}

/// Start in ms, side, budget in ms of every attempt.
fn timeline(world: &World) -> Vec<(u128, &str, u128)> {
    world
        .attempts()
        .iter()
        .map(|tried| (tried.start.as_millis(), world.name(tried.host), tried.budget.as_millis()))
        .collect()
}

/// The starts of the rounds in ms, and the budget of their first attempt.
fn rounds(world: &World) -> Vec<(u128, u128)> {
    timeline(world).iter().step_by(2).map(|(start, _, budget)| (*start, *budget)).collect()
}

#[test]
fn silent_partners_within_15_seconds_early() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!(
        timeline(&world),
        [
            (0, "A", 1_200),
            (1_200, "B", 1_200),
            (2_400, "A", 2_400),
            (4_800, "B", 2_400),
            (7_200, "A", 3_600),
            (10_800, "B", 3_600),
            (14_400, "A", 600),
        ]
    );
    assert_eq!((world.now(), end), (15 * S, TIMED_OUT));
}

#[test]
fn silent_partners_within_15_seconds_always() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let end = world.walk_from(&timeout(15, DelayRule::Always), None);
    assert_eq!(
        timeline(&world),
        [
            (0, "A", 1_200),
            (1_200, "B", 1_200),
            (2_500, "A", 2_400),
            (4_900, "B", 2_400),
            (7_500, "A", 3_600),
            (11_100, "B", 3_600),
        ]
    );
    assert_eq!((world.now(), end), (14_700 * MS, TIMED_OUT));
}

#[test]
fn silent_partners_within_5_seconds_early() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let end = world.walk_from(&timeout(5, DelayRule::Early), None);
    assert_eq!(
        timeline(&world),
        [
            (0, "A", 400),
            (400, "B", 400),
            (800, "A", 800),
            (1_600, "B", 800),
            (2_400, "A", 1_200),
            (3_600, "B", 1_200),
            (4_800, "A", 200),
        ]
    );
    assert_eq!((world.now(), end), (5 * S, TIMED_OUT));
}

#[test]
fn silent_partners_within_30_seconds_always() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let end = world.walk_from(&timeout(30, DelayRule::Always), None);
    assert_eq!(
        timeline(&world),
        [
            (0, "A", 2_400),
            (2_400, "B", 2_400),
            (4_900, "A", 4_800),
            (9_700, "B", 4_800),
            (14_700, "A", 7_200),
            (21_900, "B", 7_200),
            (29_500, "A", 500),
        ]
    );
    assert_eq!((world.now(), end), (30 * S, TIMED_OUT));
}

#[test]
fn silent_partners_without_limit_grow_to_15_seconds_and_alternate_for_ever() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let policy = timeout(0, DelayRule::Early);
    let hosts = world.views();
    let view = View { hosts: &hosts, current: None, left_source_at: None, statements: 0 };
    let end = world.walk(policy.plan(&view).as_mut(), Some(400 * S));
    assert_eq!(end, WalkEnd::Limit);
    let seen = timeline(&world);
    assert_eq!(
        seen[..10],
        [
            (0, "A", 1_200),
            (1_200, "B", 1_200),
            (2_400, "A", 2_400),
            (4_800, "B", 2_400),
            (7_200, "A", 3_600),
            (10_800, "B", 3_600),
            (14_400, "A", 4_800),
            (19_200, "B", 4_800),
            (24_000, "A", 6_000),
            (30_000, "B", 6_000),
        ]
    );
    let rounds = rounds(&world);
    assert_eq!(rounds[11], (158_400, 14_400));
    assert_eq!(rounds[12], (187_200, 15_000));
    assert_eq!(rounds[13], (217_200, 15_000));
    assert_eq!(rounds[18], (367_200, 15_000));
}

#[test]
fn refusals_at_once_within_15_seconds_end_at_14_5_after_36_attempts_under_either_rule() {
    for rule in [DelayRule::Early, DelayRule::Always] {
        let mut world = pair(HostState::Down, HostState::Down);
        let end = world.walk_from(&timeout(15, rule), None);
        let expected = [
            (0, 1_200),
            (100, 2_400),
            (300, 3_600),
            (700, 4_800),
            (1_500, 6_000),
            (2_500, 7_200),
            (3_500, 8_400),
            (4_500, 9_600),
            (5_500, 9_500),
            (6_500, 8_500),
            (7_500, 7_500),
            (8_500, 6_500),
            (9_500, 5_500),
            (10_500, 4_500),
            (11_500, 3_500),
            (12_500, 2_500),
            (13_500, 1_500),
            (14_500, 500),
        ];
        assert_eq!(rounds(&world), expected, "{rule:?}");
        assert_eq!(world.attempts().len(), 36);
        assert_eq!((world.now(), end), (14_500 * MS, TIMED_OUT));
    }
}

#[test]
fn refusals_at_once_within_5_seconds_end_at_4_5_after_16_attempts() {
    let mut world = pair(HostState::Down, HostState::Down);
    let end = world.walk_from(&timeout(5, DelayRule::Early), None);
    let expected = [
        (0, 400),
        (100, 800),
        (300, 1_200),
        (700, 1_600),
        (1_500, 2_000),
        (2_500, 2_400),
        (3_500, 1_500),
        (4_500, 500),
    ];
    assert_eq!(rounds(&world), expected);
    assert_eq!(world.attempts().len(), 16);
    assert_eq!((world.now(), end), (4_500 * MS, TIMED_OUT));
}

#[test]
fn refusals_that_take_5_ms_move_every_round() {
    for rule in [DelayRule::Early, DelayRule::Always] {
        let mut world = pair(HostState::Down, HostState::Down).answering_after(5 * MS);
        let end = world.walk_from(&timeout(15, rule), None);
        let starts: Vec<u128> = rounds(&world).iter().map(|(start, _)| *start).collect();
        let mut expected = vec![0, 110, 320, 730, 1_540];
        expected.extend((0..13).map(|round| 2_550 + 1_010 * round));
        assert_eq!(starts, expected);
        assert_eq!(expected.last(), Some(&14_670));
        assert_eq!(world.attempts().len(), 36);
        assert_eq!((world.now(), end), (14_680 * MS, TIMED_OUT));
    }
}

/// The first eight attempts take 8 8 16 16 24 24 32 32 % of the login timeout.
#[test]
fn the_slices_are_8_percent_times_the_round() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let hosts = world.views();
    let view = View { hosts: &hosts, current: None, left_source_at: None, statements: 0 };
    let mut plan = timeout(100, DelayRule::Early).plan(&view);
    // Nothing takes time here, so nothing is cut.
    let silent = Outcome::Failed { verdict: Verdict::HostDown, by_budget: true };
    let mut last = None;
    let mut shares = Vec::new();
    for _ in 0..8 {
        let Step::Try { host, budget } = plan.next(S, last.as_ref()) else { panic!("no try") };
        shares.push((world.name(host).to_owned(), budget.as_secs()));
        last = Some(silent);
    }
    let expected = [8, 8, 16, 16, 24, 24, 32, 32];
    assert_eq!(shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(), expected);
    let sides: String = shares.iter().map(|(side, _)| side.as_str()).collect();
    assert_eq!(sides, "ABABABAB");
    world.advance(S);
}

/// The eight attempts of the support note at 15 s: the limit falls into the seventh, B has had
/// three.
#[test]
fn the_limit_of_15_seconds_falls_into_the_seventh_of_the_eight_listed_attempts() {
    let listed = [1_200, 1_200, 2_400, 2_400, 3_600, 3_600, 4_800, 4_800];
    let mut world = pair(HostState::Hang, HostState::Hang);
    world.walk_from(&Mirrored::default(), None);
    let seen = timeline(&world);
    for (index, (_, side, budget)) in seen.iter().enumerate() {
        assert_eq!(*side, if index % 2 == 0 { "A" } else { "B" });
        assert_eq!(*budget, if index < 6 { listed[index] } else { 600 });
    }
    assert_eq!(seen.len(), 7);
    assert_eq!(seen.iter().filter(|(_, side, _)| *side == "B").count(), 3);
    assert_eq!(listed[..6].iter().sum::<u128>(), 14_400);
}

#[test]
fn slices_are_integer_nanoseconds_of_the_whole_timeout() {
    let policy = Mirrored::builder().login_timeout(14_987 * MS).build().unwrap();
    let mut world = pair(HostState::Hang, HostState::Hang);
    world.walk_from(&policy, None);
    let budgets: Vec<u128> = world.attempts().iter().map(|tried| tried.budget.as_nanos()).collect();
    let unit = 1_198_960_000;
    assert_eq!(budgets[..6], [unit, unit, 2 * unit, 2 * unit, 3 * unit, 3 * unit]);
    assert_eq!(world.now(), 14_987 * MS);
}

#[test]
fn a_round_without_delay_still_uses_up_its_place() {
    // Round 1 is silent on both sides; B refuses from round 2 on, so the first delay is 200 ms.
    let mut world = pair(HostState::Hang, HostState::Hang);
    world.set_at(B, 2 * S, HostState::Down);
    world.walk_from(&Mirrored::default(), None);
    let seen = timeline(&world);
    assert_eq!(seen[2..4], [(2_400, "A", 2_400), (4_800, "B", 2_400)]);
    assert_eq!(seen[4], (5_000, "A", 3_600));
}

#[test]
fn one_early_end_on_either_side_is_enough_for_a_delay() {
    for (a, b) in [(HostState::Down, HostState::Hang), (HostState::Hang, HostState::Down)] {
        let mut world = pair(a, b);
        world.walk_from(&Mirrored::default(), None);
        assert_eq!(timeline(&world)[2].0, 1_300, "{a} {b}");
    }
}

#[test]
fn a_delay_that_would_use_up_all_the_time_left_is_not_slept() {
    // Round 5 starts at 1.5 s; exactly the second of its delay would be left.
    let policy = Mirrored::builder().login_timeout(2_500 * MS).build().unwrap();
    let mut world = pair(HostState::Down, HostState::Down);
    let end = world.walk_from(&policy, None);
    assert_eq!(world.attempts().len(), 10);
    assert_eq!((world.now(), end), (1_500 * MS, TIMED_OUT));
}

#[test]
fn an_early_end_is_decided_by_what_ended_the_attempt_not_by_the_clock() {
    let hosts = pair(HostState::Up, HostState::Up).views();
    let view = View { hosts: &hosts, current: None, left_source_at: None, statements: 0 };
    let mut plan = Mirrored::default().plan(&view);
    let failed = |by_budget| Outcome::Failed { verdict: Verdict::HostDown, by_budget };
    plan.next(Duration::ZERO, None);
    plan.next(1_200 * MS, Some(&failed(true)));
    // An answer in the very instant in which the slice ended.
    assert_eq!(plan.next(2_400 * MS, Some(&failed(false))), Step::Wait(100 * MS));
}

/// Behaviour 17.
#[test]
fn a_silent_initial_partner_is_left_after_8_percent() {
    let mut world = pair(HostState::Hang, HostState::Up);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!(timeline(&world), [(0, "A", 1_200), (1_200, "B", 1_200)]);
    assert_eq!((world.now(), end), (1_200 * MS, WalkEnd::Connected(B)));
}

#[test]
fn a_refusing_or_inactive_initial_partner_is_left_at_once() {
    for state in [HostState::Down, HostState::Inactive] {
        let mut world = pair(state, HostState::Up);
        let end = world.walk_from(&Mirrored::default(), None);
        assert_eq!(world.history(), ["\\A", "/B"]);
        assert_eq!((world.now(), end), (Duration::ZERO, WalkEnd::Connected(B)));
    }
}

/// Behaviour 16.
#[test]
fn a_partner_that_becomes_principal_is_found_by_the_next_round() {
    let mut world = pair(HostState::Inactive, HostState::Inactive);
    world.set_at(B, 3_200 * MS, HostState::Up);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!((world.now(), end), (3_500 * MS, WalkEnd::Connected(B)));
    assert_eq!(rounds(&world).len(), 7);
}

/// Behaviour 15, second part.
#[test]
fn a_refused_login_stops_at_once_and_leaves_the_partner_alone() {
    let mut world = pair(HostState::Auth, HostState::Up);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!(world.history(), ["\\A"]);
    assert_eq!(end, WalkEnd::GaveUp(GiveUp::Permanent));
}

/// Behaviours 1 and 15, third part: throttled A twice, B never.
#[test]
fn a_throttling_host_is_tried_again_itself_after_the_interval() {
    let mut world = pair(HostState::Busy, HostState::Up);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!(timeline(&world), [(0, "A", 1_200), (10_000, "A", 1_200)]);
    assert_eq!(end, WalkEnd::GaveUp(GiveUp::Exhausted));

    let mut cured = pair(HostState::Busy, HostState::Up);
    cured.set_at(A, 9 * S, HostState::Up);
    assert_eq!(cured.walk_from(&Mirrored::default(), None), WalkEnd::Connected(A));
}

/// Behaviour 5: the count is exact, and the login timeout bounds the total.
#[test]
fn throttling_retries_are_counted_and_bounded() {
    let walk = |count, interval: Duration| {
        let policy = Mirrored::builder()
            .connect_retry_count(count)
            .connect_retry_interval(interval)
            .build()
            .unwrap();
        let mut world = pair(HostState::Busy, HostState::Up);
        let end = world.walk_from(&policy, None);
        assert_eq!(end, WalkEnd::GaveUp(GiveUp::Exhausted));
        (world.history().join(" "), world.now())
    };
    assert_eq!(walk(0, 10 * S), (r"\A".to_owned(), Duration::ZERO));
    assert_eq!(walk(2, 3 * S), (r"\A \A \A".to_owned(), 6 * S));
    // No room for a second interval of 8 s within 15 s: the error surfaces without waiting.
    assert_eq!(walk(9, 8 * S), (r"\A \A".to_owned(), 8 * S));
    assert_eq!(walk(9, 16 * S), (r"\A".to_owned(), Duration::ZERO));
}

#[test]
fn a_throttled_walk_starts_over_with_the_slice_of_round_1() {
    // Round 1 refused on both sides, A throttles in round 2, and is silent when tried again.
    let mut world = pair(HostState::Down, HostState::Down);
    world.set_at(A, 50 * MS, HostState::Busy);
    world.set_at(A, S, HostState::Hang);
    world.set_at(B, S, HostState::Hang);
    let policy = Mirrored::builder().connect_retry_interval(2 * S).build().unwrap();
    world.walk_from(&policy, None);
    assert_eq!(
        timeline(&world)[..6],
        [
            (0, "A", 1_200),
            (0, "B", 1_200),
            (100, "A", 2_400),
            (2_100, "A", 1_200),
            (3_300, "B", 1_200),
            (4_500, "A", 2_400),
        ]
    );
}

#[test]
fn a_walk_starts_on_the_side_that_served_last() {
    let mut world = pair(HostState::Hang, HostState::Hang);
    let end = world.walk_from(&Mirrored::default(), Some(B));
    let sides: String = timeline(&world).iter().map(|(_, side, _)| *side).collect();
    assert_eq!(sides, "BABABAB");
    assert_eq!((world.now(), end), (15 * S, TIMED_OUT));
}

#[test]
fn one_silent_host_alone_gets_the_whole_login_timeout() {
    let mut world = World::new(["A"]);
    world.set(A, HostState::Hang);
    let end = world.walk_from(&Mirrored::default(), None);
    assert_eq!(timeline(&world), [(0, "A", 15_000)]);
    assert_eq!((world.now(), end), (15 * S, TIMED_OUT));
}

#[test]
fn one_refusing_host_alone_is_tried_with_the_same_delays() {
    for rule in [DelayRule::Early, DelayRule::Always] {
        let mut world = World::new(["A"]);
        world.set(A, HostState::Down);
        let end = world.walk_from(&timeout(5, rule), None);
        assert_eq!(
            timeline(&world),
            [
                (0, "A", 5_000),
                (100, "A", 4_900),
                (300, "A", 4_700),
                (700, "A", 4_300),
                (1_500, "A", 3_500),
                (2_500, "A", 2_500),
                (3_500, "A", 1_500),
                (4_500, "A", 500),
            ]
        );
        assert_eq!((world.now(), end), (4_500 * MS, TIMED_OUT));
    }
}

#[test]
fn one_host_alone_without_limit_gets_15_seconds_per_attempt() {
    let mut world = World::new(["A"]);
    world.set(A, HostState::Hang);
    let hosts = world.views();
    let view = View { hosts: &hosts, current: None, left_source_at: None, statements: 0 };
    let mut plan = timeout(0, DelayRule::Early).plan(&view);
    assert_eq!(world.walk(plan.as_mut(), Some(40 * S)), WalkEnd::Limit);
    assert_eq!(timeline(&world), [(0, "A", 15_000), (15_100, "A", 15_000), (30_300, "A", 15_000)]);
}

#[test]
fn inactive_on_the_only_host_is_a_wrong_name() {
    let mut world = World::new(["A"]);
    world.set(A, HostState::Inactive);
    assert_eq!(world.walk_from(&Mirrored::default(), None), WalkEnd::GaveUp(GiveUp::Permanent));
    assert_eq!(world.history(), ["\\A"]);
}

#[test]
fn hosts_beyond_the_pair_are_never_tried() {
    let mut world = World::new(["A", "B", "C"]);
    world.set(A, HostState::Down);
    world.set(B, HostState::Down);
    world.walk_from(&Mirrored::default(), Some(HostId::new(2)));
    assert!(world.attempts().iter().all(|tried| tried.host != HostId::new(2)));
}

#[test]
fn a_least_slice_lengthens_only_the_short_ones() {
    let policy = Mirrored::builder().min_slice(2 * S).build().unwrap();
    let mut world = pair(HostState::Hang, HostState::Hang);
    world.walk_from(&policy, None);
    let budgets: Vec<u128> = timeline(&world).iter().map(|(_, _, budget)| *budget).collect();
    assert_eq!(budgets, [2_000, 2_000, 2_400, 2_400, 3_600, 2_600]);
}

#[test]
fn a_short_login_timeout_warns_only_with_a_partner() {
    for (seconds, hosts, warned) in
        [(4, 2, true), (1, 2, true), (5, 2, false), (0, 2, false), (4, 1, false)]
    {
        let warnings = timeout(seconds, DelayRule::Early).warnings(hosts);
        assert_eq!(!warnings.is_empty(), warned, "{seconds} s, {hosts} hosts: {warnings:?}");
    }
}

#[test]
fn bad_settings_are_named() {
    let named = |builder: MirroredBuilder| builder.build().unwrap_err().option();
    assert_eq!(named(Mirrored::builder().login_timeout(Duration::from_nanos(5))), "login_timeout");
    let interval = |interval| Mirrored::builder().connect_retry_interval(interval);
    assert_eq!(named(interval(Duration::ZERO)), "connect_retry_interval");
    assert_eq!(named(interval(61 * S)), "connect_retry_interval");
    assert_eq!(named(Mirrored::builder().min_slice(16 * S)), "min_slice");
}
