//! The messages a server sends: OK, error, end of rows, columns and rows.

use mysql_common::constants::{ColumnFlags, ColumnType, StatusFlags};

use super::error::MySqlError;
use super::packet::PacketStream;
use crate::sql::{Column, Value};

const UTF8MB4: u16 = 45;
const BINARY: u16 = 63;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The answer to a prepared statement.
    Binary,
    /// The answer to a plain query.
    Text,
}

/// What an OK message says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) affected: u64,
    pub(super) insert_id: u64,
    pub(super) info: String,
}

/// Column and rows of a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table of texts, as SHOW makes them.
    pub(super) fn new(names: &[&str], rows: Vec<Vec<Value>>) -> Self {
        Self { columns: names.iter().map(|name| column(name)).collect(), rows }
    }
}

/// A column that belongs to no table.
pub(super) fn column(name: &str) -> Column {
    Column { name: name.to_owned(), declared: None }
}

/// How the client of one connection wants its answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    /// Whether rows end with an OK message instead of EOF.
    pub(super) deprecate_eof: bool,
}

impl Writer {
    pub(super) fn ok(self, to: &mut PacketStream, done: &Done, status: StatusFlags) {
        to.write(&ok_message(0x00, done, status));
    }

    pub(super) fn error(self, to: &mut PacketStream, error: &MySqlError) {
        let mut message = vec![0xff];
        message.extend_from_slice(&error.code.to_le_bytes());
        message.push(b'#');
        message.extend_from_slice(error.state.as_bytes());
        message.extend_from_slice(error.message.as_bytes());
        to.write(&message);
    }

