//! How well the machine runs at all: a promise in milliseconds can only be measured while it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(1);

/// A thread that does nothing but wake up every millisecond, and notes how late it was.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Starts the thread. Dropping the watch ends it.
    #[must_use]
    pub fn watch() -> Self {
        let (worst, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (noted, ended) = (Arc::clone(&worst), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !ended.load(SeqCst) {
                let asleep = Instant::now();
                std::thread::sleep(STEP);
                let late = asleep.elapsed().saturating_sub(STEP);
                noted.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), SeqCst);
            }
        });
        Self { worst, over, thread: Some(thread) }
    }

    /// How late the thread was at worst since the last call.
    pub fn take(&self) -> Duration {
        Duration::from_micros(self.worst.swap(0, SeqCst))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
