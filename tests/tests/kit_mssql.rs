//! The embedded SQL Server, as a plain `tiberius` client sees it.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use pool_tests::mssql::{
    AvailabilityGroup, BlackHole, ClientEncryption, Close, Counts, Encryption, Failover, Fault,
    Malformed, MirroredPair, MssqlServer, Partner, RedirectChain, Refusal, SecondaryAccess,
    SqlError,
};
use tiberius::error::Error;
use tiberius::{Client, Command, Config, IsolationLevel, Row};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

type Tds = Client<Compat<TcpStream>>;

const LIMIT: Duration = Duration::from_secs(20);

/// Nothing here may hang.
async fn limited<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("a step took too long")
}

async fn connect(ado: &str) -> tiberius::Result<Tds> {
    let config = Config::from_ado_string(ado)?;
    limited(async {
        let stream = TcpStream::connect(config.get_addr()).await?;
        stream.set_nodelay(true)?;
        Client::connect(config, stream.compat_write()).await
    })
    .await
}

/// Connects and follows redirects; answers the ports they led to as well.
async fn follow(ado: &str) -> tiberius::Result<(Tds, Vec<u16>)> {
    let mut config = Config::from_ado_string(ado)?;
    let mut hops = Vec::new();
    loop {
        let stream = TcpStream::connect(config.get_addr()).await?;
        match limited(Client::connect(config.clone(), stream.compat_write())).await {
            Err(Error::Routing { host, port }) => {
                hops.push(port);
                config.host(host);
                config.port(port);
            }
            other => return other.map(|client| (client, hops)),
        }
    }
}

async fn rows(client: &mut Tds, sql: &str) -> Vec<Row> {
    limited(async { client.simple_query(sql).await?.into_first_result().await }).await.unwrap()
}

async fn int(client: &mut Tds, sql: &str) -> Option<i32> {
    rows(client, sql).await.first().and_then(|row| row.get(0))
}

async fn text(client: &mut Tds, sql: &str) -> Option<String> {
    rows(client, sql).await.first().and_then(|row| row.get::<&str, _>(0).map(str::to_owned))
}

async fn run(client: &mut Tds, sql: &str) -> tiberius::Result<()> {
    limited(async { client.simple_query(sql).await?.into_results().await.map(|_| ()) }).await
}

#[track_caller]
fn number<T>(result: tiberius::Result<T>) -> (u32, u8) {
    match result {
        Err(Error::Server(error)) => (error.code(), error.class()),
        Err(error) => panic!("not a server error: {error}"),
        Ok(_) => panic!("no error"),
    }
}

#[track_caller]
fn io_kind<T>(result: tiberius::Result<T>) -> ErrorKind {
    match result {
        Err(Error::Io { kind, .. }) => kind,
        Err(error) => panic!("not an I/O error: {error}"),
        Ok(_) => panic!("no error"),
    }
}

#[tokio::test]
async fn a_login_is_recorded_with_its_fields() {
    let server = MssqlServer::launch().await.unwrap();
    let ado = server.ado().read_only().with("Application Name", "books").to_string();
    let _client = connect(&ado).await.unwrap();
    let login = server.logins().remove(0);
    assert_eq!((login.user.as_str(), login.database.as_str()), ("kit", "app"));
    assert_eq!((login.server_name.as_str(), login.app_name.as_str()), ("127.0.0.1", "books"));
    assert!(login.read_only_intent && !login.encrypted);
    let counts = server.counts();
    assert_eq!((counts.accepts, counts.prelogins, counts.logins), (1, 1, 1));
    assert_eq!((counts.logins_accepted, counts.logins_read_intent), (1, 1));
    assert_eq!(counts.open_connections, 1);
}

#[tokio::test]
async fn a_login_longer_than_a_packet_arrives_whole() {
    let server = MssqlServer::launch().await.unwrap();
    let app = "a".repeat(2500);
    let ado = server.ado().with("Application Name", &app).to_string();
    connect(&ado).await.unwrap();
    assert_eq!(server.logins()[0].app_name, app);
}

#[tokio::test]
async fn every_encryption_works_end_to_end() {
    let optional = MssqlServer::launch().await.unwrap();
    let required = MssqlServer::builder().encryption(Encryption::Required).launch().await.unwrap();
    let cases = [
        (&optional, ClientEncryption::Plaintext, false),
        (&optional, ClientEncryption::LoginOnly, true),
        (&optional, ClientEncryption::Full, true),
        (&required, ClientEncryption::LoginOnly, true),
        (&required, ClientEncryption::Full, true),
    ];
    for (server, encryption, encrypted) in cases {
        server.clear_records();
        let mut client = connect(&server.ado_string_with(encryption)).await.unwrap();
        let long = "x".repeat(20_000);
        assert_eq!(text(&mut client, &format!("SELECT '{long}'")).await.unwrap(), long);
        assert_eq!(server.logins()[0].encrypted, encrypted, "{encryption:?}");
        assert_eq!(server.counts().tls_handshakes, u64::from(encrypted));
    }
}