    pub(super) fn table(
        self,
        to: &mut PacketStream,
        table: &Table,
        format: Format,
        status: StatusFlags,
    ) {
        let mut count = Vec::new();
        put_length(&mut count, table.columns.len() as u64);
        to.write(&count);
        let types: Vec<Type> = (0..table.columns.len()).map(|at| Type::of(table, at)).collect();
        for (column, r#type) in table.columns.iter().zip(&types) {
            to.write(&column_message(&column.name, *r#type));
        }
        if !self.deprecate_eof {
            to.write(&eof_message(status));
        }
        for row in &table.rows {
            to.write(&match format {
                Format::Binary => binary_row(row, &types),
                Format::Text => text_row(row),
            });
        }
        if self.deprecate_eof {
            to.write(&ok_message(0xfe, &Done::default(), status));
        } else {
            to.write(&eof_message(status));
        }
    }

    /// The answer to a prepare.
    pub(super) fn prepared(
        self,
        to: &mut PacketStream,
        id: u32,
        columns: &[Column],
        params: u16,
        status: StatusFlags,
    ) {
        let mut message = vec![0x00];
        message.extend_from_slice(&id.to_le_bytes());
        message.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        message.extend_from_slice(&params.to_le_bytes());
        message.push(0);
        message.extend_from_slice(&0u16.to_le_bytes());
        to.write(&message);
        let text = Type { r#type: ColumnType::MYSQL_TYPE_VAR_STRING, unsigned: false };
        for _ in 0..params {
            to.write(&column_message("?", text));
        }
        if params > 0 && !self.deprecate_eof {
            to.write(&eof_message(status));
        }
        for column in columns {
            to.write(&column_message(&column.name, text));
        }
        if !columns.is_empty() && !self.deprecate_eof {
            to.write(&eof_message(status));
        }
    }
}

/// An error in place of the greeting: the client has not said yet that it knows states.
pub(super) fn early_error(to: &mut PacketStream, error: &MySqlError) {
    let mut message = vec![0xff];
    message.extend_from_slice(&error.code.to_le_bytes());
    message.extend_from_slice(error.message.as_bytes());
    to.write(&message);
}

fn ok_message(header: u8, done: &Done, status: StatusFlags) -> Vec<u8> {
    let mut message = vec![header];
    put_length(&mut message, done.affected);
    put_length(&mut message, done.insert_id);
    message.extend_from_slice(&status.bits().to_le_bytes());
    message.extend_from_slice(&0u16.to_le_bytes());
    message.extend_from_slice(done.info.as_bytes());
    message
}

fn eof_message(status: StatusFlags) -> Vec<u8> {
    let mut message = vec![0xfe, 0, 0];
    message.extend_from_slice(&status.bits().to_le_bytes());
    message
}

#[derive(Debug, Clone, Copy)]
struct Type {
    r#type: ColumnType,
    unsigned: bool,
}

impl Type {
    /// SQLite's columns have no fixed type: the declared one counts when all values fit it, else
    /// the values decide.
    fn of(table: &Table, at: usize) -> Self {
        use ColumnType::*;
        let declared = table.columns[at].declared.as_deref().unwrap_or_default().to_uppercase();
        let unsigned = declared.contains("UNSIGNED");
        let values = || table.rows.iter().map(|row| &row[at]);
        let all = |fits: fn(&Value) -> bool| {
            values().all(|value| matches!(value, Value::Null) || fits(value))
        };
        let any = values().any(|value| !matches!(value, Value::Null));
        let integers = all(|value| matches!(value, Value::Integer(_)));
        let r#type = match declared.split(['(', ' ']).next().unwrap_or_default() {
            "DATETIME" | "TIMESTAMP" | "DATE" if all(|value| date_time(value).is_some()) => {
                match declared.as_bytes() {
                    [b'T', ..] => MYSQL_TYPE_TIMESTAMP,
                    [b'D', b'A', b'T', b'E', b'T', ..] => MYSQL_TYPE_DATETIME,
                    _ => MYSQL_TYPE_DATE,
                }
            }
            "DECIMAL" | "NUMERIC" => MYSQL_TYPE_NEWDECIMAL,
            "DOUBLE" | "FLOAT" | "REAL"
                if all(|value| matches!(value, Value::Integer(_) | Value::Real(_))) =>
            {
                MYSQL_TYPE_DOUBLE
            }
            name if (name.contains("INT") || name.starts_with("BOOL")) && integers => {
                MYSQL_TYPE_LONGLONG
            }
            _ if any && integers => MYSQL_TYPE_LONGLONG,
            _ if any && all(|value| matches!(value, Value::Integer(_) | Value::Real(_))) => {
                MYSQL_TYPE_DOUBLE
            }
            _ if any && all(|value| matches!(value, Value::Blob(_))) => MYSQL_TYPE_BLOB,
            _ => MYSQL_TYPE_VAR_STRING,
        };
        Self { r#type, unsigned: unsigned && r#type == MYSQL_TYPE_LONGLONG }
    }
}

fn column_message(name: &str, r#type: Type) -> Vec<u8> {
    let (charset, mut flags) = match r#type.r#type {
        ColumnType::MYSQL_TYPE_VAR_STRING => (UTF8MB4, ColumnFlags::empty()),
        _ => (BINARY, ColumnFlags::BINARY_FLAG),
    };
    if r#type.unsigned {
        flags |= ColumnFlags::UNSIGNED_FLAG;
    }
    let mut message = Vec::new();
    // Catalog, schema, table, original table, name, original name.
    for text in ["def", "", "", "", name, ""] {
        put_counted(&mut message, text.as_bytes());
    }
    message.push(0x0c);
    message.extend_from_slice(&charset.to_le_bytes());
    message.extend_from_slice(&1024u32.to_le_bytes());
    message.push(r#type.r#type as u8);
    message.extend_from_slice(&flags.bits().to_le_bytes());
    message.push(0x1f);
    message.extend_from_slice(&[0, 0]);
    message
}

fn text_row(row: &[Value]) -> Vec<u8> {
    let mut message = Vec::new();
    for value in row {
        match value {
            Value::Null => message.push(0xfb),
            Value::Blob(bytes) => put_counted(&mut message, bytes),
            other => put_counted(&mut message, text_of(other).as_bytes()),
        }
    }
    message
}

fn binary_row(row: &[Value], types: &[Type]) -> Vec<u8> {
    let mut nulls = vec![0u8; (row.len() + 9) / 8];
    let mut values = Vec::new();
    for (at, (value, r#type)) in row.iter().zip(types).enumerate() {
        match (value, r#type.r#type) {
            (Value::Null, _) => nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8),
            (Value::Integer(value), ColumnType::MYSQL_TYPE_LONGLONG) => {
                values.extend_from_slice(&value.to_le_bytes());
            }
            (Value::Integer(value), ColumnType::MYSQL_TYPE_DOUBLE) => {
                values.extend_from_slice(&(*value as f64).to_le_bytes());
            }
            (Value::Real(value), ColumnType::MYSQL_TYPE_DOUBLE) => {
                values.extend_from_slice(&value.to_le_bytes());
            }
            (
                value,
                ColumnType::MYSQL_TYPE_DATETIME
                | ColumnType::MYSQL_TYPE_TIMESTAMP
                | ColumnType::MYSQL_TYPE_DATE,
            ) => put_date_time(&mut values, date_time(value).unwrap_or_default()),
            (Value::Blob(bytes), _) => put_counted(&mut values, bytes),
            (other, _) => put_counted(&mut values, text_of(other).as_bytes()),
        }
    }
    let mut message = vec![0x00];
    message.extend_from_slice(&nulls);
    message.extend_from_slice(&values);
    message
}

/// A value as MySQL prints it.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DateTime {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

/// `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`.
fn date_time(value: &Value) -> Option<DateTime> {
    let Value::Text(text) = value else { return None };
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
    let mut date = date.split('-');
    let mut time = time.split(':');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let (hour, minute, second) = (time.next()?, time.next()?, time.next()?);
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let micros = format!("{fraction:0<6}");
    Some(DateTime {
        year: year.parse().ok()?,
        month: month.parse().ok()?,
        day: day.parse().ok()?,
        hour: hour.parse().ok()?,
        minute: minute.parse().ok()?,
        second: second.parse().ok()?,
        micros: micros.get(..6)?.parse().ok()?,
    })
}

fn put_date_time(to: &mut Vec<u8>, value: DateTime) {
    to.push(11);
    to.extend_from_slice(&value.year.to_le_bytes());
    to.extend_from_slice(&[value.month, value.day, value.hour, value.minute, value.second]);
    to.extend_from_slice(&value.micros.to_le_bytes());
}

fn put_length(to: &mut Vec<u8>, length: u64) {
    match length {
        0..=0xfa => to.push(length as u8),
        0xfb..=0xffff => {
            to.push(0xfc);
            to.extend_from_slice(&(length as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            to.push(0xfd);
            to.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
        }
        _ => {
            to.push(0xfe);
            to.extend_from_slice(&length.to_le_bytes());
        }
    }
}

fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}
