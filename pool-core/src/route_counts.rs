//! Metric handles of routed statements, resolved once per reason.

use std::sync::Arc;

use metrics::Counter;
use parking_lot::RwLock;

/// Counts routes by reason. Each counter is resolved when its reason first occurs.
pub(crate) struct RouteCounts {
    pool: Arc<str>,
    by_why: RwLock<Vec<(&'static str, Counter)>>,
}

impl RouteCounts {
    pub(crate) fn new(pool: Arc<str>) -> Self {
        Self { pool, by_why: RwLock::default() }
    }

    pub(crate) fn count(&self, why: &'static str) {
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
