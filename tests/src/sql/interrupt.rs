//! Stops what a session is doing, from outside.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::InterruptHandle;
use tokio::sync::Notify;

/// Interrupts one session: a running statement, a sleep inside one, or a wait for a lock.
///
/// An interrupt stays set until [`clear`](Self::clear), which a server calls before each statement.
#[derive(Default)]
pub struct Interrupt {
    set: Mutex<bool>,
    changed: Condvar,
    notify: Notify,
    running: Mutex<Vec<InterruptHandle>>,
}

impl Interrupt {
    /// Interrupts whatever the session does now.
    pub fn interrupt(&self) {
        *self.set.lock() = true;
        self.changed.notify_all();
        self.notify.notify_waiters();
        for handle in self.running.lock().iter() {
            handle.interrupt();
        }
    }

    /// Forgets an earlier interrupt.
    pub fn clear(&self) {
        *self.set.lock() = false;
    }

    /// Whether an interrupt came since the last [`clear`](Self::clear).
    pub fn is_set(&self) -> bool {
        *self.set.lock()
    }

    /// Blocks this thread; answers whether it was cut short by an interrupt.
    ///
    /// For SQL functions, which run on blocking threads.
    pub fn sleep(&self, time: Duration) -> bool {
        let deadline = Instant::now().checked_add(time);
        let mut set = self.set.lock();
        while !*set {
            match deadline {
                Some(deadline) => {
                    if self.changed.wait_until(&mut set, deadline).timed_out() {
                        return *set;
                    }
                }
                None => self.changed.wait(&mut set),
            }
        }
        true
    }

    /// Resolves when the session is interrupted.
    pub async fn interrupted(&self) {
        let notified = self.notify.notified();
        tokio::pin!(notified);
        // Registered before the look, so that an interrupt between the two is not lost.
        notified.as_mut().enable();
        if !self.is_set() {
            notified.await;
        }
    }

    /// Also interrupts statements of this SQLite connection.
    pub(super) fn watch(&self, handle: InterruptHandle) {
        self.running.lock().push(handle);
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("set", &self.is_set()).finish_non_exhaustive()
    }
}
