//! The pass over every token of a text: cuts it into statements and notes what matters in each.

mod look;
mod skim;
mod table;
mod trail;

use crate::route::cursor::Cursor;
use crate::route::lexer::{CLOSE, END, Lexer, OPEN, SEMICOLON, Syntax, Token, TokenKind, WORD};
use crate::route::words::{Word, word};
use crate::route::{Dialect, mysql};

use self::skim::{Skim, Stop};
use self::table::Table;
use self::trail::Trail;

/// What was seen in a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::route) struct Facts(u16);

impl Facts {
    /// A T-SQL statement begins behind the first one, without `;`.
    pub(in crate::route) const BATCH: Self = Self(1);
    pub(in crate::route) const DML: Self = Self(1 << 1);
    pub(in crate::route) const FUNCTION: Self = Self(1 << 2);
    pub(in crate::route) const INTO: Self = Self(1 << 3);
    pub(in crate::route) const LAST_ID: Self = Self(1 << 4);
    pub(in crate::route) const LOCKING: Self = Self(1 << 5);
    pub(in crate::route) const NAMED_LOCK: Self = Self(1 << 6);
    pub(in crate::route) const ODD: Self = Self(1 << 7);
    pub(in crate::route) const PREVIOUS: Self = Self(1 << 8);
    pub(in crate::route) const SEQUENCE: Self = Self(1 << 9);
    /// A T-SQL name that begins with `#`.
    pub(in crate::route) const TEMPORARY: Self = Self(1 << 10);
    pub(in crate::route) const USER_VARIABLE: Self = Self(1 << 11);

    pub(in crate::route) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// One statement after the first pass.
#[derive(Clone, Copy, Debug)]
pub(in crate::route) struct Statement {
    pub(in crate::route) verb: Word,
    pub(in crate::route) facts: Facts,
    /// Offset of its first word; behind it if there is none.
    pub(in crate::route) start: usize,
    /// Whether the rest of the text is the body of a routine.
    pub(in crate::route) is_body: bool,
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
pub(in crate::route) struct Scanner<'s> {
    lexer: Lexer<'s>,
    bytes: &'s [u8],
    pub(in crate::route) syntax: Syntax,
    read_functions: &'s [Box<str>],
    sql: &'s str,
}

impl<'s> Scanner<'s> {
    pub(in crate::route) fn new(
        sql: &'s str,
        syntax: Syntax,
        read_functions: &'s [Box<str>],
    ) -> Self {
        let lexer = Lexer::new(sql, syntax);
        Self { lexer, bytes: sql.as_bytes(), syntax, read_functions, sql }
    }

    /// A cursor at the first word of a statement.
    pub(in crate::route) fn cursor(&self, statement: &Statement) -> Cursor<'s> {
        let mut lexer = Lexer::new(self.sql, self.syntax);
        lexer.seek(statement.start);
        Cursor::new(lexer)
    }

    /// The next statement that is not empty.
    #[inline]
    pub(in crate::route) fn statement(&mut self) -> Option<Statement> {
        let (first, depth) = match self.lexer.plain_word() {
            Some(word) => (word, 0),
            None => self.first_token()?,
        };
        Some(self.scan(first, depth))
    }

    /// Whether nothing is left of the text.
    pub(in crate::route) fn at_end(&self) -> bool {
        self.lexer.offset() == self.bytes.len() && !self.lexer.in_version()
    }

    /// The first token of a statement that says something, and how many parentheses are before it.
    #[cold]
    fn first_token(&mut self) -> Option<(Token, u32)> {
        let mut depth = 0;
        loop {
            let token = self.lexer.token();
            match token.kind {
                TokenKind::End if depth == 0 => return None,
                TokenKind::Semicolon => depth = 0,
                TokenKind::Open => depth += 1,
                _ => return Some((token, depth)),
            }
        }
    }

    /// The rest of a statement.
    #[inline]
    fn scan(&mut self, first: Token, depth: u32) -> Statement {
        let verb = match first.kind {
            TokenKind::Word => word(&self.bytes[first.start..first.end]),
            _ => Word::Plain,
        };
        let mut state = State {
            verb,
            depth,
            facts: if first.kind == TokenKind::Odd { Facts::ODD } else { Facts::default() },
            trail: Trail::of(first),
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

    /// Looks at every token up to the end of the statement. What most texts consist of is skipped; the lexer
    /// cuts what is not easily cut.
    fn tokens(&mut self, state: &mut State) {
        if self.lexer.in_version() && self.rare(state) {
            return;
        }
        let dialect = self.syntax.dialect();
        let mut skim = Skim::new(self.bytes, self.lexer.offset());
        loop {
            let table = Table::new(dialect, state.in_main);
            let Stop { class, start, end } = skim.next(table, &mut state.trail);
            match class {
                WORD => {
                    skim.settle(&mut state.trail, start, table);
                    let end = self.lexer.word_end(end);
                    let token = Token { kind: TokenKind::Word, start, end };
                    self.lexer.advance(end);
                    self.word(token, state);
                    state.trail.push(token);
                    skim.seek(end);
                }
                OPEN => {
                    skim.settle(&mut state.trail, start, table);
                    self.lexer.advance(end);
                    self.open(state);
                    state.trail = Trail::of(Token { kind: TokenKind::Open, start, end });
                    skim.seek(end);
                }
                CLOSE => {
                    state.depth = state.depth.saturating_sub(1);
                    state.trail = Trail::of(Token { kind: TokenKind::Close, start, end });
                    skim.seek(end);
                }
                SEMICOLON | END => {
                    self.lexer.advance(end);
                    return;
                }
                _ => {
                    skim.settle(&mut state.trail, start, table);
                    self.lexer.advance(start);
                    if self.rare(state) {
                        return;
                    }
                    skim.seek(self.lexer.offset());
                }
            }
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
            state.trail.push(token);
            if !self.lexer.in_version() {
                return false;
            }
        }
    }

    /// `(`
    #[inline]
    fn open(&self, state: &mut State) {
        if state.trail.last.kind.is_name() && (state.in_main || state.depth > 0) {
            self.call(&state.trail, &mut state.facts);
        }
        state.depth += 1;
    }
}
