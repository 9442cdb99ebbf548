//! `poolctl route` as an operator runs it.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_poolctl"))
        .arg("route")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn lines(arguments: &[&str], input: &str) -> Vec<String> {
    let output = run(arguments, input.as_bytes());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn line(arguments: &[&str]) -> String {
    let lines = lines(arguments, "");
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].clone()
}

#[test]
fn a_statement_is_one_json_object() {
    for (arguments, expected) in [
        (&["SELECT 1"][..], r#"{"route":"replica","why":"select","sent":"SELECT 1","pin":null}"#),
        (
            &["SELECT a FROM t FOR UPDATE"],
            r#"{"route":"source","why":"locking-read","sent":"SELECT a FROM t FOR UPDATE","pin":null}"#,
        ),
        (
            &["/*FORCE_MASTER*/ SELECT 1"],
            r#"{"route":"source","why":"hint","sent":"SELECT 1","pin":null}"#,
        ),
        (
            &["/*force_node='db-2'*/ SELECT 1"],
            r#"{"route":"host:db-2","why":"hint","sent":"SELECT 1","pin":null}"#,
        ),
        (
            &["--no-hints", "/*FORCE_MASTER*/ SELECT 1"],
            r#"{"route":"replica","why":"select","sent":"/*FORCE_MASTER*/ SELECT 1","pin":null}"#,
        ),
        (
            &["--in-transaction", "/*FORCE_SLAVE*/ SELECT 1"],
            r#"{"route":"source","why":"transaction","sent":"SELECT 1","pin":"transaction"}"#,
        ),
        (
            &["--in-transaction", "COMMIT"],
            r#"{"route":"source","why":"transaction","sent":"COMMIT","pin":null}"#,
        ),
        (
            &["--autocommit", "off", "SELECT 1"],
            r#"{"route":"source","why":"autocommit-off","sent":"SELECT 1","pin":"autocommit-off"}"#,
        ),
        (
            &["BEGIN"],
            r#"{"route":"source","why":"transaction","sent":"BEGIN","pin":"transaction"}"#,
        ),
        (
            &["SELECT LAST_INSERT_ID()"],
            r#"{"route":"source","why":"session-value","sent":"SELECT LAST_INSERT_ID()","pin":"last-insert-id"}"#,
        ),
        (
            &["/*FORCE_SLAVE*/ SET x = 1"],
            r#"{"route":"refused","why":"hint-on-set","sent":null,"pin":null}"#,
        ),
        (
            &["--dialect", "mssql", "SELECT a FROM t WITH (UPDLOCK)"],
            r#"{"route":"source","why":"locking-read","sent":"SELECT a FROM t WITH (UPDLOCK)","pin":null}"#,
        ),
        (
            &["--dialect", "mysql", "SELECT a FROM t WITH (UPDLOCK)"],
            r#"{"route":"replica","why":"select","sent":"SELECT a FROM t WITH (UPDLOCK)","pin":null}"#,
        ),
        (
            &["SELECT 1; SELECT \"a\""],
            r#"{"route":"source","why":"multi-statement","sent":"SELECT 1; SELECT \"a\"","pin":null}"#,
        ),
        (&["FROB"], r#"{"route":"source","why":"unknown","sent":"FROB","pin":null}"#),
    ] {
        let arguments: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        assert_eq!(line(&arguments), expected, "{arguments:?}");
    }
}

#[test]
fn every_argument_and_every_line_of_standard_input_is_a_statement() {
    let expected = [
        r#"{"route":"replica","why":"select","sent":"SELECT 1","pin":null}"#,
        r#"{"route":"source","why":"empty","sent":"","pin":null}"#,
        r#"{"route":"source","why":"write","sent":"DELETE FROM t","pin":null}"#,
    ];
    assert_eq!(lines(&["--json", "SELECT 1", "", "DELETE FROM t"], ""), expected);
    assert_eq!(lines(&["--json"], "SELECT 1\n\nDELETE FROM t\n"), expected);
}

#[test]
fn without_json_a_person_can_read_it() {
    assert_eq!(line(&["SELECT 1"]), "replica   select            SELECT 1");
    assert_eq!(line(&["BEGIN"]), "source    transaction       BEGIN  [bound by: transaction]");
    assert_eq!(line(&["KILL 5"]), "refused   needs-host        (not sent)");
}

#[test]
fn bad_input_is_one_line_and_status_2() {
    for (arguments, input, part) in [
        (&["--dialect", "oracle", "SELECT 1"][..], &b""[..], "oracle"),
        (&["--autocommit", "maybe", "SELECT 1"], b"", "maybe"),
        (&["--frob"], b"", "--frob"),
        (&[], b"SELECT 1\n\xff\n", "line 2"),
    ] {
        let output = run(arguments, input);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(part), "{text}");
    }
}