#[tokio::test]
async fn a_client_that_insists_on_tls_is_turned_away_without_it() {
    let server =
        MssqlServer::builder().encryption(Encryption::NotSupported).launch().await.unwrap();
    let result = connect(&server.ado_string_with(ClientEncryption::Full)).await;
    assert!(matches!(result, Err(Error::Protocol(_))));
    connect(&server.ado_string()).await.unwrap();
}

#[tokio::test]
async fn the_certificate_serves_as_its_own_anchor() {
    let server = MssqlServer::launch().await.unwrap();
    let path = std::env::temp_dir().join(format!("mssql-kit-{}.pem", std::process::id()));
    std::fs::write(&path, MssqlServer::certificate_pem().unwrap()).unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1");
    config.port(server.port());
    config.database(server.database());
    config.authentication(tiberius::AuthMethod::sql_server(server.user(), server.password()));
    config.encryption(tiberius::EncryptionLevel::Required);
    config.trust_cert_ca(path.display().to_string());
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut client = limited(Client::connect(config, stream.compat_write())).await.unwrap();
    assert_eq!(int(&mut client, "SELECT 1").await, Some(1));
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn wrong_credentials_get_18456_and_unknown_databases_4060() {
    let server = MssqlServer::launch().await.unwrap();
    let wrong = server.ado_string().replace(server.password(), "wrong");
    assert_eq!(number(connect(&wrong).await), (18456, 14));
    let unknown = server.ado().database("nope").to_string();
    assert_eq!(number(connect(&unknown).await), (4060, 11));
    connect(&server.ado().database("master").to_string()).await.unwrap();
    assert_eq!((server.counts().logins, server.counts().logins_accepted), (3, 1));
}

#[tokio::test]
async fn statements_run_on_shared_data_with_types() {
    let server = MssqlServer::launch().await.unwrap();
    let mut one = connect(&server.ado_string()).await.unwrap();
    let mut two = connect(&server.ado_string()).await.unwrap();
    let create = "CREATE TABLE dbo.t (id BIGINT IDENTITY(1,1) PRIMARY KEY, n INT NULL, \
                  name NVARCHAR(50), f FLOAT, b BIT, d DECIMAL(10,2), \
                  at DATETIME2 DEFAULT SYSUTCDATETIME())";
    run(&mut one, create).await.unwrap();
    let insert = "INSERT INTO t (n, name, f, b, d) VALUES (@P1, @P2, @P3, @P4, 12.5), \
                  (NULL, NULL, NULL, NULL, NULL)";
    let changed = limited(one.execute(insert, &[&7i32, &"Größe", &1.5f64, &true])).await.unwrap();
    assert_eq!(changed.total(), 2);
    let found = rows(&mut two, "SELECT TOP 5 * FROM [t] ORDER BY id").await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].get::<i64, _>("id"), Some(1));
    assert_eq!(found[0].get::<i32, _>("n"), Some(7));
    assert_eq!(found[0].get::<&str, _>("name"), Some("Größe"));
    assert_eq!(found[0].get::<f64, _>("f"), Some(1.5));
    assert_eq!(found[0].get::<bool, _>("b"), Some(true));
    assert_eq!(found[0].get::<tiberius::numeric::Numeric, _>("d").unwrap().value(), 1250);
    assert!(found[0].get::<tiberius::numeric::Numeric, _>("d").unwrap().scale() == 2);
    assert_eq!(found[1].get::<i32, _>("n"), None);
    assert_eq!(found[1].get::<&str, _>("name"), None);
    assert_eq!(int(&mut two, "SELECT COUNT(*) FROM t").await, Some(2));
    assert_eq!(server.data().scalar("app", "SELECT count(*) FROM t").unwrap(), Some(2));
}

#[tokio::test]
async fn datetime2_travels_both_ways() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE t (at DATETIME2)").await.unwrap();
    let noon = tiberius::time::DateTime2::new(
        tiberius::time::Date::new(738_000),
        tiberius::time::Time::new(12 * 3600 * 10_000_000, 7),
    );
    let sent = tiberius::ColumnData::DateTime2(Some(noon));
    let mut insert = tiberius::Query::new("INSERT INTO t VALUES (@P1)");
    insert.bind(Bound(sent));
    limited(insert.execute(&mut client)).await.unwrap();
    let found = rows(&mut client, "SELECT at FROM t").await;
    let (_, read) = found[0].cells().next().unwrap();
    assert_eq!(*read, tiberius::ColumnData::DateTime2(Some(noon)));
}

/// A value in its wire form.
struct Bound(tiberius::ColumnData<'static>);

impl<'a> tiberius::IntoSql<'a> for Bound {
    fn into_sql(self) -> tiberius::ColumnData<'a> {
        self.0
    }
}

#[tokio::test]
async fn identities_come_back_in_every_usual_way() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE t (id INT IDENTITY(1,1) PRIMARY KEY, n INT)").await.unwrap();
    let insert = "INSERT INTO t (n) VALUES (5); SELECT CAST(SCOPE_IDENTITY() AS BIGINT) AS id";
    assert_eq!(rows(&mut client, insert).await[0].get::<i64, _>("id"), Some(1));
    let insert = "INSERT INTO t (n) OUTPUT INSERTED.id VALUES (@P1)";
    let row = limited(async { client.query(insert, &[&6i32]).await?.into_row().await });
    assert_eq!(row.await.unwrap().unwrap().get::<i32, _>("id"), Some(2));
    let numeric = rows(&mut client, "SELECT @@IDENTITY").await;
    assert_eq!(numeric[0].get::<tiberius::numeric::Numeric, _>(0).unwrap().value(), 2);
}

