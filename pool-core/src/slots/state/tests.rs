//! One test for each rule of a store, in simulated time.

use std::time::Duration;

use super::{Actions, CloseReason, Slot, State};
use crate::config::Limits;
use crate::verdict::Verdict;

const LIFETIME: Duration = Duration::from_secs(1800);

type Store = State<u32, u64>;
type Todo = Actions<u32, u64>;
type Held = Box<Slot<u32>>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limits() -> Limits {
    Limits {
        capacity: 4,
        min_idle: 0,
        max_connecting: 2,
        idle_timeout: secs(600),
        keepalive: secs(120),
        bypass: ms(500),
        backoff: ms(10),
        backoff_max: secs(5),
    }
}

fn store() -> Store {
    State::new(limits())
}

fn opened(store: &Store, now: Duration, conn: u32) -> Held {
    Box::new(Slot::new(conn, now, LIFETIME, store.generation()))
}

/// A store with these connections idle, each since its time: warmest last.
fn stocked(limits: Limits, idle: &[(u32, Duration)]) -> Store {
    // No minimum yet, or it would start connects of its own.
    let mut store = State::new(Limits { min_idle: 0, ..limits.clone() });
    for (conn, since) in idle {
        assert!(store.reserve());
        let slot = opened(&store, *since, *conn);
        assert!(store.connected(*since, slot).is_empty());
    }
    store.limits = limits;
    store
}

fn handed(actions: &Todo) -> Vec<(u64, u32)> {
    actions.hand_over.iter().map(|(ticket, slot)| (*ticket, slot.conn)).collect()
}

fn checked(actions: &Todo) -> Vec<u32> {
    actions.check.iter().map(|slot| slot.conn).collect()
}

fn closed(actions: &Todo) -> Vec<(u32, CloseReason)> {
    actions.close.iter().map(|(slot, reason)| (slot.conn, *reason)).collect()
}

fn idle(store: &Store) -> Vec<u32> {
    store.idle.iter().map(|slot| slot.conn).collect()
}

#[test]
fn callers_get_the_warmest_connection() {
    let mut store = stocked(limits(), &[(1, ms(10)), (2, ms(20)), (3, ms(30))]);
    let now = ms(40);
    let warmest = store.try_checkout(now).unwrap();
    assert_eq!(warmest.conn, 3);
    assert_eq!(store.try_checkout(now).unwrap().conn, 2);
    assert!(store.returned(now, warmest).is_none(), "parked: nothing to do");
    assert_eq!(store.try_checkout(now).unwrap().conn, 3);
}

#[test]
fn a_returned_connection_goes_to_the_oldest_waiter_in_the_same_step() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    for ticket in [3, 5, 8] {
        assert!(store.wait(ms(2), ticket, ticket).is_empty(), "full: nothing can be started");
    }
    let actions = store.returned(ms(3), lease).unwrap();
    assert_eq!(handed(&actions), [(3, 1)]);
    assert_eq!((store.counts().idle, store.counts().in_use, store.counts().waiting), (0, 1, 2));
}

#[test]
fn a_newcomer_queues_behind_waiters_even_when_a_connection_is_idle() {
    let mut store = stocked(limits(), &[(1, ms(0)), (2, ms(0))]);
    // Idle for too long to be handed out unchecked.
    let now = ms(600);
    assert_eq!(checked(&store.wait(now, 1, 1)), [2]);
    let late = opened(&store, now, 3);
    assert!(store.reserve());
    // Not for the newcomer: ticket 1 is older.
    assert_eq!(handed(&store.connected(now, late)), [(1, 3)]);
}

#[test]
fn no_newcomer_takes_what_a_waiter_is_to_get() {
    let mut store = store();
    assert_eq!(store.wait(ms(0), 1, 1).connect, 1);
    let slot = opened(&store, ms(5), 1);
    let actions = store.connected(ms(5), slot);
    assert_eq!(handed(&actions), [(1, 1)]);
    assert!(store.try_checkout(ms(5)).is_none());
}

