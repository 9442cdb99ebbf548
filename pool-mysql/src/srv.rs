//! Hosts from DNS SRV records: `mysql+srv://_mysql._tcp.example/db`.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use pool_core::config::ConfigError;
use pool_core::host::Host;

/// The longest time of one look-up if nothing else is said.
pub const DEFAULT_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// One SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvRecord {
    /// Records with the lowest number are tried first.
    pub priority: u16,
    /// The share among records of the same priority.
    pub weight: u16,
    /// The host's name.
    pub target: String,
    /// The host's port.
    pub port: u16,
}

/// Orders records as RFC 2782 says: by priority, and within a priority by weighted chance.
///
/// `draw` is given an upper bound and returns a number from 0 to that bound, both included. A record of
/// weight 0 leads records that have a weight only on a draw of 0.
#[must_use]
pub fn order(mut records: Vec<SrvRecord>, mut draw: impl FnMut(u32) -> u32) -> Vec<SrvRecord> {
    // Stable: within a priority those without a weight come first, as the rule asks.
    records.sort_by_key(|record| (record.priority, record.weight != 0));
    let mut ordered = Vec::with_capacity(records.len());
    while let Some(first) = records.first() {
        let priority = first.priority;
        let group = records.iter().take_while(|record| record.priority == priority).count();
        let total: u32 = records[..group].iter().map(|record| u32::from(record.weight)).sum();
        let drawn = draw(total).min(total);
        let mut sum = 0;
        let chosen = records[..group].iter().position(|record| {
            sum += u32::from(record.weight);
            sum >= drawn
        });
        ordered.push(records.remove(chosen.unwrap_or(0)));
    }
    ordered
}

/// Why a service name gave no hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SrvError {
    /// There are no records.
    Empty {
        /// The service name.
        service: String,
    },
    /// The look-up failed or took too long.
    Lookup {
        /// The service name.
        service: String,
        /// What went wrong.
        reason: String,
    },
    /// The only target is `.`: the domain says that it does not offer the service.
    NotOffered {
        /// The service name.
        service: String,
    },
}

impl fmt::Display for SrvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { service } => write!(f, "no SRV records for {service}"),
            Self::Lookup { service, reason } => write!(f, "SRV look-up of {service}: {reason}"),
            Self::NotOffered { service } => write!(f, "{service} is not offered (target `.`)"),
        }
    }
}

impl StdError for SrvError {}

/// A service name and the name server to ask.
#[derive(Clone)]
pub struct SrvService {
    service: String,
    resolver: TokioResolver,
    limit: Duration,
}

#[async_trait::async_trait]
impl pool_core::discovery::Discovery for SrvService {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.resolve().await?)
    }
}

impl SrvService {
    /// Looks up `service` (such as `_mysql._tcp.example`), at `name_server` or, without one, as the
    /// operating system is configured.
    ///
    /// # Errors
    ///
    /// If the operating system's configuration cannot be read.
    pub fn new(service: &str, name_server: Option<SocketAddr>) -> Result<Self, ConfigError> {
        let builder = match name_server {
            Some(address) => {
                let connections =
                    [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut way| {
                        way.port = address.port();
                        way
                    });
                let mut server = NameServerConfig::udp_and_tcp(address.ip());
                server.connections = connections.to_vec();
                let mut config = ResolverConfig::default();
                config.name_servers = vec![server];
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
            None => TokioResolver::builder_tokio()
                .map_err(|error| ConfigError::new("dnsSrv", error.to_string()))?,
        };
        let resolver =
            builder.build().map_err(|error| ConfigError::new("nameServer", error.to_string()))?;
        Ok(Self { service: service.to_owned(), resolver, limit: DEFAULT_LOOKUP_TIMEOUT })
    }

    /// Limits one look-up. Defaults to [`DEFAULT_LOOKUP_TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The service name.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Asks for the hosts, in the order in which they should be tried. Answers are not cached here, so it
    /// may be asked again when hosts fail.
    ///
    /// # Errors
    ///
    /// See [`SrvError`].
    pub async fn resolve(&self) -> Result<Vec<Host>, SrvError> {
        let records = self.records().await?;
        let ordered = order(records, |bound| fastrand::u32(0..=bound));
        let mut hosts: Vec<Host> = Vec::new();
        for record in ordered {
            let host = Host::new(&record.target, record.port);
            // The same target may be listed under several priorities: its best one counts.
            if !hosts.iter().any(|known| known.name() == host.name()) {
                hosts.push(host);
            }
        }
        Ok(hosts)
    }

    async fn records(&self) -> Result<Vec<SrvRecord>, SrvError> {
        let service = || self.service.clone();
        let failed = |reason: String| SrvError::Lookup { service: service(), reason };
        self.resolver.clear_cache();
        // The final dot keeps the search list of the machine out of it.
        let name = format!("{}.", self.service.trim_end_matches('.'));
        let answer = match tokio::time::timeout(self.limit, self.resolver.srv_lookup(name)).await {
            Err(_) => return Err(failed(format!("no answer within {:?}", self.limit))),
            Ok(Err(error)) if error.is_no_records_found() => {
                return Err(SrvError::Empty { service: service() });
            }
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Ok(Ok(answer)) => answer,
        };
        let found: Vec<SrvRecord> = answer
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::SRV(srv) => Some(SrvRecord {
                    priority: srv.priority,
                    weight: srv.weight,
                    target: srv.target.to_utf8().trim_end_matches('.').to_owned(),
                    port: srv.port,
                }),
                _ => None,
            })
            .collect();
        usable(found, &self.service)
    }
}

