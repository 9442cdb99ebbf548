//! A budget for retries, so that a failing cluster is not asked twice for everything.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What one retry costs, in deposits.
const COST: u32 = 10;

/// How many retries can be saved up.
const SAVED: u32 = 10;

/// Allows one retry for every ten reads, and saves up ten.
///
/// A fixed number of retries per read doubles the load exactly when the cluster can bear it least; a
/// budget lets single failures be repaired and gives up when most reads fail.
#[derive(Debug)]
pub struct RetryBudget(AtomicU32);

impl RetryBudget {
    /// A full budget.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(SAVED * COST))
    }

    /// Counts one read.
    pub fn deposit(&self) {
        // A lost update between two readers costs a tenth of a retry.
        let saved = self.0.load(Relaxed);
        if saved < SAVED * COST {
            self.0.store(saved + 1, Relaxed);
        }
    }

    /// Takes one retry out. False if there is none.
    pub fn withdraw(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |saved| saved.checked_sub(COST)).is_ok()
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_retries_are_saved_and_ten_reads_earn_one_more() {
        let budget = RetryBudget::new();
        assert_eq!((0..20).filter(|_| budget.withdraw()).count(), 10);
        (0..9).for_each(|_| budget.deposit());
        assert!(!budget.withdraw());
        budget.deposit();
        assert!(budget.withdraw());
        assert!(!budget.withdraw());
    }
}
