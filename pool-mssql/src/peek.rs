//! What the driver's client knows about itself but has no getter for.
//!
//! tiberius 0.13 tells neither whether an answer is pending nor whether a transaction is open, but it keeps
//! both (the second as the server's own transaction descriptor) and shows them in `Debug`. Reading them there
//! spares a round trip per use. A text that is not understood means unknown, and unknown is tidied.

use std::fmt::{self, Debug, Write};

/// What the client's text says; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientState {
    /// Whether the last answer was read from the wire to its end.
    pub(crate) answer_read: Option<bool>,
    /// Whether the server has a transaction open for this session.
    pub(crate) in_transaction: Option<bool>,
}

/// Reads the state. No allocation; formatting stops behind the descriptor, long before any metadata.
pub(crate) fn inspect(client: &impl Debug) -> ClientState {
    let mut head = Head { text: [0; SIZE], length: 0 };
    // The error is our own: it stops the formatting once enough is written.
    let _ = write!(head, "{client:?}");
    let text = std::str::from_utf8(&head.text[..head.length]).unwrap_or_default();
    ClientState { answer_read: answer_read(text), in_transaction: in_transaction(text) }
}

const SIZE: usize = 384;

/// Keeps the head of a text, up to the first closing bracket.
struct Head {
    text: [u8; SIZE],
    length: usize,
}

impl Write for Head {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self.text.get_mut(self.length..self.length + piece.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(piece.as_bytes());
        self.length += piece.len();
        if piece.ends_with(']') { Err(fmt::Error) } else { Ok(()) }
    }
}

fn answer_read(text: &str) -> Option<bool> {
    let (_, rest) = text.split_once("flushed: ")?;
    match rest.split([',', ' ']).next() {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    }
}

fn in_transaction(text: &str) -> Option<bool> {
    let (_, rest) = text.split_once("transaction_desc: [")?;
    let (descriptor, _) = rest.split_once(']')?;
    let mut bytes = 0;
    let mut open = false;
    for byte in descriptor.split(", ") {
        open |= byte.parse::<u8>().ok()? != 0;
        bytes += 1;
    }
    (bytes == 8).then_some(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats as its text.
    struct Text(&'static str);

    impl Debug for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    #[test]
    fn the_text_of_the_driver_is_understood() {
        let idle = "Client { connection: Connection { transport: \"Framed<..>\", flushed: true, context: \
            Context { version: SqlServerN, packet_size: 4096, packet_id: 3, transaction_desc: \
            [0, 0, 0, 0, 0, 0, 0, 0]";
        let state = inspect(&Text(idle));
        assert_eq!(state, ClientState { answer_read: Some(true), in_transaction: Some(false) });
        let busy = "Client { connection: Connection { transport: \"Framed<..>\", flushed: false, context: \
            Context { transaction_desc: [0, 0, 0, 0, 0, 1, 0, 255]";
        let state = inspect(&Text(busy));
        assert_eq!(state, ClientState { answer_read: Some(false), in_transaction: Some(true) });
    }

    #[test]
    fn any_other_text_means_unknown() {
        let texts = [
            "",
            "Client { .. }",
            "flushed: maybe, transaction_desc: []",
            "transaction_desc: [0, 0]",
            "transaction_desc: [0, 0, 0, 0, 0, 0, 0, 256]",
            "transaction_desc: [0, 0, 0, 0",
        ];
        for text in texts {
            assert_eq!(inspect(&Text(text)), ClientState::default(), "{text}");
        }
        let long: &'static str = Box::leak("x".repeat(2 * SIZE).into_boxed_str());
        assert_eq!(inspect(&Text(long)), ClientState::default());
    }
}
