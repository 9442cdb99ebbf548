//! What an error says about connection and host: own tables, extensible by the user.
//!
//! The same number can mean different things before and after login: 4060 at login is a database that is
//! failing over, 18456 after login a linked server. Mirroring reference, section 5.

use std::fmt;
use std::io;
use std::sync::Arc;

use pool_core::verdict::Verdict;
use tiberius::error::Error;

/// When an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Between PRELOGIN and the end of the login.
    Login,
    /// After the login.
    Session,
}

/// A user's judgement that goes before the tables.
#[derive(Clone)]
pub(crate) struct Classify(crate::options::Judge);

impl Classify {
    pub(crate) fn new(
        judge: impl Fn(&Error, Phase) -> Option<Verdict> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }

    pub(crate) fn judge(&self, error: &Error, phase: Phase) -> Option<Verdict> {
        (self.0)(error, phase)
    }
}

impl fmt::Debug for Classify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classify")
    }
}

/// Severity from which the server closes the connection.
pub(crate) const FATAL_CLASS: u8 = 20;

/// How the text of an error starts that our own limit for a statement made.
pub(crate) const COMMAND_TIMEOUT: &str = "command timeout";

/// The server, or its gateway, asks for patience: same host, later. Azure list without 4060.
const THROTTLED: [u32; 15] = [
    4221, 10928, 10929, 40020, 40143, 40166, 40197, 40501, 40540, 40613, 42108, 42109, 49918,
    49919, 49920,
];

/// No second attempt with the same credentials and settings can succeed.
const PERMANENT: [u32; 6] = [1346, 18452, 18456, 18486, 18487, 18488];

/// The database left the role it was used in: not executed, and the host takes no writes.
const DEMOTED: [u32; 5] = [976, 983, 3906, 3908, 6005];

/// Cannot open the database: failing over when there is a second endpoint, a wrong name when not.
const CANNOT_OPEN: u32 = 4060;

/// The session was killed.
const KILLED: u32 = 596;

/// Judges an error of a login.
///
/// `alone`: no second endpoint exists. Every number that is in no table counts as inactive, as other
/// drivers alternate on it too.
pub(crate) fn at_login(error: &Error, alone: bool) -> Verdict {
    match error {
        Error::Server(token) => number_at_login(token.code(), alone),
        Error::Io { kind, message } if is_tls_refusal(*kind, message) => Verdict::Permanent,
        Error::Io { .. } => Verdict::HostDown,
        Error::Tls(_) => Verdict::Permanent,
        Error::Protocol(text) if text.contains("requested encryption level") => Verdict::Permanent,
        Error::Protocol(text) if text.contains("requested instance") => Verdict::Permanent,
        // Whatever else speaks there, it is no working SQL Server.
        Error::Protocol(_)
        | Error::Encoding(_)
        | Error::Conversion(_)
        | Error::Utf8
        | Error::Utf16
        | Error::ParseInt(_)
        | Error::Routing { .. } => Verdict::HostDown,
        _ => Verdict::Permanent,
    }
}

/// Judges an error of a logged-in connection.
pub(crate) fn after_login(error: &Error) -> Verdict {
    match error {
        Error::Server(token) => number_after_login(token.code(), token.class()),
        Error::Io { message, .. } if message.starts_with(COMMAND_TIMEOUT) => Verdict::Statement,
        // The driver's own limit: the answer is half read, the host may just be slow.
        Error::Io { kind: io::ErrorKind::TimedOut, message } if message.contains("out of sync") => {
            Verdict::ConnectionEnded
        }
        Error::Io { .. } | Error::Tls(_) => Verdict::ConnectionLost,
        // A cancelled write or a driver limit that fired earlier: the link itself is sound.
        Error::Protocol(text) if text.contains("can no longer be used") => Verdict::ConnectionEnded,
        Error::Protocol(_) => Verdict::ConnectionLost,
        _ => Verdict::Statement,
    }
}

fn number_at_login(number: u32, alone: bool) -> Verdict {
    match number {
        _ if THROTTLED.contains(&number) => Verdict::Overloaded,
        _ if PERMANENT.contains(&number) => Verdict::Permanent,
        CANNOT_OPEN if alone => Verdict::Permanent,
        _ => Verdict::Inactive,
    }
}

fn number_after_login(number: u32, class: u8) -> Verdict {
    match number {
        _ if DEMOTED.contains(&number) => Verdict::Demoted,
        KILLED => Verdict::ConnectionLost,
        _ if class >= FATAL_CLASS => Verdict::ConnectionLost,
        _ if THROTTLED.contains(&number) => Verdict::Overloaded,
        _ => Verdict::Statement,
    }
}

