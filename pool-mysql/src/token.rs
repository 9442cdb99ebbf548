//! Reading your own writes: a position in the source's history, and waiting for a replica to reach it.

use std::fmt;
use std::time::Duration;

use mysql_async::Error;
use mysql_async::prelude::Queryable;

use pool_core::statement::TokenDriver;

use crate::conn::{Conn, is_mariadb};
use crate::driver::MySql;

/// A position in the history of writes: everything up to it has happened.
///
/// It belongs to the caller's context (a web session, a request), not to the pool. Serialise it (feature
/// `serde`, or [`Token::as_str`]) to carry it to the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Token(String);

impl Token {
    /// The position of the host behind `conn`, as of now: one round trip. Ask the source, after the write.
    ///
    /// MySQL: `@@global.gtid_executed`; MariaDB: `@@gtid_current_pos`. (`mysql_async` does not negotiate session
    /// tracking, so the position has to be asked for.)
    ///
    /// # Errors
    ///
    /// Those of the query; a server without GTIDs gives an empty token, which every host has reached.
    pub async fn of(conn: &mut Conn) -> Result<Self, Error> {
        let sql = if is_mariadb(conn) {
            "SELECT @@gtid_current_pos"
        } else {
            "SELECT @@global.gtid_executed"
        };
        let position: Option<String> = conn.query_first(sql).await?;
        // MySQL breaks long sets into lines.
        let position = position.unwrap_or_default();
        Ok(Self(position.split_whitespace().collect()))
    }

    /// A token from its text. What is not a position is refused by the server that is asked to wait for it.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Waits on the host behind `conn` until it has everything up to this position, for at most `limit`
    /// (one round trip, plus the waiting). `false` if it has not by then.
    ///
    /// # Errors
    ///
    /// Those of the query.
    pub async fn reached_by(&self, conn: &mut Conn, limit: Duration) -> Result<bool, Error> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let sql = if is_mariadb(conn) {
            "SELECT MASTER_GTID_WAIT(?, ?)"
        } else {
            "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)"
        };
        // MySQL takes no time for any time.
        let limit = limit.max(Duration::from_millis(1));
        // 0: reached. 1 (MySQL) and -1 (MariaDB): not within the time. NULL: nothing to wait for it.
        let waited: Option<Option<i64>> =
            conn.exec_first(sql, (&self.0, limit.as_secs_f64())).await?;
        Ok(waited.flatten() == Some(0))
    }
}

impl TokenDriver for MySql {
    type Token = Token;

    async fn position(&self, conn: &mut Conn) -> Result<Option<Token>, Error> {
        let token = Token::of(conn).await?;
        // A server without GTIDs: no replica could wait for anything.
        Ok(Some(token).filter(|token| !token.0.is_empty()))
    }

    async fn reached(
        &self,
        conn: &mut Conn,
        token: &Token,
        limit: Duration,
    ) -> Result<bool, Error> {
        token.reached_by(conn, limit).await
    }

    async fn stand_alone(&self, conn: &mut Conn) -> Result<(), Error> {
        match conn.autocommit() {
            Some(false) => conn.query_drop("SET autocommit = 1").await,
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
