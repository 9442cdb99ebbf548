//! The logical connection.

/// How a logical connection behaves beyond the walk of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Whether each statement is a transaction of its own at the start. Defaults to `true`.
    pub autocommit: bool,
    /// Whether a connection that closed because no host was reachable opens again on its next use.
    /// Defaults to `false`.
    pub auto_reconnect: bool,
    /// As `auto_reconnect`, and checks the connection with autocommit off as well. Defaults to
    /// `false`.
    pub auto_reconnect_for_pools: bool,
    /// With automatic reconnection: checks the connection after the end of each transaction only.
    /// Defaults to `false`.
    pub reconnect_at_tx_end: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            autocommit: true,
            auto_reconnect: false,
            auto_reconnect_for_pools: false,
            reconnect_at_tx_end: false,
        }
    }
}
