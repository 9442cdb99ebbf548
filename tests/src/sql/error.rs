//! What can go wrong with a statement, without any server's numbers.

use std::fmt;

use rusqlite::ErrorCode;

/// Why a statement failed. Each fake server turns it into its own code and text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlError {
    /// A CHECK constraint failed; its text.
    Check(String),
    /// A row with this key exists; the column as `table.column`.
    Duplicate(String),
    /// A foreign key has no partner.
    ForeignKey,
    /// The statement was interrupted from outside.
    Interrupted,
    /// The write lock was not free in time.
    LockTimeout,
    /// No such column; its name.
    NoSuchColumn(String),
    /// No such function; its name.
    NoSuchFunction(String),
    /// No such table; its name.
    NoSuchTable(String),
    /// NULL in a NOT NULL column; the column as `table.column`.
    NotNull(String),
    /// Anything else; SQLite's own text.
    Other(String),
    /// The text cannot be parsed; SQLite's own words.
    Syntax(String),
    /// A table of this name exists.
    TableExists(String),
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(what) => write!(f, "check constraint failed: {what}"),
            Self::Duplicate(column) => write!(f, "duplicate entry for {column}"),
            Self::ForeignKey => f.write_str("foreign key constraint failed"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::LockTimeout => f.write_str("lock wait timeout exceeded"),
            Self::NoSuchColumn(name) => write!(f, "no such column: {name}"),
            Self::NoSuchFunction(name) => write!(f, "no such function: {name}"),
            Self::NoSuchTable(name) => write!(f, "no such table: {name}"),
            Self::NotNull(column) => write!(f, "{column} cannot be null"),
            Self::Other(text) | Self::Syntax(text) => f.write_str(text),
            Self::TableExists(name) => write!(f, "table {name} already exists"),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, text) => {
                let text = text.unwrap_or_else(|| failure.to_string());
                match failure.code {
                    ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::LockTimeout,
                    ErrorCode::OperationInterrupted => Self::Interrupted,
                    _ => classify(&text),
                }
            }
            rusqlite::Error::SqlInputError { msg, .. } => classify(&msg),
            other => Self::Other(other.to_string()),
        }
    }
}

/// SQLite tells most causes apart only in its text, which has been stable for many years.
fn classify(text: &str) -> SqlError {
    let after = |prefix: &str| text.strip_prefix(prefix).map(|rest| rest.trim().to_owned());
    if let Some(name) = after("no such table: ") {
        return SqlError::NoSuchTable(name.trim_start_matches("main.").to_owned());
    }
    if let Some(name) = after("no such column: ") {
        return SqlError::NoSuchColumn(name);
    }
    if let Some(name) = after("no such function: ") {
        return SqlError::NoSuchFunction(name);
    }
    if let Some(column) = after("UNIQUE constraint failed: ") {
        return SqlError::Duplicate(column);
    }
    if let Some(column) = after("NOT NULL constraint failed: ") {
        return SqlError::NotNull(column);
    }
    if let Some(what) = after("CHECK constraint failed: ") {
        return SqlError::Check(what);
    }
    if text.starts_with("FOREIGN KEY constraint failed") {
        return SqlError::ForeignKey;
    }
    if let Some(rest) = after("table ") {
        if let Some(name) = rest.strip_suffix(" already exists") {
            return SqlError::TableExists(name.trim_matches(['`', '"']).to_owned());
        }
        if let Some((table, column)) = rest.split_once(" has no column named ") {
            return SqlError::NoSuchColumn(format!("{table}.{column}"));
        }
    }
    let syntax = text.contains("syntax error")
        || text.contains("incomplete input")
        || text.contains("unrecognized token");
    if syntax { SqlError::Syntax(text.to_owned()) } else { SqlError::Other(text.to_owned()) }
}
