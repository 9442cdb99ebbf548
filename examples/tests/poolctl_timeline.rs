//! `poolctl timeline` as an operator runs it.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn timeline(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_poolctl"))
        .arg("timeline")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// The lines of standard output of a run that succeeds.
fn lines(arguments: &str) -> Vec<String> {
    let output = timeline(arguments);
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The one line on standard error of a run that is refused.
fn refusal(arguments: &str) -> String {
    let output = timeline(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
    text
}

#[test]
fn a_silent_initial_partner_is_left_after_8_percent() {
    assert_eq!(
        lines("--partner up --json"),
        [
            r#"{"start_ms":0,"host":"initial","budget_ms":1200,"end_ms":1200,"outcome":"timed-out"}"#,
            r#"{"start_ms":1200,"host":"partner","budget_ms":1200,"end_ms":1200,"outcome":"connected"}"#,
            r#"{"result":"connected","host":"partner","end_ms":1200,"attempts":2}"#,
        ]
    );
}

#[test]
fn the_last_slice_of_15_seconds_is_cut_to_600_ms() {
    let seen = lines("--json");
    assert_eq!(
        seen[6..],
        [
            r#"{"start_ms":14400,"host":"initial","budget_ms":600,"end_ms":15000,"outcome":"timed-out"}"#,
            r#"{"result":"timed-out","end_ms":15000,"attempts":7}"#,
        ]
    );
}

#[test]
fn the_rule_always_stops_before_a_delay_that_does_not_fit() {
    let seen = lines("--delay always --json");
    assert_eq!(seen.last().unwrap(), r#"{"result":"timed-out","end_ms":14700,"attempts":6}"#);
}

#[test]
fn refusals_are_paced_by_the_delays() {
    let seen = lines("--initial refuse --partner refuse --json");
    assert_eq!(
        seen[2],
        r#"{"start_ms":100,"host":"initial","budget_ms":2400,"end_ms":100,"outcome":"refused"}"#
    );
    assert_eq!(seen.last().unwrap(), r#"{"result":"timed-out","end_ms":14500,"attempts":36}"#);
}

#[test]
fn a_state_can_change_at_a_time() {
    let seen = lines("--initial inactive --partner inactive,up@3200ms --json");
    assert_eq!(
        seen.last().unwrap(),
        r#"{"result":"connected","host":"partner","end_ms":3500,"attempts":14}"#
    );
}

#[test]
fn a_refused_login_is_final() {
    assert_eq!(
        lines("--initial auth --partner up --json"),
        [
            r#"{"start_ms":0,"host":"initial","budget_ms":1200,"end_ms":0,"outcome":"auth-failed"}"#,
            r#"{"result":"permanent","end_ms":0,"attempts":1}"#,
        ]
    );
}

#[test]
fn an_unlimited_walk_is_stopped_by_the_limit() {
    let seen = lines("--login-timeout 0 --limit 200s --json");
    assert_eq!(
        seen[24],
        r#"{"start_ms":187200,"host":"initial","budget_ms":15000,"end_ms":202200,"outcome":"timed-out"}"#
    );
    assert_eq!(seen[25], r#"{"result":"limit","end_ms":202200,"attempts":25}"#);
}

#[test]
fn shares_of_a_millisecond_are_not_rounded() {
    let seen = lines("--login-timeout 1010ms --partner up --json");
    assert!(seen[0].contains(r#""budget_ms":80.8,"end_ms":80.8"#), "{}", seen[0]);
}

#[test]
fn people_get_a_table_and_a_warning_about_a_short_timeout() {
    let seen = lines("--login-timeout 4s --partner up");
    assert!(seen[0].starts_with("warning: a login timeout of 4s"), "{}", seen[0]);
    assert_eq!(seen.last().unwrap(), "connected to partner at 0.32 s after 2 attempts");
}

#[test]
fn bad_input_is_named_on_one_line() {
    for (arguments, named) in [
        ("--login-timeout 15", "--login-timeout"),
        ("--login-timeout 1us", "--login-timeout must be zero (unlimited) or at least 1 ms"),
        ("--initial foo", "unknown state `foo`"),
        ("--partner hang,up", "`up` needs a time"),
        ("--partner up@3s,hang@2s", "`hang@2s` is earlier"),
        ("--delay late", "--delay"),
        ("--limit 1y", "--limit"),
        ("--bogus", "--bogus"),
        ("--svg /nonexistent-directory/walk.svg", "/nonexistent-directory/walk.svg"),
    ] {
        let line = refusal(arguments);
        assert!(line.contains(named), "{arguments}: {line}");
    }
}

#[test]
fn the_picture_labels_lanes_budgets_and_outcomes() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("timeline.svg");
    lines(&format!("--svg {}", path.display()));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("<svg"), "{}", &text[..40]);
    for label in ["initial", "partner", "1.2 s", "2.4 s", "3.6 s", "0.6 s", "timed-out"] {
        assert!(text.contains(label), "{label}");
    }
}