#[tokio::test]
async fn parameters_keep_their_types() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    let long = "y".repeat(9000);
    let select = "SELECT @P1 AS a, @P2 AS b, @P3 AS c, @P4 AS d, @P5 AS e, @P6 AS f";
    let values: [&dyn tiberius::ToSql; 6] = [&1i32, &2i64, &"z", &true, &0.25f64, &long.as_str()];
    let row = limited(async { client.query(select, &values).await?.into_row().await });
    let row = row.await.unwrap().unwrap();
    assert_eq!(row.get::<i32, _>("a"), Some(1));
    assert_eq!(row.get::<i64, _>("b"), Some(2));
    assert_eq!(row.get::<&str, _>("c"), Some("z"));
    assert_eq!(row.get::<bool, _>("d"), Some(true));
    assert_eq!(row.get::<f64, _>("e"), Some(0.25));
    assert_eq!(row.get::<&str, _>("f"), Some(long.as_str()));
    let null: Option<i32> = None;
    let row = limited(async { client.query("SELECT @P1", &[&null]).await?.into_row().await });
    assert_eq!(row.await.unwrap().unwrap().get::<i32, _>(0), None);
    assert_eq!(server.counts().rpcs, 2);
}

#[tokio::test]
async fn a_transaction_is_isolated_until_it_commits() {
    let server = MssqlServer::launch().await.unwrap();
    let mut one = connect(&server.ado_string()).await.unwrap();
    let mut two = connect(&server.ado_string()).await.unwrap();
    run(&mut one, "CREATE TABLE t (n INT)").await.unwrap();

    limited(one.begin_transaction()).await.unwrap();
    run(&mut one, "INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(int(&mut one, "SELECT @@TRANCOUNT").await, Some(1));
    assert_eq!(int(&mut one, "SELECT COUNT(*) FROM t").await, Some(1));
    assert_eq!(int(&mut two, "SELECT COUNT(*) FROM t").await, Some(0));
    limited(one.commit_transaction()).await.unwrap();
    assert_eq!(int(&mut two, "SELECT COUNT(*) FROM t").await, Some(1));

    // The same state, moved by T-SQL and by requests in turn.
    run(&mut one, "BEGIN TRAN; INSERT INTO t VALUES (2)").await.unwrap();
    limited(one.rollback_transaction()).await.unwrap();
    limited(one.begin_transaction_with_isolation(IsolationLevel::Serializable)).await.unwrap();
    run(&mut one, "INSERT INTO t VALUES (3) ROLLBACK TRAN").await.unwrap();
    assert_eq!(int(&mut one, "SELECT @@TRANCOUNT").await, Some(0));
    assert_eq!(int(&mut two, "SELECT COUNT(*) FROM t").await, Some(1));

    let counts = server.counts();
    assert_eq!((counts.begins, counts.commits, counts.rollbacks), (3, 1, 2));
    assert_eq!(counts.transaction_requests, 4);
}

#[tokio::test]
async fn savepoints_and_nesting_behave_as_in_t_sql() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE t (n INT)").await.unwrap();
    limited(client.begin_transaction()).await.unwrap();
    run(&mut client, "INSERT INTO t VALUES (1)").await.unwrap();
    limited(client.save_transaction("s")).await.unwrap();
    run(&mut client, "INSERT INTO t VALUES (2); ROLLBACK TRAN s; BEGIN TRAN").await.unwrap();
    assert_eq!(int(&mut client, "SELECT @@TRANCOUNT").await, Some(2));
    run(&mut client, "COMMIT COMMIT").await.unwrap();
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t").await, Some(1));
    assert_eq!(number(run(&mut client, "COMMIT").await), (3902, 16));
    assert_eq!(number(run(&mut client, "ROLLBACK").await), (3903, 16));
}

const ISOLATION: &str =
    "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID";

#[tokio::test]
async fn clean_up_rolls_back_only_what_is_open() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    let clean = "IF @@TRANCOUNT > 0 ROLLBACK TRAN; SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
    run(&mut client, clean).await.unwrap();
    assert_eq!(server.counts().rollbacks, 0);
    let dirty = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE BEGIN TRANSACTION";
    run(&mut client, dirty).await.unwrap();
    assert_eq!(rows(&mut client, ISOLATION).await[0].get::<i16, _>(0), Some(4));
    run(&mut client, clean).await.unwrap();
    assert_eq!(server.counts().rollbacks, 1);
    assert_eq!(rows(&mut client, ISOLATION).await[0].get::<i16, _>(0), Some(2));
}

