//! A TCP proxy that misbehaves on request, to put in front of any server.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use pool_tests::proxy::FaultProxy;
//!
//! let server = "127.0.0.1:3306".parse().expect("an address");
//! let proxy = FaultProxy::start(server).await?;
//! // Point the client at `proxy.addr()`, then:
//! proxy.stall(); // every connection goes silent, no packet tells the client why
//! proxy.resume();
//! proxy.reset().await; // every connection gets a TCP reset
//! let before = proxy.counters().round_trips;
//! // … something that must not talk to the server …
//! assert_eq!(proxy.counters().round_trips, before);
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::alive::{self, Alive};
use crate::background::Background;
use crate::port::{self, Port};

/// How long the proxy tries to reach the server.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pieces held back per direction before the proxy stops reading, of at most [`PIECE`] bytes each.
const HELD_BACK: usize = 256;

const PIECE: usize = 16 * 1024;

/// A proxy on a loopback port of its own, in front of one server.
///
/// It runs on a thread of its own. Dropping it resets all connections and closes the port.
#[derive(Debug)]
pub struct FaultProxy {
    // Dropped last but one, so that the port is closed before it is given up.
    listening: tokio::sync::Mutex<Option<Listening>>,
    shared: Arc<Shared>,
    background: Background,
    port: Port,
}

/// What went through a [`FaultProxy`] since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCounters {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: usize,
    /// Bytes from clients, counted when read.
    pub to_server: u64,
    /// Bytes from the server, counted when read.
    pub to_client: u64,
    /// Bursts of client bytes that follow server bytes, or begin a connection. A client that sends
    /// only when it was answered makes one per request.
    pub round_trips: u64,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    switches: watch::Sender<Switches>,
    alive: Alive,
    connections: AtomicU64,
    open: AtomicUsize,
    to_server: AtomicU64,
    to_client: AtomicU64,
    round_trips: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switches {
    delay_to_server: Duration,
    delay_to_client: Duration,
    stalled: bool,
    /// Every connection made under an older number ends…
    generation: u64,
    /// … in this way.
    ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Fin,
    Reset,
}

#[derive(Debug)]
struct Listening {
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

impl FaultProxy {
    /// Starts a proxy that forwards everything to `target`.
    ///
    /// # Errors
    ///
    /// When no loopback port can be bound.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let port = Port::reserve()?;
        let background = Background::start("fault-proxy", 1)?;
        let switches = Switches {
            delay_to_server: Duration::ZERO,
            delay_to_client: Duration::ZERO,
            stalled: false,
            generation: 0,
            ending: Ending::Reset,
        };
        let shared = Arc::new(Shared {
            target,
            switches: watch::Sender::new(switches),
            alive: Alive::new(),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
        });
        let listening = tokio::sync::Mutex::new(None);
        let proxy = Self { listening, shared, background, port };
        proxy.accept().await?;
        Ok(proxy)
    }

    /// The address clients connect to. It stays the same for the proxy's life.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The server behind the proxy.
    pub fn target(&self) -> SocketAddr {
        self.shared.target
    }

    /// Holds back every piece of data in both directions for this long. Defaults to zero.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.switches.send_modify(|switches| {
            switches.delay_to_server = delay;
            switches.delay_to_client = delay;
        });
    }

    /// Holds back what clients send. Defaults to zero.
    pub fn set_delay_to_server(&self, delay: Duration) {
        self.shared.switches.send_modify(|switches| switches.delay_to_server = delay);
    }

    /// Holds back what the server sends. Defaults to zero.
    pub fn set_delay_to_client(&self, delay: Duration) {
        self.shared.switches.send_modify(|switches| switches.delay_to_client = delay);
    }

    /// Stops forwarding. Connections stay open, new ones are still accepted, and nothing arrives,
    /// not even the end of a connection.
    pub fn stall(&self) {
        self.shared.switches.send_modify(|switches| switches.stalled = true);
    }

    /// Ends [`stall`](Self::stall); what was held back is forwarded.
    pub fn resume(&self) {
        self.shared.switches.send_modify(|switches| switches.stalled = false);
    }

    /// Ends all connections with a TCP reset, on both sides. Returns when they are closed.
    pub async fn reset(&self) {
        self.end(Ending::Reset).await;
    }

    /// Ends all connections in the orderly way (FIN), on both sides. Returns when they are closed.
    pub async fn cut(&self) {
        self.end(Ending::Fin).await;
    }

    /// Closes the port: new connections are refused. Open ones stay.
    pub async fn refuse(&self) {
        if let Some(listening) = self.listening.lock().await.take() {
            let _ = listening.stop.send(());
            let _ = listening.stopped.await;
        }
    }

    /// Accepts connections again after [`refuse`](Self::refuse), on the same port.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again.
    pub async fn accept(&self) -> io::Result<()> {
        let mut listening = self.listening.lock().await;
        if listening.is_some() {
            return Ok(());
        }
        let runtime = self.background.handle();
        let listener = self.port.listen(runtime)?;
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_sender, stopped) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            accept_until(&shared, listener, stop_seen).await;
            let _ = stopped_sender.send(());
        });
        *listening = Some(Listening { stop, stopped });
        Ok(())
    }

    /// What went through so far.
    pub fn counters(&self) -> ProxyCounters {
        let shared = &self.shared;
        ProxyCounters {
            connections: shared.connections.load(Ordering::Acquire),
            open: shared.open.load(Ordering::Acquire),
            to_server: shared.to_server.load(Ordering::Acquire),
            to_client: shared.to_client.load(Ordering::Acquire),
            round_trips: shared.round_trips.load(Ordering::Acquire),
        }
    }

    async fn end(&self, ending: Ending) {
        let earlier = self.shared.end(ending);
        earlier.gone().await;
    }
}

