//! The embedded MySQL server, packet by packet: what the driver of the other tests never does.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
use mysql_common::constants::CapabilityFlags;
use pool_tests::mysql::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(10);

struct Client(TcpStream);

impl Client {
    async fn connect(cluster: &Cluster) -> (Self, Vec<u8>) {
        let stream = TcpStream::connect(cluster.host(0).addr()).await.unwrap();
        let mut client = Self(stream);
        let (sequence, greeting) = client.read().await;
        assert_eq!((sequence, greeting[0]), (0, 10));
        (client, greeting)
    }

    async fn read(&mut self) -> (u8, Vec<u8>) {
        let read = async {
            let mut header = [0; 4];
            self.0.read_exact(&mut header).await.unwrap();
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
            let mut message = vec![0; length as usize];
            self.0.read_exact(&mut message).await.unwrap();
            (header[3], message)
        };
        timeout(LONG, read).await.unwrap()
    }

    async fn write(&mut self, sequence: u8, message: &[u8]) {
        let mut packet = (message.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(sequence);
        packet.extend_from_slice(message);
        self.0.write_all(&packet).await.unwrap();
    }

    async fn log_in(&mut self, extra: CapabilityFlags, proof: &[u8], plugin: &str) {
        let flags = CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_PLUGIN_AUTH
            | extra;
        let mut message = flags.bits().to_le_bytes().to_vec();
        message.extend_from_slice(&[0, 0, 0, 1, 45]);
        message.extend_from_slice(&[0; 23]);
        message.extend_from_slice(b"app\0");
        message.push(proof.len() as u8);
        message.extend_from_slice(proof);
        message.extend_from_slice(plugin.as_bytes());
        message.push(0);
        self.write(1, &message).await;
    }
}

fn proof(nonce: &[u8]) -> Vec<u8> {
    scramble_sha256(nonce.try_into().unwrap(), b"secret").unwrap().to_vec()
}

/// The challenge inside a greeting: 8 bytes after version and id, 12 more further on.
fn nonce(greeting: &[u8]) -> Vec<u8> {
    let version = greeting[1..].iter().position(|&byte| byte == 0).unwrap() + 2;
    let first = version + 4;
    let second = first + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10;
    [&greeting[first..first + 8], &greeting[second..second + 12]].concat()
}

#[tokio::test]
async fn a_client_of_another_plugin_is_asked_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let (mut client, _) = Client::connect(&cluster).await;
    client.log_in(CapabilityFlags::empty(), &[7; 20], "mysql_native_password").await;
    let (sequence, switch) = client.read().await;
    let name = b"\xfecaching_sha2_password\0";
    assert_eq!((sequence, &switch[..name.len()]), (2, &name[..]));
    client.write(3, &proof(&switch[name.len()..name.len() + 20])).await;
    assert_eq!(client.read().await, (4, vec![1, 3]));
    let (sequence, ok) = client.read().await;
    assert_eq!((sequence, ok[0]), (5, 0));
}

#[tokio::test]
async fn a_client_that_wants_eof_packets_gets_them() {
    let cluster = Cluster::start(1).await.unwrap();
    let (mut client, greeting) = Client::connect(&cluster).await;
    let proof = proof(&nonce(&greeting));
    client.log_in(CapabilityFlags::empty(), &proof, "caching_sha2_password").await;
    assert_eq!(client.read().await.1, [1, 3]);
    assert_eq!(client.read().await.1[0], 0);
    client.write(0, b"\x03SELECT 1").await;
    let eof = vec![0xfe, 0, 0, 2, 0];
    assert_eq!(client.read().await, (1, vec![1]));
    assert_eq!(client.read().await.1[..5], *b"\x03def\0");
    assert_eq!(client.read().await, (3, eof.clone()));
    assert_eq!(client.read().await, (4, b"\x011".to_vec()));
    assert_eq!(client.read().await, (5, eof));
}

#[tokio::test]
async fn several_requests_in_one_burst_are_answered_in_order() {
    let cluster = Cluster::start(1).await.unwrap();
    let (mut client, greeting) = Client::connect(&cluster).await;
    let proof = proof(&nonce(&greeting));
    let extra = CapabilityFlags::CLIENT_DEPRECATE_EOF;
    client.log_in(extra, &proof, "caching_sha2_password").await;
    client.read().await;
    client.read().await;
    // A ping, a change of database, an unknown command.
    client.0.write_all(b"\x01\0\0\0\x0e\x05\0\0\0\x02test\x01\0\0\0\x1d").await.unwrap();
    assert_eq!(client.read().await.1[0], 0);
    assert_eq!(client.read().await.1[0], 0);
    let (_, error) = client.read().await;
    assert_eq!((error[0], &error[1..9]), (0xff, &b"\x17\x04#08S01"[..]));
}

#[tokio::test]
async fn garbage_ends_the_connection_and_nothing_else() {
    let cluster = Cluster::start(1).await.unwrap();
    for garbage in [&b"\x02\0\0\x01\xff\xff"[..], b"\x00\0\0\x01", b"\x04\0\0\x01\0\x02\0\0"] {
        let (mut client, _) = Client::connect(&cluster).await;
        client.0.write_all(garbage).await.unwrap();
        let (_, error) = client.read().await;
        assert_eq!(error[..3], [0xff, 0x13, 0x04]);
        let end = timeout(LONG, client.0.read(&mut [0; 9])).await.unwrap();
        assert_eq!(end.unwrap(), 0);
    }
    Client::connect(&cluster).await;
}
