//! Splits a JDBC connection URL of the Microsoft driver into server and properties.
//!
//! `jdbc:sqlserver://[server[\instance][:port]][;property=value…]`; a value in braces keeps everything, `}}`
//! stands for `}`. Knows the quoting, not the keys.

use crate::options::OptionsError;

const PREFIX: &str = "jdbc:sqlserver://";

/// Server part and properties.
pub(crate) type Parts = (String, Vec<(String, String)>);

/// Whether the text claims to be a JDBC URL.
pub(crate) fn is_url(text: &str) -> bool {
    text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("jdbc:"))
}

/// The server part, possibly empty, and the properties in order, keys as written.
pub(crate) fn split(text: &str) -> Result<Parts, OptionsError> {
    let text = text.trim();
    let scheme = text.get(..PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(PREFIX));
    if scheme.is_none() {
        return Err(OptionsError::Syntax { at: 0, reason: "expected `jdbc:sqlserver://`" });
    }
    let rest = &text[PREFIX.len()..];
    let (server, properties) = match rest.split_once(';') {
        Some((server, properties)) => (server, properties),
        None => (rest, ""),
    };
    let mut pairs = Vec::new();
    let mut at = text.len() - properties.len();
    let mut left = properties;
    while !left.trim_start_matches([';', ' ', '\t']).is_empty() {
        let trimmed = left.trim_start_matches([';', ' ', '\t']);
        at += left.len() - trimmed.len();
        let Some((key, after)) = trimmed.split_once('=').filter(|(key, _)| !key.contains(';'))
        else {
            return Err(OptionsError::Syntax { at, reason: "a property without `=`" });
        };
        if key.trim().is_empty() {
            return Err(OptionsError::Syntax { at, reason: "a value without a property" });
        }
        let (value, after) = value(after.trim_start(), key.trim(), at)?;
        pairs.push((key.trim().to_owned(), value));
        at += trimmed.len() - after.len();
        left = after;
    }
    Ok((server.trim().trim_end_matches('/').to_owned(), pairs))
}

fn value<'a>(text: &'a str, key: &str, at: usize) -> Result<(String, &'a str), OptionsError> {
    let Some(braced) = text.strip_prefix('{') else {
        let end = text.find(';').unwrap_or(text.len());
        return Ok((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut signs = braced.char_indices().peekable();
    while let Some((index, sign)) = signs.next() {
        if sign != '}' {
            value.push(sign);
            continue;
        }
        if signs.next_if(|(_, next)| *next == '}').is_some() {
            value.push('}');
            continue;
        }
        let after = braced[index + 1..].trim_start();
        if after.is_empty() || after.starts_with(';') {
            return Ok((value, after));
        }
        return Err(OptionsError::value(key, "text follows the closing brace"));
    }
    Err(OptionsError::Syntax { at, reason: "a value in braces without its end" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Text, server, properties.
    type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

    #[test]
    fn servers_and_properties() {
        let table: [Case; 6] = [
            ("jdbc:sqlserver://", "", &[]),
            ("jdbc:sqlserver://db1:2000", "db1:2000", &[]),
            (
                "JDBC:SqlServer://db1;user=sa;password=x=y",
                "db1",
                &[("user", "sa"), ("password", "x=y")],
            ),
            (
                "jdbc:sqlserver://db1\\A:1;password={a;}}b};;user = sa ;",
                "db1\\A:1",
                &[("password", "a;}b"), ("user", "sa")],
            ),
            ("jdbc:sqlserver://;serverName=::1", "", &[("serverName", "::1")]),
            ("jdbc:sqlserver://db1;x={}", "db1", &[("x", "")]),
        ];
        for (text, server, pairs) in table {
            let (found_server, found) = split(text).unwrap();
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!((found_server.as_str(), found.as_slice()), (server, pairs), "{text}");
        }
    }

    #[test]
    fn syntax_errors_never_show_the_value() {
        for text in [
            "jdbc:mysql://secret",
            "jdbc:sqlserver://db1;secret",
            "jdbc:sqlserver://db1;=secret",
            "jdbc:sqlserver://db1;password={secret",
            "jdbc:sqlserver://db1;password={a}secret",
            "jdbc:sqlserver://db1;secret;a=b",
        ] {
            let error = split(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
