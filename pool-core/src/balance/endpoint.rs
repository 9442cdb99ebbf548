//! Which hosts may serve a read at all: the read/write attribute of an endpoint, read weights and filters.

use std::fmt;
use std::time::Duration;

use crate::balance::Candidate;
use crate::host::{HostId, MAX_WEIGHT, Role};
use crate::lag::Lag;

/// The read/write attribute (`rds-read-weights`, read/write attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum EndpointMode {
    /// Reads only. The source takes no part, whatever happens.
    ReadOnly,
    /// Writes go to the source, reads are split by weight. Needs a source and at least one replica.
    #[default]
    ReadWrite,
}

impl EndpointMode {
    /// Whether the endpoint serves writes.
    #[must_use]
    pub const fn serves_writes(self) -> bool {
        matches!(self, Self::ReadWrite)
    }

    /// Whether these hosts suffice for the endpoint.
    ///
    /// # Errors
    ///
    /// The missing role: a replica for both modes, a source for [`EndpointMode::ReadWrite`].
    pub fn check(self, roles: impl IntoIterator<Item = Role>) -> Result<(), Role> {
        let (mut source, mut replica) = (false, false);
        for role in roles {
            source |= role == Role::Source;
            replica |= role == Role::Replica;
        }
        if self == Self::ReadWrite && !source {
            return Err(Role::Source);
        }
        if replica { Ok(()) } else { Err(Role::Replica) }
    }
}

/// Where read weights come from (`rds-read-weights`, read weight allocation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum WeightMethod {
    /// Given by the pool, equal or by the size of the host: see [`Weights`](crate::weights::Weights). The
    /// source has 0; a new replica takes part at once.
    Automatic,
    /// Set by hand. A new replica has 0 until it is given a weight.
    #[default]
    Custom,
}

impl WeightMethod {
    /// The read weight of a host that joins.
    ///
    /// `set` is what was configured for it, if anything; `size` its size, for example its connection limit.
    #[must_use]
    pub fn weight(self, role: Role, set: Option<u32>, size: u32) -> u32 {
        match self {
            Self::Automatic if role == Role::Source => 0,
            Self::Automatic => size.clamp(1, MAX_WEIGHT),
            Self::Custom => set.unwrap_or(0).min(MAX_WEIGHT),
        }
    }
}

/// The rules of one endpoint for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointRules {
    /// The read/write attribute. Defaults to [`EndpointMode::ReadWrite`].
    pub mode: EndpointMode,
    /// The largest lag of a replica that serves reads. Defaults to `None`: not checked. Zero admits only
    /// replicas without any lag; unknown lag is over every limit. The source is never checked.
    pub max_lag: Option<Duration>,
    /// Whether the source, whatever its weight, serves reads when no replica can. Defaults to `true`. Has
    /// no effect on a read-only endpoint.
    pub read_fallback_primary: bool,
    /// Whether the source serves reads as a fallback only, whatever its weight (a read that asks for a
    /// replica). Defaults to `false`.
    pub only_replicas: bool,
}

impl Default for EndpointRules {
    fn default() -> Self {
        Self {
            mode: EndpointMode::ReadWrite,
            max_lag: None,
            read_fallback_primary: true,
            only_replicas: false,
        }
    }
}

/// What is known about a host when a read looks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The host.
    pub id: HostId,
    /// Its role now.
    pub role: Role,
    /// Its read weight now.
    pub weight: u32,
    /// Leases granted and not yet returned.
    pub active: u32,
    /// Smoothed time of recent work there; `None` while nothing was measured.
    pub latency: Option<Duration>,
    /// Whether it is being drained or was removed.
    pub drained: bool,
    /// Whether it is kept behind on purpose. Such a host has no weight.
    pub delayed: bool,
    /// How long it is still blocked after failures; `None` if it is not.
    pub blocked_for: Option<Duration>,
    /// Whether a blocked host may be tried again now.
    pub probe_due: bool,
    /// How far it is behind.
    pub lag: Lag,
    /// Whether this acquire already tried it in vain.
    pub tried: bool,
    /// Whether it is at its connection limit with nothing idle.
    pub full: bool,
}

impl HostFacts {
    /// A healthy host with nothing running on it.
    #[must_use]
    pub const fn new(id: HostId, role: Role, weight: u32) -> Self {
        Self {
            id,
            role,
            weight,
            active: 0,
            latency: None,
            drained: false,
            delayed: false,
            blocked_for: None,
            probe_due: false,
            lag: Lag::NotAsked,
            tried: false,
            full: false,
        }
    }

    /// The host as the balance policy sees it.
    #[must_use]
    pub const fn candidate(&self) -> Candidate {
        Candidate { id: self.id, weight: self.weight, active: self.active, latency: self.latency }
    }
}

