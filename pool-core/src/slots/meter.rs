//! Metric handles of one host, resolved once per role so that the hot path never looks one up.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::host::Role;
use crate::slots::state::CloseReason;
use crate::status::Counts;
use crate::verdict::Verdict;

/// The handles for one host in one role.
pub(crate) struct Meter {
    pub(crate) wait: Histogram,
    pub(crate) dial: Histogram,
    pub(crate) validate: Histogram,
    pub(crate) hold: Histogram,
    idle: Gauge,
    in_use: Gauge,
    connecting: Gauge,
    waiting: Gauge,
    weight: Gauge,
    lag: Gauge,
    closed: [Counter; CloseReason::ALL.len()],
    verdicts: [Counter; Verdict::ALL.len()],
}

impl Meter {
    fn resolve(pool: &str, host: &str, role: Role) -> Self {
        let labels = || {
            [
                ("pool", pool.to_owned()),
                ("host", host.to_owned()),
                ("role", role.as_str().to_owned()),
            ]
        };
        let with = |key: &'static str, value: &'static str| {
            let [pool, host, role] = labels();
            [pool, host, role, (key, value.to_owned())]
        };
        Self {
            wait: histogram!("pool_wait_seconds", &labels()),
            dial: histogram!("pool_dial_seconds", &labels()),
            validate: histogram!("pool_validate_seconds", &labels()),
            hold: histogram!("pool_hold_seconds", &labels()),
            idle: gauge!("pool_idle", &labels()),
            in_use: gauge!("pool_in_use", &labels()),
            connecting: gauge!("pool_connecting", &labels()),
            waiting: gauge!("pool_waiting", &labels()),
            weight: gauge!("pool_weight", &labels()),
            lag: gauge!("pool_lag_seconds", &labels()),
            closed: CloseReason::ALL
                .map(|r| counter!("pool_closed_total", &with("reason", r.as_str()))),
            verdicts: Verdict::ALL
                .map(|v| counter!("pool_verdicts_total", &with("verdict", v.as_str()))),
        }
    }

    pub(crate) fn closed(&self, reason: CloseReason) {
        if let Some(place) = CloseReason::ALL.iter().position(|r| *r == reason) {
            self.closed[place].increment(1);
        }
    }

    pub(crate) fn verdict(&self, verdict: Verdict) {
        if let Some(place) = Verdict::ALL.iter().position(|v| *v == verdict) {
            self.verdicts[place].increment(1);
        }
    }

    /// Publishes the gauges. Done by upkeep, not by the hot path.
    pub(crate) fn publish(&self, counts: Counts, weight: u32, lag: Option<Duration>) {
        self.idle.set(counts.idle as f64);
        self.in_use.set(counts.in_use as f64);
        self.connecting.set(counts.connecting as f64);
        self.waiting.set(counts.waiting as f64);
        self.weight.set(f64::from(weight));
        if let Some(lag) = lag {
            self.lag.set(lag.as_secs_f64());
        }
    }
}

/// The handles of one host, by role.
pub(crate) struct Meters {
    pool: std::sync::Arc<str>,
    host: std::sync::Arc<str>,
    by_role: [OnceLock<Meter>; 3],
}

impl Meters {
    pub(crate) fn new(pool: std::sync::Arc<str>, host: std::sync::Arc<str>) -> Self {
        Self { pool, host, by_role: std::array::from_fn(|_| OnceLock::new()) }
    }

    pub(crate) fn of(&self, role: Role) -> &Meter {
        let place = match role {
            Role::Replica => 0,
            Role::Source => 1,
            Role::Unknown => 2,
        };
        self.by_role[place].get_or_init(|| Meter::resolve(&self.pool, &self.host, role))
    }
}
