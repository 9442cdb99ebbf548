//! The connection: a `mysql_async::Conn` that notices its own errors.

use std::fmt;
use std::ops::{Deref, DerefMut};

use futures_util::FutureExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Error, TxOpts};
use pool_core::host::Host;
use pool_core::verdict::Verdict;

use crate::cancel::CancelHandle;
use crate::peek::is_clean;
use crate::queryable::watched_queryable;
use crate::transaction::Transaction;
use crate::watch::Watch;

/// A physical connection to one MySQL or MariaDB server.
///
/// It dereferences to [`mysql_async::Conn`] and implements [`Queryable`] itself, so statements run through
/// it (or through a lease of it) are judged as they happen: the pool hears at once that a link broke or
/// that the server turned read-only.
///
/// Errors that are met elsewhere (while a row stream is read, or by code that was given the inner
/// `mysql_async::Conn`) are noticed when the connection is returned, or at once if they are shown to
/// [`Conn::observe`].
///
/// # Cancellation
///
/// A future of a statement may be dropped at any time. The answer of the abandoned statement is still on
/// the wire then, so the connection is never used again: the pool finds it dead when it is returned.
/// Inside a transaction the pool also ends the statement on the server, so that row locks go away at once;
/// elsewhere the server goes on with it unless [`Conn::cancel_handle`] is used.
pub struct Conn {
    /// `None` only while it is being dropped or taken out.
    inner: Option<mysql_async::Conn>,
    host: Host,
    watch: Watch,
}

impl Conn {
    pub(crate) fn new(inner: mysql_async::Conn, host: Host, watch: Watch) -> Self {
        Self { inner: Some(inner), host, watch }
    }

    /// The server at the other end.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the session is read-only (`SET SESSION TRANSACTION READ ONLY`), be it by the pool or by
    /// the caller. Writes are then refused with 1792.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.watch.read_only
    }

    /// Makes the session read-only, or read/write. Sends nothing if it already is.
    ///
    /// The pool puts the session back as it was when the connection is returned.
    ///
    /// # Errors
    ///
    /// Whatever the server answers, and lost connections.
    pub async fn set_read_only(&mut self, read_only: bool) -> Result<(), Error> {
        if self.watch.read_only == read_only {
            return Ok(());
        }
        self.query_drop(session_access(read_only)).await
    }

    /// Whether autocommit is on, as the server's last answer says; `None` after an error.
    #[must_use]
    pub fn autocommit(&self) -> Option<bool> {
        self.flags()
            .map(|flags| flags.contains(mysql_async::consts::StatusFlags::SERVER_STATUS_AUTOCOMMIT))
    }

    /// Whether a transaction is open, as the server's last answer says (a `BEGIN` sent as text counts);
    /// `None` after an error, or while a result is open.
    #[must_use]
    pub fn in_transaction(&self) -> Option<bool> {
        self.flags()
            .map(|flags| flags.contains(mysql_async::consts::StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    /// Whether the caller asked for a read-only transaction since the connection was last clean.
    pub(crate) fn asked_read_only(&self) -> bool {
        self.watch.asked_read_only
    }

    /// Judges an error that did not pass through this wrapper, and does what follows from it: the
    /// connection is not used again, the pool is told.
    pub fn observe(&mut self, error: &Error) -> Verdict {
        self.watch.note(error)
    }

    /// Starts a transaction.
    ///
    /// `with_readonly` and `with_isolation_level` cost one more round trip each. A transaction that is
    /// dropped is rolled back before anyone else gets the connection.
    ///
    /// # Errors
    ///
    /// See `mysql_async::Conn::start_transaction`.
    pub async fn start_transaction(&mut self, options: TxOpts) -> Result<Transaction<'_>, Error> {
        let (conn, watch) = self.parts();
        watch.used = true;
        watch.asked_read_only |= options.readonly() == Some(true);
        match watch.bounded(conn.start_transaction(options)).await {
            Ok(inner) => {
                watch.unsure = false;
                Ok(Transaction::new(inner, watch))
            }
            Err(error) => {
                watch.note(&error);
                Err(error)
            }
        }
    }

    /// A handle that can end the running statement from elsewhere.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::new(self.raw().opts().clone(), self.raw().id())
    }

    /// Whether a statement was abandoned inside a transaction: the server keeps its row locks until the
    /// statement ends, however long that takes, although the socket is closed.
    pub(crate) fn holds_locks_abandoned(&self) -> bool {
        // The flags are those of the last answer, which came before the abandoned statement.
        let flags = self.raw().last_ok_packet().map(mysql_async::OkPacket::status_flags);
        let open = flags.is_none_or(|flags| !is_clean(flags, true));
        self.raw().is_disconnected() && !self.watch.poisoned && open
    }

    /// Takes the driver's connection out. Nothing watches it any more.
    #[must_use]
    pub fn into_inner(mut self) -> mysql_async::Conn {
        self.inner.take().expect("present until dropped")
    }

    pub(crate) fn raw(&self) -> &mysql_async::Conn {
        self.inner.as_ref().expect("present until dropped")
    }

    pub(crate) fn raw_mut(&mut self) -> &mut mysql_async::Conn {
        self.inner.as_mut().expect("present until dropped")
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }

    pub(crate) fn parts(&mut self) -> (&mut mysql_async::Conn, &mut Watch) {
        (self.inner.as_mut().expect("present until dropped"), &mut self.watch)
    }

    /// The status flags of the server's last answer, if they can be trusted.
    pub(crate) fn flags(&self) -> Option<mysql_async::consts::StatusFlags> {
        if self.watch.unsure {
            return None;
        }
        self.raw().last_ok_packet().map(mysql_async::OkPacket::status_flags)
    }
}

/// The statement that sets the access mode of every later transaction of the session.
pub(crate) fn session_access(read_only: bool) -> &'static str {
    if read_only {
        "SET SESSION TRANSACTION READ ONLY"
    } else {
        "SET SESSION TRANSACTION READ WRITE"
    }
}

watched_queryable!(Conn);

/// Whether the server is a MariaDB one: those count their versions from 10, MySQL up to 9.
pub(crate) fn is_mariadb(conn: &mysql_async::Conn) -> bool {
    conn.server_version().0 >= 10
}

impl Deref for Conn {
    type Target = mysql_async::Conn;

    fn deref(&self) -> &Self::Target {
        self.raw()
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.watch.used = true;
        self.raw_mut()
    }
}

/// For `"SELECT …".with(…).fetch(&mut *lease)`: errors are noticed when the connection is returned.
impl<'a> From<&'a mut Conn> for mysql_async::Connection<'a, 'static> {
    fn from(conn: &'a mut Conn) -> Self {
        DerefMut::deref_mut(conn).into()
    }
}

impl Drop for Conn {
    /// Closes the socket at once; says goodbye if that takes no waiting. The driver's own clean-up is a
    /// task without a time limit that reads away whatever is pending, so it is not used.
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take()
            && !inner.is_disconnected()
            && !std::thread::panicking()
        {
            let _ = inner.disconnect().now_or_never();
        }
    }
}

impl fmt::Debug for Conn {
    // The driver's own output holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn")
            .field("host", &self.host.name())
            .field("id", &self.inner.as_ref().map(mysql_async::Conn::id))
            .field("watch", &self.watch)
            .finish()
    }
}
