//! LOGIN7: the client's login record.

use super::wire::Cursor;

/// One login as the server saw it. The password is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginRecord {
    /// The user name.
    pub user: String,
    /// The database asked for, empty for the user's default.
    pub database: String,
    /// The server name as the client knows it: the host it dialled.
    pub server_name: String,
    /// The application name.
    pub app_name: String,
    /// The workstation name.
    pub host_name: String,
    /// Whether the client logged in with `ApplicationIntent=ReadOnly`.
    pub read_only_intent: bool,
    /// The packet size asked for, in bytes.
    pub packet_size: u32,
    /// Whether the login arrived over TLS.
    pub encrypted: bool,
}

/// A parsed LOGIN7 with the secret still in it. Has no `Debug` for that reason.
pub(crate) struct Login {
    pub(crate) record: LoginRecord,
    pub(crate) password: String,
}

const READ_ONLY_INTENT: u8 = 0x20;
/// Where the table of offsets begins.
const TABLE: usize = 36;

impl Login {
    /// `None` when a field points outside the message.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut head = Cursor::new(body);
        head.skip(8)?;
        let packet_size = head.u32()?;
        let type_flags = *body.get(26)?;
        let field = |index: usize| -> Option<&[u8]> {
            let mut entry = Cursor::new(body.get(TABLE + index * 4..)?);
            let offset = usize::from(entry.u16()?);
            let bytes = usize::from(entry.u16()?) * 2;
            // An empty field may point anywhere.
            if bytes == 0 { Some(&[]) } else { body.get(offset..offset + bytes) }
        };
        let text = |index: usize| field(index).map(utf16);
        let password: Vec<u8> =
            field(2)?.iter().map(|byte| (byte ^ 0xA5).rotate_right(4)).collect();
        Some(Self {
            record: LoginRecord {
                host_name: text(0)?,
                user: text(1)?,
                app_name: text(3)?,
                server_name: text(4)?,
                database: text(8)?,
                read_only_intent: type_flags & READ_ONLY_INTENT != 0,
                packet_size,
                encrypted: false,
            },
            password: utf16(&password),
        })
    }
}

fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn login7(fields: [&str; 9], flags: u8) -> Vec<u8> {
        let mut body = vec![0u8; 94];
        body[8..12].copy_from_slice(&8000u32.to_le_bytes());
        body[26] = flags;
        for (index, text) in fields.iter().enumerate() {
            let mut bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            if index == 2 {
                bytes.iter_mut().for_each(|byte| *byte = byte.rotate_left(4) ^ 0xA5);
            }
            let at = TABLE + index * 4;
            let offset = body.len() as u16;
            body[at..at + 2].copy_from_slice(&offset.to_le_bytes());
            body[at + 2..at + 4].copy_from_slice(&(bytes.len() as u16 / 2).to_le_bytes());
            body.extend_from_slice(&bytes);
        }
        body
    }

    #[test]
    fn every_field_is_read() {
        let body = login7(["ws", "kit", "s3crét", "app", "srv", "", "", "", "db"], 0x20);
        let login = Login::parse(&body).unwrap();
        assert_eq!(login.password, "s3crét");
        assert_eq!(
            login.record,
            LoginRecord {
                user: "kit".into(),
                database: "db".into(),
                server_name: "srv".into(),
                app_name: "app".into(),
                host_name: "ws".into(),
                read_only_intent: true,
                packet_size: 8000,
                encrypted: false,
            }
        );
    }

    #[test]
    fn a_field_outside_the_message_is_refused() {
        let mut body = login7(["", "kit", "", "", "", "", "", "", ""], 0);
        body[TABLE + 4..TABLE + 6].copy_from_slice(&60_000u16.to_le_bytes());
        assert!(Login::parse(&body).is_none());
        assert!(Login::parse(&body[..20]).is_none());
    }
}
