//! The error of a setting that cannot be used.

use std::error::Error;
use std::fmt;

/// A policy setting that cannot be used: which one, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOption {
    option: &'static str,
    reason: String,
}

impl InvalidOption {
    /// The setting `option` is refused because of `reason`.
    pub fn new(option: &'static str, reason: impl Into<String>) -> Self {
        Self { option, reason: reason.into() }
    }

    /// The name of the setting, as its builder method is called.
    #[must_use]
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// Why it cannot be used.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option `{}` {}", self.option, self.reason)
    }
}

impl Error for InvalidOption {}
