//! TDS packets: the 8-byte header, messages cut into packets and put together again.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(crate) const HEADER: usize = 8;
/// What both sides use until a login negotiates something else.
pub(crate) const DEFAULT_PACKET_SIZE: usize = 4096;
/// A request larger than this is taken for garbage.
const MAX_MESSAGE: usize = 64 << 20;

pub(crate) mod kind {
    //! Packet types.
    pub(crate) const BATCH: u8 = 0x01;
    pub(crate) const RPC: u8 = 0x03;
    pub(crate) const REPLY: u8 = 0x04;
    pub(crate) const ATTENTION: u8 = 0x06;
    pub(crate) const TRANSACTION: u8 = 0x0E;
    pub(crate) const LOGIN7: u8 = 0x10;
    pub(crate) const PRELOGIN: u8 = 0x12;
}

mod status {
    //! Bits of the packet status.
    pub(super) const END: u8 = 0x01;
    pub(super) const IGNORE: u8 = 0x02;
    pub(super) const RESET: u8 = 0x08;
    pub(super) const RESET_KEEP_TRANSACTION: u8 = 0x10;
}

/// What the client asked to be reset before its request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    All,
    KeepTransaction,
}

/// One complete client message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) reset: Option<Reset>,
    pub(crate) body: Vec<u8>,
}

struct Packet {
    kind: u8,
    status: u8,
    body: Vec<u8>,
}

/// Reads packets. Bytes are kept here until a packet is complete, so that a future dropped half-way
/// loses nothing.
#[derive(Debug)]
pub(crate) struct PacketReader<R> {
    inner: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> PacketReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    /// The next message, `None` when the client closed between two messages.
    ///
    /// Not cancel safe: packets of an incomplete message are lost.
    pub(crate) async fn message(&mut self) -> io::Result<Option<Message>> {
        let mut message: Option<Message> = None;
        loop {
            let Some(packet) = self.packet().await? else {
                return match message {
                    None => Ok(None),
                    Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            };
            if packet.kind == kind::ATTENTION {
                return Ok(Some(Message { kind: kind::ATTENTION, reset: None, body: Vec::new() }));
            }
            let whole = message.get_or_insert_with(|| Message {
                kind: packet.kind,
                reset: match packet.status {
                    s if s & status::RESET_KEEP_TRANSACTION != 0 => Some(Reset::KeepTransaction),
                    s if s & status::RESET != 0 => Some(Reset::All),
                    _ => None,
                },
                body: Vec::new(),
            });
            if whole.kind != packet.kind || whole.body.len() + packet.body.len() > MAX_MESSAGE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not one TDS message"));
            }
            whole.body.extend_from_slice(&packet.body);
            if packet.status & status::IGNORE != 0 {
                message = None;
            } else if packet.status & status::END != 0 {
                return Ok(message);
            }
        }
    }

    /// Returns when an Attention arrived, with an error when the client has gone. Anything else the
    /// client sent stays in the buffer.
    ///
    /// Cancel safe.
    pub(crate) async fn attention(&mut self) -> io::Result<()> {
        loop {
            if self.complete()?.is_some() {
                if self.buffer[0] != kind::ATTENTION {
                    // A pipelined request: it has to wait for its turn.
                    return std::future::pending().await;
                }
                self.take_packet()?;
                return Ok(());
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Throws away all input until the client closes.
    pub(crate) async fn discard(&mut self) {
        loop {
            self.buffer.clear();
            if !matches!(self.fill().await, Ok(n) if n > 0) {
                return;
            }
        }
    }

    async fn packet(&mut self) -> io::Result<Option<Packet>> {
        loop {
            if let Some(packet) = self.take_packet()? {
                return Ok(Some(packet));
            }
            if self.fill().await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.inner.read_buf(&mut self.buffer).await
    }

    /// The length of the packet at the front, once all of it has arrived.
    fn complete(&self) -> io::Result<Option<usize>> {
        if self.buffer.len() < HEADER {
            return Ok(None);
        }
        let length = usize::from(u16::from_be_bytes([self.buffer[2], self.buffer[3]]));
        if length < HEADER {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "packet shorter than its header",
            ));
        }
        Ok((self.buffer.len() >= length).then_some(length))
    }

    fn take_packet(&mut self) -> io::Result<Option<Packet>> {
        let Some(length) = self.complete()? else { return Ok(None) };
        let rest = self.buffer.split_off(length);
        let packet = std::mem::replace(&mut self.buffer, rest);
        Ok(Some(Packet { kind: packet[0], status: packet[1], body: packet[HEADER..].to_vec() }))
    }
}

/// One packet with its header. `end` marks the last one of a message.
pub(crate) fn packet(kind: u8, end: bool, spid: u16, id: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + HEADER).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&[kind, if end { status::END } else { 0 }]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&spid.to_be_bytes());
    bytes.extend_from_slice(&[id, 0]);
    bytes.extend_from_slice(body);
    bytes
}

/// Writes a whole message of at most a few packets and flushes it.
pub(crate) async fn write_message<W: AsyncWrite + Unpin>(
    writer: &mut W,
    kind: u8,
    spid: u16,
    packet_size: usize,
    body: &[u8],
) -> io::Result<()> {
    let room = packet_size - HEADER;
    let count = body.len().div_ceil(room).max(1);
    let mut wire = Vec::with_capacity(body.len() + count * HEADER);
    for (index, chunk) in (0..count).map(|i| (i, &body[i * room..body.len().min((i + 1) * room)])) {
        // Packet ids count from 1 and wrap.
        let id = (index % 255 + 1) as u8;
        wire.extend_from_slice(&packet(kind, index + 1 == count, spid, id, chunk));
    }
    writer.write_all(&wire).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_message_survives_being_cut_into_packets() {
        let body: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        let mut wire = Vec::new();
        write_message(&mut wire, kind::BATCH, 0, 512, &body).await.unwrap();
        let mut reader = PacketReader::new(&wire[..]);
        let message = reader.message().await.unwrap().unwrap();
        assert_eq!((message.kind, message.reset), (kind::BATCH, None));
        assert_eq!(message.body, body);
        assert!(reader.message().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn reset_bits_come_from_the_first_packet() {
        let mut wire = packet(kind::BATCH, true, 0, 1, b"x");
        wire[1] |= 0x08;
        let message = PacketReader::new(&wire[..]).message().await.unwrap().unwrap();
        assert_eq!(message.reset, Some(Reset::All));
        wire[1] = 0x11;
        let message = PacketReader::new(&wire[..]).message().await.unwrap().unwrap();
        assert_eq!(message.reset, Some(Reset::KeepTransaction));
    }

    #[tokio::test]
    async fn a_length_below_the_header_is_an_error() {
        let wire = [kind::BATCH, 1, 0, 4, 0, 0, 1, 0];
        assert!(PacketReader::new(&wire[..]).message().await.is_err());
    }

    #[tokio::test]
    async fn a_cut_packet_is_an_error_and_not_the_end() {
        let wire = packet(kind::BATCH, true, 0, 1, b"hello");
        assert!(PacketReader::new(&wire[..9]).message().await.is_err());
    }
}
