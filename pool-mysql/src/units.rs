//! Values of options, read from text.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Connector/J's numbers are Java integers.
const LARGEST: u64 = i32::MAX as u64;

pub(crate) fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(crate) fn text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn number(text: &str, low: u64, high: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {low} to {high}")),
    }
}

fn fitting<T: TryFrom<u64>>(text: &str, low: u64, high: u64) -> Result<T, String> {
    T::try_from(number(text, low, high)?).map_err(|_| "too large".to_owned())
}

pub(crate) fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    fitting(text, 0, LARGEST)
}

pub(crate) fn positive<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    fitting(text, 1, LARGEST)
}

pub(crate) fn level(text: &str) -> Result<u32, String> {
    fitting(text, 1, 9)
}

/// Client side limit; the protocol ends at 1 GiB.
pub(crate) fn packet(text: &str) -> Result<usize, String> {
    fitting(text, 1024, 1 << 30)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    number(text, 0, LARGEST).map(Duration::from_secs)
}

pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    number(text, 1, LARGEST).map(Duration::from_secs)
}

pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    number(text, 0, LARGEST).map(Duration::from_millis)
}

pub(crate) fn positive_millis(text: &str) -> Result<Duration, String> {
    number(text, 1, LARGEST).map(Duration::from_millis)
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    SocketAddr::from_str(text).map_err(|_| "must be an IP address and a port".to_owned())
}

/// `k:v,k:v`.
pub(crate) fn attributes(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut attributes = BTreeMap::new();
    for pair in text.split(',') {
        let (key, value) = pair.split_once(':').ok_or("must be a list of name:value")?;
        if key.is_empty() {
            return Err("an attribute has no name".to_owned());
        }
        if attributes.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    Ok(attributes)
}

/// One of a few words, in any case.
pub(crate) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&dyn Display> = words.iter().map(|(word, _)| word as &dyn Display).collect();
        let list: Vec<String> = words.iter().map(ToString::to_string).collect();
        format!("must be one of {}", list.join(", "))
    })
}

/// Durations as numbers of seconds, fractions allowed.
#[cfg(feature = "serde")]
pub(crate) mod as_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(time) => to.serialize_some(&time.as_secs_f64()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let number = Option::<f64>::deserialize(from)?;
        number.map(|n| Duration::try_from_secs_f64(n).map_err(D::Error::custom)).transpose()
    }
}

/// Durations as whole milliseconds.
#[cfg(feature = "serde")]
pub(crate) mod as_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(time) => to.serialize_some(&u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(count::<u32>("0"), Ok(0));
        assert_eq!(count::<u64>("2147483647"), Ok(2_147_483_647));
        for text in ["-1", "2147483648", "1.5", "", " 1", "ten"] {
            assert!(count::<u64>(text).is_err(), "{text}");
            assert!(seconds(text).is_err() && millis(text).is_err(), "{text}");
        }
        assert!(positive::<u32>("0").is_err() && positive_seconds("0").is_err());
        assert!(positive_millis("0").is_err());
        assert_eq!(level("9"), Ok(9));
        assert!(level("10").is_err() && level("0").is_err());
        assert!(packet("1023").is_err() && packet("1073741825").is_err());
    }

    #[test]
    fn words_and_lists_are_read() {
        assert_eq!(flag("TRUE"), Ok(true));
        assert_eq!(flag("no"), Ok(false));
        assert!(flag("1").is_err());
        assert_eq!(word("B", &[("a", 1), ("b", 2)]), Ok(2));
        assert_eq!(word("c", &[("a", 1), ("b", 2)]), Err("must be one of a, b".to_owned()));
        assert_eq!(attributes("a:1,b:x:y").map(|map| map.len()), Ok(2));
        for text in ["a", ":1", "a:1,a:2", ""] {
            assert!(attributes(text).is_err(), "{text}");
        }
        assert!(address("127.0.0.1:53").is_ok() && address("[::1]:53").is_ok());
        assert!(address("localhost:53").is_err() && address("127.0.0.1").is_err());
    }
}
