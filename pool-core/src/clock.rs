//! The pool's clock: one origin, so that the pure parts deal in plain durations.

use std::time::Duration;

use tokio::time::Instant;

/// Time since the pool was built. Follows tokio's clock, so paused time works in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// The instant of a time on this clock.
    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.0 + time
    }
}

/// Longer than any process lives, and short enough for every clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The instant when a limit that starts now is over. No limit is too long.
pub(crate) fn deadline_in(limit: Duration) -> Instant {
    Instant::now() + limit.min(FAR)
}
