//! Dates and times as MySQL writes them, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, with up to six digits after the second.
pub(super) fn now(precision: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(now.as_secs() / 86_400);
    let second = now.as_secs() % 86_400;
    let mut text = format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    if precision > 0 {
        let micros = format!("{:06}", now.subsec_micros());
        text.push('.');
        text.push_str(&micros[..precision.min(6)]);
    }
    text
}

/// Seconds since 1970.
pub(super) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Microseconds since 1970 of `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (date, time) = text.trim().split_once([' ', 'T']).unwrap_or((text.trim(), "0:0:0"));
    let mut date = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.split(':');
    let hours: i64 = time.next()?.parse().ok()?;
    let minutes: i64 = time.next()?.parse().ok()?;
    let (second, fraction) = {
        let second = time.next().unwrap_or("0");
        second.split_once('.').unwrap_or((second, ""))
    };
    let second: i64 = second.parse().ok()?;
    let fraction = format!("{fraction:0<6}");
    let micros: i128 = fraction.get(..6)?.parse().ok()?;
    let in_seconds = days(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + second;
    Some(i128::from(in_seconds) * 1_000_000 + micros)
}

/// Year, month and day of a number of days since 1970 (proleptic Gregorian calendar, years that
/// begin in March).
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(days(2024, 2, 29), 19_782);
        assert_eq!(parse("1970-01-02 00:00:01.5"), Some(86_401_500_000));
        assert_eq!(parse("soon"), None);
    }

    #[test]
    fn now_can_be_read_back() {
        let before = i128::from(seconds()) * 1_000_000;
        let read = parse(&now(6)).unwrap_or_default();
        assert!((before..before + 60_000_000).contains(&read));
        assert_eq!(now(3).len(), 23);
    }
}
