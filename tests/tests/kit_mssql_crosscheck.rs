//! The same client code against the kit's server and against Microsoft's mock server: where both
//! answer a question, the client must see the same, so that the kit and a driver tested on it
//! cannot share one misunderstanding of the protocol.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use mssql_mock_tds::{
    ColumnDefinition, ColumnValue, LeadingError, MockTdsServer, QueryResponse, RedirectionConfig,
    Row, SqlDataType, TerminalError,
};
use pool_tests::mssql::{MssqlServer, Route};
use tiberius::error::Error;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

type Tds = Client<Compat<TcpStream>>;

/// Nothing here may hang.
async fn limited<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("a step took too long")
}

/// Microsoft's server, running until dropped.
struct Mock {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Mock {
    fn run(server: MockTdsServer) -> Self {
        let address = server.local_addr();
        let task = tokio::spawn(async move {
            let _ = server.run().await;
        });
        Self { address, task }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(address: SocketAddr) -> tiberius::Result<Tds> {
    let mut config = Config::new();
    config.host(address.ip().to_string());
    config.port(address.port());
    config.database("app");
    config.authentication(AuthMethod::sql_server("kit", "kit-Passw0rd"));
    config.encryption(EncryptionLevel::NotSupported);
    limited(async {
        let stream = TcpStream::connect(address).await?;
        Client::connect(config, stream.compat_write()).await
    })
    .await
}

/// What a client sees of a batch: the cells of all result sets, or the error.
async fn batch(client: &mut Tds, sql: &str) -> String {
    let outcome = limited(async { client.simple_query(sql).await?.into_results().await }).await;
    match outcome {
        Ok(sets) => {
            let cells = sets.iter().flatten().flat_map(|row| row.cells());
            let seen: Vec<_> =
                cells.map(|(column, data)| format!("{}={data:?}", column.name())).collect();
            format!("{sql}: {seen:?}")
        }
        Err(error) => format!("{sql}: {}", failure(error)),
    }
}

fn failure(error: Error) -> String {
    match error {
        Error::Server(error) => {
            format!("{} class {} {}", error.code(), error.class(), error.message())
        }
        Error::Routing { host, port } => format!("go to {host}:{port}"),
        other => format!("{other:?}"),
    }
}

const WAIT: &str = "WAITFOR DELAY '00:01:00'";
const TYPES: &str = "SELECT CAST(1 AS BIGINT) AS B, CAST(2 AS SMALLINT) AS S, \
                     CAST(3 AS TINYINT) AS T, 'GRÜSSE' AS G, CAST(NULL AS INT) AS N";

/// Everything both servers can do, told by the client.
async fn conversation(address: SocketAddr) -> Vec<String> {
    let mut client = connect(address).await.unwrap();
    let mut seen = Vec::new();
    seen.push(batch(&mut client, "SELECT 1").await);
    seen.push(batch(&mut client, "SELECT CAST(1 AS BIGINT), 2, 3").await);
    seen.push(batch(&mut client, TYPES).await);

    // An error that ends the batch, one that does not, and the connection afterwards.
    seen.push(batch(&mut client, "SELECT * FROM MISSING").await);
    seen.push(batch(&mut client, "RAISERROR('EARLY', 16, 1); SELECT 1").await);
    seen.push(batch(&mut client, "SELECT 1").await);

    // Transactions by request, with a statement inside.
    for commit in [true, false] {
        limited(client.begin_transaction()).await.unwrap();
        seen.push(batch(&mut client, "SELECT 1").await);
        let end = match commit {
            true => limited(client.commit_transaction()).await,
            false => limited(client.rollback_transaction()).await,
        };
        seen.push(format!("end of transaction: {end:?}"));
        seen.push(batch(&mut client, "SELECT 1").await);
    }

    // A parameterless RPC.
    let rpc = limited(async { client.query("SELECT 1", &[]).await?.into_row().await }).await;
    seen.push(format!("{:?}", rpc.unwrap().and_then(|row| row.get::<i32, _>(0))));

    // A query dropped while it runs, cancelled, and the connection afterwards.
    let running = async { client.simple_query(WAIT).await?.into_results().await };
    assert!(tokio::time::timeout(Duration::from_millis(100), running).await.is_err());
    seen.push(format!("cancelled: {:?}", limited(client.cancel_query()).await));
    seen.push(batch(&mut client, "SELECT 1").await);
    seen
}

#[tokio::test]
async fn both_servers_look_the_same_to_a_client() {
    let server = MockTdsServer::new("127.0.0.1:0").await.unwrap();
    let registry = server.query_registry();
    {
        let mut registry = registry.lock().await;
        let column = ColumnDefinition::new;
        let columns = vec![
            column("B", SqlDataType::BigInt),
            column("S", SqlDataType::SmallInt),
            column("T", SqlDataType::TinyInt),
            column("G", SqlDataType::NVarChar),
            column("N", SqlDataType::Int),
        ];
        let values = vec![
            ColumnValue::BigInt(1),
            ColumnValue::SmallInt(2),
            ColumnValue::TinyInt(3),
            ColumnValue::NVarChar("GRÜSSE".into()),
            ColumnValue::Null,
        ];
        registry.register(TYPES, QueryResponse::new(columns, vec![Row::new(values)]));
        registry.register(
            "SELECT * FROM MISSING",
            QueryResponse::error_only(TerminalError::new(
                208,
                16,
                "Invalid object name 'MISSING'.",
            )),
        );
        registry.register(
            "RAISERROR('EARLY', 16, 1); SELECT 1",
            QueryResponse::select_one().with_leading_error(LeadingError::new(50_000, 16, "EARLY")),
        );
        registry.register(WAIT, QueryResponse::select_one().with_delay(Duration::from_secs(60)));
    }
    let mock = Mock::run(server);
    let kit = MssqlServer::launch().await.unwrap();

    let expected = conversation(mock.address).await;
    let seen = conversation(kit.address()).await;
    assert_eq!(seen, expected);
    assert!(expected.iter().any(|line| line.contains("208 class 16")), "{expected:#?}");
    assert_eq!(kit.counts().attentions, 1);
    assert_eq!((kit.counts().commits, kit.counts().rollbacks), (1, 1));
}

#[tokio::test]
async fn both_servers_redirect_alike() {
    let config = RedirectionConfig::new("replica.example", 14_330);
    let mock = MockTdsServer::new_with_redirection_config("127.0.0.1:0", config).await.unwrap();
    let mock = Mock::run(mock);
    let kit = MssqlServer::launch().await.unwrap();
    kit.switches().set_redirect(Some(Route::new("replica.example", 14_330)));
    let redirected = |result: tiberius::Result<Tds>| failure(result.map(|_| ()).unwrap_err());
    let expected = redirected(connect(mock.address).await);
    assert_eq!(expected, "go to replica.example:14330");
    assert_eq!(redirected(connect(kit.address()).await), expected);
}
