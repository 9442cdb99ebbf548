//! Hosts and their roles.

use std::fmt;
use std::sync::Arc;

/// The identity of a host inside one cluster.
///
/// Ids are given out in list order, starting at 0, and never reused while the cluster lives, so a policy
/// may keep state per id in a plain vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HostId(u32);

impl HostId {
    /// The host at this place of the list.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The place, usable as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a host is in its cluster, as configured or as a probe found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Role {
    /// Serves reads only: a replica, a mirror, a secondary.
    Replica,
    /// Serves writes: a source, a principal, a primary.
    Source,
    /// Not known (yet, or after a demotion).
    Unknown,
}

impl Role {
    /// The label used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Source => "source",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The largest read weight (`rds-read-weights`: weights are integers from 0 to 10 000).
pub const MAX_WEIGHT: u32 = 10_000;

/// The read weight of a replica that was given none. The source then has weight 0: it serves reads only
/// when no replica can (`rds-read-weights`, table of read/write attributes, automatic weights).
pub const DEFAULT_WEIGHT: u32 = 100;

/// One server of a cluster: where it is, what it is expected to be, how many reads it should get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    id: HostId,
    name: Arc<str>,
    address: Arc<str>,
    port: u16,
    role: Role,
    weight: Option<u32>,
}

impl Host {
    /// A host reached at `address:port`, named so in logs and metrics.
    ///
    /// The role defaults to [`Role::Unknown`], the read weight to an automatic one. The cluster gives
    /// the id when the host joins it.
    #[must_use]
    pub fn new(address: &str, port: u16) -> Self {
        let name = if address.contains(':') {
            format!("[{address}]:{port}")
        } else {
            format!("{address}:{port}")
        };
        Self {
            id: HostId::new(0),
            name: name.into(),
            address: address.into(),
            port,
            role: Role::Unknown,
            weight: None,
        }
    }

    /// Sets the name used in logs, metrics, errors and host hints. Defaults to `address:port`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the expected role. Defaults to [`Role::Unknown`].
    #[must_use]
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Sets the read weight, 0 to [`MAX_WEIGHT`]; larger values are reported when the pool is built.
    /// Defaults to what the pool's [`Weights`](crate::weights::Weights) say: [`DEFAULT_WEIGHT`] on replicas and
    /// 0 on the source if nothing else is set there. A host of weight 0 is never chosen by balancing.
    #[must_use]
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Sets the id. The cluster does this; policies under test may.
    #[must_use]
    pub fn with_id(mut self, id: HostId) -> Self {
        self.id = id;
        self
    }

    /// The id inside the cluster.
    #[must_use]
    pub fn id(&self) -> HostId {
        self.id
    }

    /// The name used in logs, metrics and errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, shared.
    #[must_use]
    pub fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// The host name or IP address to dial (IPv6 without brackets).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The TCP port to dial.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The expected role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The read weight at start; `None` is an automatic one.
    #[must_use]
    pub fn weight(&self) -> Option<u32> {
        self.weight
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_bracketed_in_the_name_only() {
        let host = Host::new("::1", 3306);
        assert_eq!(host.name(), "[::1]:3306");
        assert_eq!(host.address(), "::1");
    }
}
