//! Connects of the MySQL driver that go wrong before a login: silence, refusals, TLS.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use mysql_async::Error;
use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Driver, Reporter};
use pool_core::host::Host;
use pool_core::verdict::Verdict;
use pool_mysql::{Conn, MySql, MySqlOptions, TlsMode};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(10);

/// Protocol 4.1, long auth data, plug-in names.
const CAPABILITIES: u32 = 0x0000_0200 | 0x0000_8000 | 0x0008_0000;
const SSL: u32 = 0x0000_0800;

/// Sends `greeting` to whoever connects and then keeps silent.
struct Silent {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl Silent {
    async fn start(greeting: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut held = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(&greeting).await.unwrap();
                held.push(stream);
            }
        });
        Self { address, _task: task }
    }

    async fn connect(&self, driver: &MySql, limit: Duration) -> Result<Conn, Error> {
        dial(driver, self.address, limit).await
    }
}

async fn dial(driver: &MySql, address: SocketAddr, limit: Duration) -> Result<Conn, Error> {
    let host = Host::new(&address.ip().to_string(), address.port());
    let request = ConnectRequest {
        host: &host,
        access: Access::Write,
        deadline: Instant::now() + limit,
        reporter: Reporter::none(),
    };
    timeout(SOON, driver.connect(request)).await.expect("the deadline did not hold")
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[length, 0, 0, 0], payload].concat()
}

fn greeting(capabilities: u32) -> Vec<u8> {
    let [low0, low1, high0, high1] = capabilities.to_le_bytes();
    let mut payload = b"\x0a8.4.0\0\x01\0\0\0abcdefgh\0".to_vec();
    payload.extend([low0, low1, 45, 2, 0, high0, high1, 21]);
    payload.extend([0; 10]);
    payload.extend(b"ijklmnopqrst\0caching_sha2_password\0");
    packet(&payload)
}

/// An error in place of the greeting has no SQLState.
fn refusal(code: u16, text: &str) -> Vec<u8> {
    packet(&[&[0xff], &code.to_le_bytes()[..], text.as_bytes()].concat())
}

fn options() -> MySqlOptions {
    MySqlOptions::new().host(Host::new("127.0.0.1", 3306)).user("u").password("p")
}

#[tokio::test]
async fn a_host_that_is_silent_is_down_when_the_deadline_has_passed() {
    let server = Silent::start(Vec::new()).await;
    let driver = options().driver().unwrap();
    let error = server.connect(&driver, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::HostDown, "{error}");

    let server = Silent::start(greeting(CAPABILITIES)).await;
    let error = server.connect(&driver, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::HostDown, "{error}");

    // In the middle of a TLS handshake.
    let server = Silent::start(greeting(CAPABILITIES | SSL)).await;
    let driver = options().ssl_mode(TlsMode::Required).driver().unwrap();
    let error = server.connect(&driver, Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::HostDown, "{error}");
}

#[tokio::test]
async fn a_host_that_refuses_is_down_at_once() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let driver = options().driver().unwrap();
    let error = dial(&driver, address, SOON * 2).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::HostDown, "{error}");
}

#[tokio::test]
async fn an_error_in_place_of_the_greeting_is_judged_by_its_code() {
    let rows = [
        (1040, "Too many connections", Verdict::Overloaded),
        (1129, "Host is blocked", Verdict::Overloaded),
        (1130, "Host is not allowed", Verdict::HostDown),
        (1053, "Server shutdown in progress", Verdict::ConnectionLost),
    ];
    let driver = options().driver().unwrap();
    for (code, text, verdict) in rows {
        let server = Silent::start(refusal(code, text)).await;
        let error = server.connect(&driver, SOON * 2).await.unwrap_err();
        assert_eq!(driver.verdict(&error), verdict, "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_no_server_for_a_pool_that_wants_it() {
    let server = Silent::start(greeting(CAPABILITIES)).await;
    let driver = options().ssl_mode(TlsMode::Required).driver().unwrap();
    let error = server.connect(&driver, SOON * 2).await.unwrap_err();
    assert_eq!(driver.verdict(&error), Verdict::Permanent, "{error}");
}