#[tokio::test]
async fn a_reset_rolls_back_and_keeps_the_isolation_level() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE #own (n INT); CREATE TABLE t (n INT)").await.unwrap();
    let dirty = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; INSERT INTO t VALUES (1)";
    run(&mut client, dirty).await.unwrap();
    let reset = Command::new("sys.sp_reset_connection");
    let result = limited(async { reset.exec(&mut client).await?.into_command_result().await });
    assert_eq!(result.await.unwrap().return_code(), 0);
    assert_eq!(int(&mut client, "SELECT @@TRANCOUNT").await, Some(0));
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t").await, Some(0));
    assert_eq!(rows(&mut client, ISOLATION).await[0].get::<i16, _>(0), Some(5));
    assert_eq!(number(run(&mut client, "SELECT * FROM #own").await), (208, 16));
    let counts = server.counts();
    assert_eq!((counts.resets, counts.rollbacks), (1, 1));
}

#[tokio::test]
async fn errors_carry_number_and_class() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE t (id INT PRIMARY KEY, n NVARCHAR(9) NOT NULL)").await.unwrap();
    run(&mut client, "INSERT INTO t VALUES (1, 'a')").await.unwrap();
    for (sql, expected) in [
        ("INSERT INTO t VALUES (1, 'b')", (2627, 14)),
        ("INSERT INTO t VALUES (2, NULL)", (515, 16)),
        ("SELECT * FROM nope", (208, 16)),
        ("SELEKT 1", (102, 15)),
        ("EXEC nope", (2812, 16)),
        ("RAISERROR('own', 15, 7)", (50_000, 15)),
        ("THROW 51000, 'own', 1", (51_000, 16)),
        ("SELECT 'open", (105, 15)),
    ] {
        assert_eq!(number(run(&mut client, sql).await), expected, "{sql}");
        // None of them hurts the connection.
        assert_eq!(int(&mut client, "SELECT 1").await, Some(1));
    }
    assert_eq!(number(limited(client.execute("SELECT @P9", &[&1i32])).await), (137, 15));
    // A violated constraint ends its statement only.
    let batch = "INSERT INTO t VALUES (1, 'c') INSERT INTO t VALUES (3, 'd')";
    assert_eq!(number(run(&mut client, batch).await), (2627, 14));
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t").await, Some(2));
}

#[tokio::test]
async fn class_20_reports_and_then_closes() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    server.switches().fail_next_requests(1, &SqlError::known(596));
    assert_eq!(number(run(&mut client, "SELECT 1").await), (596, 21));
    server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
    assert_eq!(io_kind(run(&mut client, "SELECT 1").await), ErrorKind::UnexpectedEof);

    let mut client = connect(&server.ado_string()).await.unwrap();
    assert_eq!(number(run(&mut client, "RAISERROR('dead', 20, 1) WITH LOG").await), (50_000, 20));
    server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
}

#[tokio::test]
async fn planned_failures_hit_the_next_requests_only() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    server.switches().fail_next_requests(2, &SqlError::known(3906));
    assert_eq!(number(run(&mut client, "SELECT 1").await), (3906, 16));
    assert_eq!(number(limited(client.execute("SELECT @P1", &[&1i32])).await), (3906, 16));
    assert_eq!(int(&mut client, "SELECT 1").await, Some(1));
    // A deadlock victim loses its transaction, and the client is told.
    limited(client.begin_transaction()).await.unwrap();
    server.switches().fail_next_requests(1, &SqlError::known(1205));
    assert_eq!(number(run(&mut client, "SELECT 1").await), (1205, 13));
    assert_eq!(int(&mut client, "SELECT @@TRANCOUNT").await, Some(0));
    assert_eq!(server.statements().len(), 5);
}

/// Starts a statement that takes a minute and drops it while it runs, on a busy machine as well.
async fn abandon(client: &mut Tds, sql: &str) {
    let query = async { client.simple_query(sql).await?.into_results().await };
    assert!(tokio::time::timeout(Duration::from_millis(500), query).await.is_err());
}

#[tokio::test]
async fn an_attention_interrupts_a_wait() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    let begun = Instant::now();
    abandon(&mut client, "BEGIN TRAN WAITFOR DELAY '00:01:00'").await;
    limited(client.cancel_query()).await.unwrap();
    // The session lives on, and so does its transaction.
    assert_eq!(int(&mut client, "SELECT @@TRANCOUNT").await, Some(1));
    assert!(begun.elapsed() < LIMIT);
    assert_eq!(server.counts().attentions, 1);
    // An idle connection takes one as well.
    limited(client.cancel_query()).await.unwrap();
    assert_eq!(server.counts().attentions, 2);
}

#[tokio::test]
async fn an_attention_cuts_a_long_result_short() {
    let server = MssqlServer::launch().await.unwrap();
    // With a small receive buffer the server is still sending when the client loses interest.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let stream = limited(socket.connect(server.address())).await.unwrap();
    let config = Config::from_ado_string(&server.ado_string()).unwrap();
    let mut client = limited(Client::connect(config, stream.compat_write())).await.unwrap();
    run(&mut client, "CREATE TABLE t (pad VARBINARY(8000))").await.unwrap();
    let pad = [7u8; 8000];
    limited(client.execute("INSERT INTO t VALUES (@P1)", &[&&pad[..]])).await.unwrap();
    let many = "WITH n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 3000) \
                SELECT x, pad FROM n, t";
    {
        let mut stream = limited(client.simple_query(many)).await.unwrap();
        limited(stream.try_next()).await.unwrap();
    }
    limited(client.cancel_query()).await.unwrap();
    assert_eq!(int(&mut client, "SELECT 2").await, Some(2));
    assert_eq!(server.counts().attentions, 1);
}

