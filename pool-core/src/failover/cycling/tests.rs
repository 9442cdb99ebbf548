#![allow(clippy::unwrap_used)]

use super::super::sim::{HostState, WalkEnd, World};
use super::super::{GiveUp, Outcome, Step};
use super::*;
use crate::host::HostId;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn world(hosts: usize, state: HostState) -> World {
    let mut world = World::new((1..=hosts).map(|number| format!("H{number}")));
    for host in world.views() {
        world.set(host.id, state);
    }
    world
}

fn id(number: u32) -> HostId {
    HostId::new(number - 1)
}

fn turns(limit: u32) -> Cycling {
    Cycling::builder().retries_all_down(limit).build().unwrap()
}

/// The history of one walk and its number of pauses (attempts take no time, pauses 250 ms).
fn all_down(policy: &Cycling, hosts: usize, lost: Option<u32>) -> (String, u128) {
    let mut world = world(hosts, HostState::Down);
    let end = world.walk_from(policy, lost.map(id));
    assert_eq!(end, WalkEnd::GaveUp(GiveUp::Exhausted));
    assert_eq!(world.now().as_millis() % 250, 0);
    (world.history().join(" "), world.now().as_millis() / 250)
}

#[test]
fn everything_down_is_tried_exactly_as_the_table_says() {
    // hosts, turns, host that was lost (0: first connect), history, pauses
    let rows = [
        (1, 0, 0, r"\H1 \H1", 1),
        (1, 1, 0, r"\H1 \H1", 1),
        (1, 2, 0, r"\H1 \H1 \H1", 2),
        (1, 1, 1, r"\H1", 1),
        (1, 2, 1, r"\H1 \H1", 2),
        (2, 0, 0, r"\H1 \H2", 0),
        (2, 0, 1, r"\H2", 0),
        (2, 0, 2, r"\H2", 0),
        (2, 1, 0, r"\H1 \H2 \H1", 1),
        (2, 1, 1, r"\H2 \H1", 1),
        (2, 1, 2, r"\H2 \H1", 1),
        (2, 2, 0, r"\H1 \H2 \H1 \H2 \H1", 2),
        (2, 2, 1, r"\H2 \H1 \H2 \H1", 2),
        (2, 2, 2, r"\H2 \H1 \H2 \H1", 2),
        (3, 0, 0, r"\H1 \H2", 0),
        (3, 0, 1, r"\H2", 0),
        (3, 0, 2, r"\H3", 0),
        (3, 0, 3, r"\H2", 0),
        (3, 1, 0, r"\H1 \H2 \H3 \H1", 1),
        (3, 1, 1, r"\H2 \H3 \H1", 1),
        (3, 1, 2, r"\H3 \H2", 1),
        (3, 1, 3, r"\H2 \H3 \H1", 1),
        (3, 2, 0, r"\H1 \H2 \H3 \H1 \H2 \H3 \H1", 2),
        (3, 2, 1, r"\H2 \H3 \H1 \H2 \H3 \H1", 2),
        (3, 2, 2, r"\H3 \H2 \H3 \H1 \H2", 2),
        (3, 2, 3, r"\H2 \H3 \H1 \H2 \H3 \H1", 2),
    ];
    for (hosts, limit, lost, history, pauses) in rows {
        let seen = all_down(&turns(limit), hosts, (lost > 0).then_some(lost));
        assert_eq!(seen, (history.to_owned(), pauses), "{hosts} hosts, R={limit}, lost H{lost}");
    }
}

#[test]
fn without_automatic_return_the_ring_is_plain() {
    let policy = |limit| {
        Cycling::builder()
            .retries_all_down(limit)
            .seconds_before_retry_source(Duration::ZERO)
            .queries_before_retry_source(0)
            .build()
            .unwrap()
    };
    assert_eq!(policy(1).return_rule(), None);
    let rows = [
        (2, 1, 2, r"\H1 \H2", 1),
        (3, 1, 1, r"\H2 \H3 \H1", 1),
        (3, 1, 2, r"\H3 \H1 \H2", 1),
        (3, 2, 3, r"\H1 \H2 \H3 \H1 \H2 \H3", 2),
    ];
    for (hosts, limit, lost, history, pauses) in rows {
        let seen = all_down(&policy(limit), hosts, Some(lost));
        assert_eq!(seen, (history.to_owned(), pauses), "{hosts} hosts, R={limit}, lost H{lost}");
    }
}

