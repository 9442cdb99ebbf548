//! Durations as people write them: `15s`, `100ms`, `1m30s`, `1.2s`, and `0`.

use std::time::Duration;

use serde_json::Number;

/// Reads a duration: numbers with a unit each (ns, us, ms, s, m, h), or a bare `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_u128;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c: char| c.is_alphabetic());
        let nanos = scale(number, unit_nanos(unit))
            .ok_or_else(|| format!("bad duration `{text}`: write it like 15s, 100ms or 1m30s"))?;
        total = total.saturating_add(nanos);
        rest = after;
    }
    let nanos = u64::try_from(total).ok().filter(|_| !text.is_empty());
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("bad duration `{text}`"))
}

/// Milliseconds as a JSON number: an integer where it is one.
pub(crate) fn millis(time: Duration) -> Number {
    let whole = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if time == Duration::from_millis(whole) {
        return whole.into();
    }
    Number::from_f64(time.as_secs_f64() * 1_000.0).unwrap_or_else(|| whole.into())
}

/// Seconds for people, with as many digits as needed and at least one.
pub(crate) fn seconds(time: Duration) -> String {
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number` times `unit`, in integers, so that 1.2s is exactly 1200 ms.
fn scale(number: &str, unit: Option<u128>) -> Option<u128> {
    let unit = unit?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    if whole.is_empty() {
        return None;
    }
    let exponent = u32::try_from(fraction.len()).ok()?;
    Some(digits.checked_mul(unit)? / 10_u128.pow(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        for (text, nanos) in [
            ("0", 0),
            ("15s", 15_000_000_000),
            ("100ms", 100_000_000),
            ("1m30s", 90_000_000_000),
            ("1.2s", 1_200_000_000),
            ("0.08s", 80_000_000),
            ("250us", 250_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for text in ["", "15", "s", "1x", "-1s", "1.s", ".5s", "1..2s", "1s s", "99999999999h"] {
            assert!(parse(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn milliseconds_are_integers_where_they_can_be() {
        assert_eq!(millis(Duration::from_millis(1_200)).to_string(), "1200");
        assert_eq!(millis(Duration::from_micros(80_800)).to_string(), "80.8");
    }

    #[test]
    fn seconds_have_as_many_digits_as_needed() {
        assert_eq!(seconds(Duration::from_millis(1_200)), "1.2");
        assert_eq!(seconds(Duration::from_secs(15)), "15.0");
    }
}
