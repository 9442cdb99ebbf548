//! A server as a child process that never outlives the test process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::Error;

/// Runs "$@" and ends with it. The first line out is the server's process id. When standard input
/// ends, which is when the test process drops it or dies, the server is killed.
const WATCH: &str = r#"
exec 3<&0 </dev/null
"$@" >/dev/null 2>&1 3<&- &
server=$!
echo "$server"
exec >/dev/null 2>&1
{ cat; kill -KILL "$server"; } <&3 3<&- &
watch=$!
exec 3<&-
wait "$server"
kill "$watch"
"#;

const POLL: Duration = Duration::from_millis(10);

/// A running server process. Dropping it kills it and returns when it is gone.
#[derive(Debug)]
pub(super) struct Process {
    watch: Child,
    server: u32,
}

impl Process {
    /// Starts `command`, a program and its arguments. What it prints is lost.
    pub(super) async fn start(command: Vec<String>) -> Result<Self, Error> {
        tokio::task::spawn_blocking(move || Self::spawn(&command))
            .await
            .map_err(Error::doing("start a process"))?
    }

    /// Sends a signal by name, such as `KILL` or `STOP`.
    pub(super) async fn signal(&self, name: &str) -> Result<(), Error> {
        let pid = self.server.to_string();
        let status = tokio::process::Command::new("/bin/sh")
            .args(["-c", r#"kill -"$1" "$2""#, "kill", name, &pid])
            .status()
            .await
            .map_err(Error::doing("run kill"))?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("process {pid} takes no signal {name}"))),
        }
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(mut self, within: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        while self.is_running() {
            if Instant::now() >= deadline {
                return Err(Error::new(format!(
                    "process {} did not end in {within:?} and is killed",
                    self.server
                )));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn spawn(command: &[String]) -> Result<Self, Error> {
        let mut watch = Command::new("/bin/sh")
            .args(["-c", WATCH, "watch"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::doing("start a process"))?;
        let mut line = String::new();
        if let Some(out) = watch.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(Error::doing("start a process"))?;
        }
        let server = line.trim().parse().map_err(Error::doing("start a process"))?;
        Ok(Self { watch, server })
    }

    fn is_running(&mut self) -> bool {
        matches!(self.watch.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input makes the watch kill the server.
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use super::*;

    fn proc(process: &Process) -> PathBuf {
        PathBuf::from(format!("/proc/{}", process.server))
    }

    async fn sleeper() -> Process {
        Process::start(vec!["sleep".into(), "600".into()]).await.unwrap()
    }

    #[tokio::test]
    async fn dropped_process_is_gone() {
        let process = sleeper().await;
        let path = proc(&process);
        assert!(path.exists());
        drop(process);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn dropped_process_is_gone_though_it_was_stopped() {
        let process = sleeper().await;
        let path = proc(&process);
        process.signal("STOP").await.unwrap();
        drop(process);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn end_of_a_signalled_process_is_noticed() {
        let process = sleeper().await;
        let path = proc(&process);
        process.signal("TERM").await.unwrap();
        process.ended(Duration::from_secs(30)).await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn process_that_does_not_end_in_time_is_an_error_and_killed() {
        let process = sleeper().await;
        let path = proc(&process);
        assert!(process.ended(Duration::from_millis(30)).await.is_err());
        assert!(!path.exists());
    }
}
