//! `SET` and what it does to the session.

use crate::route::cursor::{Cursor, bare};
use crate::route::lexer::TokenKind;
use crate::route::{Change, Effect, Kind, Pin};

/// `SET`: every assignment of the list on its own. User variables were seen in the first pass.
pub(super) fn set(mut cursor: Cursor<'_>, effect: &mut Effect) -> Kind {
    let mut kind = Kind::Server;
    loop {
        kind = match assignment(&mut cursor, effect) {
            Kind::Server => kind,
            other => other,
        };
        let mut depth = 0_u32;
        while !cursor.at_end() && (depth > 0 || cursor.peek().kind != TokenKind::Comma) {
            match cursor.peek().kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            cursor.bump();
        }
        if cursor.at_end() {
            return kind;
        }
        cursor.bump();
    }
}

fn assignment(cursor: &mut Cursor<'_>, effect: &mut Effect) -> Kind {
    let mut pin = |change| {
        effect.changes.push(change);
        Kind::Session
    };
    let token = cursor.peek();
    let mut name = cursor.text(token);
    match token.kind {
        TokenKind::Variable => {
            return if name.starts_with('@') { Kind::UserVariable } else { Kind::Session };
        }
        TokenKind::SystemVariable => {
            let scope = name.trim_start_matches('@').split('.').next().unwrap_or_default();
            if is_server_scope(scope) {
                return Kind::Server;
            }
            name = name.rsplit(['.', '@']).next().unwrap_or_default();
        }
        TokenKind::Word if is_server_scope(name) => {
            cursor.bump();
            // SET GLOBAL TRANSACTION … has no assignment, but is as global.
            return Kind::Server;
        }
        TokenKind::Word if cursor.is("password") => return Kind::Ddl,
        TokenKind::Word if cursor.is_any(&["session", "local"]) => {
            cursor.bump();
            name = cursor.text(cursor.peek());
        }
        _ => {}
    }
    if !bare(name, cursor.peek().kind).eq_ignore_ascii_case("autocommit") {
        return pin(Change::Begin(Pin::SessionSetting, 0));
    }
    cursor.bump();
    while cursor.is_mark("=") || cursor.is_mark(":") {
        cursor.bump();
    }
    let token = cursor.peek();
    let value = bare(cursor.text(token), token.kind);
    let is = |values: &[&str]| values.iter().any(|known| value.eq_ignore_ascii_case(known));
    cursor.bump();
    if is(&["1", "on", "true"]) && matches!(cursor.peek().kind, TokenKind::Comma)
        || cursor.at_end() && is(&["1", "on", "true"])
    {
        // Switching it on commits what is open; without a change it does not.
        pin(Change::End(Pin::AutocommitOff, None));
        return Kind::Session;
    }
    pin(Change::Begin(Pin::AutocommitOff, 0))
}

fn is_server_scope(scope: &str) -> bool {
    ["global", "persist", "persist_only"].iter().any(|known| scope.eq_ignore_ascii_case(known))
}
