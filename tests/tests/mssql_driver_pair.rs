//! Mirrored pairs: the learned partner, the shared active side, and the pool over both.

#![allow(clippy::unwrap_used)]

mod mssql_support;

use std::time::{Duration, Instant};

use mssql_support::{options, request, soon};
use pool_core::access::Access;
use pool_core::driver::{Driver, Liveness};
use pool_core::error::ErrorKind;
use pool_core::verdict::Verdict;
use pool_mssql::{Address, Error, MsSqlOptions, PartnerSource, Side};
use pool_tests::mssql::{Close, MirroredPair, SqlError};

/// A login for writes on the given host of the options.
async fn login(options: &MsSqlOptions, host: usize) -> Result<pool_mssql::Conn, Error> {
    let driver = options.driver().unwrap();
    driver.connect(request(&options.hosts()[host], Access::Write)).await
}

#[tokio::test]
async fn the_partner_is_learned_through_the_initial_partner_only() {
    let pair = MirroredPair::start().await.unwrap();
    let at_b = format!("127.0.0.1,{}", pair.b().port());
    let options = options(&pair.ado_string())
        .partner_source(PartnerSource::Server)
        .map_partner_name("SQL-B", &at_b)
        .unwrap()
        .map_partner_name("SQL-A", "127.0.0.9,9")
        .unwrap();
    let driver = options.driver().unwrap();
    let partner = || driver.pair().unwrap().partner.unwrap();
    login(&options, 0).await.unwrap();
    assert_eq!(partner(), Address::parse(&at_b).unwrap());
    pair.failover().await;
    login(&options, 1).await.unwrap();
    assert_eq!(partner(), Address::parse(&at_b).unwrap(), "B names A, which is not learned");
}

#[tokio::test]
async fn the_configured_partner_costs_no_query_and_stays() {
    let pair = MirroredPair::start().await.unwrap();
    let options = options(&pair.ado_string());
    let driver = options.driver().unwrap();
    login(&options, 0).await.unwrap();
    assert_eq!(driver.pair().unwrap().partner.unwrap().port(), Some(pair.b().port()));
    assert_eq!(pair.a().counts().batches, 0);
}

#[tokio::test]
async fn an_unlisted_name_gets_no_password_without_a_certificate_check() {
    let pair = MirroredPair::start().await.unwrap();
    let text = pair.a().ado_string();
    let options = options(&text).partner_source(PartnerSource::ConfiguredThenServer);
    let driver = options.driver().unwrap();
    login(&options, 0).await.unwrap();
    assert_eq!(driver.pair().unwrap().partner, None);
    let error = login(&options, 1).await.unwrap_err();
    assert!(matches!(error, Error::NoPartner), "{error}");
    assert_eq!(driver.verdict(&error), Verdict::HostDown);
    login(&options.clone().allow_partner_name("sql-b"), 0).await.unwrap();
    assert_eq!(driver.pair().unwrap().partner, Some(Address::parse("SQL-B").unwrap()));
}

#[tokio::test]
async fn a_principal_without_a_mirror_clears_the_partner() {
    let pair = MirroredPair::start().await.unwrap();
    let options = options(&pair.ado_string()).partner_source(PartnerSource::Server);
    let driver = options.driver().unwrap();
    pair.a().switches().set_partner_name(None);
    login(&options, 0).await.unwrap();
    assert_eq!(driver.pair().unwrap().partner, None);
}

#[tokio::test]
async fn the_question_about_the_partner_never_fails_a_good_login() {
    let pair = MirroredPair::start().await.unwrap();
    let options = options(&pair.ado_string()).partner_source(PartnerSource::Server);
    let driver = options.driver().unwrap();
    pair.a().switches().fail_next_requests(1, &SqlError::new(229, 14));
    let mut conn = login(&options, 0).await.unwrap();
    assert_eq!(driver.peek(&mut conn), Liveness::Clean);
    // Refused so hard that the connection is gone: another one is opened.
    pair.a().switches().fail_next_requests(1, &SqlError::new(50_000, 20));
    let mut conn = login(&options, 0).await.unwrap();
    conn.simple_query("SELECT 1").await.unwrap().into_results().await.unwrap();
    // No answer at all: the same, within the deadline.
    pair.a().switches().set_request_delay(Duration::from_secs(60));
    let mut conn = login(&options, 0).await.unwrap();
    pair.a().switches().set_request_delay(Duration::ZERO);
    conn.simple_query("SELECT 1").await.unwrap().into_results().await.unwrap();
}

