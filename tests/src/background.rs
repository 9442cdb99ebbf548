//! A runtime of its own for each server or proxy, so that their timing does not depend on what the
//! tests do with theirs: block it, pause its clock, or drop it.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads allowed for statements that sleep or wait. Each costs only its stack.
const BLOCKING_THREADS: usize = 1024;

/// Runs tasks until it is dropped; dropping never blocks.
#[derive(Debug)]
pub(crate) struct Background(Option<Runtime>);

impl Background {
    /// Starts the threads.
    pub(crate) fn start(name: &str, workers: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Spawns a task on this runtime, from any thread.
    pub(crate) fn handle(&self) -> &Handle {
        // Only `drop` takes the runtime away.
        self.0.as_ref().map(Runtime::handle).unwrap_or_else(|| unreachable!("dropped"))
    }

    /// Runs `work` there and waits for its result here, on whatever runtime this is.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        self.handle().spawn(work).await.map_err(io::Error::other)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // May be called inside another runtime, where blocking is not allowed.
            runtime.shutdown_background();
        }
    }
}