#[test]
fn a_walk_with_every_host_down_ends_from_every_start_whatever_the_number_of_hosts() {
    for hosts in 1..=6 {
        for lost in 0..=hosts {
            for limit in 0..=4 {
                let lost = (lost > 0).then_some(u32::try_from(lost).unwrap());
                all_down(&turns(limit), hosts, lost);
            }
        }
    }
}

/// F01: whatever is up, a first connect takes the first reachable host in list order.
#[test]
fn the_first_connect_takes_the_first_reachable_host() {
    for up in 1..8_u32 {
        let mut world = world(3, HostState::Down);
        let reachable: Vec<u32> = (1..=3).filter(|number| up & (1 << (number - 1)) != 0).collect();
        for number in &reachable {
            world.set(id(*number), HostState::Up);
        }
        let end = world.walk_from(&turns(2), None);
        assert_eq!(end, WalkEnd::Connected(id(reachable[0])));
        let history: Vec<String> = (1..reachable[0])
            .map(|number| format!("\\H{number}"))
            .chain([format!("/H{}", reachable[0])])
            .collect();
        assert_eq!(world.history(), history);
    }
}

#[test]
fn a_refused_password_is_passed_over_on_the_source_at_first_and_final_elsewhere() {
    let walk = |states: [HostState; 3], lost: Option<u32>| {
        let mut world = world(3, HostState::Up);
        for (number, state) in (1..).zip(states) {
            world.set(id(number), state);
        }
        let end = world.walk_from(&turns(2), lost.map(id));
        (world.history().join(" "), end)
    };
    let (auth, down, up) = (HostState::Auth, HostState::Down, HostState::Up);
    let permanent = WalkEnd::GaveUp(GiveUp::Permanent);

    let seen = walk([auth, up, up], None);
    assert_eq!(seen, (r"\H1 /H2".to_owned(), WalkEnd::Connected(id(2))));
    assert_eq!(walk([down, auth, up], None), (r"\H1 \H2".to_owned(), permanent));
    assert_eq!(walk([down, down, auth], None), (r"\H1 \H2 \H3".to_owned(), permanent));
    // The source again, now as part of the ring.
    assert_eq!(walk([auth, down, down], None), (r"\H1 \H2 \H3 \H1".to_owned(), permanent));
    assert_eq!(walk([up, auth, up], Some(1)), (r"\H2".to_owned(), permanent));
}

#[test]
fn a_refused_password_on_the_source_is_passed_over_when_a_return_is_due() {
    let mut world = world(2, HostState::Auth);
    world.set(id(2), HostState::Up);
    let hosts = world.views();
    let view = View {
        hosts: &hosts,
        current: Some(id(2)),
        left_source_at: Some(Duration::ZERO),
        statements: 50,
    };
    let end = world.walk(turns(2).plan(&view).as_mut(), None);
    assert_eq!(
        (world.history().join(" "), end),
        (r"\H1 /H2".to_owned(), WalkEnd::Connected(id(2)))
    );
}

#[test]
fn every_other_error_walks_on() {
    use crate::verdict::Verdict;
    for verdict in Verdict::ALL {
        let hosts = world(2, HostState::Up).views();
        let view =
            View { hosts: &hosts, current: Some(id(1)), left_source_at: None, statements: 0 };
        let mut plan = Cycling::default().plan(&view);
        let try_of = |host| Step::Try { host: id(host), budget: 5 * S };
        assert_eq!(plan.next(S, None), try_of(2));
        let expected = match verdict {
            Verdict::Permanent | Verdict::Statement => Step::GiveUp(GiveUp::Permanent),
            _ => try_of(1),
        };
        let failed = Outcome::Failed { verdict, by_budget: false };
        assert_eq!(plan.next(S, Some(&failed)), expected, "{verdict}");
    }
}

/// Start, budget and host of every attempt, in milliseconds.
fn timeline(world: &World) -> Vec<(u128, u128, &str)> {
    world
        .attempts()
        .iter()
        .map(|tried| (tried.start.as_millis(), tried.budget.as_millis(), world.name(tried.host)))
        .collect()
}

