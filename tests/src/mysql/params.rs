//! Parameters of prepared statements.

use mysql_common::constants::ColumnType;

use super::reader::Reader;
use crate::sql::Value;

const UNSIGNED: u8 = 0x80;

/// Reads the parameters of an execute message, after statement id, flags and iteration count.
///
/// `types` is what the last execution sent, and is replaced when this one sends new types. Values
/// sent beforehand in long-data messages are in `long`.
pub(super) fn read(
    message: &mut Reader<'_>,
    count: usize,
    types: &mut Vec<(u8, u8)>,
    long: &[Option<Vec<u8>>],
) -> Option<Vec<Value>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let nulls = message.bytes(count.div_ceil(8))?;
    if message.u8()? == 1 {
        types.clear();
        for _ in 0..count {
            types.push((message.u8()?, message.u8()?));
        }
    }
    if types.len() != count {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    for (at, &(r#type, flags)) in types.iter().enumerate() {
        let value = if let Some(Some(long)) = long.get(at) {
            text_or_blob(long)
        } else if nulls[at / 8] & (1 << (at % 8)) != 0 {
            Value::Null
        } else {
            read_value(message, r#type, flags & UNSIGNED != 0)?
        };
        values.push(value);
    }
    Some(values)
}

fn read_value(message: &mut Reader<'_>, r#type: u8, unsigned: bool) -> Option<Value> {
    use ColumnType::*;
    let value = match ColumnType::try_from(r#type).ok()? {
        MYSQL_TYPE_NULL => Value::Null,
        MYSQL_TYPE_TINY if unsigned => Value::Integer(message.u8()?.into()),
        MYSQL_TYPE_TINY => Value::Integer((message.u8()? as i8).into()),
        MYSQL_TYPE_SHORT | MYSQL_TYPE_YEAR if unsigned => Value::Integer(message.u16()?.into()),
        MYSQL_TYPE_SHORT | MYSQL_TYPE_YEAR => Value::Integer((message.u16()? as i16).into()),
        MYSQL_TYPE_LONG | MYSQL_TYPE_INT24 if unsigned => Value::Integer(message.u32()?.into()),
        MYSQL_TYPE_LONG | MYSQL_TYPE_INT24 => Value::Integer((message.u32()? as i32).into()),
        MYSQL_TYPE_LONGLONG => {
            let value = message.u64()?;
            match i64::try_from(value) {
                Err(_) if unsigned => Value::Text(value.to_string()),
                _ => Value::Integer(value as i64),
            }
        }
        MYSQL_TYPE_FLOAT => Value::Real(f32::from_bits(message.u32()?).into()),
        MYSQL_TYPE_DOUBLE => Value::Real(f64::from_bits(message.u64()?)),
        MYSQL_TYPE_DATE | MYSQL_TYPE_DATETIME | MYSQL_TYPE_TIMESTAMP => date_time(message)?,
        MYSQL_TYPE_TIME => time(message)?,
        _ => text_or_blob(message.counted()?),
    };
    Some(value)
}

/// Drivers send texts and blobs under one type.
fn text_or_blob(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}

fn date_time(message: &mut Reader<'_>) -> Option<Value> {
    let length = message.u8()?.into();
    let mut value = Reader::new(message.bytes(length)?);
    if value.is_empty() {
        return Some(Value::Text("0000-00-00 00:00:00".to_owned()));
    }
    let mut text = format!("{:04}-{:02}-{:02}", value.u16()?, value.u8()?, value.u8()?);
    if !value.is_empty() {
        text += &format!(" {:02}:{:02}:{:02}", value.u8()?, value.u8()?, value.u8()?);
    }
    if !value.is_empty() {
        text += &format!(".{:06}", value.u32()?);
    }
    Some(Value::Text(text))
}

fn time(message: &mut Reader<'_>) -> Option<Value> {
    let length = message.u8()?.into();
    let mut value = Reader::new(message.bytes(length)?);
    if value.is_empty() {
        return Some(Value::Text("00:00:00".to_owned()));
    }
    let sign = if value.u8()? == 1 { "-" } else { "" };
    let days = u64::from(value.u32()?);
    let hours = days * 24 + u64::from(value.u8()?);
    let mut text = format!("{sign}{hours:02}:{:02}:{:02}", value.u8()?, value.u8()?);
    if !value.is_empty() {
        text += &format!(".{:06}", value.u32()?);
    }
    Some(Value::Text(text))
}
