//! RPC requests: which procedure, with which typed parameters.

use super::datetime;
use super::engine::Variables;
use super::value::{SqlType, SqlValue};
use super::wire::Cursor;

/// A parsed RPC request.
#[derive(Debug, PartialEq)]
pub(crate) struct Rpc {
    pub(crate) procedure: Procedure,
    pub(crate) parameters: Vec<Parameter>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Procedure {
    ExecuteSql,
    ResetConnection,
    Other(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) value: SqlValue,
}

const SP_EXECUTESQL: u16 = 10;
const NO_RECOMPILE_OR_METADATA: usize = 2;

impl Rpc {
    /// Parses the body after ALL_HEADERS. `None` when it is malformed or holds a type the kit does
    /// not know.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(body);
        let procedure = match cursor.u16()? {
            0xFFFF => match cursor.u16()? {
                SP_EXECUTESQL => Procedure::ExecuteSql,
                id => Procedure::Other(format!("#{id}")),
            },
            units => Procedure::named(&cursor.utf16(usize::from(units))?),
        };
        cursor.skip(NO_RECOMPILE_OR_METADATA)?;
        let mut parameters = Vec::new();
        while !cursor.is_empty() {
            let name = cursor.b_varchar()?;
            cursor.skip(1)?;
            let (ty, value) = typed_value(&mut cursor)?;
            parameters.push(Parameter { name, ty, value });
        }
        Some(Self { procedure, parameters })
    }

