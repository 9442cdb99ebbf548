//! Column types and values on the wire.

use super::datetime;
use super::value::{SqlType, SqlValue};

pub(super) const LATIN1_GENERAL_CI_AS: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];

/// Longest value of `nvarchar(4000)`, in bytes.
const NVARCHAR_LIMIT: usize = 8000;

/// Whether the value is beyond what a type with a limit holds.
pub(super) fn is_long(value: &SqlValue, ty: SqlType) -> bool {
    match (value, ty) {
        (SqlValue::Text(text), SqlType::NVarChar) => {
            text.len() > NVARCHAR_LIMIT / 2 && text.encode_utf16().count() * 2 > NVARCHAR_LIMIT
        }
        (SqlValue::Bytes(bytes), SqlType::VarBinary) => bytes.len() > NVARCHAR_LIMIT,
        _ => false,
    }
}

/// TYPE_INFO. `long` chooses the form without a limit.
pub(super) fn put_type(to: &mut Vec<u8>, ty: SqlType, long: bool) {
    let limit: [u8; 2] = if long { [0xFF, 0xFF] } else { (NVARCHAR_LIMIT as u16).to_le_bytes() };
    match ty {
        SqlType::Bit => to.extend_from_slice(&[0x68, 1]),
        SqlType::TinyInt => to.extend_from_slice(&[0x26, 1]),
        SqlType::SmallInt => to.extend_from_slice(&[0x26, 2]),
        SqlType::Int => to.extend_from_slice(&[0x26, 4]),
        SqlType::BigInt => to.extend_from_slice(&[0x26, 8]),
        SqlType::Real => to.extend_from_slice(&[0x6D, 4]),
        SqlType::Float => to.extend_from_slice(&[0x6D, 8]),
        SqlType::Numeric { scale } => to.extend_from_slice(&[0x6C, 17, 38, scale]),
        SqlType::DateTime2 => to.extend_from_slice(&[0x2A, 7]),
        SqlType::NVarChar => {
            to.push(0xE7);
            to.extend_from_slice(&limit);
            to.extend_from_slice(&LATIN1_GENERAL_CI_AS);
        }
        SqlType::VarBinary => {
            to.push(0xA5);
            to.extend_from_slice(&limit);
        }
        SqlType::Variant => {
            to.push(0x62);
            to.extend_from_slice(&8009u32.to_le_bytes());
        }
    }
}

/// A value in the form its TYPE_INFO promised.
pub(super) fn put_value(to: &mut Vec<u8>, value: &SqlValue, ty: SqlType, long: bool) {
    if matches!(value, SqlValue::Null) {
        match ty {
            SqlType::NVarChar | SqlType::VarBinary if long => to.extend_from_slice(&[0xFF; 8]),
            SqlType::NVarChar | SqlType::VarBinary => to.extend_from_slice(&[0xFF; 2]),
            SqlType::Variant => to.extend_from_slice(&[0; 4]),
            _ => to.push(0),
        }
        return;
    }
    match ty {
        SqlType::Bit => to.extend_from_slice(&[1, u8::from(int(value) != 0)]),
        SqlType::TinyInt => put_sized(to, &int(value).to_le_bytes()[..1]),
        SqlType::SmallInt => put_sized(to, &int(value).to_le_bytes()[..2]),
        SqlType::Int => put_sized(to, &int(value).to_le_bytes()[..4]),
        SqlType::BigInt => put_sized(to, &int(value).to_le_bytes()),
        SqlType::Real => put_sized(to, &(float(value) as f32).to_le_bytes()),
        SqlType::Float => put_sized(to, &float(value).to_le_bytes()),
        SqlType::Numeric { scale } => {
            let scaled = match value {
                SqlValue::Int(n) => i128::from(*n) * 10i128.pow(u32::from(scale)),
                _ => (float(value) * 10f64.powi(i32::from(scale))).round() as i128,
            };
            to.extend_from_slice(&[17, u8::from(scaled >= 0)]);
            to.extend_from_slice(&scaled.unsigned_abs().to_le_bytes());
        }
        SqlType::DateTime2 => {
            let (ticks, days) = datetime::parse(&text(value)).unwrap_or_default();
            to.push(8);
            to.extend_from_slice(&ticks.to_le_bytes()[..5]);
            to.extend_from_slice(&days.to_le_bytes()[..3]);
        }
        SqlType::NVarChar => put_long_or_short(to, &utf16(&text(value)), long),
        SqlType::VarBinary => put_long_or_short(to, &bytes(value), long),
        SqlType::Variant => put_variant(to, value),
    }
}

/// `sql_variant`: total length, base type, length and content of its properties, value.
fn put_variant(to: &mut Vec<u8>, value: &SqlValue) {
    let (base, properties, data): (u8, Vec<u8>, Vec<u8>) = match value {
        SqlValue::Int(n) => match i32::try_from(*n) {
            Ok(n) => (0x38, Vec::new(), n.to_le_bytes().to_vec()),
            Err(_) => (0x7F, Vec::new(), n.to_le_bytes().to_vec()),
        },
        SqlValue::Float(f) => (0x3E, Vec::new(), f.to_le_bytes().to_vec()),
        other => {
            let mut properties = LATIN1_GENERAL_CI_AS.to_vec();
            properties.extend_from_slice(&256u16.to_le_bytes());
            (0xE7, properties, utf16(&text(other)))
        }
    };
    to.extend_from_slice(&((2 + properties.len() + data.len()) as u32).to_le_bytes());
    to.extend_from_slice(&[base, properties.len() as u8]);
    to.extend_from_slice(&properties);
    to.extend_from_slice(&data);
}

fn put_sized(to: &mut Vec<u8>, bytes: &[u8]) {
    to.push(bytes.len() as u8);
    to.extend_from_slice(bytes);
}

fn put_long_or_short(to: &mut Vec<u8>, bytes: &[u8], long: bool) {
    if !long {
        to.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        to.extend_from_slice(bytes);
        return;
    }
    // Partially length-prefixed: total, chunks, a chunk of nothing.
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    if !bytes.is_empty() {
        to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        to.extend_from_slice(bytes);
    }
    to.extend_from_slice(&0u32.to_le_bytes());
}

fn int(value: &SqlValue) -> i64 {
    match value {
        SqlValue::Int(n) => *n,
        SqlValue::Float(f) => *f as i64,
        SqlValue::Text(text) => text.trim().parse().unwrap_or_default(),
        SqlValue::Null | SqlValue::Bytes(_) => 0,
    }
}

fn float(value: &SqlValue) -> f64 {
    match value {
        SqlValue::Int(n) => *n as f64,
        SqlValue::Float(f) => *f,
        SqlValue::Text(text) => text.trim().parse().unwrap_or_default(),
        SqlValue::Null | SqlValue::Bytes(_) => 0.0,
    }
}

fn text(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Int(n) => n.to_string(),
        SqlValue::Float(f) => f.to_string(),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn bytes(value: &SqlValue) -> Vec<u8> {
    match value {
        SqlValue::Bytes(bytes) => bytes.clone(),
        other => text(other).into_bytes(),
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
