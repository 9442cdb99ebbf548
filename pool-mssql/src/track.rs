//! What a connection's wrapper remembers: whether an answer is pending, whether it is broken, what is dirty.

use std::time::Duration;

use pool_core::driver::Reporter;
use pool_core::verdict::Verdict;
use tokio::time::{Instant, timeout_at};

use crate::classify::{self, Classify, Phase};

/// The flags of one connection.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) classify: Option<Classify>,
    pub(crate) reporter: Reporter,
    /// The total time of one statement.
    pub(crate) limit: Option<Duration>,
    /// A request was sent, or may have been, and its answer was not read to the end.
    pub(crate) pending: bool,
    /// Never to be used again, and why.
    pub(crate) dead: Option<&'static str>,
    /// Something ran since the connection was last known to be clean.
    pub(crate) used: bool,
    /// The bare client was lent out: what ran is unknown.
    pub(crate) unseen: bool,
    /// The isolation level may have been changed.
    pub(crate) isolation: bool,
    /// The token stream may be out of step: only a known answer proves otherwise.
    pub(crate) doubtful: bool,
}

impl Track {
    pub(crate) fn new(
        reporter: Reporter,
        classify: Option<Classify>,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            classify,
            reporter,
            limit,
            pending: false,
            dead: None,
            used: false,
            unseen: false,
            isolation: false,
            doubtful: false,
        }
    }

    /// A request is about to be sent. Until [`Track::done`] or a complete error the answer is pending:
    /// a future that is dropped leaves it so.
    pub(crate) fn begin(&mut self, sql: &str) -> Limit {
        self.isolation |= mentions_isolation(sql);
        self.begin_quiet()
    }

    /// As [`Track::begin`], for a request whose text cannot change session settings.
    pub(crate) fn begin_quiet(&mut self) -> Limit {
        self.used = true;
        self.pending = true;
        Limit::new(self.limit)
    }

    /// The answer was read to its end.
    pub(crate) fn done(&mut self) {
        self.pending = false;
    }

    /// Takes note of how a whole answer ended.
    pub(crate) fn settle<T>(&mut self, result: &tiberius::Result<T>) {
        match result {
            Ok(_) => self.done(),
            Err(error) => self.failed(error),
        }
    }

    /// Takes note of an error, and tells the pool.
    pub(crate) fn failed(&mut self, error: &tiberius::error::Error) {
        let verdict = self.verdict(error);
        if classify::answer_complete(error) {
            self.pending = false;
        }
        if !verdict.keeps_connection() {
            self.dead = Some(verdict.as_str());
        } else if breaks_the_stream(error) {
            self.dead = Some("the answer cannot be read");
        }
        self.reporter.report(verdict, error);
    }

    pub(crate) fn verdict(&self, error: &tiberius::error::Error) -> Verdict {
        let own = self.classify.as_ref().and_then(|judge| judge.judge(error, Phase::Session));
        own.unwrap_or_else(|| classify::after_login(error))
    }

    /// The connection is as new.
    pub(crate) fn cleaned(&mut self) {
        self.pending = false;
        self.used = false;
        self.unseen = false;
        self.isolation = false;
        self.doubtful = false;
    }
}

/// The total time of one statement, from its sending to the end of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    whole: Duration,
    pub(crate) ends: Option<Instant>,
}

impl Limit {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { whole: limit.unwrap_or_default(), ends }
    }

    /// Runs `work` until the limit.
    pub(crate) async fn run<T>(
        self,
        work: impl Future<Output = tiberius::Result<T>>,
    ) -> tiberius::Result<T> {
        match self.ends {
            None => work.await,
            Some(ends) => timeout_at(ends, work).await.unwrap_or_else(|_| Err(self.error())),
        }
    }

    /// The error of a statement that ran out of time.
    pub(crate) fn error(self) -> tiberius::error::Error {
        tiberius::error::Error::Io {
            kind: std::io::ErrorKind::TimedOut,
            message: format!("{} after {:?}", classify::COMMAND_TIMEOUT, self.whole),
        }
    }
}

/// Errors that keep the connection by their verdict but arise while an answer is decoded.
fn breaks_the_stream(error: &tiberius::error::Error) -> bool {
    use tiberius::error::Error::{BulkInput, Io, Server};
    !matches!(error, Server(_) | Io { .. } | BulkInput(_))
}

/// Whether the text may change the isolation level. Cheap, and wrong only on the safe side.
fn mentions_isolation(sql: &str) -> bool {
    const WORD: &[u8] = b"ISOLATION";
    sql.as_bytes().windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track() -> Track {
        Track::new(Reporter::none(), None, None)
    }

    #[test]
    fn a_request_is_pending_until_its_answer_ends() {
        let mut track = track();
        track.begin("SELECT 1");
        assert!(track.pending && track.used && !track.isolation);
        track.settle(&Ok(()));
        assert!(!track.pending && track.used);
    }

    #[test]
    fn a_change_of_the_isolation_level_is_noticed_in_any_case() {
        for sql in
            ["set transaction Isolation level serializable", "SET TRANSACTION ISOLATION LEVEL X"]
        {
            let mut track = track();
            track.begin(sql);
            assert!(track.isolation, "{sql}");
        }
    }

    #[test]
    fn a_lost_connection_is_dead_and_an_expired_statement_is_only_pending() {
        let mut lost = track();
        lost.begin("x");
        lost.failed(&tiberius::error::Error::Io {
            kind: std::io::ErrorKind::ConnectionReset,
            message: String::new(),
        });
        assert!(lost.dead.is_some());
        let mut slow = track();
        let limit = slow.begin("x");
        slow.failed(&limit.error());
        assert!(slow.dead.is_none() && slow.pending);
        let mut garbled = track();
        garbled.begin("x");
        garbled.failed(&tiberius::error::Error::Utf16);
        assert!(garbled.dead.is_some());
    }

    #[test]
    fn the_users_judgement_goes_first() {
        let judge = |_: &tiberius::error::Error, _| Some(Verdict::Demoted);
        let track = Track::new(Reporter::none(), Some(Classify::new(judge)), None);
        assert_eq!(track.verdict(&tiberius::error::Error::Utf8), Verdict::Demoted);
    }
}
