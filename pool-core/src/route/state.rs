//! Follows what statements do to one session and says when it must stay on its connection.

use crate::route::{Change, Effect, Pin, Pins, Place, Route, SessionState, Target};

/// What the server says about a session in its OK packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFlags {
    /// Whether a transaction is open.
    pub transaction: bool,
    /// Whether autocommit is on.
    pub autocommit: bool,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server refused it, or it was given up half way: MySQL's error packets carry no flags, so what
    /// is open now is unknown until the next success.
    Failed,
    /// It succeeded. `None` if the driver does not see the server's flags.
    Ok(Option<ServerFlags>),
}

/// The pins of one session (section 9 of the routing rules). Pure: it is told what was sent and what came
/// back.
///
/// Call [`PinState::sent`] before a statement goes out and [`PinState::answered`] when it has ended. In
/// between, and for good if the answer never comes, everything that may have begun counts as begun.
#[derive(Clone, Debug, Default)]
pub struct PinState {
    open: Open,
    /// Before the statement under way, and that statement's effect.
    under_way: Option<(Open, Effect)>,
    place: Place,
}

impl PinState {
    /// A fresh session: autocommit, nothing pinned.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The session as the router must see it.
    #[must_use]
    pub fn session(&self) -> SessionState {
        SessionState { pins: self.pins(), place: self.place }
    }

    /// What pins the session now.
    #[must_use]
    pub fn pins(&self) -> Pins {
        self.open.pins()
    }

    /// A statement is about to be sent.
    pub fn sent(&mut self, route: &Route<'_>) {
        if self.pins().is_empty() {
            match route.target {
                Target::Host(_) => self.place = Place::Host,
                Target::Replica => self.place = Place::Replica,
                Target::Source => self.place = Place::Source,
                Target::Held | Target::Refused(_) => {}
            }
        }
        if matches!(route.target, Target::Refused(_)) {
            return;
        }
        let effect = route.effect;
        if effect == Effect::default() && !self.open.unsure {
            // Most statements: nothing to remember, nothing to copy.
            self.under_way = None;
            return;
        }
        let before = self.open.clone();
        for change in effect.changes.iter() {
            if let Change::Begin(..) = change {
                self.open.apply(change);
            }
        }
        self.open.lasting = self.open.lasting.union(effect.changes.beyond());
        self.open.unsure |= effect.opaque;
        self.under_way = Some((before, effect));
    }

    /// The statement sent last has ended.
    pub fn answered(&mut self, answer: Answer) {
        let under_way = self.under_way.take();
        match answer {
            Answer::Failed => {
                // What may have begun stays, what may have ended does not end.
                self.open.unsure |= self.open.depth > 0 || self.open.autocommit_off;
            }
            Answer::Ok(flags) => {
                if let Some((before, effect)) = under_way {
                    self.open = before;
                    for change in effect.changes.iter() {
                        self.open.apply(change);
                    }
                    self.open.lasting = self.open.lasting.union(effect.changes.beyond());
                }
                self.open.unsure = false;
                if let Some(flags) = flags {
                    self.open.depth = match (flags.transaction, self.open.depth) {
                        (true, depth) => depth.max(1),
                        (false, _) => 0,
                    };
                    self.open.autocommit_off = !flags.autocommit;
                }
            }
        }
    }

    /// The connection was reset or given back: a fresh session.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// What is open on the connection.
#[derive(Clone, Debug, Default)]
struct Open {
    /// Depth of the transaction: MySQL has one level, T-SQL counts `BEGIN` and `COMMIT`.
    depth: u32,
    autocommit_off: bool,
    unsure: bool,
    table_lock: bool,
    /// Hashes of the names that are open, a name as often as it was opened.
    locks: Vec<u32>,
    tables: Vec<u32>,
    prepared: Vec<u32>,
    /// Ends only with the lease.
    lasting: Pins,
}

impl Open {
    fn pins(&self) -> Pins {
        [
            (Pin::Transaction, self.depth > 0),
            (Pin::AutocommitOff, self.autocommit_off),
            (Pin::NamedLock, !self.locks.is_empty()),
            (Pin::TableLock, self.table_lock),
            (Pin::TemporaryTable, !self.tables.is_empty()),
            (Pin::Prepared, !self.prepared.is_empty()),
            (Pin::Unsure, self.unsure),
        ]
        .into_iter()
        .fold(self.lasting, |pins, (pin, held)| if held { pins.with(pin) } else { pins })
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Begin(pin, name) => match pin {
                Pin::Transaction => self.depth = self.depth.saturating_add(1),
                Pin::AutocommitOff => self.autocommit_off = true,
                Pin::TableLock => self.table_lock = true,
                Pin::Unsure => self.unsure = true,
                Pin::NamedLock | Pin::TemporaryTable | Pin::Prepared => self.open(pin, name),
                Pin::UserVariable | Pin::SessionSetting => {
                    self.lasting = self.lasting.with(pin);
                }
                // These bind one statement only.
                Pin::LastInsertId | Pin::FoundRows => {}
            },
            Change::End(pin, name) => match pin {
                Pin::Transaction => {
                    self.depth = if name.is_some() { self.depth.saturating_sub(1) } else { 0 };
                }
                Pin::AutocommitOff => self.autocommit_off = false,
                Pin::TableLock => self.table_lock = false,
                Pin::Unsure => self.unsure = false,
                Pin::NamedLock | Pin::TemporaryTable | Pin::Prepared => self.close(pin, name),
                Pin::UserVariable | Pin::SessionSetting => {
                    self.lasting = self.lasting.without(pin);
                }
                Pin::LastInsertId | Pin::FoundRows => {}
            },
        }
    }

    fn open(&mut self, pin: Pin, name: u32) {
        /// A session that opens more than this under different names stays pinned to its end.
        const MOST: usize = 256;
        let names = self.names(pin);
        // Named locks count, the others exist once under a name.
        if pin != Pin::NamedLock && name != 0 && names.contains(&name) {
            return;
        }
        if names.len() < MOST {
            names.push(name);
        } else {
            self.lasting = self.lasting.with(pin);
        }
    }

    fn close(&mut self, pin: Pin, name: Option<u32>) {
        let names = self.names(pin);
        match name {
            None => names.clear(),
            Some(name) => {
                if let Some(at) = names.iter().rposition(|open| *open == name) {
                    names.swap_remove(at);
                }
            }
        }
    }

    fn names(&mut self, pin: Pin) -> &mut Vec<u32> {
        match pin {
            Pin::NamedLock => &mut self.locks,
            Pin::TemporaryTable => &mut self.tables,
            _ => &mut self.prepared,
        }
    }
}
