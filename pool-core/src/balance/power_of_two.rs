//! The better of two random hosts.

use crate::balance::random::{at, sum};
use crate::balance::seed::Seed;
use crate::balance::{BalancePolicy, Candidate, Eligible, by_load};
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
    let (first, start) = at(hosts, place(one, sum))?;
    let weight = u64::from(first.weight);
    // Without the first host the line is shorter, and what is behind it moves up.
    let rest = place(two, sum - weight);
    let second = at(hosts, if rest < start { rest } else { rest + weight });
    match second {
        Some((second, _)) if by_load(second, first).is_lt() => Some(second.id),
        _ => Some(first.id),
    }
}
