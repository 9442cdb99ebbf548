//! The pool's clock: one origin, so that the pure parts deal in plain durations.
//!
//! The hot path reads the clock twice per lease. A precise reading costs more than all the rest of it, so
//! by default the operating system's coarse clock is read (4 ms steps on Linux, one seventh of the cost
//! of `Instant::elapsed`: `cargo bench -p pool-tests --bench checkout`). Every rule of the pool is
//! measured in hundreds of milliseconds or more.

use std::time::Duration;

use tokio::time::Instant;

/// Time since the pool was built, give or take a second for the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    source: Source,
    /// The same moment on both clocks.
    anchor: (Instant, Duration),
}

#[derive(Clone, Copy, Debug)]
enum Source {
    #[cfg(target_os = "linux")]
    Coarse {
        origin: i64,
    },
    Precise(Instant),
}

impl Clock {
    /// Starts the clock. Paused tokio time is noticed and followed.
    pub(crate) fn start(precise: bool) -> Self {
        let now = Instant::now();
        let mut source = Source::Precise(now);
        #[cfg(target_os = "linux")]
        if !precise && !is_paused() {
            source = Source::Coarse { origin: coarse().tv_sec };
        }
        let _ = precise;
        let anchor = (now, source.now());
        Self { source, anchor }
    }

    pub(crate) fn now(&self) -> Duration {
        self.source.now()
    }

    /// The instant of a time on this clock.
    pub(crate) fn at(&self, time: Duration) -> Instant {
        let (instant, at) = self.anchor;
        instant + time.saturating_sub(at)
    }
}

impl Source {
    fn now(self) -> Duration {
        match self {
            #[cfg(target_os = "linux")]
            Self::Coarse { origin } => {
                let now = coarse();
                // The clock never runs backwards and its nanoseconds stay below a second.
                Duration::new((now.tv_sec - origin) as u64, now.tv_nsec as u32)
            }
            Self::Precise(origin) => origin.elapsed(),
        }
    }
}

#[cfg(target_os = "linux")]
fn coarse() -> rustix::time::Timespec {
    rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse)
}

/// Whether tokio's time stands still while real time goes on (its test utilities can do that).
#[cfg(target_os = "linux")]
fn is_paused() -> bool {
    let (virtual_start, real_start) = (Instant::now(), std::time::Instant::now());
    while real_start.elapsed() < Duration::from_micros(2) {
        std::hint::spin_loop();
    }
    Instant::now() == virtual_start
}

/// Longer than any process lives, and short enough for every clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The instant when a limit that starts now is over. No limit is too long.
pub(crate) fn deadline_in(limit: Duration) -> Instant {
    Instant::now() + limit.min(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_is_followed_exactly() {
        let clock = Clock::start(false);
        let before = clock.now();
        tokio::time::advance(Duration::from_millis(1234)).await;
        assert_eq!(clock.now() - before, Duration::from_millis(1234));
        assert_eq!(clock.at(clock.now()), Instant::now());
    }

    #[tokio::test]
    async fn the_coarse_clock_keeps_step_with_the_precise_one() {
        let (coarse, precise) = (Clock::start(false), Clock::start(true));
        let offset = coarse.now().abs_diff(precise.now());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let drift = coarse.now().abs_diff(precise.now()).abs_diff(offset);
        assert!(drift <= Duration::from_millis(25), "drift {drift:?}");
    }
}
