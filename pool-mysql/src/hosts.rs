//! Reading hosts from text.

use std::net::Ipv6Addr;

use pool_core::config::ConfigError;
use pool_core::host::{Host, MAX_WEIGHT, Role};

/// The port of a host that names none.
pub(crate) const DEFAULT_PORT: u16 = 3306;

/// Reads `h1:3306,[::1]:3307,address=(host=h3)(type=replica)`.
///
/// Errors name the place in the list and never repeat the text: if the password of a URL is not
/// percent-encoded, a part of it ends up here.
pub(crate) fn parse_list(text: &str) -> Result<Vec<Host>, ConfigError> {
    let mut hosts = Vec::new();
    for (index, part) in split_outside_parentheses(text).into_iter().enumerate() {
        let place = index + 1;
        let host = parse_host(part).map_err(|reason| error(place, &reason))?;
        hosts.push(host);
    }
    check_unique(&hosts)?;
    Ok(hosts)
}

/// Reads one host: `h`, `h:3307`, `[::1]:3307`, each with `?type=replica&weight=50` if need be, or one of
/// Connector/J's two forms with parentheses.
pub(crate) fn parse_one(text: &str) -> Result<Host, ConfigError> {
    let (address, properties) = text.split_once('?').unwrap_or((text, ""));
    let read = || {
        let mut host = Draft::from(parse_host(address)?);
        for pair in properties.split('&').filter(|pair| !pair.is_empty()) {
            host.set(pair)?;
        }
        host.finish()
    };
    read().map_err(|reason: String| ConfigError::new("hosts", reason))
}

/// Refuses hosts that are listed twice: no rule says what that would mean.
pub(crate) fn check_unique(hosts: &[Host]) -> Result<(), ConfigError> {
    for (index, host) in hosts.iter().enumerate() {
        let same = |other: &Host| {
            other.address().eq_ignore_ascii_case(host.address()) && other.port() == host.port()
        };
        if let Some(first) = hosts[..index].iter().position(same) {
            return Err(error(index + 1, &format!("the same as host {}", first + 1)));
        }
    }
    Ok(())
}

fn error(place: usize, reason: &str) -> ConfigError {
    ConfigError::new("hosts", format!("host {place}: {reason}"))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn parse_host(text: &str) -> Result<Host, String> {
    if let Some(rest) = text.strip_prefix("address=") {
        return parse_pairs(rest, ")(");
    }
    if text.starts_with('(') {
        return parse_pairs(text, ",");
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or("the bracket is not closed")?;
            address.parse::<Ipv6Addr>().map_err(|_| "not an IPv6 address in the brackets")?;
            match rest.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if rest.is_empty() => (address, None),
                None => return Err("something follows the bracket".to_owned()),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address needs brackets".to_owned());
            }
            Some((address, port)) => (check_name(address)?, Some(port)),
            None => (check_name(text)?, None),
        },
    };
    Ok(Host::new(address, port.map_or(Ok(DEFAULT_PORT), parse_port)?))
}

fn parse_pairs(text: &str, separator: &str) -> Result<Host, String> {
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .ok_or("the parentheses do not match")?;
    let mut host = Draft::default();
    for pair in inner.split(separator) {
        host.set(pair.trim())?;
    }
    host.finish()
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("the port is not a number from 1 to 65535".to_owned()),
    }
}

fn check_name(name: &str) -> Result<&str, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        Err("no name".to_owned())
    } else if name.chars().all(allowed) {
        Ok(name)
    } else {
        Err("not a host name".to_owned())
    }
}

/// A host that is being put together from `key=value` pairs.
#[derive(Default)]
struct Draft {
    address: Option<String>,
    port: Option<u16>,
    role: Option<Role>,
    weight: Option<u32>,
    name: Option<String>,
}

impl From<Host> for Draft {
    fn from(host: Host) -> Self {
        let (address, port) = (Some(host.address().to_owned()), Some(host.port()));
        let role = (host.role() != Role::Unknown).then(|| host.role());
        Self { address, port, role, weight: None, name: None }
    }
}

impl Draft {
    fn set(&mut self, pair: &str) -> Result<(), String> {
        let (key, value) = pair.split_once('=').ok_or("a property without a value")?;
        let twice = match key {
            "host" => {
                let address = match value.parse::<Ipv6Addr>() {
                    Ok(_) => value,
                    Err(_) => {
                        let bare = value.strip_prefix('[').and_then(|v| v.strip_suffix(']'));
                        match bare.filter(|bare| bare.parse::<Ipv6Addr>().is_ok()) {
                            Some(bare) => bare,
                            None => check_name(value)?,
                        }
                    }
                };
                self.address.replace(address.to_owned()).is_some()
            }
            "port" => self.port.replace(parse_port(value)?).is_some(),
            "type" => self.role.replace(parse_role(value)?).is_some(),
            "weight" => self.weight.replace(parse_weight(value)?).is_some(),
            "name" if value.is_empty() => return Err("name is empty".to_owned()),
            "name" => self.name.replace(value.to_owned()).is_some(),
            _ => return Err(format!("unknown property `{key}`")),
        };
        if twice { Err(format!("`{key}` is given twice")) } else { Ok(()) }
    }

