//! The tokens of a server reply.

use super::datetime;
use super::sql_error::SqlError;
use super::value::{Column, SqlType, SqlValue};
use super::wire::{put_b_varchar, put_us_varchar};

/// Bits of the DONE status.
pub(crate) mod done {
    pub(crate) const FINAL: u16 = 0;
    pub(crate) const MORE: u16 = 0x01;
    pub(crate) const ERROR: u16 = 0x02;
    pub(crate) const COUNT: u16 = 0x10;
    pub(crate) const ATTENTION: u16 = 0x20;
}

/// Which of the three DONE tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoneKind {
    Batch = 0xFD,
    Procedure = 0xFE,
    InProcedure = 0xFF,
}

const DONE_LENGTH: usize = 13;
const LATIN1_GENERAL_CI_AS: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];
/// TDS 7.4, in the byte order of LOGINACK.
const TDS_7_4: [u8; 4] = [0x74, 0x00, 0x00, 0x04];
/// Longest value of `nvarchar(4000)`, in bytes.
const NVARCHAR_LIMIT: usize = 8000;

/// A reply under construction.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    /// Ends of tokens: where a reply may stop early without cutting one in two.
    ends: Vec<usize>,
    /// Where the status of the last DONE is.
    last_done: Option<usize>,
}

impl Tokens {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops everything after the first token end at or after `sent`.
    pub(crate) fn cut_after(&mut self, sent: usize) {
        let end = self.ends.iter().copied().find(|end| *end >= sent).unwrap_or(self.bytes.len());
        self.bytes.truncate(end);
    }

    pub(crate) fn error(&mut self, error: &SqlError, server: &str) {
        self.message(0xAA, error, server);
    }

    pub(crate) fn info(&mut self, message: &SqlError, server: &str) {
        self.message(0xAB, message, server);
    }

    pub(crate) fn login_ack(&mut self) {
        let mut body = vec![1];
        body.extend_from_slice(&TDS_7_4);
        put_b_varchar(&mut body, "Microsoft SQL Server");
        body.extend_from_slice(&[16, 0, 0x10, 0x00]);
        self.sized(0xAD, &body);
    }

    pub(crate) fn database_changed(&mut self, new: &str, old: &str) {
        self.env_text(1, new, old);
    }

    pub(crate) fn language(&mut self) {
        self.env_text(2, "us_english", "");
    }

    pub(crate) fn packet_size(&mut self, new: usize, old: usize) {
        self.env_text(4, &new.to_string(), &old.to_string());
    }

    pub(crate) fn collation(&mut self) {
        let mut body = vec![7, 5];
        body.extend_from_slice(&LATIN1_GENERAL_CI_AS);
        body.push(0);
        self.sized(0xE3, &body);
    }

    pub(crate) fn transaction_begun(&mut self, descriptor: u64) {
        let mut body = vec![8, 8];
        body.extend_from_slice(&descriptor.to_le_bytes());
        body.push(0);
        self.sized(0xE3, &body);
    }

    pub(crate) fn transaction_committed(&mut self, descriptor: u64) {
        self.transaction_ended(9, descriptor);
    }

    pub(crate) fn transaction_rolled_back(&mut self, descriptor: u64) {
        self.transaction_ended(10, descriptor);
    }

    pub(crate) fn mirror_partner(&mut self, name: &str) {
        self.env_text(13, name, "");
    }

    pub(crate) fn reset_acknowledged(&mut self) {
        self.sized(0xE3, &[18, 0, 0]);
    }

    pub(crate) fn routing(&mut self, host: &str, port: u16) {
        let mut target = vec![0];
        target.extend_from_slice(&port.to_le_bytes());
        put_us_varchar(&mut target, host);
        let mut body = vec![20];
        body.extend_from_slice(&(target.len() as u16).to_le_bytes());
        body.extend_from_slice(&target);
        body.extend_from_slice(&[0, 0]);
        self.sized(0xE3, &body);
    }

    pub(crate) fn return_status(&mut self, status: i32) {
        self.bytes.push(0x79);
        self.bytes.extend_from_slice(&status.to_le_bytes());
        self.end();
    }

    pub(crate) fn unknown(&mut self) {
        self.bytes.extend_from_slice(&[0x02, 0x00, 0x00]);
        self.end();
    }

    /// A DONE token. Every one says that more follows until [`finish`](Self::finish).
    pub(crate) fn done(&mut self, kind: DoneKind, status: u16, command: u16, rows: u64) {
        self.bytes.push(kind as u8);
        self.last_done = Some(self.bytes.len());
        self.bytes.extend_from_slice(&(status | done::MORE).to_le_bytes());
        self.bytes.extend_from_slice(&command.to_le_bytes());
        self.bytes.extend_from_slice(&rows.to_le_bytes());
        self.end();
    }