/// Whether a host may serve a read, or the first filter that stops it, in the order of the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Eligibility {
    /// It may.
    Eligible,
    /// The endpoint does not use hosts of this role for reads.
    WrongRole(Role),
    /// It is being drained or was removed.
    Drained,
    /// It is kept behind on purpose, so it has no read weight.
    Delayed,
    /// Its read weight is 0.
    WeightZero,
    /// It is blocked after failures, for this long.
    Blocked(Duration),
    /// It is too far behind, or its lag is not known.
    Lagging(Lag),
    /// This acquire already tried it.
    Tried,
    /// It is at its connection limit.
    Full,
}

impl Eligibility {
    /// The label used in metrics, logs and `explain`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::WrongRole(_) => "wrong-role",
            Self::Drained => "drained",
            Self::Delayed => "delayed",
            Self::WeightZero => "weight-zero",
            Self::Blocked(_) => "blocked",
            Self::Lagging(_) => "lagging",
            Self::Tried => "tried",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Eligibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongRole(role) => write!(f, "wrong role: {role}"),
            Self::Delayed => f.write_str("kept behind on purpose"),
            Self::WeightZero => f.write_str("weight 0"),
            Self::Blocked(left) => write!(f, "blocked for {left:?}"),
            Self::Lagging(lag) => write!(f, "lag {lag}"),
            Self::Tried => f.write_str("already tried"),
            Self::Full => f.write_str("at its connection limit"),
            Self::Eligible | Self::Drained => f.write_str(self.as_str()),
        }
    }
}

/// Where the hosts handed to the balance policy come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Choice {
    /// They passed every filter.
    Eligible,
    /// They passed every filter but their connection limit: wait for a slot of one of them.
    WaitForSlot,
    /// Nothing passed. These are blocked, but may be tried again now.
    ProbeDue,
    /// No replica can serve. This is the source, whatever its weight (do not ask the balance policy).
    Source(HostId),
    /// Nothing may serve: fail at once, with [`verdict`] of each host as the reason.
    Nobody,
}

/// Finds the hosts that may serve a read (section 6 of the routing rules). `push` gets them in list order;
/// it is not called for [`Choice::Source`] and [`Choice::Nobody`]. Does not allocate.
///
/// Filters, in order: role, drained, kept behind, weight 0, blocked, lag, already tried, connection limit.
/// If nothing is left: hosts that only lack a slot; blocked hosts that may be tried again; the source of a
/// read/write endpoint, if the rules allow it; nobody. A replica of weight 0 is never a fallback.
pub fn eligible(
    hosts: impl IntoIterator<Item = HostFacts, IntoIter: Clone>,
    rules: &EndpointRules,
    mut push: impl FnMut(Candidate),
) -> Choice {
    let hosts = hosts.into_iter();
    let mut gather = |wanted: &dyn Fn(&HostFacts) -> bool| {
        let mut found = false;
        for host in hosts.clone().filter(|host| wanted(host)) {
            found = true;
            push(host.candidate());
        }
        found
    };
    if gather(&|host| verdict(host, rules) == Eligibility::Eligible) {
        return Choice::Eligible;
    }
    if gather(&|host| verdict(host, rules) == Eligibility::Full) {
        return Choice::WaitForSlot;
    }
    if gather(&|host| {
        let unblocked = HostFacts { blocked_for: None, ..*host };
        host.blocked_for.is_some()
            && host.probe_due
            && verdict(&unblocked, rules) == Eligibility::Eligible
    }) {
        return Choice::ProbeDue;
    }
    if rules.mode == EndpointMode::ReadWrite
        && rules.read_fallback_primary
        && let Some(source) = hosts.clone().find(is_usable_source)
    {
        return Choice::Source(source.id);
    }
    Choice::Nobody
}

/// Whether this host may serve a read, and if not, why.
#[must_use]
pub fn verdict(host: &HostFacts, rules: &EndpointRules) -> Eligibility {
    let wrong = match rules.mode {
        EndpointMode::ReadOnly => host.role != Role::Replica,
        EndpointMode::ReadWrite => rules.only_replicas && host.role == Role::Source,
    };
    if wrong {
        return Eligibility::WrongRole(host.role);
    }
    if host.drained {
        return Eligibility::Drained;
    }
    if host.delayed {
        return Eligibility::Delayed;
    }
    if host.weight == 0 {
        return Eligibility::WeightZero;
    }
    if let Some(left) = host.blocked_for {
        return Eligibility::Blocked(left);
    }
    if host.role != Role::Source && !host.lag.within(rules.max_lag) {
        return Eligibility::Lagging(host.lag);
    }
    if host.tried {
        return Eligibility::Tried;
    }
    if host.full {
        return Eligibility::Full;
    }
    Eligibility::Eligible
}

/// Whether the source may stand in for the replicas. A full one may: the caller waits for a slot there.
fn is_usable_source(host: &HostFacts) -> bool {
    host.role == Role::Source
        && !host.drained
        && !host.tried
        && (host.blocked_for.is_none() || host.probe_due)
}
