//! MySQL's error numbers, states and texts.

use crate::sql::SqlError;

/// An error as it goes to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MySqlError {
    pub(super) code: u16,
    pub(super) state: &'static str,
    pub(super) message: String,
}

/// Marks the text of an error that a SQL function raised with a number of its own.
const RAISED: char = '\u{1}';

impl MySqlError {
    pub(super) fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, state: sql_state(code), message: message.into() }
    }

    pub(super) fn access_denied(user: &str, with_password: bool) -> Self {
        let using = if with_password { "YES" } else { "NO" };
        Self::new(
            1045,
            format!("Access denied for user '{user}'@'localhost' (using password: {using})"),
        )
    }

    pub(super) fn unknown_database(name: &str) -> Self {
        Self::new(1049, format!("Unknown database '{name}'"))
    }

    pub(super) fn too_many_connections() -> Self {
        Self::new(1040, "Too many connections")
    }

    pub(super) fn syntax(near: &str) -> Self {
        let near: String = near.chars().take(80).collect();
        Self::new(
            1064,
            format!(
                "You have an error in your SQL syntax; check the manual that corresponds to your \
                 MySQL server version for the right syntax to use near '{near}' at line 1"
            ),
        )
    }

    pub(super) fn server_read_only(option: &str) -> Self {
        Self::new(
            1290,
            format!(
                "The MySQL server is running with the {option} option so it cannot execute this \
                 statement"
            ),
        )
    }

    pub(super) fn read_only_transaction() -> Self {
        Self::new(1792, "Cannot execute statement in a READ ONLY transaction.")
    }

    pub(super) fn unknown_variable(name: &str) -> Self {
        Self::new(1193, format!("Unknown system variable '{name}'"))
    }

    pub(super) fn interrupted() -> Self {
        Self::new(1317, "Query execution was interrupted")
    }

    /// Turns what SQLite said into what MySQL would have said.
    pub(super) fn from_sql(error: SqlError, database: &str) -> Self {
        match error {
            SqlError::Check(what) => {
                Self::new(3819, format!("Check constraint '{what}' is violated."))
            }
            SqlError::Duplicate(column) => {
                Self::new(1062, format!("Duplicate entry for key '{column}'"))
            }
            SqlError::ForeignKey => {
                Self::new(1452, "Cannot add or update a child row: a foreign key constraint fails")
            }
            SqlError::Interrupted => Self::interrupted(),
            SqlError::LockTimeout => {
                Self::new(1205, "Lock wait timeout exceeded; try restarting transaction")
            }
            SqlError::NoSuchColumn(name) => {
                Self::new(1054, format!("Unknown column '{name}' in 'field list'"))
            }
            SqlError::NoSuchFunction(name) => {
                Self::new(1305, format!("FUNCTION {database}.{name} does not exist"))
            }
            SqlError::NoSuchTable(name) => {
                Self::new(1146, format!("Table '{database}.{name}' doesn't exist"))
            }
            SqlError::NotNull(column) => {
                let column = column.rsplit('.').next().unwrap_or(&column).to_owned();
                Self::new(1048, format!("Column '{column}' cannot be null"))
            }
            SqlError::Syntax(text) => Self::syntax(text.split('"').nth(1).unwrap_or(&text)),
            SqlError::TableExists(name) => {
                Self::new(1050, format!("Table '{name}' already exists"))
            }
            SqlError::Other(text) => match raised(&text) {
                Some(error) => error,
                None => Self::new(1105, text),
            },
        }
    }

    /// The text a SQL function fails with to make the statement fail with this error.
    pub(super) fn raise(self) -> rusqlite::Error {
        let text = format!("{RAISED}{} {}", self.code, self.message);
        rusqlite::Error::UserFunctionError(text.into())
    }
}

fn raised(text: &str) -> Option<MySqlError> {
    let (code, message) = text.strip_prefix(RAISED)?.split_once(' ')?;
    Some(MySqlError::new(code.parse().ok()?, message))
}

fn sql_state(code: u16) -> &'static str {
    match code {
        1040 | 1251 => "08004",
        1042 | 1043 | 1047 | 1053 | 1080 | 1081 | 1152..=1161 | 1184 | 1189 | 1190 | 1218 => {
            "08S01"
        }
        1045 | 1698 => "28000",
        1046 => "3D000",
        1048 | 1062 | 1452 | 1451 => "23000",
        1050 => "42S01",
        1054 => "42S22",
        1044 | 1049 | 1064 | 1065 | 1149 | 1235 | 1305 => "42000",
        1146 => "42S02",
        1213 => "40001",
        1317 => "70100",
        1568 => "25001",
        1792 => "25006",
        _ => "HY000",
    }
}
