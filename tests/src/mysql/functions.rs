//! MySQL's functions, as SQLite functions of one connection.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::functions::{Context as Call, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::clock;
use super::context::Context;
use super::gtid;
use super::switches::Accept;
use super::variables;
use super::wire::text_of;
use crate::sql::Value;

/// How often a function that waits for others looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The server's own tables, as views over functions.
const VIEWS: &str = "
    CREATE TEMP VIEW performance_schema_replication_group_members AS
        SELECT 'group_replication_applier' AS CHANNEL_NAME,
            json_extract(value, '$[0]') AS MEMBER_ID, json_extract(value, '$[1]') AS MEMBER_HOST,
            json_extract(value, '$[2]') AS MEMBER_PORT, json_extract(value, '$[3]') AS MEMBER_STATE,
            json_extract(value, '$[4]') AS MEMBER_ROLE, json_extract(value, '$[5]') AS MEMBER_VERSION,
            'XCom' AS MEMBER_COMMUNICATION_STACK
        FROM json_each(mysql_group_members());
    CREATE TEMP VIEW information_schema_processlist AS
        SELECT json_extract(value, '$[0]') AS ID, json_extract(value, '$[1]') AS USER,
            json_extract(value, '$[2]') AS HOST, json_extract(value, '$[3]') AS DB,
            json_extract(value, '$[4]') AS COMMAND, json_extract(value, '$[5]') AS INFO
        FROM json_each(mysql_processes());
    CREATE TEMP VIEW information_schema_tables AS
        SELECT 'def' AS TABLE_CATALOG, database() AS TABLE_SCHEMA, name AS TABLE_NAME,
            CASE type WHEN 'view' THEN 'VIEW' ELSE 'BASE TABLE' END AS TABLE_TYPE
        FROM main.sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\';
    CREATE TEMP VIEW performance_schema_global_variables AS
        SELECT json_extract(value, '$[0]') AS VARIABLE_NAME,
            json_extract(value, '$[1]') AS VARIABLE_VALUE
        FROM json_each(mysql_global_variables());
";

