//! System variables.

use super::context::Context;
use super::error::MySqlError;
use super::gtid;
use super::wire::text_of;
use crate::sql::Value;

/// Variables with a fixed value, which a session may change for itself.
const FIXED: [(&str, &str); 48] = [
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_0900_ai_ci"),
    ("collation_database", "utf8mb4_0900_ai_ci"),
    ("collation_server", "utf8mb4_0900_ai_ci"),
    ("connect_timeout", "10"),
    ("default_storage_engine", "InnoDB"),
    ("default_transaction_isolation", "REPEATABLE-READ"),
    ("error_count", "0"),
    ("foreign_key_checks", "1"),
    ("group_concat_max_len", "1024"),
    ("gtid_mode", "ON"),
    ("gtid_purged", ""),
    ("innodb_read_only", "0"),
    ("innodb_version", "8.4.0"),
    ("interactive_timeout", "28800"),
    ("license", "GPL"),
    ("lock_wait_timeout", "31536000"),
    ("log_bin", "1"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "67108864"),
    ("max_execution_time", "0"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("offline_mode", "0"),
    ("performance_schema", "1"),
    ("session_track_gtids", "OFF"),
    ("session_track_schema", "1"),
    ("session_track_state_change", "0"),
    ("session_track_transaction_info", "OFF"),
    ("sql_auto_is_null", "0"),
    ("sql_log_bin", "1"),
    ("sql_mode", "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE"),
    ("sql_safe_updates", "0"),
    ("sql_select_limit", "18446744073709551615"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("unique_checks", "1"),
    ("version_comment", "Embedded test server"),
    ("wait_timeout", "28800"),
    ("warning_count", "0"),
    ("version_compile_os", "Linux"),
];

/// Every variable whose value depends on something.
const COMPUTED: [&str; 22] = [
    "autocommit",
    "enforce_gtid_consistency",
    "gtid_executed",
    "hostname",
    "identity",
    "innodb_lock_wait_timeout",
    "last_insert_id",
    "max_connections",
    "port",
    "pseudo_thread_id",
    "read_only",
    "report_host",
    "report_port",
    "server_id",
    "server_uuid",
    "socket",
    "super_read_only",
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
    "version",
];

/// Whose value is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Global,
    /// Only the next transaction.
    Next,
    Session,
}

/// Cuts the scope off a name: `global.read_only`. Without one a session's value is meant.
pub(super) fn split_scope(name: &str) -> (Scope, String) {
    let lower = name.to_ascii_lowercase();
    let lower = lower.trim_start_matches("@@");
    for (prefix, scope) in [
        ("global.", Scope::Global),
        ("persist.", Scope::Global),
        ("session.", Scope::Session),
        ("local.", Scope::Session),
    ] {
        if let Some(rest) = lower.strip_prefix(prefix) {
            return (scope, rest.trim_matches('`').to_owned());
        }
    }
    (Scope::Session, lower.trim_matches('`').to_owned())
}

/// Reads a variable, by its name with or without scope.
pub(super) fn read(context: &Context, name: &str) -> Result<Value, MySqlError> {
    let (scope, name) = split_scope(name);
    if scope != Scope::Global
        && let Some(value) = context.vars.lock().session.get(&name)
    {
        return Ok(value.clone());
    }
    if let Some(value) = computed(context, scope, &name) {
        return value;
    }
    FIXED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| typed(value))
        .ok_or_else(|| MySqlError::unknown_variable(&name))
}

/// Whether a variable of this name exists.
pub(super) fn exists(name: &str) -> bool {
    FIXED.iter().any(|(known, _)| *known == name) || COMPUTED.contains(&name)
}

/// All variables, as SHOW VARIABLES prints them.
pub(super) fn all(context: &Context, scope: Scope) -> Vec<(String, String)> {
    let prefix = if scope == Scope::Global { "global." } else { "" };
    let mut names: Vec<&str> = FIXED
        .iter()
        .map(|(name, _)| *name)
        .chain(COMPUTED)
        .filter(|name| *name != "identity")
        .collect();
    names.sort_unstable();
    names
        .into_iter()
        .filter_map(|name| {
            let value = read(context, &format!("{prefix}{name}")).ok()?;
            Some((name.to_owned(), shown(name, &value)))
        })
        .collect()
}

