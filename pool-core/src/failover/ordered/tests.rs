#![allow(clippy::unwrap_used)]

use super::*;
use crate::verdict::Verdict;

const REFUSED: Outcome = Outcome::Failed { verdict: Verdict::HostDown, by_budget: false };
const SILENT: Outcome = Outcome::Failed { verdict: Verdict::HostDown, by_budget: true };

fn host(index: u32, role: Role, blocked: bool) -> HostView {
    HostView {
        id: HostId::new(index),
        role,
        blocked_for: blocked.then_some(Duration::from_secs(10)),
    }
}

fn plan(policy: &Ordered, hosts: &[HostView]) -> Box<dyn FailoverPlan> {
    policy.plan(&View { hosts, current: None, left_source_at: None, statements: 0 })
}

/// The hosts of the first round.
fn order(hosts: &[HostView]) -> Vec<usize> {
    let mut plan = plan(&Ordered::default(), hosts);
    let mut last = None;
    let mut seen = Vec::new();
    while let Step::Try { host, .. } = plan.next(Duration::ZERO, last.as_ref()) {
        seen.push(host.index());
        last = Some(REFUSED);
    }
    seen
}

/// Every step of a walk in which each attempt ends as `outcome` says: (start ms, step).
fn timeline(policy: &Ordered, hosts: &[HostView], outcome: Outcome) -> Vec<(u128, String)> {
    let mut plan = plan(policy, hosts);
    let (mut now, mut last, mut seen) = (Duration::from_secs(7), None, Vec::new());
    let origin = now;
    loop {
        let step = plan.next(now, last.as_ref());
        let at = (now - origin).as_millis();
        match step {
            Step::Try { host, budget } => {
                seen.push((at, format!("{host} {}", budget.as_millis())));
                if outcome == SILENT {
                    now += budget;
                }
                last = Some(outcome);
            }
            Step::Wait(pause) => {
                seen.push((at, format!("wait {}", pause.as_millis())));
                now += pause;
                last = Some(Outcome::Waited);
            }
            Step::GiveUp(why) => {
                seen.push((at, format!("{why:?}")));
                return seen;
            }
        }
    }
}

fn rows(expected: &[(u128, &str)]) -> Vec<(u128, String)> {
    expected.iter().map(|(at, step)| (*at, (*step).to_owned())).collect()
}

#[test]
fn hosts_of_unknown_role_are_tried_in_list_order() {
    let hosts: Vec<_> = (0..3).map(|index| host(index, Role::Unknown, false)).collect();
    assert_eq!(order(&hosts), [0, 1, 2]);
}

#[test]
fn a_host_known_as_source_comes_before_the_list() {
    let hosts = [
        host(0, Role::Replica, false),
        host(1, Role::Unknown, false),
        host(2, Role::Source, false),
    ];
    assert_eq!(order(&hosts), [2, 0, 1]);
}

#[test]
fn blocked_hosts_come_last_the_source_included() {
    let hosts =
        [host(0, Role::Source, true), host(1, Role::Replica, true), host(2, Role::Replica, false)];
    assert_eq!(order(&hosts), [2, 0, 1]);
}

#[test]
fn rounds_of_refusals_back_off_doubling_up_to_the_limit_until_the_deadline() {
    let hosts = [host(0, Role::Source, false), host(1, Role::Replica, false)];
    let seen = timeline(&Ordered::default(), &hosts, REFUSED);
    let waits: Vec<_> = seen.iter().filter(|(_, step)| step.starts_with("wait")).cloned().collect();
    assert_eq!(
        waits,
        rows(&[
            (0, "wait 250"),
            (250, "wait 500"),
            (750, "wait 1000"),
            (1_750, "wait 2000"),
            (3_750, "wait 4000"),
            (7_750, "wait 5000"),
            (12_750, "wait 5000"),
            (17_750, "wait 5000"),
            (22_750, "wait 5000"),
            (27_750, "wait 2250"),
        ])
    );
    assert_eq!(seen.last().unwrap(), &(30_000, "TimedOut".to_owned()));
}

#[test]
fn silent_hosts_cost_their_budget_and_the_last_is_cut_at_the_deadline() {
    let hosts = [host(0, Role::Source, false), host(1, Role::Replica, false)];
    let policy = Ordered::builder().deadline(Duration::from_secs(12)).build().unwrap();
    assert_eq!(
        timeline(&policy, &hosts, SILENT),
        rows(&[
            (0, "#0 5000"),
            (5_000, "#1 5000"),
            (10_000, "wait 250"),
            (10_250, "#0 1750"),
            (12_000, "TimedOut"),
        ])
    );
}

#[test]
fn only_permanent_and_statement_errors_stop_the_walk() {
    for verdict in Verdict::ALL {
        let hosts = [host(0, Role::Source, false), host(1, Role::Replica, false)];
        let mut plan = plan(&Ordered::default(), &hosts);
        plan.next(Duration::ZERO, None);
        let step = plan.next(Duration::ZERO, Some(&Outcome::Failed { verdict, by_budget: false }));
        let stops = matches!(verdict, Verdict::Permanent | Verdict::Statement);
        assert_eq!(step == Step::GiveUp(GiveUp::Permanent), stops, "{verdict}: {step:?}");
    }
}

#[test]
fn no_host_is_exhausted_at_once() {
    let mut plan = plan(&Ordered::default(), &[]);
    assert_eq!(plan.next(Duration::ZERO, None), Step::GiveUp(GiveUp::Exhausted));
}

#[test]
fn bad_settings_are_named() {
    let zero = Duration::ZERO;
    let second = Duration::from_secs(1);
    let named = |builder: OrderedBuilder| builder.build().unwrap_err().option();
    assert_eq!(named(Ordered::builder().connect_timeout(zero)), "connect_timeout");
    assert_eq!(named(Ordered::builder().deadline(zero)), "deadline");
    assert_eq!(named(Ordered::builder().backoff(zero, second)), "backoff");
    assert_eq!(named(Ordered::builder().backoff(second * 2, second)), "backoff");
}

#[test]
fn the_return_rule_defaults_to_thirty_seconds_and_can_be_taken_away() {
    let rule = Ordered::default().return_rule().unwrap();
    assert!(!rule.due(Duration::from_millis(29_999), u64::MAX));
    assert!(rule.due(Duration::from_secs(30), 0));
    assert_eq!(Ordered::builder().return_rule(None).build().unwrap().return_rule(), None);
}
