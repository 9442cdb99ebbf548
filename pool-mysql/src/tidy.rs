//! Making a used connection clean again.

use mysql_async::prelude::Queryable;
use mysql_async::{ChangeUserOpts, Error};

use crate::conn::{Conn, session_access};
use crate::peek::is_clean;

/// How thoroughly a connection is made clean before the next user gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ResetMode {
    /// Only a connection that is visibly dirty, and only what is dirty: an open transaction is rolled
    /// back, `SET TRANSACTION` forgotten, autocommit, access mode and current database are put back, table locks released, an unread
    /// result is read away. Prepared statements stay cached. The default.
    ///
    /// User variables, other session variables, temporary tables and locks by `GET_LOCK` stay as the
    /// last user left them.
    #[default]
    Rollback,
    /// Every connection that was used, by `COM_RESET_CONNECTION` (or a re-login on servers that lack it).
    /// One more round trip per lease, in the background, and the statement cache is lost.
    Full,
}

/// Undoes what is visibly open and keeps the statement cache.
pub(crate) async fn roll_back(conn: &mut Conn) -> Result<(), Error> {
    if only_access_mode_differs(conn) {
        put_back_access_mode(conn).await?;
        return check(conn);
    }
    // Also undoes what was set for the next transaction alone.
    send(conn, "ROLLBACK").await?;
    if conn.watch().tables_locked {
        send(conn, "UNLOCK TABLES").await?;
    }
    if conn.watch().database_changed {
        match conn.raw().opts().db_name().map(quoted) {
            Some(name) => send(conn, &format!("USE {name}")).await?,
            // There is no statement that leaves a database.
            None => return log_in_again(conn).await,
        }
    }
    put_back_access_mode(conn).await?;
    conn.watch_mut().unsure = false;
    let autocommit = conn.watch().autocommit;
    if conn.autocommit().is_some_and(|on| on != autocommit) {
        send(conn, if autocommit { "SET autocommit = 1" } else { "SET autocommit = 0" }).await?;
    }
    check(conn)
}

/// Gives the session back as it was after login and set-up.
pub(crate) async fn reset(conn: &mut Conn) -> Result<(), Error> {
    let supported = match conn.raw_mut().reset().await {
        // The server's answer to something that nobody read; it is read now.
        Err(Error::Server(_)) => conn.raw_mut().reset().await?,
        outcome => outcome?,
    };
    if conn.watch().database_changed || !supported {
        // A reset keeps the current database, a re-login does not.
        return log_in_again(conn).await;
    }
    check(conn)
}

async fn log_in_again(conn: &mut Conn) -> Result<(), Error> {
    conn.raw_mut().change_user(ChangeUserOpts::default()).await?;
    check(conn)
}

/// Runs a statement of ours. A first server error may belong to the result that nobody read: the driver
/// delivers it instead of sending the next command.
async fn send(conn: &mut Conn, sql: &str) -> Result<(), Error> {
    match conn.raw_mut().query_drop(sql).await {
        Err(Error::Server(_)) => conn.raw_mut().query_drop(sql).await,
        outcome => outcome,
    }
}

async fn put_back_access_mode(conn: &mut Conn) -> Result<(), Error> {
    let wanted = conn.watch().forced_read_only;
    if conn.watch().read_only == wanted {
        return Ok(());
    }
    send(conn, session_access(wanted)).await
}

fn only_access_mode_differs(conn: &Conn) -> bool {
    let watch = conn.watch();
    let others = watch.unsure
        || watch.rollback_owed
        || watch.database_changed
        || watch.next_transaction_set
        || watch.tables_locked;
    watch.read_only != watch.forced_read_only
        && !others
        && conn.flags().is_some_and(|flags| is_clean(flags, watch.autocommit))
}

/// The last look: the server's own flags decide whether the connection is clean.
fn check(conn: &mut Conn) -> Result<(), Error> {
    conn.watch_mut().settled();
    match conn.flags() {
        Some(flags) if is_clean(flags, conn.watch().autocommit) => Ok(()),
        _ => Err(Error::Other("the session is not clean after it was tidied".into())),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_is_quoted() {
        assert_eq!(quoted("shop"), "`shop`");
        assert_eq!(quoted("od`d"), "`od``d`");
    }
}
