//! Taking a connection URL apart.
//!
//! `[jdbc:]mysql[:replication|+srv]://[user[:password]@]host[,host…][/database][?key=value[&key=value…]]`
//!
//! No error repeats text of the URL except the name of a key: a password that is not percent-encoded may
//! end up in any part of it.

use percent_encoding::percent_decode_str;
use pool_core::config::ConfigError;

/// What the scheme says about the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An ordered list.
    List,
    /// The first host is the source, the others are replicas.
    Replication,
    /// The name of a DNS service.
    Service,
}

/// The parts of a URL, decoded, not yet understood.
#[derive(PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) form: Form,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: String,
    pub(crate) database: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
}

pub(crate) fn split(url: &str) -> Result<Parts, ConfigError> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no `://`"))?;
    let form = match scheme.strip_prefix("jdbc:").unwrap_or(scheme) {
        "mysql" => Form::List,
        "mysql:replication" => Form::Replication,
        "mysql+srv" => Form::Service,
        _ => return Err(bad("the scheme is not mysql, mysql:replication or mysql+srv")),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return Err(bad(
            "an `@` after the hosts: encode `/`, `?` and `@` of user, password, database and values (%2F, %3F, %40)",
        ));
    }
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let (user, password) = match login {
        None => (None, None),
        Some(login) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            let password = password.map(|text| decode(text, "password")).transpose()?;
            (Some(decode(user, "user")?), password)
        }
    };
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let database = decode(path.strip_prefix('/').unwrap_or(path), "database")?;
    Ok(Parts {
        form,
        user: user.filter(|user| !user.is_empty()),
        password,
        hosts: hosts.to_owned(),
        database: Some(database).filter(|name| !name.is_empty()),
        properties: properties(query)?,
    })
}

fn properties(query: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let mut properties = Vec::new();
    for (index, pair) in query.split('&').enumerate().filter(|(_, pair)| !pair.is_empty()) {
        let place = format!("property {}", index + 1);
        let (key, value) =
            pair.split_once('=').ok_or_else(|| bad(&format!("{place} has no value")))?;
        let key = decode(key, &place)?;
        if key.is_empty() {
            return Err(bad(&format!("{place} has no name")));
        }
        let value = decode(value, &key)?;
        properties.push((key, value));
    }
    Ok(properties)
}

fn bad(reason: &str) -> ConfigError {
    ConfigError::new("url", reason)
}

/// Decodes `%XX`. `+` is a plus sign.
fn decode(text: &str, part: &str) -> Result<String, ConfigError> {
    let bytes = text.as_bytes();
    let broken = bytes.iter().enumerate().any(|(at, byte)| {
        *byte == b'%'
            && !bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    });
    if broken {
        return Err(ConfigError::new(part, "a `%` that is not followed by two hexadecimal digits"));
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(ConfigError::new(part, "not UTF-8 after decoding")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_full_url_comes_apart() {
        let parts =
            split("mysql://us%40er:p%2Fw%3A1@h1:1,[::1]:2/d%20b?a=1&b=x%26y+z").ok().unwrap();
        assert_eq!(parts.form, Form::List);
        assert_eq!(parts.user.as_deref(), Some("us@er"));
        assert_eq!(parts.password.as_deref(), Some("p/w:1"));
        assert_eq!(parts.hosts, "h1:1,[::1]:2");
        assert_eq!(parts.database.as_deref(), Some("d b"));
        let expected = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x&y+z".to_owned())];
        assert_eq!(parts.properties, expected);
    }

    #[test]
    fn parts_may_be_left_out() {
        let rows: [(&str, &str, Option<&str>); 6] = [
            ("mysql://h", "h", None),
            ("mysql://h/", "h", None),
            ("mysql://h?a=1", "h", None),
            ("mysql://h/db?", "h", Some("db")),
            ("jdbc:mysql://h/db?&a=1&", "h", Some("db")),
            ("mysql://", "", None),
        ];
        for (url, hosts, database) in rows {
            let parts = split(url).ok().unwrap();
            assert_eq!(
                (parts.hosts.as_str(), parts.database.as_deref()),
                (hosts, database),
                "{url}"
            );
            assert_eq!((parts.user, parts.password), (None, None));
        }
        let parts = split("mysql://u:@h").ok().unwrap();
        assert_eq!((parts.user.as_deref(), parts.password.as_deref()), (Some("u"), Some("")));
        let parts = split("mysql://u@h").ok().unwrap();
        assert_eq!((parts.user.as_deref(), parts.password), (Some("u"), None));
        let forms =
            [("jdbc:mysql:replication://h", Form::Replication), ("mysql+srv://h", Form::Service)];
        for (url, form) in forms {
            assert_eq!(split(url).ok().unwrap().form, form);
        }
    }

    #[test]
    fn a_malformed_url_is_refused_without_repeating_it() {
        let rows = [
            ("h1,h2/db", "url"),
            ("postgres://h", "url"),
            ("mysql:loadbalance://h", "url"),
            ("mysql://u:sec/ret@h/db", "url"),
            ("mysql://u:sec?ret=1@h/db", "url"),
            ("mysql://h?ret", "url"),
            ("mysql://h?=ret", "url"),
            ("mysql://u:sec%zzret@h", "password"),
            ("mysql://u:sec%f0ret@h", "password"),
            ("mysql://u%:secret@h", "user"),
            ("mysql://h/d%4", "database"),
            ("mysql://h?a=%", "a"),
        ];
        for (url, option) in rows {
            let error = split(url).err().unwrap();
            assert_eq!(error.option(), option, "{url}");
            for part in ["sec", "ret"] {
                assert!(!error.to_string().contains(part), "{url}: {error}");
            }
        }
    }
}
