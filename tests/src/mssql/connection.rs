//! The conversation on one connection, from PRELOGIN to its close.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

use super::core::{Core, Ticket};
use super::login::Login;
use super::login_reply::{self, Answer};
use super::packet::{self, DEFAULT_PACKET_SIZE, HEADER, Message, PacketReader, Reset, kind};
use super::prelogin::{self, Agreed, ClientPrelogin};
use super::request::{Body, Request};
use super::rpc::Procedure;
use super::session::{Flow, Session};
use super::socket::{Close, Socket};
use super::sql_error::SqlError;
use super::switches::{Fault, Malformed};
use super::tls;
use super::token::{DoneKind, Tokens, done};

/// Serves one accepted connection until it ends.
pub(crate) async fn serve(core: Arc<Core>, stream: TcpStream) {
    // Answers are small; without this they would wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let socket = Socket::new(stream);
    let mut ticket = core.register();
    let spid = ticket.spid();
    let how = tokio::select! {
        biased;
        how = ticket.killed() => how,
        how = converse(&core, &socket, spid) => how.unwrap_or(Close::Fin),
    };
    socket.prepare_close(how);
    drop(socket);
    drop::<Ticket>(ticket);
}

async fn converse(core: &Arc<Core>, socket: &Socket, spid: u16) -> io::Result<Close> {
    let fault = core.switches().fault();
    match fault {
        Fault::ResetOnAccept => return Ok(Close::Rst),
        Fault::CloseOnAccept => return Ok(Close::Fin),
        Fault::HangBeforePrelogin => return silence(socket.clone()).await,
        _ => {}
    }
    let Some(agreed) = prelogin(core, socket, fault).await? else { return Ok(Close::Fin) };
    match fault {
        Fault::HangAfterPrelogin => return silence(socket.clone()).await,
        Fault::CloseAfterPrelogin => return Ok(Close::Fin),
        _ => {}
    }
    let mut transport = match agreed {
        Agreed::Plain => Transport::Plain(socket.clone()),
        Agreed::LoginOnly | Agreed::Full => {
            let encrypted = tls::accept(socket.clone()).await?;
            core.counters().update(|counts| counts.tls_handshakes += 1);
            Transport::Tls(Box::new(encrypted))
        }
    };
    let message = PacketReader::new(&mut transport).message().await?;
    let login = message.filter(|message| message.kind == kind::LOGIN7);
    let Some(mut login) = login.and_then(|message| Login::parse(&message.body)) else {
        return Ok(Close::Fin);
    };
    login.record.encrypted = agreed != Agreed::Plain;
    core.note_login(&login.record);
    if agreed == Agreed::LoginOnly {
        transport = Transport::Plain(socket.clone());
    }
    match fault {
        Fault::HangBeforeLoginReply => return silence(transport).await,
        Fault::CloseAfterLogin => return Ok(Close::Fin),
        Fault::Malformed(malformed) => {
            let (kind, body) = match malformed {
                Malformed::EmptyLoginReply => (kind::REPLY, Vec::new()),
                Malformed::WrongLoginReply => (kind::PRELOGIN, prelogin::reply(2)),
                _ => {
                    let mut tokens = Tokens::default();
                    tokens.unknown();
                    (kind::REPLY, tokens.bytes().to_vec())
                }
            };
            packet::write_message(&mut transport, kind, spid, DEFAULT_PACKET_SIZE, &body).await?;
            return Ok(Close::Fin);
        }
        _ => {}
    }
    tokio::time::sleep(core.switches().login_delay()).await;
    let Answer { tokens, session } = login_reply::answer(core, &login, spid);
    packet::write_message(&mut transport, kind::REPLY, spid, DEFAULT_PACKET_SIZE, tokens.bytes())
        .await?;
    let Some(session) = session else {
        // The client closes once it has read the answer; closing first could cost it the answer.
        return silence(transport).await;
    };
    let packet_size = login_reply::packet_size(&login.record);
    let (reader, writer) = tokio::io::split(transport);
    let reader = PacketReader::new(reader);
    Conversation { core, reader, writer, packet_size, spid, session }.run().await
}

/// Answers PRELOGIN. `None` ends the connection.
async fn prelogin(core: &Core, socket: &Socket, fault: Fault) -> io::Result<Option<Agreed>> {
    let mut writer = socket.clone();
    let Some(message) = PacketReader::new(socket.clone()).message().await? else { return Ok(None) };
    if message.kind != kind::PRELOGIN {
        return Ok(None);
    }
    core.counters().update(|counts| counts.prelogins += 1);
    let Some(client) = ClientPrelogin::parse(&message.body) else { return Ok(None) };
    let (encryption, agreed) = client.negotiate(core.encryption());
    let reply = prelogin::reply(encryption);
    let mut wire = packet::packet(kind::REPLY, true, 0, 1, &reply);
    let damaged = match fault {
        Fault::Malformed(Malformed::WrongPacketType) => {
            wire[0] = 0x7F;
            true
        }
        Fault::Malformed(Malformed::PacketTooShort) => {
            wire[2..4].copy_from_slice(&4u16.to_be_bytes());
            true
        }
        Fault::Malformed(Malformed::PacketTooLong) => {
            wire[2..4].copy_from_slice(&1000u16.to_be_bytes());
            true
        }
        Fault::Malformed(Malformed::EmptyPrelogin) => {
            wire = packet::packet(kind::REPLY, true, 0, 1, &[]);
            true
        }
        Fault::Malformed(Malformed::NoTerminator) => {
            wire = packet::packet(kind::REPLY, true, 0, 1, &prelogin::reply_without_terminator());
            true
        }
        _ => false,
    };
    writer.write_all(&wire).await?;
    Ok((!damaged).then_some(agreed))
}

/// Says nothing more until the client gives up.
async fn silence<R: AsyncRead + Unpin>(reader: R) -> io::Result<Close> {
    PacketReader::new(reader).discard().await;
    Ok(Close::Fin)
}

/// An open session.
struct Conversation<'c> {
    core: &'c Arc<Core>,
    reader: PacketReader<ReadHalf<Transport>>,
    writer: WriteHalf<Transport>,
    packet_size: usize,
    spid: u16,
    session: Session,
}

impl Conversation<'_> {
    async fn run(mut self) -> io::Result<Close> {
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
    if let Err(error) = session.check_descriptor(request.descriptor) {
        return session.report(&error, DoneKind::Batch, out);
    }
    let result = match request.body {
        Body::Batch(text) => return session.batch(&text, Default::default(), kind, out).await,
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

/// The stream under the packets.
#[derive(Debug)]
enum Transport {
    Plain(Socket),
    Tls(Box<tls::Encrypted>),
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
