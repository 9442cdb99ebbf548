//! A small seeded source of numbers, so that a test can replay random choices.

use std::sync::atomic::{AtomicU64, Ordering};

/// WyRand: a counter and a mixing function, so drawing is one atomic addition.
#[derive(Debug)]
pub(super) struct Seed(AtomicU64);

impl Seed {
    pub(super) const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Another one that will give the same numbers.
    pub(super) fn copy(&self) -> Self {
        Self::new(self.0.load(Ordering::Relaxed))
    }

    /// The next number, 0 to `limit` − 1; 0 if `limit` is 0. The bias is below `limit` / 2⁶⁴.
    pub(super) fn below(&self, limit: u64) -> u64 {
        let product = u128::from(self.draw()) * u128::from(limit);
        (product >> 64) as u64
    }

    /// Two independent numbers of 32 bits.
    pub(super) fn pair(&self) -> (u32, u32) {
        let drawn = self.draw();
        ((drawn >> 32) as u32, drawn as u32)
    }

    #[inline]
    fn draw(&self) -> u64 {
        const STEP: u64 = 0x2d35_8dcc_aa6c_78a5;
        const MASK: u64 = 0x8bb8_4b93_962e_acc9;
        let count = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let product = u128::from(count) * u128::from(count ^ MASK);
        product as u64 ^ (product >> 64) as u64
    }
}
