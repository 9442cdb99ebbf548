//! Everything a test can switch on a running server.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::faults::{Fault, Refusal, Role, Route, SecondaryAccess};
use super::sql_error::SqlError;

/// The switches of one server. Every method takes effect for the next connection, login or
/// request; connections that already hang stay so until they are closed.
#[derive(Debug, Default)]
pub struct Switches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    role: Role,
    mirror_refusal: Refusal,
    inactive: Option<(Refusal, Option<Instant>)>,
    secondary_access: SecondaryAccess,
    fault: Fault,
    failing_logins: VecDeque<SqlError>,
    login_error: Option<SqlError>,
    login_delay: Duration,
    failing_requests: VecDeque<SqlError>,
    request_delay: Duration,
    redirect: Option<Route>,
    read_routing: Vec<Route>,
    next_route: usize,
    partner: Option<String>,
    partner_hidden: bool,
}

impl Switches {
    /// Sets the role. Defaults to [`Role::Standalone`].
    pub fn set_role(&self, role: Role) {
        self.0.lock().role = role;
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.0.lock().role
    }

    /// Sets how a mirror refuses logins. Defaults to [`Refusal::CannotOpen`].
    pub fn set_mirror_refusal(&self, refusal: Refusal) {
        self.0.lock().mirror_refusal = refusal;
    }

    /// Makes the user databases impossible to open, whatever the role, until
    /// [`set_active`](Self::set_active).
    pub fn set_inactive(&self, refusal: Refusal) {
        self.0.lock().inactive = Some((refusal, None));
    }

    /// Makes the user databases impossible to open for a time, as while they fail over.
    pub fn set_inactive_for(&self, refusal: Refusal, period: Duration) {
        self.0.lock().inactive = Some((refusal, Some(Instant::now() + period)));
    }

    /// Ends what [`set_inactive`](Self::set_inactive) began.
    pub fn set_active(&self) {
        self.0.lock().inactive = None;
    }

    /// Sets which logins a secondary takes. Defaults to [`SecondaryAccess::ReadIntentOnly`].
    pub fn set_secondary_access(&self, access: SecondaryAccess) {
        self.0.lock().secondary_access = access;
    }

    /// Sets what happens to new connections. Defaults to [`Fault::None`].
    pub fn set_fault(&self, fault: Fault) {
        self.0.lock().fault = fault;
    }

    /// Answers the next `count` logins with an error, before the credentials are even looked at:
    /// throttling, for example. Adds to what is already planned.
    pub fn fail_next_logins(&self, count: usize, error: &SqlError) {
        let errors = std::iter::repeat_n(error.clone(), count);
        self.0.lock().failing_logins.extend(errors);
    }

    /// Answers every login with an error; `None` ends it.
    pub fn set_login_error(&self, error: Option<SqlError>) {
        self.0.lock().login_error = error;
    }

    /// Waits this long before a login is answered. Defaults to not at all.
    pub fn set_login_delay(&self, delay: Duration) {
        self.0.lock().login_delay = delay;
    }

    /// Answers the next `count` batches and RPCs with an error instead of running them. Class 20
    /// and above closes the connection afterwards. Adds to what is already planned.
    pub fn fail_next_requests(&self, count: usize, error: &SqlError) {
        let errors = std::iter::repeat_n(error.clone(), count);
        self.0.lock().failing_requests.extend(errors);
    }

    /// Waits this long before a batch or RPC runs. Defaults to not at all.
    pub fn set_request_delay(&self, delay: Duration) {
        self.0.lock().request_delay = delay;
    }

    /// Sends every login on to another server; `None` ends it.
    pub fn set_redirect(&self, route: Option<Route>) {
        self.0.lock().redirect = route;
    }

    /// Sends logins with the read-only intent on to these servers in turn, while the role is
    /// [`Role::Primary`]. Defaults to none: they are served here.
    pub fn set_read_routing(&self, routes: Vec<Route>) {
        let mut state = self.0.lock();
        state.read_routing = routes;
        state.next_route = 0;
    }

    /// Sets the partner's name: sent after every login while this is the principal, and shown in
    /// `sys.database_mirroring`. Real servers send a bare `HOST` or `HOST\INSTANCE`.
    pub fn set_partner_name(&self, name: Option<String>) {
        self.0.lock().partner = name;
    }

