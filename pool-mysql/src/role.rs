//! Asking a server what it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Error, Row, Value};
use pool_core::driver::{Lag, Probe};
use pool_core::host::{Host, Role};

use crate::conn::{Conn, is_mariadb};

/// How a host's role is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum RoleCheck {
    /// By its read-only variables: a server that takes writes is a source. The same query asks for
    /// `max_connections`, the size for `Weights::by_capacity`. The default.
    #[default]
    Probe,
    /// By the configuration: the role given to the host, else the first host is the source and all
    /// others are replicas. A probe is then a mere ping, so the size of a host is not known.
    Static,
}

/// How replication lag is measured. It costs one more query per probe of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum LagSource {
    /// Not at all. The default.
    #[default]
    Off,
    /// By `SHOW REPLICA STATUS` (`SHOW SLAVE STATUS` on older servers), in whole seconds. The account
    /// needs REPLICATION CLIENT (REPLICA MONITOR on MariaDB); without it the lag is unknown. MySQL counts
    /// from the last event until its next checkpoint (`replica_checkpoint_period`, 300 ms), so a replica
    /// that has caught up may report 1 s: a limit below that leaves it out now and then.
    ///
    /// It also tells a replica that is kept behind on purpose (`SOURCE_DELAY`): it has no read weight, not
    /// even one set by hand (`rds-read-weights`, procedure, notes on weights).
    Status,
    /// By a heartbeat table as `pt-heartbeat --utc` keeps it, in microseconds.
    Heartbeat {
        /// The table, as it is written in a query.
        table: String,
    },
    /// By a query whose first column is the lag in seconds; NULL, or no row, is unknown.
    Query {
        /// The query.
        sql: String,
    },
}

type UserProbe = Arc<
    dyn for<'a> Fn(&'a mut mysql_async::Conn) -> BoxFuture<'a, Result<Probe, Error>> + Send + Sync,
>;

/// Runs probes, and remembers which variables the servers know.
#[derive(Default)]
pub(crate) struct Prober {
    pub(crate) role: RoleCheck,
    pub(crate) lag: LagSource,
    pub(crate) user: Option<UserProbe>,
    /// Index into [`ROLE_QUERIES`] of the first one that worked.
    known: AtomicU8,
}

/// The most telling first. MariaDB has no `super_read_only`; a server without InnoDB lacks the last one,
/// which is what tells an Aurora reader. All but the last begin with the server's size.
const ROLE_QUERIES: [&str; 4] = [
    "SELECT @@global.max_connections, \
     @@global.read_only, @@global.super_read_only, @@global.innodb_read_only",
    "SELECT @@global.max_connections, @@global.read_only, @@global.innodb_read_only",
    "SELECT @@global.max_connections, @@global.read_only",
    "SELECT @@global.read_only",
];

impl Prober {
    pub(crate) async fn probe(&self, conn: &mut Conn) -> Result<Probe, Error> {
        let probe = self.ask(conn).await?;
        // With autocommit off even a look at a heartbeat table opens a transaction.
        if conn.in_transaction() == Some(true) {
            conn.raw_mut().query_drop("ROLLBACK").await?;
        }
        Ok(probe)
    }

    async fn ask(&self, conn: &mut Conn) -> Result<Probe, Error> {
        if let Some(user) = &self.user {
            return user(conn.raw_mut()).await;
        }
        let probe = match self.role {
            RoleCheck::Static => {
                conn.raw_mut().ping().await?;
                Probe::new(configured_role(conn.host()), Lag::NotAsked)
            }
            RoleCheck::Probe => self.ask_role(conn.raw_mut()).await?,
        };
        match probe.role {
            Role::Replica => self.ask_lag(conn.raw_mut(), probe).await,
            _ => Ok(probe),
        }
    }