#[test]
fn silent_hosts_cost_the_connect_timeout_each_and_the_deadline_cuts_the_last() {
    let mut world = world(3, HostState::Hang);
    let end = world.walk_from(&Cycling::default(), None);
    assert_eq!(
        timeline(&world),
        [
            (0, 5_000, "H1"),
            (5_000, 5_000, "H2"),
            (10_000, 5_000, "H3"),
            (15_000, 5_000, "H1"),
            (20_250, 5_000, "H2"),
            (25_250, 4_750, "H3"),
        ]
    );
    assert_eq!((world.now(), end), (30 * S, WalkEnd::GaveUp(GiveUp::TimedOut)));
}

#[test]
fn by_default_the_pauses_alone_use_up_the_deadline() {
    let mut refusing = world(3, HostState::Down);
    let end = refusing.walk_from(&Cycling::default(), None);
    assert_eq!((refusing.now(), end), (30 * S, WalkEnd::GaveUp(GiveUp::Exhausted)));
    assert_eq!(refusing.attempts().len(), 1 + 120 * 3);

    // Refusals that take any time at all leave no room for the last turns.
    let mut slow = world(3, HostState::Down).answering_after(MS);
    let end = slow.walk_from(&Cycling::default(), None);
    assert_eq!((slow.now(), end), (30 * S, WalkEnd::GaveUp(GiveUp::TimedOut)));
}

#[test]
fn a_pause_is_cut_at_the_deadline() {
    let policy = Cycling::builder().deadline(400 * MS).build().unwrap();
    let mut world = world(2, HostState::Down);
    let end = world.walk_from(&policy, Some(id(1)));
    assert_eq!(world.history().join(" "), r"\H2 \H1 \H2 \H1");
    assert_eq!((world.now(), end), (400 * MS, WalkEnd::GaveUp(GiveUp::TimedOut)));
}

#[test]
fn the_deadline_counts_from_the_start_of_the_walk_on_any_clock() {
    let mut world = world(2, HostState::Hang);
    world.advance(1_000 * S);
    world.walk_from(&Cycling::default(), None);
    assert_eq!(world.now(), 1_030 * S);
}

#[test]
fn the_return_conditions_are_looked_up_live_during_the_walk() {
    // 3 s after the loss a return is due: the silent H3 takes 5, so the source is not jumped over.
    let policy =
        Cycling::builder().retries_all_down(1).seconds_before_retry_source(3 * S).build().unwrap();
    let mut world = world(3, HostState::Hang);
    world.walk_from(&policy, Some(id(2)));
    assert_eq!(world.history().join(" "), r"\H3 \H1 \H2");
}

#[test]
fn a_due_source_is_tried_first_and_again_at_the_end_of_the_turn() {
    let policy = |limit| {
        Cycling::builder()
            .retries_all_down(limit)
            .seconds_before_retry_source(3 * S)
            .build()
            .unwrap()
    };
    let walk = |limit, state| {
        let mut world = world(3, state);
        world.advance(10 * S);
        let hosts = world.views();
        let view = View {
            hosts: &hosts,
            current: Some(id(3)),
            left_source_at: Some(7 * S),
            statements: 0,
        };
        world.walk(policy(limit).plan(&view).as_mut(), None);
        world.history().join(" ")
    };
    assert_eq!(walk(1, HostState::Down), r"\H1 \H2 \H3 \H1");
    assert_eq!(walk(0, HostState::Down), r"\H1 \H2");
}

#[test]
fn enough_statements_make_the_source_come_first() {
    let walk = |statements| {
        let mut world = world(3, HostState::Up);
        let hosts = world.views();
        let view =
            View { hosts: &hosts, current: Some(id(3)), left_source_at: Some(S), statements };
        world.walk(Cycling::default().plan(&view).as_mut(), None);
        world.history().join(" ")
    };
    assert_eq!(walk(49), "/H2");
    assert_eq!(walk(50), "/H1");
}

