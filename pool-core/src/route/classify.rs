//! What a statement is and what it does to its session (section 8 of the routing rules).
//!
//! One pass looks at every token of a text; it is all that a read needs. Other statements are looked at a
//! second time, by dialect, for what they do to the session. What is not known goes to the source.

use crate::route::lexer::Syntax;
use crate::route::scan::{Facts, Scanner, Statement};
use crate::route::words::Word;
use crate::route::{Change, Dialect, Effect, Kind, Needs, Pin, mysql, tsql};

/// The classifier's findings about one text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) kind: Kind,
    pub(super) effect: Effect,
    /// Whether it must not run on a host that nobody named.
    pub(super) needs_host: bool,
    /// Whether it acts on the node it runs on, so that "any replica" names no host.
    pub(super) acts_on_host: bool,
    /// Whether it is (or begins with) a `SET`.
    pub(super) is_set: bool,
}

impl Class {
    fn new(kind: Kind) -> Self {
        let effect = Effect::default();
        Self { kind, effect, needs_host: false, acts_on_host: false, is_set: false }
    }
}

/// Classifies a text. `read_functions` are names of functions, in lower case, that are as good as built-in
/// ones. Linear in the length of the text; does not allocate.
pub(super) fn classify(sql: &str, syntax: Syntax, read_functions: &[Box<str>]) -> Class {
    let mut scanner = Scanner::new(sql, syntax, read_functions);
    let Some(first) = scanner.statement() else {
        return Class::new(Kind::Empty);
    };
    if first.verb == Word::Select && first.facts == Facts::default() && scanner.at_end() {
        return Class::new(Kind::Select);
    }
    judge_all(scanner, &first)
}

/// Judges the first statement and those behind it.
#[inline(never)]
fn judge_all(mut scanner: Scanner<'_>, first: &Statement) -> Class {
    let mut class = judge(&scanner, first);
    let mut quiet = class.kind.is_read();
    let mut is_body = first.is_body;
    while !is_body && let Some(statement) = scanner.statement() {
        let next = judge(&scanner, &statement);
        quiet &= next.kind.is_read();
        is_body = statement.is_body;
        merge(&mut class, &next);
    }
    if scanner.syntax.dialect() == Dialect::TSql && !quiet {
        // Conditions reach over `;`, so that effects are a matter of the whole text.
        tsql::effects(scanner.cursor(first), &mut class.effect);
    }
    class
}

fn judge(scanner: &Scanner<'_>, statement: &Statement) -> Class {
    let facts = statement.facts;
    let mut class = Class::new(Kind::Unknown);
    class.is_set = statement.verb == Word::Set;
    if statement.is_body {
        class.kind = if statement.verb == Word::Begin { Kind::Procedural } else { Kind::Ddl };
        class.effect.opaque = true;
        return class;
    }
    if facts.has(Facts::LAST_ID) {
        class.effect.needs = Some(Needs::LastInsertId);
    } else if facts.has(Facts::PREVIOUS) {
        class.effect.needs = Some(Needs::Previous);
    }
    if facts.has(Facts::USER_VARIABLE) {
        class.effect.changes.push(Change::Begin(Pin::UserVariable, 0));
    }
    let is_read = matches!(statement.verb, Word::Select | Word::Table | Word::Values | Word::With);
    if is_read {
        class.kind = read_kind(facts);
    }
    match scanner.syntax.dialect() {
        Dialect::MySql => {
            if !is_read {
                mysql::judge(scanner.cursor(statement), statement, &mut class);
            }
            if facts.has(Facts::NAMED_LOCK) {
                mysql::named_locks(scanner.cursor(statement), &mut class.effect);
            }
        }
        Dialect::TSql => {
            if !is_read {
                tsql::judge(scanner.cursor(statement), statement.verb, &mut class);
            }
            if facts.has(Facts::TEMPORARY) && class.kind.is_read() {
                class.kind = Kind::TemporaryTable;
            }
        }
    }
    if facts.has(Facts::ODD) {
        class.kind = Kind::Unknown;
    }
    class.effect.opaque |=
        matches!(class.kind, Kind::Unknown | Kind::Call | Kind::Procedural | Kind::MultiStatement);
    class.effect.leaves_insert_id |= class.kind == Kind::Write;
    class
}

/// What a statement is that begins like a read.
pub(super) fn read_kind(facts: Facts) -> Kind {
    let rules = [
        (Facts::ODD, Kind::Unknown),
        (Facts::DML, Kind::Write),
        (Facts::BATCH, Kind::MultiStatement),
        (Facts::INTO, Kind::Into),
        (Facts::LOCKING, Kind::LockingRead),
        (Facts::NAMED_LOCK, Kind::Lock),
        (Facts::SEQUENCE, Kind::Sequence),
        (Facts::USER_VARIABLE, Kind::UserVariable),
        (Facts::LAST_ID, Kind::SessionValue),
        (Facts::PREVIOUS, Kind::SessionValue),
        (Facts::FUNCTION, Kind::Function),
    ];
    if facts == Facts::default() {
        return Kind::Select;
    }
    rules.into_iter().find(|(fact, _)| facts.has(*fact)).map_or(Kind::Select, |(_, kind)| kind)
}

/// Adds another statement of the same text.
fn merge(class: &mut Class, next: &Class) {
    for change in next.effect.changes.iter() {
        class.effect.changes.push(change);
    }
    for pin in next.effect.changes.beyond().iter() {
        class.effect.changes.push(Change::Begin(pin, 0));
    }
    class.kind = Kind::MultiStatement;
    class.effect.opaque = true;
    class.effect.leaves_insert_id |= next.effect.leaves_insert_id;
    class.needs_host |= next.needs_host;
    class.acts_on_host |= next.acts_on_host;
}
