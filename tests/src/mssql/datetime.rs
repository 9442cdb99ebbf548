//! `datetime2(7)` between its text form and its wire form: 100 ns since midnight, days since year 1.

const TICKS_PER_SECOND: u64 = 10_000_000;

/// Parses `YYYY-MM-DD[( |T)hh:mm[:ss[.f…]]]` to (ticks of 100 ns since midnight, days since
/// 0001-01-01).
pub(crate) fn parse(text: &str) -> Option<(u64, u32)> {
    let text = text.trim().trim_end_matches('Z');
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let mut parts = date.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok()?;
    let month: i64 = parts.next()?.parse().ok()?;
    let day: i64 = parts.next()?.parse().ok()?;
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut parts = time.splitn(3, ':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok()?;
    let seconds = parts.next().unwrap_or("0");
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let whole: u64 = whole.parse().ok()?;
    if hours > 23 || minutes > 59 || whole > 59 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut padded: String = fraction.chars().take(7).collect();
    while padded.len() < 7 {
        padded.push('0');
    }
    let ticks =
        (hours * 3600 + minutes * 60 + whole) * TICKS_PER_SECOND + padded.parse::<u64>().ok()?;
    Some((ticks, u32::try_from(days_from_civil(year, month, day)).ok()?))
}

/// The text form of a wire value.
pub(crate) fn format(ticks: u64, days: u32) -> String {
    let (year, month, day) = civil_from_days(i64::from(days));
    let seconds = ticks / TICKS_PER_SECOND;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:07}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ticks % TICKS_PER_SECOND
    )
}

/// Days from 0001-01-01 in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let past: i64 = (1..month).map(|m| month_length(m, leap)).sum();
    before * 365 + before / 4 - before / 100 + before / 400 + past + day - 1
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // 146097 days are 400 years; the estimate is at most one year too high.
    let mut year = days * 400 / 146_097 + 1;
    while days_from_civil(year, 1, 1) > days {
        year -= 1;
    }
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let mut rest = days - days_from_civil(year, 1, 1);
    let mut month = 1;
    while rest >= month_length(month, leap) {
        rest -= month_length(month, leap);
        month += 1;
    }
    (year, month, rest + 1)
}

fn month_length(month: i64, leap: bool) -> i64 {
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_way_there_and_back() {
        for text in [
            "0001-01-01 00:00:00.0000000",
            "2024-02-29 23:59:59.1234567",
            "9999-12-31 12:00:00.5000000",
        ] {
            let (ticks, days) = parse(text).expect(text);
            assert_eq!(format(ticks, days), text);
        }
        assert_eq!(parse("1900-01-01").map(|(_, days)| days), Some(693_595));
        assert_eq!(parse("2024-13-01"), None);
        assert_eq!(parse("hello"), None);
    }
}
