//! URL keys, and which options go together.

use pool_core::config::ConfigError;
use pool_core::host::{Host, MAX_WEIGHT, Role};

use crate::hosts;
use crate::options::{KEYS, MySqlOptions};
use crate::role::LagSource;
use crate::secret::Secret;
use crate::tls::TlsMode;

/// One option: its URL keys, the current name first, and how its value is read.
pub(crate) struct Key {
    pub(crate) names: &'static [&'static str],
    pub(crate) read: fn(&mut MySqlOptions, &str) -> Result<(), String>,
}

/// Properties of Connector/J that have no counterpart here, and where to look instead.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("ha.enableJMX", "use the pool's status and metrics"),
    ("ha.loadBalanceStrategy", "choose a balance policy on the pool builder"),
    ("loadBalanceAutoCommitStatementRegex", "each checkout chooses a host anew"),
    ("loadBalanceAutoCommitStatementThreshold", "each checkout chooses a host anew"),
    ("loadBalanceBlacklistTimeout", "the pool blocks failed hosts by itself"),
    ("loadBalanceBlocklistTimeout", "the pool blocks failed hosts by itself"),
    ("loadBalanceConnectionGroup", "add and remove hosts on the pool"),
    ("loadBalanceExceptionChecker", "use `classify_with` of the driver"),
    ("loadBalanceHostRemovalGracePeriod", "leases on a removed host always finish"),
    ("loadBalancePingTimeout", "use `validationTimeout`"),
    ("loadBalanceSQLExceptionSubclassFailover", "use `classify_with` of the driver"),
    ("loadBalanceSQLStateFailover", "use `classify_with` of the driver"),
    ("loadBalanceStrategy", "choose a balance policy on the pool builder"),
    ("loadBalanceValidateConnectionOnSwapServer", "the pool checks idle connections"),
    ("replicationConnectionGroup", "add and remove hosts on the pool"),
    ("selfDestructOnPingMaxOperations", "use `maxLifetime`"),
    ("selfDestructOnPingSecondsLifetime", "use `maxLifetime`"),
    ("serverAffinityOrder", "the order of the hosts and their weights say it"),
    ("useLocalSessionState", "the server's own flags are used"),
];

/// Sets every property, refusing what is unknown or given twice.
pub(crate) fn apply(
    options: &mut MySqlOptions,
    properties: Vec<(String, String)>,
) -> Result<(), ConfigError> {
    let mut seen: Vec<(usize, String)> = Vec::new();
    for (name, value) in properties {
        match name.as_str() {
            "user" if options.user.is_none() => options.user = Some(value),
            "password" if options.password.is_none() => {
                options.password = Some(Secret::new(value));
            }
            "user" | "password" => return Err(ConfigError::new(name, "is given twice")),
            _ => {
                let (at, key) = find(&name)?;
                if let Some((_, other)) = seen.iter().find(|(seen, _)| *seen == at) {
                    let reason = match *other == name {
                        true => "is given twice".to_owned(),
                        false => format!("is the same option as `{other}`"),
                    };
                    return Err(ConfigError::new(name, reason));
                }
                (key.read)(options, &value)
                    .map_err(|reason| ConfigError::new(name.as_str(), reason))?;
                seen.push((at, name));
            }
        }
    }
    Ok(())
}

fn find(name: &str) -> Result<(usize, &'static Key), ConfigError> {
    let exact = |key: &&'static Key| key.names.contains(&name);
    if let Some(key) = KEYS.iter().enumerate().find(|(_, key)| exact(key)) {
        return Ok(key);
    }
    if let Some((_, instead)) = NOT_OFFERED.iter().find(|(known, _)| *known == name) {
        return Err(ConfigError::new(name, format!("is not offered here: {instead}")));
    }
    let mut names = KEYS.iter().flat_map(|key| key.names);
    let reason = match names.find(|known| known.eq_ignore_ascii_case(name)) {
        Some(known) => format!("is unknown; did you mean `{known}`?"),
        None => "is unknown".to_owned(),
    };
    Err(ConfigError::new(name, reason))
}

/// The name of a DNS service: one name, no port.
pub(crate) fn service_name(text: &str) -> Result<String, ConfigError> {
    let refuse = |reason: &str| Err(ConfigError::new("hosts", reason));
    if text.contains(',') {
        return refuse("a DNS service is one name, not a list");
    }
    if text.contains(['(', '=', '[']) {
        return refuse("a DNS service is a plain name");
    }
    if text.contains(':') {
        return refuse("a DNS service has no port: its records name the ports");
    }
    match hosts::parse_one(text) {
        Ok(host) => Ok(host.address().trim_end_matches('.').to_owned()),
        Err(_) => refuse("not the name of a DNS service"),
    }
}

