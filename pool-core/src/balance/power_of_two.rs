//! The better of two random hosts.

use crate::balance::random::{at, sum};
use crate::balance::seed::Seed;
use crate::balance::{BalancePolicy, Candidate, Eligible, is_idler};
use crate::host::HostId;

/// Draws two different hosts by weight and takes the one with fewer active leases per weight, the one drawn
/// first if they are equal.
///
/// Nearly as even as [`LeastActive`](crate::balance::LeastActive), but many clients that see the same counts
/// do not all rush to the same host. On an idle system the shares are those of the weights.
#[derive(Debug)]
pub struct PowerOfTwoChoices {
    seed: Seed,
}

impl PowerOfTwoChoices {
    /// The same seed gives the same sequence. Take a different one in every process.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed: Seed::new(seed) }
    }
}

impl BalancePolicy for PowerOfTwoChoices {
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        draw(&self.seed, eligible.hosts())
    }

    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        draw(&self.seed.copy(), eligible.hosts())
    }
}

fn draw(seed: &Seed, hosts: &[Candidate]) -> Option<HostId> {
    let sum = sum(hosts);
    let (one, two) = seed.pair();
    // The bias is below sum / 2³².
    let place = |drawn: u32, limit: u64| ((u128::from(drawn) * u128::from(limit)) >> 32) as u64;
    let first = at(hosts, place(one, sum), None)?;
    match at(hosts, place(two, sum - u64::from(first.weight)), Some(first.id)) {
        Some(second) if is_idler(second, first) => Some(second.id),
        _ => Some(first.id),
    }
}