    /// Sets whether logins announce the partner's name. Defaults to true.
    pub fn set_partner_announced(&self, announced: bool) {
        self.0.lock().partner_hidden = !announced;
    }

    pub(crate) fn fault(&self) -> Fault {
        self.0.lock().fault
    }

    pub(crate) fn login_delay(&self) -> Duration {
        self.0.lock().login_delay
    }

    pub(crate) fn request_delay(&self) -> Duration {
        self.0.lock().request_delay
    }

    pub(crate) fn next_login_error(&self) -> Option<SqlError> {
        let mut state = self.0.lock();
        state.failing_logins.pop_front().or_else(|| state.login_error.clone())
    }

    pub(crate) fn next_request_error(&self) -> Option<SqlError> {
        self.0.lock().failing_requests.pop_front()
    }

    /// Where a login goes instead.
    pub(crate) fn route(&self, read_intent: bool) -> Option<Route> {
        let mut state = self.0.lock();
        if state.redirect.is_some() {
            return state.redirect.clone();
        }
        let routed = read_intent && state.role == Role::Primary && !state.read_routing.is_empty();
        if !routed {
            return None;
        }
        let route = state.read_routing[state.next_route % state.read_routing.len()].clone();
        state.next_route += 1;
        Some(route)
    }

    /// The first error of a login to a user database, if it cannot be opened.
    pub(crate) fn refusal(&self, database: &str, read_intent: bool) -> Option<SqlError> {
        let mut state = self.0.lock();
        if matches!(state.inactive, Some((_, Some(until))) if until <= Instant::now()) {
            state.inactive = None;
        }
        if let Some((refusal, _)) = state.inactive {
            return Some(refusal.error(database));
        }
        match (state.role, state.secondary_access) {
            (Role::Mirror, _) => Some(state.mirror_refusal.error(database)),
            (Role::Secondary, SecondaryAccess::No) => {
                Some(SqlError::replica_not_accessible(database))
            }
            (Role::Secondary, SecondaryAccess::ReadIntentOnly) if !read_intent => {
                Some(SqlError::read_intent_only(database))
            }
            _ => None,
        }
    }

    /// Whether the databases can be queried at all, and how they are mirrored.
    pub(crate) fn partner(&self) -> Option<String> {
        self.0.lock().partner.clone()
    }

    pub(crate) fn announced_partner(&self) -> Option<String> {
        let state = self.0.lock();
        let announced = state.role == Role::Principal && !state.partner_hidden;
        state.partner.clone().filter(|_| announced)
    }

    pub(crate) fn is_inactive(&self) -> bool {
        let inactive = self.0.lock().inactive;
        inactive.is_some_and(|(_, until)| until.is_none_or(|until| until > Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn inactivity_ends_by_itself() {
        let switches = Switches::default();
        switches.set_inactive_for(Refusal::ActingAsMirror, Duration::from_secs(3600));
        assert_eq!(switches.refusal("app", false).unwrap().number(), 954);
        assert!(switches.is_inactive());
        switches.set_inactive_for(Refusal::ActingAsMirror, Duration::ZERO);
        assert!(!switches.is_inactive());
        assert_eq!(switches.refusal("app", false), None);
    }

    #[test]
    fn read_intent_is_routed_in_turn_by_the_primary_only() {
        let switches = Switches::default();
        switches.set_read_routing(vec![Route::new("b", 1), Route::new("c", 2)]);
        assert_eq!(switches.route(true), None);
        switches.set_role(Role::Primary);
        let hosts: Vec<_> = (0..3).filter_map(|_| switches.route(true)).map(|r| r.host).collect();
        assert_eq!(hosts, ["b", "c", "b"]);
        assert_eq!(switches.route(false), None);
    }

    #[test]
    fn a_secondary_asks_for_the_intent() {
        let switches = Switches::default();
        switches.set_role(Role::Secondary);
        assert_eq!(switches.refusal("app", false).unwrap().number(), 978);
        assert_eq!(switches.refusal("app", true), None);
        switches.set_secondary_access(SecondaryAccess::No);
        assert_eq!(switches.refusal("app", true).unwrap().number(), 976);
    }
}
