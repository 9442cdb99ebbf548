//! The SQL Server driver against the embedded server: logins, errors, redirects, routing.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use std::time::Duration;

use mssql_support::{options, request, soon};
use pool_core::access::Access;
use pool_core::driver::Driver;
use pool_core::host::{Host, Role};
use pool_core::verdict::Verdict;
use pool_mssql::{Conn, Encrypt, Error, MsSql, MsSqlOptions, ReadIntent, Stage};
use pool_tests::mssql::{
    AvailabilityGroup, BlackHole, Encryption, Fault, Malformed, MirroredPair, MssqlServer,
    RedirectChain, Refusal, SqlError,
};

async fn connect(driver: &MsSql, host: &Host) -> Result<Conn, Error> {
    driver.connect(request(host, Access::Write)).await
}

/// The error of one login, and how the driver judges it.
async fn refused(options: &MsSqlOptions) -> (Error, Verdict) {
    let driver = options.driver().unwrap();
    let error = connect(&driver, &options.hosts()[0]).await.unwrap_err();
    let verdict = driver.verdict(&error);
    (error, verdict)
}

#[tokio::test]
async fn logs_in_and_runs_statements_of_every_kind() {
    let server = MssqlServer::launch().await.unwrap();
    let options = options(&server.ado_string());
    let driver = options.driver().unwrap();
    let mut conn = connect(&driver, &options.hosts()[0]).await.unwrap();
    conn.simple_query("CREATE TABLE t (id INT, n NVARCHAR(20))").await.unwrap();
    let done = conn.execute("INSERT INTO t VALUES (@P1, @P2)", &[&1, &"a"]).await.unwrap();
    assert_eq!(done.total(), 1);
    let row = conn.query("SELECT n FROM t WHERE id = @P1", &[&1]).await.unwrap();
    assert_eq!(row.into_row().await.unwrap().unwrap().get::<&str, _>(0), Some("a"));
    conn.begin_transaction().await.unwrap();
    assert_eq!(conn.in_transaction(), Some(true));
    conn.rollback_transaction().await.unwrap();
    assert_eq!(conn.in_transaction(), Some(false));
    let mut query = pool_mssql::tiberius::Query::new("SELECT @P1 + 1");
    query.bind(41);
    let row = conn.query_bound(query).await.unwrap().into_row().await.unwrap().unwrap();
    assert_eq!(row.get::<i32, _>(0), Some(42));
}

#[tokio::test]
async fn the_first_error_of_a_login_counts() {
    let pair = MirroredPair::start().await.unwrap();
    let mut options = options(&pair.ado_string());
    let driver = options.driver().unwrap();
    let mirror = &options.hosts()[1];
    for (refusal, number) in
        [(Refusal::CannotOpen, 4060), (Refusal::ActingAsMirror, 954), (Refusal::InTransition, 952)]
    {
        pair.b().switches().set_mirror_refusal(refusal);
        let error = connect(&driver, mirror).await.unwrap_err();
        assert_eq!(error.code(), Some(number), "{error}");
        assert_eq!(driver.verdict(&error), Verdict::Inactive, "{error}");
    }
    options = options.credentials("kit", "wrong");
    let (error, verdict) = refused(&options).await;
    assert_eq!((error.code(), verdict), (Some(18456), Verdict::Permanent));
}

#[tokio::test]
async fn a_wrong_database_without_a_partner_is_permanent() {
    let server = MssqlServer::launch().await.unwrap();
    let (error, verdict) = refused(&options(&server.ado().database("other").to_string())).await;
    assert_eq!((error.code(), verdict), (Some(4060), Verdict::Permanent));
}

#[tokio::test]
async fn throttling_is_told_apart_and_ends() {
    let server = MssqlServer::launch().await.unwrap();
    let options = options(&server.ado_string());
    for number in [40501, 40613, 49918, 10928] {
        server.switches().fail_next_logins(1, &SqlError::known(number));
        let (error, verdict) = refused(&options).await;
        assert_eq!((error.code(), verdict), (Some(number), Verdict::Overloaded));
    }
    let driver = options.driver().unwrap();
    connect(&driver, &options.hosts()[0]).await.unwrap();
}

#[tokio::test]
async fn the_users_judgement_replaces_the_table() {
    let server = MssqlServer::launch().await.unwrap();
    server.switches().fail_next_logins(1, &SqlError::new(50_001, 16));
    let options = options(&server.ado_string())
        .classify_with(|error, _| (error.code() == Some(50_001)).then_some(Verdict::Overloaded));
    assert_eq!(refused(&options).await.1, Verdict::Overloaded);
}

#[tokio::test]
async fn a_broken_server_is_a_host_that_is_down() {
    let server = MssqlServer::launch().await.unwrap();
    let options = options(&server.ado_string());
    let faults = [
        Fault::ResetOnAccept,
        Fault::CloseOnAccept,
        Fault::CloseAfterPrelogin,
        Fault::CloseAfterLogin,
        Fault::Malformed(Malformed::WrongPacketType),
        Fault::Malformed(Malformed::PacketTooShort),
        Fault::Malformed(Malformed::PacketTooLong),
        Fault::Malformed(Malformed::EmptyPrelogin),
        Fault::Malformed(Malformed::NoTerminator),
        Fault::Malformed(Malformed::EmptyLoginReply),
        Fault::Malformed(Malformed::WrongLoginReply),
        Fault::Malformed(Malformed::UnknownToken),
    ];
    for fault in faults {
        server.switches().set_fault(fault);
        let (error, verdict) = refused(&options).await;
        assert_eq!(verdict, Verdict::HostDown, "{fault:?}: {error}");
    }
    server.wait_for(soon(), |counts| counts.open_connections == 0).await.unwrap();
    server.refuse().await;
    let (error, verdict) = refused(&options).await;
    assert_eq!(verdict, Verdict::HostDown);
    assert!(matches!(error, Error::Dial { ref causes, .. } if causes.len() == 1), "{error}");
}

