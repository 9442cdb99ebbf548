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
        draw(&self.seed, eligible.hosts())
    }

    fn peek(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        draw(&self.seed.copy(), eligible.hosts())
    }
}

fn draw(seed: &Seed, hosts: &[Candidate]) -> Option<HostId> {
    at(hosts, seed.below(sum(hosts))).map(|(host, _)| host.id)
}

/// The weights of all hosts together.
pub(super) fn sum(hosts: &[Candidate]) -> u64 {
    hosts.iter().map(|host| u64::from(host.weight)).sum()
}

/// The host at a place of the line on which every host is as long as its weight, and where it begins. Without
/// a branch for each host: a random one would be guessed wrong.
#[inline]
pub(super) fn at(hosts: &[Candidate], place: u64) -> Option<(&Candidate, u64)> {
    let (mut index, mut start, mut end) = (0, 0, 0);
    for host in hosts {
        end += u64::from(host.weight);
        let is_before = end <= place;
        index += usize::from(is_before);
        start = if is_before { end } else { start };
    }
    hosts.get(index).map(|host| (host, start))
}
