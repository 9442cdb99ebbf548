//! A T-SQL batch to a flat list of operations: statements, transaction control and jumps.

use std::time::Duration;

use super::lexer::Token;
use super::sql_error::SqlError;
use super::value::SqlType;

/// One operation. Jump targets are indices into the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Begin,
    Commit,
    /// Of everything, or to the named savepoint.
    Rollback(Option<String>),
    Save(String),
    Isolation(Isolation),
    /// `SET name ON | OFF` and every other `SET` the kit accepts without acting on it.
    Set(String, String),
    WaitFor(Duration),
    Use(String),
    Declare(String, SqlType, Option<Vec<Token>>),
    /// Variables set by one SELECT, and the SELECT.
    Assign(Vec<String>, Vec<Token>),
    Print(Vec<Token>),
    Raise(SqlError),
    Kill(u16),
    Execute(String),
    Sql(Vec<Token>),
    JumpUnless(Vec<Token>, usize),
    Jump(usize),
}

/// The isolation levels, with the numbers of `sys.dm_exec_sessions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadUncommitted = 1,
    ReadCommitted = 2,
    RepeatableRead = 3,
    Serializable = 4,
    Snapshot = 5,
}

impl Isolation {
    /// The level of a transaction manager request, `None` for "as it is".
    pub(crate) fn from_wire(level: u8) -> Option<Self> {
        match level {
            1 => Some(Self::ReadUncommitted),
            2 => Some(Self::ReadCommitted),
            3 => Some(Self::RepeatableRead),
            4 => Some(Self::Serializable),
            5 => Some(Self::Snapshot),
            _ => None,
        }
    }
}
