//! Why a subcommand stopped.

use std::{fmt, io};

/// What goes to standard error, on one line.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something in the input is wrong: what and where.
    Input(String),
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => {
                f.write_str(&what.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Self::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}
