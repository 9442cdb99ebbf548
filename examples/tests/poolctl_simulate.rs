//! `poolctl simulate` as an operator runs it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Writes the scenario into a file of that name and simulates it.
fn simulate(name: &str, scenario: &str, json: bool) -> Output {
    let path: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("{name}.toml")].iter().collect();
    fs::write(&path, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_poolctl"));
    command.arg("simulate").arg(&path);
    if json {
        command.arg("--json");
    }
    command.output().unwrap()
}

fn lines(name: &str, scenario: &str) -> Vec<String> {
    let output = simulate(name, scenario, true);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// All attempts, as one history, of a scenario over three hosts with these settings and steps.
fn history(name: &str, head: &str, steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("[[step]]\n{step}\n")).collect();
    let scenario =
        format!("policy = \"cycling\"\nhosts = [\"H1\", \"H2\", \"H3\"]\n{head}\n{steps}");
    let mut attempts = Vec::new();
    for line in lines(name, &scenario) {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        for attempt in line["attempts"].as_array().unwrap() {
            attempts.push(attempt.as_str().unwrap().to_owned());
        }
    }
    attempts.join(" ")
}

#[test]
fn a_step_is_one_line_with_its_attempts_and_the_simulated_time() {
    let scenario = r#"
        policy = "cycling"
        hosts = ["H1", "H2", "H3"]
        down = ["H1"]
        [settings]
        retriesAllDown = 2
        failOverReadOnly = true
        autocommit = true
        [[step]]
        do = "connect"
        [[step]]
        up = ["H1"]
        down = ["H2"]
        do = "query"
        [[step]]
        set_read_only = true
        [[step]]
        do = "query"
        times = 10
        [[step]]
        wait = "30s"
        [[step]]
        set_autocommit = false
        [[step]]
        do = "rollback"
        [[step]]
        do = "close"
        [[step]]
        do = "query"
    "#;
    assert_eq!(
        lines("lines", scenario),
        [
            r#"{"step":1,"do":"connect","result":"ok","host":"H2","mode":"ro","attempts":["\\H1","/H2"],"t_ms":0}"#,
            r#"{"step":2,"do":"query","result":"error","error":"OutcomeUnknown","host":"H3","mode":"ro","attempts":["/H3"],"t_ms":0}"#,
            r#"{"step":3,"do":"set_read_only","result":"ok","host":"H3","mode":"ro","attempts":[],"t_ms":0}"#,
            r#"{"step":4,"do":"query","result":"ok","host":"H3","mode":"ro","attempts":[],"t_ms":0}"#,
            r#"{"step":5,"do":"wait","result":"ok","host":"H3","mode":"ro","attempts":[],"t_ms":30000}"#,
            r#"{"step":6,"do":"set_autocommit","result":"ok","host":"H3","mode":"ro","attempts":[],"t_ms":30000}"#,
            r#"{"step":7,"do":"rollback","result":"ok","host":"H1","mode":"ro","attempts":["/H1"],"t_ms":30000}"#,
            r#"{"step":8,"do":"close","result":"ok","host":null,"mode":null,"attempts":[],"t_ms":30000}"#,
            r#"{"step":9,"do":"query","result":"error","error":"Closed","host":null,"mode":null,"attempts":[],"t_ms":30000}"#,
        ]
    );
}

#[test]
fn the_histories_of_the_cases_come_out() {
    let two = "[settings]\nretriesAllDown = 2";
    let f07 = history(
        "f07",
        &format!("down = [\"H1\", \"H3\"]\n{two}"),
        &["do = \"connect\"", "up = [\"H1\"]\ndown = [\"H2\"]\ndo = \"query\""],
    );
    assert_eq!(f07, r"\H1 /H2 \H3 \H2 \H3 /H1");
    let f15 = history(
        "f15",
        "[settings]\nretriesAllDown = 2\nqueriesBeforeRetrySource = 10\nautocommit = false",
        &[
            "do = \"connect\"",
            "down = [\"H1\", \"H2\"]\ndo = \"query\"",
            "do = \"query\"\ntimes = 10",
            "up = [\"H1\", \"H2\"]\ndown = [\"H3\"]\ndo = \"query\"",
        ],
    );
    assert_eq!(f15, r"/H1 \H2 /H3 /H1");
    let legacy = history(
        "legacy",
        "down = [\"H1\"]\n[settings]\nqueriesBeforeRetryMaster = 3",
        &["do = \"connect\"", "up = [\"H1\"]\ndo = \"query\"\ntimes = 3"],
    );
    assert_eq!(legacy, r"\H1 /H2 /H1");
}