    fn finish(self) -> Result<Host, String> {
        let address = self.address.ok_or("no `host`")?;
        let mut host = Host::new(&address, self.port.unwrap_or(DEFAULT_PORT));
        if let Some(role) = self.role {
            host = host.with_role(role);
        }
        if let Some(weight) = self.weight {
            host = host.with_weight(weight);
        }
        Ok(match self.name {
            Some(name) => host.named(&name),
            None => host,
        })
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    match text.to_ascii_lowercase().as_str() {
        "source" | "master" => Ok(Role::Source),
        "replica" | "slave" => Ok(Role::Replica),
        _ => Err("`type` is neither source nor replica".to_owned()),
    }
}

fn parse_weight(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(weight) if weight <= MAX_WEIGHT => Ok(weight),
        _ => Err(format!("`weight` is not a number from 0 to {MAX_WEIGHT}")),
    }
}

/// Hosts as serde fields.
#[cfg(feature = "serde")]
pub(crate) mod list {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{DEFAULT_PORT, Draft, Host, Role, check_name};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        host: String,
        #[serde(default = "default_port")]
        port: u16,
        #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
        role: Option<Role>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    }

    fn default_port() -> u16 {
        DEFAULT_PORT
    }

    pub(crate) fn serialize<S: Serializer>(hosts: &[Host], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(hosts.iter().map(|host| Entry {
            host: host.address().to_owned(),
            port: host.port(),
            role: (host.role() != Role::Unknown).then(|| host.role()),
            weight: host.weight(),
            name: Some(host.name().to_owned()),
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Host>, D::Error> {
        let read = |entry: Entry| {
            if entry.host.parse::<std::net::Ipv6Addr>().is_err() {
                check_name(&entry.host)?;
            }
            let Entry { host, port, role, weight, name } = entry;
            Draft { address: Some(host), port: Some(port), role, weight, name }.finish()
        };
        let entries = Vec::<Entry>::deserialize(from)?;
        entries.into_iter().map(|entry| read(entry).map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_host_is_read() {
        let rows = [
            ("db", "db", 3306, Role::Unknown),
            ("db-1.example:3307", "db-1.example", 3307, Role::Unknown),
            ("10.0.0.1:3308", "10.0.0.1", 3308, Role::Unknown),
            ("[::1]", "::1", 3306, Role::Unknown),
            ("[fe80::2]:3309", "fe80::2", 3309, Role::Unknown),
            ("address=(host=db)(port=3307)(type=replica)", "db", 3307, Role::Replica),
            ("address=(host=db)(type=MASTER)", "db", 3306, Role::Source),
            ("(host=db,port=3307,type=slave)", "db", 3307, Role::Replica),
            ("(host=[::1], type=source)", "::1", 3306, Role::Source),
        ];
        for (text, address, port, role) in rows {
            let hosts = parse_list(text).unwrap();
            assert_eq!(hosts.len(), 1, "{text}");
            let host = &hosts[0];
            assert_eq!((host.address(), host.port(), host.role()), (address, port, role), "{text}");
        }
        assert_eq!(
            parse_list("a,(host=b,port=1),address=(host=c)(port=2),[::1]:3").unwrap().len(),
            4
        );
    }

    #[test]
    fn weight_and_name_are_properties_of_a_host() {
        let host = parse_one("db:3307?type=replica&weight=50&name=reader").unwrap();
        assert_eq!((host.role(), host.weight(), host.name()), (Role::Replica, Some(50), "reader"));
        let hosts = parse_list("address=(host=db)(weight=0)(name=quiet)").unwrap();
        assert_eq!((hosts[0].weight(), hosts[0].name()), (Some(0), "quiet"));
    }

    #[test]
    fn a_malformed_host_is_refused_with_its_place() {
        let rows = [
            ("", "host 1: no name"),
            ("a,", "host 2: no name"),
            ("a,,b", "host 2: no name"),
            (":3306", "host 1: no name"),
            ("a:0", "the port is not a number from 1 to 65535"),
            ("a:65536", "the port is not a number from 1 to 65535"),
            ("a:", "the port is not a number from 1 to 65535"),
            ("a:b", "the port is not a number from 1 to 65535"),
            ("a b", "not a host name"),
            ("fe80::1", "an IPv6 address needs brackets"),
            ("[::1", "the bracket is not closed"),
            ("[db]", "not an IPv6 address"),
            ("[::1]3306", "something follows the bracket"),
            ("address=(host=a", "the parentheses do not match"),
            ("address=(port=1)", "no `host`"),
            ("(host=a,host=b)", "`host` is given twice"),
            ("(host=a,colour=red)", "unknown property `colour`"),
            ("(host=a,type=witness)", "`type` is neither"),
            ("(host=a,weight=10001)", "`weight` is not a number"),
            ("(host=a,port)", "a property without a value"),
            ("(host=a,name=)", "name is empty"),
            ("a,b:3307,A", "host 3: the same as host 1"),
            ("a,(host=a,port=3306,type=replica)", "host 2: the same as host 1"),
        ];
        for (text, expected) in rows {
            let error = parse_list(text).unwrap_err();
            assert_eq!(error.option(), "hosts");
            assert!(error.reason().contains(expected), "{text}: {error}");
        }
        assert!(parse_one("a?type=witness").is_err());
    }
}
