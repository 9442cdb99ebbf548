//! The mirrored policy with what the process knows about the pair.

use std::sync::Arc;

use pool_core::failover::{FailoverPlan, FailoverPolicy, Mirrored, View};
use pool_core::host::HostId;

use crate::pair::{Pair, Side};

const INITIAL: HostId = HostId::new(0);
const PARTNER: HostId = HostId::new(1);

/// Runs [`Mirrored`] over the hosts that are part of a pair now, starting on the side on which the last
/// login for writes succeeded in any pool of the same configuration.
///
/// Without a known partner it is the policy of one server: no alternation. Further hosts (readable
/// secondaries, the read route of a listener) are never walked to.
#[derive(Debug)]
pub(crate) struct PairPolicy {
    pub(crate) inner: Mirrored,
    pub(crate) pair: Option<Arc<Pair>>,
}

impl FailoverPolicy for PairPolicy {
    fn plan(&self, view: &View<'_>) -> Box<dyn FailoverPlan> {
        let partner_known = self.pair.as_ref().is_some_and(|pair| pair.partner().is_some());
        let in_pair = |id| id == INITIAL || (id == PARTNER && partner_known);
        let hosts: Vec<_> = view.hosts.iter().copied().filter(|host| in_pair(host.id)).collect();
        let active = match self.pair.as_ref().map(|pair| pair.active()) {
            Some(Side::Partner) if partner_known => PARTNER,
            _ => INITIAL,
        };
        self.inner.plan(&View { hosts: &hosts, current: Some(active), ..*view })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use pool_core::failover::{HostView, Step};
    use pool_core::host::Role;

    use super::*;
    use crate::options::{MsSqlOptions, PartnerSource};

    fn first_attempt(policy: &PairPolicy) -> (HostId, Duration) {
        let hosts: Vec<_> = (0..3)
            .map(|id| HostView { id: HostId::new(id), role: Role::Unknown, blocked_for: None })
            .collect();
        let view = View {
            hosts: &hosts,
            current: Some(HostId::new(2)),
            left_source_at: None,
            statements: 0,
        };
        match policy.plan(&view).next(Duration::ZERO, None) {
            Step::Try { host, budget } => (host, budget),
            other => panic!("{other:?}"),
        }
    }

    fn policy(partner: Option<&str>, server: &str) -> PairPolicy {
        let options = MsSqlOptions::new(server).unwrap().database("d");
        let options = match partner {
            Some(partner) => options.failover_partner(partner).unwrap(),
            None => options.partner_source(PartnerSource::Server),
        };
        PairPolicy { inner: Mirrored::default(), pair: Pair::shared(&options) }
    }

    #[test]
    fn a_walk_starts_where_the_last_login_succeeded_in_any_pool() {
        let one = policy(Some("policy-b"), "policy-a");
        let two = policy(Some("policy-b"), "policy-a");
        assert_eq!(first_attempt(&one), (INITIAL, Duration::from_millis(1200)));
        two.pair.as_ref().unwrap().succeeded(Side::Partner);
        assert_eq!(first_attempt(&one), (PARTNER, Duration::from_millis(1200)));
    }

    #[test]
    fn without_a_known_partner_the_server_gets_all_the_time() {
        let policy = policy(None, "policy-c");
        assert_eq!(first_attempt(&policy), (INITIAL, Duration::from_secs(15)));
        let learned = crate::Address::parse("policy-d").unwrap();
        policy.pair.as_ref().unwrap().set_partner(Some(learned));
        assert_eq!(first_attempt(&policy), (INITIAL, Duration::from_millis(1200)));
    }

    #[test]
    fn a_partner_that_was_cleared_is_not_started_on() {
        let policy = policy(Some("policy-f"), "policy-e");
        let pair = policy.pair.as_ref().unwrap();
        pair.succeeded(Side::Partner);
        pair.set_partner(None);
        assert_eq!(first_attempt(&policy), (INITIAL, Duration::from_secs(15)));
    }
}