impl Shared {
    /// Tells all connections to end; answers who has to.
    fn end(&self, ending: Ending) -> alive::Earlier {
        let earlier = self.alive.earlier();
        self.switches.send_modify(|switches| {
            switches.generation += 1;
            switches.ending = ending;
        });
        earlier
    }
}

/// One open connection, as the counters see it.
struct Open<'a> {
    shared: &'a Shared,
    _alive: alive::Guard,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn accept_until(
    shared: &Arc<Shared>,
    listener: TcpListener,
    mut stop: oneshot::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else { continue };
        shared.connections.fetch_add(1, Ordering::AcqRel);
        shared.open.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::clone(shared);
        // In this order: a connection that belongs to an earlier generation is waited for.
        let generation = shared.switches.borrow().generation;
        let alive = shared.alive.guard();
        tokio::spawn(async move {
            let open = Open { shared: &shared, _alive: alive };
            serve(&shared, client, generation).await;
            drop(open);
        });
    }
}

async fn serve(shared: &Shared, mut client: TcpStream, generation: u64) {
    let switches = shared.switches.subscribe();
    let dial = timeout(DIAL_TIMEOUT, TcpStream::connect(shared.target));
    let mut server = tokio::select! {
        ending = ended(switches.clone(), generation) => return close(client, ending),
        dialled = dial => match dialled {
            Ok(Ok(server)) => server,
            _ => return close(client, Ending::Reset),
        },
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ending = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        // True when the next bytes of the client begin a round trip.
        let answered = AtomicBool::new(true);
        let up = forward(
            from_client,
            to_server,
            switches.clone(),
            |now: &Switches| now.delay_to_server,
            |read| {
                shared.to_server.fetch_add(read, Ordering::AcqRel);
                if answered.swap(false, Ordering::AcqRel) {
                    shared.round_trips.fetch_add(1, Ordering::AcqRel);
                }
            },
        );
        let down = forward(
            from_server,
            to_client,
            switches.clone(),
            |now: &Switches| now.delay_to_client,
            |read| {
                shared.to_client.fetch_add(read, Ordering::AcqRel);
                answered.store(true, Ordering::Release);
            },
        );
        tokio::select! {
            ending = ended(switches, generation) => ending,
            forwarded = async { tokio::try_join!(up, down) } => match forwarded {
                Ok(_) => Ending::Fin,
                Err(_) => Ending::Reset,
            },
        }
    };
    close(client, ending);
    close(server, ending);
}

fn close(stream: TcpStream, ending: Ending) {
    match ending {
        Ending::Fin => drop(stream),
        Ending::Reset => port::reset(stream),
    }
}

/// Resolves when the connections of this generation are to end.
async fn ended(mut switches: watch::Receiver<Switches>, generation: u64) -> Ending {
    match switches.wait_for(|switches| switches.generation != generation).await {
        Ok(switches) => switches.ending,
        Err(_) => Ending::Reset,
    }
}

/// Forwards one direction to its end; the end is held back like data.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut switches: watch::Receiver<Switches>,
    delay: impl Fn(&Switches) -> Duration,
    count: impl Fn(u64),
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, io::Result<Vec<u8>>)>(HELD_BACK);
    let now = switches.clone();
    let read = async move {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = from.read(&mut buffer).await.map(|read| buffer[..read].to_vec());
            if let Ok(piece) = &piece
                && !piece.is_empty()
            {
                count(piece.len() as u64);
            }
            let last = !matches!(&piece, Ok(piece) if !piece.is_empty());
            let due = Instant::now() + delay(&now.borrow());
            if sender.send((due, piece)).await.is_err() || last {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            let flowing = switches.wait_for(|switches| !switches.stalled).await;
            drop(flowing.map_err(io::Error::other)?);
            let piece = piece?;
            if piece.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::join!(read, write).1
}
