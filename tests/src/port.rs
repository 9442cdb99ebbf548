//! Loopback ports that stay ours while nothing listens on them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;

/// A reserved loopback port.
///
/// Between two listeners connections are refused, and nobody else can take the port: a socket that
/// is bound and never listens stays on it. That also keeps a client, dialling a port of the
/// ephemeral range while it is down, from connecting to itself.
#[derive(Debug)]
pub(crate) struct Port {
    addr: SocketAddr,
    _reserved: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        let reserved = TcpSocket::new_v4()?;
        reserved.set_reuseaddr(true)?;
        reserved.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self { addr: reserved.local_addr()?, _reserved: reserved })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts listening, as part of that runtime.
    pub(crate) fn listen(&self, runtime: &Handle) -> io::Result<TcpListener> {
        let _inside = runtime.enter();
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.addr)?;
        socket.listen(1024)
    }
}

/// Closes with a TCP reset instead of a FIN.
pub(crate) fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}