/// Whether an error of a statement leaves the answer read to its end, and the connection usable.
pub(crate) fn answer_complete(error: &Error) -> bool {
    matches!(error, Error::Server(_))
}

/// rustls reports a refused handshake as invalid data with an alert in its text.
fn is_tls_refusal(kind: io::ErrorKind, message: &str) -> bool {
    kind == io::ErrorKind::InvalidData && message.contains("alert")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: io::ErrorKind, message: &str) -> Error {
        Error::Io { kind, message: message.to_owned() }
    }

    #[test]
    fn server_numbers_at_login() {
        let inactive = [
            4060, 952, 954, 955, 956, 921, 922, 927, 942, 976, 983, 978, 988, 18401, 17142, 6005,
            17809, 17810, 979, 982, 4064, 99999,
        ];
        for number in inactive {
            assert_eq!(number_at_login(number, false), Verdict::Inactive, "{number}");
        }
        for number in [18456, 18486, 18487, 18488, 1346, 18452] {
            assert_eq!(number_at_login(number, false), Verdict::Permanent, "{number}");
        }
        let throttled = [
            10928, 10929, 40197, 40501, 40613, 40143, 40540, 40020, 40166, 42108, 42109, 49918,
            49919, 49920, 4221,
        ];
        for number in throttled {
            assert_eq!(number_at_login(number, false), Verdict::Overloaded, "{number}");
            assert_eq!(number_at_login(number, true), Verdict::Overloaded, "{number}");
        }
    }

    #[test]
    fn a_database_that_cannot_be_opened_is_a_wrong_name_when_there_is_no_other_endpoint() {
        assert_eq!(number_at_login(4060, true), Verdict::Permanent);
        assert_eq!(number_at_login(954, true), Verdict::Inactive);
    }

    #[test]
    fn server_numbers_after_login() {
        for number in [3906, 3908, 976, 983, 6005] {
            assert_eq!(number_after_login(number, 16), Verdict::Demoted, "{number}");
        }
        assert_eq!(number_after_login(596, 21), Verdict::ConnectionLost);
        assert_eq!(number_after_login(823, 24), Verdict::ConnectionLost);
        assert_eq!(number_after_login(50_000, 20), Verdict::ConnectionLost);
        assert_eq!(number_after_login(50_000, 19), Verdict::Statement);
        assert_eq!(number_after_login(40501, 16), Verdict::Overloaded);
        for number in [1205, 701, 1222, 208, 2627, 18456, 4060] {
            assert_eq!(number_after_login(number, 16), Verdict::Statement, "{number}");
        }
    }

    #[test]
    fn login_errors_without_a_server_number() {
        let table = [
            (io(io::ErrorKind::ConnectionRefused, "refused"), Verdict::HostDown),
            (io(io::ErrorKind::UnexpectedEof, "eof"), Verdict::HostDown),
            (io(io::ErrorKind::InvalidData, "corrupt message"), Verdict::HostDown),
            (
                io(io::ErrorKind::InvalidData, "received fatal alert: HandshakeFailure"),
                Verdict::Permanent,
            ),
            (Error::Tls("unknown issuer".to_owned()), Verdict::Permanent),
            (
                Error::Protocol("Server does not allow the requested encryption level.".into()),
                Verdict::Permanent,
            ),
            (Error::Protocol("invalid token type 7".into()), Verdict::HostDown),
            (Error::Utf16, Verdict::HostDown),
        ];
        for (error, verdict) in table {
            assert_eq!(at_login(&error, false), verdict, "{error}");
        }
    }

    #[test]
    fn session_errors_without_a_server_number() {
        let table = [
            (io(io::ErrorKind::ConnectionReset, "reset"), Verdict::ConnectionLost),
            (
                io(io::ErrorKind::TimedOut, "Connection timed out (os error 110)"),
                Verdict::ConnectionLost,
            ),
            (io(io::ErrorKind::TimedOut, "command timeout of 1s"), Verdict::Statement),
            (
                io(io::ErrorKind::TimedOut, "… the connection is now out of sync …"),
                Verdict::ConnectionEnded,
            ),
            (Error::Protocol("… can no longer be used; open …".into()), Verdict::ConnectionEnded),
            (Error::Protocol("invalid token type 7".into()), Verdict::ConnectionLost),
            (Error::Conversion("no such column".into()), Verdict::Statement),
            (Error::BulkInput("too long".into()), Verdict::Statement),
        ];
        for (error, verdict) in table {
            assert_eq!(after_login(&error), verdict, "{error}");
        }
    }
}
