//! One statement on SQLite, its failures as those of SQL Server.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::ffi::ErrorCode;
use rusqlite::types::{Value, ValueRef};

use super::sql_error::SqlError;
use super::value::{SqlType, SqlValue};

/// Variables and parameters by lower-case name, with the `@`.
pub(crate) type Variables = HashMap<String, (SqlType, SqlValue)>;

/// What a statement came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Names as SQLite has them. Empty for a statement without a result set.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<SqlValue>>,
    pub(crate) changes: u64,
}

#[derive(Debug)]
pub(crate) enum Failure {
    /// Somebody else holds the write lock: try again.
    Locked,
    Error(SqlError),
}

impl Failure {
    /// The error where waiting for the lock is no option.
    pub(crate) fn into_error(self) -> SqlError {
        match self {
            Self::Locked => SqlError::known(1222),
            Self::Error(error) => error,
        }
    }
}

/// What the session allows the statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    /// The session has a transaction, which has to be begun before the first write.
    pub(crate) in_transaction: bool,
    /// The database takes no writes.
    pub(crate) read_only: bool,
}

/// Runs one statement.
///
/// Reads run outside the SQLite transaction until the first write begins it. That gives each of
/// them the newest committed data, as READ COMMITTED does, and a writer never finds its snapshot
/// outdated.
pub(crate) fn run(
    connection: &Connection,
    sql: &str,
    variables: &Variables,
    permit: Permit,
    database: &str,
) -> Result<Outcome, Failure> {
    let fail = |error: rusqlite::Error| failure(&error);
    let mut statement = connection.prepare_cached(sql).map_err(fail)?;
    if !statement.readonly() {
        if permit.read_only {
            return Err(Failure::Error(SqlError::read_only_database(database)));
        }
        if permit.in_transaction && connection.is_autocommit() {
            connection.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
        }
    }
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or_default().to_lowercase();
        let Some((_, value)) = variables.get(&name) else {
            return Err(Failure::Error(
                SqlError::new(137, 15)
                    .message(format!("Must declare the scalar variable \"{name}\".")),
            ));
        };
        statement.raw_bind_parameter(index, to_sqlite(value)).map_err(fail)?;
    }
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    if columns.is_empty() {
        let changes = statement.raw_execute().map_err(fail)?;
        return Ok(Outcome { columns, rows: Vec::new(), changes: changes as u64 });
    }
    let mut rows = Vec::new();
    let mut cursor = statement.raw_query();
    while let Some(row) = cursor.next().map_err(fail)? {
        let values = (0..columns.len()).map(|index| row.get_ref(index).map(from_sqlite));
        rows.push(values.collect::<Result<Vec<_>, _>>().map_err(fail)?);
    }
    let changes = rows.len() as u64;
    Ok(Outcome { columns, rows, changes })
}

fn to_sqlite(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Int(n) => Value::Integer(*n),
        SqlValue::Float(f) => Value::Real(*f),
        SqlValue::Text(text) => Value::Text(text.clone()),
        SqlValue::Bytes(bytes) => Value::Blob(bytes.clone()),
    }
}

fn from_sqlite(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(n) => SqlValue::Int(n),
        ValueRef::Real(f) => SqlValue::Float(f),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
    }
}

/// Extended result codes of SQLite.
mod extended {
    pub(super) const PRIMARY_KEY: i32 = 1555;
    pub(super) const UNIQUE: i32 = 2067;
    pub(super) const ROW_ID: i32 = 2579;
    pub(super) const NOT_NULL: i32 = 1299;
}

pub(crate) fn failure(error: &rusqlite::Error) -> Failure {
    let text = error.to_string();
    let code = error.sqlite_error();
    let error = match code.map(|code| (code.code, code.extended_code)) {
        Some((ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _)) => return Failure::Locked,
        Some((ErrorCode::ConstraintViolation, code)) => constraint(code, &text),
        _ => statement_error(&text),
    };
    Failure::Error(error)
}

fn constraint(code: i32, text: &str) -> SqlError {
    match code {
        extended::PRIMARY_KEY | extended::UNIQUE | extended::ROW_ID => SqlError::new(2627, 14)
            .message(format!("Violation of PRIMARY KEY or UNIQUE KEY constraint. {text}")),
        extended::NOT_NULL => SqlError::new(515, 16)
            .message(format!("Cannot insert the value NULL into column. {text}")),
        _ => SqlError::new(547, 16)
            .message(format!("The statement conflicted with a constraint. {text}")),
    }
}

fn statement_error(text: &str) -> SqlError {
    let after = |mark: &str| {
        let rest = &text[text.find(mark)? + mark.len()..];
        rest.split_whitespace().next().map(|word| word.trim_matches('"').trim_end_matches(':'))
    };
    if let Some(name) = after("no such table: ") {
        let name = name.trim_start_matches("main.");
        return SqlError::new(208, 16).message(format!("Invalid object name '{name}'."));
    }
    if let Some(name) = after("no such column: ").or_else(|| after("has no column named ")) {
        return SqlError::new(207, 16).message(format!("Invalid column name '{name}'."));
    }
    if let Some(name) = after("no such function: ") {
        return SqlError::new(195, 15)
            .message(format!("'{name}' is not a recognized built-in function name."));
    }
    if text.contains("already exists") {
        return SqlError::new(2714, 16)
            .message(format!("There is already an object with this name in the database. {text}"));
    }
    if let Some(near) = after("near ") {
        return SqlError::syntax(near);
    }
    SqlError::new(8180, 16).message(format!("Statement(s) could not be prepared. {text}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn number(connection: &Connection, sql: &str) -> u32 {
        let permit = Permit { in_transaction: false, read_only: false };
        match run(connection, sql, &Variables::new(), permit, "app") {
            Err(Failure::Error(error)) => error.number(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_get_the_numbers_of_sql_server() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL); INSERT INTO t VALUES (1, 'x')")
            .unwrap();
        assert_eq!(number(&connection, "INSERT INTO t VALUES (1, 'y')"), 2627);
        assert_eq!(number(&connection, "INSERT INTO t VALUES (2, NULL)"), 515);
        assert_eq!(number(&connection, "SELECT * FROM missing"), 208);
        assert_eq!(number(&connection, "SELECT c FROM t"), 207);
        assert_eq!(number(&connection, "SELECT a FORM t x y"), 102);
        assert_eq!(number(&connection, "CREATE TABLE t (a)"), 2714);
        assert_eq!(number(&connection, "SELECT nope(1)"), 195);
        assert_eq!(number(&connection, "SELECT @unbound"), 137);
    }

    #[test]
    fn a_read_only_database_refuses_writes_with_3906() {
        let connection = Connection::open_in_memory().unwrap();
        let permit = Permit { in_transaction: false, read_only: true };
        let result = run(&connection, "CREATE TABLE t (a)", &Variables::new(), permit, "app");
        assert!(matches!(result, Err(Failure::Error(error)) if error.number() == 3906));
        assert!(run(&connection, "SELECT 1", &Variables::new(), permit, "app").is_ok());
    }
}
