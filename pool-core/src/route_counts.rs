//! Metric handles of routed statements and their hints, resolved once.

use std::sync::Arc;

use metrics::Counter;
use parking_lot::RwLock;

use crate::route::{HintFate, Route};

/// Counts routes by reason, and hints by what became of them. Each counter is resolved when its reason first occurs.
pub(crate) struct RouteCounts {
    pool: Arc<str>,
    by_why: RwLock<Vec<(&'static str, Counter)>>,
    hints_applied: Counter,
    hints_ignored: Counter,
}

impl RouteCounts {
    pub(crate) fn new(pool: Arc<str>) -> Self {
        let hints = |fate: &'static str| metrics::counter!("pool_hints_total", "pool" => pool.to_string(), "fate" => fate);
        Self {
            hints_applied: hints("applied"),
            hints_ignored: hints("ignored"),
            by_why: RwLock::default(),
            pool,
        }
    }

    pub(crate) fn count(&self, route: &Route<'_>) {
        match route.hint {
            HintFate::Applied => self.hints_applied.increment(1),
            HintFate::Ignored => self.hints_ignored.increment(1),
            HintFate::None => {}
        }
        let why = route.why.as_str();
        if let Some((_, counter)) = self.by_why.read().iter().find(|(known, _)| *known == why) {
            return counter.increment(1);
        }
        let counter =
            metrics::counter!("pool_routes_total", "pool" => self.pool.to_string(), "why" => why);
        counter.increment(1);
        // Two first ones at once leave two handles of one counter.
        self.by_why.write().push((why, counter));
    }
}
