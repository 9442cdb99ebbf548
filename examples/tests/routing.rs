//! The example that routes a session's statements says where each one went, and why.
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn each_statement_is_explained_and_runs_where_the_explanation_says() {
    let output = Command::new(env!("CARGO_BIN_EXE_routing")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut source = None;
    let mut seen = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(sql) = lines.next() {
        let explained = lines.next().unwrap().trim_start();
        let ran = lines.next().unwrap().trim_start();
        let bound = lines.next_if(|line| line.starts_with("    what follows stays there"));
        let Some(host) = ran.strip_prefix("ran on ") else {
            assert!(explained.starts_with("refused: "), "{sql}: {ran}");
            seen.push((sql, "refused".to_owned(), "nowhere", false));
            continue;
        };
        // The first statement writes.
        let source = *source.get_or_insert(host);
        let (why, rest) = explained.split_once(" on ").unwrap();
        let (picked, _) = rest.split_once("; ").unwrap();
        assert_eq!(picked, host, "{sql}: {explained}");
        let place = if host == source { "source" } else { "replica" };
        seen.push((sql, why.to_owned(), place, bound.is_some()));
    }
    let expected = [
        ("UPDATE items SET stock = stock - 1 WHERE id = 1", "held (transaction)", "source", true),
        (
            "SELECT stock FROM items WHERE id = 1 FOR UPDATE",
            "source (locking-read)",
            "source",
            false,
        ),
        ("/*FORCE_SLAVE*/ SELECT stock FROM items", "replica (hint)", "replica", false),
        ("/*FORCE_MASTER*/ SELECT stock FROM items", "source (hint)", "source", false),
        ("SELECT '/*FORCE_MASTER*/' FROM items", "replica (select)", "replica", false),
        ("SELECT LAST_INSERT_ID()", "source (session-value)", "source", false),
        ("SELECT FOUND_ROWS()", "held (found-rows)", "replica", false),
        ("START TRANSACTION READ ONLY", "replica (read-only-transaction)", "replica", true),
        ("SELECT stock + @a FROM items", "held (user-variable)", "source", true),
        ("KILL 5", "refused", "nowhere", false),
    ];
    for (sql, why, place, bound) in expected {
        let row = (sql, why.to_owned(), place, bound);
        assert!(seen.contains(&row), "{row:?} is not in {seen:#?}");
    }
}
