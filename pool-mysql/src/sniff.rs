//! What a statement's text says about the session it leaves behind.
//!
//! The server's answers show an open transaction and autocommit, nothing else. A few statements change
//! what the next user of the connection would inherit; they are recognised by their first words. A
//! statement that hides (in a procedure, or behind another in one text) is not seen: `ResetMode::Full` is
//! for sessions that are used like that.

/// What a statement changes beyond the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The current database.
    Database,
    /// The next transaction alone; whether that will be read-only.
    NextTransaction {
        /// It will.
        read_only: bool,
    },
    /// Nothing that has to be undone.
    None,
    /// The access mode of every later transaction of the session; `true` is read-only.
    SessionReadOnly(bool),
    /// Tables stay locked after the transaction.
    TableLocks,
    /// The transaction that starts now is read-only.
    TransactionReadOnly,
}

/// Reads the first words of `sql`. Allocates nothing for statements other than `SET`, `START`, `USE` and
/// `LOCK`.
pub(crate) fn effect(sql: &[u8]) -> Effect {
    let sql = skip_blank(sql);
    let word = sql.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (verb, rest) = sql.split_at(word);
    if verb.eq_ignore_ascii_case(b"use") {
        Effect::Database
    } else if verb.eq_ignore_ascii_case(b"lock") {
        Effect::TableLocks
    } else if verb.eq_ignore_ascii_case(b"start") {
        if normal(rest).contains("read only") { Effect::TransactionReadOnly } else { Effect::None }
    } else if verb.eq_ignore_ascii_case(b"set") {
        set_effect(&normal(rest))
    } else {
        Effect::None
    }
}

/// `rest` is what follows `SET`, in lower case with single blanks.
fn set_effect(rest: &str) -> Effect {
    if rest.starts_with("global ") || rest.starts_with("persist") {
        return Effect::None;
    }
    for name in ["transaction_read_only", "tx_read_only"] {
        if let Some(at) = rest.find(name) {
            let value = rest[at + name.len()..].trim_start_matches([' ', ':', '=']);
            return Effect::SessionReadOnly(value.starts_with('1') || value.starts_with("on"));
        }
    }
    let session = ["session transaction ", "local transaction "]
        .iter()
        .find_map(|start| rest.strip_prefix(start));
    match (session, rest.starts_with("transaction ")) {
        (Some(mode), _) if mode.contains("read only") => Effect::SessionReadOnly(true),
        (Some(mode), _) if mode.contains("read write") => Effect::SessionReadOnly(false),
        (None, true) => Effect::NextTransaction { read_only: rest.contains("read only") },
        _ => Effect::None,
    }
}

/// Skips blanks and comments.
fn skip_blank(mut sql: &[u8]) -> &[u8] {
    loop {
        sql = sql.trim_ascii_start();
        let end = if sql.starts_with(b"/*") {
            sql.windows(2).skip(2).position(|pair| pair == b"*/").map(|at| at + 4)
        } else if sql.starts_with(b"-- ") || sql.starts_with(b"#") {
            sql.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
        } else {
            return sql;
        };
        match end {
            Some(end) => sql = &sql[end..],
            None => return &[],
        }
    }
}

/// Lower case, single blanks, without the `@@` and `session.` of a variable's name.
fn normal(sql: &[u8]) -> String {
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_outlive_the_transaction_are_recognised() {
        let rows = [
            ("SELECT 1", Effect::None),
            ("", Effect::None),
            ("/* open", Effect::None),
            ("USE other", Effect::Database),
            ("/* hint */ -- more\n use `other`", Effect::Database),
            ("used", Effect::None),
            ("LOCK TABLES t WRITE", Effect::TableLocks),
            ("START TRANSACTION", Effect::None),
            ("start  transaction\tREAD ONLY", Effect::TransactionReadOnly),
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", Effect::TransactionReadOnly),
            ("SET TRANSACTION READ ONLY", Effect::NextTransaction { read_only: true }),
            ("SET TRANSACTION READ WRITE", Effect::NextTransaction { read_only: false }),
            (
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                Effect::NextTransaction { read_only: false },
            ),
            ("set session transaction read only", Effect::SessionReadOnly(true)),
            ("SET SESSION TRANSACTION READ WRITE", Effect::SessionReadOnly(false)),
            (
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
                Effect::SessionReadOnly(true),
            ),
            ("SET LOCAL TRANSACTION READ ONLY", Effect::SessionReadOnly(true)),
            ("SET GLOBAL TRANSACTION READ ONLY", Effect::None),
            ("SET @@session.transaction_read_only = 1", Effect::SessionReadOnly(true)),
            ("SET transaction_read_only := OFF", Effect::SessionReadOnly(false)),
            ("SET SESSION tx_read_only=ON", Effect::SessionReadOnly(true)),
            ("SET GLOBAL read_only = 1", Effect::None),
            ("SET autocommit = 0", Effect::None),
        ];
        for (sql, expected) in rows {
            assert_eq!(effect(sql.as_bytes()), expected, "{sql}");
        }
    }
}