/// Leaves out targets that are no hosts.
fn usable(found: Vec<SrvRecord>, service: &str) -> Result<Vec<SrvRecord>, SrvError> {
    let service = service.to_owned();
    let any = !found.is_empty();
    let records: Vec<SrvRecord> =
        found.into_iter().filter(|record| !record.target.is_empty()).collect();
    match (records.is_empty(), any) {
        (false, _) => Ok(records),
        (true, true) => Err(SrvError::NotOffered { service }),
        (true, false) => Err(SrvError::Empty { service }),
    }
}

impl fmt::Debug for SrvService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrvService").field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(priority: u16, weight: u16, target: &str) -> SrvRecord {
        SrvRecord { priority, weight, target: target.to_owned(), port: 3306 }
    }

    fn names(records: &[SrvRecord]) -> Vec<&str> {
        records.iter().map(|record| record.target.as_str()).collect()
    }

    #[test]
    fn the_lowest_priority_comes_first() {
        let records = vec![record(20, 0, "c"), record(10, 0, "b"), record(5, 0, "a")];
        assert_eq!(names(&order(records, |_| 0)), ["a", "b", "c"]);
    }

    #[test]
    fn every_draw_picks_the_record_whose_share_it_falls_into() {
        // Without a weight first, then shares 1..=1 and 2..=4.
        let rows = [(0, "zero"), (1, "one"), (2, "three"), (3, "three"), (4, "three")];
        for (drawn, first) in rows {
            let records = vec![record(1, 1, "one"), record(1, 3, "three"), record(1, 0, "zero")];
            let mut bounds = Vec::new();
            let ordered = order(records, |bound| {
                bounds.push(bound);
                if bounds.len() == 1 { drawn } else { bound }
            });
            assert_eq!(ordered[0].target, first, "draw of {drawn}");
            assert_eq!(bounds[0], 4);
            assert_eq!(ordered.len(), 3);
        }
    }

    #[test]
    fn a_chosen_record_no_longer_takes_part_in_the_next_draw() {
        let records = vec![record(1, 10, "a"), record(1, 20, "b"), record(2, 7, "c")];
        let mut bounds = Vec::new();
        let ordered = order(records, |bound| {
            bounds.push(bound);
            bound
        });
        assert_eq!(names(&ordered), ["b", "a", "c"]);
        assert_eq!(bounds, [30, 10, 7]);
    }

    #[test]
    fn a_draw_beyond_its_bound_and_the_largest_weights_do_no_harm() {
        let records = vec![record(1, u16::MAX, "a"), record(1, u16::MAX, "b")];
        assert_eq!(order(records, |_| u32::MAX).len(), 2);
        assert!(order(Vec::new(), |bound| bound).is_empty());
    }

    #[test]
    fn a_lone_dot_means_that_the_service_is_not_offered() {
        let service = "_mysql._tcp.example";
        let dot = usable(vec![record(0, 0, "")], service);
        assert_eq!(dot, Err(SrvError::NotOffered { service: service.to_owned() }));
        let empty = usable(Vec::new(), service);
        assert_eq!(empty, Err(SrvError::Empty { service: service.to_owned() }));
        assert!(usable(vec![record(0, 0, ""), record(0, 0, "a")], service).is_ok());
    }
}
