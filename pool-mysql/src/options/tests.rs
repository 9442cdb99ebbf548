#![allow(clippy::unwrap_used)]

use super::*;

fn read(url: &str) -> MySqlOptions {
    MySqlOptions::from_url(url).unwrap()
}

fn refused(url: &str) -> ConfigError {
    MySqlOptions::from_url(url).unwrap_err()
}

/// Every key with a value other than its default, and what it sets.
fn samples() -> Vec<(&'static str, &'static str, MySqlOptions)> {
    let new = MySqlOptions::new;
    let s = Duration::from_secs;
    let ms = Duration::from_millis;
    let attributes = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    vec![
        ("failOverReadOnly", "false", new().fail_over_read_only(false)),
        ("secondsBeforeRetrySource", "7", new().seconds_before_retry_source(s(7))),
        ("secondsBeforeRetryMaster", "0", new().seconds_before_retry_source(s(0))),
        ("queriesBeforeRetrySource", "9", new().queries_before_retry_source(9)),
        ("queriesBeforeRetryMaster", "0", new().queries_before_retry_source(0)),
        ("retriesAllDown", "3", new().retries_all_down(3)),
        ("autoReconnect", "true", new().auto_reconnect(true)),
        ("autoReconnectForPools", "true", new().auto_reconnect_for_pools(true)),
        ("maxReconnects", "5", new().max_reconnects(5)),
        ("initialTimeout", "4", new().initial_timeout(s(4))),
        ("reconnectAtTxEnd", "true", new().reconnect_at_tx_end(true)),
        ("connectTimeout", "1500", new().connect_timeout(ms(1500))),
        ("socketTimeout", "2500", new().socket_timeout(ms(2500))),
        ("failoverDeadline", "9000", new().failover_deadline(s(9))),
        ("leaveDemotedSource", "false", new().leave_demoted_source(false)),
        ("readOnlyPropagatesToServer", "false", new().read_only_propagates_to_server(false)),
        ("allowSourceDownConnections", "true", new().allow_source_down_connections(true)),
        ("allowMasterDownConnections", "true", new().allow_source_down_connections(true)),
        ("allowReplicaDownConnections", "true", new().allow_replica_down_connections(true)),
        ("allowSlaveDownConnections", "true", new().allow_replica_down_connections(true)),
        ("readFromSourceWhenNoReplicas", "true", new().read_from_source_when_no_replicas(true)),
        ("readFromMasterWhenNoSlaves", "true", new().read_from_source_when_no_replicas(true)),
        ("routeStatements", "true", new().route_statements(true)),
        ("retryReads", "true", new().retry_reads(true)),
        ("dnsSrv", "false", new().dns_srv(false)),
        ("socket", "/run/mysqld.sock", new().socket("/run/mysqld.sock".to_owned())),
        ("tcpKeepAlive", "false", new().tcp_keep_alive(false)),
        ("tcpKeepAliveTime", "1000", new().tcp_keep_alive_time(s(1))),
        ("sslMode", "VERIFY_CA", new().ssl_mode(TlsMode::VerifyCa)),
        ("useCompression", "true", new().use_compression(true)),
        ("maxAllowedPacket", "2048", new().max_allowed_packet(2048)),
        ("prepStmtCacheSize", "0", new().prepared_statement_cache_size(0)),
        ("connectionAttributes", "a:1", new().connection_attributes(attributes)),
        ("sessionVariables", "a=1", new().session_variables("a=1".to_owned())),
        ("clientFoundRows", "true", new().client_found_rows(true)),
        ("allowCleartextPassword", "true", new().allow_cleartext_password(true)),
        ("killAbandoned", "false", new().kill_abandoned(false)),
        ("resetMode", "full", new().reset_mode(ResetMode::Full)),
        ("roleCheck", "static", new().role_check(RoleCheck::Static)),
        ("lagSource", "status", new().lag_source(LagSource::Status)),
        ("poolName", "shop", new().pool_name("shop".to_owned())),
        ("maxPoolSize", "4", new().max_pool_size(4)),
        ("minIdle", "2", new().min_idle(2)),
        ("acquireTimeout", "100", new().acquire_timeout(ms(100))),
        ("validationTimeout", "100", new().validation_timeout(ms(100))),
        ("idleTimeout", "100", new().idle_timeout(ms(100))),
        ("maxLifetime", "100", new().max_lifetime(ms(100))),
        ("keepaliveTime", "100", new().keepalive_time(ms(100))),
        ("aliveBypassWindow", "0", new().alive_bypass_window(ms(0))),
        ("maxConnecting", "3", new().max_connecting(3)),
        ("probeInterval", "0", new().probe_interval(ms(0))),
        ("probeFailures", "4", new().probe_failures(4)),
        ("endpointMode", "read-only", new().endpoint_mode(EndpointMode::ReadOnly)),
    ]
}

