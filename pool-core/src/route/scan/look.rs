//! A closer look at the tokens that may matter.

use crate::route::Dialect;
use crate::route::cursor::bare;
use crate::route::lexer::{Token, TokenKind};
use crate::route::scan::trail::Trail;
use crate::route::scan::{Facts, Scanner, State};
use crate::route::words::{Word, is_harmless_call, is_main, word, word_inside};

impl<'s> Scanner<'s> {
    /// A word that may mean something.
    pub(super) fn word(&self, token: Token, state: &mut State) {
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
            // A hint about how to join.
            Word::Merge if self.next_is(&["join", "union"]) => {}
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
            Word::Conversation if !after("end") => {}
            _ if depth == 0 => facts.add(Facts::BATCH),
            _ => {}
        }
    }

    fn next_is(&self, words: &[&str]) -> bool {
        let mut lexer = self.lexer.clone();
        let next = lexer.token();
        next.kind == TokenKind::Word && is_one_of(lexer.text(next).as_bytes(), words)
    }

    /// Whether `token` is the part of a dotted name behind the dot, where keywords are names.
    #[inline]
    fn is_qualified(&self, trail: &Trail, token: Token) -> bool {
        let Trail { before, last } = *trail;
        last.end == token.start
            && self.is_dot(last.kind, last.end)
            && before.kind.is_name()
            && before.end == last.start
    }

    fn is_dot(&self, kind: TokenKind, end: usize) -> bool {
        kind == TokenKind::Other && self.bytes[end - 1] == b'.'
    }

    /// The text of the last token if it is a word, else the empty text.
    fn last_word(&self, trail: &Trail) -> &'s [u8] {
        match trail.last {
            Token { kind: TokenKind::Word, start, end } => &self.bytes[start..end],
            _ => &[],
        }
    }

    /// `name` followed by `(`.
    pub(super) fn call(&self, trail: &Trail, facts: &mut Facts) {
        let name = self.last_word(trail);
        let dialect = self.syntax.dialect();
        if trail.last.kind == TokenKind::Word && !self.is_dot(trail.before.kind, trail.before.end) {
            if is_harmless_call(name, dialect) {
                return;
            }
            if let Some(fact) = special_call(name, dialect) {
                facts.add(fact);
                return;
            }
        }
        if !self.is_alias(trail) && !self.is_read_function(trail) && !self.is_table_hint() {
            facts.add(Facts::FUNCTION);
        }
    }

    /// The column list of an alias: `AS name (…)` or `(…) name (…)`. No call can stand there.
    fn is_alias(&self, trail: &Trail) -> bool {
        match trail.before.kind {
            TokenKind::Close => true,
            TokenKind::Word => ends_with_word(&self.bytes[..trail.before.end], b"as"),
            _ => false,
        }
    }

    /// `table (NOLOCK)`: T-SQL's old way to write hints, of those that take no lock. The lexer stands behind
    /// the parenthesis.
    fn is_table_hint(&self) -> bool {
        const HINTS: &[&str] = &[
            "fastfirstrow",
            "noexpand",
            "nolock",
            "nowait",
            "readpast",
            "readuncommitted",
            "rowlock",
        ];
        if self.syntax.dialect() != Dialect::TSql {
            return false;
        }
        let mut lexer = self.lexer.clone();
        loop {
            let hint = lexer.token();
            if hint.kind != TokenKind::Word || !is_one_of(lexer.text(hint).as_bytes(), HINTS) {
                return false;
            }
            match lexer.token().kind {
                TokenKind::Close => return true,
                TokenKind::Comma => {}
                _ => return false,
            }
        }
    }

    fn is_read_function(&self, trail: &Trail) -> bool {
        if self.read_functions.is_empty() {
            return false;
        }
        let name = bare(self.lexer.text(trail.last), trail.last.kind);
        self.read_functions.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a variable is really the second half of `user@host`.
    #[cold]
    pub(super) fn is_account(&self, verb: Word, trail: &Trail, token: Token) -> bool {
        let is_name = match trail.last.kind {
            TokenKind::Quoted | TokenKind::Text => true,
            TokenKind::Word => word(self.last_word(trail)) == Word::Plain,
            _ => false,
        };
        is_name && trail.last.end == token.start && names_accounts(verb)
    }

    pub(super) fn temporary(&self, token: Token, facts: &mut Facts) {
        let first = self.bytes[token.start];
        let second = self.bytes.get(token.start + 1);
        if self.syntax.dialect() == Dialect::TSql
            && (first == b'#' || matches!(first, b'[' | b'"') && second == Some(&b'#'))
        {
            facts.add(Facts::TEMPORARY);
        }
    }

    #[cold]
    pub(super) fn system_variable(&self, token: Token) -> Facts {
        let text = self.lexer.text(token);
        let name = text.rsplit(['.', '@']).next().unwrap_or_default();
        let is = |names: &[&str]| is_one_of(name.as_bytes(), names);
        if is(&["last_insert_id", "identity", "insert_id", "last_gtid"]) {
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

fn is_one_of(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(text))
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
    let is = |names: &[&str]| is_one_of(name, names);
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
                "service_get_read_locks",
                "service_get_write_locks",
                "service_release_locks",
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
