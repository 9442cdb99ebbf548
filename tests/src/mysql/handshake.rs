//! Greeting and login.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
use mysql_common::auth::plugins::mysql_native_password::scramble_native;
use mysql_common::constants::{CapabilityFlags, StatusFlags};

use super::packet::PacketStream;
use super::reader::Reader;

const NONCE: usize = 20;

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthPlugin {
    /// `caching_sha2_password`, always by its fast path: the server knows the password already.
    #[default]
    CachingSha2,
    /// `mysql_native_password`.
    Native,
}

/// What a client said about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) capabilities: u32,
    pub(super) user: String,
    pub(super) database: Option<String>,
    pub(super) proof: Vec<u8>,
    pub(super) plugin: Option<String>,
}

impl AuthPlugin {
    fn name(self) -> &'static str {
        match self {
            Self::CachingSha2 => "caching_sha2_password",
            Self::Native => "mysql_native_password",
        }
    }

    fn proof(self, nonce: &[u8; NONCE], password: &str) -> Vec<u8> {
        // An empty password is proven by saying nothing.
        match self {
            Self::CachingSha2 => {
                scramble_sha256(nonce, password.as_bytes()).map(|proof| proof.to_vec())
            }
            Self::Native => scramble_native(nonce, password.as_bytes()).map(|proof| proof.to_vec()),
        }
        .unwrap_or_default()
    }
}

/// The capabilities of the server.
pub(super) fn capabilities() -> CapabilityFlags {
    CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_FOUND_ROWS
        | CapabilityFlags::CLIENT_LONG_FLAG
        | CapabilityFlags::CLIENT_CONNECT_WITH_DB
        | CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_MULTI_STATEMENTS
        | CapabilityFlags::CLIENT_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PS_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PLUGIN_AUTH
        | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
        | CapabilityFlags::CLIENT_CONNECT_ATTRS
        | CapabilityFlags::CLIENT_DEPRECATE_EOF
}

/// Makes a challenge. Unpredictable only as far as a test needs: never the same twice.
pub(super) fn nonce() -> [u8; NONCE] {
    static NEXT: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
    let mut state = NEXT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mut nonce = [0; NONCE];
    for byte in &mut nonce {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Printable, and neither zero nor `$`, which end and separate fields elsewhere.
        *byte = b'A' + (state % 26) as u8;
    }
    nonce
}

/// Writes the greeting.
pub(super) fn greet(
    to: &mut PacketStream,
    id: u32,
    version: &str,
    plugin: AuthPlugin,
    nonce: &[u8; NONCE],
) {
    let capabilities = capabilities().bits();
    let mut message = vec![10];
    message.extend_from_slice(version.as_bytes());
    message.push(0);
    message.extend_from_slice(&id.to_le_bytes());
    message.extend_from_slice(&nonce[..8]);
    message.push(0);
    message.extend_from_slice(&(capabilities as u16).to_le_bytes());
    message.push(45);
    message.extend_from_slice(&StatusFlags::SERVER_STATUS_AUTOCOMMIT.bits().to_le_bytes());
    message.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
    message.push(NONCE as u8 + 1);
    message.extend_from_slice(&[0; 10]);
    message.extend_from_slice(&nonce[8..]);
    message.push(0);
    message.extend_from_slice(plugin.name().as_bytes());
    message.push(0);
    to.write(&message);
}

/// Reads the answer to the greeting; `None` when it is malformed.
pub(super) fn parse_login(message: &[u8]) -> Option<Login> {
    let mut reader = Reader::new(message);
    let capabilities = reader.u32()?;
    let flags = CapabilityFlags::from_bits_truncate(capabilities);
    // Longest packet, character set, reserved.
    reader.bytes(4 + 1 + 23)?;
    let user = text(reader.null_terminated()?);
    let proof = if flags.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA) {
        reader.counted()?.to_vec()
    } else {
        let length = reader.u8()?.into();
        reader.bytes(length)?.to_vec()
    };
    let database = if flags.contains(CapabilityFlags::CLIENT_CONNECT_WITH_DB) {
        reader.null_terminated().map(text).filter(|name| !name.is_empty())
    } else {
        None
    };
    let plugin = flags
        .contains(CapabilityFlags::CLIENT_PLUGIN_AUTH)
        .then(|| reader.null_terminated().map(text))
        .flatten();
    Some(Login { capabilities, user, database, proof, plugin })
}

/// Reads a change of user; `None` when it is malformed.
pub(super) fn parse_change_user(message: &[u8], capabilities: u32) -> Option<Login> {
    let mut reader = Reader::new(message);
    let user = text(reader.null_terminated()?);
    let length = reader.u8()?.into();
    let proof = reader.bytes(length)?.to_vec();
    let database = reader.null_terminated().map(text).filter(|name| !name.is_empty());
    let mut plugin = None;
    if reader.u16().is_some() {
        plugin = reader.null_terminated().map(text);
    }
    Some(Login { capabilities, user, database, proof, plugin })
}

/// Checks the password, by another challenge when the client answered for another plug-in.
///
/// The nonce is replaced by that of the other challenge: a later change of user answers it.
pub(super) async fn verify(
    stream: &mut PacketStream,
    login: &Login,
    plugin: AuthPlugin,
    nonce: &mut [u8; NONCE],
    password: &str,
) -> io::Result<bool> {
    let mut proof = login.proof.clone();
    if login.plugin.as_deref().is_some_and(|name| name != plugin.name()) {
        *nonce = self::nonce();
        let mut message = vec![0xfe];
        message.extend_from_slice(plugin.name().as_bytes());
        message.push(0);
        message.extend_from_slice(nonce);
        message.push(0);
        stream.write(&message);
        stream.flush().await?;
        proof = stream.read().await?;
        // Nothing but a terminator: an empty password.
        if proof == [0] {
            proof.clear();
        }
    }
    Ok(proof == plugin.proof(nonce, password))
}

/// Tells the client that the password was right, where its plug-in wants that before the OK.
pub(super) fn confirm(stream: &mut PacketStream, plugin: AuthPlugin, password: &str) {
    if plugin == AuthPlugin::CachingSha2 && !password.is_empty() {
        // The fast path succeeded.
        stream.write(&[0x01, 0x03]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
