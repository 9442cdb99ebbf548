//! A TCP port that can be closed and opened again.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use super::connection;
use super::core::Core;

const BACKLOG: u32 = 1024;

/// Hands every connection it accepts to a server, which can be exchanged.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    /// Bound but never listening: while nobody listens, connecting is refused, and the port stays
    /// ours.
    _reservation: TcpSocket,
    acceptor: Mutex<Option<JoinHandle<()>>>,
    target: Arc<Mutex<Arc<Core>>>,
}

impl Endpoint {
    /// Takes a free port of the loopback interface and opens it.
    pub(crate) fn open_new(target: Arc<Core>) -> io::Result<Self> {
        let reservation = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let endpoint = Self {
            address: reservation.local_addr()?,
            _reservation: reservation,
            acceptor: Mutex::new(None),
            target: Arc::new(Mutex::new(target)),
        };
        endpoint.open()?;
        Ok(endpoint)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to another server.
    pub(crate) fn retarget(&self, target: Arc<Core>) {
        *self.target.lock() = target;
    }

    /// Listens again. Does nothing while open.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut acceptor = self.acceptor.lock();
        if acceptor.is_none() {
            let listener = bind(self.address)?.listen(BACKLOG)?;
            *acceptor = Some(tokio::spawn(accept(listener, Arc::clone(&self.target))));
        }
        Ok(())
    }

    /// Stops listening; when this returns, connecting is refused.
    pub(crate) async fn close(&self) {
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            acceptor.abort();
            // The listener is gone when its task has ended, which the abort makes an error.
            let _ = acceptor.await;
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(acceptor) = self.acceptor.lock().take() {
            acceptor.abort();
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    // Lets the listener share the port with its reservation.
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, target: Arc<Mutex<Arc<Core>>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let core = Arc::clone(&target.lock());
                tokio::spawn(connection::serve(core, stream));
            }
            // Out of descriptors, most likely: others may close some.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
