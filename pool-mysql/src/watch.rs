//! What a connection remembers about itself beside the driver's own state.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mysql_async::Error;
use pool_core::driver::Reporter;
use pool_core::verdict::Verdict;

use crate::classify::{Classifier, command_timed_out, is_closed_here};
use crate::sniff::Effect;

/// Sees every statement that goes through the wrapper and every error that comes back.
pub(crate) struct Watch {
    pub(crate) reporter: Reporter,
    pub(crate) classifier: Classifier,
    /// The longest time one statement may take; `None` is no limit.
    pub(crate) statement_limit: Option<Duration>,
    /// Autocommit as it was after login and set-up.
    pub(crate) autocommit: bool,
    /// Whether the pool made the session read-only.
    pub(crate) forced_read_only: bool,
    /// Whether the session is read-only now.
    pub(crate) read_only: bool,
    /// Whether the caller asked for a read-only transaction since the connection was last clean.
    pub(crate) asked_read_only: bool,
    /// Never to be used again.
    pub(crate) poisoned: bool,
    /// The status flags cannot be trusted.
    pub(crate) unsure: bool,
    /// A mistake of the caller was seen. The driver may have closed the connection over it.
    pub(crate) mistaken: bool,
    /// The driver sends a ROLLBACK of its own before the next command.
    pub(crate) rollback_owed: bool,
    pub(crate) database_changed: bool,
    /// `SET TRANSACTION` was said. A transaction may have used it up since; the server does not tell.
    pub(crate) next_transaction_set: bool,
    pub(crate) tables_locked: bool,
    /// Anything ran since the connection was last tidied.
    pub(crate) used: bool,
}

impl Watch {
    pub(crate) fn new(reporter: Reporter, classifier: Classifier, limit: Option<Duration>) -> Self {
        Self {
            reporter,
            classifier,
            statement_limit: limit,
            autocommit: true,
            forced_read_only: false,
            read_only: false,
            asked_read_only: false,
            poisoned: false,
            unsure: false,
            mistaken: false,
            rollback_owed: false,
            database_changed: false,
            next_transaction_set: false,
            tables_locked: false,
            used: false,
        }
    }

    /// Judges an error, remembers what follows from it and tells the pool at once.
    pub(crate) fn note(&mut self, error: &Error) -> Verdict {
        let forced = self.forced_read_only && self.read_only;
        let asked = self.asked_read_only || self.read_only;
        let verdict = if self.mistaken && is_closed_here(error) {
            // The echo of the mistake, no news about the host.
            Verdict::ConnectionEnded
        } else {
            self.classifier.judge_statement(error, asked, forced)
        };
        self.unsure = true;
        self.mistaken |= matches!(error, Error::Driver(_)) && verdict == Verdict::Statement;
        // What follows on a connection that is over ("connection closed") is no news.
        if !verdict.keeps_connection() && !self.poisoned {
            self.poisoned = true;
            self.reporter.report(verdict, error);
        }
        verdict
    }

