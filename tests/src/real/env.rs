//! What the environment offers, and turns between the tests of one process.

use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;

use tokio::sync::{Mutex, MutexGuard};

use super::{Error, docker};

const REAL: &str = "POOL_TESTS_REAL";
const MYSQL_IMAGE: &str = "POOL_TESTS_MYSQL_IMAGE";
const MARIADBD: &str = "POOL_TESTS_MARIADBD";

/// What `tests/setup/mysql-image.sh` made last on this machine.
const PREPARED: &str = "pool-tests/mysql:latest";
const OFFICIAL: &str = "mysql:8.4";

static TURN: Mutex<()> = Mutex::const_new(());

/// Whether real MySQL servers are wanted here. When not, prints a `SKIPPED: …` line that the test
/// harness does not capture, naming the caller; the test then returns.
///
/// It does not ask whether they can be started: where they are wanted, failing to is a failure.
#[track_caller]
pub fn mysql_available() -> bool {
    wanted("MySQL", Location::caller())
}

/// As [`mysql_available`], for MariaDB.
#[track_caller]
pub fn mariadb_available() -> bool {
    wanted("MariaDB", Location::caller())
}

/// Waits for this test's turn among those of its process that ask for one. The turn lasts until
/// the guard is dropped: declare it before the cluster, so that the cluster goes first.
pub async fn exclusive() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// Name and tag of the MySQL image.
pub(super) async fn mysql_image() -> Result<(String, String), Error> {
    if let Ok(image) = std::env::var(MYSQL_IMAGE) {
        return Ok(split_tag(&image));
    }
    let docker = docker::client().await?;
    let prepared = docker.inspect_image(PREPARED).await.is_ok();
    Ok(split_tag(if prepared { PREPARED } else { OFFICIAL }))
}

/// The MariaDB server.
pub(super) fn mariadbd() -> PathBuf {
    std::env::var_os(MARIADBD).map_or_else(|| PathBuf::from("/usr/sbin/mariadbd"), PathBuf::from)
}

/// Says that a test does not run and why, in a line that the test harness does not capture and
/// `tests/run` counts. The test then returns.
pub fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED: {test} {why}\n");
    // Not `eprintln`: the harness captures that of a test that passes. One write keeps the line
    // whole. Nothing can be done about a closed stderr.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn wanted(what: &str, caller: &Location<'_>) -> bool {
    let wanted = std::env::var_os(REAL).is_some_and(|value| value == "1");
    if !wanted {
        skip(
            &format!("{}:{}", caller.file(), caller.line()),
            &format!("needs real {what} servers; tests/run provides them"),
        );
    }
    wanted
}

fn split_tag(image: &str) -> (String, String) {
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => (name.into(), tag.into()),
        _ => (image.into(), "latest".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_reference_splits_at_its_tag_only() {
        let split = |image| {
            let (name, tag) = split_tag(image);
            format!("{name} {tag}")
        };
        assert_eq!(split("mysql:8.4"), "mysql 8.4");
        assert_eq!(split("mysql"), "mysql latest");
        assert_eq!(split("host:5000/mysql"), "host:5000/mysql latest");
        assert_eq!(split("host:5000/mysql:9"), "host:5000/mysql 9");
    }
}
