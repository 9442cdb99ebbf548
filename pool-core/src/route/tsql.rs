//! T-SQL statements that are not plain reads: what they are and what they do to the session.
//!
//! T-SQL needs no `;` between statements and has blocks and conditions, so effects are found by patterns
//! anywhere in the text. What may be skipped at run time can begin a pin, but never end one.

use crate::route::classify::Class;
use crate::route::cursor::{Cursor, bare, hash_of};
use crate::route::lexer::TokenKind;
use crate::route::words::{Word, word};
use crate::route::{Change, Effect, Kind, Pin};

/// Fills in the kind of a text that does not begin like a read. The cursor stands on its first word.
pub(super) fn judge(mut cursor: Cursor<'_>, verb: Word, class: &mut Class) {
    let first = cursor.bump();
    class.kind = match verb {
        Word::Bulk
        | Word::Delete
        | Word::Insert
        | Word::Merge
        | Word::Update
        | Word::UpdateText
        | Word::WriteText => Kind::Write,
        Word::Create | Word::Drop if names_temporary(&cursor) => Kind::TemporaryTable,
        Word::Add
        | Word::Alter
        | Word::Create
        | Word::Deny
        | Word::Drop
        | Word::Grant
        | Word::Revoke
        | Word::Truncate => Kind::Ddl,
        Word::Exec | Word::Execute if cursor.is("as") => Kind::Session,
        Word::Exec | Word::Execute => Kind::Call,
        Word::Begin if cursor.is_any(&["tran", "transaction", "distributed"]) => Kind::Transaction,
        Word::Commit | Word::Rollback | Word::Save => Kind::Transaction,
        Word::Set if cursor.peek().kind == TokenKind::Variable => Kind::Procedural,
        Word::Revert | Word::Set | Word::SetUser | Word::Use => Kind::Session,
        Word::Close | Word::Deallocate | Word::Fetch | Word::Open => Kind::Prepare,
        Word::Begin
        | Word::Declare
        | Word::Goto
        | Word::If
        | Word::Print
        | Word::RaisError
        | Word::Return
        | Word::Throw
        | Word::WaitFor
        | Word::While => Kind::Procedural,
        Word::Backup | Word::Checkpoint | Word::Dbcc | Word::Reconfigure | Word::Restore => {
            Kind::Server
        }
        Word::Kill | Word::Shutdown => {
            class.needs_host = true;
            class.acts_on_host = true;
            Kind::NodeSpecific
        }
        // The first statement of a batch may call a procedure by its bare name.
        Word::Plain if matches!(first.kind, TokenKind::Word | TokenKind::Quoted) => Kind::Call,
        _ => Kind::Unknown,
    };
}

/// What a text does to the session. The cursor stands on its first word.
pub(super) fn effects(cursor: Cursor<'_>, effect: &mut Effect) {
    let mut walk = Walk { cursor, effect, conditional: false, output: false, last: Word::Plain };
    let is_name = match walk.cursor.peek().kind {
        TokenKind::Quoted => true,
        TokenKind::Word => word(walk.cursor.word().as_bytes()) == Word::Plain,
        _ => false,
    };
    if is_name {
        walk.procedure();
    }
    walk.run();
}

struct Walk<'s, 'e> {
    cursor: Cursor<'s>,
    effect: &'e mut Effect,
    /// Behind an `IF`, a `WHILE` or a `TRY`: what follows may not run.
    conditional: bool,
    /// Behind an `OUTPUT` clause, whose `INTO` creates nothing.
    output: bool,
    /// The last word that was a keyword.
    last: Word,
}

impl Walk<'_, '_> {
    fn run(&mut self) {
        while !matches!(self.cursor.peek().kind, TokenKind::End | TokenKind::Odd) {
            let token = self.cursor.bump_any();
            if token.kind != TokenKind::Word {
                continue;
            }
            let text = self.cursor.text(token);
            let word = word(text.as_bytes());
            if !self.keyword(word) {
                return;
            }
            self.output |= text.eq_ignore_ascii_case("output");
            if word != Word::Plain {
                self.last = word;
            }
        }
    }

