//! Hosts from MySQL Group Replication itself.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use pool_core::discovery::Discovery;
use pool_core::host::Host;
use pool_core::pool::WeakPool;
use tokio::time::timeout;

use crate::driver::MySql;
use crate::pool::Pool;

/// The longest time that one member has for its answer, connect included.
const ANSWER: Duration = Duration::from_secs(3);

/// All members as the one that is asked sees them. An OFFLINE one has no host and no port.
const MEMBERS: &str = "SELECT MEMBER_HOST, MEMBER_PORT, MEMBER_STATE \
                       FROM performance_schema.replication_group_members";

/// The online members of the group that a pool belongs to.
///
/// The hosts of the pool are asked one after the other, the source first, until one of them answers that is in
/// the group and sees the majority of it: a member that was expelled, or cut off from the others, is not
/// believed. Members that are recovering are left out until they are online.
///
/// Members are named `MEMBER_HOST:MEMBER_PORT`: configure the pool with the names that the group uses
/// (`report_host`), else every host is listed under two names. Which member takes writes is found by the
/// role probe. Use it with [`pool_core::pool::Pool::follow`].
#[derive(Clone, Debug)]
pub struct GroupMembers {
    pool: WeakPool<MySql>,
}

impl GroupMembers {
    /// The group of `pool`.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        Self { pool: pool.downgrade() }
    }
}

#[async_trait]
impl Discovery for GroupMembers {
    async fn hosts(&self) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
        let Some(pool) = self.pool.upgrade() else { return Ok(Vec::new()) };
        let mut hosts = pool.status().hosts;
        hosts.retain(|host| !host.draining);
        // The source is the likeliest to know, one that failed the least.
        hosts.sort_by_key(|host| (host.blocked_for.is_some(), !host.writer));
        let mut last: Box<dyn Error + Send + Sync> = Box::new(NoAnswer::Nobody);
        for host in hosts {
            match timeout(ANSWER, ask(&pool, &host.name)).await {
                Ok(Ok(members)) => return Ok(members),
                Ok(Err(error)) => last = error,
                Err(_) => last = Box::new(NoAnswer::Late),
            }
        }
        Err(last)
    }
}

async fn ask(pool: &Pool, host: &str) -> Result<Vec<Host>, Box<dyn Error + Send + Sync>> {
    let mut lease = pool.get_host(host).await?;
    let rows: Vec<Member> = lease.query(MEMBERS).await?;
    Ok(believe(rows)?)
}

type Member = (Option<String>, Option<u16>, Option<String>);

/// The online members, if whoever listed these belongs to the majority.
fn believe(rows: Vec<Member>) -> Result<Vec<Host>, NoAnswer> {
    let is = |row: &Member, state: &str| row.2.as_deref() == Some(state);
    let reached = rows.iter().filter(|row| !is(row, "UNREACHABLE")).count();
    if reached * 2 <= rows.len() {
        return Err(NoAnswer::Minority);
    }
    let online = rows.iter().filter(|row| is(row, "ONLINE"));
    let hosts: Vec<Host> =
        online.filter_map(|row| Some(Host::new(row.0.as_deref()?, row.1?))).collect();
    if hosts.is_empty() { Err(NoAnswer::NotInGroup) } else { Ok(hosts) }
}

/// Why there is no list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoAnswer {
    Late,
    Minority,
    Nobody,
    NotInGroup,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Late => "the member that was asked did not answer in time",
            Self::Minority => "the member that was asked has lost the majority of its group",
            Self::Nobody => "there is no member to ask",
            Self::NotInGroup => "the server that was asked is not an online member of a group",
        })
    }
}

impl Error for NoAnswer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_the_majority_is_believed() {
        use NoAnswer::{Minority, NotInGroup};
        type Row = (&'static [&'static str], Result<&'static [usize], NoAnswer>);
        // The states in the order of the members; which of them are listed.
        let table: [Row; 12] = [
            (&["ONLINE", "ONLINE", "ONLINE"], Ok(&[0, 1, 2])),
            (&["ONLINE"], Ok(&[0])),
            (&["ONLINE", "RECOVERING", "ONLINE"], Ok(&[0, 2])),
            (&["ONLINE", "ONLINE", "UNREACHABLE"], Ok(&[0, 1])),
            (&["ONLINE", "RECOVERING", "UNREACHABLE"], Ok(&[0])),
            (&["UNREACHABLE", "ONLINE", "UNREACHABLE"], Err(Minority)),
            (&["ONLINE", "UNREACHABLE"], Err(Minority)),
            (&["OFFLINE"], Err(NotInGroup)),
            (&["ERROR"], Err(NotInGroup)),
            (&["RECOVERING"], Err(NotInGroup)),
            (&["ERROR", "UNREACHABLE", "UNREACHABLE"], Err(Minority)),
            (&[], Err(Minority)),
        ];
        for (states, expected) in table {
            let row = |(at, state): (usize, &&str)| match *state {
                // As the server says it.
                "OFFLINE" => (Some(String::new()), None, Some("OFFLINE".to_owned())),
                state => (Some(format!("h{at}")), Some(3306), Some(state.to_owned())),
            };
            let found = believe(states.iter().enumerate().map(row).collect());
            let expected = expected.map(|listed| {
                listed.iter().map(|at| Host::new(&format!("h{at}"), 3306)).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{states:?}");
        }
    }
}
