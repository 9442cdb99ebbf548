//! `poolctl balance` as an operator runs it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_poolctl"))
        .arg("balance")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

fn lines(arguments: &str) -> Vec<String> {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn indices(arguments: &str) -> Vec<u64> {
    lines(&format!("{arguments} --json"))
        .iter()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["index"].as_u64().unwrap()
        })
        .collect()
}

fn file(name: &str, text: &str) -> String {
    let path: PathBuf = [env!("CARGO_TARGET_TMPDIR"), name].iter().collect();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_weight_table_of_the_seed() {
    assert_eq!(
        lines("--policy weighted --weights 100,200,200 --picks 6 --json"),
        [
            r#"{"pick":0,"index":0,"credit":[-400,200,200]}"#,
            r#"{"pick":1,"index":1,"credit":[-300,-100,400]}"#,
            r#"{"pick":2,"index":2,"credit":[-200,100,100]}"#,
            r#"{"pick":3,"index":1,"credit":[-100,-200,300]}"#,
            r#"{"pick":4,"index":2,"credit":[0,0,0]}"#,
            r#"{"pick":5,"index":0,"credit":[-400,200,200]}"#,
        ]
    );
}

#[test]
fn the_active_table_of_the_seed() {
    let rows = file("active_table", "1,5,6\n2,4,6\n2,5,3\n1,2,3\n1,2,1\n0,3,3\n");
    let arguments = format!("--policy least-active --weights 100,200,200 --active-rows {rows}");
    assert_eq!(indices(&arguments), [0, 1, 2, 1, 2, 0]);
}

#[test]
fn twelve_picks_by_default_and_a_host_that_is_down_keeps_its_credit() {
    let seen = lines("--policy weighted --weights 100,200,200 --down 1 --json");
    assert_eq!(seen.len(), 12);
    assert_eq!(seen[0], r#"{"pick":0,"index":0,"credit":[-200,0,200]}"#);
    assert!(seen.iter().all(|line| line.contains(",0,")), "{seen:?}");
}

#[test]
fn the_other_policies() {
    assert_eq!(indices("--policy round-robin --weights 1,0,9 --picks 4"), [0, 2, 0, 2]);
    assert_eq!(
        indices("--policy random --weights 1,1 --seed 3"),
        indices("--policy random --weights 1,1 --seed 3")
    );
    assert_ne!(
        indices("--policy random --weights 1,1 --seed 3 --picks 50"),
        indices("--policy random --weights 1,1 --seed 4 --picks 50")
    );
    assert_eq!(
        lines("--policy round-robin --weights 5 --picks 1 --json"),
        [r#"{"pick":0,"index":0,"credit":null}"#]
    );
}

#[test]
fn nobody_eligible_is_an_answer() {
    assert_eq!(
        lines("--policy weighted --weights 0,0 --picks 1 --json"),
        [r#"{"pick":0,"index":null,"credit":[0,0]}"#]
    );
    assert_eq!(
        lines("--policy weighted --weights 5,5 --down 0,1 --picks 1"),
        ["pick    0: nobody is eligible   credits [0, 0]"]
    );
}

#[test]
fn bad_input_is_one_line_that_says_what_and_where() {
    let short = file("short_row", "1,2\n1\n");
    let word = file("word_row", "1,2\n\n1,x\n");
    for (arguments, part) in [
        ("--policy weighted --weights 10001", "10000"),
        ("--policy weighted --weights 1,x", "x"),
        ("--policy weighted --weights 1,-5", "-5"),
        ("--policy fair --weights 1", "fair"),
        ("--policy weighted", "--weights"),
        ("--policy weighted --weights 1,2 --down 2", "--down 2"),
        ("--policy weighted --weights 1,2 --active-rows /does/not/exist", "/does/not/exist"),
        (&*format!("--policy weighted --weights 1,2 --active-rows {short}"), "line 2"),
        (&*format!("--policy weighted --weights 1,2 --active-rows {word}"), "line 3"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
        assert!(text.contains(part), "{arguments}: {text}");
    }
}
