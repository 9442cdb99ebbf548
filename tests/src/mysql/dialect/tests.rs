use super::*;
use crate::mysql::text::pieces;
use crate::sql::lexer::{Dialect, tokens};

fn sql_of(mysql: &str) -> String {
    translate(&pieces(&tokens(mysql, Dialect::MySql))).sql
}

#[test]
fn columns_are_named_by_their_text() {
    assert_eq!(
        sql_of("SELECT @@read_only"),
        "SELECT mysql_variable('read_only') AS \"@@read_only\""
    );
    assert_eq!(sql_of("SELECT 1"), "SELECT 1 AS \"1\"");
    assert_eq!(sql_of("SELECT 'a', b, t.c, *"), "SELECT 'a' AS \"a\", b, t.c, *");
    assert_eq!(sql_of("SELECT COUNT(*) n FROM t"), "SELECT COUNT(*) n FROM t");
    assert_eq!(sql_of("SELECT a + 1 FROM t"), "SELECT a + 1 AS \"a + 1\" FROM t");
    assert_eq!(sql_of("SELECT NULL"), "SELECT NULL AS \"NULL\"");
}

#[test]
fn strings_and_operators_become_sqlites() {
    assert_eq!(
        sql_of("SELECT a FROM t WHERE b = \"it's\" && c <=> 'x\\'y' || !d"),
        "SELECT a FROM t WHERE b = 'it''s'  AND  c  IS  'x''y'  OR   NOT d"
    );
    assert_eq!(sql_of("SELECT CAST(a AS CHAR(3)) x"), "SELECT CAST(a AS TEXT) x");
}

#[test]
fn locking_reads_are_recognised() {
    let locking = translate(&pieces(&tokens("SELECT a FROM t FOR UPDATE", Dialect::MySql)));
    assert_eq!(locking, Translated { sql: "SELECT a FROM t".to_owned(), locks: true });
    assert_eq!(sql_of("SELECT a FROM t LOCK IN SHARE MODE"), "SELECT a FROM t");
    assert_eq!(sql_of("SELECT a FROM t FOR SHARE SKIP LOCKED"), "SELECT a FROM t");
}

#[test]
fn inserts_become_sqlites() {
    assert_eq!(
        sql_of("INSERT INTO t (a, b) VALUES (1, ?) ON DUPLICATE KEY UPDATE b = VALUES(b) + 1"),
        "INSERT INTO t (a, b) VALUES (1, ?) ON CONFLICT DO UPDATE SET b = excluded.b + 1"
    );
    assert_eq!(sql_of("INSERT IGNORE t VALUES (1)"), "INSERT OR IGNORE INTO t VALUES (1)");
    assert_eq!(
        sql_of("INSERT INTO t SET a = 1, b = f(2, 3)"),
        "INSERT INTO t ( a,  b) VALUES ( 1,  f(2, 3))"
    );
    assert_eq!(sql_of("INSERT INTO t () VALUES ()"), "INSERT INTO t DEFAULT VALUES");
}

#[test]
fn schemas_go_and_system_tables_keep_theirs() {
    assert_eq!(sql_of("SELECT a FROM db.t"), "SELECT a FROM t");
    assert_eq!(
        sql_of("SELECT a FROM performance_schema.replication_group_members"),
        "SELECT a FROM performance_schema_replication_group_members"
    );
    assert_eq!(sql_of("DELETE FROM db.t"), "DELETE FROM t WHERE 1");
}

#[test]
fn changes_can_be_limited() {
    assert_eq!(
        sql_of("UPDATE t SET a = ? WHERE b = ? ORDER BY c LIMIT 1"),
        "UPDATE t SET a = ? WHERE rowid IN (SELECT rowid FROM t  WHERE b = ? ORDER BY c LIMIT 1)"
    );
    assert_eq!(
        sql_of("DELETE FROM t LIMIT 2"),
        "DELETE FROM t WHERE rowid IN (SELECT rowid FROM t  LIMIT 2)"
    );
}

#[test]
fn a_division_keeps_its_fraction() {
    assert_eq!(sql_of("SELECT a / 2 x, a DIV 2 y"), "SELECT a * 1.0 / 2 x, a / 2 y");
}

#[test]
fn user_variables_are_read_and_assigned() {
    assert_eq!(
        sql_of("SELECT @a := @b + 1, 2 FROM t"),
        "SELECT mysql_assign('a',  mysql_user_variable('b') + 1) AS \"@a := @b + 1\", 2 AS \"2\" FROM t"
    );
}
