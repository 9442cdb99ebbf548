//! What one read asks of its host.

use std::time::Duration;

use crate::balance::endpoint::EndpointRules;
use crate::host::HostId;
use crate::read::Tried;
use crate::route::{Route, Target};

/// What one read asks of its host, beyond the rules of the endpoint. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadWish {
    pub(super) tried: Tried,
    only_replicas: bool,
    lag: LagRule,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LagRule {
    Any,
    AtMost(Duration),
    #[default]
    Endpoint,
}

impl ReadWish {
    /// Asks for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a routed statement asks for: its hint comes before weights and lag, and may set a limit of its
    /// own for the lag (sections 3 and 6 of the routing rules).
    #[must_use]
    pub fn of(route: &Route<'_>) -> Self {
        let hinted = route.is_hinted() && route.target == Target::Replica;
        let lag = match route.max_lag {
            Some(limit) => LagRule::AtMost(limit),
            None if hinted => LagRule::Any,
            None => LagRule::Endpoint,
        };
        Self { tried: Tried::new(), only_replicas: hinted, lag }
    }

    /// Leaves out a host that this caller already tried in vain.
    #[must_use]
    pub fn without(mut self, host: HostId) -> Self {
        self.tried.push(host);
        self
    }

    /// Keeps the source out, whatever its weight, while a replica can serve.
    #[must_use]
    pub fn only_replicas(mut self) -> Self {
        self.only_replicas = true;
        self
    }

    /// Admits replicas up to this lag, instead of the endpoint's limit.
    #[must_use]
    pub fn max_lag(mut self, limit: Duration) -> Self {
        self.lag = LagRule::AtMost(limit);
        self
    }

    /// Admits replicas whatever their lag.
    #[must_use]
    pub fn any_lag(mut self) -> Self {
        self.lag = LagRule::Any;
        self
    }

    /// The rules of the endpoint with this wish.
    pub(crate) fn rules(&self, endpoint: &EndpointRules) -> EndpointRules {
        let max_lag = match self.lag {
            LagRule::Any => None,
            LagRule::AtMost(limit) => Some(limit),
            LagRule::Endpoint => endpoint.max_lag,
        };
        EndpointRules { max_lag, only_replicas: self.only_replicas, ..*endpoint }
    }
}
