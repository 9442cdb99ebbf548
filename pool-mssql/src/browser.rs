//! SQL Server Browser: which TCP port a named instance listens on (MC-SQLR, CLNT_UCAST_INST).
//!
//! Our own look-up and not the driver's, because that one also dials and knows no deadline.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::address::Address;
use crate::error::Error;

const BROWSER_PORT: u16 = 1434;
const UNICAST: u8 = 4;
const ANSWER: u8 = 5;

/// A datagram may get lost: it is sent again after this time. The caller's deadline ends it all.
const RESEND: Duration = Duration::from_secs(1);

/// The port of the instance of `target`.
pub(crate) async fn port(target: &Address) -> Result<u16, Error> {
    ask(target, BROWSER_PORT).await
}

async fn ask(target: &Address, browser: u16) -> Result<u16, Error> {
    let failed = |reason: String| Error::Browser { target: target.to_string(), reason };
    let instance = target.instance().unwrap_or_default();
    let found = tokio::net::lookup_host((target.host(), browser)).await;
    let addresses: Vec<_> = found.map_err(|error| failed(error.to_string()))?.collect();
    let mut request = vec![UNICAST];
    request.extend_from_slice(instance.as_bytes());
    request.push(0);
    for turn in 0.. {
        let Some(address) = addresses.get(turn % addresses.len().max(1)) else { break };
        match ask_once(*address, &request, instance).await {
            Ok(Some(port)) => return Ok(port),
            // Silence: the next address, or the same again.
            Ok(None) => {}
            Err(reason) => return Err(failed(reason)),
        }
    }
    Err(failed("the host has no address".to_owned()))
}

async fn ask_once(
    address: SocketAddr,
    request: &[u8],
    instance: &str,
) -> Result<Option<u16>, String> {
    let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).await.map_err(|error| error.to_string())?;
    socket.connect(address).await.map_err(|error| error.to_string())?;
    socket.send(request).await.map_err(|error| error.to_string())?;
    let mut answer = vec![0; 4096];
    match timeout(RESEND, socket.recv(&mut answer)).await {
        Ok(Ok(length)) => parse(&answer[..length], instance).map(Some),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Ok(None),
    }
}

/// Reads `05 LEN16 ServerName;…;InstanceName;…;tcp;1433;;`.
fn parse(answer: &[u8], instance: &str) -> Result<u16, String> {
    let malformed = || "the answer is malformed".to_owned();
    let (&[kind, low, high], text) = answer.split_first_chunk().ok_or_else(malformed)?;
    let length = usize::from(u16::from_le_bytes([low, high]));
    let text = text.get(..length).filter(|_| kind == ANSWER).ok_or_else(malformed)?;
    let text = String::from_utf8_lossy(text);
    let mut fields = text.split(';');
    let mut named = None;
    let mut port = None;
    while let (Some(key), Some(value)) = (fields.next(), fields.next()) {
        match key.to_ascii_lowercase().as_str() {
            "instancename" => named = Some(value.to_owned()),
            "tcp" => port = Some(value.parse::<u16>().map_err(|_| malformed())?),
            _ => {}
        }
    }
    if !named.is_some_and(|name| name.eq_ignore_ascii_case(instance)) {
        return Err("the answer is about another instance".to_owned());
    }
    port.filter(|port| *port > 0).ok_or_else(|| "the instance does not listen on TCP".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(text: &str) -> Vec<u8> {
        let mut answer = vec![ANSWER];
        answer.extend_from_slice(&(text.len() as u16).to_le_bytes());
        answer.extend_from_slice(text.as_bytes());
        answer
    }

    const GOOD: &str = "ServerName;DB1;InstanceName;SALES;IsClustered;No;Version;16.0;tcp;50123;;";

    #[test]
    fn answers() {
        assert_eq!(parse(&answer(GOOD), "sales"), Ok(50_123));
        assert!(parse(&answer(GOOD), "other").is_err());
        assert!(parse(&answer("ServerName;DB1;InstanceName;SALES;np;x;;"), "SALES").is_err());
        for length in 0..answer(GOOD).len() {
            assert!(parse(&answer(GOOD)[..length], "SALES").is_err(), "{length}");
        }
        assert!(parse(&answer("InstanceName;SALES;tcp;99999;;"), "SALES").is_err());
    }

    #[tokio::test]
    async fn a_lost_answer_is_asked_for_again() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let target = Address::parse("127.0.0.1\\SALES").unwrap();
        let asked = tokio::spawn(async move { ask(&target, port).await });
        let mut request = [0; 64];
        server.recv_from(&mut request).await.unwrap();
        let (length, from) = server.recv_from(&mut request).await.unwrap();
        assert_eq!(&request[..length], b"\x04SALES\0");
        server.send_to(&answer(GOOD), from).await.unwrap();
        assert_eq!(asked.await.unwrap().unwrap(), 50_123);
    }
}