/// The value of ON, OFF and other words in a SET.
pub(super) fn word_value(word: &str) -> Value {
    match word.to_ascii_uppercase().as_str() {
        "ON" | "TRUE" => Value::Integer(1),
        "OFF" | "FALSE" => Value::Integer(0),
        "NULL" => Value::Null,
        _ => Value::Text(word.to_owned()),
    }
}

/// Whether a value switches something on.
pub(super) fn is_on(value: &Value) -> bool {
    match value {
        Value::Integer(value) => *value != 0,
        Value::Real(value) => *value != 0.0,
        Value::Text(text) => {
            text.eq_ignore_ascii_case("on") || text.eq_ignore_ascii_case("true") || text == "1"
        }
        _ => false,
    }
}

fn computed(context: &Context, scope: Scope, name: &str) -> Option<Result<Value, MySqlError>> {
    let host = context.host();
    let flag = |on: bool| Value::Integer(on.into());
    let text = |text: &str| Value::Text(text.to_owned());
    let switches = host.switches.borrow().clone();
    let vars = context.vars.lock();
    let global = scope == Scope::Global;
    let value = match name {
        "autocommit" => flag(global || vars.autocommit),
        "enforce_gtid_consistency" => text("ON"),
        "gtid_executed" => {
            drop(vars);
            return Some(executed(context).map(Value::Text));
        }
        "hostname" | "report_host" => Value::Text(format!("db{}", host.index + 1)),
        "identity" | "last_insert_id" => Value::Integer(vars.last_insert_id as i64),
        "innodb_lock_wait_timeout" => Value::Integer(context.cluster.lock_wait.as_secs() as i64),
        "max_connections" => Value::Integer(switches.max_connections.map_or(151, |max| max as i64)),
        "port" | "report_port" => Value::Integer(host.port.addr().port().into()),
        "pseudo_thread_id" => Value::Integer(context.id.into()),
        "read_only" => flag(switches.says_read_only()),
        "server_id" => Value::Integer(host.index as i64 + 1),
        "server_uuid" => text(&host.uuid),
        "socket" => Value::Null,
        // MariaDB has no such thing.
        "super_read_only" if context.cluster.version.contains("MariaDB") => {
            return Some(Err(MySqlError::unknown_variable(name)));
        }
        "super_read_only" => flag(switches.says_super_read_only()),
        "transaction_isolation" | "tx_isolation" if global => text("REPEATABLE-READ"),
        "transaction_isolation" | "tx_isolation" => text(&vars.isolation),
        "transaction_read_only" | "tx_read_only" => flag(!global && vars.read_only),
        "version" => text(&context.cluster.version),
        _ => return None,
    };
    Some(Ok(value))
}

/// The GTIDs this host has executed.
pub(super) fn executed(context: &Context) -> Result<String, MySqlError> {
    let cluster = &context.cluster;
    let executed = cluster
        .store
        .replication()
        .executed(context.host)
        .map_err(|error| MySqlError::from_sql(error, ""))?;
    Ok(gtid::format(&executed, |at| cluster.hosts[at].uuid.clone()))
}

/// Numbers are numbers to a client.
fn typed(value: &str) -> Value {
    value.parse().map_or_else(|_| Value::Text(value.to_owned()), Value::Integer)
}

fn shown(name: &str, value: &Value) -> String {
    const FLAGS: [&str; 16] = [
        "autocommit",
        "foreign_key_checks",
        "innodb_read_only",
        "log_bin",
        "offline_mode",
        "performance_schema",
        "read_only",
        "session_track_schema",
        "session_track_state_change",
        "sql_auto_is_null",
        "sql_log_bin",
        "sql_safe_updates",
        "super_read_only",
        "transaction_read_only",
        "tx_read_only",
        "unique_checks",
    ];
    match value {
        Value::Null => String::new(),
        value if FLAGS.contains(&name) => if is_on(value) { "ON" } else { "OFF" }.to_owned(),
        value => text_of(value),
    }
}
