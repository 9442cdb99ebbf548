//! Loopback ports that a server can come back to.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use parking_lot::Mutex;

use super::Error;

/// Below Linux' range for outgoing connections: a port from that range can be taken by any client
/// socket while its server is down, and the server could not come back.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port of 127.0.0.1 that nothing listens on and this process was not given before.
pub(super) fn free() -> Result<u16, Error> {
    let span = u64::from(RANGE.end - RANGE.start);
    for attempt in 0..1_000_u32 {
        // Each `RandomState` has keys of its own: enough chance to keep test processes apart.
        let offset = RandomState::new().hash_one(attempt) % span;
        let port = RANGE.start + u16::try_from(offset).unwrap_or(0);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            continue;
        }
        if TAKEN.lock().get_or_insert_default().insert(port) {
            return Ok(port);
        }
    }
    Err(Error::new("no free port on 127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_lie_outside_the_range_of_outgoing_connections() {
        let ports: HashSet<u16> = (0..50).map(|_| free().unwrap_or(0)).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| RANGE.contains(port)));
    }
}