#[test]
fn with_auto_reconnect_every_host_is_tried_that_often_with_a_pause_after_each_failure() {
    let policy = Cycling::builder()
        .auto_reconnect(true)
        .max_reconnects(2)
        .retries_all_down(1)
        .build()
        .unwrap();
    let mut world = world(2, HostState::Down);
    let end = world.walk_from(&policy, None);
    assert_eq!(world.history().join(" "), r"\H1 \H1 \H2 \H2 \H1 \H1");
    // Six pauses of 2 s and one turn.
    assert_eq!((world.now(), end), (12_250 * MS, WalkEnd::GaveUp(GiveUp::Exhausted)));
    let starts: Vec<_> = world.attempts().iter().map(|tried| tried.start.as_secs()).collect();
    assert_eq!(starts, [0, 2, 4, 6, 8, 10]);
}

#[test]
fn a_refused_password_is_never_repeated_on_the_same_host() {
    let policy = Cycling::builder().auto_reconnect(true).build().unwrap();
    let mut world = world(2, HostState::Auth);
    let end = world.walk_from(&policy, None);
    assert_eq!(world.history().join(" "), r"\H1 \H2");
    assert_eq!((world.now(), end), (Duration::ZERO, WalkEnd::GaveUp(GiveUp::Permanent)));
}

#[test]
fn a_current_host_that_left_the_list_counts_as_none() {
    let mut world = world(2, HostState::Up);
    world.walk_from(&Cycling::default(), Some(id(9)));
    assert_eq!(world.history().join(" "), "/H1");
}

#[test]
fn no_host_is_exhausted_at_once() {
    let end = world(0, HostState::Up).walk_from(&Cycling::default(), None);
    assert_eq!(end, WalkEnd::GaveUp(GiveUp::Exhausted));
}

#[test]
fn a_plan_that_gave_up_stays_so() {
    let hosts = world(1, HostState::Up).views();
    let view = View { hosts: &hosts, current: Some(id(1)), left_source_at: None, statements: 0 };
    let mut plan = Cycling::default().plan(&view);
    plan.next(S, None);
    let refused = Outcome::Failed { verdict: crate::verdict::Verdict::Permanent, by_budget: false };
    assert_eq!(plan.next(S, Some(&refused)), Step::GiveUp(GiveUp::Permanent));
    assert_eq!(plan.next(S, None), Step::GiveUp(GiveUp::Permanent));
}

#[test]
fn either_half_of_the_return_rule_can_be_switched_off() {
    let rule = |seconds, queries| {
        Cycling::builder()
            .seconds_before_retry_source(Duration::from_secs(seconds))
            .queries_before_retry_source(queries)
            .build()
            .unwrap()
            .return_rule()
    };
    let both = rule(30, 50).unwrap();
    assert!(both.due(30 * S, 0) && both.due(Duration::ZERO, 50) && !both.due(29 * S, 49));
    let time = rule(30, 0).unwrap();
    assert!(time.due(30 * S, 0) && !time.due(29 * S, u64::MAX));
    let count = rule(0, 50).unwrap();
    assert!(count.due(Duration::ZERO, 50) && !count.due(Duration::MAX, 49));
    assert_eq!(rule(0, 0), None);
    assert_eq!(Cycling::default().return_rule(), Some(both));
}

#[test]
fn the_access_mode_on_arrival_follows_fail_over_read_only() {
    use AccessMode::{ReadOnly as Ro, ReadWrite as Rw};
    let forced = Cycling::default();
    let free = Cycling::builder().fail_over_read_only(false).build().unwrap();
    for current in [None, Some(Ro), Some(Rw)] {
        assert_eq!(forced.mode_on(true, None, current), Rw);
        assert_eq!(free.mode_on(true, None, current), Rw);
        assert_eq!(forced.mode_on(true, Some(Ro), current), Ro);
        for asked in [None, Some(Ro), Some(Rw)] {
            assert_eq!(forced.mode_on(false, asked, current), Ro);
            assert_eq!(free.mode_on(false, asked, current), asked.or(current).unwrap_or(Rw));
        }
    }
}

#[test]
fn bad_settings_are_named() {
    let named = |builder: CyclingBuilder| builder.build().unwrap_err().option();
    assert_eq!(named(Cycling::builder().max_reconnects(0)), "max_reconnects");
    assert_eq!(named(Cycling::builder().initial_timeout(Duration::ZERO)), "initial_timeout");
    assert_eq!(named(Cycling::builder().connect_timeout(Duration::ZERO)), "connect_timeout");
    assert_eq!(named(Cycling::builder().deadline(Duration::ZERO)), "deadline");
}