type Body = fn(&Context, &Call<'_>) -> Result<Value>;

/// Functions by name and number of arguments (-1: any).
const FUNCTIONS: &[(&str, i32, Body)] = &[
    ("mysql_variable", 1, |context, call| {
        variables::read(context, &text(call, 0)?).map_err(|error| error.raise())
    }),
    ("mysql_user_variable", 1, |context, call| {
        Ok(context.vars.lock().user_variables.get(&text(call, 0)?).cloned().unwrap_or(Value::Null))
    }),
    ("mysql_assign", 2, |context, call| {
        let value = value(call, 1);
        context.vars.lock().user_variables.insert(text(call, 0)?, value.clone());
        Ok(value)
    }),
    ("mysql_group_members", 0, |context, _| Ok(Value::Text(group_members(context)))),
    ("mysql_processes", 0, |context, _| Ok(Value::Text(processes(context)))),
    ("mysql_global_variables", 0, |context, _| {
        let rows: Vec<String> = variables::all(context, variables::Scope::Global)
            .iter()
            .map(|(name, value)| json_row(&[json(name), json(value)]))
            .collect();
        Ok(Value::Text(json_row(&rows)))
    }),
    ("mysql_rand", -1, |_, _| Ok(Value::Real(random() as f64 / u64::MAX as f64))),
    ("connection_id", 0, |context, _| Ok(Value::Integer(context.id.into()))),
    ("database", 0, |context, _| Ok(database(context))),
    ("schema", 0, |context, _| Ok(database(context))),
    ("user", 0, |context, _| Ok(user(context))),
    ("current_user", 0, |context, _| Ok(user(context))),
    ("session_user", 0, |context, _| Ok(user(context))),
    ("system_user", 0, |context, _| Ok(user(context))),
    ("version", 0, |context, _| Ok(Value::Text(context.cluster.version.clone()))),
    ("last_insert_id", 0, |context, _| Ok(last_insert_id(context))),
    ("last_insert_id", 1, |context, call| {
        context.vars.lock().last_insert_id = integer(call, 0).unwrap_or(0) as u64;
        Ok(last_insert_id(context))
    }),
    ("row_count", 0, |context, _| Ok(Value::Integer(context.vars.lock().row_count))),
    ("found_rows", 0, |context, _| Ok(Value::Integer(context.vars.lock().found_rows as i64))),
    ("sleep", 1, |context, call| {
        let time = seconds(call, 0).unwrap_or_default();
        Ok(Value::Integer(context.interrupt.sleep(time).into()))
    }),
    ("benchmark", 2, |_, _| Ok(Value::Integer(0))),
    ("get_lock", 2, get_lock),
    ("release_lock", 1, |context, call| {
        let mut locks = context.host().named_locks.lock();
        let name = text(call, 0)?.to_ascii_lowercase();
        let Some((owner, depth)) = locks.get_mut(&name) else { return Ok(Value::Null) };
        if *owner != context.id {
            return Ok(Value::Integer(0));
        }
        *depth -= 1;
        if *depth == 0 {
            locks.remove(&name);
        }
        Ok(Value::Integer(1))
    }),
    ("release_all_locks", 0, |context, _| {
        Ok(Value::Integer(context.host().release_named_locks(context.id) as i64))
    }),
    ("is_free_lock", 1, |context, call| {
        let name = text(call, 0)?.to_ascii_lowercase();
        Ok(Value::Integer((!context.host().named_locks.lock().contains_key(&name)).into()))
    }),
    ("is_used_lock", 1, |context, call| {
        let name = text(call, 0)?.to_ascii_lowercase();
        let owner = context.host().named_locks.lock().get(&name).map(|&(owner, _)| owner);
        Ok(owner.map_or(Value::Null, |owner| Value::Integer(owner.into())))
    }),
    ("wait_for_executed_gtid_set", 1, wait_for_gtids),
    ("wait_for_executed_gtid_set", 2, wait_for_gtids),
    ("gtid_subset", 2, |_, call| {
        let parse = |at| gtid::parse(&text(call, at)?).map_err(|error| error.raise());
        Ok(Value::Integer(gtid::is_subset(&parse(0)?, &parse(1)?).into()))
    }),
    ("now", -1, |_, call| Ok(Value::Text(clock::now(precision(call))))),
    ("sysdate", -1, |_, call| Ok(Value::Text(clock::now(precision(call))))),
    ("utc_timestamp", -1, |_, call| Ok(Value::Text(clock::now(precision(call))))),
    ("curdate", 0, |_, _| Ok(Value::Text(clock::now(0)[..10].to_owned()))),
    ("curtime", -1, |_, call| Ok(Value::Text(clock::now(precision(call))[11..].to_owned()))),
    ("unix_timestamp", 0, |_, _| Ok(Value::Integer(clock::seconds() as i64))),
    ("unix_timestamp", 1, |_, call| {
        Ok(clock::parse(&text(call, 0)?).map_or(Value::Null, |micros| {
            if micros % 1_000_000 == 0 {
                Value::Integer((micros / 1_000_000) as i64)
            } else {
                Value::Real(micros as f64 / 1e6)
            }
        }))
    }),
    ("timestampdiff", 3, |_, call| {
        let from = clock::parse(&text(call, 1)?);
        let to = clock::parse(&text(call, 2)?);
        let unit = match text(call, 0)?.to_ascii_uppercase().as_str() {
            "MICROSECOND" => 1,
            "SECOND" => 1_000_000,
            "MINUTE" => 60_000_000,
            "HOUR" => 3_600_000_000,
            _ => 86_400_000_000,
        };
        Ok(match (from, to) {
            (Some(from), Some(to)) => Value::Integer(((to - from) / unit) as i64),
            _ => Value::Null,
        })
    }),
    ("uuid", 0, |_, _| {
        let (high, low) = (random(), random());
        Ok(Value::Text(format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )))
    }),
    ("char_length", 1, |_, call| Ok(Value::Integer(text(call, 0)?.chars().count() as i64))),
    ("character_length", 1, |_, call| Ok(Value::Integer(text(call, 0)?.chars().count() as i64))),
    ("left", 2, |_, call| {
        let length = integer(call, 1).unwrap_or(0).max(0) as usize;
        Ok(Value::Text(text(call, 0)?.chars().take(length).collect()))
    }),
    ("right", 2, |_, call| {
        let (text, length) = (text(call, 0)?, integer(call, 1).unwrap_or(0).max(0) as usize);
        let skip = text.chars().count().saturating_sub(length);
        Ok(Value::Text(text.chars().skip(skip).collect()))
    }),
    ("repeat", 2, |_, call| {
        let times = integer(call, 1).unwrap_or(0).clamp(0, 1 << 24) as usize;
        Ok(Value::Text(text(call, 0)?.repeat(times)))
    }),
];

/// Adds all functions and views to a connection.
pub(super) fn install(connection: &Connection, context: &Arc<Context>) -> Result<()> {
    for &(name, arguments, body) in FUNCTIONS {
        let context = Arc::clone(context);
        // Not deterministic: SQLite must not fold or move the calls.
        let flags = FunctionFlags::SQLITE_UTF8;
        connection
            .create_scalar_function(name, arguments, flags, move |call| body(&context, call))?;
    }
    connection.execute_batch(VIEWS)
}

