//! The pass over every token of a text: cuts it into statements and notes what matters in each.

use crate::route::cursor::{Cursor, bare};
use crate::route::lexer::{Lexer, Syntax, Token, TokenKind};
use crate::route::words::{Word, is_harmless_call, word, word_inside};
use crate::route::{Dialect, mysql};

/// What was seen in a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts(u16);

impl Facts {
    /// A T-SQL statement begins behind the first one, without `;`.
    pub(super) const BATCH: Self = Self(1);
    pub(super) const DML: Self = Self(1 << 1);
    pub(super) const FUNCTION: Self = Self(1 << 2);
    pub(super) const INTO: Self = Self(1 << 3);
    pub(super) const LAST_ID: Self = Self(1 << 4);
    pub(super) const LOCKING: Self = Self(1 << 5);
    pub(super) const NAMED_LOCK: Self = Self(1 << 6);
    pub(super) const ODD: Self = Self(1 << 7);
    pub(super) const PREVIOUS: Self = Self(1 << 8);
    pub(super) const SEQUENCE: Self = Self(1 << 9);
    /// A T-SQL name that begins with `#`.
    pub(super) const TEMPORARY: Self = Self(1 << 10);
    pub(super) const USER_VARIABLE: Self = Self(1 << 11);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// One statement after the first pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    pub(super) verb: Word,
    pub(super) facts: Facts,
    /// Offset of its first word; behind it if there is none.
    pub(super) start: usize,
    /// Whether the rest of the text is the body of a routine.
    pub(super) is_body: bool,
}

/// Cuts a text into statements.
#[derive(Debug)]
pub(super) struct Scanner<'s> {
    lexer: Lexer<'s>,
    bytes: &'s [u8],
    pub(super) syntax: Syntax,
    read_functions: &'s [Box<str>],
    sql: &'s str,
}

impl<'s> Scanner<'s> {
    pub(super) fn new(sql: &'s str, syntax: Syntax, read_functions: &'s [Box<str>]) -> Self {
        let lexer = Lexer::new(sql, syntax);
        Self { lexer, bytes: sql.as_bytes(), syntax, read_functions, sql }
    }

