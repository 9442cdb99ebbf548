//! The error of this driver: where a connect failed, or what a statement said.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::address::AddressError;

/// The error of this driver. Cheap to clone, so one failed attempt can be told to all who waited for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// SQL Server Browser did not name a port for the instance.
    Browser {
        /// The server asked for.
        target: String,
        /// What happened.
        reason: String,
    },
    /// No address of the server could be dialled.
    Dial {
        /// The server asked for.
        target: String,
        /// Each address and why it failed.
        causes: Vec<(SocketAddr, String)>,
    },
    /// The server was reached, the login failed.
    Login {
        /// The server that answered; after redirects not the one asked for.
        target: String,
        /// How many redirects were followed.
        hops: u8,
        /// What the driver says.
        error: tiberius::error::Error,
    },
    /// No name of the partner is known yet, or the principal reported that it has none.
    NoPartner,
    /// The partner answered, but its database is not mirrored.
    NotMirrored {
        /// The partner.
        target: String,
    },
    /// A redirect to something that is no address.
    BadRedirect {
        /// Who sent it.
        target: String,
        /// What is wrong with it.
        reason: AddressError,
    },
    /// The name cannot be resolved.
    Resolve {
        /// The server asked for.
        target: String,
        /// What the resolver says.
        reason: String,
    },
    /// A statement, or the connection it ran on, failed.
    Session(tiberius::error::Error),
    /// Cleaning a used connection failed; it is closed.
    Tidy(&'static str),
    /// The deadline ended it.
    TimedOut {
        /// The server asked for.
        target: String,
        /// What was going on.
        during: Stage,
        /// How long it took.
        after: Duration,
    },
    /// The name has more addresses than may be dialled at once.
    TooManyAddresses {
        /// The server asked for.
        target: String,
        /// How many there are.
        count: usize,
    },
    /// A server sent the client on once too often.
    TooManyRedirects {
        /// The server asked for.
        target: String,
        /// Where the last redirect pointed to.
        last: String,
    },
}

/// What an attempt to connect was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Waiting for the answer to a question of the pool's own.
    Answer,
    /// Asking SQL Server Browser for a port.
    Browser,
    /// Opening the TCP connection.
    Dial,
    /// PRELOGIN, TLS and login.
    Login,
    /// Looking up the name.
    Resolve,
}

impl Error {
    /// The error of the underlying driver, if it comes from there.
    #[must_use]
    pub fn driver_error(&self) -> Option<&tiberius::error::Error> {
        match self {
            Self::Login { error, .. } | Self::Session(error) => Some(error),
            _ => None,
        }
    }

    /// The number of a server error.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        self.driver_error().and_then(tiberius::error::Error::code)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer",
            Self::Browser => "SQL Server Browser look-up",
            Self::Dial => "TCP connect",
            Self::Login => "login",
            Self::Resolve => "name look-up",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Browser { target, reason } => write!(f, "{target}: SQL Server Browser: {reason}"),
            Self::Dial { target, causes } => {
                write!(f, "{target}: cannot connect")?;
                for (index, (address, cause)) in causes.iter().enumerate() {
                    write!(f, "{} {address}: {cause}", if index == 0 { ":" } else { ";" })?;
                }
                Ok(())
            }
            Self::Login { target, hops: 0, error } => write!(f, "{target}: login: {error}"),
            Self::Login { target, hops, error } => {
                write!(f, "{target}: login after {hops} redirects: {error}")
            }
            Self::NoPartner => f.write_str("no failover partner is known"),
            Self::NotMirrored { target } => write!(f, "{target}: its database is not mirrored"),
            Self::BadRedirect { target, reason } => write!(f, "{target}: bad redirect: {reason}"),
            Self::Resolve { target, reason } => write!(f, "{target}: name look-up: {reason}"),
            Self::Session(error) => write!(f, "{error}"),
            Self::Tidy(reason) => write!(f, "clean-up: {reason}"),
            Self::TimedOut { target, during, after } => {
                write!(f, "{target}: {during} not finished after {after:?}")
            }
            Self::TooManyAddresses { target, count } => {
                write!(f, "{target}: {count} addresses, at most 64 are dialled at once")
            }
            Self::TooManyRedirects { target, last } => {
                write!(f, "{target}: too many redirects, the last one to {last}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.driver_error().map(|error| error as _)
    }
}

impl From<tiberius::error::Error> for Error {
    /// An error of a logged-in connection.
    fn from(error: tiberius::error::Error) -> Self {
        Self::Session(error)
    }
}
