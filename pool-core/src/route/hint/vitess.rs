//! `USE keyspace@replica`.

use crate::route::hint::{Hint, HintParser, Wish};
use crate::route::lexer::{Lexer, Syntax, TokenKind};

/// The targets of Vitess: `USE keyspace@replica`, `@rdonly` or `@primary` (and `@master`).
///
/// The statement is sent as `USE keyspace` to such a host and, like every `USE`, binds the session to it;
/// another one moves it. The comment form, `/*vt+ KEY=VALUE */`, only sets options of the query and routes
/// nothing: it stays in the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct VitessHints {
    _private: (),
}

impl VitessHints {
    /// The parser has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl HintParser for VitessHints {
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        let mut lexer = Lexer::new(sql, syntax);
        let verb = lexer.token();
        if verb.kind != TokenKind::Word || !lexer.text(verb).eq_ignore_ascii_case("use") {
            return None;
        }
        let name = lexer.token();
        let start = match name.kind {
            TokenKind::Quoted => lexer.token().start,
            // In T-SQL `@` is part of a word.
            TokenKind::Word => match lexer.text(name).find('@') {
                Some(at) => name.start + at,
                None => lexer.token().start,
            },
            _ => return None,
        };
        let end = sql[start..]
            .find(|char: char| char == ';' || char.is_ascii_whitespace())
            .map_or(sql.len(), |length| start + length);
        let target = sql[start..end].strip_prefix('@')?;
        let is = |names: &[&str]| names.iter().any(|known| target.eq_ignore_ascii_case(known));
        let wish = if is(&["replica", "rdonly"]) {
            Wish::Replica
        } else if is(&["primary", "master"]) {
            Wish::Source
        } else {
            return None;
        };
        Some(Hint { wish: Some(wish), max_lag: None, span: start..end, moves_session: true })
    }
}
