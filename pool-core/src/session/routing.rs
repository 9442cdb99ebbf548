//! What a session keeps to route its statements.

use crate::lease::Lease;
use crate::pool::Pool;
use crate::route::{Answer, Effect, Needs, Pin, PinState, Pins, Place, Route, ServerFlags, Target};
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
    /// The main connection that `pins` are about.
    generation: u64,
    /// Whether the main connection wrote something that the caller does not know of yet.
    pub(super) wrote: bool,
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
            generation: 0,
            wrote: false,
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
        let is_free = self.pins.pins().is_empty();
        // Values of an earlier statement are where that ran.
        let asks_beside = match route.effect.needs {
            Some(Needs::LastInsertId) => self.inserted_beside,
            Some(Needs::Previous) => true,
            None => false,
        };
        match route.target {
            Target::Held if !is_free => self.held(),
            // A hint that asks for the connection of the statement before.
            Target::Held if self.beside.is_some() => Way::Beside,
            Target::Source if asks_beside && self.beside.is_some() => Way::Beside,
            Target::Host(_) | Target::Replica => Way::Other,
            _ => Way::Main,
        }
    }

    /// A statement is about to run on `beside` or another connection.
    pub(super) fn sent_beside(&mut self, route: &Route<'_>) {
        self.pins.sent(route);
    }

    /// A statement ran on this connection, which is kept.
    pub(super) fn ran_beside(&mut self, lease: Lease<D>, effect: &Effect, answer: Answer) {
        self.pins.answered(answer);
        self.inserted_beside |= effect.leaves_insert_id;
        self.beside = Some(lease);
    }

    /// Gives back the connection beside the main one, and what bound the session to it.
    pub(super) fn leave(&mut self) {
        self.let_go();
        self.pins.reset();
    }

    /// Gives back the connection beside the main one.
    pub(super) fn let_go(&mut self) {
        self.inserted_beside = false;
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

    /// It ended there; `generation` is that of the main connection now, 0 without one.
    pub(super) fn ran_main(
        &mut self,
        route: Option<&Route<'_>>,
        generation: u64,
        flags: Option<ServerFlags>,
    ) {
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

    /// Whether what binds the session would surprise the next user of its connection. Transactions do not:
    /// the pool sees and ends those.
    pub(super) fn leaves_traces(&self) -> bool {
        let seen = [Pin::Transaction, Pin::AutocommitOff, Pin::Unsure];
        !seen.into_iter().fold(self.pins.pins(), Pins::without).is_empty()
    }
}
