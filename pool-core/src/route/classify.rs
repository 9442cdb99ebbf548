//! What a statement is and what it does to its session (section 8 of the routing rules).
//!
//! One pass looks at every token of a text; it is all that a read needs. Other statements are looked at a
//! second time, by dialect, for what they do to the session. What is not known goes to the source.

use crate::route::lexer::Syntax;
use crate::route::scan::{Facts, Scanner, Statement};
use crate::route::words::Word;
use crate::route::{Change, Dialect, Effect, Kind, Needs, Pin, mysql, tsql};

/// The classifier's findings about one text, apart from its effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) kind: Kind,
    /// Whether it must not run on a host that nobody named.
    pub(super) needs_host: bool,
    /// Whether it acts on the node it runs on, so that "any replica" names no host.
    pub(super) acts_on_host: bool,
    /// Whether it is (or begins with) a `SET`.
    pub(super) is_set: bool,
}

impl Class {
    fn new(kind: Kind) -> Self {
        Self { kind, needs_host: false, acts_on_host: false, is_set: false }
    }
}

/// Classifies a text and adds what it does to `effect`. `read_functions` are names of functions, in lower case,
/// that are as good as built-in ones. Linear in the length of the text; does not allocate.
pub(super) fn classify(
    sql: &str,
    syntax: Syntax,
    read_functions: &[Box<str>],
    effect: &mut Effect,
) -> Class {
    let mut scanner = Scanner::new(sql, syntax, read_functions);
    let mut all: Option<(Class, Statement)> = None;
    let mut quiet = true;
    while let Some(statement) = scanner.statement() {
        let is_plain = statement.verb == Word::Select && statement.facts == Facts::default();
        if is_plain && all.is_none() && scanner.at_end() {
            return Class::new(Kind::Select);
        }
        let needs = effect.needs;
        let class = judge(&scanner, &statement, effect);
        quiet &= class.kind.is_read();
        let is_body = statement.is_body;
        match &mut all {
            None => all = Some((class, statement)),
            Some((all, _)) => {
                all.kind = Kind::MultiStatement;
                all.needs_host |= class.needs_host;
                all.acts_on_host |= class.acts_on_host;
                effect.opaque = true;
                // What it asks for was left by an earlier statement of the same text.
                effect.needs = needs;
            }
        }
        if is_body {
            break;
        }
    }
    let Some((class, first)) = all else {
        return Class::new(Kind::Empty);
    };
    if syntax.dialect() == Dialect::TSql && !quiet {
        // Conditions reach over `;`, so that effects are a matter of the whole text.
        tsql::effects(scanner.cursor(&first), effect);
    }
    class
}

/// Judges one statement and adds what it does to `effect`.
#[inline(never)]
fn judge(scanner: &Scanner<'_>, statement: &Statement, effect: &mut Effect) -> Class {
    let facts = statement.facts;
    let mut class = Class::new(Kind::Unknown);
    class.is_set = statement.verb == Word::Set;
    if statement.is_body {
        class.kind = if statement.verb == Word::Begin { Kind::Procedural } else { Kind::Ddl };
        effect.opaque = true;
        return class;
    }
    if facts.has(Facts::LAST_ID) {
        effect.needs = Some(Needs::LastInsertId);
    } else if facts.has(Facts::PREVIOUS) {
        effect.needs = Some(Needs::Previous);
    }
    if facts.has(Facts::USER_VARIABLE) {
        effect.changes.push(Change::Begin(Pin::UserVariable, 0));
    }
    let dialect = scanner.syntax.dialect();
    let is_read = match statement.verb {
        Word::Select | Word::With => true,
        Word::Table | Word::Values => dialect == Dialect::MySql,
        _ => false,
    };
    if is_read {
        class.kind = read_kind(facts);
    }
    match dialect {
        Dialect::MySql => {
            if !is_read {
                mysql::judge(scanner.cursor(statement), statement, &mut class, effect);
            }
            if facts.has(Facts::NAMED_LOCK) {
                mysql::named_locks(scanner.cursor(statement), effect);
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
    effect.opaque |=
        matches!(class.kind, Kind::Unknown | Kind::Call | Kind::Procedural | Kind::MultiStatement);
    effect.leaves_insert_id |= class.kind == Kind::Write;
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
