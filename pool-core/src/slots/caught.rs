//! Keeps a panic of a driver from taking a long-lived task with it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The future panicked. The panic hook has reported it.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs a driver's future. After a panic nothing of it is used again, so that no broken state is seen.
///
/// Cancellation safety: that of the future.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
