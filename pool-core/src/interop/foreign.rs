//! What the managers of other pools have in common when they serve as a driver.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::driver::Reporter;
use crate::host::{Host, Role};
use crate::verdict::Verdict;

/// A connection made by another pool's manager. Dereferences to that connection.
///
/// Tell the pool about errors of statements by [`Foreign::report`]: nothing else can notice them.
pub struct Foreign<C, M, X = ()> {
    conn: C,
    /// What the manager wants to be told about the connection.
    extra: X,
    manager: Arc<M>,
    role: Role,
    reporter: Reporter,
    /// Whether it was touched since it was last known to be clean.
    pub(super) used: bool,
}

impl<C, M, X: Default> Foreign<C, M, X> {
    pub(super) fn new(conn: C, manager: Arc<M>, role: Role, reporter: Reporter) -> Self {
        Self { conn, extra: X::default(), manager, role, reporter, used: false }
    }
}

impl<C, M, X> Foreign<C, M, X> {
    /// Tells the pool about an error of a statement, so that the host is judged at once.
    pub fn report(&self, verdict: Verdict, error: &dyn fmt::Display) {
        self.reporter.report(verdict, error);
    }

    /// The configured role, where nobody can be asked: what is not a replica takes writes.
    pub(super) fn role(&self) -> Role {
        match self.role {
            Role::Replica => Role::Replica,
            _ => Role::Source,
        }
    }

    pub(super) fn parts(&mut self) -> (&mut C, &M, &mut X) {
        (&mut self.conn, &self.manager, &mut self.extra)
    }
}

impl<C, M, X> Deref for Foreign<C, M, X> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.conn
    }
}

impl<C, M, X> DerefMut for Foreign<C, M, X> {
    fn deref_mut(&mut self) -> &mut C {
        self.used = true;
        &mut self.conn
    }
}

impl<C, M, X> fmt::Debug for Foreign<C, M, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("role", &self.role).finish_non_exhaustive()
    }
}

/// An error of another pool's manager, judged.
#[derive(Clone, Debug)]
pub struct ForeignError {
    verdict: Verdict,
    message: String,
}

impl ForeignError {
    pub(super) fn new(verdict: Verdict, message: String) -> Self {
        Self { verdict, message }
    }

    /// What the error says.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ForeignError {}

/// Asks a connection what its server is.
pub(super) type Ask<C, E> = Box<dyn for<'a> Fn(&'a mut C) -> Asking<'a, Role, E> + Send + Sync>;

/// The future of a question to a connection, as a closure returns it: `Box::pin(async move { … })`.
pub type Asking<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

type Make<M> = Box<dyn Fn(&Host) -> M + Send + Sync>;
type Judge<E> = Box<dyn Fn(&E) -> Verdict + Send + Sync>;

/// One manager per host, made on first use.
pub(super) struct Managers<M, E> {
    make: Make<M>,
    judge: Judge<E>,
    made: Mutex<HashMap<Arc<str>, Arc<M>>>,
}

impl<M, E> Managers<M, E> {
    pub(super) fn new(make: impl Fn(&Host) -> M + Send + Sync + 'static) -> Self {
        let judge = Box::new(|_: &E| Verdict::HostDown);
        Self { make: Box::new(make), judge, made: Mutex::default() }
    }

    pub(super) fn judge(&mut self, judge: impl Fn(&E) -> Verdict + Send + Sync + 'static) {
        self.judge = Box::new(judge);
    }

    pub(super) fn of(&self, host: &Host) -> Arc<M> {
        let mut made = self.made.lock();
        Arc::clone(made.entry(host.shared_name()).or_insert_with(|| Arc::new((self.make)(host))))
    }

    /// Judges an error that can be printed.
    pub(super) fn wrap(&self, error: &E) -> ForeignError
    where
        E: fmt::Debug,
    {
        ForeignError::new((self.judge)(error), format!("{error:?}"))
    }

    /// Judges an error that may not even implement `Debug`.
    pub(super) fn wrap_silent(&self, error: &E) -> ForeignError {
        let verdict = (self.judge)(error);
        ForeignError::new(verdict, format!("the manager reports an error judged {verdict}"))
    }
}

impl<M, E> fmt::Debug for Managers<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made: Vec<_> = self.made.lock().keys().cloned().collect();
        f.debug_struct("Managers").field("hosts", &made).finish_non_exhaustive()
    }
}
