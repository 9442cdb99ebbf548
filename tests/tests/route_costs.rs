//! Routing a statement and picking a host do not allocate, and long texts take linear time.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use pool_core::balance::endpoint::{Choice, EndpointRules, HostFacts, eligible};
use pool_core::balance::{
    BalancePolicy, Candidate, Eligible, LeastActive, LeastLatency, PowerOfTwoChoices, Random,
    RoundRobin, Weighted,
};
use pool_core::host::{HostId, Role};
use pool_core::route::{Answer, Dialect, PinState, RoutePolicy, SessionState, StatementRouter};

#[test]
fn routing_does_not_allocate() {
    let long = format!("SELECT * FROM t WHERE a IN ({} 1)", "1, 'x', ".repeat(10_000));
    for dialect in [Dialect::MySql, Dialect::TSql] {
        let router = StatementRouter::new(dialect);
        for sql in [
            "SELECT id, COUNT(*) FROM t WHERE a = 'b' GROUP BY id",
            "/*FORCE_MASTER*/ SELECT 1",
            "SELECT my_function(1)",
            "INSERT INTO t VALUES (1)",
            "BEGIN TRAN",
            "SET x = 1",
            "SELECT 1; SELECT 2",
            "DROP TABLE #a, #b",
            "",
            "SELECT 'open",
            &long,
        ] {
            let count = measure(|| {
                black_box(router.route(black_box(sql), &SessionState::new()));
            });
            assert_eq!(count.count_total, 0, "{dialect:?} {sql:.40}");
        }
    }
}

#[test]
fn following_plain_statements_does_not_allocate() {
    let router = StatementRouter::default();
    let mut state = PinState::new();
    let count = measure(|| {
        for sql in ["SELECT 1", "BEGIN", "UPDATE t SET a = 1", "COMMIT", "SELECT 2"] {
            let route = router.route(sql, &state.session());
            state.sent(&route);
            state.answered(Answer::Ok(None));
        }
    });
    assert_eq!(count.count_total, 0);
    assert!(state.pins().is_empty());
}

#[test]
fn picking_does_not_allocate_once_the_hosts_are_known() {
    for hosts in [3, 100] {
        let hosts: Vec<Candidate> = (0..hosts)
            .map(|id| Candidate {
                id: HostId::new(id),
                weight: 1 + id % 7,
                active: id % 3,
                latency: Some(Duration::from_millis(u64::from(id))),
            })
            .collect();
        let policies: [Box<dyn BalancePolicy>; 6] = [
            Box::new(Weighted::new()),
            Box::new(LeastActive::new()),
            Box::new(RoundRobin::new()),
            Box::new(Random::new(7)),
            Box::new(LeastLatency::new()),
            Box::new(PowerOfTwoChoices::new(7)),
        ];
        for policy in policies {
            policy.pick(&Eligible::new(&hosts)).unwrap();
            let count = measure(|| {
                for _ in 0..1000 {
                    black_box(policy.pick(&Eligible::new(&hosts)));
                }
                black_box(policy.pick(&Eligible::new(&hosts[1..])));
            });
            assert_eq!(count.count_total, 0, "{policy:?}");
        }
    }
}

#[test]
fn finding_the_eligible_hosts_does_not_allocate() {
    let hosts: Vec<HostFacts> =
        (0..100).map(|id| HostFacts::new(HostId::new(id), Role::Replica, id % 3)).collect();
    let rules = EndpointRules::default();
    let mut out = Vec::with_capacity(hosts.len());
    let count = measure(|| {
        let choice = eligible(hosts.iter().copied(), &rules, |host| out.push(host));
        assert_eq!(choice, Choice::Eligible);
    });
    assert_eq!(count.count_total, 0);
    assert_eq!(out.len(), 66);
}

/// A rule that is quadratic in the number of tokens would take minutes on one of these.
#[test]
fn long_texts_take_linear_time() {
    const LENGTH: usize = 1 << 19;
    for dialect in [Dialect::MySql, Dialect::TSql] {
        let router = StatementRouter::new(dialect);
        for (head, piece) in [
            ("SELECT ", "f("),
            ("SELECT ", "'' "),
            ("SELECT ", "/**/"),
            ("SELECT ", "/*!1*/"),
            ("SELECT ", "1."),
            ("SELECT ", "insert/**/"),
            ("SELECT 1", ";SELECT 1"),
            ("", "/*FORCE_MASTER*/ "),
            ("", "/* router.access_mode=x */"),
            ("WITH ", "a(b) as (c),"),
            ("SET ", "autocommit=0,"),
            ("CREATE ", "definer="),
            ("CREATE TABLE t(", "@a,"),
            ("EXPLAIN ", "format="),
            ("DROP TABLE ", "#a,"),
            ("DO ", "get_lock('a'),"),
            ("", "declare c x "),
            ("", "exec sp_getapplock a,"),
            ("", "begin tran "),
            ("", "rollback tran "),
            ("", "if a "),
        ] {
            let sql = format!("{head}{}", piece.repeat(LENGTH / piece.len()));
            let start = Instant::now();
            black_box(router.route(&sql, &SessionState::new()));
            let taken = start.elapsed();
            assert!(taken < Duration::from_secs(10), "{dialect:?} {head}{piece}: {taken:?}");
        }
    }
}