#[test]
fn a_caller_that_comes_back_with_its_ticket_regains_its_place() {
    let mut store = stocked(Limits { capacity: 2, ..limits() }, &[(1, ms(0)), (2, ms(0))]);
    let (a, b) = (store.try_checkout(ms(1)).unwrap(), store.try_checkout(ms(1)).unwrap());
    for ticket in [10, 11, 12] {
        let _ = store.wait(ms(2), ticket, ticket);
    }
    assert_eq!(handed(&store.returned(ms(3), a).unwrap()), [(10, 2)]);
    // Ticket 10 finds its connection dead, and goes back.
    assert_eq!(store.discarded(ms(3)).connect, 1);
    let _ = store.wait(ms(3), 10, 10);
    assert_eq!(handed(&store.returned(ms(4), b).unwrap()), [(10, 1)]);
}

#[test]
fn a_returned_connection_beats_a_slow_connect_and_the_loser_is_stored() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    assert_eq!(store.wait(ms(2), 1, 1).connect, 1);
    assert_eq!(handed(&store.returned(ms(3), lease).unwrap()), [(1, 1)]);
    let loser = opened(&store, ms(90), 2);
    assert!(store.connected(ms(90), loser).is_empty());
    assert_eq!(idle(&store), [2]);
}

#[test]
fn a_new_connection_beats_a_late_return_and_the_loser_is_stored() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    assert_eq!(store.wait(ms(2), 1, 1).connect, 1);
    let winner = opened(&store, ms(3), 2);
    assert_eq!(handed(&store.connected(ms(3), winner)), [(1, 2)]);
    assert!(store.returned(ms(4), lease).is_none());
    assert_eq!(idle(&store), [1]);
}

#[test]
fn a_connection_passed_on_by_a_waiter_that_left_reaches_the_next() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    let _ = store.wait(ms(2), 2, 2);
    let mut actions = store.returned(ms(3), lease).unwrap();
    let (_, slot) = actions.hand_over.pop().unwrap();
    assert!(!store.cancelled(1), "it was served already");
    assert_eq!(handed(&store.returned(ms(3), slot).unwrap()), [(2, 1)]);
}

#[test]
fn a_waiter_that_leaves_frees_its_place_only() {
    let mut store = store();
    for ticket in 1..=3 {
        let _ = store.wait(ms(0), ticket, ticket);
    }
    assert!(store.cancelled(2));
    assert!(!store.cancelled(2));
    assert_eq!(store.counts().waiting, 2);
    assert_eq!(store.counts().connecting, 2, "connects survive those who asked for them");
}

#[test]
fn inside_the_window_a_connection_is_handed_out_without_a_check() {
    for (idle_for, unchecked) in [(0, true), (499, true), (500, false), (5000, false)] {
        let mut store = stocked(limits(), &[(1, ms(100))]);
        let taken = store.try_checkout(ms(100 + idle_for));
        assert_eq!(taken.is_some(), unchecked, "idle for {idle_for} ms");
    }
}

#[test]
fn outside_the_window_it_is_checked_first_and_then_handed_out() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let mut actions = store.wait(ms(700), 1, 1);
    assert_eq!((checked(&actions), actions.connect), (vec![1], 0));
    let slot = actions.check.pop().unwrap();
    assert_eq!(handed(&store.checked(ms(701), slot)), [(1, 1)]);
}

#[test]
fn a_failed_check_makes_room_for_the_next_connection_or_a_new_one() {
    let mut store = stocked(limits(), &[(1, ms(0)), (2, ms(10))]);
    assert_eq!(checked(&store.wait(ms(700), 1, 1)), [2]);
    assert_eq!(checked(&store.check_failed(ms(710))), [1]);
    assert_eq!(store.check_failed(ms(720)).connect, 1);
}

