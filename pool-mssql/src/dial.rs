//! From an address to a TCP connection: look-up, then one address after the other or all at once.
//!
//! Nothing here has a timer for the whole: the caller bounds it. The race of `MultiSubnetFailover` follows
//! the mirroring reference, section 8.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::error::{Error, Stage};
use crate::stream::{Stream, tune};

/// The most addresses that are dialled at once.
const MAX_PARALLEL: usize = 64;

/// How to dial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial {
    /// All addresses at once.
    pub(crate) parallel: bool,
    /// See [`crate::MsSqlOptions::tcp_user_timeout`].
    pub(crate) user_timeout: Option<Duration>,
}

impl Dial {
    /// Connects to `target`. `stage` tells at every moment what is going on.
    ///
    /// Cancellation safety: dropping the future closes every socket it opened.
    pub(crate) async fn connect(
        &self,
        target: &Address,
        deadline: Instant,
        stage: &mut Stage,
    ) -> Result<Stream, Error> {
        *stage = Stage::Browser;
        let port = match target.dial_port() {
            Some(port) => port,
            None => instance_port(target).await?,
        };
        *stage = Stage::Resolve;
        let addresses = resolve(target, port).await?;
        *stage = Stage::Dial;
        let tcp = if self.parallel {
            race(target, &addresses).await?
        } else {
            in_turn(target, &addresses, deadline).await?
        };
        tune(&tcp, self.user_timeout);
        Ok(Stream::new(tcp))
    }
}

async fn resolve(target: &Address, port: u16) -> Result<Vec<SocketAddr>, Error> {
    // Spares a literal address the look-up on a blocking thread.
    if let Ok(ip) = target.host().parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let failed = |reason: String| Error::Resolve { target: target.to_string(), reason };
    let found = tokio::net::lookup_host((target.host(), port)).await;
    let mut addresses: Vec<_> = found.map_err(|error| failed(error.to_string()))?.collect();
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    if addresses.is_empty() {
        return Err(failed("no address".to_owned()));
    }
    Ok(addresses)
}

/// The first TCP connection that opens wins, the others are dropped.
async fn race(target: &Address, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
    if addresses.len() > MAX_PARALLEL {
        let count = addresses.len();
        return Err(Error::TooManyAddresses { target: target.to_string(), count });
    }
    let dial = |address: SocketAddr| async move { (address, TcpStream::connect(address).await) };
    let mut dials: FuturesUnordered<_> = addresses.iter().copied().map(dial).collect();
    let mut causes = Vec::new();
    while let Some((address, result)) = dials.next().await {
        match result {
            Ok(tcp) => return Ok(tcp),
            Err(error) => causes.push((address, error.to_string())),
        }
    }
    Err(Error::Dial { target: target.to_string(), causes })
}

/// One address after the other; each may take its share of the time that is left, so that a silent one
/// does not hide the next.
async fn in_turn(
    target: &Address,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<TcpStream, Error> {
    let mut causes = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let share = addresses.len() - index;
        let connect = TcpStream::connect(address);
        let result = if share == 1 {
            connect.await
        } else {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let limit = now + left / u32::try_from(share).unwrap_or(u32::MAX);
            timeout_at(limit, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match result {
            Ok(tcp) => return Ok(tcp),
            Err(error) => causes.push((*address, error.to_string())),
        }
    }
    Err(Error::Dial { target: target.to_string(), causes })
}

#[cfg(feature = "sql-browser")]
async fn instance_port(target: &Address) -> Result<u16, Error> {
    crate::browser::port(target).await
}

#[cfg(not(feature = "sql-browser"))]
async fn instance_port(target: &Address) -> Result<u16, Error> {
    let reason = "this build has no `sql-browser` feature".to_owned();
    Err(Error::Browser { target: target.to_string(), reason })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    fn target() -> Address {
        Address::parse("db.test").unwrap()
    }

    fn at(ip: &str, port: u16) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), port)
    }

    /// A port on which nobody listens: bound, closed again, and refused since.
    fn refused(ip: &str) -> SocketAddr {
        TcpListener::bind(at(ip, 0)).unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn the_race_is_won_by_the_first_that_opens() {
        let listener = TcpListener::bind("127.0.0.3:0").unwrap();
        let open = listener.local_addr().unwrap();
        let tcp =
            race(&target(), &[refused("127.0.0.2"), open, refused("127.0.0.4")]).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn a_lost_race_names_every_cause() {
        let all = [refused("127.0.0.2"), refused("127.0.0.3")];
        match race(&target(), &all).await.unwrap_err() {
            Error::Dial { causes, .. } => assert_eq!(causes.len(), 2),
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn sixty_five_addresses_are_refused_and_sixty_four_are_not() {
        let many: Vec<_> = (1..=65).map(|last| at(&format!("127.0.1.{last}"), 1)).collect();
        let error = race(&target(), &many).await.unwrap_err();
        assert!(matches!(error, Error::TooManyAddresses { count: 65, .. }), "{error}");
        let error = race(&target(), &many[..64]).await.unwrap_err();
        assert!(matches!(&error, Error::Dial { causes, .. } if causes.len() == 64), "{error}");
    }

    #[tokio::test]
    async fn in_turn_tries_the_next_address_after_a_refusal() {
        let listener = TcpListener::bind("127.0.0.3:0").unwrap();
        let open = listener.local_addr().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let tcp = in_turn(&target(), &[refused("127.0.0.2"), open], deadline).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), open);
    }
}
