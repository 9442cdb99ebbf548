//! TLS inside TDS 7.x: during the handshake every TLS flight travels in packets of type 0x12, after
//! it the packets travel inside TLS.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::packet::{self, DEFAULT_PACKET_SIZE, HEADER};
use super::socket::Socket;

/// A connection after the handshake.
pub(crate) type Encrypted = TlsStream<Framed>;

struct Identity {
    config: Arc<ServerConfig>,
    pem: String,
}

/// The certificate every server of this process presents, in PEM form. It is self-signed, valid for
/// `localhost` and `127.0.0.1`, and can serve as its own trust anchor.
pub(crate) fn certificate_pem() -> io::Result<&'static str> {
    identity().map(|identity| identity.pem.as_str())
}

/// Performs the server side of the handshake.
pub(crate) async fn accept(socket: Socket) -> io::Result<Encrypted> {
    let acceptor = TlsAcceptor::from(Arc::clone(&identity()?.config));
    let mut stream = acceptor.accept(Framed::new(socket)).await?;
    stream.get_mut().0.handshake = false;
    Ok(stream)
}

fn identity() -> io::Result<&'static Identity> {
    static IDENTITY: OnceLock<Result<Identity, String>> = OnceLock::new();
    IDENTITY
        .get_or_init(|| create_identity().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| io::Error::other(error.clone()))
}

fn create_identity() -> Result<Identity, Box<dyn std::error::Error>> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let signed = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    // TDS 7.x servers speak TLS 1.2. With 1.3 the session tickets would follow the handshake in a
    // packet the client no longer expects to be wrapped.
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)?;
    Ok(Identity { config: Arc::new(config), pem: signed.cert.pem() })
}

/// Wraps the handshake into packets, then passes bytes through.
#[derive(Debug)]
pub(crate) struct Framed {
    socket: Socket,
    handshake: bool,
    header: [u8; HEADER],
    header_filled: usize,
    body_left: usize,
    outgoing: Vec<u8>,
    wrapped: Vec<u8>,
}

impl Framed {
    fn new(socket: Socket) -> Self {
        Self {
            socket,
            handshake: true,
            header: [0; HEADER],
            header_filled: 0,
            body_left: 0,
            outgoing: Vec::new(),
            wrapped: Vec::new(),
        }
    }

    fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.header_filled < HEADER {
            let mut buffer = ReadBuf::new(&mut self.header[self.header_filled..]);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => return Poll::Ready(Ok(false)),
                read => self.header_filled += read,
            }
        }
        if self.header[0] != packet::kind::PRELOGIN {
            let error = "a packet of another type inside the TLS handshake";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        let length = usize::from(u16::from_be_bytes([self.header[2], self.header[3]]));
        self.body_left = length.saturating_sub(HEADER);
        self.header_filled = 0;
        Poll::Ready(Ok(true))
    }
}

impl AsyncRead for Framed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.handshake && this.body_left == 0 {
            return Pin::new(&mut this.socket).poll_read(cx, buf);
        }
        while this.body_left == 0 {
            if !ready!(this.poll_header(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
        let room = this.body_left.min(buf.remaining());
        let mut limited = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(Pin::new(&mut this.socket).poll_read(cx, &mut limited))?;
        let read = limited.filled().len();
        buf.advance(read);
        this.body_left -= read;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Framed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.handshake {
            this.outgoing.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut this.socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.outgoing.is_empty() {
            let room = DEFAULT_PACKET_SIZE - HEADER;
            let count = this.outgoing.len().div_ceil(room);
            for (index, chunk) in this.outgoing.chunks(room).enumerate() {
                let id = (index % 255 + 1) as u8;
                let end = index + 1 == count;
                this.wrapped.extend(packet::packet(packet::kind::PRELOGIN, end, 0, id, chunk));
            }
            this.outgoing.clear();
        }
        while !this.wrapped.is_empty() {
            let written = ready!(Pin::new(&mut this.socket).poll_write(cx, &this.wrapped))?;
            this.wrapped.drain(..written);
        }
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
