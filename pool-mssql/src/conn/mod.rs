//! A pooled connection: the driver's client, and what the pool must know about it.

mod statements;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pool_core::driver::Liveness;
use pool_core::verdict::Verdict;

use crate::address::Address;
use crate::pair::Side;
use crate::peek::{ClientState, inspect};
pub use crate::stream::Stream;
use crate::stream::{Socket, SocketState};
use crate::track::Track;

/// The driver's client over our byte stream.
pub type Client = tiberius::Client<Stream>;

/// One connection to SQL Server.
///
/// Has the methods of [`tiberius::Client`] under the same names; they note errors as they happen, tell the
/// pool, and bound each statement by the command timeout. It also dereferences to the client itself: what
/// runs through that door is not seen, so the connection is tidied before it is used again.
pub struct Conn {
    pub(crate) client: Client,
    pub(crate) socket: Arc<Socket>,
    pub(crate) track: Track,
    pub(crate) server: Address,
    pub(crate) hops: u8,
    /// Bytes may be TLS records, of which unread ones prove nothing.
    pub(crate) encrypted: bool,
    /// Every use is followed by a full reset.
    pub(crate) always_reset: bool,
    /// Closed after its first use (`Pooling=false`).
    pub(crate) single_use: bool,
    /// Logged in with read intent.
    pub(crate) read_only: bool,
    /// Which partner of a mirrored pair a connection for writes was opened to.
    pub(crate) side: Option<Side>,
}

impl Conn {
    /// Tells the pool about an error that the bare client returned.
    pub fn note_error(&mut self, error: &tiberius::error::Error) {
        self.track.failed(error);
    }

    /// How an error of this connection is judged.
    #[must_use]
    pub fn verdict(&self, error: &tiberius::error::Error) -> Verdict {
        self.track.verdict(error)
    }

    /// Whether the server has a transaction open for this connection; `None` if that is not known.
    #[must_use]
    pub fn in_transaction(&self) -> Option<bool> {
        self.state().in_transaction.filter(|_| !self.track.pending)
    }

    /// The server that let this connection in: after redirects not the one that was asked for.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.server
    }

    /// How many redirects led to it.
    #[must_use]
    pub fn redirects(&self) -> u8 {
        self.hops
    }

    /// Whether it logged in with `ApplicationIntent=ReadOnly`.
    #[must_use]
    pub fn has_read_intent(&self) -> bool {
        self.read_only
    }

    /// Looks at the connection without a round trip.
    pub(crate) fn peek(&mut self) -> Liveness {
        if self.track.dead.is_some() || (self.single_use && self.track.used) {
            return Liveness::Dead;
        }
        match self.socket.look() {
            SocketState::Over => return Liveness::Dead,
            SocketState::Unread => return self.unread(),
            SocketState::Quiet => {}
        }
        let track = &self.track;
        if !track.used {
            return if track.doubtful { Liveness::Dirty } else { Liveness::Clean };
        }
        let known_dirty = track.pending || track.isolation || track.unseen || track.doubtful;
        if known_dirty || self.always_reset {
            return Liveness::Dirty;
        }
        if self.state() == CLEAN {
            self.track.used = false;
            return Liveness::Clean;
        }
        Liveness::Dirty
    }

    pub(crate) fn state(&self) -> ClientState {
        inspect(&self.client)
    }

    pub(crate) fn side(&self) -> Option<Side> {
        self.side
    }

    /// The client and the flags, for the driver's own requests: these are neither judged nor reported.
    pub(crate) fn parts(&mut self) -> (&mut Client, &mut Track) {
        (&mut self.client, &mut self.track)
    }

    pub(crate) fn into_client(self) -> Client {
        self.client
    }

    fn unread(&mut self) -> Liveness {
        if self.track.pending || self.track.unseen {
            return Liveness::Dirty;
        }
        if self.encrypted {
            // A TLS record of its own (a ticket, a farewell): only a round trip tells.
            self.track.doubtful = true;
            return Liveness::Dirty;
        }
        // An answer nobody asked for would be taken for the next one.
        self.track.dead = Some("unexpected bytes");
        Liveness::Dead
    }
}

/// Everything read, no transaction.
const CLEAN: ClientState = ClientState { answer_read: Some(true), in_transaction: Some(false) };

impl Deref for Conn {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Conn {
    /// The bare client. What runs there is unknown: the connection counts as dirty.
    fn deref_mut(&mut self) -> &mut Client {
        self.track.used = true;
        self.track.unseen = true;
        &mut self.client
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn")
            .field("server", &self.server.to_string())
            .field("redirects", &self.hops)
            .field("dead", &self.track.dead)
            .field("pending", &self.track.pending)
            .finish_non_exhaustive()
    }
}
