//! What a session keeps to route its statements.

use crate::lease::Lease;
use crate::pool::Pool;
use crate::route::{
    Answer, Effect, Kind, Needs, Pin, PinState, Pins, Place, Route, ServerFlags, Target, Why,
};
use crate::session::SessionDriver;
use crate::statement::Caller;

/// What a session keeps to route its statements.
pub(super) struct Routing<D: SessionDriver> {
    /// What it wrote, and how its reads are to be served.
    pub(super) caller: Caller<D>,
    /// What binds it, on whichever connection.
    pub(super) pins: PinState,
    /// The connection of the statement before, if that ran beside the main one. It is kept until the next
    /// statement, which may ask for row counts or warnings, and for as long as something binds the session
    /// to it.
    pub(super) beside: Option<Lease<D>>,
    /// Whether an insert ran on `beside`.
    inserted_beside: bool,
    /// Whether `beside` wrote something whose position was not asked for yet.
    pub(super) wrote_beside: bool,
    /// The main connection that `pins` are about.
    generation: u64,
    /// Whether the main connection wrote something whose position was not asked for yet.
    pub(super) wrote: bool,
    /// The main connection that ran something last; it may have been replaced since.
    pub(super) ran_on: u64,
    /// Whether the main connection is being asked for its position.
    pub(super) asking: bool,
}

/// Where a statement of the session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On the connection beside the main one that is held.
    Beside,
    /// The session was bound to a connection beside that is gone.
    Gone,
    /// On the main connection.
    Main,
    /// On another connection, still to be chosen.
    Other,
}

impl<D: SessionDriver> Routing<D> {
    pub(super) fn new(pool: &Pool<D>) -> Self {
        Self {
            caller: Caller::new(pool),
            pins: PinState::new(),
            beside: None,
            inserted_beside: false,
            wrote_beside: false,
            generation: 0,
            wrote: false,
            ran_on: 0,
            asking: false,
        }
    }

    /// Where the session is bound.
    pub(super) fn held(&self) -> Way {
        let session = self.pins.session();
        match (session.pins.is_empty() || session.place == Place::Source, &self.beside) {
            (true, _) => Way::Main,
            (false, Some(_)) => Way::Beside,
            (false, None) => Way::Gone,
        }
    }

    /// Where a routed statement runs.
    pub(super) fn way(&self, route: &Route<'_>) -> Way {
        // Values of an earlier statement are where that ran. But a write belongs to the source.
        let only_asks = matches!(
            route.kind,
            Kind::Into | Kind::Session | Kind::SessionValue | Kind::UserVariable
        );
        let asks_beside = match route.effect.needs {
            Some(Needs::LastInsertId) => only_asks && self.inserted_beside,
            Some(Needs::Previous) => only_asks,
            None => false,
        };
        match route.target {
            // A hint that asks for the connection of the statement before.
            Target::Held if route.why == Why::Hint && self.beside.is_some() => Way::Beside,
            // By a statement, or by a method of the session, which is about the main connection.
            Target::Held => self.held(),
            Target::Source if asks_beside && self.beside.is_some() => Way::Beside,
            Target::Host(_) | Target::Replica => Way::Other,
            _ => Way::Main,
        }
    }

    /// A statement ended on `beside`.
    pub(super) fn ran_beside(&mut self, effect: &Effect, answer: Answer) {
        self.pins.answered(answer);
        self.inserted_beside |= effect.leaves_insert_id;
    }

    /// Whether nothing but a transaction that wrote nothing binds the session.
    pub(super) fn only_read(&self) -> bool {
        let others = self.pins.pins().without(Pin::Transaction).without(Pin::Unsure);
        others.is_empty() && !self.wrote_beside
    }

    /// Gives back the connection beside the main one, and what bound the session to it.
    pub(super) fn leave(&mut self) {
        self.let_go();
        self.pins.reset();
    }

    /// Gives back the connection beside the main one.
    pub(super) fn let_go(&mut self) {
        self.inserted_beside = false;
        if std::mem::take(&mut self.wrote_beside) {
            self.caller.unplace();
        }
        match self.beside.take() {
            Some(lease) if self.leaves_traces() => lease.discard(),
            lease => drop(lease),
        }
    }

    /// A statement or call is about to run on the main connection.
    pub(super) fn sent_main(&mut self, route: Option<&Route<'_>>) {
        if self.pins.pins().is_empty() {
            self.let_go();
            // Back to the main connection.
            self.pins.reset();
        }
        if let Some(route) = route {
            self.pins.sent(route);
            self.wrote |= route.kind.may_write();
        }
    }

    /// Whether something is bound to the main connection that would be lost without a word with it.
    pub(super) fn holds_main(&self) -> bool {
        self.held() == Way::Main && self.leaves_traces()
    }

    /// Nobody can be asked for the position of the last write: its end was not seen.
    pub(super) fn give_up_write(&mut self) {
        self.wrote = false;
        self.caller.unplace();
    }

    /// It ended there; `generation` is that of the main connection now, 0 without one.
    pub(super) fn ran_main(
        &mut self,
        route: Option<&Route<'_>>,
        generation: u64,
        flags: Option<ServerFlags>,
    ) {
        if self.held() != Way::Main {
            // It ran past what binds the session elsewhere.
            return;
        }
        if self.generation != generation {
            // What was bound to the connection of before is gone with it.
            self.generation = generation;
            self.pins.reset();
            if let (Some(route), Some(_)) = (route, flags) {
                self.pins.sent(route);
            }
        }
        self.pins.answered(match flags {
            Some(flags) => Answer::Ok(Some(flags)),
            None => Answer::Failed,
        });
    }

    /// Whether what binds the session is unseen by others: it would surprise the next user of the connection.
    /// Transactions do not: the pool sees and ends those, and the session carries autocommit along.
    pub(super) fn leaves_traces(&self) -> bool {
        let seen = [Pin::Transaction, Pin::AutocommitOff, Pin::Unsure];
        !seen.into_iter().fold(self.pins.pins(), Pins::without).is_empty()
    }
}
