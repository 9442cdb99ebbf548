//! The tokens of a server reply.

use super::encode::{LATIN1_GENERAL_CI_AS, is_long, put_type, put_value};
use super::sql_error::SqlError;
use super::value::{Column, SqlValue};
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
/// TDS 7.4, in the byte order of LOGINACK.
const TDS_7_4: [u8; 4] = [0x74, 0x00, 0x00, 0x04];
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

#[cfg(test)]
mod tests {
    use super::super::value::SqlType;
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
