//! A look at a connection without I/O.
//!
//! The driver keeps its socket to itself, so a peer that closed an idle connection is not seen here: the
//! pool's bypass window and its keepalive are for that. What is seen is all that may go wrong between a
//! lease and the next: an abandoned statement, an open transaction, an unread result, an unknown state.

use mysql_async::consts::StatusFlags;
use mysql_async::{QueryResult, TextProtocol};
use pool_core::driver::Liveness;

use crate::conn::Conn;

/// Looks at `conn`. `reset_all` calls every connection dirty that was used.
pub(crate) fn peek(conn: &mut Conn, reset_all: bool) -> Liveness {
    // True from the start of a command until its answer was read: a dropped future leaves it so.
    if conn.raw().is_disconnected() || conn.watch().poisoned {
        return Liveness::Dead;
    }
    if conn.watch().owes_anything() || (reset_all && conn.watch().used) {
        return Liveness::Dirty;
    }
    // The only public view of an unread result; it neither reads nor writes.
    if !QueryResult::<TextProtocol>::new(conn.raw_mut()).is_empty() {
        return Liveness::Dirty;
    }
    match conn.flags() {
        // After a server error there are none.
        None => Liveness::Dirty,
        Some(flags) if !is_clean(flags, conn.watch().autocommit) => Liveness::Dirty,
        Some(_) => {
            conn.watch_mut().asked_read_only = false;
            Liveness::Clean
        }
    }
}

/// Whether the flags are those of an idle session whose autocommit is as after login.
pub(crate) fn is_clean(flags: StatusFlags, autocommit: bool) -> bool {
    let busy = StatusFlags::SERVER_STATUS_IN_TRANS
        | StatusFlags::SERVER_STATUS_IN_TRANS_READONLY
        | StatusFlags::SERVER_MORE_RESULTS_EXISTS;
    !flags.intersects(busy) && flags.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT) == autocommit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_session_that_is_not_idle_are_dirty() {
        let auto = StatusFlags::SERVER_STATUS_AUTOCOMMIT;
        let rows = [
            (auto, true, true),
            (auto | StatusFlags::SERVER_STATUS_NO_INDEX_USED, true, true),
            (auto | StatusFlags::SERVER_STATUS_IN_TRANS, true, false),
            (auto | StatusFlags::SERVER_STATUS_IN_TRANS_READONLY, true, false),
            (auto | StatusFlags::SERVER_MORE_RESULTS_EXISTS, true, false),
            (StatusFlags::empty(), true, false),
            (StatusFlags::empty(), false, true),
            (auto, false, false),
        ];
        for (flags, autocommit, clean) in rows {
            assert_eq!(is_clean(flags, autocommit), clean, "{flags:?} {autocommit}");
        }
    }
}
