//! The pass over every token of a text: cuts it into statements and notes what matters in each.

use crate::route::cursor::{Cursor, bare};
use crate::route::lexer::{
    BLANK, CLOSE, COMMA, DIGIT, END, Letters, Lexer, MARK, Mark, NAME, OPEN, OTHER, SEMICOLON,
    Syntax, Token, TokenKind, Trail, WIDE, WORD, letter,
};
use crate::route::words::{Word, is_harmless_call, letters_inside, word, word_inside};
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

/// What is kept while a statement is read.
#[derive(Debug)]
struct State {
    verb: Word,
    depth: u32,
    facts: Facts,
    trail: Trail,
    /// The main statement of a WITH has begun: names before `(` are no longer those of the CTEs.
    in_main: bool,
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
        if self.lexer.offset() == self.bytes.len() && !self.lexer.in_version() {
            return None;
        }
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
    fn scan(&mut self, first: Token, depth: u32) -> Statement {
        let verb = match first.kind {
            TokenKind::Word => word(&self.bytes[first.start..first.end]),
            _ => Word::Plain,
        };
        let mut state = State {
            verb,
            depth,
            facts: Facts::default(),
            trail: Trail { before: Mark::NONE, last: Mark::new(first.kind, first.end) },
            in_main: verb != Word::With,
        };
        if first.kind == TokenKind::Word {
            self.temporary(first, &mut state.facts);
        }
        self.tokens(&mut state);
        let facts = state.facts;
        let mut statement = Statement { verb, facts, start: first.start, is_body: false };
        statement.is_body = match self.syntax.dialect() {
            Dialect::MySql => {
                matches!(verb, Word::Alter | Word::Begin | Word::Create)
                    && mysql::has_body(verb, self.cursor(&statement))
            }
            // A second look at a T-SQL text covers all of it.
            Dialect::TSql => false,
        };
        statement
    }

    /// Looks at every token up to the end of the statement. Plain words, operators and blanks, which most
    /// texts consist of, are settled here; the lexer cuts the rest.
    fn tokens(&mut self, state: &mut State) {
        if self.lexer.in_version() && self.rare(state) {
            return;
        }
        let dialect = self.syntax.dialect();
        let mut at = self.lexer.offset();
        loop {
            let letters = letters_of(state.in_main, dialect);
            let stop = skim(self.bytes, self.lexer.classes(), letters, &mut state.trail, at);
            at = stop.end;
            let kind = match stop.class {
                WORD => {
                    let mut end = stop.end;
                    if self.lexer.word_goes_on(end) {
                        end = self.lexer.word_end(end);
                    }
                    at = end;
                    self.lexer.advance(end);
                    self.word(Token { kind: TokenKind::Word, start: stop.start, end }, state);
                    TokenKind::Word
                }
                OPEN => {
                    self.open(state);
                    TokenKind::Open
                }
                CLOSE => {
                    state.depth = state.depth.saturating_sub(1);
                    TokenKind::Close
                }
                SEMICOLON | END => {
                    self.lexer.advance(at);
                    return;
                }
                _ => {
                    self.lexer.advance(stop.start);
                    if self.rare(state) {
                        return;
                    }
                    at = self.lexer.offset();
                    continue;
                }
            };
            state.trail.push(kind, at);
        }
    }

    /// A token that only the lexer can cut, and all tokens of a version comment. Returns whether the
    /// statement is over.
    #[inline(never)]
    fn rare(&mut self, state: &mut State) -> bool {
        loop {
            let token = self.lexer.next_with_comments();
            match token.kind {
                TokenKind::Comment => {
                    if self.lexer.in_version() {
                        continue;
                    }
                    return false;
                }
                TokenKind::Word => self.word(token, state),
                TokenKind::Open => self.open(state),
                TokenKind::Close => state.depth = state.depth.saturating_sub(1),
                TokenKind::Quoted => self.temporary(token, &mut state.facts),
                TokenKind::Variable => {
                    let is_mysql = self.syntax.dialect() == Dialect::MySql;
                    if is_mysql && !self.is_account(state.verb, &state.trail, token) {
                        state.facts.add(Facts::USER_VARIABLE);
                    }
                }
                TokenKind::SystemVariable => state.facts.add(self.system_variable(token)),
                TokenKind::Odd => {
                    state.facts.add(Facts::ODD);
                    return true;
                }
                TokenKind::Semicolon | TokenKind::End => return true,
                _ => {}
            }
            state.trail.push(token.kind, token.end);
            if !self.lexer.in_version() {
                return false;
            }
        }
    }

