//! An address that never answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A connect that takes this long on the loopback interface is not answered at all.
const UNANSWERED: Duration = Duration::from_millis(200);
/// More connections than a backlog of nothing ever holds.
const ATTEMPTS: usize = 8;

/// An address of the loopback interface that swallows connection attempts, as a host that is down
/// does: nobody accepts, the backlog is full, and the system drops every further SYN.
///
/// Where the system does not do that, connections are accepted and never answered; see
/// [`drops_syn`](Self::drops_syn).
#[derive(Debug)]
pub struct BlackHole {
    address: SocketAddr,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The listener nobody accepts from, and the connections that fill its backlog.
    Full {
        _listener: TcpListener,
        _fillers: Vec<TcpStream>,
    },
    Silent(JoinHandle<()>),
}

impl BlackHole {
    /// Opens one on a free port.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub async fn open() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = socket.listen(0)?;
        let address = listener.local_addr()?;
        let mut fillers = Vec::new();
        for _ in 0..ATTEMPTS {
            match tokio::time::timeout(UNANSWERED, TcpStream::connect(address)).await {
                Ok(stream) => fillers.push(stream?),
                Err(_) => {
                    let kind = Kind::Full { _listener: listener, _fillers: fillers };
                    return Ok(Self { address, kind });
                }
            }
        }
        let silent = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
            }
        });
        Ok(Self { address, kind: Kind::Silent(silent) })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connecting itself goes unanswered, and not only what is sent afterwards.
    #[must_use]
    pub fn drops_syn(&self) -> bool {
        matches!(self.kind, Kind::Full { .. })
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        if let Kind::Silent(task) = &self.kind {
            task.abort();
        }
    }
}
