//! Why options were refused. Never shows a secret: values are named, not repeated, unless they are harmless.

use std::fmt;

use crate::address::AddressError;

/// Why options were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// An address cannot be read, or is not TCP.
    Address {
        /// The option, as written or by its Rust name.
        key: String,
        /// What is wrong with it.
        error: AddressError,
    },
    /// Two options exclude each other.
    Conflict {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// The option needs a cargo feature that this build does not have.
    Feature {
        /// The option.
        option: &'static str,
        /// The feature, or the features that would do.
        feature: &'static str,
    },
    /// An option is missing.
    Missing {
        /// The option.
        option: &'static str,
        /// What it is needed for.
        reason: &'static str,
    },
    /// The connection string cannot be split into keys and values.
    Syntax {
        /// Where, in bytes from the start.
        at: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A key that nobody here handles. Drivers that ignore such keys hide spelling mistakes.
    UnknownKey {
        /// The key, as written.
        key: String,
    },
    /// The key is known, its value is not supported or out of range.
    Value {
        /// The key, as written or by its Rust name.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
}

impl OptionsError {
    pub(crate) fn value(key: &str, reason: impl Into<String>) -> Self {
        Self::Value { key: key.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { key, error } => write!(f, "`{key}`: {error}"),
            Self::Conflict { first, second, reason } => {
                write!(f, "`{first}` excludes `{second}`: {reason}")
            }
            Self::Feature { option, feature } => {
                write!(f, "`{option}` needs the cargo feature {feature} of pool-mssql")
            }
            Self::Missing { option, reason } => write!(f, "`{option}` is missing: {reason}"),
            Self::Syntax { at, reason } => write!(f, "connection string, byte {at}: {reason}"),
            Self::UnknownKey { key } => write!(f, "unknown key `{key}` in the connection string"),
            Self::Value { key, reason } => write!(f, "`{key}`: {reason}"),
        }
    }
}

impl std::error::Error for OptionsError {}