    /// `(`
    #[inline]
    fn open(&self, state: &mut State) {
        if state.trail.last.is_name() && (state.in_main || state.depth > 0) {
            self.call(&state.trail, &mut state.facts);
        }
        state.depth += 1;
    }

    /// A word that may mean something.
    fn word(&self, token: Token, state: &mut State) {
        let dialect = self.syntax.dialect();
        let text = &self.bytes[token.start..token.end];
        if text[0] == b'#' {
            state.facts.add(Facts::TEMPORARY);
        }
        if !state.in_main && state.depth == 0 {
            state.in_main = is_main(word(text));
        }
        let inside = word_inside(text, dialect);
        if inside != Word::Plain && !self.is_qualified(&state.trail, token) {
            let trail = state.trail;
            self.inside(inside, &trail, state.depth, &mut state.facts);
        }
    }

    /// A word with a meaning inside a statement.
    #[cold]
    fn inside(&self, inside: Word, trail: &Trail, depth: u32, facts: &mut Facts) {
        let last = self.last_word(trail);
        let after = |word: &str| last.eq_ignore_ascii_case(word.as_bytes());
        match inside {
            // Functions of the same name.
            Word::Insert | Word::Replace
                if self.syntax.dialect() == Dialect::MySql
                    && self.lexer.clone().token().kind == TokenKind::Open => {}
            Word::Replace => facts.add(Facts::DML),
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
    }

    /// Whether `token` is the part of a dotted name behind the dot, where keywords are names.
    #[inline]
    fn is_qualified(&self, trail: &Trail, token: Token) -> bool {
        let Trail { before, last } = *trail;
        last.end() == token.start
            && self.is_dot(last)
            && before.is_name()
            && before.end() + 1 == last.end()
    }

    fn is_dot(&self, mark: Mark) -> bool {
        mark.is(TokenKind::Other) && self.bytes[mark.end() - 1] == b'.'
    }

    /// The text of the last token if it is a word, else the empty text.
    fn last_word(&self, trail: &Trail) -> &'s [u8] {
        if trail.last.is(TokenKind::Word) {
            &self.bytes[self.lexer.word_start(trail)..trail.last.end()]
        } else {
            &[]
        }
    }

    /// `name` followed by `(`.
    fn call(&self, trail: &Trail, facts: &mut Facts) {
        let name = self.last_word(trail);
        let dialect = self.syntax.dialect();
        if trail.last.is(TokenKind::Word) && !self.is_dot(trail.before) {
            if is_harmless_call(name, dialect) {
                return;
            }
            if let Some(fact) = special_call(name, dialect) {
                facts.add(fact);
                return;
            }
        }
        if !self.is_alias(trail) && !self.is_read_function(trail) {
            facts.add(Facts::FUNCTION);
        }
    }

    /// The column list of an alias: `AS name (…)` or `(…) name (…)`. No call can stand there.
    fn is_alias(&self, trail: &Trail) -> bool {
        let before = trail.before.end();
        trail.before.is(TokenKind::Close)
            || trail.before.is(TokenKind::Word) && ends_with_word(&self.bytes[..before], b"as")
    }