/// Keys that need company; tested by hand below.
const NOT_ALONE: [&str; 8] = [
    "nameServer",
    "srvRefreshInterval",
    "sslCa",
    "sslCert",
    "sslKey",
    "sslHostName",
    "compressionLevel",
    "maxLag",
];

#[test]
fn every_key_of_a_url_sets_its_option() {
    let samples = samples();
    for key in KEYS.iter().flat_map(|key| key.names) {
        let known = samples.iter().any(|(name, ..)| name == key) || NOT_ALONE.contains(key);
        assert!(known, "no sample for {key}");
    }
    for (key, value, expected) in samples {
        let options = read(&format!("mysql://h/?{key}={value}"));
        assert_eq!(options, expected.host(Host::new("h", 3306)), "{key}");
    }
}

#[test]
fn keys_that_need_another_one_are_refused_alone() {
    let rows = [
        ("nameServer", "127.0.0.1:53", "dnsSrv=true"),
        ("srvRefreshInterval", "1000", "dnsSrv=true"),
        ("sslCa", "/ca.pem", "sslMode=VERIFY_CA"),
        ("sslCert", "/c.pem", "sslMode=REQUIRED&sslKey=/k.pem"),
        ("sslKey", "/k.pem", "sslMode=REQUIRED&sslCert=/c.pem"),
        ("sslHostName", "db", "sslMode=VERIFY_IDENTITY"),
        ("compressionLevel", "9", "useCompression=true"),
        ("maxLag", "1000", "lagSource=status"),
    ];
    for (key, value, company) in rows {
        assert_eq!(refused(&format!("mysql://h/?{key}={value}")).option(), key);
        let url = format!("mysql://h/?{key}={value}&{company}");
        let usable = MySqlOptions::from_url(&url);
        // Without the feature the service itself is refused.
        assert!(usable.is_ok() || !cfg!(feature = "srv"), "{url}: {usable:?}");
    }
}

#[test]
fn a_bad_value_is_refused_under_the_name_of_its_key() {
    let rows = [
        ("failOverReadOnly", "maybe"),
        ("secondsBeforeRetrySource", "-1"),
        ("secondsBeforeRetryMaster", "1.5"),
        ("queriesBeforeRetrySource", "2147483648"),
        ("retriesAllDown", "many"),
        ("maxReconnects", "0"),
        ("initialTimeout", "0"),
        ("connectTimeout", "-5"),
        ("socketTimeout", "1s"),
        ("failoverDeadline", "0"),
        ("tcpKeepAliveTime", "0"),
        ("nameServer", "dns.example"),
        ("sslMode", "PREFERRED"),
        ("sslMode", "ON"),
        ("compressionLevel", "10"),
        ("maxAllowedPacket", "10"),
        ("connectionAttributes", "a"),
        ("sessionVariables", ""),
        ("resetMode", "none"),
        ("roleCheck", "guess"),
        ("lagSource", "heartbeat:"),
        ("maxPoolSize", "0"),
        ("minIdle", "-1"),
        ("acquireTimeout", "0"),
        ("poolName", ""),
    ];
    for (key, value) in rows {
        assert_eq!(refused(&format!("mysql://h/?{key}={value}")).option(), key, "{value}");
    }
}

#[test]
fn unknown_keys_are_refused_by_name() {
    assert_eq!(refused("mysql://h/?colour=red").to_string(), "option colour: is unknown");
    let error = refused("mysql://h/?failoverreadonly=true");
    assert!(error.reason().contains("`failOverReadOnly`"), "{error}");
    for key in ["ha.enableJMX", "loadBalanceStrategy", "selfDestructOnPingMaxOperations"] {
        let error = refused(&format!("mysql://h/?{key}=1"));
        assert_eq!(error.option(), key);
        assert!(error.reason().starts_with("is not offered here"), "{error}");
    }
}