#[tokio::test]
async fn a_dropped_connection_rolls_back() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "CREATE TABLE t (n INT)").await.unwrap();
    run(&mut client, "BEGIN TRAN INSERT INTO t VALUES (1)").await.unwrap();
    // Even in the middle of a statement.
    abandon(&mut client, "WAITFOR DELAY '00:01:00'").await;
    drop(client);
    let counts = server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
    assert_eq!((counts.abandoned_transactions, counts.rollbacks), (1, 0));
    assert_eq!(server.data().scalar("app", "SELECT count(*) FROM t").unwrap(), Some(0));
    // And its lock is gone.
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "INSERT INTO t VALUES (2)").await.unwrap();
}

#[tokio::test]
async fn writers_wait_for_each_other_or_time_out() {
    let server = MssqlServer::launch().await.unwrap();
    let mut one = connect(&server.ado_string()).await.unwrap();
    let mut two = connect(&server.ado_string()).await.unwrap();
    run(&mut one, "CREATE TABLE t (n INT)").await.unwrap();
    run(&mut one, "BEGIN TRAN INSERT INTO t VALUES (1)").await.unwrap();
    let impatient = "SET LOCK_TIMEOUT 30 INSERT INTO t VALUES (2)";
    assert_eq!(number(run(&mut two, impatient).await), (1222, 16));
    let (waited, committed) = tokio::join!(
        run(&mut two, "SET LOCK_TIMEOUT -1 INSERT INTO t VALUES (3)"),
        run(&mut one, "WAITFOR DELAY '00:00:00.05' COMMIT")
    );
    waited.unwrap();
    committed.unwrap();
    assert_eq!(int(&mut one, "SELECT COUNT(*) FROM t").await, Some(2));
}

#[tokio::test]
async fn connections_are_killed_as_asked() {
    let server = MssqlServer::launch().await.unwrap();
    for (how, encryption) in [
        (Close::Fin, ClientEncryption::Plaintext),
        (Close::Rst, ClientEncryption::Plaintext),
        (Close::Fin, ClientEncryption::Full),
        (Close::Rst, ClientEncryption::Full),
    ] {
        // A bare socket sees which of the two it was.
        let bare = TcpStream::connect(server.address()).await.unwrap();
        let mut client = connect(&server.ado_string_with(encryption)).await.unwrap();
        assert_eq!(int(&mut client, "SELECT 1").await, Some(1));
        server.wait_for(LIMIT, |counts| counts.open_connections == 2).await.unwrap();
        assert_eq!(server.kill_connections(how).await, 2);
        assert_eq!(server.counts().open_connections, 0);
        limited(bare.readable()).await.unwrap();
        let seen = bare.try_read(&mut [0; 1]);
        match how {
            Close::Fin => assert_eq!(seen.unwrap(), 0),
            Close::Rst => assert_eq!(seen.unwrap_err().kind(), ErrorKind::ConnectionReset),
        }
        assert!(matches!(run(&mut client, "SELECT 1").await, Err(Error::Io { .. })));
    }
}

#[tokio::test]
async fn one_session_can_kill_another() {
    let server = MssqlServer::launch().await.unwrap();
    let mut one = connect(&server.ado_string()).await.unwrap();
    let mut two = connect(&server.ado_string()).await.unwrap();
    let spid = rows(&mut two, "SELECT @@SPID").await[0].get::<i16, _>(0).unwrap();
    run(&mut one, &format!("KILL {spid}")).await.unwrap();
    server.wait_for(LIMIT, |counts| counts.open_connections == 1).await.unwrap();
    assert!(run(&mut two, "SELECT 1").await.is_err());
    assert_eq!(number(run(&mut one, "KILL 31000").await), (6106, 16));
}

#[tokio::test]
async fn a_stopped_server_refuses_and_starts_on_the_same_port() {
    let server = MssqlServer::launch().await.unwrap();
    for _ in 0..3 {
        let mut client = connect(&server.ado_string()).await.unwrap();
        server.stop(Close::Fin).await;
        assert!(run(&mut client, "SELECT 1").await.is_err());
        assert_eq!(io_kind(connect(&server.ado_string()).await), ErrorKind::ConnectionRefused);
        server.start().unwrap();
    }
    // Refusing alone leaves connections open.
    let mut client = connect(&server.ado_string()).await.unwrap();
    server.refuse().await;
    assert_eq!(io_kind(connect(&server.ado_string()).await), ErrorKind::ConnectionRefused);
    assert_eq!(int(&mut client, "SELECT 1").await, Some(1));
}

