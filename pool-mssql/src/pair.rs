//! What all pools of one mirrored pair share in a process: the active side and the learned partner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::address::Address;
use crate::options::MsSqlOptions;

/// One of the two partners. They keep these names through every failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// The configured server.
    Initial,
    /// The failover partner.
    Partner,
}

/// What is known about a pair now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStatus {
    /// Where the last login for writes succeeded. At first [`Side::Initial`].
    pub active: Side,
    /// How often the active side has changed.
    pub generation: u64,
    /// What is dialled as the partner: configured or learned.
    pub partner: Option<Address>,
}

/// The shared state of one pair.
#[derive(Debug)]
pub(crate) struct Pair {
    on_partner: AtomicBool,
    generation: AtomicU64,
    /// What is dialled as the partner. Copied out: the lock is never held across an await.
    partner: Mutex<Option<Address>>,
}

impl Pair {
    /// The state for these options, shared with every other pool in this process that has the same
    /// servers, database and user. `None` if the options describe no pair.
    pub(crate) fn shared(options: &MsSqlOptions) -> Option<Arc<Self>> {
        if !options.is_pair() {
            return None;
        }
        let lower = |address: &Address| address.to_string().to_ascii_lowercase();
        let key = Key {
            server: lower(options.server.as_ref()?),
            partner: options.partner.as_ref().map(lower),
            database: options.database.clone(),
            user: options.user.clone(),
            source: options.partner_source as u8,
        };
        let mut all = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = all.get(&key).and_then(Weak::upgrade) {
            return Some(pair);
        }
        all.retain(|_, pair| pair.strong_count() > 0);
        let pair = Arc::new(Self::new(options.partner.clone()));
        all.insert(key, Arc::downgrade(&pair));
        Some(pair)
    }

    fn new(partner: Option<Address>) -> Self {
        Self {
            on_partner: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            partner: Mutex::new(partner),
        }
    }

    /// A login for writes succeeded on this side. True if that is news.
    pub(crate) fn succeeded(&self, side: Side) -> bool {
        let on_partner = side == Side::Partner;
        let flipped = self.on_partner.swap(on_partner, Ordering::AcqRel) != on_partner;
        if flipped {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        flipped
    }

    pub(crate) fn active(&self) -> Side {
        if self.on_partner.load(Ordering::Acquire) { Side::Partner } else { Side::Initial }
    }

    /// What is dialled as the partner.
    pub(crate) fn partner(&self) -> Option<Address> {
        self.partner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what is dialled as the partner. True if that is news.
    pub(crate) fn set_partner(&self, address: Option<Address>) -> bool {
        let mut partner = self.partner.lock().unwrap_or_else(PoisonError::into_inner);
        let news = *partner != address;
        *partner = address;
        news
    }

    pub(crate) fn status(&self) -> PairStatus {
        PairStatus {
            active: self.active(),
            generation: self.generation.load(Ordering::Acquire),
            partner: self.partner(),
        }
    }
}

/// What makes two configurations the same pair. The password is no part of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    server: String,
    partner: Option<String>,
    database: Option<String>,
    user: Option<String>,
    source: u8,
}

static PAIRS: LazyLock<Mutex<HashMap<Key, Weak<Pair>>>> = LazyLock::new(Mutex::default);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn options(server: &str, user: &str, password: &str) -> MsSqlOptions {
        let options = MsSqlOptions::new(server).unwrap().failover_partner("pair-b").unwrap();
        options.database("Sales").credentials(user, password)
    }

    #[test]
    fn the_same_configuration_shares_its_state_whatever_the_password() {
        let one = Pair::shared(&options("pair-one", "u", "x")).unwrap();
        let same = Pair::shared(&options("PAIR-ONE,1433", "u", "y")).unwrap();
        let other = Pair::shared(&options("pair-one", "v", "x")).unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn the_state_goes_with_the_last_pool() {
        let options = options("pair-two", "u", "x");
        let pair = Pair::shared(&options).unwrap();
        pair.succeeded(Side::Partner);
        drop(pair);
        assert_eq!(Pair::shared(&options).unwrap().active(), Side::Initial);
    }

    #[test]
    fn only_a_change_of_sides_starts_a_generation() {
        let pair = Pair::new(None);
        assert!(!pair.succeeded(Side::Initial));
        assert!(pair.succeeded(Side::Partner));
        assert!(!pair.succeeded(Side::Partner));
        assert!(pair.succeeded(Side::Initial));
        assert_eq!(pair.status().generation, 2);
    }

    #[test]
    fn a_single_server_is_no_pair() {
        assert!(Pair::shared(&MsSqlOptions::new("pair-three").unwrap()).is_none());
    }
}