#[test]
fn a_hanging_connect_keeps_nobody_from_an_idle_connection() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    // Somebody asks for a connect that never ends, and leaves.
    assert_eq!(store.wait(ms(2), 1, 1).connect, 1);
    assert!(store.cancelled(1));
    assert!(store.returned(ms(3), lease).is_none());
    // Fresh, for a caller that lost the race between its look and its place in the queue.
    let mut actions = store.wait(ms(4), 2, 2);
    assert_eq!(handed(&actions), [(2, 1)]);
    // And stale.
    let (_, lease) = actions.hand_over.pop().unwrap();
    assert!(store.returned(ms(5), lease).is_none());
    assert_eq!(checked(&store.wait(ms(900), 3, 3)), [1]);
}

#[test]
fn a_bump_of_the_generation_ends_the_window_at_once() {
    let mut store = stocked(limits(), &[(1, ms(0)), (2, ms(0)), (3, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let actions = store.void(ms(2));
    assert_eq!(closed(&actions), [(1, CloseReason::Void), (2, CloseReason::Void)]);
    assert!(store.try_checkout(ms(2)).is_none());
    let actions = store.returned(ms(3), lease).unwrap();
    assert_eq!(closed(&actions), [(3, CloseReason::Void)]);
}

#[test]
fn a_connect_or_check_that_began_before_a_bump_is_void_as_well() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let mut check = store.wait(ms(600), 1, 1).check;
    let early = opened(&store, ms(600), 2);
    assert!(store.reserve());
    assert!(store.void(ms(601)).is_empty(), "the check under way is still counted on");
    let actions = store.checked(ms(602), check.pop().unwrap());
    assert_eq!(closed(&actions), [(1, CloseReason::Void)]);
    let actions = store.connected(ms(603), early);
    assert_eq!(closed(&actions), [(2, CloseReason::Void)]);
    assert_eq!(actions.connect, 1, "the waiter is not forgotten");
}

#[test]
fn the_idle_timeout_closes_from_the_cold_end_and_only_above_the_minimum() {
    let limits = Limits { min_idle: 1, keepalive: LIFETIME, ..limits() };
    let mut store = stocked(limits, &[(1, secs(0)), (2, secs(1)), (3, secs(2))]);
    assert!(store.sweep(ms(599_999)).is_empty());
    assert_eq!(store.next_timer(), Some(secs(600)));
    assert_eq!(closed(&store.sweep(secs(600))), [(1, CloseReason::IdleTimeout)]);
    assert_eq!(closed(&store.sweep(secs(700))), [(2, CloseReason::IdleTimeout)]);
    assert!(store.sweep(secs(900)).is_empty());
    assert_eq!(idle(&store), [3]);
}

#[test]
fn a_lifetime_ends_in_the_store_on_return_and_before_a_hand_out() {
    let end = LIFETIME;
    let expired = |actions: &Todo| closed(actions) == [(1, CloseReason::Lifetime)];

    let mut swept = stocked(limits(), &[(1, ms(0))]);
    assert!(expired(&swept.sweep(end)));

    let mut leased = stocked(limits(), &[(1, ms(0))]);
    let lease = leased.try_checkout(ms(1)).unwrap();
    assert!(expired(&leased.returned(end, lease).unwrap()));

    let mut asked = stocked(limits(), &[(1, ms(0))]);
    assert!(asked.try_checkout(end).is_none());
    let actions = asked.wait(end, 1, 1);
    assert!(expired(&actions));
    assert_eq!(actions.connect, 1);
}

#[test]
fn a_lifetime_is_replaced_down_to_the_minimum() {
    let limits = Limits { min_idle: 2, ..limits() };
    let mut store = stocked(limits, &[(1, ms(0)), (2, ms(0)), (3, ms(0))]);
    let actions = store.sweep(LIFETIME);
    assert_eq!((actions.close.len(), actions.connect), (3, 2));
}

#[test]
fn keepalive_checks_the_oldest_first_and_few_at_once() {
    let mut store = stocked(limits(), &[(1, secs(0)), (2, secs(1)), (3, secs(2))]);
    assert!(store.sweep(ms(119_999)).is_empty());
    assert_eq!(store.next_timer(), Some(secs(120)));
    let mut actions = store.sweep(secs(125));
    assert_eq!(checked(&actions), [1, 2]);
    assert!(store.sweep(secs(126)).is_empty(), "two checks at once are enough");
    let first = actions.check.remove(0);
    assert!(store.checked(secs(126), first).is_empty());
    assert_eq!(checked(&store.sweep(secs(126))), [3]);
}

#[test]
fn a_connection_keeps_its_place_in_the_stack_through_a_check() {
    let mut store = stocked(limits(), &[(1, secs(0)), (2, secs(100)), (3, secs(119))]);
    let mut actions = store.sweep(secs(120));
    assert_eq!(checked(&actions), [1]);
    assert!(store.checked(secs(121), actions.check.pop().unwrap()).is_empty());
    assert_eq!(idle(&store), [1, 2, 3]);
    // Heard of, but not used: it still ages out first.
    assert_eq!(store.idle[0].heard, secs(121));
    assert_eq!(store.idle[0].idle_since, secs(0));
}

#[test]
fn a_checked_connection_is_handed_out_within_the_window_after_the_check() {
    let mut store = stocked(limits(), &[(1, secs(0))]);
    let mut actions = store.sweep(secs(120));
    assert!(store.checked(secs(121), actions.check.pop().unwrap()).is_empty());
    assert!(store.try_checkout(secs(121)).is_some());
}

#[test]
fn at_most_two_connects_are_under_way() {
    let mut store = store();
    let started: usize = (0..9).map(|ticket| store.wait(ms(0), ticket, ticket).connect).sum();
    assert_eq!(started, 2);
    let slot = opened(&store, ms(5), 1);
    let actions = store.connected(ms(5), slot);
    assert_eq!((handed(&actions), actions.connect), (vec![(0, 1)], 1));
}

#[test]
fn connects_stop_at_the_capacity_and_at_the_number_of_waiters() {
    let mut store = State::<u32, u64>::new(Limits { capacity: 3, max_connecting: 9, ..limits() });
    assert_eq!(store.wait(ms(0), 0, 0).connect, 1);
    let started: usize = (1..9).map(|ticket| store.wait(ms(0), ticket, ticket).connect).sum();
    assert_eq!(started, 2);
    assert!(!store.reserve());
}

#[test]
fn the_minimum_is_filled_without_a_caller() {
    let mut store = State::<u32, u64>::new(Limits { min_idle: 3, ..limits() });
    assert_eq!(store.sweep(ms(0)).connect, 2);
    let slot = opened(&store, ms(1), 1);
    assert_eq!(store.connected(ms(1), slot).connect, 1);
    let slot = opened(&store, ms(2), 2);
    assert_eq!(store.connected(ms(2), slot).connect, 0);
}

#[test]
fn the_back_off_doubles_from_10_ms_to_5_s() {
    // Pauses for a jitter of 0 and of 1: half and all of the back-off.
    let table = [(5, 10), (10, 20), (20, 40), (40, 80), (80, 160), (160, 320), (320, 640)]
        .into_iter()
        .chain([(640, 1280), (1280, 2560), (2500, 5000), (2500, 5000), (2500, 5000)]);
    let mut stores = [(0.0, store()), (1.0, store())];
    for (low, high) in table {
        for ((jitter, store), pause) in stores.iter_mut().zip([low, high]) {
            let now = secs(1000);
            store.retry_at = Duration::ZERO;
            store.hopeless = false;
            assert_eq!(store.wait(now, 1, 1).connect, 1);
            let actions = store.connect_failed(now, Verdict::HostDown, *jitter);
            assert_eq!((actions.refuse.len(), actions.connect), (1, 0));
            assert_eq!(store.retry_at, now + ms(pause));
        }
    }
}

#[test]
fn a_jitter_out_of_range_is_held_inside() {
    for (jitter, pause) in [(-3.0, 5), (7.0, 10), (0.5, 7)] {
        let mut store = store();
        let _ = store.wait(ms(0), 1, 1);
        let _ = store.connect_failed(ms(0), Verdict::HostDown, jitter);
        assert_eq!(store.retry_at.as_millis(), pause);
    }
}

#[test]
fn a_postponed_connect_has_a_timer_and_a_success_ends_the_back_off() {
    let mut store = store();
    let _ = store.wait(ms(0), 1, 1);
    let _ = store.connect_failed(ms(0), Verdict::Overloaded, 1.0);
    assert_eq!(store.next_timer(), None, "nobody waits");
    assert_eq!(store.wait(ms(1), 2, 2).connect, 0);
    assert_eq!(store.next_timer(), Some(ms(10)));
    assert_eq!(store.sweep(ms(9)).connect, 0);
    assert_eq!(store.sweep(ms(10)).connect, 1);
    let slot = opened(&store, ms(11), 1);
    assert_eq!(handed(&store.connected(ms(11), slot)), [(2, 1)]);
    assert_eq!((store.failures, store.retry_at), (0, Duration::ZERO));
}

#[test]
fn a_full_store_asks_for_no_timer() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let _lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    assert_eq!(store.next_timer(), None);
}

#[test]
fn a_paused_store_asks_for_no_check() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    store.pause();
    assert!(store.sweep(secs(200)).is_empty());
    assert!(store.next_timer().unwrap() > secs(200));
}

