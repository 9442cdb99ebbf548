//! What an error of `mysql_async` means for the connection and for the host.
//!
//! `Error::is_fatal` is not used: it says "not a server error" and nothing more, so it calls a wrong
//! parameter fatal and a server that shuts down harmless. Errors are judged by code, never by SQLState:
//! those that arrive before the handshake is complete carry `HY000` whatever they are.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use mysql_async::{DriverError, Error, IoError, ServerError};
use pool_core::verdict::Verdict;

/// Judges an error without knowing what it interrupted. Rules of the application
/// ([`MySql::classify_with`](crate::MySql::classify_with)) are asked before it.
///
/// | verdict | errors |
/// |---|---|
/// | `ConnectionLost` | I/O; 1047 1053 1080 1152 1154–1161 1184 1189 1190 3168; protocol errors of the driver |
/// | `ConnectionEnded` | 1927 and 3169 (killed), 4031 (idle limit), 1153 and packets larger than the client's limit |
/// | `Demoted` | 1290 if the text names read-only, 1792, 1836, 3100 |
/// | `Overloaded` | 1040 1129 1135 1203 1226 |
/// | `HostDown` | refused, unreachable, timed out while connecting, unknown name; 1042 1043 1130 |
/// | `Permanent` | 1044 1045 1049 1251 1698; TLS asked for and not offered, unusable authentication, certificates |
/// | `Statement` | everything else: 1205, 1213, 1317, 3024, wrong parameters … |
#[must_use]
pub fn classify(error: &Error) -> Verdict {
    match error {
        Error::Server(error) => classify_server(error),
        Error::Driver(error) => classify_driver(error),
        Error::Io(IoError::Io(error)) => classify_io(error),
        // A TLS error. Whether the variant exists depends on what the whole build asks of the driver.
        #[allow(unreachable_patterns)]
        Error::Io(error) => classify_tls(error),
        Error::Url(_) => Verdict::Permanent,
        // Made by callbacks of the application: nobody knows what state the session is in.
        Error::Other(_) => Verdict::ConnectionEnded,
    }
}

/// Whether the server refused a write because it, or the session, is read-only.
///
/// Such a statement was not executed and may be sent to another host: 1290 if its text names a read-only
/// option, 1792, 1836, and 3100 (a group that lost its majority).
#[must_use]
pub fn is_not_writable(error: &Error) -> bool {
    matches!(error, Error::Server(error) if classify_server(error) == Verdict::Demoted)
}

fn classify_server(error: &ServerError) -> Verdict {
    match error.code {
        1047 | 1053 | 1080 | 1152 | 1154..=1161 | 1184 | 1189 | 1190 | 3168 => {
            Verdict::ConnectionLost
        }
        1153 | 1927 | 3169 | 4031 => Verdict::ConnectionEnded,
        // 1290 stands for any option that forbids a statement.
        1290 if names_read_only(&error.message) => Verdict::Demoted,
        1792 | 1836 | 3100 => Verdict::Demoted,
        1040 | 1129 | 1135 | 1203 | 1226 => Verdict::Overloaded,
        1042 | 1043 | 1130 => Verdict::HostDown,
        1044 | 1045 | 1049 | 1251 | 1698 => Verdict::Permanent,
        _ => Verdict::Statement,
    }
}

fn names_read_only(message: &str) -> bool {
    ["read-only", "read_only"].iter().any(|name| message.contains(name))
}

fn classify_driver(error: &DriverError) -> Verdict {
    match error {
        DriverError::ConnectionClosed
        | DriverError::PacketOutOfOrder
        | DriverError::UnexpectedPacket { .. }
        | DriverError::BadCompressedPacketHeader
        | DriverError::CantParseServerVersion { .. }
        | DriverError::InvalidParsecSalt => Verdict::ConnectionLost,
        DriverError::PacketTooLarge | DriverError::PoolDisconnected => Verdict::ConnectionEnded,
        DriverError::NoClientSslFlagFromServer
        | DriverError::UnknownAuthPlugin { .. }
        | DriverError::MysqlOldPasswordDisabled
        | DriverError::CleartextPluginDisabled
        | DriverError::NamedPipesDisabled
        | DriverError::NoKeyFound => Verdict::Permanent,
        DriverError::FromValue { .. }
        | DriverError::FromRow { .. }
        | DriverError::Params(_)
        | DriverError::MixedParams
        | DriverError::NestedTransaction
        | DriverError::ReadOnlyTransNotSupported
        | DriverError::StmtParamsMismatch { .. }
        | DriverError::StmtParamsNumberExceedsLimit { .. }
        | DriverError::LocalInfile(_)
        | DriverError::BulkExecute(_) => Verdict::Statement,
    }
}

fn classify_io(error: &io::Error) -> Verdict {
    if let Some(TimedOut { connecting }) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return if *connecting { Verdict::HostDown } else { Verdict::ConnectionLost };
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NotFound => Verdict::HostDown,
        _ if is_certificate_error(error) => Verdict::Permanent,
        _ if is_oversized_packet(error) => Verdict::ConnectionEnded,
        _ => Verdict::ConnectionLost,
    }
}

