#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pool_core::host::Role;
use proptest::prelude::*;

use super::*;

/// A string that is complete but for what a test adds.
const BASE: &str =
    "Server=db1;Database=Sales;User ID=app;Password=secret;Encrypt=DANGER_PLAINTEXT;";

fn ado(rest: &str) -> MsSqlOptions {
    MsSqlOptions::from_ado(&format!("{BASE}{rest}")).unwrap()
}

fn refused(rest: &str) -> String {
    match MsSqlOptions::from_ado(&format!("{BASE}{rest}")) {
        Ok(options) => options.driver().map(|_| ()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_synonym_sets_the_same_option() {
    let same = |variants: &[&str], get: &dyn Fn(&MsSqlOptions) -> Option<String>, want: &str| {
        for text in variants {
            assert_eq!(get(&ado(text)).as_deref(), Some(want), "{text}");
        }
    };
    same(
        &[
            "Server=x",
            "Data Source=x",
            "DATASOURCE=x",
            "Address=x",
            "addr=x",
            "Network_Address=tcp:x",
        ],
        &|o| o.server.as_ref().map(Address::to_string),
        "x,1433",
    );
    same(
        &["Failover Partner=b,5", "FailoverPartner=b,5", "failover_partner=tcp:b,5"],
        &|o| o.partner.as_ref().map(Address::to_string),
        "b,5",
    );
    same(&["Database=d", "Initial Catalog=d", "databasename=d"], &|o| o.database.clone(), "d");
    same(&["User ID=u", "UID=u", "User=u", "UserName=u"], &|o| o.user.clone(), "u");
    same(&["Password=p", "PWD=p"], &|o| o.password.clone(), "p");
    same(&["Application Name=a", "App=a"], &|o| o.application_name.clone(), "a");
    same(&["Workstation ID=w", "WSID=w"], &|o| o.workstation_id.clone(), "w");
    same(
        &["Connect Timeout=7", "Connection Timeout=7", "Timeout=7"],
        &|o| o.login_timeout.map(|t| t.as_secs().to_string()),
        "7",
    );
    same(
        &["Load Balance Timeout=60", "Connection Lifetime=60"],
        &|o| o.connection_lifetime.map(|t| t.as_secs().to_string()),
        "60",
    );
}

#[test]
fn documented_defaults() {
    let options = ado("");
    assert_eq!(options.login_timeout, Some(Duration::from_secs(15)));
    assert_eq!(options.command_timeout, Some(Duration::from_secs(30)));
    assert_eq!(options.connect_retry_count, 1);
    assert_eq!(options.connect_retry_interval, Duration::from_secs(10));
    assert!(options.pooling && !options.multi_subnet_failover);
    assert!(!ado("Pooling=no").pooling);
    assert_eq!(options.connection_lifetime, Some(Duration::from_secs(1800)));
    assert_eq!((options.min_pool_size, options.max_pool_size), (None, None));
    assert_eq!(options.read_intent, ReadIntent::Never);
    assert_eq!(options.partner_source, PartnerSource::Configured);
    assert_eq!(options.reset_mode, ResetMode::Rollback);
    assert_eq!(MsSqlOptions::default().encrypt, None);
    assert_eq!(options.probe_kind(), RoleProbe::Updateability);
    assert_eq!(ado("Failover Partner=b").probe_kind(), RoleProbe::Mirroring);
    assert_eq!(ado("ApplicationIntent=ReadOnly").probe_kind(), RoleProbe::PrimaryReplica);
}

#[test]
fn values_are_taken_over() {
    let options =
        ado("Connect Timeout=0;Command Timeout=0;ConnectRetryCount=0;ConnectRetryInterval=60;\
         MultiSubnetFailover=Yes;ApplicationIntent=ReadOnly;Packet Size=8000;Min Pool Size=2;\
         Max Pool Size=9;Pooling=true;Network Library=DBMSSOCN;TrustServerCertificate=true;\
         HostNameInCertificate=h;Connection Lifetime=0");
    assert_eq!((options.login_timeout, options.command_timeout), (None, None));
    assert_eq!(options.connect_retry_count, 0);
    assert_eq!(options.connect_retry_interval, Duration::from_secs(60));
    assert!(options.multi_subnet_failover && options.pooling && options.trust_server_certificate);
    assert_eq!(options.read_intent, ReadIntent::Always);
    assert_eq!(options.packet_size, Some(8000));
    assert_eq!((options.min_pool_size, options.max_pool_size), (Some(2), Some(9)));
    assert_eq!(options.connection_lifetime, None);
    options.driver().unwrap();
}

#[test]
fn encrypt_words() {
    let table = [
        ("Mandatory", Encrypt::Mandatory),
        ("true", Encrypt::Mandatory),
        ("YES", Encrypt::Mandatory),
        ("Optional", Encrypt::Optional),
        ("false", Encrypt::Optional),
        ("no", Encrypt::Optional),
        ("Strict", Encrypt::Strict),
        ("DANGER_PLAINTEXT", Encrypt::Plaintext),
    ];
    for (word, how) in table {
        assert_eq!(ado(&format!("Encrypt={word}")).encryption(), how, "{word}");
    }
    assert!(refused("Encrypt=maybe").contains("`Encrypt`"));
}

#[test]
fn an_empty_value_leaves_the_default() {
    let options = ado("Connect Timeout=;Encrypt=;Pooling=;Failover Partner=;Application Name=");
    assert_eq!(options.login_timeout, Some(Duration::from_secs(15)));
    assert_eq!((options.partner, options.application_name), (None, None));
}

#[test]
fn every_conflict_is_refused_and_named() {
    let table = [
        ("Database=;Failover Partner=b", ["Database", "partner"]),
        (
            "Failover Partner=b;MultiSubnetFailover=true",
            ["Failover Partner", "MultiSubnetFailover"],
        ),
        (
            "Failover Partner=b;ApplicationIntent=ReadOnly",
            ["Failover Partner", "ApplicationIntent"],
        ),
        ("Failover Partner=DB1,1433", ["Failover Partner", "Server"]),
        ("Server=a\\i;MultiSubnetFailover=true", ["MultiSubnetFailover", "named instance"]),
        ("Server=", ["Server", "missing"]),
        ("Min Pool Size=3;Max Pool Size=2", ["Min Pool Size", "Max Pool Size"]),
        ("Min Pool Size=101", ["Min Pool Size", "Max Pool Size"]),
        (
            "TrustServerCertificate=true;TrustServerCertificateCA=c",
            ["TrustServerCertificate", "CA"],
        ),
        ("User ID=;Password=", ["User ID", "missing"]),
        ("Pooling=false;Min Pool Size=1", ["Pooling=false", "Min Pool Size"]),
    ];
    for (text, parts) in table {
        let error = refused(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    // With a port the instance name needs no look-up.
    ado("Server=a\\i,1433;MultiSubnetFailover=true").driver().unwrap();
}

#[test]
fn every_value_that_is_not_supported_is_refused_and_named() {
    let table = [
        ("Network Library=dbnmpntw", "dbnmpntw"),
        ("Net=dbmsrpcn", "Net"),
        ("Network=dbmslpcn", "Network"),
        ("Server=np:db1", "np:"),
        ("Failover Partner=lpc:db1", "lpc:"),
        ("Server=db1:1433", "comma"),
        ("Server=db1,70000", "70000"),
        ("Connect Timeout=-1", "Connect Timeout"),
        ("Connect Timeout=1.5", "Connect Timeout"),
        ("Connect Timeout=99999999999", "Connect Timeout"),
        ("ConnectRetryCount=256", "0 to 255"),
        ("ConnectRetryInterval=0", "1 to 60"),
        ("ConnectRetryInterval=61", "1 to 60"),
        ("Packet Size=511", "512"),
        ("Packet Size=32768", "32767"),
        ("Max Pool Size=0", "Max Pool Size"),
        ("Pooling=perhaps", "Pooling"),
        ("MultiSubnetFailover=2", "MultiSubnetFailover"),
        ("ApplicationIntent=Both", "ApplicationIntent"),
        ("MultipleActiveResultSets=true", "MARS"),
        ("Persist Security Info=true", "Persist Security Info"),
        ("Authentication=ActiveDirectoryPassword", "Authentication"),
    ];
    for (text, part) in table {
        let error = refused(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn an_unknown_key_is_refused_as_written() {
    for key in ["Fail over Partners", "Servr", "loginTimeout", "portNumber", "x"] {
        let text = format!("{BASE}{key}=1");
        let error = MsSqlOptions::from_ado(&text).unwrap_err();
        assert_eq!(error, OptionsError::UnknownKey { key: key.to_owned() });
    }
    let error = MsSqlOptions::from_jdbc("jdbc:sqlserver://db1;Max Pool Size=5").unwrap_err();
    assert_eq!(error, OptionsError::UnknownKey { key: "Max Pool Size".to_owned() });
}

#[test]
fn jdbc_urls() {
    let options: MsSqlOptions = "jdbc:sqlserver://a.example:5001;databaseName=Sales;user=app;\
        password={p;}}w};failoverPartner=b.example;loginTimeout=30;encrypt=false;queryTimeout=5;\
        applicationName=x;connectRetryCount=2"
        .parse()
        .unwrap();
    assert_eq!(options.server.as_ref().unwrap().to_string(), "a.example,5001");
    assert_eq!(options.partner.as_ref().unwrap().to_string(), "b.example,1433");
    assert_eq!(options.password.as_deref(), Some("p;}w"));
    assert_eq!(options.login_timeout, Some(Duration::from_secs(30)));
    assert_eq!(options.command_timeout, Some(Duration::from_secs(5)));
    assert_eq!(options.encryption(), Encrypt::Optional);
    assert_eq!(options.connect_retry_count, 2);
    options.driver().unwrap();
}

#[test]
fn a_jdbc_server_may_be_spread_over_properties() {
    let table = [
        ("jdbc:sqlserver://;serverName=a;portNumber=5", "a,5"),
        ("jdbc:sqlserver://;serverName=::1;portNumber=5", "[::1],5"),
        ("jdbc:sqlserver://a\\I;port=5", "a\\I,5"),
        ("jdbc:sqlserver://a;instanceName=I;portNumber=5", "a\\I,5"),
        ("jdbc:sqlserver://a:6", "a,6"),
    ];
    for (url, shown) in table {
        let options = MsSqlOptions::from_jdbc(url).unwrap();
        assert_eq!(options.server.unwrap().to_string(), shown, "{url}");
    }
    for url in ["jdbc:sqlserver://a;instanceName=I J", "jdbc:sqlserver://a;portNumber=0"] {
        MsSqlOptions::from_jdbc(url).unwrap_err();
    }
}

#[test]
fn passwords_are_shown_nowhere() {
    let options = ado("Failover Partner=b");
    assert!(!format!("{options:?}").contains("secret"));
    assert!(!format!("{:?}", options.driver().unwrap()).contains("secret"));
}

#[test]
fn hosts_of_each_kind_of_cluster() {
    let list = |options: &MsSqlOptions| -> Vec<(String, Role)> {
        options.hosts().iter().map(|host| (host.name().to_owned(), host.role())).collect()
    };
    let host = |name: &str, role| (name.to_owned(), role);
    assert_eq!(list(&ado("")), [host("db1:1433", Role::Source)]);
    assert_eq!(
        list(&ado("Failover Partner=db2,5")),
        [host("db1:1433", Role::Source), host("db2:5", Role::Replica),]
    );
    assert_eq!(
        list(&ado("").replica("db3").unwrap()),
        [host("db1:1433", Role::Source), host("db3:1433", Role::Replica),]
    );
    assert_eq!(
        list(&ado("").read_intent(ReadIntent::ForReads)),
        [host("db1:1433", Role::Source), host("db1:1433 (read intent)", Role::Replica),]
    );
    assert_eq!(
        list(&ado("").partner_source(PartnerSource::Server)),
        [host("db1:1433", Role::Source), host("learned partner", Role::Unknown),]
    );
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
mod without_tls {
    use super::*;

    #[test]
    fn encryption_is_refused_with_the_features_that_would_bring_it() {
        for word in ["Mandatory", "Strict"] {
            let error = refused(&format!("Encrypt={word}"));
            assert!(error.contains("`rustls` or `native-tls`"), "{error}");
        }
    }

    #[test]
    fn plaintext_is_the_default_and_worth_a_warning() {
        let options = MsSqlOptions::new("a").unwrap().credentials("u", "p");
        assert_eq!(options.encryption(), Encrypt::Plaintext);
        assert_eq!(options.warnings().len(), 1);
        options.driver().unwrap();
    }
}

#[cfg(any(feature = "rustls", feature = "native-tls"))]
#[test]
fn with_tls_encryption_is_the_default() {
    let options = MsSqlOptions::new("a").unwrap().credentials("u", "p");
    assert_eq!(options.encryption(), Encrypt::Mandatory);
    assert!(options.checks_certificate() && options.warnings().is_empty());
    assert!(!options.clone().trust_server_certificate(true).checks_certificate());
    assert!(!options.encrypt(Encrypt::Optional).checks_certificate());
}

#[cfg(not(feature = "sql-browser"))]
#[test]
fn a_named_instance_without_a_port_needs_its_feature() {
    assert!(refused("Server=db1\\SALES").contains("`sql-browser`"));
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,200}") {
        let _ = MsSqlOptions::from_ado(&text);
        let _ = MsSqlOptions::from_jdbc(&text);
        let _ = MsSqlOptions::from_jdbc(&format!("jdbc:sqlserver://{text}"));
        let _ = Address::parse(&text);
        let _ = Address::parse_jdbc(&text);
    }

    #[test]
    fn no_mix_of_keys_and_values_panics_up_to_the_driver(
        pairs in proptest::collection::vec(("[a-zA-Z _]{1,24}|Server|Failover Partner|Encrypt|Packet Size|Min Pool Size",
            "[a-zA-Z0-9,;'\"{}\\\\:.=-]{0,12}"), 0..8)
    ) {
        let text: String = pairs.iter().map(|(key, value)| format!("{key}={value};")).collect();
        if let Ok(options) = MsSqlOptions::from_ado(&text) {
            let _ = options.hosts();
            let _ = options.driver();
        }
    }

    #[test]
    fn a_quoted_password_survives(password in "[ -~]{1,40}") {
        let quoted = password.replace('\'', "''");
        let options = MsSqlOptions::from_ado(&format!("Server=a;Password='{quoted}'")).unwrap();
        prop_assert_eq!(options.password.as_deref(), Some(password.as_str()));
        let braced = password.replace('}', "}}");
        let options =
            MsSqlOptions::from_jdbc(&format!("jdbc:sqlserver://a;password={{{braced}}}")).unwrap();
        prop_assert_eq!(options.password.as_deref(), Some(password.as_str()));
    }
}
