//! SHOW.

use super::error::MySqlError;
use super::session::Session;
use super::text::{Piece, begins, join};
use super::variables::{self, Scope};
use super::wire::Table;
use crate::sql::lexer::Kind;
use crate::sql::{Delay, Value};

/// Runs `SHOW` with these words after it.
pub(super) async fn show(session: &mut Session, what: &[Piece]) -> Result<Table, MySqlError> {
    let mut rest = what;
    let mut scope = Scope::Session;
    while let Some(first) = rest.first() {
        if first.is_word("GLOBAL") {
            scope = Scope::Global;
        } else if !first.is_any(&["EXTENDED", "FULL", "LOCAL", "SESSION"]) {
            break;
        }
        rest = &rest[1..];
    }
    if begins(rest, &["REPLICA", "STATUS"]) || begins(rest, &["SLAVE", "STATUS"]) {
        return replica_status(session, rest[0].is_word("SLAVE"));
    }
    if begins(rest, &["REPLICAS"]) || begins(rest, &["SLAVE", "HOSTS"]) {
        return Ok(replicas(session));
    }
    if begins(rest, &["MASTER", "STATUS"]) || begins(rest, &["BINARY", "LOG", "STATUS"]) {
        let executed = variables::executed(session.context())?;
        let columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"];
        let row =
            vec![text("binlog.000001"), Value::Integer(157), text(""), text(""), text(&executed)];
        return Ok(Table::new(&columns, vec![row]));
    }
    let Some(first) = rest.first() else { return Err(MySqlError::syntax("")) };
    match first.text.to_ascii_uppercase().as_str() {
        "VARIABLES" => Ok(pairs("Variable_name", variables::all(session.context(), scope), rest)),
        "STATUS" => Ok(pairs("Variable_name", status(session), rest)),
        "WARNINGS" | "ERRORS" => Ok(Table::new(&["Level", "Code", "Message"], Vec::new())),
        "DATABASES" | "SCHEMAS" => {
            let names = session.context().cluster.databases.lock().clone();
            Ok(filtered(&["Database"], names.iter().map(|name| vec![text(name)]).collect(), rest))
        }
        "TABLES" => {
            let sql = "SELECT TABLE_NAME FROM information_schema_tables ORDER BY TABLE_NAME";
            let answer = session.query(sql, Vec::new()).await?;
            let column = format!("Tables_in_{}", session.context().database());
            Ok(filtered(&[&column], answer.rows, rest))
        }
        "PROCESSLIST" => {
            let sql = "SELECT ID AS Id, USER AS User, HOST AS Host, DB AS db, COMMAND AS Command, \
                       0 AS Time, '' AS State, INFO AS Info FROM information_schema_processlist";
            let answer = session.query(sql, Vec::new()).await?;
            Ok(Table { columns: answer.columns, rows: answer.rows })
        }
        "COLUMNS" | "FIELDS" => {
            let Some(table) = rest.get(2) else { return Err(MySqlError::syntax(&join(rest))) };
            let name = table.unquoted();
            let sql = "SELECT name AS Field, type AS Type, \
                       CASE WHEN \"notnull\" OR pk THEN 'NO' ELSE 'YES' END AS \"Null\", \
                       CASE WHEN pk THEN 'PRI' ELSE '' END AS \"Key\", dflt_value AS \"Default\", \
                       '' AS Extra FROM pragma_table_info(?)";
            let answer = session.query(sql, vec![text(&name)]).await?;
            if answer.rows.is_empty() {
                let database = session.context().database();
                let message = format!("Table '{database}.{name}' doesn't exist");
                return Err(MySqlError::new(1146, message));
            }
            Ok(Table { columns: answer.columns, rows: answer.rows })
        }
        _ => Err(MySqlError::syntax(&join(rest))),
    }
}

