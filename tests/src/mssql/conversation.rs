//! Requests and answers on an open session.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::core::Core;
use super::engine::Variables;
use super::packet::{self, HEADER, Message, PacketReader, Reset, kind};
use super::request::{Body, Request};
use super::rpc::Procedure;
use super::session::{Flow, Session};
use super::socket::Close;
use super::sql_error::SqlError;
use super::token::{DoneKind, Tokens, done};
use super::transport::Transport;

/// An open session.
pub(super) struct Conversation<'c> {
    pub(super) core: &'c Arc<Core>,
    pub(super) reader: PacketReader<ReadHalf<Transport>>,
    pub(super) writer: WriteHalf<Transport>,
    pub(super) packet_size: usize,
    pub(super) spid: u16,
    pub(super) session: Session,
}

impl Conversation<'_> {
    /// Serves requests until either side closes.
    pub(super) async fn run(mut self) -> io::Result<Close> {
        while let Some(message) = self.reader.message().await? {
            if message.kind == kind::ATTENTION {
                self.core.counters().update(|counts| counts.attentions += 1);
                let mut out = Tokens::default();
                out.done(DoneKind::Batch, done::ATTENTION, 0, 0);
                self.send(out).await?;
                continue;
            }
            let Some(request) = self.parse(&message) else { return Ok(Close::Fin) };
            if self.answer(message.reset, request).await? == Flow::Close {
                return Ok(Close::Fin);
            }
        }
        Ok(Close::Fin)
    }

    fn parse(&self, message: &Message) -> Option<Result<Request, SqlError>> {
        let damaged = || {
            SqlError::new(8009, 16)
                .message("The incoming tabular data stream (TDS) protocol stream is incorrect.")
        };
        let counters = self.core.counters();
        let request = match message.kind {
            kind::BATCH => {
                counters.update(|counts| counts.batches += 1);
                Request::batch(&message.body)
            }
            kind::RPC => {
                counters.update(|counts| counts.rpcs += 1);
                Request::rpc(&message.body)
            }
            kind::TRANSACTION => {
                counters.update(|counts| counts.transaction_requests += 1);
                Request::transaction(&message.body)
            }
            _ => return None,
        };
        Some(request.ok_or_else(damaged))
    }

    /// Runs a request and sends the answer, or the acknowledgement of an Attention that came first.
    async fn answer(
        &mut self,
        reset: Option<Reset>,
        request: Result<Request, SqlError>,
    ) -> io::Result<Flow> {
        let mut out = Tokens::default();
        // The transaction a request claims is the one before the reset it asks for.
        let request = request.and_then(|request| {
            self.session.check_descriptor(request.descriptor).map(|()| request)
        });
        if let Some(reset) = reset {
            self.session.reset(reset == Reset::KeepTransaction, &mut out);
            out.reset_acknowledged();
        }
        let flow = {
            let work = pin!(handle(self.core, &mut self.session, request, &mut out));
            tokio::select! {
                biased;
                flow = work => Some(flow),
                attention = self.reader.attention() => {
                    attention?;
                    None
                }
            }
        };
        if flow.is_none() {
            self.core.counters().update(|counts| counts.attentions += 1);
            out.done(DoneKind::Batch, done::ATTENTION, 0, 0);
        }
        self.send(out).await?;
        Ok(flow.unwrap_or(Flow::Continue))
    }

    /// Sends a reply packet by packet. An Attention cuts it short at the next end of a token.
    async fn send(&mut self, mut out: Tokens) -> io::Result<()> {
        out.finish();
        let room = self.packet_size - HEADER;
        let mut sent = 0;
        let mut id = 0u8;
        let mut interrupted = false;
        loop {
            let end = (sent + room).min(out.bytes().len());
            let last = end == out.bytes().len();
            // Ids count from 1 and wrap.
            id = id.wrapping_add(1);
            let wire = packet::packet(kind::REPLY, last, self.spid, id, &out.bytes()[sent..end]);
            sent = end;
            let mut write = pin!(self.writer.write_all(&wire));
            let attention = tokio::select! {
                biased;
                written = &mut write => {
                    written?;
                    None
                }
                attention = self.reader.attention(), if !interrupted && !last => Some(attention),
            };
            if let Some(attention) = attention {
                attention?;
                write.await?;
                interrupted = true;
                self.core.counters().update(|counts| counts.attentions += 1);
                out.cut_after(sent);
                out.done(DoneKind::Batch, done::ATTENTION, 0, 0);
                out.finish();
            }
            if last {
                return self.writer.flush().await;
            }
        }
    }
}

/// Runs one request.
async fn handle(
    core: &Core,
    session: &mut Session,
    request: Result<Request, SqlError>,
    out: &mut Tokens,
) -> Flow {
    let request = match request {
        Ok(request) => request,
        Err(error) => return session.report(&error, DoneKind::Batch, out),
    };
    let in_procedure = matches!(request.body, Body::Rpc(_));
    let kind = if in_procedure { DoneKind::InProcedure } else { DoneKind::Batch };
    if let Some(line) = request.log_line() {
        core.note_statement(line);
        tokio::time::sleep(core.switches().request_delay()).await;
        if let Some(error) = core.switches().next_request_error() {
            let kind = if in_procedure { DoneKind::Procedure } else { DoneKind::Batch };
            return session.report(&error, kind, out);
        }
    }
    let result = match request.body {
        Body::Batch(text) => return session.batch(&text, Variables::new(), kind, out).await,
        Body::Rpc(rpc) => match rpc.procedure {
            Procedure::ExecuteSql => {
                let Some(text) = rpc.statement() else {
                    let error = SqlError::new(201, 16)
                        .message("Procedure or function expects parameter '@statement'.");
                    return session.report(&error, DoneKind::Procedure, out);
                };
                let flow = session.batch(text, rpc.variables(), kind, out).await;
                out.return_status(0);
                out.done(DoneKind::Procedure, done::FINAL, 0, 0);
                return flow;
            }
            Procedure::ResetConnection => {
                session.reset(false, out);
                out.return_status(0);
                out.done(DoneKind::Procedure, done::FINAL, 0, 0);
                return Flow::Continue;
            }
            Procedure::Other(name) => Err(SqlError::new(2812, 16)
                .message(format!("Could not find stored procedure '{name}'."))),
        },
        Body::Begin(isolation) => {
            if let Some(isolation) = isolation {
                session.set_isolation(isolation);
            }
            session.begin(out);
            Ok(())
        }
        Body::Commit => session.commit(out),
        Body::Rollback(to) => session.rollback(to.as_deref(), out),
        Body::Save(name) => session.save(&name).await,
    };
    match result {
        Ok(()) => {
            out.done(DoneKind::Batch, done::FINAL, 0, 0);
            Flow::Continue
        }
        Err(error) => {
            let kind = if in_procedure { DoneKind::Procedure } else { DoneKind::Batch };
            session.report(&error, kind, out)
        }
    }
}
