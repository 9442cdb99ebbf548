//! The socket under the driver: shared, so that the pool can look at it while the driver owns it.

use std::fmt;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::io::{AsyncRead, AsyncWrite};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Idle time before the first keep-alive probe, and the time between two (as SqlClient).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The byte stream that the driver reads and writes: a TCP connection whose end is remembered.
pub struct Stream(Arc<Socket>);

/// What a look at the socket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// The peer closed it, or it failed.
    Over,
    /// Open, nothing to read.
    Quiet,
    /// Open as far as can be seen, and bytes wait to be read.
    Unread,
}

/// One TCP connection, seen by the driver through [`Stream`] and by the pool through `Arc`.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    /// EOF or an error was seen. Sticky: the kernel tells an error only once.
    over: AtomicBool,
}

impl Stream {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        Self(Arc::new(Socket { tcp, over: AtomicBool::new(false) }))
    }

    pub(crate) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.tcp.poll_read_ready(cx)).inspect_err(|_| self.0.end())?;
            match self.0.tcp.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) if !buf.is_empty() => {
                    self.0.end();
                    return Poll::Ready(Ok(0));
                }
                result => return Poll::Ready(result.inspect_err(|_| self.0.end())),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.tcp.poll_write_ready(cx)).inspect_err(|_| self.0.end())?;
            match self.0.tcp.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result.inspect_err(|_| self.0.end())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.end();
        Poll::Ready(SockRef::from(&self.0.tcp).shutdown(std::net::Shutdown::Write))
    }
}

impl Socket {
    /// Looks at the socket: one system call, no round trip, nothing consumed.
    ///
    /// Asks the kernel and not tokio's readiness, which knows of a FIN only after the reactor has run.
    pub(crate) fn look(&self) -> SocketState {
        if self.over.load(Ordering::Relaxed) {
            return SocketState::Over;
        }
        let mut byte = [MaybeUninit::<u8>::uninit(); 1];
        match SockRef::from(&self.tcp).peek(&mut byte) {
            Ok(0) => self.found_over(),
            Ok(_) if self.reactor_saw_the_end() => self.found_over(),
            Ok(_) => SocketState::Unread,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => SocketState::Quiet,
                io::ErrorKind::Interrupted => SocketState::Unread,
                _ => self.found_over(),
            },
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn found_over(&self) -> SocketState {
        self.end();
        SocketState::Over
    }

    /// A FIN behind unread bytes is hidden from a peek; the reactor may know of it all the same.
    fn reactor_saw_the_end(&self) -> bool {
        let ready = pin!(self.tcp.ready(Interest::READABLE));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

/// Sets what every connection gets. Errors are left out: none of these is needed to work.
pub(crate) fn tune(tcp: &TcpStream, user_timeout: Option<Duration>) {
    let socket = SockRef::from(tcp);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    if user_timeout.is_some() {
        let _ = socket.set_tcp_user_timeout(user_timeout);
    }
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = user_timeout;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::net::{TcpListener, TcpStream as StdStream};

    use super::*;

    async fn pair() -> (Stream, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&near, Some(Duration::from_secs(30)));
        (Stream::new(near), listener.accept().unwrap().0)
    }

    #[tokio::test]
    async fn an_open_socket_is_quiet_until_bytes_arrive() {
        let (stream, mut far) = pair().await;
        assert_eq!(stream.0.look(), SocketState::Quiet);
        far.write_all(b"x").unwrap();
        // Loopback delivers within the system call of the sender.
        assert_eq!(stream.0.look(), SocketState::Unread);
        assert_eq!(stream.0.look(), SocketState::Unread);
    }

    #[tokio::test]
    async fn a_fin_is_seen_without_the_reactor_and_stays_seen() {
        let (stream, far) = pair().await;
        drop(far);
        assert_eq!(stream.0.look(), SocketState::Over);
        assert_eq!(stream.0.look(), SocketState::Over);
    }

    #[tokio::test]
    async fn a_reset_is_seen_and_stays_seen() {
        let (stream, far) = pair().await;
        SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
        drop(far);
        assert_eq!(stream.0.look(), SocketState::Over);
        assert_eq!(stream.0.look(), SocketState::Over);
    }

    #[tokio::test]
    async fn a_fin_behind_unread_bytes_is_seen_once_the_reactor_knows() {
        let (stream, mut far) = pair().await;
        far.write_all(b"x").unwrap();
        drop(far);
        stream.0.tcp.ready(Interest::READABLE).await.unwrap();
        assert_eq!(stream.0.look(), SocketState::Over);
    }
}
