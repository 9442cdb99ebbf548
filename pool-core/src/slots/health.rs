//! What is known about a host besides its connections: role, weight, lag, block, last cause.
//!
//! Plain atomics, so that choosing a host for a read takes no lock. Each value stands for itself; none
//! is derived from two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::balance::PeakEwma;
use crate::driver::Lag;
use crate::error::Cause;
use crate::host::{Host, Role};
use crate::weights::{HostInfo, Weights};

const NOT_SET: u32 = u32::MAX;
const LAG_NOT_ASKED: u64 = u64::MAX;
const LAG_UNKNOWN: u64 = u64::MAX - 1;

#[derive(Debug)]
pub(crate) struct Health {
    role: AtomicU8,
    /// The weight that was set by hand.
    weight: AtomicU32,
    /// The weight of a host without one, by role as [`encode`] numbers them.
    automatic: [AtomicU32; ROLES.len()],
    /// The server's size that the automatic weights were made from.
    capacity: Mutex<Option<u32>>,
    /// Whether it is kept behind on purpose.
    delayed: AtomicBool,
    lag: AtomicU64,
    /// Nanoseconds on the pool's clock; 0 is "not blocked".
    blocked_until: AtomicU64,
    blocks: AtomicU32,
    draining: AtomicBool,
    /// Whether a probe has ended, however it did.
    probed: AtomicBool,
    /// Smoothed lease time in nanoseconds as of `latency_at`; 0 is "not measured".
    latency: AtomicU64,
    /// When the last lease ended, in nanoseconds on the pool's clock.
    latency_at: AtomicU64,
    cause: Mutex<Option<Cause>>,
}

impl Health {
    pub(crate) fn new(host: &Host, weights: &Weights) -> Self {
        let automatic = |role| weights.weight(&HostInfo::new(host, role));
        Self {
            role: AtomicU8::new(encode(host.role())),
            weight: AtomicU32::new(host.weight().unwrap_or(NOT_SET)),
            automatic: ROLES.map(|role| AtomicU32::new(automatic(role))),
            capacity: Mutex::new(None),
            delayed: AtomicBool::new(false),
            lag: AtomicU64::new(LAG_NOT_ASKED),
            blocked_until: AtomicU64::new(0),
            blocks: AtomicU32::new(0),
            draining: AtomicBool::new(false),
            probed: AtomicBool::new(false),
            latency: AtomicU64::new(0),
            latency_at: AtomicU64::new(0),
            cause: Mutex::new(None),
        }
    }

    pub(crate) fn role(&self) -> Role {
        decode(self.role.load(Relaxed))
    }

    /// Sets the role; the one before.
    pub(crate) fn set_role(&self, role: Role) -> Role {
        decode(self.role.swap(encode(role), Relaxed))
    }

    /// The read weight: 0 while the host is kept behind on purpose, else the one set by hand, else the
    /// automatic one of the role that the host has now.
    pub(crate) fn weight(&self) -> u32 {
        if self.is_delayed() {
            return 0;
        }
        match self.weight.load(Relaxed) {
            NOT_SET => self.automatic[usize::from(encode(self.role()))].load(Relaxed),
            weight => weight,
        }
    }

    /// Brings the automatic weights up to what is known about the host now.
    pub(crate) fn resize(&self, host: &Host, weights: &Weights, capacity: Option<u32>) {
        let mut known = self.capacity.lock();
        if *known == capacity {
            return;
        }
        *known = capacity;
        for (automatic, role) in self.automatic.iter().zip(ROLES) {
            let info = HostInfo::new(host, role).with_capacity(capacity);
            automatic.store(weights.weight(&info), Relaxed);
        }
    }

    pub(crate) fn is_delayed(&self) -> bool {
        self.delayed.load(Relaxed)
    }

    pub(crate) fn set_delayed(&self, delayed: bool) {
        self.delayed.store(delayed, Relaxed);
    }

    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
    }

    pub(crate) fn lag(&self) -> Lag {
        match self.lag.load(Relaxed) {
            LAG_NOT_ASKED => Lag::NotAsked,
            LAG_UNKNOWN => Lag::Unknown,
            nanos => Lag::Known(Duration::from_nanos(nanos)),
        }
    }

    pub(crate) fn set_lag(&self, lag: Lag) {
        let value = match lag {
            Lag::Known(lag) => nanos(lag).min(LAG_UNKNOWN - 1),
            Lag::NotAsked => LAG_NOT_ASKED,
            Lag::Unknown => LAG_UNKNOWN,
        };
        self.lag.store(value, Relaxed);
    }

    /// Leaves the host out for a time that doubles with each block since the last success.
    /// True if it was not blocked before.
    pub(crate) fn block(&self, now: Duration, base: Duration, max: Duration) -> bool {
        let blocks = self.blocks.fetch_add(1, Relaxed).min(16);
        let until = now.saturating_add(base.saturating_mul(1 << blocks).min(max));
        self.blocked_until.swap(nanos(until).max(1), Relaxed) == 0
    }

    /// True if it was blocked before.
    pub(crate) fn unblock(&self) -> bool {
        self.blocks.store(0, Relaxed);
        self.blocked_until.swap(0, Relaxed) != 0
    }

    /// Whether the host is left out. It stays so until a connect or a probe succeeds; when the time of
    /// the block is over, a caller with no better choice may try it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_until.load(Relaxed) != 0
    }

    pub(crate) fn blocked_for(&self, now: Duration) -> Option<Duration> {
        match self.blocked_until.load(Relaxed) {
            0 => None,
            until => Some(Duration::from_nanos(until).saturating_sub(now)),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    pub(crate) fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Relaxed);
    }

    pub(crate) fn was_probed(&self) -> bool {
        self.probed.load(Relaxed)
    }

    /// A probe has ended. True for the first one.
    pub(crate) fn note_probed(&self) -> bool {
        !self.probed.swap(true, Relaxed)
    }

    /// The smoothed time of leases, faded by the time since the last one.
    pub(crate) fn latency(&self, now: Duration) -> Option<Duration> {
        self.latency_then()?.value(now)
    }

    /// A lease ended that took this long. Two writers may lose one sample to each other, which a smoothed
    /// value can bear.
    pub(crate) fn note_latency(&self, now: Duration, sample: Duration) {
        let mut latency = self.latency_then().unwrap_or_default();
        latency.record(now, sample);
        let average = latency.value(now).map_or(0, nanos);
        self.latency_at.store(nanos(now), Relaxed);
        self.latency.store(average.max(1), Relaxed);
    }

    fn latency_then(&self) -> Option<PeakEwma> {
        match self.latency.load(Relaxed) {
            0 => None,
            average => {
                let at = Duration::from_nanos(self.latency_at.load(Relaxed));
                Some(PeakEwma::resumed(Duration::from_nanos(average), at))
            }
        }
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause.lock().clone()
    }

    pub(crate) fn note_cause(&self, cause: Cause) -> Arc<str> {
        let message = Arc::clone(&cause.message);
        *self.cause.lock() = Some(cause);
        message
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// All roles, in the order of their numbers.
const ROLES: [Role; 3] = [Role::Replica, Role::Source, Role::Unknown];

fn encode(role: Role) -> u8 {
    match role {
        Role::Replica => 0,
        Role::Source => 1,
        Role::Unknown => 2,
    }
}

fn decode(role: u8) -> Role {
    match role {
        0 => Role::Replica,
        1 => Role::Source,
        _ => Role::Unknown,
    }
}
