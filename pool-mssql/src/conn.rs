//! A pooled connection: the driver's client, and what the pool must know about it.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pool_core::driver::Liveness;
use pool_core::verdict::Verdict;
use tiberius::{
    ColumnOrderHint, Command, ExecuteResult, IsolationLevel, MetaDataColumn, Query,
    SqlBulkCopyOptions, ToSql,
};

use crate::address::Address;
use crate::answer::{Answer, BulkLoad, CommandStream, QueryStream};
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
    client: Client,
    socket: Arc<Socket>,
    track: Track,
    server: Address,
    hops: u8,
    /// Bytes may be TLS records, of which unread ones prove nothing.
    encrypted: bool,
    /// Every use is followed by a full reset.
    always_reset: bool,
    /// Closed after its first use (`Pooling=false`).
    single_use: bool,
    /// Logged in with read intent.
    read_only: bool,
    /// Which partner of a mirrored pair a connection for writes was opened to.
    side: Option<Side>,
}

/// What a new connection is made of.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) socket: Arc<Socket>,
    pub(crate) track: Track,
    pub(crate) server: Address,
    pub(crate) hops: u8,
    pub(crate) encrypted: bool,
    pub(crate) always_reset: bool,
    pub(crate) single_use: bool,
    pub(crate) read_only: bool,
    pub(crate) side: Option<Side>,
}

impl Conn {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            client,
            socket,
            track,
            server,
            hops,
            encrypted,
            always_reset,
            single_use,
            read_only,
            side,
        } = parts;
        Self {
            client,
            socket,
            track,
            server,
            hops,
            encrypted,
            always_reset,
            single_use,
            read_only,
            side,
        }
    }

    /// Runs a query with parameters `@P1`, `@P2` …: [`tiberius::Client::query`].
    ///
    /// # Errors
    /// As the original; a statement that ran out of time is an I/O error of kind `TimedOut`.
    pub async fn query<'a, 'b>(
        &'a mut self,
        query: impl Into<Cow<'b, str>>,
        params: &'b [&'b dyn ToSql],
    ) -> tiberius::Result<QueryStream<'a>>
    where
        'a: 'b,
    {
        let query = query.into();
        let limit = self.track.begin(&query);
        match limit.run(self.client.query(query, params)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs a batch: [`tiberius::Client::simple_query`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn simple_query<'a, 'b>(
        &'a mut self,
        query: impl Into<Cow<'b, str>>,
    ) -> tiberius::Result<QueryStream<'a>>
    where
        'a: 'b,
    {
        let query = query.into();
        let limit = self.track.begin(&query);
        match limit.run(self.client.simple_query(query)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs statements and counts the rows they touch: [`tiberius::Client::execute`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn execute<'a>(
        &mut self,
        query: impl Into<Cow<'a, str>>,
        params: &[&dyn ToSql],
    ) -> tiberius::Result<ExecuteResult> {
        let query = query.into();
        let limit = self.track.begin(&query);
        let result = limit.run(self.client.execute(query, params)).await;
        self.track.settle(&result);
        result
    }

    /// Runs a [`Query`] with bound parameters for its rows: [`Query::query`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn query_bound<'a>(
        &'a mut self,
        query: Query<'_>,
    ) -> tiberius::Result<QueryStream<'a>> {
        // Runs inside `sp_executesql`, which restores session settings when it returns.
        let limit = self.track.begin_quiet();
        match limit.run(query.query(&mut self.client)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Runs a [`Query`] with bound parameters for its counts: [`Query::execute`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn execute_bound(&mut self, query: Query<'_>) -> tiberius::Result<ExecuteResult> {
        let limit = self.track.begin_quiet();
        let result = limit.run(query.execute(&mut self.client)).await;
        self.track.settle(&result);
        result
    }

    /// Calls a stored procedure: [`Command::exec`].
    ///
    /// # Errors
    /// As [`Conn::query`].
    pub async fn exec<'a>(
        &'a mut self,
        command: Command<'_>,
    ) -> tiberius::Result<CommandStream<'a>> {
        let limit = self.track.begin_quiet();
        match limit.run(command.exec(&mut self.client)).await {
            Ok(inner) => Ok(Answer::new(inner, &mut self.track, limit)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// Starts a bulk load into all columns: [`tiberius::Client::bulk_insert`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert<'a>(&'a mut self, table: &'a str) -> tiberius::Result<BulkLoad<'a>> {
        self.bulk_insert_columns(table, &["*"]).await
    }

    /// Starts a bulk load into some columns: [`tiberius::Client::bulk_insert_columns`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert_columns<'a>(
        &'a mut self,
        table: &'a str,
        columns: &'a [&'a str],
    ) -> tiberius::Result<BulkLoad<'a>> {
        self.bulk_insert_with_options(table, columns, SqlBulkCopyOptions::empty(), &[]).await
    }

    /// Starts a bulk load: [`tiberius::Client::bulk_insert_with_options`].
    ///
    /// # Errors
    /// As the original.
    pub async fn bulk_insert_with_options<'a>(
        &'a mut self,
        table: &'a str,
        columns: &'a [&'a str],
        options: SqlBulkCopyOptions,
        order_hints: &'a [ColumnOrderHint<'a>],
    ) -> tiberius::Result<BulkLoad<'a>> {
        let limit = self.track.begin_quiet();
        let start = self.client.bulk_insert_with_options(table, columns, options, order_hints);
        match limit.run(start).await {
            Ok(inner) => Ok(BulkLoad::new(inner, &mut self.track)),
            Err(error) => {
                self.track.failed(&error);
                Err(error)
            }
        }
    }

    /// The columns of a table: [`tiberius::Client::column_metadata`].
    ///
    /// # Errors
    /// As the original.
    pub async fn column_metadata(
        &mut self,
        table: &str,
        columns: &[&str],
    ) -> tiberius::Result<Vec<MetaDataColumn<'static>>> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.column_metadata(table, columns)).await;
        self.track.settle(&result);
        result
    }

    /// Begins a transaction: [`tiberius::Client::begin_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn begin_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.begin_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Begins a transaction at an isolation level, which then stays with the session:
    /// [`tiberius::Client::begin_transaction_with_isolation`].
    ///
    /// # Errors
    /// As the original.
    pub async fn begin_transaction_with_isolation(
        &mut self,
        level: IsolationLevel,
    ) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        self.track.isolation |= !matches!(level, IsolationLevel::Unspecified);
        let result = limit.run(self.client.begin_transaction_with_isolation(level)).await;
        self.track.settle(&result);
        result
    }

    /// Commits the transaction: [`tiberius::Client::commit_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn commit_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.commit_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Rolls the transaction back: [`tiberius::Client::rollback_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn rollback_transaction(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.rollback_transaction()).await;
        self.track.settle(&result);
        result
    }

    /// Sets a savepoint: [`tiberius::Client::save_transaction`].
    ///
    /// # Errors
    /// As the original.
    pub async fn save_transaction<'a>(
        &mut self,
        name: impl Into<Cow<'a, str>>,
    ) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        let result = limit.run(self.client.save_transaction(name)).await;
        self.track.settle(&result);
        result
    }

    /// Tells the server to stop what it still does for this connection:
    /// [`tiberius::Client::cancel_query`].
    ///
    /// # Errors
    /// As the original; the connection is then closed when it goes back.
    pub async fn cancel_query(&mut self) -> tiberius::Result<()> {
        let limit = self.track.begin_quiet();
        self.track.doubtful = true;
        let result = limit.run(self.client.cancel_query()).await;
        self.track.settle(&result);
        result
    }

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