    async fn ask_role(&self, conn: &mut mysql_async::Conn) -> Result<Probe, Error> {
        let last = ROLE_QUERIES.len() - 1;
        let mut at = usize::from(self.known.load(Ordering::Relaxed)).min(last);
        loop {
            match conn.query_first::<Row, _>(ROLE_QUERIES[at]).await {
                Ok(row) => {
                    self.known.store(u8::try_from(at).unwrap_or(0), Ordering::Relaxed);
                    let values = row.map(Row::unwrap).unwrap_or_default();
                    let (size, values) =
                        values.split_at(usize::from(at < last && values.len() > 1));
                    let read_only = values.iter().any(is_on);
                    let role = if read_only { Role::Replica } else { Role::Source };
                    let capacity = size.first().and_then(capacity);
                    return Ok(Probe::new(role, Lag::NotAsked).with_capacity(capacity));
                }
                // 1193: unknown variable. A server that is not quite MySQL may say something else.
                Err(Error::Server(_)) if at < last => at += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds what is known about the lag.
    async fn ask_lag(
        &self,
        conn: &mut mysql_async::Conn,
        mut probe: Probe,
    ) -> Result<Probe, Error> {
        let mut delayed = false;
        let answer = match &self.lag {
            LagSource::Off => return Ok(probe),
            LagSource::Status => replica_status(conn).await.map(|(lag, on_purpose)| {
                delayed = on_purpose;
                lag
            }),
            LagSource::Heartbeat { table } => {
                let sql = format!(
                    "SELECT TIMESTAMPDIFF(MICROSECOND, MAX(ts), UTC_TIMESTAMP(6)) / 1000000 FROM {table}"
                );
                one_value(conn, &sql).await
            }
            LagSource::Query { sql } => one_value(conn, sql).await,
        };
        probe.lag = match answer {
            Ok(lag) => lag,
            // Not allowed, or no such table: the host is alive all the same.
            Err(Error::Server(error)) => {
                tracing::debug!(code = error.code, "replication lag cannot be read");
                Lag::Unknown
            }
            Err(error) => return Err(error),
        };
        Ok(probe.with_delayed(delayed))
    }
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober")
            .field("role", &self.role)
            .field("lag", &self.lag)
            .field("user", &self.user.is_some())
            .finish_non_exhaustive()
    }
}

/// What the configuration says that a host is.
pub(crate) fn configured_role(host: &Host) -> Role {
    match host.role() {
        Role::Unknown if host.id().index() == 0 => Role::Source,
        Role::Unknown => Role::Replica,
        role => role,
    }
}

/// The lag, and whether a channel is kept behind on purpose.
async fn replica_status(conn: &mut mysql_async::Conn) -> Result<(Lag, bool), Error> {
    const WORDS: [&str; 2] = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];
    // MySQL 8.0.22 and MariaDB 10.5.1 know the first, MySQL 8.4 no longer knows the second.
    let version = conn.server_version();
    let renamed = if is_mariadb(conn) { version >= (10, 5, 1) } else { version >= (8, 0, 22) };
    let rows: Vec<Row> = conn.query(WORDS[usize::from(!renamed)]).await?;
    let number = |row: &Row, names: &[&str]| {
        names.iter().find_map(|name| row.get_opt::<Option<u64>, _>(*name)?.ok()).flatten()
    };
    let behind = ["Seconds_Behind_Source", "Seconds_Behind_Master"];
    let delayed = rows.iter().any(|row| number(row, &["SQL_Delay"]).is_some_and(|delay| delay > 0));
    Ok((worst(rows.iter().map(|row| number(row, &behind))), delayed))
}

/// The largest lag of all channels; unknown if one of them is stopped, or if there are none.
fn worst(seconds: impl Iterator<Item = Option<u64>>) -> Lag {
    let mut worst = None;
    for channel in seconds {
        match channel {
            None => return Lag::Unknown,
            Some(seconds) => worst = worst.max(Some(seconds)),
        }
    }
    worst.map_or(Lag::Unknown, |seconds| Lag::Known(Duration::from_secs(seconds)))
}

async fn one_value(conn: &mut mysql_async::Conn, sql: &str) -> Result<Lag, Error> {
    let row: Option<Row> = conn.query_first(sql).await?;
    Ok(row
        .and_then(|mut row| row.take::<Value, _>(0))
        .map_or(Lag::Unknown, |value| seconds(&value)))
}

fn seconds(value: &Value) -> Lag {
    let seconds = match value {
        Value::Int(n) => Some(*n as f64),
        Value::UInt(n) => Some(*n as f64),
        Value::Float(n) => Some(f64::from(*n)),
        Value::Double(n) => Some(*n),
        Value::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    // Clocks differ a little: a heartbeat from the future is no lag.
    seconds
        .and_then(|seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
        .map_or(Lag::Unknown, Lag::Known)
}

/// The connections that a server takes.
fn capacity(value: &Value) -> Option<u32> {
    match value {
        Value::Int(n) => u32::try_from(*n).ok(),
        Value::UInt(n) => Some(u32::try_from(*n).unwrap_or(u32::MAX)),
        Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Whether a variable is on: a number, or a word where the variable is an enumeration (MariaDB 12).
fn is_on(value: &Value) -> bool {
    match value {
        Value::Int(n) => *n != 0,
        Value::UInt(n) => *n != 0,
        Value::Bytes(text) => {
            !(text.is_empty() || text.as_slice() == b"0" || text.eq_ignore_ascii_case(b"off"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool_core::host::HostId;

    #[test]
    fn a_variable_is_on_unless_it_says_zero_or_off() {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        for on in [Value::Int(1), Value::UInt(1), text("1"), text("ON"), text("NO_LOCK")] {
            assert!(is_on(&on), "{on:?}");
        }
        for off in [Value::Int(0), Value::UInt(0), text("0"), text("Off"), text(""), Value::NULL] {
            assert!(!is_on(&off), "{off:?}");
        }
    }

    #[test]
    fn a_size_is_read_from_any_kind_of_whole_number() {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        for value in [Value::Int(151), Value::UInt(151), text("151")] {
            assert_eq!(capacity(&value), Some(151), "{value:?}");
        }
        for value in [Value::Int(-1), text("many"), text("1.5"), Value::NULL, Value::Double(1.0)] {
            assert_eq!(capacity(&value), None, "{value:?}");
        }
    }

    #[test]
    fn lag_is_the_worst_of_all_channels_and_unknown_if_one_is_stopped() {
        assert_eq!(worst([].into_iter()), Lag::Unknown);
        assert_eq!(worst([Some(2), Some(7)].into_iter()), Lag::Known(Duration::from_secs(7)));
        assert_eq!(worst([Some(2), None].into_iter()), Lag::Unknown);
    }

    #[test]
    fn a_lag_is_read_from_any_kind_of_number() {
        assert_eq!(seconds(&Value::Int(3)), Lag::Known(Duration::from_secs(3)));
        assert_eq!(
            seconds(&Value::Bytes(b"1.5000".to_vec())),
            Lag::Known(Duration::from_millis(1500))
        );
        assert_eq!(seconds(&Value::Int(-2)), Lag::Known(Duration::ZERO));
        for value in [Value::NULL, Value::Double(f64::NAN), Value::Bytes(b"soon".to_vec())] {
            assert!(!matches!(seconds(&value), Lag::Known(lag) if !lag.is_zero()), "{value:?}");
        }
        assert_eq!(seconds(&Value::Double(f64::INFINITY)), Lag::Unknown);
    }

    #[test]
    fn without_a_probe_the_first_host_is_the_source() {
        let host = |id: u32| Host::new("h", 3306).with_id(HostId::new(id));
        assert_eq!(configured_role(&host(0)), Role::Source);
        assert_eq!(configured_role(&host(1)), Role::Replica);
        assert_eq!(configured_role(&host(1).with_role(Role::Source)), Role::Source);
        assert_eq!(configured_role(&host(0).with_role(Role::Replica)), Role::Replica);
    }
}
