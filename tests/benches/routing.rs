//! What routing and balancing cost: each call is timed in short runs, so that a run which was interrupted
//! by other work on the machine stands out, and the median run counts. What has a limit must not allocate
//! either.
//!
//! Run it with `cargo bench -p pool-tests --bench routing`. The limits are those of the design; the program
//! fails if a median is beyond its limit, or something allocates, and `POOL_BENCH_STRICT` is set.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use pool_core::balance::{
    BalancePolicy, Candidate, Eligible, LeastActive, LeastLatency, PowerOfTwoChoices, Random,
    RoundRobin, Weighted,
};
use pool_core::host::HostId;
use pool_core::route::{Dialect, RoutePolicy, SessionState, StatementRouter};

/// 100 bytes.
const SELECT: &str = "SELECT id, name, mail, created_at FROM customer WHERE tenant_id = ? \
                      AND status IN ('a', 'b') LIMIT 9";

struct Report {
    is_within: bool,
}

impl Report {
    /// Times `call` in `runs` runs of `calls` calls and prints the median and the best run.
    fn time(
        &mut self,
        what: &str,
        limit: Option<Duration>,
        (runs, calls): (usize, u32),
        mut call: impl FnMut(),
    ) -> Duration {
        let mut times: Vec<Duration> = (0..runs)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..calls {
                    call();
                }
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let nanos = |time: Duration| time.as_nanos() as f64 / f64::from(calls);
        let (median, best) = (nanos(times[runs / 2]), nanos(times[0]));
        let verdict = match limit {
            None => String::new(),
            Some(limit) if median <= limit.as_nanos() as f64 => format!("   limit {limit:?}: ok"),
            Some(limit) => {
                self.is_within = false;
                format!("   limit {limit:?}: BEYOND")
            }
        };
        let allocations = if limit.is_some() { self.allocations(&mut call) } else { String::new() };
        println!("{what:<44} {median:>12.1} ns   best {best:>12.1} ns{verdict}{allocations}");
        times[runs / 2] / calls
    }

    /// How often one more `call` allocates.
    fn allocations(&mut self, call: &mut impl FnMut()) -> String {
        let count = measure(call).count_total;
        self.is_within &= count == 0;
        format!(", {count} allocations")
    }
}

fn main() -> ExitCode {
    let mut report = Report { is_within: true };
    routes(&mut report);
    picks(&mut report);
    long_texts(&mut report);
    if report.is_within || std::env::var_os("POOL_BENCH_STRICT").is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn routes(report: &mut Report) {
    assert_eq!(SELECT.len(), 100);
    let session = SessionState::new();
    let hinted = format!("/*FORCE_MASTER*/ {SELECT}");
    let limit = Duration::from_nanos(150);
    for (name, dialect) in [("mysql", Dialect::MySql), ("mssql", Dialect::TSql)] {
        let router = StatementRouter::new(dialect);
        let mut time = |what: &str, sql: &str, limit| {
            report.time(&format!("route, {name}, {what}"), limit, (5_001, 100), || {
                black_box(router.route(black_box(sql), &session));
            });
        };
        time("SELECT of 100 bytes", SELECT, Some(limit));
        time("the same with a hint", &hinted, None);
        time("SELECT 1", "SELECT 1", None);
        time("short UPDATE", "UPDATE customers SET name = 'x' WHERE id = 5", None);
        time("BEGIN", "BEGIN TRANSACTION", None);
    }
}

fn picks(report: &mut Report) {
    for (count, limit) in [(3, Duration::from_nanos(20)), (100, Duration::from_nanos(400))] {
        let hosts: Vec<Candidate> = (0..count)
            .map(|id| Candidate {
                id: HostId::new(id),
                weight: 100 + 100 * (id % 2),
                active: id % 5,
                latency: Some(Duration::from_micros(500 + u64::from(id))),
            })
            .collect();
        let policies: [(&str, Box<dyn BalancePolicy>); 6] = [
            ("weighted", Box::new(Weighted::new())),
            ("least active", Box::new(LeastActive::new())),
            ("round robin", Box::new(RoundRobin::new())),
            ("random", Box::new(Random::new(7))),
            ("least latency", Box::new(LeastLatency::new())),
            ("power of two choices", Box::new(PowerOfTwoChoices::new(7))),
        ];
        for (name, policy) in policies {
            report.time(&format!("pick of {count}, {name}"), Some(limit), (5_001, 100), || {
                black_box(policy.pick(&Eligible::new(black_box(&hosts))));
            });
        }
    }
}

/// Time must grow with the length and no faster: 16 times the text in about 16 times the time.
fn long_texts(report: &mut Report) {
    let router = StatementRouter::default();
    let session = SessionState::new();
    for (what, piece) in [
        ("numbers", "(1, 23, 456), "),
        ("long strings", "('a text that goes on and on, as texts in databases do', 'x'), "),
        ("doubled quotes", "'''''''', "),
        ("blanks", "        "),
        ("stars in comments", "/* ** * ** */ "),
        ("words", "a b c d e f g h "),
        ("function calls", "f(g(h(1))), "),
    ] {
        let mut last = None;
        for length in [1 << 16, 1 << 20] {
            let body = piece.repeat(length / piece.len());
            let sql = format!("SELECT * FROM t WHERE a IN ({body} 1)");
            let time =
                report.time(&format!("route, {length} bytes of {what}"), None, (21, 1), || {
                    black_box(router.route(black_box(&sql), &session));
                });
            if let Some(short) = last.replace(time) {
                let ratio = time.as_secs_f64() / Duration::as_secs_f64(&short);
                println!("{:<44} {ratio:>12.1} times", "   16 times the length");
            }
        }
    }
}
