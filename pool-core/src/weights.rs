//! Where the read weight of a host comes from that was given none.

use std::fmt;
use std::sync::Arc;

use crate::balance::endpoint::WeightMethod;
use crate::host::{DEFAULT_WEIGHT, Host, MAX_WEIGHT, Role};

/// The rule for the read weights of hosts without one of their own (`rds-read-weights`, read weight
/// allocation).
///
/// A weight set by hand ([`Host::with_weight`](crate::host::Host::with_weight), `Pool::set_weight`) wins.
/// Automatic weights follow the host: a new replica takes part at once, a source that becomes a replica
/// gets the weight of one. A host that is kept behind on purpose (a configured replication delay) has 0,
/// even by hand, where a probe can tell and as long as it does. Changes count from the next checkout on
/// and disturb no lease.
#[derive(Clone, Default)]
pub struct Weights(Rule);

#[derive(Clone, Default)]
enum Rule {
    Capacity,
    Custom,
    #[default]
    Equal,
    User(Arc<dyn Fn(&HostInfo<'_>) -> u32 + Send + Sync>),
}

/// What is known about a host that needs a weight.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HostInfo<'a> {
    /// Its name, address and port, as configured.
    pub host: &'a Host,
    /// The role that the weight is for.
    pub role: Role,
    /// How many connections the server takes; `None` while no probe has found out.
    pub capacity: Option<u32>,
}

impl<'a> HostInfo<'a> {
    /// A host in this role, of a size that is not known.
    #[must_use]
    pub const fn new(host: &'a Host, role: Role) -> Self {
        Self { host, role, capacity: None }
    }

    /// Sets how many connections the server takes.
    #[must_use]
    pub const fn with_capacity(mut self, connections: Option<u32>) -> Self {
        self.capacity = connections;
        self
    }
}

impl Weights {
    /// [`DEFAULT_WEIGHT`] for every host but the source, which has 0. The default.
    #[must_use]
    pub fn automatic() -> Self {
        Self(Rule::Equal)
    }

    /// As many as the server takes connections (MySQL's `max_connections`), 1 to [`MAX_WEIGHT`]; the
    /// source has 0. [`DEFAULT_WEIGHT`] until a probe has found out, or where it cannot.
    #[must_use]
    pub fn by_capacity() -> Self {
        Self(Rule::Capacity)
    }

    /// What `weight` says, at most [`MAX_WEIGHT`]. It decides about the source as well: give it 0 to keep
    /// reads away while a replica can serve them.
    ///
    /// It is asked for every role that the host may take, when the host joins and when a probe finds another
    /// size; not at checkout.
    ///
    /// ```
    /// use pool_core::host::Role;
    /// use pool_core::weights::Weights;
    ///
    /// // 50 per hundred connections, limited to 100…1000; nothing on the source.
    /// let weights = Weights::by(|host| match (host.role, host.capacity) {
    ///     (Role::Source, _) => 0,
    ///     (_, Some(connections)) => (connections / 2).clamp(100, 1000),
    ///     (_, None) => 100,
    /// });
    /// # let _ = weights;
    /// ```
    #[must_use]
    pub fn by(weight: impl Fn(&HostInfo<'_>) -> u32 + Send + Sync + 'static) -> Self {
        Self(Rule::User(Arc::new(weight)))
    }

    /// 0 until the host is given a weight by hand.
    #[must_use]
    pub fn custom() -> Self {
        Self(Rule::Custom)
    }

    /// The weight of a host that was given none.
    #[must_use]
    pub fn weight(&self, info: &HostInfo<'_>) -> u32 {
        let automatic = |size| WeightMethod::Automatic.weight(info.role, None, size);
        match &self.0 {
            Rule::Capacity => automatic(info.capacity.unwrap_or(DEFAULT_WEIGHT)),
            Rule::Custom => WeightMethod::Custom.weight(info.role, None, 0),
            Rule::Equal => automatic(DEFAULT_WEIGHT),
            Rule::User(weight) => weight(info).min(MAX_WEIGHT),
        }
    }
}

impl From<WeightMethod> for Weights {
    fn from(method: WeightMethod) -> Self {
        match method {
            WeightMethod::Automatic => Self::automatic(),
            WeightMethod::Custom => Self::custom(),
        }
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Rule::Capacity => "Weights(by capacity)",
            Rule::Custom => "Weights(custom)",
            Rule::Equal => "Weights(automatic)",
            Rule::User(_) => "Weights(by a function)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_of_a_host_that_was_given_none() {
        use Role::{Replica, Source, Unknown};
        let by_name = Weights::by(|info| match info.host.name() {
            "big" => 70_000,
            _ if info.role == Source => 7,
            _ => info.capacity.unwrap_or(1) / 10,
        });
        let table = [
            (Weights::default(), "h", Replica, Some(500), 100),
            (Weights::automatic(), "h", Unknown, None, 100),
            (Weights::automatic(), "h", Source, Some(500), 0),
            (Weights::by_capacity(), "h", Replica, Some(500), 500),
            (Weights::by_capacity(), "h", Replica, Some(0), 1),
            (Weights::by_capacity(), "h", Replica, Some(100_000), MAX_WEIGHT),
            (Weights::by_capacity(), "h", Replica, None, 100),
            (Weights::by_capacity(), "h", Unknown, Some(151), 151),
            (Weights::by_capacity(), "h", Source, Some(500), 0),
            (by_name.clone(), "h", Replica, Some(500), 50),
            (by_name.clone(), "h", Source, Some(500), 7),
            (by_name.clone(), "h", Replica, None, 0),
            (by_name, "big", Replica, None, MAX_WEIGHT),
            (Weights::custom(), "h", Replica, Some(500), 0),
            (WeightMethod::Automatic.into(), "h", Replica, None, 100),
            (WeightMethod::Custom.into(), "h", Replica, None, 0),
        ];
        for (weights, name, role, capacity, expected) in table {
            let host = Host::new("127.0.0.1", 1).named(name);
            let info = HostInfo::new(&host, role).with_capacity(capacity);
            assert_eq!(weights.weight(&info), expected, "{weights:?} {name} {role} {capacity:?}");
        }
    }
}
