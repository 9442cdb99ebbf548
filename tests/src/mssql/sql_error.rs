//! An error as SQL Server reports it: number, state, class (severity) and text.

use std::fmt;

/// One ERROR token. Class 20 and above closes the connection after it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    pub(crate) number: u32,
    pub(crate) state: u8,
    pub(crate) class: u8,
    pub(crate) message: String,
}

impl SqlError {
    /// An error with this number and class (severity, 0 to 25), state 1 and a text made of both.
    #[must_use]
    pub fn new(number: u32, class: u8) -> Self {
        Self { number, state: 1, class, message: format!("Error {number}, class {class}.") }
    }

    /// An error with the class and text SQL Server uses for `number`, or class 16 and a plain text
    /// where the kit does not know the number.
    #[must_use]
    pub fn known(number: u32) -> Self {
        let known = KNOWN.iter().find(|(n, ..)| *n == number);
        let (class, text) =
            known.map_or((16, "An error occurred."), |(_, class, text)| (*class, *text));
        Self::new(number, class).message(text)
    }

    /// Replaces the text.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Replaces the state. Defaults to 1.
    #[must_use]
    pub fn state(mut self, state: u8) -> Self {
        self.state = state;
        self
    }

    /// The error number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The class, also called severity.
    #[must_use]
    pub fn class(&self) -> u8 {
        self.class
    }

    pub(crate) fn closes_connection(&self) -> bool {
        self.class >= 20
    }

    pub(crate) fn cannot_open_database(database: &str) -> Self {
        Self::new(4060, 11).message(format!(
            "Cannot open database \"{database}\" requested by the login. The login failed."
        ))
    }

    pub(crate) fn login_failed(user: &str) -> Self {
        Self::new(18456, 14).message(format!("Login failed for user '{user}'."))
    }

    pub(crate) fn acting_as_mirror(database: &str) -> Self {
        Self::new(954, 14).message(format!(
            "The database \"{database}\" cannot be opened. It is acting as a mirror database."
        ))
    }

    pub(crate) fn in_transition(database: &str) -> Self {
        Self::new(952, 16)
            .message(format!("Database '{database}' is in transition. Try the statement later."))
    }

    pub(crate) fn replica_not_accessible(database: &str) -> Self {
        Self::new(976, 14).message(format!(
            "The target database, '{database}', is participating in an availability group and is \
             currently not accessible for queries."
        ))
    }

    pub(crate) fn read_intent_only(database: &str) -> Self {
        Self::new(978, 14).message(format!(
            "The target database ('{database}') is in an availability group and is currently \
             accessible for connections when the application intent is set to read only."
        ))
    }

    pub(crate) fn read_only_database(database: &str) -> Self {
        Self::new(3906, 16).message(format!(
            "Failed to update database \"{database}\" because the database is read-only."
        ))
    }

    pub(crate) fn syntax(near: &str) -> Self {
        Self::new(102, 15).message(format!("Incorrect syntax near '{near}'."))
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (class {}, state {}): {}", self.number, self.class, self.state, self.message)
    }
}

impl std::error::Error for SqlError {}

const KNOWN: &[(u32, u8, &str)] = &[
    (596, 21, "Cannot continue the execution because the session is in the kill state."),
    (701, 17, "There is insufficient system memory to run this query."),
    (921, 14, "Database has not been recovered yet. Wait and try again."),
    (922, 14, "Database is being recovered. Waiting until recovery is finished."),
    (927, 14, "Database cannot be opened. It is in the middle of a restore."),
    (942, 14, "Database cannot be opened because it is offline."),
    (952, 16, "Database is in transition. Try the statement later."),
    (954, 14, "The database cannot be opened. It is acting as a mirror database."),
    (955, 14, "Database is enabled for database mirroring, but the database lacks quorum."),
    (956, 14, "Database is enabled for database mirroring, but has not been synchronized."),
    (976, 14, "The target database is in an availability group and not accessible for queries."),
    (978, 14, "The target database is accessible when the application intent is read only."),
    (979, 14, "The target database does not allow read only connections."),
    (982, 14, "No readable secondary replica is available."),
    (983, 14, "The availability replica is not in the PRIMARY or SECONDARY role."),
    (988, 14, "Unable to access database because it lacks a quorum of nodes."),
    (1205, 13, "Transaction was deadlocked and has been chosen as the deadlock victim."),
    (1222, 16, "Lock request time out period exceeded."),
    (2627, 14, "Violation of PRIMARY KEY constraint. Cannot insert duplicate key."),
    (3906, 16, "Failed to update database because the database is read-only."),
    (3908, 16, "Could not run BEGIN TRANSACTION in database because it is read-only."),
    (4060, 11, "Cannot open database requested by the login. The login failed."),
    (4221, 16, "Login to read-secondary failed due to long wait."),
    (6005, 10, "SHUTDOWN is in progress."),
    (10928, 16, "Resource ID: 1. The request limit for the database has been reached."),
    (10929, 16, "Resource ID: 1. The server is currently too busy to support more requests."),
    (17142, 14, "SQL Server service has been paused. No new connections will be allowed."),
    (18401, 14, "Login failed. Reason: Server is in script upgrade mode."),
    (18456, 14, "Login failed for user."),
    (18486, 14, "Login failed because the account is currently locked out."),
    (18487, 14, "Login failed. Reason: The password of the account has expired."),
    (18488, 14, "Login failed. Reason: The password of the account must be changed."),
    (40020, 17, "The service has encountered an error processing your request."),
    (40143, 17, "The service has encountered an error processing your request."),
    (40166, 17, "The service has encountered an error processing your request."),
    (40197, 17, "The service has encountered an error processing your request. Please try again."),
    (40501, 20, "The service is currently busy. Retry the request after 10 seconds."),
    (40540, 17, "The service has encountered an error processing your request."),
    (
        40613,
        17,
        "Database on server is not currently available. Please retry the connection later.",
    ),
    (42108, 16, "Can not connect to the SQL pool since it is paused."),
    (42109, 16, "The SQL pool is warming up. Please try again."),
    (49918, 16, "Cannot process request. Not enough resources to process request."),
    (49919, 16, "Cannot process create or update request. Too many operations in progress."),
    (49920, 16, "Cannot process request. Too many operations in progress."),
];
