//! One parser for every server address: `host`, `host,port`, `host\instance`, with or without `tcp:`.

use std::fmt;
use std::net::IpAddr;

/// The TCP port of a default instance.
pub const DEFAULT_PORT: u16 = 1433;

/// Where a server is: a host, perhaps a named instance, perhaps a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    instance: Option<String>,
    port: Option<u16>,
}

/// Why an address was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The instance part is empty or has characters that no instance name has.
    BadInstance(String),
    /// The host part is empty or has characters that no host name has.
    BadHost(String),
    /// The port is not a number from 1 to 65535.
    BadPort(String),
    /// The prefix asks for something else than TCP.
    NotTcp(String),
}

impl Address {
    /// A default instance at `host`, port [`DEFAULT_PORT`].
    ///
    /// # Errors
    /// Whatever makes `text` no address: see [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        Self::read(text, ',')
    }

    /// As [`Address::parse`], with the port after a colon (`host\instance:port`), as JDBC writes it.
    ///
    /// # Errors
    /// Whatever makes `text` no address: see [`AddressError`].
    pub fn parse_jdbc(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.contains(',') {
            return Self::read(text, ',');
        }
        // `::1` and `[::1]` have colons of their own.
        if text.parse::<IpAddr>().is_ok() || text.ends_with(']') {
            return Self::read(text, ',');
        }
        Self::read(text, ':')
    }

    /// A server at a host and port, as a server names it in a routing answer.
    pub(crate) fn routed(host: &str, port: u16) -> Result<Self, AddressError> {
        let mut address = Self::read(host, ',')?;
        address.port = Some(port);
        Ok(address)
    }

    /// The same server at this port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The same host with this instance name.
    #[must_use]
    pub fn with_instance(mut self, instance: &str) -> Self {
        self.instance = Some(instance.to_owned());
        self
    }

    /// The host name or IP address, IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The instance name, if one was given.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// The port, if one was given.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The port to dial: the given one, else the default. `None` for a named instance without a port:
    /// SQL Server Browser knows it.
    #[must_use]
    pub fn dial_port(&self) -> Option<u16> {
        match (self.port, &self.instance) {
            (Some(port), _) => Some(port),
            (None, None) => Some(DEFAULT_PORT),
            (None, Some(_)) => None,
        }
    }

    /// Whether both mean the same server: names ignore case, a missing port is the default one.
    #[must_use]
    pub fn same_server(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host)
            && self.dial_port() == other.dial_port()
            && match (&self.instance, &other.instance) {
                _ if self.port.is_some() && other.port.is_some() => true,
                (None, None) => true,
                (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
                _ => false,
            }
    }

    /// What a pool host calls itself: `host` or `host\instance`, and the port (0: ask the browser).
    pub(crate) fn host_parts(&self) -> (String, u16) {
        let name = match &self.instance {
            Some(instance) => format!("{}\\{instance}", self.host),
            None => self.host.clone(),
        };
        (name, self.dial_port().unwrap_or(0))
    }

    /// The reverse of [`Address::host_parts`].
    pub(crate) fn from_host_parts(name: &str, port: u16) -> Self {
        let (host, instance) = match name.split_once('\\') {
            Some((host, instance)) => (host, Some(instance.to_owned())),
            None => (name, None),
        };
        Self { host: host.to_owned(), instance, port: (port != 0).then_some(port) }
    }

    fn read(text: &str, separator: char) -> Result<Self, AddressError> {
        let text = strip_protocol(text.trim())?;
        let (name, port) = match text.rsplit_once(separator) {
            Some((name, port)) => (name.trim(), Some(parse_port(port.trim())?)),
            None => (text, None),
        };
        let (host, instance) = match name.split_once('\\') {
            Some((host, instance)) => (host.trim(), Some(parse_instance(instance.trim())?)),
            None => (name, None),
        };
        // The default instance may be named; it has no entry of its own in the browser.
        let instance = instance.filter(|name| !name.eq_ignore_ascii_case("MSSQLSERVER"));
        Ok(Self { host: parse_host(host)?, instance, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if let Some(instance) = &self.instance {
            write!(f, "\\{instance}")?;
        }
        match self.dial_port() {
            Some(port) => write!(f, ",{port}"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadInstance(name) => write!(f, "`{name}` is no instance name"),
            Self::BadHost(host) if host.is_empty() => f.write_str("the host name is empty"),
            Self::BadHost(host) if host.contains(':') => {
                write!(f, "`{host}` is no host name (a port follows a comma: `host,port`)")
            }
            Self::BadHost(host) => write!(f, "`{host}` is no host name"),
            Self::BadPort(port) => write!(f, "`{port}` is no port from 1 to 65535"),
            Self::NotTcp(prefix) => {
                write!(f, "`{prefix}` is not TCP, and only TCP is supported")
            }
        }
    }
}

impl std::error::Error for AddressError {}

fn strip_protocol(text: &str) -> Result<&str, AddressError> {
    if text.starts_with("\\\\") {
        return Err(AddressError::NotTcp("\\\\ (named pipe)".to_owned()));
    }
    let lower = text.get(..6).unwrap_or(text).to_ascii_lowercase();
    for refused in ["admin:", "np:", "lpc:", "via:"] {
        if lower.starts_with(refused) {
            return Err(AddressError::NotTcp(refused.to_owned()));
        }
    }
    if lower.starts_with("tcp:") {
        return Ok(text[4..].trim_start());
    }
    Ok(text)
}

fn parse_host(text: &str) -> Result<String, AddressError> {
    let lower = text.to_ascii_lowercase();
    if lower == "." || lower == "(local)" {
        return Ok("localhost".to_owned());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if bare.parse::<IpAddr>().is_ok() {
        return Ok(bare.to_owned());
    }
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > 255 || !text.chars().all(fits) {
        return Err(AddressError::BadHost(shortened(text)));
    }
    Ok(text.to_owned())
}

fn parse_instance(text: &str) -> Result<String, AddressError> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '-');
    if text.is_empty() || text.len() > 128 || !text.chars().all(fits) {
        return Err(AddressError::BadInstance(shortened(text)));
    }
    Ok(text.to_owned())
}

fn parse_port(text: &str) -> Result<u16, AddressError> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(AddressError::BadPort(shortened(text))),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_accepted_form() {
        let table = [
            ("db1", "db1", None, None, "db1,1433"),
            (" tcp:db1 , 2000 ", "db1", None, Some(2000), "db1,2000"),
            ("TCP:db1.example,1433", "db1.example", None, Some(1433), "db1.example,1433"),
            ("db1\\SALES", "db1", Some("SALES"), None, "db1\\SALES"),
            ("db1\\SALES,2000", "db1", Some("SALES"), Some(2000), "db1\\SALES,2000"),
            ("db1\\MSSQLSERVER", "db1", None, None, "db1,1433"),
            ("(local)", "localhost", None, None, "localhost,1433"),
            (".\\SQLEXPRESS", "localhost", Some("SQLEXPRESS"), None, "localhost\\SQLEXPRESS"),
            ("127.0.0.2,1444", "127.0.0.2", None, Some(1444), "127.0.0.2,1444"),
            ("[::1],1444", "::1", None, Some(1444), "[::1],1444"),
            ("tcp:::1", "::1", None, None, "[::1],1433"),
        ];
        for (text, host, instance, port, shown) in table {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.host(), address.instance(), address.port()),
                (host, instance, port)
            );
            assert_eq!(address.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn jdbc_writes_the_port_after_a_colon() {
        let table = [
            ("db1:2000", "db1", None, Some(2000)),
            ("db1\\SALES:2000", "db1", Some("SALES"), Some(2000)),
            ("db1,2000", "db1", None, Some(2000)),
            ("[::1]:2000", "::1", None, Some(2000)),
            ("[::1]", "::1", None, None),
            ("::1", "::1", None, None),
        ];
        for (text, host, instance, port) in table {
            let address = Address::parse_jdbc(text).unwrap();
            assert_eq!(
                (address.host(), address.instance(), address.port()),
                (host, instance, port)
            );
        }
    }

    #[test]
    fn every_refused_form() {
        for text in ["np:db1", "lpc:db1", "LPC:db1", "admin:db1", "\\\\db1\\pipe\\sql\\query"] {
            assert!(matches!(Address::parse(text), Err(AddressError::NotTcp(_))), "{text}");
        }
        for text in ["", "tcp:", ",1433", "db1:1433", "a b", "(localdb)\\v11", "a;b", "ä\u{0}"] {
            assert!(matches!(Address::parse(text), Err(AddressError::BadHost(_))), "{text}");
        }
        for text in ["db1,", "db1,0", "db1,65536", "db1,-1", "db1,+1", "db1,x"] {
            assert!(matches!(Address::parse(text), Err(AddressError::BadPort(_))), "{text}");
        }
        for text in ["db1\\", "db1\\a\\b", "db1\\a b"] {
            assert!(matches!(Address::parse(text), Err(AddressError::BadInstance(_))), "{text}");
        }
    }

    #[test]
    fn the_same_server_ignores_case_and_the_default_port() {
        let same = |a, b| Address::parse(a).unwrap().same_server(&Address::parse(b).unwrap());
        assert!(same("DB1", "db1,1433"));
        assert!(same("db1\\a", "DB1\\A"));
        assert!(same("db1\\a,2000", "db1,2000"));
        assert!(!same("db1", "db1,2000"));
        assert!(!same("db1", "db1\\a"));
        assert!(!same("db1", "db2"));
    }

    #[test]
    fn host_parts_survive_the_way_through_a_pool_host() {
        for text in ["db1", "db1,2000", "db1\\SALES", "db1\\SALES,2000", "[::1],5"] {
            let address = Address::parse(text).unwrap();
            let (name, port) = address.host_parts();
            assert!(Address::from_host_parts(&name, port).same_server(&address), "{text}");
        }
    }
}
