//! Tables of what was sent and answered → what pins the session.

use super::*;

const IDLE: Answer = Answer::Ok(Some(ServerFlags { transaction: false, autocommit: true }));
const IN_TRANSACTION: Answer =
    Answer::Ok(Some(ServerFlags { transaction: true, autocommit: true }));

fn route(target: Target<'static>, changes: &[Change]) -> Route<'static> {
    let mut route = Route::new(target, Kind::Unknown, "");
    for change in changes {
        route.effect.changes.push(*change);
    }
    route
}

fn run(state: &mut PinState, changes: &[Change], answer: Answer) -> Option<Pin> {
    state.sent(&route(Target::Source, changes));
    state.answered(answer);
    state.pins().strongest()
}

#[test]
fn a_transaction_pins_from_the_moment_it_is_sent_until_it_ends() {
    let mut state = PinState::new();
    state.sent(&route(Target::Replica, &[Change::Begin(Pin::Transaction, 0)]));
    assert!(state.pins().contains(Pin::Transaction));
    assert_eq!(state.session().place, Place::Replica);
    state.answered(IN_TRANSACTION);
    assert_eq!(run(&mut state, &[], IN_TRANSACTION), Some(Pin::Transaction));
    assert_eq!(state.session().place, Place::Replica);
    assert_eq!(run(&mut state, &[Change::End(Pin::Transaction, None)], IDLE), None);
}

#[test]
fn after_an_error_the_pin_stays_until_the_next_success() {
    let end = [Change::End(Pin::Transaction, None)];
    let mut state = PinState::new();
    run(&mut state, &[Change::Begin(Pin::Transaction, 0)], IN_TRANSACTION);
    run(&mut state, &end, Answer::Failed);
    assert!(state.pins().contains(Pin::Transaction));
    assert!(state.pins().contains(Pin::Unsure));
    assert_eq!(run(&mut state, &[], IDLE), None);
}

#[test]
fn what_a_failed_statement_may_have_begun_counts_as_begun() {
    let mut state = PinState::new();
    let begin = [Change::Begin(Pin::Transaction, 0)];
    assert_eq!(run(&mut state, &begin, Answer::Failed), Some(Pin::Transaction));
    assert_eq!(run(&mut state, &[], IDLE), None);
    let variable = [Change::Begin(Pin::UserVariable, 0)];
    assert_eq!(run(&mut state, &variable, Answer::Failed), Some(Pin::UserVariable));
    assert_eq!(run(&mut state, &[], IDLE), Some(Pin::UserVariable));
    state.reset();
    assert!(state.pins().is_empty());
}

#[test]
fn a_failed_plain_read_pins_nothing() {
    let mut state = PinState::new();
    assert_eq!(run(&mut state, &[], Answer::Failed), None);
}

#[test]
fn an_opaque_statement_pins_while_it_runs_and_after_an_error_only() {
    let mut call = route(Target::Source, &[]);
    call.effect.opaque = true;
    let mut state = PinState::new();
    state.sent(&call);
    assert_eq!(state.pins().strongest(), Some(Pin::Unsure));
    state.answered(IDLE);
    assert!(state.pins().is_empty());
    state.sent(&call);
    state.answered(Answer::Failed);
    assert_eq!(state.pins().strongest(), Some(Pin::Unsure));
    assert_eq!(run(&mut state, &[], IDLE), None);
}

#[test]
fn the_servers_flags_win_over_what_the_text_said() {
    let mut state = PinState::new();
    assert_eq!(run(&mut state, &[], IN_TRANSACTION), Some(Pin::Transaction));
    let off = Answer::Ok(Some(ServerFlags { transaction: false, autocommit: false }));
    assert_eq!(run(&mut state, &[], off), Some(Pin::AutocommitOff));
    assert_eq!(run(&mut state, &[], IDLE), None);
}

#[test]
fn nested_transactions_count_without_flags() {
    let ok = Answer::Ok(None);
    let begin = [Change::Begin(Pin::Transaction, 0)];
    let commit = [Change::End(Pin::Transaction, Some(0))];
    let mut state = PinState::new();
    run(&mut state, &begin, ok);
    run(&mut state, &begin, ok);
    assert_eq!(run(&mut state, &commit, ok), Some(Pin::Transaction));
    assert_eq!(run(&mut state, &commit, ok), None);
    run(&mut state, &begin, ok);
    run(&mut state, &begin, ok);
    assert_eq!(run(&mut state, &[Change::End(Pin::Transaction, None)], ok), None);
}

#[test]
fn every_named_thing_must_be_closed_under_its_name() {
    for pin in [Pin::NamedLock, Pin::TemporaryTable, Pin::Prepared] {
        let mut state = PinState::new();
        run(&mut state, &[Change::Begin(pin, 1)], IDLE);
        run(&mut state, &[Change::Begin(pin, 2)], IDLE);
        assert_eq!(run(&mut state, &[Change::End(pin, Some(3))], IDLE), Some(pin));
        assert_eq!(run(&mut state, &[Change::End(pin, Some(1))], IDLE), Some(pin));
        assert_eq!(run(&mut state, &[Change::End(pin, Some(2))], Answer::Failed), Some(pin));
        assert_eq!(run(&mut state, &[Change::End(pin, Some(2))], IDLE), None);
        run(&mut state, &[Change::Begin(pin, 1), Change::Begin(pin, 2)], IDLE);
        assert_eq!(run(&mut state, &[Change::End(pin, None)], IDLE), None);
    }
}

#[test]
fn changes_of_one_text_apply_in_order() {
    let mut state = PinState::new();
    let both = [Change::Begin(Pin::Transaction, 0), Change::End(Pin::Transaction, None)];
    assert_eq!(run(&mut state, &both, Answer::Ok(None)), None);
    let chain = [Change::End(Pin::Transaction, None), Change::Begin(Pin::Transaction, 0)];
    assert_eq!(run(&mut state, &chain, Answer::Ok(None)), Some(Pin::Transaction));
}

#[test]
fn pins_beyond_the_limit_of_one_text_last_and_ends_beyond_it_are_not_noticed() {
    let mut changes = vec![Change::Begin(Pin::TableLock, 0); Changes::MAX];
    changes.push(Change::Begin(Pin::UserVariable, 0));
    changes.push(Change::End(Pin::TableLock, None));
    let mut state = PinState::new();
    run(&mut state, &changes, IDLE);
    assert!(state.pins().contains(Pin::TableLock));
    assert!(state.pins().contains(Pin::UserVariable));
}
