//! The conversation on one connection, from PRELOGIN to its close.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::TcpStream;

use super::conversation::Conversation;
use super::core::{Core, Ticket};
use super::faults::{Fault, Malformed};
use super::login::Login;
use super::login_reply::{self, Answer};
use super::packet::{self, DEFAULT_PACKET_SIZE, PacketReader, kind};
use super::prelogin::{self, Agreed, ClientPrelogin};
use super::socket::{Close, Socket};
use super::tls;
use super::token::Tokens;
use super::transport::Transport;

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