/// `mysql:replication://`: the first host is the source, the others replicas, unless they say otherwise.
pub(crate) fn replication_roles(list: Vec<Host>) -> Result<Vec<Host>, ConfigError> {
    let given = list.iter().any(|host| host.role() != Role::Unknown);
    let roles = |(index, host): (usize, Host)| match (host.role(), index) {
        (Role::Unknown, 0) if !given => host.with_role(Role::Source),
        (Role::Unknown, _) => host.with_role(Role::Replica),
        _ => host,
    };
    let list: Vec<Host> = list.into_iter().enumerate().map(roles).collect();
    for role in [Role::Source, Role::Replica] {
        if !list.iter().any(|host| host.role() == role) {
            return Err(ConfigError::new("hosts", format!("replication needs a {role}")));
        }
    }
    Ok(list)
}

pub(crate) fn lag_source(text: &str) -> Result<LagSource, String> {
    let filled = |value: &str| !value.trim().is_empty();
    match text.split_once(':') {
        None if text.eq_ignore_ascii_case("off") => Ok(LagSource::Off),
        None if text.eq_ignore_ascii_case("status") => Ok(LagSource::Status),
        Some(("heartbeat", table)) if filled(table) => {
            Ok(LagSource::Heartbeat { table: table.to_owned() })
        }
        Some(("query", sql)) if filled(sql) => Ok(LagSource::Query { sql: sql.to_owned() }),
        _ => Err("must be off, status, heartbeat:table or query:statement".to_owned()),
    }
}

/// Which options go together, under the names of their URL keys.
pub(crate) fn validate(options: &MySqlOptions) -> Result<(), ConfigError> {
    let fail = |key: &str, reason: &str| Err(ConfigError::new(key, reason));
    match (&options.service, options.hosts.is_empty()) {
        (None, true) => return fail("hosts", "there are none"),
        (Some(_), false) => return fail("hosts", "listed although a DNS service lists them"),
        (Some(_), true) if !cfg!(feature = "srv") => {
            return fail("dnsSrv", "needs the feature `srv`");
        }
        (Some(_), true) if options.dns_srv == Some(false) => {
            return fail("dnsSrv", "false contradicts a service");
        }
        (Some(_), true) if options.socket.is_some() => {
            return fail("socket", "contradicts a DNS service");
        }
        (None, false) if options.name_server.is_some() => {
            return fail("nameServer", "only a DNS service needs one");
        }
        (None, false) if options.srv_refresh_interval.is_some() => {
            return fail("srvRefreshInterval", "only a DNS service is asked again");
        }
        _ => {}
    }
    hosts::check_unique(&options.hosts)?;
    if options.hosts.iter().any(|host| host.weight() > Some(MAX_WEIGHT)) {
        return fail("weight", &format!("must be at most {MAX_WEIGHT}"));
    }
    if options.socket.is_some() && options.hosts.len() > 1 {
        return fail("socket", "leads to one server, but several hosts are listed");
    }
    validate_tls(options)?;
    if options.compression_level.is_some() && options.use_compression != Some(true) {
        return fail("compressionLevel", "needs useCompression=true");
    }
    if options.tcp_keep_alive == Some(false) && options.tcp_keep_alive_time.is_some() {
        return fail("tcpKeepAliveTime", "contradicts tcpKeepAlive=false");
    }
    if options.max_lag.is_some() && matches!(options.lag_source, None | Some(LagSource::Off)) {
        return fail("maxLag", "needs lagSource");
    }
    if let (Some(low), Some(high)) = (options.min_idle, options.max_pool_size)
        && low > high
    {
        return fail("minIdle", "is more than maxPoolSize");
    }
    if options.connection_attributes.iter().flatten().any(|(name, _)| name.is_empty()) {
        return fail("connectionAttributes", "an attribute has no name");
    }
    options.failover().map(|_| ())
}

fn validate_tls(options: &MySqlOptions) -> Result<(), ConfigError> {
    let mode = options.ssl_mode.unwrap_or_default();
    let fail = |key: &str, reason: &str| Err(ConfigError::new(key, reason));
    let files = [
        ("sslCa", &options.ssl_ca),
        ("sslCert", &options.ssl_cert),
        ("sslKey", &options.ssl_key),
        ("sslHostName", &options.ssl_host_name),
    ];
    for (key, file) in files {
        if file.is_some() && mode == TlsMode::Disabled {
            return fail(key, "needs sslMode");
        }
    }
    if options.ssl_ca.is_some() && mode == TlsMode::Required {
        return fail("sslCa", "is not looked at with sslMode=REQUIRED: use VERIFY_CA");
    }
    match (&options.ssl_cert, &options.ssl_key) {
        (Some(_), None) => fail("sslCert", "needs sslKey"),
        (None, Some(_)) => fail("sslKey", "needs sslCert"),
        _ => Ok(()),
    }
}
