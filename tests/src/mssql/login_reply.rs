//! What a login is answered, and the session it opens.

use std::sync::Arc;

use super::core::Core;
use super::login::{Login, LoginRecord};
use super::packet::DEFAULT_PACKET_SIZE;
use super::session::Session;
use super::sql_error::SqlError;
use super::token::{DoneKind, Tokens, done};

/// The answer to a login. Without a session the connection is over.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) tokens: Tokens,
    pub(crate) session: Option<Session>,
}

/// The packet size a login gets: what it asked for, within the limits of the protocol.
pub(crate) fn packet_size(login: &LoginRecord) -> usize {
    match login.packet_size {
        0 => DEFAULT_PACKET_SIZE,
        size => (size as usize).clamp(512, 32_767),
    }
}

/// Decides over a login. First come planned errors, then the credentials, then routing, then
/// whether the database can be opened.
pub(crate) fn answer(core: &Arc<Core>, login: &Login, spid: u16) -> Answer {
    let record = &login.record;
    let failed = SqlError::login_failed(&record.user);
    if let Some(error) = core.switches().next_login_error() {
        return refused(core, &[error]);
    }
    if !core.knows(&record.user, &login.password) {
        return refused(core, &[failed]);
    }
    if let Some(route) = core.switches().route(record.read_only_intent) {
        core.counters().update(|counts| counts.logins_routed += 1);
        let mut tokens = Tokens::default();
        tokens.login_ack();
        tokens.routing(&route.host, route.port);
        tokens.finish();
        return Answer { tokens, session: None };
    }
    let database = match record.database.as_str() {
        "" => core.default_database(),
        name => name,
    };
    if !database.eq_ignore_ascii_case("master") {
        if let Some(error) = core.switches().refusal(database, record.read_only_intent) {
            return refused(core, &[error, failed]);
        }
        if !core.data().contains(database) {
            return refused(core, &[SqlError::cannot_open_database(database), failed]);
        }
    }
    core.counters().update(|counts| counts.logins_accepted += 1);
    let session = Session::new(Arc::clone(core), record.clone(), spid);
    let mut tokens = Tokens::default();
    tokens.database_changed(session.database(), "master");
    let changed = format!("Changed database context to '{}'.", session.database());
    tokens.info(&SqlError::new(5701, 10).state(2).message(changed), core.name());
    tokens.collation();
    tokens.language();
    tokens.login_ack();
    tokens.packet_size(packet_size(record), DEFAULT_PACKET_SIZE);
    if let Some(partner) = core.switches().announced_partner() {
        tokens.mirror_partner(&partner);
    }
    tokens.finish();
    Answer { tokens, session: Some(session) }
}

fn refused(core: &Core, errors: &[SqlError]) -> Answer {
    let mut tokens = Tokens::default();
    for error in errors {
        tokens.error(error, core.name());
    }
    tokens.done(DoneKind::Batch, done::ERROR, 0, 0);
    tokens.finish();
    Answer { tokens, session: None }
}
