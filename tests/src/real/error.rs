//! What went wrong with a real server.

use std::error::Error as StdError;
use std::fmt;

/// A real server could not be started, reached or told something.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with no cause beneath it.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// For `map_err`: says what was being done when `source` happened.
    pub(crate) fn doing<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        move |source| Self { what: what.into(), source: Some(source.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