    /// Ends the reply: its last token is a DONE after which nothing follows.
    pub(crate) fn finish(&mut self) {
        let ends_with_done =
            self.last_done.is_some_and(|at| at + DONE_LENGTH - 1 == self.bytes.len());
        if !ends_with_done {
            self.done(DoneKind::Batch, done::FINAL, 0, 0);
        }
        if let Some(at) = self.last_done {
            self.bytes[at] &= !(done::MORE as u8);
        }
    }

    pub(crate) fn result_set(&mut self, columns: &[Column], rows: &[Vec<SqlValue>]) {
        let long: Vec<bool> = (0..columns.len())
            .map(|index| rows.iter().any(|row| is_long(&row[index], columns[index].ty)))
            .collect();
        self.bytes.push(0x81);
        self.bytes.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        for (column, long) in columns.iter().zip(&long) {
            // User type, then flags: nullable, updateability unknown.
            self.bytes.extend_from_slice(&[0, 0, 0, 0, 0x09, 0]);
            put_type(&mut self.bytes, column.ty, *long);
            put_b_varchar(&mut self.bytes, &column.name);
        }
        self.end();
        for row in rows {
            self.bytes.push(0xD1);
            for ((value, column), long) in row.iter().zip(columns).zip(&long) {
                put_value(&mut self.bytes, value, column.ty, *long);
            }
            self.end();
        }
    }

    fn message(&mut self, token: u8, error: &SqlError, server: &str) {
        let mut body = error.number.to_le_bytes().to_vec();
        body.extend_from_slice(&[error.state, error.class]);
        put_us_varchar(&mut body, &error.message);
        put_b_varchar(&mut body, server);
        put_b_varchar(&mut body, "");
        body.extend_from_slice(&1u32.to_le_bytes());
        self.sized(token, &body);
    }

    fn env_text(&mut self, kind: u8, new: &str, old: &str) {
        let mut body = vec![kind];
        put_b_varchar(&mut body, new);
        put_b_varchar(&mut body, old);
        self.sized(0xE3, &body);
    }

    fn transaction_ended(&mut self, kind: u8, descriptor: u64) {
        let mut body = vec![kind, 0, 8];
        body.extend_from_slice(&descriptor.to_le_bytes());
        self.sized(0xE3, &body);
    }

    fn sized(&mut self, token: u8, body: &[u8]) {
        self.bytes.push(token);
        self.bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.end();
    }

    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

fn is_long(value: &SqlValue, ty: SqlType) -> bool {
    match (value, ty) {
        (SqlValue::Text(text), SqlType::NVarChar) => {
            text.len() > NVARCHAR_LIMIT / 2 && text.encode_utf16().count() * 2 > NVARCHAR_LIMIT
        }
        (SqlValue::Bytes(bytes), SqlType::VarBinary) => bytes.len() > NVARCHAR_LIMIT,
        _ => false,
    }
}

fn put_type(to: &mut Vec<u8>, ty: SqlType, long: bool) {
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

fn put_value(to: &mut Vec<u8>, value: &SqlValue, ty: SqlType, long: bool) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_done_says_that_nothing_follows() {
        let mut tokens = Tokens::default();
        tokens.done(DoneKind::Batch, done::COUNT, 0xC3, 1);
        tokens.done(DoneKind::Batch, done::COUNT, 0xC3, 2);
        tokens.finish();
        assert_eq!(tokens.bytes[1], 0x11);
        assert_eq!(tokens.bytes[DONE_LENGTH + 1], 0x10);
    }

    #[test]
    fn a_reply_without_done_gets_one() {
        let mut tokens = Tokens::default();
        tokens.language();
        tokens.finish();
        assert_eq!(tokens.bytes[tokens.bytes.len() - DONE_LENGTH..][..2], [0xFD, 0]);
    }

    #[test]
    fn a_cut_keeps_whole_tokens() {
        let mut tokens = Tokens::default();
        let columns = [Column { name: "n".into(), ty: SqlType::Int }];
        tokens.result_set(&columns, &[vec![SqlValue::Int(1)], vec![SqlValue::Int(2)]]);
        let ends = tokens.ends.clone();
        tokens.cut_after(ends[0] + 1);
        assert_eq!(tokens.bytes.len(), ends[1]);
        tokens.cut_after(0);
        assert_eq!(tokens.bytes.len(), ends[0]);
    }

    #[test]
    fn the_routing_token_has_the_documented_layout() {
        let mut tokens = Tokens::default();
        tokens.routing("h", 0x1234);
        let expected = [0xE3, 12, 0, 20, 7, 0, 0, 0x34, 0x12, 1, 0, b'h', 0, 0, 0];
        assert_eq!(tokens.bytes, expected);
    }
}