/// rustls reports a certificate it will not accept as an I/O error that wraps its own.
fn is_certificate_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string().contains("peer certificate"))
}

/// The codec wraps its errors in an I/O error. This one is the caller's mistake, but it leaves half a
/// command on the wire.
fn is_oversized_packet(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.to_string().contains("larger than max_allowed_packet"))
}

fn classify_tls(error: &(dyn StdError + 'static)) -> Verdict {
    // A link that breaks during the TLS handshake is still a broken link.
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<io::Error>() {
            return Verdict::ConnectionLost;
        }
        cause = error.source();
    }
    Verdict::Permanent
}

/// Whether the driver has no connection any more, because of an error before this one.
pub(crate) fn is_closed_here(error: &Error) -> bool {
    match error {
        Error::Driver(DriverError::ConnectionClosed) => true,
        Error::Io(IoError::Io(error)) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
            inner.is_some_and(is_closed_here)
        }
        _ => false,
    }
}

type UserRules = Arc<dyn Fn(&Error) -> Option<Verdict> + Send + Sync>;

/// The verdict table with the application's own rules in front.
#[derive(Clone, Default)]
pub(crate) struct Classifier {
    user: Option<UserRules>,
}

impl Classifier {
    pub(crate) fn with_rules(rules: UserRules) -> Self {
        Self { user: Some(rules) }
    }

    /// Judges an error seen while connecting, or one whose circumstances are not known.
    pub(crate) fn judge(&self, error: &Error) -> Verdict {
        self.user.as_ref().and_then(|rules| rules(error)).unwrap_or_else(|| classify(error))
    }

    /// Judges an error of a statement.
    ///
    /// `asked` tells whether the caller asked for a read-only transaction, `forced` whether the pool made
    /// the session read-only: a refused write is then no news about the host.
    pub(crate) fn judge_statement(&self, error: &Error, asked: bool, forced: bool) -> Verdict {
        if let Some(verdict) = self.user.as_ref().and_then(|rules| rules(error)) {
            return verdict;
        }
        match (classify(error), error) {
            (Verdict::Demoted, Error::Server(ServerError { code: 1792, .. }))
                if asked || forced =>
            {
                Verdict::Statement
            }
            (Verdict::Demoted, _) if forced => Verdict::Statement,
            // `USE nothing` or a table that may not be read: the login itself was accepted long ago.
            (Verdict::Permanent, Error::Server(_)) => Verdict::Statement,
            (verdict, _) => verdict,
        }
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").field("user_rules", &self.user.is_some()).finish()
    }
}

/// A deadline of ours that passed.
#[derive(Debug)]
struct TimedOut {
    connecting: bool,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.connecting {
            "no connection within the time limit"
        } else {
            "no answer within the time limit"
        })
    }
}

impl StdError for TimedOut {}

/// The error of a connect that was not done in time.
pub(crate) fn connect_timed_out() -> Error {
    io::Error::new(io::ErrorKind::TimedOut, TimedOut { connecting: true }).into()
}