#[tokio::test]
async fn a_partner_that_is_not_mirrored_is_refused_when_asked_for() {
    let pair = MirroredPair::start().await.unwrap();
    pair.lose_principal(Close::Fin).await;
    let plain = options(&pair.ado_string());
    login(&plain, 1).await.unwrap();
    let strict = plain.partner_must_be_mirrored(true);
    let error = login(&strict, 1).await.unwrap_err();
    assert!(matches!(error, Error::NotMirrored { .. }), "{error}");
}

#[tokio::test]
async fn a_login_on_the_other_side_ends_idle_connections_of_every_pool() {
    let pair = MirroredPair::start().await.unwrap();
    let options = options(&pair.ado_string());
    let (one, two) = (options.driver().unwrap(), options.driver().unwrap());
    let host = &options.hosts()[0];
    let mut old = one.connect(request(host, Access::Write)).await.unwrap();
    assert_eq!(one.peek(&mut old), Liveness::Clean);
    let still_open = pool_tests::mssql::Failover { close: None, ..Default::default() };
    pair.failover_with(still_open).await;
    two.connect(request(&options.hosts()[1], Access::Write)).await.unwrap();
    assert_eq!(one.pair().unwrap().active, Side::Partner);
    assert_eq!(one.pair().unwrap().generation, 1);
    assert_eq!(one.peek(&mut old), Liveness::Dead);
}

#[tokio::test]
async fn a_pool_follows_the_principal_there_and_back() {
    let pair = MirroredPair::start().await.unwrap();
    let pool = options(&pair.ado_string()).pool_builder().unwrap().name("pair").build().unwrap();
    for turn in 0..4 {
        let principal = pair.principal();
        let name = pair.server(principal).name().to_owned();
        let mut lease = pool.get().await.unwrap();
        let row = lease.simple_query("SELECT @@SERVERNAME").await.unwrap();
        let row = row.into_row().await.unwrap().unwrap();
        assert_eq!(row.get::<&str, _>(0), Some(name.as_str()), "turn {turn}");
        drop(lease);
        pair.failover().await;
    }
}

#[tokio::test]
async fn wrong_credentials_stop_at_once_and_never_touch_the_partner() {
    let pair = MirroredPair::start().await.unwrap();
    let options = options(&pair.ado_string()).credentials("kit", "wrong");
    let pool = options.pool_builder().unwrap().probe_interval(None).build().unwrap();
    let error = pool.get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permanent, "{error}");
    assert_eq!((pair.a().counts().logins, pair.b().counts().accepts), (1, 0));
}

#[tokio::test]
async fn a_throttled_principal_is_asked_again_and_the_partner_is_not() {
    let pair = MirroredPair::start().await.unwrap();
    pair.a().switches().fail_next_logins(1, &SqlError::known(40613));
    let options = options(&pair.ado_string()).connect_retry_interval(Duration::from_secs(1));
    let pool = options.pool_builder().unwrap().probe_interval(None).build().unwrap();
    let started = Instant::now();
    let lease = pool.get().await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(lease.server().port(), Some(pair.a().port()));
    assert_eq!((pair.a().counts().logins, pair.b().counts().accepts), (2, 0));
}

#[tokio::test]
async fn without_pooling_every_use_has_a_connection_of_its_own() {
    let pair = MirroredPair::start().await.unwrap();
    let text = pair.a().ado().with("Pooling", "false").to_string();
    let pool = options(&text).pool_builder().unwrap().probe_interval(None).build().unwrap();
    for _ in 0..3 {
        let mut lease = pool.get().await.unwrap();
        lease.execute("SELECT 1", &[]).await.unwrap();
    }
    assert_eq!(pair.a().counts().logins_accepted, 3);
    pair.a().wait_for(soon(), |counts| counts.open_connections == 0).await.unwrap();
}