fn get_lock(context: &Context, call: &Call<'_>) -> Result<Value> {
    let name = text(call, 0)?.to_ascii_lowercase();
    // Negative: for ever.
    let wait = seconds(call, 1);
    let start = Instant::now();
    loop {
        {
            let mut locks = context.host().named_locks.lock();
            let (owner, depth) = locks.entry(name.clone()).or_insert((context.id, 0));
            if *owner == context.id {
                *depth += 1;
                return Ok(Value::Integer(1));
            }
        }
        if wait.is_some_and(|wait| start.elapsed() >= wait) {
            return Ok(Value::Integer(0));
        }
        if context.interrupt.sleep(LOOK_AGAIN) {
            return Ok(Value::Null);
        }
    }
}

/// 0 when the set is executed here, 1 when the time is over.
fn wait_for_gtids(context: &Context, call: &Call<'_>) -> Result<Value> {
    let set = gtid::parse(&text(call, 0)?).map_err(|error| error.raise())?;
    let wait = if call.len() > 1 { seconds(call, 1).filter(|wait| !wait.is_zero()) } else { None };
    let names: Vec<String> = context.cluster.hosts.iter().map(|host| host.uuid.clone()).collect();
    let start = Instant::now();
    loop {
        let executed = context
            .cluster
            .store
            .replication()
            .executed(context.host)
            .map_err(|error| rusqlite::Error::UserFunctionError(error.into()))?;
        if gtid::contains(&executed, &names, &set) {
            return Ok(Value::Integer(0));
        }
        if wait.is_some_and(|wait| start.elapsed() >= wait) {
            return Ok(Value::Integer(1));
        }
        if context.interrupt.sleep(LOOK_AGAIN) {
            return Ok(Value::Null);
        }
    }
}

fn group_members(context: &Context) -> String {
    let cluster = &context.cluster;
    let truth = |index: usize| {
        let switches = cluster.hosts[index].switches.borrow();
        let reachable = !switches.stopped && !switches.frozen && switches.accept == Accept::Serve;
        (index, if reachable { switches.group_state } else { "UNREACHABLE" })
    };
    let view = context.host().switches.borrow().group_view.clone();
    let members = view.unwrap_or_else(|| (0..cluster.hosts.len()).map(truth).collect());
    let rows: Vec<String> = members
        .into_iter()
        .filter_map(|(index, state)| Some((cluster.hosts.get(index)?, state)))
        .map(|(host, state)| {
            let role = if host.index == cluster.source() { "PRIMARY" } else { "SECONDARY" };
            let (address, port) = match state {
                "OFFLINE" => (json(""), "null".to_owned()),
                _ => (json("127.0.0.1"), host.port.addr().port().to_string()),
            };
            let version = json(&cluster.version);
            json_row(&[json(&host.uuid), address, port, json(state), json(role), version])
        })
        .collect();
    json_row(&rows)
}

fn processes(context: &Context) -> String {
    let links = context.host().links.lock();
    let rows: Vec<String> = links
        .iter()
        .map(|(id, link)| {
            let command = if link.running.is_some() { "Query" } else { "Sleep" };
            let or_null = |text: &Option<String>| text.as_deref().map_or("null".to_owned(), json);
            json_row(&[
                id.to_string(),
                json(&context.cluster.user),
                json("localhost"),
                or_null(&link.database),
                json(command),
                or_null(&link.running),
            ])
        })
        .collect();
    json_row(&rows)
}

fn json_row(values: &[String]) -> String {
    format!("[{}]", values.join(","))
}

fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn database(context: &Context) -> Value {
    context.vars.lock().database.clone().map_or(Value::Null, Value::Text)
}

fn user(context: &Context) -> Value {
    Value::Text(format!("{}@localhost", context.vars.lock().user))
}

fn last_insert_id(context: &Context) -> Value {
    Value::Integer(context.vars.lock().last_insert_id as i64)
}

fn value(call: &Call<'_>, at: usize) -> Value {
    call.get_raw(at).into()
}

fn text(call: &Call<'_>, at: usize) -> Result<String> {
    Ok(match call.get_raw(at) {
        ValueRef::Null => String::new(),
        other => text_of(&other.into()),
    })
}

fn integer(call: &Call<'_>, at: usize) -> Option<i64> {
    match call.get_raw(at) {
        ValueRef::Integer(value) => Some(value),
        ValueRef::Real(value) => Some(value as i64),
        other => text_of(&other.into()).trim().parse().ok(),
    }
}

/// `None` when negative or not a number.
fn seconds(call: &Call<'_>, at: usize) -> Option<Duration> {
    let seconds = match call.get_raw(at) {
        ValueRef::Integer(value) => value as f64,
        ValueRef::Real(value) => value,
        other => text_of(&other.into()).trim().parse().ok()?,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn precision(call: &Call<'_>) -> usize {
    if call.is_empty() { 0 } else { integer(call, 0).unwrap_or(0).clamp(0, 6) as usize }
}

/// Good enough to tell two calls apart.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(now.as_nanos());
    hasher.finish()
}
