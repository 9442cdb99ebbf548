//! PRELOGIN: what the client asked for, what the server answers, and the encryption both agree on.

/// How the server treats encryption (MS-TDS, PRELOGIN option ENCRYPTION).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// The server has no certificate: plaintext, and a client that insists is turned away.
    NotSupported,
    /// The client decides: plaintext, TLS for the login only, or TLS throughout.
    #[default]
    Optional,
    /// TLS throughout, also for a client that did not ask for it.
    Required,
}

/// What one connection uses after PRELOGIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    Plain,
    LoginOnly,
    Full,
}

const OFF: u8 = 0;
const ON: u8 = 1;
const NOT_SUPPORTED: u8 = 2;
const REQUIRED: u8 = 3;

const VERSION: u8 = 0;
const ENCRYPTION: u8 = 1;
const INSTANCE: u8 = 2;
const THREAD: u8 = 3;
const MARS: u8 = 4;
const END: u8 = 0xFF;

/// The client's PRELOGIN, as far as the server acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientPrelogin {
    encryption: u8,
}

impl ClientPrelogin {
    /// Reads the option table. `None` when an option points outside the message or the table does
    /// not end.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut encryption = NOT_SUPPORTED;
        let mut at = 0;
        loop {
            let token = *body.get(at)?;
            if token == END {
                return Some(Self { encryption });
            }
            let entry = body.get(at + 1..at + 5)?;
            let offset = usize::from(u16::from_be_bytes([entry[0], entry[1]]));
            let length = usize::from(u16::from_be_bytes([entry[2], entry[3]]));
            let value = body.get(offset..offset + length)?;
            if token == ENCRYPTION {
                encryption = *value.first()?;
            }
            at += 5;
        }
    }

    /// The byte the server answers, and what follows from it.
    pub(crate) fn negotiate(self, server: Encryption) -> (u8, Agreed) {
        match (self.encryption, server) {
            (_, Encryption::NotSupported) => (NOT_SUPPORTED, Agreed::Plain),
            (NOT_SUPPORTED, Encryption::Optional) => (NOT_SUPPORTED, Agreed::Plain),
            (OFF, Encryption::Optional) => (OFF, Agreed::LoginOnly),
            (ON | REQUIRED, _) => (ON, Agreed::Full),
            (_, _) => (REQUIRED, Agreed::Full),
        }
    }
}

/// The server's PRELOGIN body.
pub(crate) fn reply(encryption: u8) -> Vec<u8> {
    let options: [(u8, &[u8]); 5] = [
        (VERSION, &[16, 0, 0x10, 0x00, 0, 0]),
        (ENCRYPTION, &[encryption]),
        (INSTANCE, &[0]),
        (THREAD, &[]),
        (MARS, &[0]),
    ];
    let mut offset = options.len() * 5 + 1;
    let mut table = Vec::new();
    let mut data = Vec::new();
    for (token, value) in options {
        table.push(token);
        table.extend_from_slice(&(offset as u16).to_be_bytes());
        table.extend_from_slice(&(value.len() as u16).to_be_bytes());
        data.extend_from_slice(value);
        offset += value.len();
    }
    table.push(END);
    table.extend_from_slice(&data);
    table
}

/// A body whose option table never ends.
pub(crate) fn reply_without_terminator() -> Vec<u8> {
    vec![ENCRYPTION, 0, 5, 0, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_parses_as_a_prelogin() {
        assert_eq!(ClientPrelogin::parse(&reply(ON)), Some(ClientPrelogin { encryption: ON }));
    }

    #[test]
    fn damaged_tables_are_refused() {
        assert_eq!(ClientPrelogin::parse(&[]), None);
        assert_eq!(ClientPrelogin::parse(&reply_without_terminator()[..4]), None);
        assert_eq!(ClientPrelogin::parse(&[ENCRYPTION, 0, 99, 0, 1, END]), None);
    }

    #[test]
    fn encryption_follows_the_table_of_the_protocol() {
        let agree = |client, server| ClientPrelogin { encryption: client }.negotiate(server);
        assert_eq!(agree(NOT_SUPPORTED, Encryption::Optional), (NOT_SUPPORTED, Agreed::Plain));
        assert_eq!(agree(OFF, Encryption::Optional), (OFF, Agreed::LoginOnly));
        assert_eq!(agree(ON, Encryption::Optional), (ON, Agreed::Full));
        assert_eq!(agree(REQUIRED, Encryption::Optional), (ON, Agreed::Full));
        assert_eq!(agree(OFF, Encryption::Required), (REQUIRED, Agreed::Full));
        assert_eq!(agree(NOT_SUPPORTED, Encryption::Required), (REQUIRED, Agreed::Full));
        assert_eq!(agree(ON, Encryption::NotSupported), (NOT_SUPPORTED, Agreed::Plain));
    }
}
