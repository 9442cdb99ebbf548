//! Questions to the server about its role, and how to read the answers.

use pool_core::host::Role;
use tiberius::{ColumnData, Row};

use crate::conn::Client;
use crate::options::RoleProbe;

/// Role and partner of the current database. A database that is not mirrored has a row of NULLs.
const MIRRORING: &str = "SELECT mirroring_role, mirroring_state, mirroring_partner_instance \
    FROM sys.database_mirroring WHERE database_id = DB_ID()";

const PRIMARY_REPLICA: &str = "SELECT sys.fn_hadr_is_primary_replica(DB_NAME())";

const UPDATEABILITY: &str = "SELECT DATABASEPROPERTYEX(DB_NAME(), 'Updateability')";

/// What `sys.database_mirroring` says about the current database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mirroring {
    /// 1 principal, 2 mirror, `None` not mirrored.
    pub(crate) role: Option<i64>,
    /// The other server, as it calls itself: `HOST` or `HOST\INSTANCE`.
    pub(crate) partner: Option<String>,
}

impl Mirroring {
    pub(crate) fn role(&self) -> Role {
        match self.role {
            // Not mirrored, and it let us in: it serves.
            None | Some(1) => Role::Source,
            Some(2) => Role::Replica,
            Some(_) => Role::Unknown,
        }
    }
}

/// Asks for the role.
pub(crate) async fn role(client: &mut Client, probe: RoleProbe) -> tiberius::Result<Role> {
    let sql = match probe {
        RoleProbe::Mirroring => return Ok(mirroring(client).await?.role()),
        RoleProbe::PrimaryReplica => PRIMARY_REPLICA,
        RoleProbe::Updateability => UPDATEABILITY,
    };
    let cell = row(client, sql).await?.and_then(|row| row.into_iter().next());
    Ok(match (probe, cell) {
        (RoleProbe::PrimaryReplica, Some(cell)) => primary(number(&cell)),
        (_, Some(cell)) => updateable(text(&cell).as_deref()),
        (_, None) => Role::Unknown,
    })
}

/// Asks for mirroring role and partner.
pub(crate) async fn mirroring(client: &mut Client) -> tiberius::Result<Mirroring> {
    let Some(row) = row(client, MIRRORING).await? else { return Ok(Mirroring::default()) };
    let cells: Vec<_> = row.into_iter().collect();
    Ok(Mirroring {
        role: cells.first().and_then(number),
        partner: cells.get(2).and_then(text).filter(|name| !name.is_empty()),
    })
}

/// Whether the server answers this number with this number: it lives, and its answers are in step.
pub(crate) async fn echoes(client: &mut Client, sent: i32) -> tiberius::Result<bool> {
    let cell = row(client, &format!("SELECT {sent}")).await?.and_then(|row| row.into_iter().next());
    Ok(cell.as_ref().and_then(number) == Some(i64::from(sent)))
}

/// The first row, the whole answer read.
async fn row(client: &mut Client, sql: &str) -> tiberius::Result<Option<Row>> {
    client.simple_query(sql).await?.into_row().await
}

fn primary(answer: Option<i64>) -> Role {
    match answer {
        Some(0) => Role::Replica,
        // NULL: the database is in no group, and it let us in.
        None | Some(1) => Role::Source,
        Some(_) => Role::Unknown,
    }
}

fn updateable(answer: Option<&str>) -> Role {
    match answer {
        Some(word) if word.eq_ignore_ascii_case("READ_WRITE") => Role::Source,
        Some(word) if word.eq_ignore_ascii_case("READ_ONLY") => Role::Replica,
        _ => Role::Unknown,
    }
}

fn number(cell: &ColumnData<'static>) -> Option<i64> {
    match cell {
        ColumnData::U8(value) => value.map(i64::from),
        ColumnData::I16(value) => value.map(i64::from),
        ColumnData::I32(value) => value.map(i64::from),
        ColumnData::I64(value) => *value,
        ColumnData::Bit(value) => value.map(i64::from),
        ColumnData::String(Some(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

fn text(cell: &ColumnData<'static>) -> Option<String> {
    match cell {
        ColumnData::String(value) => value.as_ref().map(|text| text.trim().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirroring_roles() {
        for (answer, role) in [
            (None, Role::Source),
            (Some(1), Role::Source),
            (Some(2), Role::Replica),
            (Some(9), Role::Unknown),
        ] {
            assert_eq!(Mirroring { role: answer, partner: None }.role(), role);
        }
    }

    #[test]
    fn primary_replicas() {
        let table = [
            (ColumnData::Bit(Some(true)), Role::Source),
            (ColumnData::Bit(Some(false)), Role::Replica),
            (ColumnData::Bit(None), Role::Source),
            (ColumnData::I32(Some(0)), Role::Replica),
            (ColumnData::I64(Some(1)), Role::Source),
        ];
        for (cell, role) in table {
            assert_eq!(primary(number(&cell)), role, "{cell:?}");
        }
    }

    #[test]
    fn updateability_words() {
        let table = [
            (ColumnData::String(Some("READ_WRITE".into())), Role::Source),
            (ColumnData::String(Some("read_only".into())), Role::Replica),
            (ColumnData::String(None), Role::Unknown),
        ];
        for (cell, role) in table {
            assert_eq!(updateable(text(&cell).as_deref()), role, "{cell:?}");
        }
    }
}