/// The error of a command that was not answered in time. The connection is out of step and must go.
pub(crate) fn command_timed_out() -> Error {
    io::Error::new(io::ErrorKind::TimedOut, TimedOut { connecting: false }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16, message: &str) -> Error {
        ServerError { code, message: message.to_owned(), state: "HY000".to_owned() }.into()
    }

    fn io(kind: io::ErrorKind) -> Error {
        io::Error::from(kind).into()
    }

    #[test]
    fn server_codes_have_the_verdict_of_the_table() {
        let rows: &[(Verdict, &[u16])] = &[
            (
                Verdict::ConnectionLost,
                &[
                    1047, 1053, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184,
                    1189, 1190, 3168,
                ],
            ),
            (Verdict::ConnectionEnded, &[1153, 1927, 3169, 4031]),
            (Verdict::Demoted, &[1792, 1836, 3100]),
            (Verdict::Overloaded, &[1040, 1129, 1135, 1203, 1226]),
            (Verdict::HostDown, &[1042, 1043, 1130]),
            (Verdict::Permanent, &[1044, 1045, 1049, 1251, 1698]),
            // 2006 and 2013 belong to the client library and never come from a server.
            (
                Verdict::Statement,
                &[1062, 1064, 1146, 1205, 1213, 1223, 1317, 2006, 2013, 3024, 3572],
            ),
        ];
        for (verdict, codes) in rows {
            for code in *codes {
                assert_eq!(classify(&server(*code, "text")), *verdict, "{code}");
            }
        }
    }

    #[test]
    fn code_1290_is_a_demotion_only_if_the_text_names_read_only() {
        let text = |option: &str| {
            format!(
                "The MySQL server is running with the {option} option so it cannot execute this \
                 statement"
            )
        };
        for option in ["--read-only", "--super-read-only", "--innodb-read-only", "read_only"] {
            let error = server(1290, &text(option));
            assert_eq!(classify(&error), Verdict::Demoted, "{option}");
            assert!(is_not_writable(&error));
        }
        for option in ["--skip-grant-tables", "--secure-file-priv"] {
            let error = server(1290, &text(option));
            assert_eq!(classify(&error), Verdict::Statement, "{option}");
            assert!(!is_not_writable(&error));
        }
    }

    #[test]
    fn driver_errors_have_the_verdict_of_the_table() {
        use DriverError as E;
        let lost = [
            E::ConnectionClosed,
            E::PacketOutOfOrder,
            E::UnexpectedPacket { payload: vec![1] },
            E::BadCompressedPacketHeader,
        ];
        let permanent = [
            E::NoClientSslFlagFromServer,
            E::UnknownAuthPlugin { name: "x".to_owned() },
            E::MysqlOldPasswordDisabled,
            E::CleartextPluginDisabled,
            E::NoKeyFound,
        ];
        let caller = [
            E::MixedParams,
            E::NestedTransaction,
            E::ReadOnlyTransNotSupported,
            E::StmtParamsMismatch { required: 1, supplied: 2 },
            E::StmtParamsNumberExceedsLimit { supplied: 70_000 },
            E::FromValue { value: mysql_async::Value::NULL },
            E::LocalInfile(mysql_async::LocalInfileError::NoHandler),
        ];
        for (verdict, errors) in [
            (Verdict::ConnectionLost, Vec::from(lost)),
            (Verdict::Permanent, Vec::from(permanent)),
            (Verdict::Statement, Vec::from(caller)),
        ] {
            for error in errors {
                let error = Error::from(error);
                assert_eq!(classify(&error), verdict, "{error}");
            }
        }
    }

    #[test]
    fn io_errors_are_judged_by_what_they_interrupted() {
        use io::ErrorKind as K;
        for kind in [K::ConnectionRefused, K::HostUnreachable, K::NetworkUnreachable, K::NotFound] {
            assert_eq!(classify(&io(kind)), Verdict::HostDown, "{kind:?}");
        }
        for kind in [K::ConnectionReset, K::UnexpectedEof, K::BrokenPipe, K::TimedOut, K::Other] {
            assert_eq!(classify(&io(kind)), Verdict::ConnectionLost, "{kind:?}");
        }
        assert_eq!(classify(&connect_timed_out()), Verdict::HostDown);
        assert_eq!(classify(&command_timed_out()), Verdict::ConnectionLost);
        let other = |text: &str| Error::from(io::Error::other(text.to_owned()));
        let verdict = classify(&other("invalid peer certificate: UnknownIssuer"));
        assert_eq!(verdict, Verdict::Permanent);
        let verdict = classify(&other("Packet is larger than max_allowed_packet"));
        assert_eq!(verdict, Verdict::ConnectionEnded);
        assert_eq!(classify(&other("Packets out of sync")), Verdict::ConnectionLost);
    }

    #[test]
    fn a_connection_that_is_gone_already_is_told_from_one_that_breaks() {
        let closed = || Error::from(DriverError::ConnectionClosed);
        assert!(is_closed_here(&closed()));
        assert!(is_closed_here(&io::Error::new(io::ErrorKind::UnexpectedEof, closed()).into()));
        assert!(!is_closed_here(&io(io::ErrorKind::UnexpectedEof)));
    }

    #[test]
    fn a_refused_write_is_no_demotion_if_it_was_asked_for() {
        let classifier = Classifier::default();
        let in_transaction = server(1792, "Cannot execute statement in a READ ONLY transaction.");
        let on_server = server(1290, "running with the --read-only option");
        let judge = |error, asked, forced| classifier.judge_statement(error, asked, forced);
        assert_eq!(judge(&in_transaction, false, false), Verdict::Demoted);
        assert_eq!(judge(&in_transaction, true, false), Verdict::Statement);
        assert_eq!(judge(&on_server, true, false), Verdict::Demoted);
        assert_eq!(judge(&on_server, false, true), Verdict::Statement);
        assert!(is_not_writable(&in_transaction) && is_not_writable(&on_server));
    }

    #[test]
    fn an_unknown_database_in_a_statement_is_the_statements_own_affair() {
        let classifier = Classifier::default();
        let error = server(1049, "Unknown database 'x'");
        assert_eq!(classifier.judge(&error), Verdict::Permanent);
        assert_eq!(classifier.judge_statement(&error, false, false), Verdict::Statement);
    }

    #[test]
    fn rules_of_the_application_come_first() {
        let classifier = Classifier::with_rules(Arc::new(|error| {
            matches!(error, Error::Server(e) if e.code == 1205).then_some(Verdict::ConnectionEnded)
        }));
        assert_eq!(classifier.judge(&server(1205, "")), Verdict::ConnectionEnded);
        let verdict = classifier.judge_statement(&server(1205, ""), false, false);
        assert_eq!(verdict, Verdict::ConnectionEnded);
        assert_eq!(classifier.judge(&server(1040, "")), Verdict::Overloaded);
    }
}
