//! What becomes of a partner name that a server sent. Pure: a name and the configuration in, a decision out.
//!
//! The password goes to whatever is dialled, so a server-sent name is never dialled by default, and where
//! certificates are not checked only if the user listed or mapped it (mirroring reference, section 4).

use crate::address::Address;
use crate::options::{MsSqlOptions, PartnerSource};

/// What the decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct PartnerRules {
    pub(crate) source: PartnerSource,
    pub(crate) server: Address,
    pub(crate) configured: Option<Address>,
    /// Whether a wrong host would be noticed by its certificate.
    pub(crate) certificate_checked: bool,
    pub(crate) allowed: Vec<String>,
    pub(crate) mapped: Vec<(String, Address)>,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The principal has no mirror: there is no partner any more.
    Clear,
    /// Nothing to learn: the name is the server itself, or there is none and none is expected.
    Ignore,
    /// The configured address stays. The name is worth an event.
    Keep,
    /// Not usable.
    Refuse(&'static str),
    /// Dial this from now on.
    Use(Address),
}

impl PartnerRules {
    pub(crate) fn of(options: &MsSqlOptions) -> Option<Self> {
        Some(Self {
            source: options.partner_source,
            server: options.server.clone()?,
            configured: options.partner.clone(),
            certificate_checked: options.checks_certificate(),
            allowed: options.allowed_partners.clone(),
            mapped: options.mapped_partners.clone(),
        })
    }

    /// Decides about the name that the principal, reached through the initial partner, reported; `None` is
    /// a principal without a mirror.
    pub(crate) fn decide(&self, name: Option<&str>) -> Decision {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else {
            return match self.source {
                PartnerSource::Server => Decision::Clear,
                PartnerSource::ConfiguredThenServer if self.configured.is_none() => Decision::Clear,
                _ => Decision::Ignore,
            };
        };
        let mapped = self.mapped.iter().find(|(from, _)| from.eq_ignore_ascii_case(name));
        let learned = match mapped {
            Some((_, address)) => address.clone(),
            None => match Address::parse(name) {
                Ok(address) => address,
                Err(_) => return Decision::Refuse("the name is no address"),
            },
        };
        if names_same(&learned, &self.server) {
            return Decision::Ignore;
        }
        match (&self.configured, self.source) {
            (_, PartnerSource::Configured) | (Some(_), PartnerSource::ConfiguredThenServer) => {
                return Decision::Keep;
            }
            // The server knows neither domain nor port: the configured ones are better.
            (Some(configured), _) if mapped.is_none() && names_same(&learned, configured) => {
                return Decision::Use(configured.clone());
            }
            _ => {}
        }
        let listed = self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
        if !self.certificate_checked && mapped.is_none() && !listed {
            return Decision::Refuse("without a certificate check only listed names are dialled");
        }
        Decision::Use(learned)
    }
}

/// Whether a server-sent name means a configured address: the host, or its first label, ignoring case; and
/// the same instance, unless the configured port says which.
fn names_same(sent: &Address, configured: &Address) -> bool {
    let host = configured.host();
    let label = host.split('.').next().unwrap_or(host);
    let is_ip = host.parse::<std::net::IpAddr>().is_ok();
    let same_host = sent.host().eq_ignore_ascii_case(host)
        || (!is_ip && sent.host().eq_ignore_ascii_case(label));
    let same_instance = match (sent.instance(), configured.instance()) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (None, None) => true,
        (Some(_), None) => configured.port().is_some(),
        (None, Some(_)) => false,
    };
    same_host
        && same_instance
        && sent.port().is_none_or(|port| Some(port) == configured.dial_port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn rules(source: PartnerSource, configured: Option<&str>, checked: bool) -> PartnerRules {
        PartnerRules {
            source,
            server: address("a.corp.example,5001"),
            configured: configured.map(address),
            certificate_checked: checked,
            allowed: vec!["LISTED".to_owned()],
            mapped: vec![("MAPPED".to_owned(), address("m.corp.example,6001"))],
        }
    }

    #[test]
    fn every_source_with_and_without_a_configured_partner() {
        use Decision::{Clear, Ignore, Keep};
        use PartnerSource::{Configured, ConfiguredThenServer, Server};
        let b = Some("b.corp.example,5002");
        let learned = |text| Decision::Use(address(text));
        let table = [
            // source, configured, sent, decision
            (Configured, b, Some("C"), Keep),
            (Configured, b, Some("B"), Keep),
            (Configured, b, None, Ignore),
            (Configured, None, Some("C"), Keep),
            (Configured, b, Some("A"), Ignore),
            (Server, b, Some("C"), learned("C")),
            (Server, b, Some("b"), learned("b.corp.example,5002")),
            (Server, b, Some("B.corp.example"), learned("b.corp.example,5002")),
            (Server, b, Some("B\\SALES"), learned("b.corp.example,5002")),
            (Server, b, Some("C\\SALES"), learned("C\\SALES")),
            (Server, b, Some("A"), Ignore),
            (Server, b, Some("a.corp.example"), Ignore),
            (Server, b, None, Clear),
            (Server, None, Some("C"), learned("C")),
            (Server, None, None, Clear),
            (Server, b, Some("mapped"), learned("m.corp.example,6001")),
            (ConfiguredThenServer, b, Some("C"), Keep),
            (ConfiguredThenServer, b, None, Ignore),
            (ConfiguredThenServer, None, Some("C"), learned("C")),
            (ConfiguredThenServer, None, None, Clear),
            (ConfiguredThenServer, None, Some("  "), Clear),
        ];
        for (source, configured, sent, decision) in table {
            let found = rules(source, configured, true).decide(sent);
            assert_eq!(found, decision, "{source:?} {configured:?} {sent:?}");
        }
    }

    #[test]
    fn without_a_certificate_check_only_listed_mapped_and_configured_names_are_dialled() {
        let rules = rules(PartnerSource::Server, Some("b.corp.example,5002"), false);
        assert!(matches!(rules.decide(Some("C")), Decision::Refuse(_)));
        assert_eq!(rules.decide(Some("listed")), Decision::Use(address("listed")));
        assert_eq!(rules.decide(Some("MAPPED")), Decision::Use(address("m.corp.example,6001")));
        assert_eq!(rules.decide(Some("B")), Decision::Use(address("b.corp.example,5002")));
    }

    #[test]
    fn a_name_that_is_no_address_is_refused() {
        let rules = rules(PartnerSource::Server, None, true);
        for name in ["np:b", "b c", "b\\", "x;y"] {
            assert!(matches!(rules.decide(Some(name)), Decision::Refuse(_)), "{name}");
        }
    }

    #[test]
    fn an_ip_address_has_no_first_label() {
        let mut rules = rules(PartnerSource::Server, Some("127.0.0.2,5002"), true);
        assert_eq!(rules.decide(Some("127")), Decision::Use(address("127")));
        rules.configured = None;
        assert_eq!(rules.decide(Some("127.0.0.2")), Decision::Use(address("127.0.0.2")));
    }
}