#[test]
fn a_permanent_error_fails_every_waiter() {
    let mut store = store();
    for ticket in 1..=5 {
        let _ = store.wait(ms(0), ticket, ticket);
    }
    let actions = store.connect_failed(ms(1), Verdict::Permanent, 1.0);
    assert_eq!(actions.refuse, [1, 2, 3, 4, 5]);
}

#[test]
fn after_a_permanent_error_callers_are_refused_at_once_until_the_retry() {
    let mut store = store();
    let _ = store.wait(ms(0), 1, 1);
    let _ = store.connect_failed(ms(0), Verdict::Permanent, 1.0);
    let actions = store.wait(ms(9), 2, 2);
    assert_eq!((actions.refuse, actions.connect), (vec![2], 0));
    let actions = store.wait(ms(10), 3, 3);
    assert_eq!((actions.refuse, actions.connect), (vec![], 1));
}

#[test]
fn after_a_permanent_error_callers_still_wait_for_a_connection_that_is_out() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    let _ = store.connect_failed(ms(3), Verdict::Permanent, 1.0);
    assert!(store.wait(ms(4), 2, 2).refuse.is_empty());
    assert_eq!(handed(&store.returned(ms(5), lease).unwrap()), [(2, 1)]);
}

#[test]
fn an_overloaded_host_keeps_its_waiters_while_a_connection_is_alive() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    assert!(store.connect_failed(ms(3), Verdict::Overloaded, 1.0).refuse.is_empty());
    assert_eq!(handed(&store.returned(ms(4), lease).unwrap()), [(1, 1)]);

    let mut alone = self::store();
    let _ = alone.wait(ms(2), 1, 1);
    assert_eq!(alone.connect_failed(ms(3), Verdict::Overloaded, 1.0).refuse, [1]);
}