    /// Remembers what the next user of the connection must not inherit.
    pub(crate) fn announce(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Database => self.database_changed = true,
            Effect::NextTransaction { read_only } => {
                self.next_transaction_set = true;
                self.asked_read_only |= read_only;
            }
            Effect::TableLocks => self.tables_locked = true,
            Effect::TransactionReadOnly => self.asked_read_only = true,
            Effect::SessionReadOnly(on) => self.read_only = on,
        }
    }

    /// Runs a command and judges its outcome. `settles` tells whether the server's answer to it carries
    /// status flags; that of a mere PREPARE does not, and the driver reads it as if it did.
    pub(crate) fn run<'a, T: 'a>(
        &'a mut self,
        command: BoxFuture<'a, Result<T, Error>>,
        settles: bool,
    ) -> BoxFuture<'a, Result<T, Error>> {
        self.used = true;
        async move {
            let outcome = self.bounded(command).await;
            match &outcome {
                Ok(_) => self.unsure = !settles,
                Err(error) => {
                    self.note(error);
                }
            }
            outcome
        }
        .boxed()
    }

    /// Waits for `work` as long as one statement may take.
    pub(crate) async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.statement_limit {
            None => work.await,
            Some(limit) => match tokio::time::timeout(limit, work).await {
                Ok(outcome) => outcome,
                Err(_) => Err(command_timed_out()),
            },
        }
    }

    /// Whether something has to be undone that the server's status flags do not show.
    pub(crate) fn owes_anything(&self) -> bool {
        self.unsure
            || self.rollback_owed
            || self.database_changed
            || self.next_transaction_set
            || self.tables_locked
            || self.read_only != self.forced_read_only
    }

    /// The session is as it was after set-up.
    pub(crate) fn settled(&mut self) {
        self.asked_read_only = false;
        self.unsure = false;
        self.rollback_owed = false;
        self.database_changed = false;
        self.next_transaction_set = false;
        self.tables_locked = false;
        self.read_only = self.forced_read_only;
        self.used = false;
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("read_only", &self.read_only)
            .field("poisoned", &self.poisoned)
            .field("unsure", &self.unsure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use mysql_async::{DriverError, ServerError};
    use pool_core::driver::Report;

    use super::*;

    #[derive(Default)]
    struct Reports(Mutex<Vec<Verdict>>);

    impl Report for Reports {
        fn report(&self, verdict: Verdict, _message: &dyn fmt::Display) {
            if let Ok(mut list) = self.0.lock() {
                list.push(verdict);
            }
        }
    }

    fn watch() -> (Watch, Arc<Reports>) {
        let reports = Arc::new(Reports::default());
        let reporter = Reporter::new(reports.clone());
        (Watch::new(reporter, Classifier::default(), None), reports)
    }

    fn server(code: u16) -> Error {
        ServerError { code, message: "--read-only".to_owned(), state: String::new() }.into()
    }

    fn seen(reports: &Reports) -> Vec<Verdict> {
        reports.0.lock().map(|list| list.clone()).unwrap_or_default()
    }

    #[test]
    fn the_first_error_that_ends_a_connection_is_reported_once() {
        let (mut watch, reports) = watch();
        assert_eq!(watch.note(&server(1062)), Verdict::Statement);
        assert!(watch.unsure && !watch.poisoned);
        assert_eq!(watch.note(&server(1290)), Verdict::Demoted);
        watch.note(&DriverError::ConnectionClosed.into());
        assert!(watch.poisoned);
        assert_eq!(seen(&reports), [Verdict::Demoted]);
    }

    #[test]
    fn a_connection_closed_over_a_mistake_of_the_caller_says_nothing_about_the_host() {
        let (mut watch, reports) = watch();
        assert_eq!(watch.note(&DriverError::MixedParams.into()), Verdict::Statement);
        let closed = DriverError::ConnectionClosed.into();
        assert_eq!(watch.note(&closed), Verdict::ConnectionEnded);
        assert_eq!(seen(&reports), [Verdict::ConnectionEnded]);
    }

    #[test]
    fn a_write_refused_by_a_session_that_the_pool_made_read_only_keeps_the_connection() {
        let (mut watch, reports) = watch();
        watch.forced_read_only = true;
        watch.read_only = true;
        assert_eq!(watch.note(&server(1792)), Verdict::Statement);
        assert_eq!(watch.note(&server(1290)), Verdict::Statement);
        assert!(!watch.poisoned);
        assert_eq!(seen(&reports), []);
    }

    #[test]
    fn a_read_only_transaction_of_the_caller_excuses_1792_until_the_connection_is_clean() {
        let (mut watch, _reports) = watch();
        watch.announce(Effect::TransactionReadOnly);
        assert_eq!(watch.note(&server(1792)), Verdict::Statement);
        watch.settled();
        assert_eq!(watch.note(&server(1792)), Verdict::Demoted);
    }

    #[test]
    fn a_changed_session_has_to_be_tidied() {
        for effect in [
            Effect::Database,
            Effect::NextTransaction { read_only: false },
            Effect::TableLocks,
            Effect::SessionReadOnly(true),
        ] {
            let (mut watch, _reports) = watch();
            assert!(!watch.owes_anything());
            watch.announce(effect);
            assert!(watch.owes_anything(), "{effect:?}");
            watch.settled();
            assert!(!watch.owes_anything(), "{effect:?}");
        }
    }
}
