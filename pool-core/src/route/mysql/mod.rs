//! MySQL and MariaDB statements that are not plain reads: what they are and what they do to the session.

mod set;

use crate::route::classify::{Class, read_kind};
use crate::route::cursor::{Cursor, bare, hash_of};
use crate::route::lexer::TokenKind;
use crate::route::scan::Statement;
use crate::route::words::Word;
use crate::route::{Change, Effect, Kind, Needs, Pin};

use self::set::set;

/// Whether the statement contains other statements (a routine, a block), so that a `;` inside ends nothing.
pub(in crate::route) fn has_body(verb: Word, mut cursor: Cursor<'_>) -> bool {
    cursor.bump();
    match verb {
        Word::Begin => cursor.is("not"),
        Word::Alter | Word::Create => matches!(object(&mut cursor), Object::Routine),
        _ => false,
    }
}

/// Fills in the kind and the effect of a statement that does not begin like a read. The cursor stands on
/// its first word.
pub(in crate::route) fn judge(
    mut cursor: Cursor<'_>,
    statement: &Statement,
    class: &mut Class,
    effect: &mut Effect,
) {
    cursor.bump();
    class.kind = match statement.verb {
        Word::Delete
        | Word::Do
        | Word::Import
        | Word::Insert
        | Word::Load
        | Word::Replace
        | Word::Update => Kind::Write,
        Word::Alter | Word::Create => match object(&mut cursor) {
            Object::TemporaryTable => {
                if cursor.eat("if") {
                    cursor.eat("not");
                    cursor.eat("exists");
                }
                let name = cursor.name(false).unwrap_or(0);
                effect.changes.push(Change::Begin(Pin::TemporaryTable, name));
                Kind::TemporaryTable
            }
            Object::Routine | Object::Other => Kind::Ddl,
        },
        Word::Drop => drop_table(&mut cursor, effect),
        Word::Analyze
        | Word::Check
        | Word::Checksum
        | Word::Grant
        | Word::Install
        | Word::Optimize
        | Word::Rename
        | Word::Repair
        | Word::Revoke
        | Word::Truncate
        | Word::Uninstall => Kind::Ddl,
        Word::Begin => begin(effect, Kind::Transaction),
        Word::Start if cursor.is("transaction") => start_transaction(cursor, effect),
        Word::Commit | Word::Rollback => end_transaction(cursor, effect),
        Word::Release | Word::Savepoint => Kind::Transaction,
        Word::Xa => xa(&cursor, effect),
        Word::Call => Kind::Call,
        Word::Desc | Word::Describe | Word::Explain => explain(&cursor, statement, class),
        Word::Show => show(&mut cursor, class, effect),
        Word::Get => {
            effect.needs = Some(Needs::Previous);
            Kind::SessionValue
        }
        Word::Kill | Word::Restart | Word::Shutdown => {
            class.needs_host = true;
            class.acts_on_host = true;
            Kind::NodeSpecific
        }
        Word::Lock => {
            effect.changes.push(Change::Begin(Pin::TableLock, 0));
            Kind::Lock
        }
        Word::Unlock => {
            effect.changes.push(Change::End(Pin::TableLock, None));
            Kind::Lock
        }
        Word::Backup => backup(&mut cursor, effect),
        Word::Flush => flush(cursor, effect),
        Word::Prepare => {
            let name = cursor.name(true).unwrap_or(0);
            effect.changes.push(Change::Begin(Pin::Prepared, name));
            Kind::Prepare
        }
        Word::Deallocate => {
            cursor.eat("prepare");
            close_prepared(&mut cursor, effect)
        }
        Word::Execute => {
            effect.opaque = true;
            effect.leaves_insert_id = true;
            Kind::Prepare
        }
        Word::Handler => handler(&mut cursor, effect),
        Word::Set => set(cursor, effect),
        Word::Use => {
            effect.changes.push(Change::Begin(Pin::SessionSetting, 0));
            Kind::Session
        }
        Word::Binlog
        | Word::Cache
        | Word::Change
        | Word::Clone
        | Word::Purge
        | Word::Reset
        | Word::Start
        | Word::Stop => Kind::Server,
        Word::Signal | Word::Resignal => Kind::Procedural,
        _ => Kind::Unknown,
    };
}

