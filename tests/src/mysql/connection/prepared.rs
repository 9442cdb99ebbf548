//! Prepared statements.

use super::{Connection, Next, source};
use crate::mysql::counters::count;
use crate::mysql::error::MySqlError;
use crate::mysql::params;
use crate::mysql::reader::Reader;
use crate::mysql::statement::{self, Statement};
use crate::mysql::text::pieces;
use crate::mysql::wire::Format;
use crate::sql::lexer::{Dialect, Kind, split, tokens};

/// A statement the client has prepared.
pub(super) struct Prepared {
    text: String,
    statement: Option<Statement>,
    params: usize,
    types: Vec<(u8, u8)>,
    long: Vec<Option<Vec<u8>>>,
}

impl Connection<'_> {
    pub(super) async fn prepare(&mut self, text: &str) -> Next {
        let cut = tokens(text, Dialect::MySql);
        let parts = split(&cut);
        let parsed = match parts.as_slice() {
            [] => Err(MySqlError::new(1065, "Query was empty")),
            [only] => match statement::parse(&pieces(only)) {
                Some(statement) => Ok(statement),
                None => Err(MySqlError::syntax(text)),
            },
            [_, second, ..] => Err(MySqlError::syntax(source(second).trim())),
        };
        let described = match &parsed {
            Ok(statement) => self.session.describe(statement).await,
            Err(error) => Err(error.clone()),
        };
        let columns = match described {
            Ok(columns) => columns,
            Err(error) => return self.answer(Err(error)),
        };
        let params = cut.iter().filter(|token| token.kind == Kind::Param).count();
        let id = self.next_statement;
        self.next_statement += 1;
        self.statements.insert(
            id,
            Prepared {
                text: text.to_owned(),
                statement: parsed.ok(),
                params,
                types: Vec::new(),
                long: Vec::new(),
            },
        );
        let status = self.session.status();
        self.writer.prepared(self.packets, id, &columns, params as u16, status);
        Next::Answer
    }

    pub(super) async fn execute(&mut self, message: &[u8]) -> Next {
        count(&self.host.counts.executions);
        let mut reader = Reader::new(message);
        let id = reader.u32().unwrap_or(0);
        // Cursor flags and iteration count say nothing new.
        let header = reader.bytes(5);
        let Some(prepared) = self.statements.get_mut(&id) else {
            let text =
                format!("Unknown prepared statement handler ({id}) given to mysqld_stmt_execute");
            return self.answer(Err(MySqlError::new(1243, text)));
        };
        let long = std::mem::take(&mut prepared.long);
        let params = header
            .and_then(|_| params::read(&mut reader, prepared.params, &mut prepared.types, &long));
        let (Some(params), Some(statement)) = (params, prepared.statement.clone()) else {
            let text = "Incorrect arguments to mysqld_stmt_execute";
            return self.answer(Err(MySqlError::new(1210, text)));
        };
        let text = prepared.text.clone();
        match self.run(&text, &statement, params, Format::Binary, false).await {
            Ok(_) => Next::Answer,
            Err(next) => next,
        }
    }

    pub(super) fn long_data(&mut self, message: &[u8]) {
        let mut reader = Reader::new(message);
        let (Some(id), Some(at)) = (reader.u32(), reader.u16()) else { return };
        let Some(prepared) = self.statements.get_mut(&id) else { return };
        let at = usize::from(at);
        if at < prepared.params {
            prepared.long.resize(prepared.params, None);
            prepared.long[at].get_or_insert_default().extend_from_slice(reader.rest());
        }
    }

    /// Forgets the long values sent for a statement.
    pub(super) fn reset_statement(&mut self, message: &[u8]) {
        let id = Reader::new(message).u32();
        if let Some(prepared) = id.and_then(|id| self.statements.get_mut(&id)) {
            prepared.long.clear();
        }
    }
}
