//! Packet framing: three bytes of length, one of sequence number.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest payload of one packet; longer messages continue in the next.
const LONGEST: usize = 0xff_ff_ff;

/// Nothing a test sends is longer. Guards against reading garbage as a length.
const LONGEST_MESSAGE: usize = 256 * 1024 * 1024;

/// One client's stream, cut into packets.
#[derive(Debug)]
pub(super) struct PacketStream {
    stream: TcpStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    sequence: u8,
}

impl PacketStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), unsent: Vec::new(), sequence: 0 }
    }

    /// Reads one message.
    ///
    /// Cancellation safety: what arrived is kept for the next call.
    pub(super) async fn read(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.received.reserve(4096);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Queues one message; the sequence number follows the last one read or written.
    pub(super) fn write(&mut self, message: &[u8]) {
        let mut rest = message;
        loop {
            let (piece, later) = rest.split_at(rest.len().min(LONGEST));
            let length = piece.len() as u32;
            self.unsent.extend_from_slice(&length.to_le_bytes()[..3]);
            self.unsent.push(self.sequence);
            self.unsent.extend_from_slice(piece);
            self.sequence = self.sequence.wrapping_add(1);
            // A piece of full length is always followed by another one, which may be empty.
            if piece.len() < LONGEST {
                return;
            }
            rest = later;
        }
    }

    /// Sends what was queued.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.unsent).await;
        self.unsent.clear();
        sent
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        let mut at = 0;
        loop {
            let Some(header) = self.received.get(at..at + 4) else { return Ok(None) };
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let sequence = header[3];
            let Some(piece) = self.received.get(at + 4..at + 4 + length) else { return Ok(None) };
            message.extend_from_slice(piece);
            at += 4 + length;
            if message.len() > LONGEST_MESSAGE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
            }
            if length < LONGEST {
                self.received.drain(..at);
                self.sequence = sequence.wrapping_add(1);
                return Ok(Some(message));
            }
        }
    }
}