    fn is_read_function(&self, trail: &Trail) -> bool {
        if self.read_functions.is_empty() {
            return false;
        }
        let mut lexer = Lexer::new(self.sql, self.syntax);
        lexer.seek(trail.before.end());
        let token = lexer.token();
        let name = bare(lexer.text(token), token.kind);
        self.read_functions.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a variable is really the second half of `user@host`.
    #[cold]
    fn is_account(&self, verb: Word, trail: &Trail, token: Token) -> bool {
        let last = trail.last;
        let is_name = last.is(TokenKind::Quoted)
            || last.is(TokenKind::Text)
            || last.is(TokenKind::Word) && word(self.last_word(trail)) == Word::Plain;
        is_name && last.end() == token.start && names_accounts(verb)
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

/// Where [`skim`] stopped.
struct Stop {
    start: usize,
    end: usize,
    class: u8,
}

/// Skips blanks, plain words, whole numbers and operators, which most texts consist of. Stops at anything
/// else: a word that may mean something, a parenthesis, the end, or what only the lexer can cut.
#[inline(never)]
fn skim(
    bytes: &[u8],
    class: &[u8; 256],
    letters: &Letters,
    trail: &mut Trail,
    from: usize,
) -> Stop {
    let Trail { mut before, mut last } = *trail;
    let mut at = from;
    let stop = loop {
        let start = at;
        if at >= bytes.len() {
            break Stop { start, end: at, class: END };
        }
        let byte = bytes[at];
        let found = class[byte as usize];
        at += 1;
        if found == BLANK {
            continue;
        }
        let kind = if found == WORD {
            let mut next = BLANK;
            while at < bytes.len() {
                next = class[bytes[at] as usize];
                if next > DIGIT {
                    break;
                }
                at += 1;
            }
            let length = at - start;
            let special = length < letters.len() && letters[length] & letter(byte) != 0;
            if special || next == WIDE || next == NAME {
                break Stop { start, end: at, class: WORD };
            }
            TokenKind::Word
        } else if found == DIGIT {
            while at < bytes.len() && class[bytes[at] as usize] == DIGIT {
                at += 1;
            }
            if at < bytes.len()
                && (matches!(class[bytes[at] as usize], WORD | WIDE) || bytes[at] == b'.')
            {
                break Stop { start, end: start, class: MARK };
            }
            TokenKind::Number
        } else if found == OTHER
            || found == COMMA
            || found == MARK && is_operator(byte, bytes.get(at))
        {
            TokenKind::Other
        } else if byte == b'\''
            && let Some(end) = short_string_end(bytes, at)
        {
            at = end;
            TokenKind::Text
        } else {
            break Stop { start, end: at, class: found };
        };
        before = last;
        last = Mark::new(kind, at);
    };
    *trail = Trail { before, last };
    stop
}

/// The end of a string that is short and plain; `from` is behind its opening quote.
#[inline]
fn short_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    const SHORT: usize = 24;
    let end = bytes.iter().skip(from).take(SHORT).position(|byte| matches!(byte, b'\'' | b'\\'))?;
    let end = from + end;
    (bytes[end] == b'\'' && bytes.get(end + 1) != Some(&b'\'')).then_some(end + 1)
}

/// The words to look at: those with a meaning, or before the main statement of a WITH all.
fn letters_of(in_main: bool, dialect: Dialect) -> &'static Letters {
    static EVERY_WORD: Letters = [u32::MAX; 17];
    if in_main { letters_inside(dialect) } else { &EVERY_WORD }
}

/// Whether a character of several meanings stands for itself.
#[inline]
fn is_operator(byte: u8, next: Option<&u8>) -> bool {
    match byte {
        b'.' => !next.is_some_and(u8::is_ascii_digit),
        b'-' => next != Some(&b'-'),
        b'/' => next != Some(&b'*'),
        b'*' => true,
        _ => false,
    }
}

/// Whether a text ends with this word.
fn ends_with_word(text: &[u8], word: &[u8]) -> bool {
    let Some((rest, end)) = text.split_at_checked(text.len().wrapping_sub(word.len())) else {
        return false;
    };
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_$#@".contains(byte) || *byte > 0x7f;
    end.eq_ignore_ascii_case(word) && !rest.last().is_some_and(is_part)
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