#[tokio::test]
async fn faults_strike_at_their_stage() {
    let server = MssqlServer::launch().await.unwrap();
    let switches = server.switches();
    let stage = |counts: &Counts| (counts.accepts, counts.prelogins, counts.logins);
    for (fault, reached) in [
        (Fault::ResetOnAccept, (1, 0, 0)),
        (Fault::CloseOnAccept, (1, 0, 0)),
        (Fault::CloseAfterPrelogin, (1, 1, 0)),
        (Fault::CloseAfterLogin, (1, 1, 1)),
    ] {
        server.clear_records();
        switches.set_fault(fault);
        let kind = io_kind(connect(&server.ado_string()).await);
        let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(closed.contains(&kind), "{fault:?}: {kind:?}");
        let counts = server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
        assert_eq!(stage(&counts), reached, "{fault:?}");
    }
    for (fault, reached) in [
        (Fault::HangBeforePrelogin, (1, 0, 0)),
        (Fault::HangAfterPrelogin, (1, 1, 0)),
        (Fault::HangBeforeLoginReply, (1, 1, 1)),
    ] {
        server.clear_records();
        switches.set_fault(fault);
        let ado = server.ado_string();
        tokio::select! {
            result = connect(&ado) => panic!("{fault:?}: {:?}", result.err()),
            counts = server.wait_for(LIMIT, |counts| stage(counts) == reached) => {
                counts.unwrap();
            }
        }
        // A client that gives up is noticed.
        server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
    }
    switches.set_fault(Fault::None);
    connect(&server.ado_string()).await.unwrap();
}

#[tokio::test]
async fn damaged_replies_are_errors_for_the_client() {
    let server = MssqlServer::launch().await.unwrap();
    for malformed in [
        Malformed::WrongPacketType,
        Malformed::PacketTooShort,
        Malformed::PacketTooLong,
        Malformed::EmptyPrelogin,
        Malformed::NoTerminator,
        Malformed::EmptyLoginReply,
        Malformed::WrongLoginReply,
        Malformed::UnknownToken,
    ] {
        server.switches().set_fault(Fault::Malformed(malformed));
        let result = connect(&server.ado_string()).await;
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Io { .. } | Error::Protocol(_)), "{malformed:?}: {error:?}");
        server.wait_for(LIMIT, |counts| counts.open_connections == 0).await.unwrap();
    }
}

#[tokio::test]
async fn logins_are_throttled_delayed_and_refused_on_demand() {
    let server = MssqlServer::launch().await.unwrap();
    let switches = server.switches();
    switches.fail_next_logins(2, &SqlError::known(40_613));
    for _ in 0..2 {
        assert_eq!(number(connect(&server.ado_string()).await), (40_613, 17));
    }
    connect(&server.ado_string()).await.unwrap();
    switches.set_login_error(Some(SqlError::known(18_456)));
    assert_eq!(number(connect(&server.ado_string()).await), (18_456, 14));
    switches.set_login_error(None);
    switches.set_inactive(Refusal::ActingAsMirror);
    assert_eq!(number(connect(&server.ado_string()).await), (954, 14));
    switches.set_active();
    switches.set_login_delay(Duration::from_millis(60));
    let begun = Instant::now();
    let mut client = connect(&server.ado_string()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(60));
    switches.set_request_delay(Duration::from_millis(60));
    let begun = Instant::now();
    run(&mut client, "SELECT 1").await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(60));
}

const MIRRORING: &str = "SELECT mirroring_role, mirroring_state,mirroring_partner_instance \
                         FROM  sys.database_mirroring  WHERE database_id=DB_ID()";

#[tokio::test]
async fn a_pair_exchanges_its_roles() {
    let pair = MirroredPair::start().await.unwrap();
    assert_eq!(number(connect(&pair.b().ado_string()).await), (4060, 11));
    let mut client = connect(&pair.a().ado_string()).await.unwrap();
    assert_eq!(text(&mut client, "SELECT @@SERVERNAME").await.as_deref(), Some("SQL-A"));
    run(&mut client, "CREATE TABLE t (n INT) INSERT INTO t VALUES (1)").await.unwrap();
    let row = rows(&mut client, MIRRORING).await.remove(0);
    assert_eq!((row.get::<u8, _>(0), row.get::<u8, _>(1)), (Some(1), Some(4)));
    assert_eq!(row.get::<&str, _>(2), Some("SQL-B"));

    assert_eq!(pair.failover().await, Partner::B);
    assert!(run(&mut client, "SELECT 1").await.is_err());
    assert_eq!(number(connect(&pair.a().ado_string()).await), (4060, 11));
    pair.a().switches().set_mirror_refusal(Refusal::ActingAsMirror);
    assert_eq!(number(connect(&pair.a().ado_string()).await), (954, 14));
    let mut client = connect(&pair.b().ado_string()).await.unwrap();
    assert_eq!(int(&mut client, "SELECT n FROM t").await, Some(1));
    // `master` opens on a mirror too.
    let mut master = connect(&pair.a().ado().database("master").to_string()).await.unwrap();
    let both = "SELECT mirroring_role FROM sys.database_mirroring ORDER BY database_id";
    let found = rows(&mut master, both).await;
    let found: Vec<Option<u8>> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [None, Some(2)]);
    // Back and forth leaves nothing behind.
    for _ in 0..10 {
        pair.failover().await;
    }
    assert_eq!(pair.principal(), Partner::B);
    assert!(pair.ado_string().contains("Failover Partner=tcp:127.0.0.1,"));
}