    /// Returns whether the walk goes on.
    fn keyword(&mut self, word: Word) -> bool {
        match word {
            Word::Begin => self.begin_block(),
            Word::Commit => self.end(Change::End(Pin::Transaction, Some(0))),
            Word::Rollback => self.rollback(),
            Word::If | Word::While | Word::Goto | Word::Return => self.conditional = true,
            Word::Set => self.set(),
            Word::SetUser | Word::Use => self.begin(Pin::SessionSetting, 0),
            Word::Create | Word::Alter => return self.create(word == Word::Create),
            Word::Drop => self.drop(),
            Word::Delete | Word::Insert | Word::Merge | Word::Update => self.output = false,
            Word::Into => self.into(),
            Word::Exec | Word::Execute => self.procedure(),
            Word::Declare => self.declare(),
            Word::Deallocate => {
                if let Some(name) = self.cursor.name(true) {
                    self.end(Change::End(Pin::Prepared, Some(name)));
                }
            }
            _ => {}
        }
        true
    }

    fn begin(&mut self, pin: Pin, name: u32) {
        self.effect.changes.push(Change::Begin(pin, name));
    }

    fn end(&mut self, change: Change) {
        if self.conditional {
            self.effect.opaque = true;
        } else {
            self.effect.changes.push(change);
        }
    }

    fn begin_block(&mut self) {
        if self.cursor.is_any(&["tran", "transaction", "distributed"]) {
            self.begin(Pin::Transaction, 0);
        } else if self.cursor.is_any(&["try", "catch"]) {
            self.conditional = true;
        }
    }

    fn rollback(&mut self) {
        let named = if self.cursor.eat("tran") || self.cursor.eat("transaction") {
            let next = self.cursor.peek().kind;
            next == TokenKind::Variable
                || next == TokenKind::Quoted
                || next == TokenKind::Word && word(self.cursor.word().as_bytes()) == Word::Plain
        } else {
            false
        };
        if named {
            // A savepoint or the outermost transaction: only the server knows.
            self.effect.opaque = true;
        } else {
            self.end(Change::End(Pin::Transaction, None));
        }
    }

    fn set(&mut self) {
        if self.cursor.peek().kind != TokenKind::Word {
            return;
        }
        let implicit = self.cursor.is("implicit_transactions");
        let mut ahead = self.cursor.clone();
        ahead.bump();
        // `SET column = …` belongs to an UPDATE.
        if ["=", ".", "+", "-", "*", "/", "%", "&", "|", "^"].iter().any(|mark| ahead.is_mark(mark))
        {
            return;
        }
        if !implicit && !self.cursor.is("ansi_defaults") {
            return self.begin(Pin::SessionSetting, 0);
        }
        self.cursor.bump();
        if self.cursor.is("off") {
            self.end(Change::End(Pin::AutocommitOff, None));
        } else {
            self.begin(Pin::AutocommitOff, 0);
        }
    }

    /// Returns whether the walk goes on: a routine has its own body.
    fn create(&mut self, is_new: bool) -> bool {
        if self.cursor.eat("or") {
            self.cursor.eat("alter");
        }
        let routine = self.cursor.is_any(&["proc", "procedure", "function", "trigger", "view"]);
        if routine || self.cursor.is("table") {
            self.cursor.bump();
            if let (Some(name), true) = (temporary_name(&mut self.cursor), is_new) {
                self.begin(Pin::TemporaryTable, name);
            }
        }
        !routine
    }

    fn drop(&mut self) {
        let may_be_temporary = self.cursor.is_any(&["table", "proc", "procedure"]);
        self.cursor.bump();
        if self.cursor.eat("if") {
            self.cursor.eat("exists");
        }
        if !may_be_temporary {
            return;
        }
        loop {
            if let Some(name) = temporary_name(&mut self.cursor) {
                self.end(Change::End(Pin::TemporaryTable, Some(name)));
            }
            if self.cursor.peek().kind != TokenKind::Comma {
                return;
            }
            self.cursor.bump();
        }
    }

    /// `SELECT … INTO #name` creates it; `INSERT INTO` and `OUTPUT … INTO` need one.
    fn into(&mut self) {
        if !matches!(self.last, Word::Insert | Word::Merge)
            && !self.output
            && let Some(name) = temporary_name(&mut self.cursor)
        {
            self.begin(Pin::TemporaryTable, name);
        }
    }