#[test]
fn contradictions_are_refused_by_name() {
    let rows = [
        ("mysql://h/?maxPoolSize=1&maxPoolSize=1", "maxPoolSize"),
        (
            "mysql://h/?secondsBeforeRetrySource=1&secondsBeforeRetryMaster=1",
            "secondsBeforeRetryMaster",
        ),
        ("mysql://u@h/?user=v", "user"),
        ("mysql://u:a@h/?password=b", "password"),
        ("mysql://h/?minIdle=5&maxPoolSize=4", "minIdle"),
        ("mysql://a,b/?socket=/s", "socket"),
        ("mysql://h/?sslMode=REQUIRED&sslCa=/ca", "sslCa"),
        ("mysql://h/?sslMode=DISABLED&sslCa=/ca", "sslCa"),
        ("mysql://h/?sslMode=REQUIRED&sslCert=/c", "sslCert"),
        ("mysql://h/?sslMode=REQUIRED&sslKey=/k", "sslKey"),
        ("mysql://h/?tcpKeepAlive=false&tcpKeepAliveTime=1", "tcpKeepAliveTime"),
        ("mysql://h/?maxLag=1&lagSource=off", "maxLag"),
        ("mysql://", "hosts"),
        ("mysql://h,h:3306", "hosts"),
        ("mysql:replication://h", "hosts"),
        ("mysql:replication://h?dnsSrv=true", "dnsSrv"),
        ("mysql+srv://s?dnsSrv=false", "dnsSrv"),
        ("mysql+srv://s:3306", "hosts"),
        ("mysql+srv://s,t", "hosts"),
        ("mysql+srv://(host=s)", "hosts"),
        ("mysql+srv://s%20t", "hosts"),
        ("mysql+srv://", "hosts"),
    ];
    for (url, option) in rows {
        assert_eq!(refused(url).option(), option, "{url}");
    }
}

#[test]
fn no_error_and_no_output_holds_the_password() {
    let options = read("mysql://u:s3cret@h/db");
    assert!(!format!("{options:?} {options}").contains("s3cret"));
    assert_eq!(options.to_string(), "u@h:3306/db");
    assert!(!format!("{:?}", options.driver().unwrap()).contains("s3cret"));
    let urls = [
        "mysql://u:s3cret@h,h/db",
        "mysql://u:s3cret@h/db?nonsense=1",
        "mysql://u:s3cret@h:port/db",
        "mysql://u:s3cret@h/db?password=s3cret",
        "mysql://u:x/s3cret@h/db",
        "mysql://u:x?s3cret@h/db",
        "mysql://u:s3cret,h/db",
        "mysql://h/db?maxPoolSize=s3cret",
    ];
    for url in urls {
        assert!(!refused(url).to_string().contains("s3cret"), "{url}");
    }
}

#[test]
fn roles_come_from_the_url_form_or_the_hosts_themselves() {
    let roles = |url: &str| -> Vec<Role> { read(url).hosts().iter().map(Host::role).collect() };
    use Role::{Replica, Source, Unknown};
    assert_eq!(roles("mysql://a,b"), [Unknown, Unknown]);
    assert_eq!(roles("mysql:replication://a,b,c"), [Source, Replica, Replica]);
    let url = "mysql:replication://a,(host=b,type=source),c";
    assert_eq!(roles(url), [Replica, Source, Replica]);
    let url = "mysql://address=(host=a)(type=source),address=(host=b)(type=replica)";
    assert_eq!(roles(url), [Source, Replica]);
    assert!(read(url).is_replication());
    assert!(!read("mysql://a,b").is_replication());
}

#[test]
fn reads_fall_back_to_the_source_unless_replicas_are_configured() {
    assert!(read("mysql://a,b").reads_fall_back_to_source());
    assert!(!read("mysql:replication://a,b").reads_fall_back_to_source());
    let url = "mysql:replication://a,b?readFromMasterWhenNoSlaves=true";
    assert!(read(url).reads_fall_back_to_source());
    let url = "mysql:replication://a,b?allowMasterDownConnections=true";
    assert!(read(url).allows_source_down() && !read(url).allows_replica_down());
}

#[test]
fn failover_settings_reach_the_policy() {
    let url = "mysql://a,b?failOverReadOnly=false&secondsBeforeRetrySource=3&\
               queriesBeforeRetrySource=4&retriesAllDown=5&autoReconnect=true&\
               autoReconnectForPools=true&maxReconnects=6&initialTimeout=7&reconnectAtTxEnd=true&\
               connectTimeout=800&failoverDeadline=9000&leaveDemotedSource=false";
    let expected = Cycling::builder()
        .fail_over_read_only(false)
        .seconds_before_retry_source(Duration::from_secs(3))
        .queries_before_retry_source(4)
        .retries_all_down(5)
        .auto_reconnect(true)
        .auto_reconnect_for_pools(true)
        .max_reconnects(6)
        .initial_timeout(Duration::from_secs(7))
        .reconnect_at_tx_end(true)
        .connect_timeout(Duration::from_millis(800))
        .deadline(Duration::from_secs(9))
        .leave_demoted(false)
        .build();
    assert_eq!(read(url).failover().ok(), expected.ok());
    assert_eq!(read("mysql://a").failover().ok(), Some(Cycling::default()));
}

