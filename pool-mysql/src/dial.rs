//! A connect that may be dropped half-way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use mysql_async::{Conn, Error};

/// The driver's connect future.
///
/// A connection that is dropped says goodbye in a task of its own. One that is dropped in the middle of a
/// TLS handshake has no stream to say it on and panics there. The task is only spawned inside a runtime,
/// so such a future is dropped outside of it.
pub(crate) struct Dial {
    work: Option<BoxFuture<'static, Result<Conn, Error>>>,
    uses_tls: bool,
}

impl Dial {
    pub(crate) fn new(work: BoxFuture<'static, Result<Conn, Error>>, uses_tls: bool) -> Self {
        Self { work: Some(work), uses_tls }
    }
}

impl Future for Dial {
    type Output = Result<Conn, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let outcome = work.as_mut().poll(cx);
        if outcome.is_ready() {
            self.work = None;
        }
        outcome
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.uses_tls
        {
            // If no thread can be had the future is dropped here: a message on stderr, nothing worse.
            let _ = std::thread::Builder::new().spawn(move || drop(work));
        }
    }
}