#[tokio::test]
async fn a_failover_can_leave_both_partners_inactive() {
    let pair = MirroredPair::start().await.unwrap();
    let hour = Duration::from_secs(3600);
    pair.failover_with(Failover { inactive_for: hour, close: Some(Close::Rst) }).await;
    for server in [pair.a(), pair.b()] {
        assert_eq!(number(connect(&server.ado_string()).await), (4060, 11));
        server.switches().set_active();
    }
    connect(&pair.b().ado_string()).await.unwrap();
}

#[tokio::test]
async fn a_lost_principal_comes_back_as_the_mirror() {
    let pair = MirroredPair::start().await.unwrap();
    assert_eq!(pair.lose_principal(Close::Rst).await, Partner::B);
    assert_eq!(io_kind(connect(&pair.a().ado_string()).await), ErrorKind::ConnectionRefused);
    let mut client = connect(&pair.b().ado_string()).await.unwrap();
    let row = rows(&mut client, MIRRORING).await.remove(0);
    assert_eq!(row.get::<u8, _>(0), None);
    pair.rejoin().unwrap();
    assert_eq!(number(connect(&pair.a().ado_string()).await), (4060, 11));
    let row = rows(&mut client, MIRRORING).await.remove(0);
    assert_eq!(row.get::<&str, _>(2), Some("SQL-A"));
}

#[tokio::test]
async fn a_group_routes_reads_in_turn_and_serves_writes() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let probe = "SELECT DATABASEPROPERTYEX(DB_NAME(),'Updateability'), \
                 sys.fn_hadr_is_primary_replica(DB_NAME())";
    let (mut writer, hops) = follow(&group.ado_string()).await.unwrap();
    assert!(hops.is_empty());
    let row = rows(&mut writer, probe).await.remove(0);
    assert_eq!((row.get::<&str, _>(0), row.get::<bool, _>(1)), (Some("READ_WRITE"), Some(true)));
    run(&mut writer, "CREATE TABLE t (n INT) INSERT INTO t VALUES (4)").await.unwrap();

    let mut names = Vec::new();
    for _ in 0..3 {
        let (mut reader, hops) = follow(&group.read_only_ado_string()).await.unwrap();
        assert_eq!(hops.len(), 1);
        names.push(text(&mut reader, "SELECT @@SERVERNAME").await.unwrap());
        let row = rows(&mut reader, probe).await.remove(0);
        let seen = (row.get::<&str, _>(0), row.get::<bool, _>(1));
        assert_eq!(seen, (Some("READ_ONLY"), Some(false)));
        assert_eq!(int(&mut reader, "SELECT n FROM t").await, Some(4));
        assert_eq!(number(run(&mut reader, "INSERT INTO t VALUES (5)").await), (3906, 16));
        // 3906 leaves the connection healthy.
        assert_eq!(int(&mut reader, "SELECT 1").await, Some(1));
    }
    assert_eq!(names, ["SQL-1", "SQL-2", "SQL-1"]);
    assert_eq!(group.primary().counts().logins_routed, 3);
}

#[tokio::test]
async fn a_secondary_takes_only_the_logins_it_is_told_to() {
    let group = AvailabilityGroup::start(2).await.unwrap();
    let secondary = &group.replicas()[1];
    let (plain, intent) = (secondary.ado_string(), secondary.ado().read_only().to_string());
    assert_eq!(number(connect(&plain).await), (978, 14));
    connect(&intent).await.unwrap();
    secondary.switches().set_secondary_access(SecondaryAccess::No);
    assert_eq!(number(connect(&intent).await), (976, 14));
    secondary.switches().set_secondary_access(SecondaryAccess::All);
    connect(&plain).await.unwrap();
}

#[tokio::test]
async fn the_listener_follows_the_primary() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let (mut old, _) = follow(&group.ado_string()).await.unwrap();
    group.failover_to(2).await.unwrap();
    assert!(run(&mut old, "SELECT 1").await.is_err());
    let (mut new, _) = follow(&group.ado_string()).await.unwrap();
    assert_eq!(text(&mut new, "SELECT @@SERVERNAME").await.as_deref(), Some("SQL-2"));
    let (mut reader, _) = follow(&group.read_only_ado_string()).await.unwrap();
    assert_eq!(text(&mut reader, "SELECT @@SERVERNAME").await.as_deref(), Some("SQL-0"));
    assert!(group.failover_to(9).await.is_err());
    group.close_listener().await;
    assert_eq!(io_kind(connect(&group.ado_string()).await), ErrorKind::ConnectionRefused);
    group.open_listener().unwrap();
    follow(&group.ado_string()).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_outlives_its_role_is_read_only() {
    let group = AvailabilityGroup::start(2).await.unwrap();
    let (mut old, _) = follow(&group.ado_string()).await.unwrap();
    run(&mut old, "CREATE TABLE t (n INT)").await.unwrap();
    group.failover_to_with(1, Failover { close: None, ..Failover::default() }).await.unwrap();
    assert_eq!(number(run(&mut old, "INSERT INTO t VALUES (1)").await), (3906, 16));
}