/// The named locks that a statement takes and releases, in order.
pub(in crate::route) fn named_locks(mut cursor: Cursor<'_>, effect: &mut Effect) {
    while !cursor.at_end() {
        let word = cursor.word();
        cursor.bump();
        if cursor.peek().kind != TokenKind::Open {
            continue;
        }
        if word.eq_ignore_ascii_case("get_lock") {
            let name = lock_name(&mut cursor);
            effect.changes.push(Change::Begin(Pin::NamedLock, name));
        } else if word.eq_ignore_ascii_case("release_lock") {
            let name = lock_name(&mut cursor);
            effect.changes.push(Change::End(Pin::NamedLock, Some(name)));
        } else if word.eq_ignore_ascii_case("release_all_locks") {
            effect.changes.push(Change::End(Pin::NamedLock, None));
        } else if word.eq_ignore_ascii_case("service_get_read_locks")
            || word.eq_ignore_ascii_case("service_get_write_locks")
        {
            // Locks of the locking service: by name space, and out of reach of RELEASE_ALL_LOCKS.
            effect.changes.push(Change::Begin(Pin::SessionSetting, 0));
        }
    }
}

/// The hash of a name given as a plain string, 0 if it is an expression or a placeholder.
fn lock_name(cursor: &mut Cursor<'_>) -> u32 {
    cursor.bump();
    let token = cursor.peek();
    if token.kind != TokenKind::Text {
        return 0;
    }
    let name = bare(cursor.text(token), token.kind);
    cursor.bump();
    match cursor.peek().kind {
        TokenKind::Comma | TokenKind::Close => hash_of(name, true),
        _ => 0,
    }
}

enum Object {
    Other,
    Routine,
    TemporaryTable,
}

/// Steps over the words between `CREATE` and the name: what is created.
fn object(cursor: &mut Cursor<'_>) -> Object {
    let mut temporary = false;
    while !cursor.at_end() {
        if cursor.is_any(&["procedure", "function", "trigger", "event", "package"]) {
            return Object::Routine;
        }
        if cursor.eat("table") {
            return if temporary { Object::TemporaryTable } else { Object::Other };
        }
        // They share their names with tables.
        if temporary && cursor.eat("sequence") {
            return Object::TemporaryTable;
        }
        if cursor.is_mark("=") {
            // DEFINER = name, 'name'@'host', CURRENT_USER().
            cursor.bump();
            cursor.bump();
            continue;
        }
        temporary |= cursor.is("temporary");
        if cursor.peek().kind == TokenKind::Word
            && !cursor.is_any(&["or", "replace", "temporary", "definer", "aggregate"])
        {
            return Object::Other;
        }
        cursor.bump();
    }
    Object::Other
}

fn drop_table(cursor: &mut Cursor<'_>, effect: &mut Effect) -> Kind {
    if cursor.eat("prepare") {
        return close_prepared(cursor, effect);
    }
    let temporary = cursor.eat("temporary");
    if !cursor.eat("table") && !cursor.eat("tables") && !cursor.eat("sequence") {
        return Kind::Ddl;
    }
    if cursor.eat("if") {
        cursor.eat("exists");
    }
    // A plain DROP TABLE takes the temporary table of that name first.
    while let Some(name) = cursor.name(false) {
        effect.changes.push(Change::End(Pin::TemporaryTable, Some(name)));
        if cursor.peek().kind != TokenKind::Comma {
            break;
        }
        cursor.bump();
    }
    if temporary { Kind::TemporaryTable } else { Kind::Ddl }
}

fn close_prepared(cursor: &mut Cursor<'_>, effect: &mut Effect) -> Kind {
    if let Some(name) = cursor.name(true) {
        effect.changes.push(Change::End(Pin::Prepared, Some(name)));
    }
    Kind::Prepare
}

fn begin(effect: &mut Effect, kind: Kind) -> Kind {
    // A transaction that is open is committed first: there is one level.
    effect.changes.push(Change::End(Pin::Transaction, None));
    effect.changes.push(Change::Begin(Pin::Transaction, 0));
    kind
}

