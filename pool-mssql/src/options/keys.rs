//! The keys of ADO.NET and JDBC connection strings: what each means, which values it takes.
//!
//! Case, blanks and underscores in keys do not count. An empty value leaves the default. A later pair
//! replaces an earlier one, as in both originals.

use std::time::Duration;

use super::{Encrypt, MsSqlOptions, OptionsError, ReadIntent};
use crate::address::Address;

/// Whose string it is: some keys and units differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Ado,
    Jdbc,
}

/// Server parts that JDBC spreads over several properties.
#[derive(Debug, Default)]
pub(super) struct JdbcServer {
    pub(super) name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) instance: Option<String>,
}

/// Applies the pairs. JDBC server parts are collected, not yet joined.
pub(super) fn apply(
    options: &mut MsSqlOptions,
    pairs: &[(String, String)],
    dialect: Dialect,
) -> Result<JdbcServer, OptionsError> {
    let mut server = JdbcServer::default();
    for (written, value) in pairs {
        let key = normal(written);
        if dialect == Dialect::Jdbc && jdbc_only(options, &mut server, &key, written, value)? {
            continue;
        }
        if !common(options, dialect, &key, written, value)? && !fixed(&key, written, value)? {
            return Err(OptionsError::UnknownKey { key: written.clone() });
        }
    }
    Ok(server)
}

/// A key without case, blanks and underscores.
fn normal(key: &str) -> String {
    key.chars().filter(|c| !c.is_whitespace() && *c != '_').flat_map(char::to_lowercase).collect()
}