    /// A cursor at the first word of a statement.
    pub(super) fn cursor(&self, statement: &Statement) -> Cursor<'s> {
        let mut lexer = Lexer::new(self.sql, self.syntax);
        lexer.seek(statement.start);
        Cursor::new(lexer)
    }

    /// The next statement that is not empty.
    pub(super) fn statement(&mut self) -> Option<Statement> {
        let mut depth = 0_u32;
        loop {
            let token = self.lexer.token();
            match token.kind {
                TokenKind::End => {
                    return (depth > 0).then(|| self.unknown(token, Facts::default()));
                }
                TokenKind::Semicolon => depth = 0,
                TokenKind::Open => depth += 1,
                TokenKind::Word => return Some(self.scan(token, depth)),
                TokenKind::Odd => return Some(self.unknown(token, Facts::ODD)),
                _ => {
                    let rest = self.scan(token, depth);
                    return Some(Statement { verb: Word::Plain, ..rest });
                }
            }
        }
    }

    fn unknown(&self, token: Token, facts: Facts) -> Statement {
        Statement { verb: Word::Plain, facts, start: token.end, is_body: false }
    }

    /// The rest of a statement.
    fn scan(&mut self, first: Token, mut depth: u32) -> Statement {
        let dialect = self.syntax.dialect();
        let verb = match first.kind {
            TokenKind::Word => word(&self.bytes[first.start..first.end]),
            _ => Word::Plain,
        };
        let mut facts = Facts::default();
        let mut before = Token::NONE;
        let mut last = first;
        // The main statement of a WITH has begun: names before `(` are no longer those of the CTEs.
        let mut in_main = verb != Word::With;
        if first.kind == TokenKind::Word {
            self.temporary(first, &mut facts);
        }
        // `INSERT` and `REPLACE` are functions as well, if `(` follows.
        let mut open_question = false;
        loop {
            let token = self.lexer.token();
            if open_question && token.kind != TokenKind::Open {
                facts.add(Facts::DML);
            }
            open_question = false;
            match token.kind {
                TokenKind::Word => {
                    let text = &self.bytes[token.start..token.end];
                    if text[0] == b'#' {
                        facts.add(Facts::TEMPORARY);
                    }
                    if !in_main && depth == 0 {
                        in_main = is_main(word(text));
                    }
                    let inside = word_inside(text, dialect);
                    if inside != Word::Plain && !self.is_qualified(before, last, token) {
                        open_question = self.inside(inside, last, depth, &mut facts);
                    }
                }
                TokenKind::Open => {
                    if matches!(last.kind, TokenKind::Word | TokenKind::Quoted)
                        && (in_main || depth > 0)
                    {
                        self.call(before, last, &mut facts);
                    }
                    depth += 1;
                }
                TokenKind::Close => depth = depth.saturating_sub(1),
                TokenKind::Quoted => self.temporary(token, &mut facts),
                TokenKind::Variable
                    if dialect == Dialect::MySql && !self.is_account(verb, last, token) =>
                {
                    facts.add(Facts::USER_VARIABLE);
                }
                TokenKind::SystemVariable => facts.add(self.system_variable(token)),
                TokenKind::Odd => facts.add(Facts::ODD),
                TokenKind::Semicolon | TokenKind::End => break,
                _ => {}
            }
            before = last;
            last = token;
        }
        let mut statement = Statement { verb, facts, start: first.start, is_body: false };
        statement.is_body = match dialect {
            Dialect::MySql => mysql::has_body(verb, || self.cursor(&statement)),
            // A second look at a T-SQL text covers all of it.
            Dialect::TSql => false,
        };
        statement
    }

    /// A word with a meaning inside a statement. Returns whether the next token must tell which.
    #[cold]
    fn inside(&self, inside: Word, last: Token, depth: u32, facts: &mut Facts) -> bool {
        let after = |word: &str| {
            last.kind == TokenKind::Word && self.lexer.text(last).eq_ignore_ascii_case(word)
        };
        match inside {
            Word::Insert | Word::Replace if self.syntax.dialect() == Dialect::MySql => return true,
            Word::Update if after("for") => facts.add(Facts::LOCKING),
            Word::Delete | Word::Insert | Word::Merge | Word::Update => facts.add(Facts::DML),
            Word::Share if after("for") => facts.add(Facts::LOCKING),
            Word::Share => {}
            Word::Lock
            | Word::HoldLock
            | Word::PagLock
            | Word::RepeatableRead
            | Word::Serializable
            | Word::TabLock
            | Word::TabLockX
            | Word::UpdLock
            | Word::XLock => facts.add(Facts::LOCKING),
            Word::Into => facts.add(Facts::INTO),
            Word::Value if after("next") || after("previous") => facts.add(Facts::SEQUENCE),
            Word::Value => {}
            Word::Fetch if after("rows") || after("row") => {}
            _ if depth == 0 => facts.add(Facts::BATCH),
            _ => {}
        }
        false
    }

    /// Whether `token` is the part of a dotted name behind the dot, where keywords are names.
    #[inline]
    fn is_qualified(&self, before: Token, last: Token, token: Token) -> bool {
        last.end == token.start
            && is_dot(self.bytes, last)
            && matches!(before.kind, TokenKind::Word | TokenKind::Quoted)
            && before.end == last.start
    }

    /// `name` followed by `(`.
    fn call(&self, before: Token, name: Token, facts: &mut Facts) {
        let text = &self.bytes[name.start..name.end];
        let dialect = self.syntax.dialect();
        let qualified = is_dot(self.bytes, before);
        if name.kind == TokenKind::Word && !qualified {
            if is_harmless_call(text, dialect) {
                return;
            }
            if let Some(fact) = special_call(text, dialect) {
                facts.add(fact);
                return;
            }
        }
        // The column list of an alias: `AS name (…)` or `(…) name (…)`. No call can stand there.
        let is_alias = before.kind == TokenKind::Close
            || before.kind == TokenKind::Word && self.lexer.text(before).eq_ignore_ascii_case("as");
        if is_alias || self.is_read_function(name) {
            return;
        }
        facts.add(Facts::FUNCTION);
    }

    fn is_read_function(&self, name: Token) -> bool {
        let name = bare(self.lexer.text(name), name.kind);
        self.read_functions.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a variable is really the second half of `user@host`.
    #[cold]
    fn is_account(&self, verb: Word, last: Token, token: Token) -> bool {
        let is_name = match last.kind {
            TokenKind::Quoted | TokenKind::Text => true,
            TokenKind::Word => word(&self.bytes[last.start..last.end]) == Word::Plain,
            _ => false,
        };
        is_name && last.end == token.start && names_accounts(verb)
    }

    fn temporary(&self, token: Token, facts: &mut Facts) {
        let first = self.bytes[token.start];
        let second = self.bytes.get(token.start + 1);
        if self.syntax.dialect() == Dialect::TSql
            && (first == b'#' || matches!(first, b'[' | b'"') && second == Some(&b'#'))
        {
            facts.add(Facts::TEMPORARY);
        }
    }

    #[cold]
    fn system_variable(&self, token: Token) -> Facts {
        let text = self.lexer.text(token);
        let name = text.rsplit(['.', '@']).next().unwrap_or_default();
        let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is(&["last_insert_id", "identity", "insert_id"]) {
            Facts::LAST_ID
        } else if is(&[
            "warning_count",
            "error_count",
            "rowcount",
            "error",
            "trancount",
            "fetch_status",
        ]) {
            Facts::PREVIOUS
        } else if is(&["", "session", "global", "local"]) {
            // The name follows apart from its scope, or in quotes: not worth a second rule.
            Facts::ODD
        } else {
            Facts::default()
        }
    }
}

