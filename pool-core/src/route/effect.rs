//! What a statement does to its session.

use std::fmt;

use crate::route::{Pin, Pins};

/// What a statement does to its session if it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effect {
    /// Pins that begin and end, in the order of the text.
    pub changes: Changes,
    /// A value left by an earlier statement that this one asks for.
    pub needs: Option<Needs>,
    /// Whether it may do more than can be seen (a procedure, several statements, unknown text): only the
    /// server knows afterwards whether a transaction is open.
    pub opaque: bool,
    /// Whether it may leave an insert id behind that a later statement asks for.
    pub leaves_insert_id: bool,
}

/// A value that lives on the connection of an earlier statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// The id of the last insert: the connection of the last write.
    LastInsertId,
    /// Row count, found rows, warnings: the connection of the previous statement.
    Previous,
}

impl Needs {
    /// The pin that binds the statement.
    #[must_use]
    pub const fn pin(self) -> Pin {
        match self {
            Self::LastInsertId => Pin::LastInsertId,
            Self::Previous => Pin::FoundRows,
        }
    }
}

/// One pin that begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It begins. Pins that nest (named locks, temporary tables, prepared statements) carry a hash of the
    /// name, 0 if the name is not in the text.
    Begin(Pin, u32),
    /// It ends; `None` ends all of its kind, `Some` the one of that name.
    End(Pin, Option<u32>),
}

/// Up to [`Changes::MAX`] changes in order, and whatever pins began beyond.
///
/// Past the limit a pin that begins lasts as long as the lease and one that ends is not noticed: the session
/// may stay pinned for longer than needed, never shorter.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Packed, 0 is none: most statements change nothing, and this is copied with every route.
    list: [u64; Self::MAX],
    beyond: Pins,
}

impl Changes {
    /// How many changes of one text are told apart.
    pub const MAX: usize = 4;

    /// Adds a change at the end.
    pub fn push(&mut self, change: Change) {
        if let Some(free) = self.list.iter_mut().find(|slot| **slot == 0) {
            *free = pack(change);
        } else if let Change::Begin(pin, _) = change {
            self.beyond = self.beyond.with(pin);
        }
    }

    /// The changes in order.
    pub fn iter(&self) -> impl Iterator<Item = Change> + '_ {
        self.list.iter().map_while(|slot| unpack(*slot))
    }

    /// Pins that began beyond the limit.
    #[must_use]
    pub const fn beyond(&self) -> Pins {
        self.beyond
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list[0] == 0
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).entries(self.beyond.iter()).finish()
    }
}

const BEGIN: u64 = 1;
const END_ONE: u64 = 2;
const END_ALL: u64 = 3;

/// The name in the upper half, then the pin, then what happens to it.
fn pack(change: Change) -> u64 {
    let (what, pin, name) = match change {
        Change::Begin(pin, name) => (BEGIN, pin, name),
        Change::End(pin, Some(name)) => (END_ONE, pin, name),
        Change::End(pin, None) => (END_ALL, pin, 0),
    };
    u64::from(name) << 32 | (pin as u64) << 8 | what
}

fn unpack(packed: u64) -> Option<Change> {
    let pin = *Pin::ALL.get((packed >> 8 & 0xff) as usize)?;
    let name = (packed >> 32) as u32;
    match packed & 0xff {
        BEGIN => Some(Change::Begin(pin, name)),
        END_ONE => Some(Change::End(pin, Some(name))),
        END_ALL => Some(Change::End(pin, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_survives_packing() {
        for pin in Pin::ALL {
            for name in [0, 1, u32::MAX] {
                for change in
                    [Change::Begin(pin, name), Change::End(pin, Some(name)), Change::End(pin, None)]
                {
                    assert_eq!(unpack(pack(change)), Some(change));
                }
            }
        }
        assert_eq!(unpack(0), None);
    }
}