fn start_transaction(mut cursor: Cursor<'_>, effect: &mut Effect) -> Kind {
    while !cursor.at_end() {
        if cursor.eat("read") && cursor.is("only") {
            return begin(effect, Kind::ReadOnlyTransaction);
        }
        cursor.bump();
    }
    begin(effect, Kind::Transaction)
}

fn end_transaction(mut cursor: Cursor<'_>, effect: &mut Effect) -> Kind {
    cursor.eat("work");
    if cursor.is("to") {
        return Kind::Transaction;
    }
    effect.changes.push(Change::End(Pin::Transaction, None));
    if cursor.eat("and") && cursor.is("chain") {
        effect.changes.push(Change::Begin(Pin::Transaction, 0));
    }
    Kind::Transaction
}

fn xa(cursor: &Cursor<'_>, effect: &mut Effect) -> Kind {
    if cursor.is_any(&["start", "begin"]) {
        return begin(effect, Kind::Transaction);
    }
    if cursor.is_any(&["commit", "rollback"]) {
        effect.changes.push(Change::End(Pin::Transaction, None));
    }
    Kind::Transaction
}

/// `EXPLAIN` of a read is a read, of anything else it goes to the source.
fn explain(cursor: &Cursor<'_>, statement: &Statement, class: &mut Class) -> Kind {
    let mut ahead = cursor.clone();
    while ahead.is_any(&[
        "analyze",
        "extended",
        "partitions",
        "format",
        "for",
        "schema",
        "database",
    ]) || ahead.is_mark("=")
    {
        let (value, of) = (ahead.is_mark("="), ahead.is("for"));
        ahead.bump();
        if of && ahead.is("connection") {
            class.needs_host = true;
            return Kind::NodeSpecific;
        }
        if value {
            ahead.bump();
        }
    }
    if ahead.is_any(&["insert", "replace", "update", "delete"]) {
        return Kind::Write;
    }
    match read_kind(statement.facts) {
        Kind::Select => Kind::Explain,
        other => other,
    }
}

fn show(cursor: &mut Cursor<'_>, class: &mut Class, effect: &mut Effect) -> Kind {
    let full = cursor.eat("full");
    // MariaDB's SHOW EXPLAIN and SHOW ANALYZE are about a running connection.
    if cursor.is("processlist") || !full && cursor.is_any(&["analyze", "explain"]) {
        class.needs_host = true;
        return Kind::NodeSpecific;
    }
    if !full && cursor.is_any(&["warnings", "errors", "count"]) {
        effect.needs = Some(Needs::Previous);
        return Kind::SessionValue;
    }
    Kind::Show
}

/// MariaDB's `BACKUP STAGE …` and `BACKUP LOCK`: they lock until they are ended by the same connection.
fn backup(cursor: &mut Cursor<'_>, effect: &mut Effect) -> Kind {
    let change = if cursor.eat("stage") && cursor.is("end") || cursor.is("unlock") {
        Change::End(Pin::TableLock, None)
    } else {
        Change::Begin(Pin::TableLock, 0)
    };
    effect.changes.push(change);
    Kind::Lock
}

fn flush(mut cursor: Cursor<'_>, effect: &mut Effect) -> Kind {
    while !cursor.at_end() {
        // FLUSH TABLES … WITH READ LOCK, FLUSH TABLES … FOR EXPORT
        if cursor.is_any(&["lock", "export"]) {
            effect.changes.push(Change::Begin(Pin::TableLock, 0));
            return Kind::Lock;
        }
        cursor.bump();
    }
    Kind::Server
}

/// An open handler is a cursor on the connection.
fn handler(cursor: &mut Cursor<'_>, effect: &mut Effect) -> Kind {
    let Some(mut name) = cursor.name(true) else { return Kind::Unknown };
    if cursor.eat("open") {
        cursor.eat("as");
        if let Some(alias) = cursor.name(true) {
            name = alias;
        }
        effect.changes.push(Change::Begin(Pin::Prepared, name));
    } else if cursor.is("close") {
        effect.changes.push(Change::End(Pin::Prepared, Some(name)));
    }
    Kind::Prepare
}
