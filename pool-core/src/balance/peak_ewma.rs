//! A latency that jumps up at once and comes down slowly.

use std::time::Duration;

/// Peak-sensitive moving average of latencies. Pure: it is told the time.
///
/// A sample above the average replaces it at once; a lower one pulls it down with the weight of the time
/// passed since the last sample, `1 − e^(−elapsed / decay)`. Read after a pause, the value has faded by the
/// same rule, so a host that was slow once is measured again some time later.
#[derive(Clone, Copy, Debug)]
pub struct PeakEwma {
    decay: Duration,
    /// Average in nanoseconds and the time of the last sample; `None` before the first one.
    state: Option<(f64, Duration)>,
}

impl PeakEwma {
    /// The decay of [`PeakEwma::default`].
    pub const DEFAULT_DECAY: Duration = Duration::from_secs(10);

    /// An average that forgets about two thirds of a peak in `decay`.
    #[must_use]
    pub const fn new(decay: Duration) -> Self {
        Self { decay, state: None }
    }

    /// As it was when it was `average` and its last sample came at `at`.
    #[cfg_attr(not(feature = "runtime"), expect(dead_code))]
    pub(crate) fn resumed(average: Duration, at: Duration) -> Self {
        Self { state: Some((average.as_nanos() as f64, at)), ..Self::default() }
    }

    /// Adds a latency measured at `now` (any monotonic clock, the same for all calls).
    pub fn record(&mut self, now: Duration, sample: Duration) {
        let sample = sample.as_nanos() as f64;
        let average = match self.state {
            Some((average, at)) if sample <= average => {
                sample + (average - sample) * self.kept(now.saturating_sub(at))
            }
            _ => sample,
        };
        self.state = Some((average, now));
    }

    /// The average as of `now`; `None` before the first sample.
    #[must_use]
    pub fn value(&self, now: Duration) -> Option<Duration> {
        self.state.map(|(average, at)| {
            Duration::from_nanos((average * self.kept(now.saturating_sub(at))) as u64)
        })
    }

    fn kept(&self, elapsed: Duration) -> f64 {
        if self.decay.is_zero() {
            return 0.0;
        }
        (-elapsed.as_secs_f64() / self.decay.as_secs_f64()).exp()
    }
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self::new(Self::DEFAULT_DECAY)
    }
}