    /// The statement of an `sp_executesql`.
    pub(crate) fn statement(&self) -> Option<&str> {
        match self.parameters.first().map(|parameter| &parameter.value) {
            Some(SqlValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The parameters of the statement of an `sp_executesql`: those after the statement and the
    /// declarations. Nameless ones take the declared names in order.
    pub(crate) fn variables(&self) -> Variables {
        let declared = match self.parameters.get(1).map(|parameter| &parameter.value) {
            Some(SqlValue::Text(text)) => text.as_str(),
            _ => "",
        };
        let mut names =
            declared.split(['@']).skip(1).map(|part| part.split_whitespace().next().unwrap_or(""));
        let mut variables = Variables::new();
        for parameter in self.parameters.iter().skip(2) {
            let next = names.next().unwrap_or_default();
            let name = match parameter.name.as_str() {
                "" => format!("@{next}"),
                name => name.to_owned(),
            };
            variables.insert(name.to_lowercase(), (parameter.ty, parameter.value.clone()));
        }
        variables
    }
}

impl Procedure {
    fn named(name: &str) -> Self {
        let bare = name.replace(['[', ']'], "").to_ascii_lowercase();
        match bare.rsplit('.').next() {
            Some("sp_executesql") => Self::ExecuteSql,
            Some("sp_reset_connection") => Self::ResetConnection,
            _ => Self::Other(name.to_owned()),
        }
    }
}

fn typed_value(cursor: &mut Cursor<'_>) -> Option<(SqlType, SqlValue)> {
    let code = cursor.u8()?;
    match code {
        0x1F => Some((SqlType::Int, SqlValue::Null)),
        0x30 => Some((SqlType::TinyInt, int(cursor.take(1)?))),
        0x32 => Some((SqlType::Bit, int(cursor.take(1)?))),
        0x34 => Some((SqlType::SmallInt, int(cursor.take(2)?))),
        0x38 => Some((SqlType::Int, int(cursor.take(4)?))),
        0x7F => Some((SqlType::BigInt, int(cursor.take(8)?))),
        0x3B => Some((SqlType::Real, float(cursor.take(4)?)?)),
        0x3E => Some((SqlType::Float, float(cursor.take(8)?)?)),
        0x26 => {
            let ty = match cursor.u8()? {
                1 => SqlType::TinyInt,
                2 => SqlType::SmallInt,
                4 => SqlType::Int,
                _ => SqlType::BigInt,
            };
            Some((ty, short(cursor, |bytes| Some(int(bytes)))?))
        }
        0x68 => {
            cursor.skip(1)?;
            Some((SqlType::Bit, short(cursor, |bytes| Some(int(bytes)))?))
        }
        0x6D => {
            let ty = if cursor.u8()? == 4 { SqlType::Real } else { SqlType::Float };
            Some((ty, short(cursor, float)?))
        }
        0x6A | 0x6C => {
            cursor.skip(2)?;
            let scale = cursor.u8()?;
            Some((SqlType::Numeric { scale }, short(cursor, |bytes| numeric(bytes, scale))?))
        }
        0x24 => {
            cursor.skip(1)?;
            Some((SqlType::NVarChar, short(cursor, guid)?))
        }
        0x2A => {
            let scale = cursor.u8()?;
            Some((SqlType::DateTime2, short(cursor, |bytes| datetime2(bytes, scale))?))
        }
        0x6F => {
            cursor.skip(1)?;
            Some((SqlType::DateTime2, short(cursor, datetime)?))
        }
        0xE7 | 0xEF => {
            let limit = cursor.u16()?;
            cursor.skip(5)?;
            let text =
                |bytes: &[u8]| Some(SqlValue::Text(Cursor::new(bytes).utf16(bytes.len() / 2)?));
            Some((SqlType::NVarChar, long(cursor, limit, text)?))
        }
        0xA7 | 0xAF => {
            let limit = cursor.u16()?;
            cursor.skip(5)?;
            let text =
                |bytes: &[u8]| Some(SqlValue::Text(String::from_utf8_lossy(bytes).into_owned()));
            Some((SqlType::NVarChar, long(cursor, limit, text)?))
        }
        0xA5 | 0xAD => {
            let limit = cursor.u16()?;
            let bytes = |bytes: &[u8]| Some(SqlValue::Bytes(bytes.to_vec()));
            Some((SqlType::VarBinary, long(cursor, limit, bytes)?))
        }
        _ => None,
    }
}

/// A value with a one-byte length, 0 meaning NULL.
fn short(cursor: &mut Cursor<'_>, read: impl Fn(&[u8]) -> Option<SqlValue>) -> Option<SqlValue> {
    match usize::from(cursor.u8()?) {
        0 => Some(SqlValue::Null),
        length => read(cursor.take(length)?),
    }
}

/// A value with a two-byte length, or in chunks when the type has no limit.
fn long(
    cursor: &mut Cursor<'_>,
    limit: u16,
    read: impl Fn(&[u8]) -> Option<SqlValue>,
) -> Option<SqlValue> {
    if limit != 0xFFFF {
        return match cursor.u16()? {
            0xFFFF => Some(SqlValue::Null),
            length => read(cursor.take(usize::from(length))?),
        };
    }
    if cursor.u64()? == u64::MAX {
        return Some(SqlValue::Null);
    }
    let mut whole = Vec::new();
    // An empty value may come without its closing chunk when it is the last thing in the message.
    while !cursor.is_empty() {
        match cursor.u32()? {
            0 => break,
            length => whole.extend_from_slice(cursor.take(length as usize)?),
        }
    }
    read(&whole)
}

fn int(bytes: &[u8]) -> SqlValue {
    // tinyint and bit are unsigned, the others are signed.
    SqlValue::Int(match *bytes {
        [a] => i64::from(a),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => {
            let mut wide = [0; 8];
            wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            i64::from_le_bytes(wide)
        }
    })
}

fn float(bytes: &[u8]) -> Option<SqlValue> {
    match bytes.len() {
        4 => Some(SqlValue::Float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?)))),
        8 => Some(SqlValue::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
        _ => None,
    }
}

fn numeric(bytes: &[u8], scale: u8) -> Option<SqlValue> {
    let (sign, digits) = bytes.split_first()?;
    let mut wide = [0; 16];
    wide.iter_mut().zip(digits).for_each(|(to, from)| *to = *from);
    let magnitude = i128::try_from(u128::from_le_bytes(wide)).ok()?;
    let signed = if *sign == 0 { -magnitude } else { magnitude };
    if scale == 0 {
        return Some(SqlValue::Int(i64::try_from(signed).ok()?));
    }
    Some(SqlValue::Float(signed as f64 / 10f64.powi(i32::from(scale))))
}

fn guid(bytes: &[u8]) -> Option<SqlValue> {
    let b: [u8; 16] = bytes.try_into().ok()?;
    Some(SqlValue::Text(format!(
        "{:08X}-{:04X}-{:04X}-{:02X}{:02X}-{:02X}{:02X}{:02X}{:02X}{:02X}{:02X}",
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        u16::from_le_bytes([b[4], b[5]]),
        u16::from_le_bytes([b[6], b[7]]),
        b[8],
        b[9],
        b[10],
        b[11],
        b[12],
        b[13],
        b[14],
        b[15]
    )))
}

fn datetime2(bytes: &[u8], scale: u8) -> Option<SqlValue> {
    let (time, date) = bytes.split_at_checked(bytes.len().checked_sub(3)?)?;
    let mut wide = [0; 8];
    wide.iter_mut().zip(time).for_each(|(to, from)| *to = *from);
    let ticks =
        u64::from_le_bytes(wide) * 10u64.checked_pow(7u32.checked_sub(u32::from(scale))?)?;
    let days = u32::from_le_bytes([date[0], date[1], date[2], 0]);
    Some(SqlValue::Text(datetime::format(ticks, days)))
}

/// `datetime`: days since 1900-01-01 and 1/300 s since midnight.
fn datetime(bytes: &[u8]) -> Option<SqlValue> {
    const DAYS_TO_1900: i64 = 693_595;
    let mut cursor = Cursor::new(bytes);
    let (days, ticks) = match bytes.len() {
        8 => {
            let days = i64::from(cursor.u32()? as i32);
            (days, u64::from(cursor.u32()?) * 10_000_000 / 300)
        }
        4 => (i64::from(cursor.u16()?), u64::from(cursor.u16()?) * 60 * 10_000_000),
        _ => return None,
    };
    let days = u32::try_from(days + DAYS_TO_1900).ok()?;
    Some(SqlValue::Text(datetime::format(ticks, days)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn a_named_procedure_is_recognised_in_every_spelling() {
        for name in
            ["sp_reset_connection", "sys.sp_reset_connection", "[sys].[sp_Reset_Connection]"]
        {
            assert_eq!(Procedure::named(name), Procedure::ResetConnection);
        }
        assert_eq!(Procedure::named("dbo.p"), Procedure::Other("dbo.p".into()));
    }

    #[test]
    fn typed_parameters_are_read() {
        let mut body = vec![0xFF, 0xFF, 10, 0, 0, 0];
        body.extend([1]);
        body.extend(utf16("a"));
        body.extend([0, 0x26, 4, 4, 0xFE, 0xFF, 0xFF, 0xFF]);
        body.extend([0, 0, 0x68, 1, 1, 1]);
        body.extend([0, 0, 0x6D, 8, 8]);
        body.extend(1.5f64.to_le_bytes());
        body.extend([0, 0, 0xE7, 0x40, 0x1F, 0, 0, 0, 0, 0, 4, 0]);
        body.extend(utf16("hi"));
        body.extend([0, 0, 0x26, 8, 0]);
        let rpc = Rpc::parse(&body).unwrap();
        assert_eq!(rpc.procedure, Procedure::ExecuteSql);
        let values: Vec<_> = rpc.parameters.iter().map(|p| (p.ty, p.value.clone())).collect();
        assert_eq!(
            values,
            [
                (SqlType::Int, SqlValue::Int(-2)),
                (SqlType::Bit, SqlValue::Int(1)),
                (SqlType::Float, SqlValue::Float(1.5)),
                (SqlType::NVarChar, SqlValue::Text("hi".into())),
                (SqlType::BigInt, SqlValue::Null),
            ]
        );
        assert_eq!(rpc.parameters[0].name, "a");
    }

    #[test]
    fn a_cut_request_is_refused() {
        assert_eq!(Rpc::parse(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x26, 4, 4, 1]), None);
    }
}
