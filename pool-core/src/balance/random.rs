//! Weighted random.

use crate::balance::seed::Seed;
use crate::balance::{BalancePolicy, Candidate, Eligible};
use crate::host::HostId;

/// A random host, each with a chance proportional to its weight.
///
/// Many clients that start at once do not march in step, at the price of shares that are only right on
/// average.
#[derive(Debug)]
pub struct Random {
    seed: Seed,
}

impl Random {
    /// The same seed gives the same sequence. Take a different one in every process.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed: Seed::new(seed) }
    }
}

impl BalancePolicy for Random {
    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        draw(&self.seed, eligible.hosts(), None).map(|host| host.id)
    }
}

/// Draws one host by weight, leaving out `except`.
pub(super) fn draw<'a>(
    seed: &Seed,
    hosts: &'a [Candidate],
    except: Option<HostId>,
) -> Option<&'a Candidate> {
    let weight =
        |host: &Candidate| if Some(host.id) == except { 0 } else { u64::from(host.weight) };
    let sum: u64 = hosts.iter().map(weight).sum();
    if sum == 0 {
        return None;
    }
    let mut rest = seed.below(sum);
    hosts.iter().find(|host| {
        let weight = weight(host);
        let hit = rest < weight;
        rest = rest.wrapping_sub(weight);
        hit
    })
}