#[test]
fn a_host_that_is_down_keeps_nobody() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    let _lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    assert_eq!(store.connect_failed(ms(3), Verdict::HostDown, 1.0).refuse, [1]);
}

#[test]
fn a_pause_hands_out_nothing_and_a_resume_serves_the_queue_in_order() {
    let mut store = stocked(limits(), &[(1, ms(0)), (2, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    store.pause();
    assert!(store.try_checkout(ms(1)).is_none());
    assert!(store.wait(ms(1), 2, 2).is_empty());
    assert!(store.wait(ms(1), 1, 1).is_empty());
    assert!(store.returned(ms(2), lease).unwrap().is_empty(), "kept, not handed out");
    assert_eq!(handed(&store.resume(ms(3))), [(1, 2), (2, 1)]);
}

#[test]
fn a_drain_closes_idle_ones_now_and_leased_ones_on_return() {
    let mut store = stocked(Limits { capacity: 2, ..limits() }, &[(1, ms(0)), (2, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let actions = store.drain();
    assert_eq!(closed(&actions), [(1, CloseReason::Closed)]);
    assert!(!store.is_settled());
    assert_eq!(store.wait(ms(2), 1, 1).refuse, [1]);
    assert!(!store.reserve());
    let actions = store.returned(ms(3), lease).unwrap();
    assert_eq!(closed(&actions), [(2, CloseReason::Closed)]);
    assert!(store.is_settled());
    assert!(!store.is_closed());
    let _ = store.resume(ms(4));
    assert_eq!(store.wait(ms(4), 2, 2).connect, 1);
}

#[test]
fn a_drain_tells_its_waiters() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let _lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    let _ = store.wait(ms(2), 2, 2);
    assert_eq!(store.drain().refuse, [1, 2]);
    assert_eq!(store.counts().waiting, 0);
}

#[test]
fn waiters_that_are_turned_away_leave_everything_else_as_it_is() {
    let mut store = stocked(Limits { capacity: 2, ..limits() }, &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    let _ = store.wait(ms(2), 2, 2);
    assert_eq!(store.turn_away().refuse, [1, 2]);
    assert_eq!((store.counts().waiting, store.counts().connecting), (0, 1));
    assert!(store.returned(ms(3), lease).is_none());
}

#[test]
fn a_close_is_for_good() {
    let mut store = stocked(limits(), &[(1, ms(0))]);
    assert_eq!(closed(&store.close()), [(1, CloseReason::Closed)]);
    assert!(store.resume(ms(1)).is_empty());
    let _ = store.drain();
    store.pause();
    assert!(store.is_closed());
    assert_eq!(store.wait(ms(2), 1, 1).refuse, [1]);
}

#[test]
fn what_is_under_way_when_a_store_closes_is_closed_when_it_arrives() {
    let mut store = stocked(limits(), &[(1, ms(0)), (2, ms(0))]);
    let mut check = store.wait(ms(600), 1, 1).check;
    assert!(store.reserve());
    let connect = opened(&store, ms(600), 3);
    let _ = store.close();
    let actions = store.checked(ms(601), check.pop().unwrap());
    assert_eq!(closed(&actions), [(2, CloseReason::Closed)]);
    let actions = store.connected(ms(602), connect);
    assert_eq!(closed(&actions), [(3, CloseReason::Closed)]);
    assert_eq!(store.counts().total(), 0);
}

#[test]
fn a_tidied_connection_goes_to_the_oldest_waiter() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    store.tidying();
    assert_eq!(store.counts().tending, 1);
    assert_eq!(handed(&store.tidied(ms(3), lease)), [(1, 1)]);
}

#[test]
fn a_failed_tidying_makes_room() {
    let mut store = stocked(Limits { capacity: 1, ..limits() }, &[(1, ms(0))]);
    let _lease = store.try_checkout(ms(1)).unwrap();
    let _ = store.wait(ms(2), 1, 1);
    store.tidying();
    assert_eq!(store.tidy_failed(ms(3)).connect, 1);
}

#[test]
fn endless_limits_do_not_overflow() {
    let endless = Duration::MAX;
    let limits = Limits {
        idle_timeout: endless,
        keepalive: endless,
        bypass: endless,
        backoff_max: endless,
        ..limits()
    };
    let mut store = State::<u32, u64>::new(limits);
    assert!(store.reserve());
    let slot = Box::new(Slot::new(1, ms(1), endless, 0));
    assert!(store.connected(ms(1), slot).is_empty());
    assert!(store.sweep(secs(9)).is_empty());
    assert_eq!(store.next_timer(), Some(endless));
}