#[tokio::test]
async fn one_deadline_covers_dial_and_login() {
    let server = MssqlServer::launch().await.unwrap();
    let driver = options(&server.ado_string()).driver().unwrap();
    let host = options(&server.ado_string()).hosts().remove(0);
    let expired = |host| {
        let mut request = request(host, Access::Write);
        request.deadline = tokio::time::Instant::now() + Duration::from_millis(30);
        driver.connect(request)
    };
    for fault in [Fault::HangBeforePrelogin, Fault::HangAfterPrelogin, Fault::HangBeforeLoginReply]
    {
        server.switches().set_fault(fault);
        let error = expired(&host).await.unwrap_err();
        assert!(
            matches!(error, Error::TimedOut { during: Stage::Login, .. }),
            "{fault:?}: {error}"
        );
        assert_eq!(driver.verdict(&error), Verdict::HostDown);
    }
    let hole = BlackHole::open().await.unwrap();
    if hole.drops_syn() {
        let address = hole.address();
        let host = Host::new(&address.ip().to_string(), address.port());
        let error = expired(&host).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { during: Stage::Dial, .. }), "{error}");
    }
}

#[tokio::test]
async fn ten_redirects_are_followed_and_the_eleventh_is_not() {
    let ten = RedirectChain::start(10).await.unwrap();
    let options = options(&ten.entry().ado_string());
    let conn = connect(&options.driver().unwrap(), &options.hosts()[0]).await.unwrap();
    assert_eq!(conn.redirects(), 10);
    assert_eq!(conn.server().port(), Some(ten.end().port()));

    let eleven = RedirectChain::start(11).await.unwrap();
    let options = mssql_support::options(&eleven.entry().ado_string());
    let (error, verdict) = refused(&options).await;
    assert!(error.to_string().contains("too many redirects"), "{error}");
    assert_eq!(verdict, Verdict::Inactive);
    assert_eq!(eleven.end().counts().accepts, 0);
}

#[tokio::test]
async fn what_fails_behind_a_redirect_does_not_condemn_the_listener() {
    let chain = RedirectChain::start(1).await.unwrap();
    let options = options(&chain.entry().ado_string());
    chain.end().switches().fail_next_logins(1, &SqlError::known(40613));
    let (error, verdict) = refused(&options).await;
    assert_eq!((error.code(), verdict), (Some(40613), Verdict::Overloaded));
    chain.end().switches().set_fault(Fault::CloseAfterLogin);
    assert_eq!(refused(&options).await.1, Verdict::Inactive);
    chain.end().refuse().await;
    let (error, verdict) = refused(&options).await;
    assert_eq!(verdict, Verdict::Inactive, "{error}");
    assert!(error.to_string().contains(&chain.end().port().to_string()), "{error}");
    // The first connection is closed, not kept.
    chain.entry().wait_for(soon(), |counts| counts.open_connections == 0).await.unwrap();
}

#[tokio::test]
async fn reads_log_in_with_intent_and_are_routed_writes_are_not() {
    let group = AvailabilityGroup::start(3).await.unwrap();
    let options = options(&group.ado_string()).read_intent(ReadIntent::ForReads);
    let driver = options.driver().unwrap();
    let hosts = options.hosts();
    let write = driver.connect(request(&hosts[0], Access::Write)).await.unwrap();
    assert_eq!(write.redirects(), 0);
    let mut read = driver.connect(request(&hosts[1], Access::Read)).await.unwrap();
    assert_eq!(read.redirects(), 1);
    assert!(read.has_read_intent());
    assert_eq!(driver.probe(&mut read).await.unwrap().role, Role::Replica);
    // A read that falls back to the source is not sent on.
    let fallback = driver.connect(request(&hosts[0], Access::Read)).await.unwrap();
    assert_eq!((fallback.redirects(), fallback.has_read_intent()), (0, false));
}

#[tokio::test]
async fn encryption_is_checked_and_a_wrong_certificate_is_permanent() {
    let server = MssqlServer::builder().encryption(Encryption::Required).launch().await.unwrap();
    let base =
        options(&server.ado_string()).encrypt(Encrypt::Mandatory).trust_server_certificate(false);
    let (error, verdict) = refused(&base).await;
    assert_eq!(verdict, Verdict::Permanent, "{error}");
    let trusted = base.clone().trust_ca_bundle(MssqlServer::certificate_pem().unwrap());
    let driver = trusted.driver().unwrap();
    connect(&driver, &trusted.hosts()[0]).await.unwrap();
    assert_eq!(server.counts().logins_accepted, 1);
    let (error, verdict) = refused(&trusted.host_name_in_certificate("elsewhere.test")).await;
    assert_eq!(verdict, Verdict::Permanent, "{error}");
    // Neither refused login showed the password to the server.
    assert_eq!(server.counts().logins, 1);
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_when_it_is_mandatory() {
    let server =
        MssqlServer::builder().encryption(Encryption::NotSupported).launch().await.unwrap();
    let (error, verdict) =
        refused(&options(&server.ado_string()).encrypt(Encrypt::Mandatory)).await;
    assert_eq!(verdict, Verdict::Permanent, "{error}");
    assert_eq!(server.counts().logins, 0);
}