fn is_dot(bytes: &[u8], token: Token) -> bool {
    token.kind == TokenKind::Other && bytes.get(token.start) == Some(&b'.')
}

fn is_main(word: Word) -> bool {
    matches!(
        word,
        Word::Delete
            | Word::Insert
            | Word::Merge
            | Word::Replace
            | Word::Select
            | Word::Table
            | Word::Update
            | Word::Values
    )
}

/// Whether `name@host` may occur in a statement that begins like this.
fn names_accounts(verb: Word) -> bool {
    matches!(
        verb,
        Word::Alter
            | Word::Create
            | Word::Drop
            | Word::Grant
            | Word::Rename
            | Word::Revoke
            | Word::Set
            | Word::Show
    )
}

/// Functions that concern the session or a sequence.
#[cold]
fn special_call(name: &[u8], dialect: Dialect) -> Option<Facts> {
    let is = |names: &[&str]| names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    match dialect {
        Dialect::MySql if is(&["last_insert_id"]) => Some(Facts::LAST_ID),
        Dialect::MySql if is(&["found_rows", "row_count"]) => Some(Facts::PREVIOUS),
        Dialect::MySql
            if is(&[
                "get_lock",
                "is_free_lock",
                "is_used_lock",
                "release_all_locks",
                "release_lock",
            ]) =>
        {
            Some(Facts::NAMED_LOCK)
        }
        Dialect::MySql if is(&["lastval", "nextval", "setval"]) => Some(Facts::SEQUENCE),
        Dialect::TSql if is(&["scope_identity"]) => Some(Facts::LAST_ID),
        Dialect::TSql if is(&["rowcount_big"]) => Some(Facts::PREVIOUS),
        Dialect::TSql if is(&["applock_mode", "applock_test"]) => Some(Facts::NAMED_LOCK),
        _ => None,
    }
}