fn jdbc_only(
    options: &mut MsSqlOptions,
    server: &mut JdbcServer,
    key: &str,
    written: &str,
    value: &str,
) -> Result<bool, OptionsError> {
    match key {
        "server" | "servername" => server.name = given(value),
        "instancename" => server.instance = given(value),
        "port" | "portnumber" if value.is_empty() => server.port = None,
        "port" | "portnumber" => server.port = Some(number(written, value, 1, 65_535)? as u16),
        "logintimeout" if !value.is_empty() => {
            options.login_timeout = seconds(written, value, 65_535)?;
        }
        "querytimeout" if value == "-1" => options.command_timeout = None,
        "querytimeout" if !value.is_empty() => {
            options.command_timeout = seconds(written, value, MAX_SECONDS)?;
        }
        "logintimeout" | "querytimeout" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

const MAX_SECONDS: u64 = 2_147_483_647;

fn common(
    options: &mut MsSqlOptions,
    dialect: Dialect,
    key: &str,
    written: &str,
    value: &str,
) -> Result<bool, OptionsError> {
    let ado = dialect == Dialect::Ado;
    match key {
        "server" | "datasource" | "address" | "addr" | "networkaddress" if ado => {
            options.server = address(written, value, dialect)?;
        }
        "failoverpartner" => options.partner = address(written, value, dialect)?,
        "database" | "initialcatalog" | "databasename" => options.database = given(value),
        "userid" | "uid" | "user" | "username" => {
            options.user = given(value);
        }
        "password" | "pwd" => options.password = given(value),
        "applicationname" | "app" => options.application_name = given(value),
        "workstationid" | "wsid" => options.workstation_id = given(value),
        "hostnameincertificate" => options.host_name_in_certificate = given(value),
        "trustservercertificateca" => options.ca_files.extend(given(value).map(Into::into)),
        _ if value.is_empty() => return Ok(known_and_empty(key, ado)),
        "connecttimeout" | "connectiontimeout" | "timeout" if ado => {
            options.login_timeout = seconds(written, value, MAX_SECONDS)?;
        }
        "commandtimeout" if ado => {
            options.command_timeout = seconds(written, value, MAX_SECONDS)?;
        }
        "networklibrary" | "net" | "network" if ado => network_library(written, value)?,
        "connectretrycount" => {
            options.connect_retry_count = number(written, value, 0, 255)? as u8;
        }
        "connectretryinterval" => {
            options.connect_retry_interval = Duration::from_secs(number(written, value, 1, 60)?);
        }
        "multisubnetfailover" => options.multi_subnet_failover = flag(written, value)?,
        "applicationintent" => options.read_intent = intent(written, value)?,
        "encrypt" | "encryption" => options.encrypt = Some(encrypt(written, value)?),
        "trustservercertificate" => options.trust_server_certificate = flag(written, value)?,
        "integratedsecurity" | "trustedconnection" => {
            options.integrated = value.eq_ignore_ascii_case("sspi") || flag(written, value)?;
        }
        "packetsize" => options.packet_size = Some(number(written, value, 512, 32_767)? as u32),
        "maxpoolsize" if ado => {
            options.max_pool_size = Some(number(written, value, 1, 1_000_000)? as u32);
        }
        "minpoolsize" if ado => {
            options.min_pool_size = Some(number(written, value, 0, 1_000_000)? as u32);
        }
        "pooling" if ado => options.pooling = flag(written, value)?,
        "loadbalancetimeout" | "connectionlifetime" if ado => {
            options.connection_lifetime = seconds(written, value, MAX_SECONDS)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Keys whose empty value leaves the default.
fn known_and_empty(key: &str, ado: bool) -> bool {
    let both = [
        "connectretrycount",
        "connectretryinterval",
        "multisubnetfailover",
        "applicationintent",
        "encrypt",
        "encryption",
        "trustservercertificate",
        "integratedsecurity",
        "trustedconnection",
        "packetsize",
    ];
    let only_ado = [
        "connecttimeout",
        "connectiontimeout",
        "timeout",
        "commandtimeout",
        "networklibrary",
        "net",
        "network",
        "maxpoolsize",
        "minpoolsize",
        "pooling",
        "loadbalancetimeout",
        "connectionlifetime",
    ];
    both.contains(&key) || (ado && only_ado.contains(&key))
}

/// Keys that are accepted with the one value that changes nothing here.
fn fixed(key: &str, written: &str, value: &str) -> Result<bool, OptionsError> {
    let (accepted, reason): (&[&str], &str) = match key {
        "multipleactiveresultsets" => (&["false", "no"], "only `false`: the driver has no MARS"),
        "persistsecurityinfo" => (&["false", "no"], "only `false`: passwords are never shown"),
        "enlist" => (&["false", "no"], "only `false`: there are no ambient transactions"),
        "replication" | "userinstance" | "contextconnection" => {
            (&["false", "no"], "only `false` is supported")
        }
        "columnencryptionsetting" => (&["disabled"], "only `Disabled` is supported"),
        "authentication" => {
            (&["sqlpassword", "notspecified", "sql password"], "only `SqlPassword` is supported")
        }
        "sendstringparametersasunicode" => (&["true"], "only `true`: strings are sent as Unicode"),
        _ => return Ok(false),
    };
    if value.is_empty() || accepted.iter().any(|word| word.eq_ignore_ascii_case(value)) {
        return Ok(true);
    }
    Err(OptionsError::value(written, reason))
}

fn given(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn address(written: &str, value: &str, dialect: Dialect) -> Result<Option<Address>, OptionsError> {
    if value.is_empty() {
        return Ok(None);
    }
    let parsed = match dialect {
        Dialect::Ado => Address::parse(value),
        Dialect::Jdbc => Address::parse_jdbc(value),
    };
    parsed.map(Some).map_err(|error| OptionsError::Address { key: written.to_owned(), error })
}

fn number(written: &str, value: &str, least: u64, most: u64) -> Result<u64, OptionsError> {
    match value.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(OptionsError::value(written, format!("expected a number from {least} to {most}"))),
    }
}

/// Whole seconds; 0 means unlimited.
fn seconds(written: &str, value: &str, most: u64) -> Result<Option<Duration>, OptionsError> {
    let seconds = number(written, value, 0, most)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

fn flag(written: &str, value: &str) -> Result<bool, OptionsError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(OptionsError::value(written, "expected `true` or `false`")),
    }
}

fn network_library(written: &str, value: &str) -> Result<(), OptionsError> {
    if value.eq_ignore_ascii_case("dbmssocn") {
        return Ok(());
    }
    let shown: String = value.chars().take(20).collect();
    Err(OptionsError::value(written, format!("`{shown}`: only `dbmssocn` (TCP) is supported")))
}

fn intent(written: &str, value: &str) -> Result<ReadIntent, OptionsError> {
    match value.to_ascii_lowercase().as_str() {
        "readonly" => Ok(ReadIntent::Always),
        "readwrite" => Ok(ReadIntent::Never),
        _ => Err(OptionsError::value(written, "expected `ReadOnly` or `ReadWrite`")),
    }
}

fn encrypt(written: &str, value: &str) -> Result<Encrypt, OptionsError> {
    match value.to_ascii_lowercase().as_str() {
        "mandatory" | "true" | "yes" | "1" => Ok(Encrypt::Mandatory),
        "optional" | "false" | "no" | "0" => Ok(Encrypt::Optional),
        "strict" => Ok(Encrypt::Strict),
        "danger_plaintext" => Ok(Encrypt::Plaintext),
        _ => Err(OptionsError::value(
            written,
            "expected `Mandatory`, `Optional`, `Strict` or `DANGER_PLAINTEXT`",
        )),
    }
}