/// Empty on the source, as on a server that replicates from nobody.
fn replica_status(session: &Session, old_names: bool) -> Result<Table, MySqlError> {
    let context = session.context();
    let cluster = &context.cluster;
    let (source, replica) = if old_names { ("Master", "Slave") } else { ("Source", "Replica") };
    let columns = [
        format!("{replica}_IO_State"),
        format!("{source}_Host"),
        format!("{source}_Port"),
        format!("{replica}_IO_Running"),
        format!("{replica}_SQL_Running"),
        "Last_Error".to_owned(),
        format!("Seconds_Behind_{source}"),
        format!("{source}_UUID"),
        "SQL_Delay".to_owned(),
        "Executed_Gtid_Set".to_owned(),
        "Channel_Name".to_owned(),
    ];
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let from = &cluster.hosts[cluster.source()];
    if from.index == context.host {
        return Ok(Table::new(&columns, Vec::new()));
    }
    let delay = cluster.store.replication().delay(context.host);
    let (running, behind) = match delay {
        None => ("Yes", Value::Integer(0)),
        Some(Delay::By(delay)) => ("Yes", Value::Integer(delay.as_secs() as i64)),
        Some(Delay::Stopped) => ("No", Value::Null),
    };
    let row = vec![
        text("Waiting for source to send event"),
        text("127.0.0.1"),
        Value::Integer(from.port.addr().port().into()),
        text(running),
        text(running),
        text(""),
        behind,
        text(&from.uuid),
        Value::Integer(context.host().switches.borrow().source_delay.as_secs() as i64),
        text(&variables::executed(context)?),
        text(""),
    ];
    Ok(Table::new(&columns, vec![row]))
}

/// The hosts that are connected to this one to replicate from it: none, unless it is the source.
fn replicas(session: &Session) -> Table {
    let context = session.context();
    let cluster = &context.cluster;
    let connected = |index: usize| {
        index != context.host
            && !cluster.hosts[index].switches.borrow().stopped
            && !matches!(cluster.store.replication().delay(index), Some(Delay::Stopped))
    };
    let row = |index: usize| {
        let host = &cluster.hosts[index];
        vec![
            Value::Integer(index as i64 + 1),
            text("127.0.0.1"),
            Value::Integer(host.port.addr().port().into()),
            Value::Integer(context.host as i64 + 1),
            text(&host.uuid),
        ]
    };
    let columns = ["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"];
    let here = cluster.source() == context.host;
    let all = (0..cluster.hosts.len()).filter(|index| here && connected(*index));
    Table::new(&columns, all.map(row).collect())
}

fn status(session: &Session) -> Vec<(String, String)> {
    let host = session.context().host();
    let counts = host.counts.snapshot();
    let links = host.links.lock();
    let running = links.values().filter(|link| link.running.is_some()).count();
    [
        ("Connections", counts.accepts),
        ("Questions", counts.statements),
        ("Threads_connected", links.len() as u64),
        ("Threads_running", running as u64),
        ("Uptime", host.switches.borrow().started.elapsed().as_secs()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .collect()
}

fn pairs(name: &str, pairs: Vec<(String, String)>, condition: &[Piece]) -> Table {
    let rows = pairs.into_iter().map(|(name, value)| vec![text(&name), text(&value)]).collect();
    filtered(&[name, "Value"], rows, condition)
}

/// Keeps the rows whose first column fits `LIKE 'pattern'` or `WHERE name = / IN (…)`.
fn filtered(columns: &[&str], rows: Vec<Vec<Value>>, condition: &[Piece]) -> Table {
    let texts: Vec<String> = condition
        .iter()
        .filter(|piece| piece.kind == Kind::Text)
        .map(|piece| piece.unquoted().to_ascii_lowercase())
        .collect();
    let like = condition.iter().any(|piece| piece.is_word("LIKE"));
    let fits = |row: &Vec<Value>| {
        let Some(Value::Text(name)) = row.first() else { return true };
        let name = name.to_ascii_lowercase();
        texts.is_empty()
            || texts.iter().any(|text| if like { is_like(&name, text) } else { name == *text })
    };
    Table::new(columns, rows.into_iter().filter(fits).collect())
}

/// `%` is any text, `_` any character, `\` takes the next one as it is.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut pattern = pattern.chars();
    match pattern.next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = pattern.as_str();
            text.char_indices().any(|(at, _)| is_like(&text[at..], rest)) || is_like("", rest)
        }
        Some(wanted) => {
            let (wanted, any) = match wanted {
                '\\' => (pattern.next().unwrap_or('\\'), false),
                other => (other, other == '_'),
            };
            let mut rest = text.chars();
            rest.next().is_some_and(|c| any || c == wanted)
                && is_like(rest.as_str(), pattern.as_str())
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns() {
        assert!(is_like("read_only", "read%"));
        assert!(is_like("read_only", "%only"));
        assert!(is_like("read_only", "read\\_only"));
        assert!(!is_like("readxonly", "read\\_only"));
        assert!(is_like("readxonly", "read_only"));
        assert!(!is_like("read_only", "read"));
    }
}
