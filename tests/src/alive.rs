//! Waits until everything that was alive at some moment is gone.

use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Hands out guards.
#[derive(Debug)]
pub(crate) struct Alive(Mutex<(mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>)>);

/// Something is alive as long as it holds one.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    _sender: mpsc::Sender<Infallible>,
}

/// The guards handed out before a certain moment.
#[derive(Debug)]
pub(crate) struct Earlier(mpsc::Receiver<Infallible>);

impl Alive {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(mpsc::channel(1)))
    }

    pub(crate) fn guard(&self) -> Guard {
        Guard { _sender: self.0.lock().0.clone() }
    }

    /// Those handed out so far; later ones do not count.
    pub(crate) fn earlier(&self) -> Earlier {
        let (_, receiver) = std::mem::replace(&mut *self.0.lock(), mpsc::channel(1));
        Earlier(receiver)
    }
}

impl Earlier {
    /// Resolves when all of them are dropped.
    pub(crate) async fn gone(mut self) {
        // Nothing can be sent: the end of the channel is the only event.
        let None = self.0.recv().await;
    }
}