#[tokio::test]
async fn a_chain_has_the_hops_it_was_asked_for() {
    let chain = RedirectChain::start(4).await.unwrap();
    let (mut client, hops) = follow(&chain.entry().ado_string()).await.unwrap();
    let ports: Vec<u16> = chain.servers()[1..].iter().map(MssqlServer::port).collect();
    assert_eq!(hops, ports);
    assert_eq!(text(&mut client, "SELECT @@SERVERNAME").await.as_deref(), Some("HOP-4"));
    assert_eq!(chain.end().counts().logins_accepted, 1);
    assert_eq!(chain.entry().counts().logins_routed, 1);
}

#[tokio::test]
async fn a_black_hole_swallows_connects() {
    let hole = BlackHole::open().await.unwrap();
    let attempt = async {
        let stream = TcpStream::connect(hole.address()).await?;
        let mut config = Config::new();
        config.encryption(tiberius::EncryptionLevel::NotSupported);
        Client::connect(config, stream.compat_write()).await.map(|_| ())
    };
    assert!(tokio::time::timeout(Duration::from_millis(300), attempt).await.is_err());
    #[cfg(target_os = "linux")]
    assert!(hole.drops_syn());
}

#[tokio::test]
async fn everything_goes_with_the_server() {
    let server = MssqlServer::launch().await.unwrap();
    let address = server.address();
    let mut client = connect(&server.ado_string()).await.unwrap();
    run(&mut client, "BEGIN TRAN CREATE TABLE t (n INT)").await.unwrap();
    drop(server);
    assert!(run(&mut client, "SELECT 1").await.is_err());
    limited(async { while TcpStream::connect(address).await.is_ok() {} }).await;
}

#[tokio::test]
async fn t_sql_control_flow_runs_on_the_server() {
    let server = MssqlServer::launch().await.unwrap();
    let mut client = connect(&server.ado_string()).await.unwrap();
    let sql = "IF OBJECT_ID('dbo.t', 'U') IS NULL CREATE TABLE t (n INT); \
               DECLARE @i INT = 0, @sum INT; \
               WHILE @i < 5 BEGIN SET @i = @i + 1; INSERT INTO t VALUES (@i) END \
               SELECT @sum = SUM(n) FROM t; \
               IF EXISTS (SELECT 1 FROM t WHERE n = 5) SELECT @sum AS total ELSE SELECT 0";
    let sets = limited(async { client.simple_query(sql).await?.into_results().await });
    assert_eq!(sets.await.unwrap().last().unwrap()[0].get::<i32, _>("total"), Some(15));
    let page = "SELECT n FROM t ORDER BY n OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY";
    let page = rows(&mut client, page).await;
    let page: Vec<Option<i32>> = page.iter().map(|row| row.get(0)).collect();
    assert_eq!(page, [Some(2), Some(3)]);
    run(&mut client, "PRINT 'hello'").await.unwrap();
}

/// A stream that keeps what it read and can set the reset bit of batches.
struct Tap<S> {
    inner: S,
    read: Arc<Mutex<Vec<u8>>>,
    reset: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.read.lock().unwrap().extend_from_slice(&buf.filled()[before..]);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut bytes = bytes.to_vec();
        if bytes[0] == 0x01 && self.reset.load(Ordering::SeqCst) {
            bytes[1] |= 0x08;
        }
        Pin::new(&mut self.inner).poll_write(cx, &bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn the_partner_is_announced_and_reset_bits_are_obeyed() {
    let pair = MirroredPair::start().await.unwrap();
    let name: Vec<u8> = "SQL-B".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let announcement = [&[0xE3, 13, 0, 13, 5][..], &name, &[0]].concat();
    for announced in [true, false] {
        pair.a().switches().set_partner_announced(announced);
        let (read, reset) = (Arc::default(), Arc::default());
        let inner = TcpStream::connect(pair.a().address()).await.unwrap();
        let tap = Tap { inner, read: Arc::clone(&read), reset: Arc::clone(&reset) };
        let config = Config::from_ado_string(&pair.a().ado_string()).unwrap();
        let mut client = limited(Client::connect(config, tap.compat_write())).await.unwrap();
        let seen = read.lock().unwrap().windows(announcement.len()).any(|w| w == announcement);
        assert_eq!(seen, announced);

        limited(client.begin_transaction()).await.unwrap();
        reset.store(true, Ordering::SeqCst);
        read.lock().unwrap().clear();
        // The client learns of the rollback before its statement is answered.
        let result = limited(async { client.simple_query("SELECT 1").await?.into_results().await });
        result.await.unwrap();
        let acknowledged = read.lock().unwrap().windows(4).any(|w| w == [0xE3, 3, 0, 18]);
        assert!(acknowledged);
        let query = client.simple_query("SELECT @@TRANCOUNT");
        let row = limited(async { query.await?.into_row().await }).await.unwrap().unwrap();
        assert_eq!(row.get::<i32, _>(0), Some(0));
    }
    let counts = pair.a().counts();
    assert_eq!((counts.resets, counts.rollbacks), (4, 2));
}
