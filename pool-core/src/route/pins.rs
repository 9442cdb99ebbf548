//! What binds a session to one connection.

use std::fmt;

/// One reason to stay on a connection (section 9 of the routing rules), the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Pin {
    /// An open transaction; ends with it.
    Transaction,
    /// Autocommit is off, which is an open transaction at any time.
    AutocommitOff,
    /// A named lock; ends when it is released.
    NamedLock,
    /// Table locks or the global read lock; ends with `UNLOCK TABLES`.
    TableLock,
    /// A temporary table; ends when it is dropped.
    TemporaryTable,
    /// A statement prepared as SQL, or a cursor; ends when it is deallocated.
    Prepared,
    /// A user variable; ends with the lease.
    UserVariable,
    /// A setting of the session, including the default database and locks of the locking service; ends with
    /// the lease.
    SessionSetting,
    /// The state of the connection is unknown after an error; ends with the next success.
    Unsure,
    /// Asks for the id of the last insert: binds this one statement to the insert's connection.
    LastInsertId,
    /// Asks for a value the previous statement left: binds this one statement to its connection.
    FoundRows,
}

impl Pin {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AutocommitOff => "autocommit-off",
            Self::FoundRows => "found-rows",
            Self::LastInsertId => "last-insert-id",
            Self::NamedLock | Self::TableLock => "lock",
            Self::Prepared => "prepared",
            Self::SessionSetting => "session-setting",
            Self::TemporaryTable => "temporary-table",
            Self::Transaction => "transaction",
            Self::Unsure => "unsure",
            Self::UserVariable => "user-variable",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// In the order of their discriminants.
    pub(super) const ALL: [Self; 11] = [
        Self::Transaction,
        Self::AutocommitOff,
        Self::NamedLock,
        Self::TableLock,
        Self::TemporaryTable,
        Self::Prepared,
        Self::UserVariable,
        Self::SessionSetting,
        Self::Unsure,
        Self::LastInsertId,
        Self::FoundRows,
    ];
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of pins.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Pins(u16);

impl Pins {
    /// No pin.
    pub const NONE: Self = Self(0);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, pin: Pin) -> Self {
        Self(self.0 | pin.bit())
    }

    /// This set less one.
    #[must_use]
    pub const fn without(self, pin: Pin) -> Self {
        Self(self.0 & !pin.bit())
    }

    /// Everything in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty: the next statement may go elsewhere.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds this pin.
    #[must_use]
    pub const fn contains(self, pin: Pin) -> bool {
        self.0 & pin.bit() != 0
    }

    /// The strongest pin.
    #[inline]
    #[must_use]
    pub fn strongest(self) -> Option<Pin> {
        // The bits are in the order of strength; without any, the place is beyond the list.
        Pin::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    /// The pins, strongest first.
    pub fn iter(self) -> impl Iterator<Item = Pin> {
        Pin::ALL.into_iter().filter(move |pin| self.contains(*pin))
    }
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Where a pinned session is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// On a host that was named.
    Host,
    /// On a replica.
    Replica,
    /// On the source.
    #[default]
    Source,
}

/// What the router must know about a session. The default is a fresh one: autocommit, nothing pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionState {
    /// What pins it.
    pub pins: Pins,
    /// Where it is held, if it is pinned.
    pub place: Place,
}

impl SessionState {
    /// A fresh session: autocommit, nothing pinned.
    #[must_use]
    pub const fn new() -> Self {
        Self { pins: Pins::NONE, place: Place::Source }
    }

    /// Adds a pin.
    #[must_use]
    pub const fn pinned_by(mut self, pin: Pin) -> Self {
        self.pins = self.pins.with(pin);
        self
    }

    /// Sets where it is held.
    #[must_use]
    pub const fn held_on(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}
