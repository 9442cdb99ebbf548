//! The system views the kit answers, each as a subquery over literals.

use super::context::{Context, MirroringRole};
use super::lexer::{Kind, Token};
use super::value::SqlType;

/// The subquery that stands for `sys.name`.
pub(crate) fn view(name: &str, context: &Context<'_>) -> Option<Vec<Token>> {
    let sql = match name.to_ascii_lowercase().as_str() {
        "database_mirroring" => database_mirroring(context),
        "databases" => databases(context),
        "dm_exec_sessions" | "dm_exec_requests" => sessions(context),
        "dm_hadr_availability_replica_states" => replica_states(context),
        "tables" | "objects" => "SELECT rowid AS object_id, name, 'U' AS type FROM sqlite_master \
             WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            .to_owned(),
        _ => return None,
    };
    Some(vec![Token::new(Kind::Symbol, format!("({sql})"))])
}

/// The type of a column of these views; text where it is not listed.
pub(crate) fn column_type(name: &str) -> SqlType {
    match name.to_ascii_lowercase().as_str() {
        "mirroring_role"
        | "mirroring_state"
        | "mirroring_safety_level"
        | "state"
        | "role"
        | "connected_state"
        | "synchronization_health" => SqlType::TinyInt,
        "database_id" | "object_id" | "mirroring_connection_timeout" | "open_transaction_count" => {
            SqlType::Int
        }
        "session_id" | "transaction_isolation_level" => SqlType::SmallInt,
        "is_read_only" | "is_local" => SqlType::Bit,
        _ => SqlType::NVarChar,
    }
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// One row per database, with the mirroring columns NULL where it is not mirrored.
fn database_mirroring(context: &Context<'_>) -> String {
    let row = |name: &str| {
        let id = context.database_id(name).unwrap_or_default();
        let mirrored = context.mirroring.as_ref().filter(|_| !name.eq_ignore_ascii_case("master"));
        let Some(mirroring) = mirrored else {
            return format!(
                "SELECT {id} AS database_id, NULL AS mirroring_guid, NULL AS mirroring_state, \
                 NULL AS mirroring_state_desc, NULL AS mirroring_role, NULL AS mirroring_role_desc, \
                 NULL AS mirroring_safety_level, NULL AS mirroring_partner_name, \
                 NULL AS mirroring_partner_instance, NULL AS mirroring_witness_name, \
                 NULL AS mirroring_connection_timeout"
            );
        };
        let (state, state_desc) =
            if mirroring.synchronized { (4, "SYNCHRONIZED") } else { (0, "SUSPENDED") };
        let role_desc = match mirroring.role {
            MirroringRole::Principal => "PRINCIPAL",
            MirroringRole::Mirror => "MIRROR",
        };
        format!(
            "SELECT {id} AS database_id, '8E1B6C3A-0000-4000-8000-000000000001' AS mirroring_guid, \
             {state} AS mirroring_state, '{state_desc}' AS mirroring_state_desc, \
             {role} AS mirroring_role, '{role_desc}' AS mirroring_role_desc, \
             2 AS mirroring_safety_level, {endpoint} AS mirroring_partner_name, \
             {partner} AS mirroring_partner_instance, '' AS mirroring_witness_name, \
             10 AS mirroring_connection_timeout",
            role = mirroring.role as i32,
            endpoint = text(&format!("TCP://{}:5022", mirroring.partner)),
            partner = text(&mirroring.partner),
        )
    };
    all_databases(context, row)
}

fn databases(context: &Context<'_>) -> String {
    all_databases(context, |name| {
        let read_only = context.read_only == Some(true) && !name.eq_ignore_ascii_case("master");
        format!(
            "SELECT {} AS database_id, {} AS name, 0 AS state, 'ONLINE' AS state_desc, \
             {} AS is_read_only",
            context.database_id(name).unwrap_or_default(),
            text(name),
            i32::from(read_only),
        )
    })
}

fn all_databases(context: &Context<'_>, row: impl Fn(&str) -> String) -> String {
    let names = std::iter::once("master").chain(context.databases.iter().map(String::as_str));
    names.map(row).collect::<Vec<_>>().join(" UNION ALL ")
}

fn sessions(context: &Context<'_>) -> String {
    format!(
        "SELECT {} AS session_id, {} AS login_name, {} AS host_name, {} AS program_name, \
         'running' AS status, {} AS transaction_isolation_level, {} AS open_transaction_count, \
         {} AS database_id",
        context.spid,
        text(context.user),
        text(context.host_name),
        text(context.app_name),
        context.isolation as i32,
        context.transactions,
        context.database_id(context.database).unwrap_or_default(),
    )
}

fn replica_states(context: &Context<'_>) -> String {
    let (role, desc) = match context.primary {
        Some(true) => (1, "PRIMARY"),
        Some(false) => (2, "SECONDARY"),
        None => (0, "RESOLVING"),
    };
    format!(
        "SELECT 1 AS is_local, {role} AS role, '{desc}' AS role_desc, 1 AS connected_state, \
         2 AS synchronization_health WHERE {}",
        i32::from(context.primary.is_some())
    )
}