#[test]
fn a_connect_timeout_of_zero_leaves_the_deadline() {
    let limit = |url: &str| read(url).connect_limit();
    assert_eq!(limit("mysql://a"), None);
    assert_eq!(limit("mysql://a?connectTimeout=0"), Some(Duration::from_secs(30)));
    let url = "mysql://a?connectTimeout=0&failoverDeadline=4000";
    assert_eq!(limit(url), Some(Duration::from_secs(4)));
}

#[test]
fn session_variables_come_before_the_other_statements() {
    let options = read("mysql://h?sessionVariables=a=1,b=2").setup("SET c = 3");
    assert_eq!(options.setup_statements(), ["SET SESSION a=1,b=2", "SET c = 3"]);
}

#[cfg(any(feature = "rustls", feature = "native-tls"))]
#[test]
fn modes_of_tls_say_what_is_checked() {
    let rows = [
        ("DISABLED", None),
        ("REQUIRED", Some((true, true))),
        ("VERIFY_CA", Some((false, true))),
        ("VERIFY_IDENTITY", Some((false, false))),
    ];
    for (mode, expected) in rows {
        let options = read(&format!("mysql://h/?sslMode={mode}"));
        let ssl = crate::tls::ssl_opts(&options).unwrap();
        let checks = ssl.map(|ssl| (ssl.accept_invalid_certs(), ssl.skip_domain_validation()));
        assert_eq!(checks, expected, "{mode}");
    }
    let url = "mysql://h/?sslMode=VERIFY_IDENTITY&sslCa=/ca.pem&sslHostName=db.test";
    let ssl = crate::tls::ssl_opts(&read(url)).unwrap().unwrap();
    assert!(ssl.disable_built_in_roots() && ssl.root_certs().len() == 1);
    assert_eq!(ssl.tls_hostname_override(), Some("db.test"));
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
#[test]
fn encryption_that_is_not_compiled_in_is_refused() {
    let options = read("mysql://h/?sslMode=REQUIRED");
    assert_eq!(options.driver().unwrap_err().option(), "sslMode");
}

#[cfg(feature = "srv")]
#[test]
fn a_service_is_one_name() {
    for url in ["mysql+srv://_mysql._tcp.example./db", "mysql://_mysql._tcp.example/db?dnsSrv=true"]
    {
        let options = read(url);
        assert_eq!(options.service.as_deref(), Some("_mysql._tcp.example"));
        assert!(options.hosts().is_empty());
    }
    let both = MySqlOptions::new().service("s").host(Host::new("h", 3306));
    assert_eq!(both.validate().unwrap_err().option(), "hosts");
}

#[cfg(feature = "serde")]
#[test]
fn options_pass_through_serde_without_the_password() {
    for (key, value, expected) in samples() {
        let options = expected.host(Host::new("h", 3306)).user("u").password("s3cret");
        let text = serde_json::to_string(&options).unwrap();
        assert!(!text.contains("s3cret"));
        let back: MySqlOptions = serde_json::from_str(&text).unwrap();
        assert_eq!(back.password("s3cret"), options, "{key}={value}");
    }
    let text = r#"{"hosts":[{"host":"a"},{"host":"b","port":3307,"type":"replica","weight":5}],
        "password":"p","seconds_before_retry_source":1.5,"connect_timeout":250,"reset_mode":"full",
        "ssl_mode":"VERIFY_CA","lag_source":{"heartbeat":{"table":"ops.heartbeat"}}}"#;
    let options: MySqlOptions = serde_json::from_str(text).unwrap();
    assert_eq!(options.hosts()[1].role(), Role::Replica);
    assert_eq!(options.seconds_before_retry_source, Some(Duration::from_millis(1500)));
    assert_eq!(options.connect_timeout, Some(Duration::from_millis(250)));
    assert_eq!(options.password.as_ref().map(Secret::reveal), Some("p"));
    for text in [r#"{"colour":1}"#, r#"{"hosts":[{"host":"a b"}]}"#, r#"{"hosts":[{"port":1}]}"#] {
        assert!(serde_json::from_str::<MySqlOptions>(text).is_err(), "{text}");
    }
}
