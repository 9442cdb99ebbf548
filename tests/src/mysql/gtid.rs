//! GTID sets: which writes of which server.

use std::fmt::Write as _;

use super::error::MySqlError;

/// Ranges of writes per server name, ends included.
type Parsed = Vec<(String, Vec<(u64, u64)>)>;

/// The set of all writes of each server up to a number.
pub(super) fn format(executed: &[u64], name: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (origin, &last) in executed.iter().enumerate().filter(|&(_, &last)| last > 0) {
        if !text.is_empty() {
            text.push_str(",\n");
        }
        text.push_str(&name(origin));
        match last {
            1 => text.push_str(":1"),
            _ => {
                let _ = write!(text, ":1-{last}");
            }
        }
    }
    text
}

/// Reads `uuid:1-3:5,uuid:7`.
pub(super) fn parse(text: &str) -> Result<Parsed, MySqlError> {
    let malformed = || MySqlError::new(1772, format!("Malformed GTID set specification '{text}'."));
    let mut sets = Parsed::new();
    for set in text.split(',').map(str::trim).filter(|set| !set.is_empty()) {
        let mut parts = set.split(':').map(str::trim);
        let name = parts.next().filter(|name| name.len() == 36).ok_or_else(malformed)?;
        let mut ranges = Vec::new();
        for range in parts {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first = first.parse().map_err(|_| malformed())?;
            let last = last.parse().map_err(|_| malformed())?;
            ranges.push((first, last));
        }
        if ranges.is_empty() {
            return Err(malformed());
        }
        sets.push((name.to_ascii_lowercase(), ranges));
    }
    Ok(sets)
}

/// Whether a server that has executed all writes up to these numbers has executed the whole set.
pub(super) fn contains(executed: &[u64], names: &[String], set: &Parsed) -> bool {
    set.iter().all(|(name, ranges)| {
        let last = names.iter().position(|known| known == name).map_or(0, |at| executed[at]);
        ranges.iter().all(|&(first, end)| first > end || end <= last)
    })
}

/// Whether the second set contains the first.
pub(super) fn is_subset(small: &Parsed, large: &Parsed) -> bool {
    small.iter().all(|(name, ranges)| {
        let mut known: Vec<(u64, u64)> = large
            .iter()
            .filter(|(other, _)| other == name)
            .flat_map(|(_, ranges)| ranges.iter().copied())
            .collect();
        known.sort_unstable();
        ranges.iter().all(|&(first, last)| {
            let mut next = first;
            for &(from, to) in &known {
                if from <= next && to >= next {
                    next = to.saturating_add(1);
                }
            }
            next > last
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "00000000-0000-4000-8000-00000000000a";
    const B: &str = "00000000-0000-4000-8000-00000000000b";

    #[test]
    fn a_set_survives_the_round_trip() {
        let names = [A.to_owned(), B.to_owned()];
        let text = format(&[3, 1], |at| names[at].clone());
        assert_eq!(text, format!("{A}:1-3,\n{B}:1"));
        let set = parse(&text).unwrap();
        assert!(contains(&[3, 1], &names, &set));
        assert!(contains(&[4, 2], &names, &set));
        assert!(!contains(&[2, 1], &names, &set));
        assert_eq!(format(&[0, 0], |_| String::new()), "");
        assert!(contains(&[0, 0], &names, &parse("").unwrap()));
    }

    #[test]
    fn unknown_servers_are_never_contained() {
        let set = parse(&format!("{B}:1")).unwrap();
        assert!(!contains(&[9], &[A.to_owned()], &set));
    }

    #[test]
    fn subsets_join_ranges() {
        let large = parse(&format!("{A}:1-3:4-6")).unwrap();
        assert!(is_subset(&parse(&format!("{A}:2-5")).unwrap(), &large));
        assert!(!is_subset(&parse(&format!("{A}:2-7")).unwrap(), &large));
    }

    #[test]
    fn malformed_sets_are_refused() {
        for text in ["x", "x:1", A, &format!("{A}:x"), &format!("{A}:1-")] {
            assert_eq!(parse(text).unwrap_err().code, 1772, "{text}");
        }
    }
}
