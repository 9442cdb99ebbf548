//! The seed's tables and the properties of the policies.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::endpoint::*;
use super::*;
use crate::host::Role;
use crate::lag::Lag;

fn hosts(weights: &[u32]) -> Vec<Candidate> {
    (0..)
        .zip(weights)
        .map(|(id, &weight)| Candidate { id: HostId::new(id), weight, active: 0, latency: None })
        .collect()
}

fn pick(policy: &dyn BalancePolicy, hosts: &[Candidate]) -> usize {
    policy.pick(&Eligible::new(hosts)).unwrap().index()
}

fn counts(policy: &dyn BalancePolicy, hosts: &[Candidate], picks: usize) -> Vec<usize> {
    let mut counts = vec![0; hosts.len()];
    for _ in 0..picks {
        counts[pick(policy, hosts)] += 1;
    }
    counts
}

fn credits(list: Vec<(HostId, i64)>) -> Vec<i64> {
    list.into_iter().map(|(_, credit)| credit).collect()
}

fn cycle(weights: &[u32]) -> (usize, u32) {
    fn gcd(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let gcd = weights.iter().copied().fold(0, gcd);
    ((weights.iter().sum::<u32>() / gcd) as usize, gcd)
}

#[test]
fn the_weight_table_of_the_seed() {
    let table: [([i64; 3], usize); 6] = [
        ([0, 0, 0], 0),
        ([-400, 200, 200], 1),
        ([-300, -100, 400], 2),
        ([-200, 100, 100], 1),
        ([-100, -200, 300], 2),
        ([0, 0, 0], 0),
    ];
    let policy = Weighted::new();
    let hosts = hosts(&[100, 200, 200]);
    for (round, (before, chosen)) in table.into_iter().enumerate() {
        let found = credits(policy.credits());
        assert!(found.is_empty() && round == 0 || found == before, "round {}", round + 1);
        assert_eq!(pick(&policy, &hosts), chosen, "round {}", round + 1);
    }
}

const ACTIVE_TABLE: [([u32; 3], usize); 6] = [
    ([1, 5, 6], 0),
    ([2, 4, 6], 1),
    ([2, 5, 3], 2),
    ([1, 2, 3], 1),
    ([1, 2, 1], 2),
    ([0, 3, 3], 0),
];

fn with_active(hosts: &mut [Candidate], active: &[u32]) {
    for (host, &active) in hosts.iter_mut().zip(active) {
        host.active = active;
    }
}

#[test]
fn the_active_table_of_the_seed_from_every_start_of_the_cycle() {
    for start in 0..5 {
        let policy = LeastActive::new();
        let mut hosts = hosts(&[100, 200, 200]);
        counts(&policy, &hosts, start);
        for (row, (active, chosen)) in ACTIVE_TABLE.into_iter().enumerate() {
            with_active(&mut hosts, &active);
            assert_eq!(pick(&policy, &hosts), chosen, "start {start}, row {}", row + 1);
        }
    }
}

#[test]
fn each_active_row_alone_with_the_credits_of_its_round() {
    for (row, (active, chosen)) in ACTIVE_TABLE.into_iter().enumerate() {
        let policy = LeastActive::new();
        let mut hosts = hosts(&[100, 200, 200]);
        counts(&policy, &hosts, row);
        with_active(&mut hosts, &active);
        assert_eq!(pick(&policy, &hosts), chosen, "row {}", row + 1);
    }
}

#[test]
fn the_active_rule_is_active_per_weight_and_not_active_plus_one() {
    let mut hosts = hosts(&[100, 300]);
    with_active(&mut hosts, &[0, 1]);
    assert_eq!(pick(&LeastActive::new(), &hosts), 0);
}

fn all_policies() -> [Box<dyn BalancePolicy>; 6] {
    [
        Box::new(Weighted::new()),
        Box::new(LeastActive::new()),
        Box::new(RoundRobin::new()),
        Box::new(Random::new(7)),
        Box::new(LeastLatency::new()),
        Box::new(PowerOfTwoChoices::new(7)),
    ]
}

#[test]
fn a_peek_is_the_next_pick_and_takes_no_turn() {
    // Hosts come, go and change their weights between reads.
    let seed = super::seed::Seed::new(5);
    let below = |limit: u64| seed.below(limit) as u32;
    for (peeking, undisturbed) in all_policies().into_iter().zip(all_policies()) {
        assert_eq!(peeking.peek(&Eligible::new(&[])), None, "{peeking:?}");
        let mut scale = 1;
        for _ in 0..3000 {
            if below(10) == 0 {
                scale = [1, 100][below(2) as usize];
            }
            let mut all = hosts(&[100, 200, 0, 200, 50].map(|weight| weight / scale));
            for host in &mut all {
                host.active = below(3);
                host.latency = Some(Duration::from_millis(u64::from(below(4))));
            }
            let out = below(8);
            all.retain(|host| host.id.index() != out as usize);
            if below(50) == 0 {
                let left = HostId::new(below(5));
                peeking.forget(left);
                undisturbed.forget(left);
            }
            for _ in 0..below(4) {
                let eligible = Eligible::new(&all);
                let peeked = peeking.peek(&eligible);
                assert_eq!(peeking.peek(&eligible), peeked, "{peeking:?}");
                assert_eq!(peeking.pick(&eligible), peeked, "{peeking:?}");
                assert_eq!(undisturbed.pick(&eligible), peeked, "{undisturbed:?}");
            }
        }
    }
}

#[test]
fn a_weight_of_zero_is_never_picked_and_nothing_eligible_is_no_pick() {
    for policy in all_policies() {
        assert_eq!(policy.pick(&Eligible::new(&[])), None, "{policy:?}");
        assert_eq!(policy.pick(&Eligible::new(&hosts(&[0, 0]))), None, "{policy:?}");
        assert_eq!(counts(&*policy, &hosts(&[0, 200, 200]), 100)[0], 0, "{policy:?}");
        assert_eq!(counts(&*policy, &hosts(&[0, 5]), 10), [0, 10], "{policy:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn shares_are_exact_over_every_cycle(
        weights in prop::collection::vec(1_u32..=60, 1..8), scale in 1_u32..=100
    ) {
        let weights: Vec<u32> = weights.iter().map(|weight| weight * scale).collect();
        let hosts = hosts(&weights);
        let (length, gcd) = cycle(&weights);
        let exact: Vec<usize> = weights.iter().map(|weight| (weight / gcd) as usize).collect();
        let (weighted, least_active) = (Weighted::new(), LeastActive::new());
        for _ in 0..2 {
            prop_assert_eq!(&counts(&weighted, &hosts, length), &exact);
            // The cut may cost very uneven weights a pick or two of a cycle.
            for (count, exact) in counts(&least_active, &hosts, length).iter().zip(&exact) {
                prop_assert!(count.abs_diff(*exact) <= 2, "{} {}", count, exact);
            }
        }
        prop_assert!(credits(weighted.credits()).iter().all(|credit| *credit == 0));
    }
}

#[test]
fn the_credit_of_a_host_that_is_out_is_frozen() {
    let policy = Weighted::new();
    let all = hosts(&[100, 200, 200]);
    counts(&policy, &all, 1);
    assert_eq!(credits(policy.credits()), [-400, 200, 200]);
    for _ in 0..7 {
        pick(&policy, &all[1..]);
        assert_eq!(credits(policy.credits())[0], -400);
    }
    // Back in: it waits for its turn as if it had not been away.
    assert_eq!(credits(policy.credits()).iter().sum::<i64>(), 0);
}

#[test]
fn health_flaps_keep_shares_and_bounds() {
    let policy = Weighted::new();
    let all = hosts(&[100, 200, 200]);
    let seed = super::seed::Seed::new(3);
    let mut counts = [0_usize; 3];
    let mut picks = 0;
    for _ in 0..4000 {
        let out = seed.below(6) as usize;
        let up: Vec<_> = all.iter().filter(|host| host.id.index() != out).copied().collect();
        for _ in 0..seed.below(9) {
            let picked = pick(&policy, &up);
            if up.len() == 3 {
                counts[picked] += 1;
                picks += 1;
            }
            let credits = credits(policy.credits());
            assert!(credits.iter().all(|credit| credit.abs() <= 400), "{credits:?}");
            assert_eq!(credits.iter().sum::<i64>(), 0);
        }
    }
    for (count, share) in counts.into_iter().zip([0.2, 0.4, 0.4]) {
        assert!((count as f64 / picks as f64 - share).abs() < 0.02, "{counts:?}");
    }
}

#[test]
fn a_change_of_weights_cuts_credits_to_the_new_sum() {
    // Cut once, or (least active) at every pick: in turn again after one cycle, not after 200 picks.
    let policies: [(Box<dyn BalancePolicy>, usize); 2] =
        [(Box::new(Weighted::new()), 9), (Box::new(LeastActive::new()), 8)];
    for (policy, turn) in policies {
        counts(&*policy, &hosts(&[100, 200, 200]), 3);
        let small = hosts(&[1, 2, 2]);
        let order: Vec<usize> = (0..turn).map(|_| pick(&*policy, &small)).collect();
        assert_eq!(order.iter().position(|picked| *picked == 0), Some(turn - 1), "{policy:?}");
        assert_eq!(counts(&*policy, &small, 5), [1, 2, 2]);
    }
}

#[test]
fn a_host_out_during_a_change_is_cut_when_it_comes_back() {
    let policy = Weighted::new();
    counts(&policy, &hosts(&[100, 200, 200]), 1);
    let small = hosts(&[100, 2, 2]);
    pick(&policy, &small[1..]);
    assert_eq!(credits(policy.credits())[0], -400);
    pick(&policy, &small);
    assert!(credits(policy.credits())[0].abs() <= 104);
}

#[test]
fn a_new_host_starts_at_zero_and_a_forgotten_one_does_too() {
    let policy = Weighted::new();
    let all = hosts(&[100, 200, 200]);
    counts(&policy, &all[..2], 1);
    assert_eq!(credits(policy.credits()), [-200, 200]);
    counts(&policy, &all, 1);
    assert_eq!(credits(policy.credits()), [-100, -100, 200]);
    policy.forget(HostId::new(2));
    assert_eq!(policy.credits().len(), 2);
    assert_eq!(pick(&policy, &all), 2, "0 is now the largest credit");
}

#[test]
fn removing_a_heavy_host_does_not_leave_the_light_ones_in_debt() {
    let policy = Weighted::new();
    let all = hosts(&[10_000, 1, 1]);
    counts(&policy, &all, 7000);
    policy.forget(HostId::new(0));
    let first = (0..20).filter(|_| pick(&policy, &all[1..]) == 1).count();
    assert!((8..=12).contains(&first), "{first}");
}

/// The rules of sections 4 and 5 as they are written, with a division for the load: the place of the pick.
fn by_the_rules(credits: &mut [i64], hosts: &[Candidate], least_active: bool) -> usize {
    let load = |host: &Candidate| f64::from(host.active) / f64::from(host.weight);
    let least = hosts.iter().map(load).fold(f64::INFINITY, f64::min);
    let in_turn = |host: &&Candidate| !least_active || load(host) == least;
    let most = hosts.iter().filter(in_turn).map(|host| credits[host.id.index()]).max().unwrap();
    let picked =
        hosts.iter().filter(in_turn).find(|host| credits[host.id.index()] == most).unwrap();
    let sum: i64 = hosts.iter().map(|host| i64::from(host.weight)).sum();
    for host in hosts {
        credits[host.id.index()] += i64::from(host.weight);
    }
    credits[picked.id.index()] -= sum;
    if least_active {
        for host in hosts {
            let credit = &mut credits[host.id.index()];
            *credit = (*credit).clamp(-sum, sum);
        }
    }
    picked.id.index()
}

#[test]
fn picks_and_credits_are_those_of_the_rules_whoever_is_out() {
    let seed = super::seed::Seed::new(5);
    for round in 0..400 {
        let (weighted, least_active) = (Weighted::new(), LeastActive::new());
        let weights: Vec<u32> = (0..4).map(|_| 1 << seed.below(10)).collect();
        let mut all = hosts(&weights);
        let mut expected = [[0; 4]; 2];
        // All are known before one is out: a host that is new is a change of the membership.
        pick(&weighted, &all);
        pick(&least_active, &all);
        by_the_rules(&mut expected[0], &all, false);
        by_the_rules(&mut expected[1], &all, true);
        for _ in 0..60 {
            for host in &mut all {
                host.active = seed.below(4) as u32;
            }
            let out = seed.below(16);
            let up: Vec<_> =
                all.iter().filter(|host| out >> host.id.index() & 1 == 0).copied().collect();
            if up.is_empty() {
                continue;
            }
            for _ in 0..seed.below(8) {
                assert_eq!(pick(&weighted, &up), by_the_rules(&mut expected[0], &up, false));
                assert_eq!(credits(weighted.credits()), expected[0], "{round}: {weights:?} {up:?}");
                assert_eq!(pick(&least_active, &up), by_the_rules(&mut expected[1], &up, true));
                assert_eq!(
                    credits(least_active.credits()),
                    expected[1],
                    "{round}: {weights:?} {up:?}"
                );
            }
        }
    }
}

/// Runs `picks` reads with `in_flight` at a time; `slow` is how much slower the source is.
fn load(policy: &LeastActive, in_flight: usize, picks: usize, slow: u64) -> [usize; 3] {
    let mut hosts = hosts(&[100, 200, 200]);
    let seed = super::seed::Seed::new(11);
    let mut running: Vec<usize> = Vec::new();
    let mut counts = [0; 3];
    for _ in 0..picks {
        while running.len() >= in_flight {
            let done = seed.below(running.len() as u64) as usize;
            if running[done] == 0 && seed.below(slow) != 0 {
                continue;
            }
            hosts[running.swap_remove(done)].active -= 1;
        }
        let picked = pick(policy, &hosts);
        hosts[picked].active += 1;
        running.push(picked);
        counts[picked] += 1;
    }
    counts
}

#[test]
fn credits_do_not_drift_while_the_load_decides() {
    for (in_flight, slow) in [(8, 10), (3, 1)] {
        let policy = LeastActive::new();
        let busy = load(&policy, in_flight, 20_000, slow);
        if slow > 1 {
            assert!(busy[0] < 2_000, "a slow host gets little: {busy:?}");
        }
        assert!(credits(policy.credits()).iter().all(|credit| credit.abs() <= 500));
        let shares = counts(&policy, &hosts(&[100, 200, 200]), 1000);
        for (count, exact) in shares.iter().zip([200_usize, 400, 400]) {
            assert!(count.abs_diff(exact) <= 5, "{shares:?}");
        }
    }
}

#[test]
fn shares_with_several_reads_in_flight() {
    for (in_flight, shares) in
        [(1, [0.2, 0.4, 0.4]), (3, [0.333, 0.333, 0.333]), (64, [0.2, 0.4, 0.4])]
    {
        let counts = load(&LeastActive::new(), in_flight, 20_000, 1);
        for (count, share) in counts.iter().zip(shares) {
            let found = *count as f64 / 20_000.0;
            assert!((found - share).abs() < 0.02, "{in_flight}: {counts:?}");
        }
    }
}

#[test]
fn round_robin_goes_on_where_it_was_when_hosts_come_and_go() {
    let policy = RoundRobin::new();
    let all = hosts(&[1, 10_000, 5]);
    assert_eq!([0; 4].map(|_| pick(&policy, &all)), [0, 1, 2, 0]);
    let without_1 = [all[0], all[2]];
    assert_eq!([0; 3].map(|_| pick(&policy, &without_1)), [2, 0, 2]);
    assert_eq!([0; 3].map(|_| pick(&policy, &all)), [0, 1, 2]);
}

#[test]
fn random_policies_follow_the_weights_and_replay() {
    let all = hosts(&[100, 200, 200]);
    let policies: [fn(u64) -> Box<dyn BalancePolicy>; 2] =
        [|seed| Box::new(Random::new(seed)), |seed| Box::new(PowerOfTwoChoices::new(seed))];
    for policy in policies {
        let sequence = |seed| {
            let policy = policy(seed);
            (0..50).map(|_| pick(&*policy, &all)).collect::<Vec<_>>()
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
        let counts = counts(&*policy(7), &all, 100_000);
        for (count, exact) in counts.iter().zip([20_000_usize, 40_000, 40_000]) {
            assert!(count.abs_diff(exact) < 800, "{counts:?}");
        }
    }
}

#[test]
fn of_two_choices_the_idler_wins() {
    let policy = PowerOfTwoChoices::new(1);
    let mut all = hosts(&[100, 100]);
    with_active(&mut all, &[5, 4]);
    assert_eq!(counts(&policy, &all, 100), [0, 100]);
}

#[test]
fn least_latency_weighs_latency_load_and_weight() {
    let ms = |ms| Some(Duration::from_millis(ms));
    let policy = LeastLatency::new();
    let mut all = hosts(&[100, 100]);
    (all[0].latency, all[1].latency) = (ms(10), ms(12));
    assert_eq!(pick(&policy, &all), 0);
    all[0].active = 1;
    assert_eq!(pick(&policy, &all), 1);
    all[0].weight = 200;
    assert_eq!(pick(&policy, &all), 0);
    all[1].latency = None;
    assert_eq!(pick(&policy, &all), 1, "not measured: tried first");
}

#[test]
fn the_peak_average_jumps_up_and_fades() {
    let s = Duration::from_secs;
    let mut latency = PeakEwma::default();
    assert_eq!(latency.value(s(1)), None);
    latency.record(s(1), s(4));
    latency.record(s(1), s(2));
    assert_eq!(latency.value(s(1)), Some(s(4)), "no time has passed");
    latency.record(s(11), s(1));
    let faded = latency.value(s(11)).unwrap();
    assert!(faded > s(2) && faded < s(3), "{faded:?}");
    latency.record(s(11), s(9));
    assert_eq!(latency.value(s(11)), Some(s(9)));
    assert!(latency.value(s(111)).unwrap() < Duration::from_millis(1));
}

fn facts(id: u32, role: Role, weight: u32) -> HostFacts {
    HostFacts::new(HostId::new(id), role, weight)
}

fn choose(hosts: &[HostFacts], rules: &EndpointRules) -> (Choice, Vec<usize>) {
    let mut out = Vec::new();
    let choice = eligible(hosts.iter().copied(), rules, |host| out.push(host.id.index()));
    (choice, out)
}

/// Which of (source, replicas) serve reads.
fn serves(hosts: &[HostFacts], rules: &EndpointRules) -> (bool, bool) {
    match choose(hosts, rules) {
        (Choice::Eligible, ids) => {
            let on_source = |id: &usize| hosts[*id].role == Role::Source;
            (ids.iter().any(on_source), !ids.iter().all(on_source))
        }
        (Choice::Source(_), _) => (true, false),
        _ => (false, false),
    }
}

#[test]
fn the_mode_table_of_the_seed() {
    use EndpointMode::{ReadOnly, ReadWrite};
    use WeightMethod::{Automatic, Custom};
    // Mode, method, set weight of the source → does the source serve reads: normal, last replica removed,
    // all replicas failed; does the endpoint.
    let table = [
        (ReadOnly, Automatic, None, [false; 3], [true, false, false]),
        (ReadOnly, Custom, Some(100), [false; 3], [true, false, false]),
        (ReadWrite, Automatic, None, [false, true, true], [true; 3]),
        (ReadWrite, Custom, Some(100), [true; 3], [true; 3]),
        (ReadWrite, Custom, Some(0), [false, true, true], [true; 3]),
    ];
    for (mode, method, source_weight, by_source, by_endpoint) in table {
        let rules = EndpointRules { mode, ..EndpointRules::default() };
        let source = facts(0, Role::Source, method.weight(Role::Source, source_weight, 10));
        let replica = facts(1, Role::Replica, method.weight(Role::Replica, Some(100), 10));
        let failed = HostFacts { blocked_for: Some(Duration::from_secs(5)), ..replica };
        for (case, hosts) in
            [&[source, replica][..], &[source], &[source, failed]].into_iter().enumerate()
        {
            let (on_source, on_replica) = serves(hosts, &rules);
            let row = format!("{mode:?} {method:?} {source_weight:?}, column {case}");
            assert_eq!(on_source, by_source[case], "{row}");
            assert_eq!(on_source || on_replica, by_endpoint[case], "{row}");
            assert_eq!(mode.serves_writes(), mode == ReadWrite, "{row}");
        }
    }
}

#[test]
fn weights_of_hosts_that_join() {
    assert_eq!(WeightMethod::Custom.weight(Role::Replica, None, 50), 0);
    assert_eq!(WeightMethod::Custom.weight(Role::Replica, Some(70_000), 50), 10_000);
    assert_eq!(WeightMethod::Automatic.weight(Role::Replica, None, 50), 50);
    assert_eq!(WeightMethod::Automatic.weight(Role::Source, Some(5), 50), 0);
}

#[test]
fn an_endpoint_needs_its_roles() {
    use EndpointMode::{ReadOnly, ReadWrite};
    assert_eq!(ReadWrite.check([Role::Source, Role::Replica]), Ok(()));
    assert_eq!(ReadWrite.check([Role::Replica]), Err(Role::Source));
    assert_eq!(ReadWrite.check([Role::Source]), Err(Role::Replica));
    assert_eq!(ReadOnly.check([Role::Replica]), Ok(()));
    assert_eq!(ReadOnly.check([Role::Source, Role::Unknown]), Err(Role::Replica));
}

#[test]
fn filters_apply_in_order() {
    let rules = EndpointRules {
        mode: EndpointMode::ReadOnly,
        max_lag: Some(Duration::from_secs(1)),
        ..EndpointRules::default()
    };
    let lag = Lag::Known(Duration::from_secs(2));
    let blocked = Duration::from_secs(3);
    let mut host = HostFacts {
        drained: true,
        delayed: true,
        blocked_for: Some(blocked),
        lag,
        tried: true,
        full: true,
        ..facts(0, Role::Source, 0)
    };
    assert_eq!(verdict(&host, &rules), Eligibility::WrongRole(Role::Source));
    host.role = Role::Replica;
    assert_eq!(verdict(&host, &rules), Eligibility::Drained);
    host.drained = false;
    assert_eq!(verdict(&host, &rules), Eligibility::Delayed);
    host.delayed = false;
    assert_eq!(verdict(&host, &rules), Eligibility::WeightZero);
    host.weight = 1;
    assert_eq!(verdict(&host, &rules), Eligibility::Blocked(blocked));
    host.blocked_for = None;
    assert_eq!(verdict(&host, &rules), Eligibility::Lagging(lag));
    host.lag = Lag::Known(Duration::from_secs(1));
    assert_eq!(verdict(&host, &rules), Eligibility::Tried);
    host.tried = false;
    assert_eq!(verdict(&host, &rules), Eligibility::Full);
    host.full = false;
    assert_eq!(verdict(&host, &rules), Eligibility::Eligible);
    host.lag = Lag::Unknown;
    assert_eq!(verdict(&host, &rules), Eligibility::Lagging(Lag::Unknown));
}

#[test]
fn the_source_is_never_checked_for_lag() {
    let rules = EndpointRules { max_lag: Some(Duration::ZERO), ..EndpointRules::default() };
    let source = HostFacts { lag: Lag::Unknown, ..facts(0, Role::Source, 1) };
    assert_eq!(verdict(&source, &rules), Eligibility::Eligible);
}

#[test]
fn a_read_that_asks_for_a_replica_uses_a_weighted_source_only_as_a_fallback() {
    let rules = EndpointRules { only_replicas: true, ..EndpointRules::default() };
    let source = facts(0, Role::Source, 500);
    let replica = facts(1, Role::Replica, 1);
    assert_eq!(verdict(&source, &rules), Eligibility::WrongRole(Role::Source));
    let mut pushed = Vec::new();
    let choice = eligible([source, replica], &rules, |candidate| pushed.push(candidate.id.index()));
    assert_eq!((choice, pushed), (Choice::Eligible, vec![1]));
    let blocked = HostFacts { blocked_for: Some(Duration::from_secs(5)), ..replica };
    assert_eq!(eligible([source, blocked], &rules, |_| ()), Choice::Source(source.id));
    let strict = EndpointRules { read_fallback_primary: false, ..rules };
    assert_eq!(eligible([source, blocked], &strict, |_| ()), Choice::Nobody);
}

#[test]
fn fallbacks_in_order() {
    let rules = EndpointRules::default();
    let strict = EndpointRules { read_fallback_primary: false, ..rules };
    let source = facts(0, Role::Source, 0);
    let replica = facts(1, Role::Replica, 1);
    let full = HostFacts { full: true, ..replica };
    let blocked =
        HostFacts { blocked_for: Some(Duration::from_secs(1)), ..facts(2, Role::Replica, 1) };
    let due = HostFacts { probe_due: true, ..blocked };
    let idle_zero = facts(3, Role::Replica, 0);

    assert_eq!(choose(&[source, replica, due], &rules), (Choice::Eligible, vec![1]));
    assert_eq!(choose(&[source, full, due], &rules), (Choice::WaitForSlot, vec![1]));
    assert_eq!(choose(&[source, due, idle_zero], &rules), (Choice::ProbeDue, vec![2]));
    assert_eq!(
        choose(&[source, blocked, idle_zero], &rules),
        (Choice::Source(HostId::new(0)), vec![])
    );
    assert_eq!(choose(&[source, blocked, idle_zero], &strict), (Choice::Nobody, vec![]));
    let tried = HostFacts { tried: true, ..due };
    assert_eq!(choose(&[source, tried], &strict), (Choice::Nobody, vec![]));
    for unusable in [
        HostFacts { tried: true, ..source },
        HostFacts { drained: true, ..source },
        HostFacts { blocked_for: Some(Duration::from_secs(1)), ..source },
    ] {
        assert_eq!(choose(&[unusable, blocked], &rules), (Choice::Nobody, vec![]));
    }
}