#[test]
fn everything_down_takes_the_turns_and_names_the_error() {
    let scenario = r#"
        policy = "cycling"
        hosts = ["H1", "H2", "H3"]
        down = ["H1", "H2", "H3"]
        settings = { retriesAllDown = 1 }
        [[step]]
        do = "connect"
        [[step]]
        up = ["H1"]
        do = "connect"
    "#;
    assert_eq!(
        lines("all-down", scenario),
        [
            r#"{"step":1,"do":"connect","result":"error","error":"FailoverFailed","host":null,"mode":null,"attempts":["\\H1","\\H2","\\H3","\\H1"],"t_ms":250}"#,
            r#"{"step":2,"do":"connect","result":"ok","host":"H1","mode":"rw","attempts":["/H1"],"t_ms":250}"#,
        ]
    );
}

#[test]
fn silent_hosts_take_simulated_time_only() {
    let scenario = r#"
        policy = "cycling"
        hosts = ["H1", "H2"]
        hang = ["H1"]
        settings = { connectTimeout = 2000, socketTimeout = 700 }
        [[step]]
        do = "connect"
        [[step]]
        hang = ["H2"]
        up = ["H1"]
        do = "query"
    "#;
    let seen = lines("silent", scenario);
    assert!(seen[0].ends_with(r#""attempts":["\\H1","/H2"],"t_ms":2000}"#), "{}", seen[0]);
    // The statement is cut, then H2 is tried again, then the source.
    assert!(seen[1].ends_with(r#""attempts":["\\H2","/H1"],"t_ms":4700}"#), "{}", seen[1]);
}

#[test]
fn a_lost_transaction_must_be_acknowledged() {
    let scenario = r#"
        policy = "cycling"
        hosts = ["H1", "H2"]
        [[step]]
        do = "begin"
        [[step]]
        down = ["H1"]
        do = "query"
        [[step]]
        do = "query"
        [[step]]
        do = "rollback"
        [[step]]
        do = "query"
        [[step]]
        do = "write"
    "#;
    let results: Vec<String> = lines("lost", scenario)
        .iter()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["error"].as_str().unwrap_or("ok").to_owned()
        })
        .collect();
    let expected = ["ok", "TransactionLost", "TransactionLost", "ok", "ok", "NotWritable"];
    assert_eq!(results, expected);
}

#[test]
fn a_mirrored_pair_walks_by_slices_of_its_login_timeout() {
    let scenario = r#"
        policy = "mirrored"
        hosts = ["A", "B"]
        hang = ["A"]
        settings = { "Connect Timeout" = 30, ConnectRetryCount = 0 }
        [[step]]
        do = "connect"
        [[step]]
        inactive = ["B"]
        up = ["A"]
        do = "query"
    "#;
    assert_eq!(
        lines("mirrored", scenario),
        [
            r#"{"step":1,"do":"connect","result":"ok","host":"B","mode":"rw","attempts":["\\A","/B"],"t_ms":2400}"#,
            r#"{"step":2,"do":"query","result":"error","error":"OutcomeUnknown","host":"A","mode":"rw","attempts":["\\B","/A"],"t_ms":2400}"#,
        ]
    );
}

#[test]
fn an_unlimited_walk_with_nobody_up_is_given_up_after_an_hour() {
    let scenario = r#"
        policy = "mirrored"
        hosts = ["A", "B"]
        down = ["A", "B"]
        settings = { "Connect Timeout" = 0, delay = "always" }
        [[step]]
        do = "connect"
    "#;
    let seen = lines("unlimited", scenario);
    assert!(seen[0].contains(r#""error":"StillTrying""#), "{}", &seen[0][..120]);
}

#[test]
fn people_get_a_table() {
    let scenario = "policy = \"cycling\"\nhosts = [\"H1\"]\n[[step]]\ndo = \"connect\"\n";
    let output = simulate("table", scenario, false);
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["1", "connect", "ok", "H1", "rw", "0.0", "s", "/H1"]);
}

#[test]
fn bad_input_is_named_with_its_place_on_one_line() {
    let head = "policy = \"cycling\"\nhosts = [\"H1\", \"H2\"]\n";
    let mirrored = "policy = \"mirrored\"\nhosts = [\"A\", \"B\"]\n";
    for (index, (scenario, named)) in [
        (format!("{head}[[step]]\ndo = \"jump\"\n"), vec!["line 4", "jump"]),
        (format!("{head}[[step]]\ndo = \"query\"\nfoo = 1\n"), vec!["line 5", "foo"]),
        (format!("{head}bar = 1\n"), vec!["line 3", "bar"]),
        (format!("{head}= 1\n"), vec!["line 3"]),
        (format!("{head}[[step]]\ntimes = 2\n"), vec!["step 1", "no action"]),
        (format!("{head}[[step]]\ndo = \"query\"\nwait = \"1s\"\n"), vec!["step 1", "two actions"]),
        (format!("{head}[[step]]\nwait = \"5\"\n"), vec!["step 1", "wait", "`5`"]),
        (format!("{head}[[step]]\ndo = \"query\"\ntimes = 0\n"), vec!["step 1", "times"]),
        (format!("{head}down = [\"H9\"]\n"), vec!["down", "H9"]),
        (
            format!("{head}[[step]]\nup = [\"H1\"]\ndown = [\"H1\"]\ndo = \"query\"\n"),
            vec!["step 1", "two states", "H1"],
        ),
        (
            format!("{head}settings = {{ retriesAllDone = 1 }}\n"),
            vec!["settings", "retriesAllDone"],
        ),
        (
            format!("{head}settings = {{ retriesAllDown = -1 }}\n"),
            vec!["settings", "retriesAllDown"],
        ),
        (format!("{head}settings = {{ autocommit = 1 }}\n"), vec!["settings", "autocommit"]),
        (format!("{mirrored}settings = {{ \"Connect Timeot\" = 1 }}\n"), vec!["Connect Timeot"]),
        (
            format!("{mirrored}settings = {{ ConnectRetryCount = 999 }}\n"),
            vec!["ConnectRetryCount"],
        ),
        (format!("{mirrored}settings = {{ delay = \"late\" }}\n"), vec!["delay"]),
        ("policy = \"random\"\nhosts = [\"H1\"]\n".to_owned(), vec!["line 1", "random"]),
        ("policy = \"cycling\"\nhosts = []\n".to_owned(), vec!["hosts"]),
        ("policy = \"cycling\"\nhosts = [\"H1\", \"H1\"]\n".to_owned(), vec!["hosts", "H1"]),
        (
            "policy = \"mirrored\"\nhosts = [\"A\", \"B\", \"C\"]\n".to_owned(),
            vec!["hosts", "pair"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let output = simulate(&format!("bad-{index}"), &scenario, true);
        assert_eq!(output.status.code(), Some(2), "{scenario}{output:?}");
        assert!(output.stdout.is_empty(), "{scenario}{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{scenario}{text}");
        for word in named.into_iter().chain([format!("bad-{index}.toml").as_str()]) {
            assert!(text.contains(word), "{scenario}{text} lacks {word}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_poolctl"))
        .args(["simulate", "/nonexistent/scenario.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nonexistent/scenario.toml"));
}