    /// Behind `EXEC`: the name of a procedure, maybe after `@result =`.
    fn procedure(&mut self) {
        if self.cursor.is("as") {
            return self.begin(Pin::SessionSetting, 0);
        }
        self.effect.opaque = true;
        self.effect.leaves_insert_id = true;
        if self.cursor.peek().kind == TokenKind::Variable {
            self.cursor.bump();
            if !self.cursor.is_mark("=") {
                return;
            }
            self.cursor.bump();
        }
        let mut name = "";
        let mut dotted = true;
        while dotted && matches!(self.cursor.peek().kind, TokenKind::Word | TokenKind::Quoted) {
            let token = self.cursor.bump();
            name = bare(self.cursor.text(token), token.kind);
            dotted = false;
            while self.cursor.is_mark(".") {
                self.cursor.bump();
                dotted = true;
            }
        }
        if name.eq_ignore_ascii_case("sp_getapplock") {
            if let Some(resource) = self.application_lock() {
                self.begin(Pin::NamedLock, resource);
            }
        } else if name.eq_ignore_ascii_case("sp_releaseapplock") {
            let resource = self.resource();
            self.end(Change::End(Pin::NamedLock, Some(resource)));
        } else if name.eq_ignore_ascii_case("sp_set_session_context") {
            self.begin(Pin::SessionSetting, 0);
        }
    }

    /// The resource of a lock that the session owns; `None` if the transaction does, which is the default.
    fn application_lock(&self) -> Option<u32> {
        let mut ahead = self.cursor.clone();
        let (mut by_session, mut by_transaction, mut owner) = (false, false, false);
        for _ in 0..LOOK_AHEAD {
            let token = ahead.bump();
            let text = bare(ahead.text(token), token.kind);
            by_session |= token.kind == TokenKind::Text && text.eq_ignore_ascii_case("session");
            by_transaction |=
                token.kind == TokenKind::Text && text.eq_ignore_ascii_case("transaction");
            owner |= text.eq_ignore_ascii_case("@lockowner");
        }
        (by_session || owner && !by_transaction).then(|| self.resource())
    }

    /// The hash of the first string behind the name of the procedure, 0 if it is not a literal.
    fn resource(&self) -> u32 {
        let mut ahead = self.cursor.clone();
        let named = ahead.peek().kind == TokenKind::Variable;
        if named {
            let token = ahead.bump();
            if !ahead.text(token).eq_ignore_ascii_case("@resource") || !ahead.is_mark("=") {
                return 0;
            }
            ahead.bump();
        }
        ahead.eat("n");
        let token = ahead.peek();
        match token.kind {
            TokenKind::Text => hash_of(bare(ahead.text(token), token.kind), true),
            _ => 0,
        }
    }

    /// `DECLARE name … CURSOR` stays open on the connection unless it is `LOCAL`.
    fn declare(&mut self) {
        if !matches!(self.cursor.peek().kind, TokenKind::Word | TokenKind::Quoted) {
            return;
        }
        let name = self.cursor.name(true).unwrap_or(0);
        let mut ahead = self.cursor.clone();
        let mut is_cursor = false;
        for _ in 0..LOOK_AHEAD {
            if ahead.at_end() || ahead.is("for") || ahead.is("local") {
                break;
            }
            is_cursor |= ahead.is("cursor");
            ahead.bump();
        }
        if is_cursor && !ahead.is("local") {
            self.begin(Pin::Prepared, name);
        }
    }
}

/// How many tokens behind a word are looked at for its options: bounded, since every word may do so.
const LOOK_AHEAD: usize = 32;

/// Whether `CREATE` or `DROP` is followed by the name of something temporary.
fn names_temporary(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    while ahead.is_any(&["table", "proc", "procedure", "if", "exists"]) {
        ahead.bump();
    }
    temporary_name(&mut ahead).is_some()
}

/// Steps over a name of one or more dotted parts, of which some may be empty (`tempdb..#t`), and returns the
/// hash of the last part if that makes it a temporary one. The database does not: it is ignored.
fn temporary_name(cursor: &mut Cursor<'_>) -> Option<u32> {
    loop {
        let mut name = None;
        let token = cursor.peek();
        if matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
            let part = bare(cursor.text(token), token.kind);
            name = part.starts_with('#').then(|| hash_of(part, true));
            cursor.bump();
        }
        if !cursor.is_mark(".") {
            return name;
        }
        cursor.bump();
    }
}
