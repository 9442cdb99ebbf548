//! The statement table and the lexical traps of the routing rules (sections 8 to 10), in both directions.

#![allow(clippy::unwrap_used)]

use super::lexer::Syntax;
use super::*;

const R: Target<'static> = Target::Replica;
const W: Target<'static> = Target::Source;
const NO: Target<'static> = Target::Refused(Refusal::NeedsHost);

type Row = (&'static str, Target<'static>, &'static str, Option<Pin>);

const MYSQL: &[Row] = &[
    // plain SELECT, autocommit
    ("SELECT 1", R, "select", None),
    ("select id, name from users where id = 5 order by name limit 3", R, "select", None),
    (
        "SELECT COUNT(*), max (a), IFNULL(b, 0) FROM t WHERE c IN (1, 2) AND (d OR e)",
        R,
        "select",
        None,
    ),
    ("SELECT t.update, t.`for`, x.into FROM t JOIN u USING (id)", R, "select", None),
    ("(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1", R, "select", None),
    ("((SELECT a FROM t))", R, "select", None),
    ("SELECT * FROM (SELECT a, b FROM t) AS d (x, y)", R, "select", None),
    ("SELECT * FROM (SELECT a FROM t) d (x)", R, "select", None),
    ("SELECT @@version, @@global.read_only", R, "select", None),
    ("SELECT INSERT('abc', 1, 1, 'x'), REPLACE('a', 'b', 'c')", R, "select", None),
    (
        "SELECT CAST(a AS DECIMAL(10, 2)), CONVERT(b USING utf8mb4), CAST(c AS CHAR(3)) FROM t",
        R,
        "select",
        None,
    ),
    ("SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t", R, "select", None),
    ("SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1", R, "select", None),
    ("TABLE t", R, "select", None),
    ("VALUES ROW(1, 2), ROW(3, 4)", R, "select", None),
    (
        "SELECT a FROM t FORCE INDEX FOR ORDER BY (i) WHERE SUBSTRING(a FROM 1 FOR 3) = 'x'",
        R,
        "select",
        None,
    ),
    ("SELECT 1e5, 1.5, .5, 0x1F, 1e-3, t1.a FROM t1", R, "select", None),
    // INSERT, UPDATE, DELETE, REPLACE, LOAD, DDL, DO, INSERT … RETURNING
    ("INSERT INTO t VALUES (1)", W, "write", None),
    ("INSERT INTO t (a) VALUES (1) RETURNING id", W, "write", None),
    ("INSERT INTO t SELECT * FROM u ON DUPLICATE KEY UPDATE a = 1", W, "write", None),
    ("UPDATE t SET a = 1", W, "write", None),
    ("DELETE FROM t", W, "write", None),
    ("REPLACE INTO t VALUES (1)", W, "write", None),
    ("LOAD DATA LOCAL INFILE 'f' INTO TABLE t", W, "write", None),
    ("CREATE TABLE t (a INT DEFAULT (UUID()))", W, "ddl", None),
    ("ALTER TABLE t ADD b INT", W, "ddl", None),
    ("DROP TABLE t", W, "ddl", None),
    ("TRUNCATE t", W, "ddl", None),
    ("CREATE USER 'u'@'h'", W, "ddl", None),
    ("GRANT SELECT ON *.* TO u@h", W, "ddl", None),
    ("CREATE DEFINER=`a`@`b` PROCEDURE p() BEGIN SET @x = 1; COMMIT; END", W, "ddl", None),
    ("CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END", W, "ddl", None),
    ("DO SLEEP(1)", W, "write", None),
    // SELECT … FOR UPDATE [OF / NOWAIT / SKIP LOCKED]
    ("SELECT * FROM t FOR UPDATE", W, "locking-read", None),
    ("SELECT * FROM t FOR UPDATE OF t", W, "locking-read", None),
    ("SELECT * FROM t FOR UPDATE NOWAIT", W, "locking-read", None),
    ("SELECT * FROM t\nFOR\tUPDATE SKIP LOCKED", W, "locking-read", None),
    ("SELECT * FROM t FOR/**/UPDATE", W, "locking-read", None),
    ("SELECT * FROM t LIMIT 1for update", W, "write", None),
    ("SELECT * FROM t LIMIT 1.for update", W, "locking-read", None),
    ("SELECT * FROM t WHERE a=1e5for update", W, "locking-read", None),
    ("SELECT * FROM t WHERE a=.5for update", W, "locking-read", None),
    // SELECT … FOR SHARE / LOCK IN SHARE MODE
    ("SELECT * FROM t FOR SHARE", W, "locking-read", None),
    ("SELECT * FROM t LOCK IN SHARE MODE", W, "locking-read", None),
    // parenthesised, nested or UNION with a lock clause
    ("(SELECT * FROM t FOR UPDATE)", W, "locking-read", None),
    ("SELECT * FROM (SELECT * FROM t FOR UPDATE) d", W, "locking-read", None),
    ("SELECT 1 UNION (SELECT a FROM t FOR SHARE)", W, "locking-read", None),
    // WITH … SELECT
    ("WITH c AS (SELECT 1) SELECT * FROM c", R, "select", None),
    (
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c), d (m) AS (SELECT 2) SELECT * FROM c, d",
        R,
        "select",
        None,
    ),
    ("WITH c AS (SELECT 1) SELECT * FROM c FOR UPDATE", W, "locking-read", None),
    ("WITH c AS (SELECT f(1)) SELECT * FROM c", W, "function", None),
    ("WITH c (n) AS (SELECT 1) SELECT g (n) FROM c", W, "function", None),
    // WITH … INSERT / UPDATE / DELETE
    ("WITH c AS (SELECT 1) UPDATE t, c SET a = 1", W, "write", None),
    ("WITH c AS (SELECT 1) DELETE FROM t", W, "write", None),
    ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", W, "write", None),
    // LAST_INSERT_ID(), @@last_insert_id, @@identity
    ("SELECT LAST_INSERT_ID()", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT last_insert_id ( ) AS id", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@last_insert_id", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@IDENTITY", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@session.identity", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@last_gtid", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@session . identity", W, "unknown", None),
    ("SELECT @@`identity`", W, "unknown", None),
    ("INSERT INTO t VALUES (LAST_INSERT_ID())", W, "write", Some(Pin::LastInsertId)),
    ("SELECT my_last_insert_id_copy FROM t", R, "select", None),
    ("SELECT 'LAST_INSERT_ID()'", R, "select", None),
    // ROW_COUNT(), FOUND_ROWS(), @@warning_count
    ("SELECT ROW_COUNT()", W, "session-value", Some(Pin::FoundRows)),
    ("SELECT FOUND_ROWS()", W, "session-value", Some(Pin::FoundRows)),
    ("SELECT @@warning_count", W, "session-value", Some(Pin::FoundRows)),
    ("SHOW WARNINGS", W, "session-value", Some(Pin::FoundRows)),
    ("GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT", W, "session-value", Some(Pin::UserVariable)),
    ("SELECT found_rows FROM t", R, "select", None),
    // SELECT … INTO OUTFILE
    ("SELECT * INTO OUTFILE '/tmp/x' FROM t", W, "into", None),
    ("SELECT a FROM t INTO DUMPFILE 'x'", W, "into", None),
    ("SELECT a FROM t INTO @v", W, "into", Some(Pin::UserVariable)),
    // user variables
    ("SELECT @v := 1", W, "user-variable", Some(Pin::UserVariable)),
    ("SELECT @v", W, "user-variable", Some(Pin::UserVariable)),
    ("SELECT@v", W, "user-variable", Some(Pin::UserVariable)),
    ("SELECT @`v`", W, "user-variable", Some(Pin::UserVariable)),
    ("SELECT @'v', @\"w\"", W, "user-variable", Some(Pin::UserVariable)),
    ("SET @v = 1", W, "user-variable", Some(Pin::UserVariable)),
    ("SET @v=@w", W, "user-variable", Some(Pin::UserVariable)),
    ("INSERT INTO t VALUES (@v)", W, "write", Some(Pin::UserVariable)),
    ("SELECT 'a@v', `@v` FROM t", R, "select", None),
    // named locks
    ("SELECT GET_LOCK('a', 1)", W, "lock", Some(Pin::NamedLock)),
    ("DO GET_LOCK('a', 1)", W, "write", Some(Pin::NamedLock)),
    ("SELECT RELEASE_LOCK('a')", W, "lock", None),
    ("SELECT IS_FREE_LOCK('a'), IS_USED_LOCK('a')", W, "lock", None),
    ("SELECT get_lock FROM t", R, "select", None),
    ("SELECT service_get_read_locks('n', 'a', 1)", W, "lock", Some(Pin::SessionSetting)),
    ("DO service_get_write_locks('n', 'a', 1)", W, "write", Some(Pin::SessionSetting)),
    ("SELECT service_release_locks('n')", W, "lock", None),
    // stored functions
    ("SELECT my_function(1)", W, "function", None),
    ("SELECT db.count(1)", W, "function", None),
    ("SELECT `count`(1)", W, "function", None),
    ("SELECT my_function/* x */(1)", W, "function", None),
    ("SELECT a FROM t WHERE (a) IN (f (a))", W, "function", None),
    ("SELECT LOAD_FILE('x')", W, "function", None),
    ("SELECT CONNECTION_ID()", W, "function", None),
    // sequences
    ("SELECT NEXTVAL(s)", W, "sequence", None),
    ("SELECT NEXT VALUE FOR s", W, "sequence", None),
    ("SELECT SETVAL(s, 5)", W, "sequence", None),
    ("SELECT LASTVAL(s)", W, "sequence", None),
    ("SELECT value FROM t", R, "select", None),
    // CALL
    ("CALL p()", W, "call", None),
    // several statements
    ("SELECT 1; SELECT 2", W, "multi-statement", None),
    ("SELECT 1; INSERT INTO t VALUES (1)", W, "multi-statement", None),
    ("SELECT 1;; DELETE FROM t", W, "multi-statement", None),
    ("SELECT 1; SET @v = 1", W, "multi-statement", Some(Pin::UserVariable)),
    ("BEGIN; UPDATE t SET a = 1; COMMIT", W, "multi-statement", None),
    ("SELECT ';'; ", R, "select", None),
    ("SELECT `;`, \";\" /* ; */", R, "select", None),
    // temporary tables
    ("CREATE TEMPORARY TABLE t (a INT)", W, "temporary-table", Some(Pin::TemporaryTable)),
    (
        "CREATE OR REPLACE TEMPORARY TABLE t (a INT)",
        W,
        "temporary-table",
        Some(Pin::TemporaryTable),
    ),
    (
        "CREATE TEMPORARY TABLE IF NOT EXISTS d.t SELECT 1",
        W,
        "temporary-table",
        Some(Pin::TemporaryTable),
    ),
    ("DROP TEMPORARY TABLE IF EXISTS t", W, "temporary-table", None),
    ("CREATE TABLE temporary_things (a INT)", W, "ddl", None),
    ("CREATE TEMPORARY SEQUENCE s", W, "temporary-table", Some(Pin::TemporaryTable)),
    ("DROP TEMPORARY SEQUENCE IF EXISTS s", W, "temporary-table", None),
    ("CREATE SEQUENCE s", W, "ddl", None),
    // LOCK TABLES, FLUSH TABLES WITH READ LOCK
    ("LOCK TABLES t READ", W, "lock", Some(Pin::TableLock)),
    ("FLUSH TABLES WITH READ LOCK", W, "lock", Some(Pin::TableLock)),
    ("FLUSH TABLES t FOR EXPORT", W, "lock", Some(Pin::TableLock)),
    ("UNLOCK TABLES", W, "lock", None),
    ("BACKUP STAGE START", W, "lock", Some(Pin::TableLock)),
    ("BACKUP STAGE END", W, "lock", None),
    ("BACKUP LOCK d.t", W, "lock", Some(Pin::TableLock)),
    ("BACKUP UNLOCK", W, "lock", None),
    ("FLUSH PRIVILEGES", W, "server-setting", None),
    // SET
    ("SET sql_mode = ''", W, "session-setting", Some(Pin::SessionSetting)),
    ("SET NAMES utf8mb4", W, "session-setting", Some(Pin::SessionSetting)),
    ("SET SESSION TRANSACTION READ ONLY", W, "session-setting", Some(Pin::SessionSetting)),
    (
        "SET @@session.wait_timeout = 5, @@global.x = 1",
        W,
        "session-setting",
        Some(Pin::SessionSetting),
    ),
    ("SET autocommit = 0", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET @@session.autocommit := OFF", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET SESSION autocommit = FALSE", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET `autocommit` = 1 - 1", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET x = (SELECT 1, 2), autocommit = 0", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET autocommit = 1", W, "session-setting", None),
    ("SET autocommit=ON", W, "session-setting", None),
    // SET GLOBAL / PERSIST
    ("SET GLOBAL max_connections = 5", W, "server-setting", None),
    ("SET PERSIST x = 5", W, "server-setting", None),
    ("SET @@global.autocommit = 0", W, "server-setting", None),
    ("SET GLOBAL TRANSACTION READ ONLY", W, "server-setting", None),
    ("SET PASSWORD FOR 'u'@'h' = 'x'", W, "ddl", None),
    // USE
    ("USE db", W, "session-setting", Some(Pin::SessionSetting)),
    // PREPARE
    ("PREPARE s FROM 'SELECT 1'", W, "prepare", Some(Pin::Prepared)),
    ("EXECUTE s", W, "prepare", None),
    ("DEALLOCATE PREPARE s", W, "prepare", None),
    ("HANDLER t OPEN", W, "prepare", Some(Pin::Prepared)),
    // SHOW
    ("SHOW STATUS", W, "show", None),
    ("SHOW MASTER STATUS", W, "show", None),
    ("SHOW TABLES", W, "show", None),
    // EXPLAIN
    ("EXPLAIN SELECT * FROM t", R, "explain", None),
    ("EXPLAIN FORMAT=TREE SELECT * FROM t", R, "explain", None),
    ("DESCRIBE t", R, "explain", None),
    ("EXPLAIN UPDATE t SET a = 1", W, "write", None),
    ("EXPLAIN FORMAT=JSON DELETE FROM t", W, "write", None),
    ("EXPLAIN ANALYZE SELECT * FROM t FOR UPDATE", W, "locking-read", None),
    ("EXPLAIN (SELECT 1)", R, "explain", None),
    ("DESC (SELECT 1) UNION (SELECT 2)", R, "explain", None),
    ("EXPLAIN ANALYZE (SELECT 1)", R, "explain", None),
    ("EXPLAIN (SELECT * FROM t FOR UPDATE)", W, "locking-read", None),
    ("EXPLAIN FOR CONNECTION 5", NO, "needs-host", None),
    ("EXPLAIN FORMAT=JSON FOR CONNECTION 5", NO, "needs-host", None),
    ("DESC EXTENDED FOR CONNECTION 5", NO, "needs-host", None),
    ("EXPLAIN FORMAT = TREE FOR SCHEMA s SELECT 1", R, "explain", None),
    ("SHOW EXPLAIN FOR 5", NO, "needs-host", None),
    ("SHOW ANALYZE FORMAT=JSON FOR 5", NO, "needs-host", None),
    // BEGIN, START TRANSACTION
    ("BEGIN", W, "transaction", Some(Pin::Transaction)),
    ("BEGIN WORK", W, "transaction", Some(Pin::Transaction)),
    ("START TRANSACTION", W, "transaction", Some(Pin::Transaction)),
    ("START TRANSACTION READ WRITE", W, "transaction", Some(Pin::Transaction)),
    ("START TRANSACTION WITH CONSISTENT SNAPSHOT", W, "transaction", Some(Pin::Transaction)),
    ("XA START 'x'", W, "transaction", Some(Pin::Transaction)),
    ("COMMIT", W, "transaction", None),
    ("ROLLBACK", W, "transaction", None),
    ("COMMIT AND CHAIN", W, "transaction", Some(Pin::Transaction)),
    ("SAVEPOINT s", W, "transaction", None),
    ("START REPLICA", W, "server-setting", None),
    // START TRANSACTION READ ONLY
    ("START TRANSACTION READ ONLY", R, "read-only-transaction", Some(Pin::Transaction)),
    (
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        R,
        "read-only-transaction",
        Some(Pin::Transaction),
    ),
    // KILL, SHOW PROCESSLIST
    ("KILL 5", NO, "needs-host", None),
    ("KILL QUERY 5", NO, "needs-host", None),
    ("SHOW PROCESSLIST", NO, "needs-host", None),
    ("SHOW FULL PROCESSLIST", NO, "needs-host", None),
    // unknown, unparseable
    ("FROBNICATE t", W, "unknown", None),
    ("SELECT 'abc", W, "unknown", None),
    ("SELECT `abc", W, "unknown", None),
    ("SELECT 1 /* abc", W, "unknown", None),
    ("123", W, "unknown", None),
    ("{call p()}", W, "unknown", None),
    ("BEGIN NOT ATOMIC DELETE FROM t; SELECT 1; END", W, "procedural", None),
];

const TSQL: &[Row] = &[
    ("SELECT 1", R, "select", None),
    ("SELECT TOP (5) a, [update], t.[into] FROM [dbo].[t] WHERE b IN (1, 2)", R, "select", None),
    ("SELECT a FROM t WITH (NOLOCK) WHERE b = @P1", R, "select", None),
    ("SELECT a FROM t (NOLOCK) JOIN u AS v (READUNCOMMITTED) ON 1 = 1", R, "select", None),
    ("SELECT a FROM t x (NOLOCK), [dbo].[u] (nolock)", R, "select", None),
    ("SELECT a FROM t WITH (NOLOCK, INDEX (ix)) WHERE a = 1", R, "select", None),
    ("SELECT a FROM t (UPDLOCK)", W, "locking-read", None),
    ("SELECT f (nolock + 1)", W, "function", None),
    ("SELECT a FROM f (nolock, 1)", W, "function", None),
    ("SELECT a FROM t INNER MERGE JOIN u ON t.a = u.a", R, "select", None),
    ("SELECT a FROM t UNION SELECT 1 OPTION (MERGE UNION, MERGE JOIN)", R, "select", None),
    ("SELECT COUNT_BIG(*), ISNULL(a, 0), DATEADD(day, 1, GETDATE()) FROM t", R, "select", None),
    ("SELECT a FROM t ORDER BY a OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY", R, "select", None),
    ("SELECT a FROM t OPTION (USE HINT ('x'), RECOMPILE)", R, "select", None),
    ("SELECT a FROM t FOR XML PATH ('x')", R, "select", None),
    ("SELECT * FROM t PIVOT (SUM(a) FOR b IN ([x], [y])) AS p", R, "select", None),
    ("WITH c (a) AS (SELECT 1) SELECT * FROM c", R, "select", None),
    ("SELECT 'x; EXEC p' AS [a;b]", R, "select", None),
    ("SELECT @@VERSION, @@SERVERNAME", R, "select", None),
    ("SELECT * FROM t WITH (UPDLOCK)", W, "locking-read", None),
    ("SELECT * FROM t WITH (ROWLOCK, XLOCK)", W, "locking-read", None),
    ("SELECT * FROM t WITH (TABLOCKX)", W, "locking-read", None),
    ("SELECT * FROM t WITH (HOLDLOCK)", W, "locking-read", None),
    ("SELECT * INTO u FROM t", W, "into", None),
    ("SELECT * INTO #u FROM t", W, "into", Some(Pin::TemporaryTable)),
    ("SELECT 1INTO #u", W, "into", Some(Pin::TemporaryTable)),
    ("SELECT * INTO tempdb..#u FROM t", W, "into", Some(Pin::TemporaryTable)),
    ("SELECT * INTO [tempdb].dbo.[#u] FROM t", W, "into", Some(Pin::TemporaryTable)),
    ("SELECT * INTO tempdb.dbo.u FROM t", W, "into", None),
    ("SELECT * FROM tempdb..#u", W, "temporary-table", None),
    ("SELECT a\u{a0}INTO\u{a0}u FROM t", W, "into", None),
    ("SELECT * FROM #t", W, "temporary-table", None),
    ("SELECT * FROM [#t]", W, "temporary-table", None),
    ("EXEC p", W, "call", None),
    ("EXECUTE @r = dbo.p 1", W, "call", None),
    ("sp_who", W, "call", None),
    ("MERGE t USING u ON 1 = 1 WHEN MATCHED THEN UPDATE SET a = 1;", W, "write", None),
    ("INSERT INTO t OUTPUT inserted.id VALUES (1)", W, "write", None),
    ("INSERT INTO t OUTPUT inserted.id INTO #x VALUES (1)", W, "write", None),
    ("UPDATE t SET a = 1 OUTPUT deleted.a", W, "write", None),
    ("UPDATE t SET [a] += 1", W, "write", None),
    ("DELETE FROM t", W, "write", None),
    ("BULK INSERT t FROM 'f'", W, "write", None),
    ("WITH c AS (SELECT 1 a) UPDATE c SET a = 2", W, "write", None),
    ("CREATE TABLE t (a INT)", W, "ddl", None),
    ("TRUNCATE TABLE t", W, "ddl", None),
    ("CREATE PROCEDURE p AS BEGIN TRAN; SET NOCOUNT ON; COMMIT", W, "multi-statement", None),
    ("SELECT @@IDENTITY", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT SCOPE_IDENTITY()", W, "session-value", Some(Pin::LastInsertId)),
    ("SELECT @@ROWCOUNT", W, "session-value", Some(Pin::FoundRows)),
    ("SELECT IDENT_CURRENT('t')", W, "function", None),
    ("SELECT dbo.f(1)", W, "function", None),
    ("SELECT NEXT VALUE FOR s", W, "sequence", None),
    ("DBCC CHECKDB", W, "server-setting", None),
    ("BEGIN TRAN", W, "transaction", Some(Pin::Transaction)),
    ("BEGIN TRANSACTION t WITH MARK", W, "transaction", Some(Pin::Transaction)),
    ("BEGIN DISTRIBUTED TRAN", W, "transaction", Some(Pin::Transaction)),
    ("COMMIT", W, "transaction", None),
    ("COMMIT TRAN t", W, "transaction", None),
    ("ROLLBACK TRANSACTION", W, "transaction", None),
    ("SAVE TRAN s", W, "transaction", None),
    ("BEGIN TRAN UPDATE t SET a = 1 COMMIT", W, "transaction", None),
    ("SELECT 1 BEGIN TRAN", W, "multi-statement", Some(Pin::Transaction)),
    ("SELECT 1 EXEC p", W, "multi-statement", None),
    ("SELECT 1 DELETE FROM t", W, "write", None),
    ("SELECT 1 MERGE t USING u ON 1 = 1 WHEN MATCHED THEN DELETE;", W, "write", None),
    ("SELECT 1 SETUSER 'x'", W, "multi-statement", Some(Pin::SessionSetting)),
    ("SETUSER 'x'", W, "session-setting", Some(Pin::SessionSetting)),
    ("SELECT 1 ADD SIGNATURE TO p BY CERTIFICATE c", W, "multi-statement", None),
    ("ADD SIGNATURE TO p BY CERTIFICATE c", W, "ddl", None),
    ("SELECT 1 END CONVERSATION @h", W, "multi-statement", None),
    ("SELECT CASE a WHEN 1 THEN 2 END AS conversation FROM t", R, "select", None),
    ("TABLE t", W, "unknown", None),
    ("VALUES (1)", W, "unknown", None),
    ("SET NOCOUNT ON", W, "session-setting", Some(Pin::SessionSetting)),
    ("SET TRANSACTION ISOLATION LEVEL SNAPSHOT", W, "session-setting", Some(Pin::SessionSetting)),
    ("SET IMPLICIT_TRANSACTIONS ON", W, "session-setting", Some(Pin::AutocommitOff)),
    ("SET IMPLICIT_TRANSACTIONS OFF", W, "session-setting", None),
    ("DECLARE @x INT = 1 SELECT @x", W, "procedural", None),
    ("DECLARE @x INT; SET @x = 1; SELECT @x", W, "multi-statement", None),
    ("DECLARE c CURSOR FOR SELECT 1", W, "procedural", Some(Pin::Prepared)),
    ("DECLARE c CURSOR LOCAL FOR SELECT 1", W, "procedural", None),
    ("DEALLOCATE c", W, "prepare", None),
    ("WAITFOR DELAY '00:00:01'", W, "procedural", None),
    ("IF @@TRANCOUNT > 0 COMMIT", W, "procedural", Some(Pin::FoundRows)),
    ("CREATE TABLE #t (a INT)", W, "temporary-table", Some(Pin::TemporaryTable)),
    ("CREATE TABLE tempdb..#t (a INT)", W, "temporary-table", Some(Pin::TemporaryTable)),
    ("ALTER TABLE #t ADD b INT", W, "ddl", None),
    ("DROP TABLE tempdb..#t", W, "temporary-table", None),
    ("DROP TABLE IF EXISTS #t", W, "temporary-table", None),
    (
        "EXEC sp_getapplock @Resource = 'r', @LockMode = 'Exclusive', @LockOwner = 'Session'",
        W,
        "call",
        Some(Pin::NamedLock),
    ),
    ("EXEC sys.sp_getapplock 'r', 'Exclusive'", W, "call", None),
    ("EXEC sp_releaseapplock @Resource = 'r', @LockOwner = 'Session'", W, "call", None),
    ("USE master", W, "session-setting", Some(Pin::SessionSetting)),
    ("KILL 5", NO, "needs-host", None),
    ("SELECT * FROM OPENQUERY(l, 'DELETE FROM t')", W, "function", None),
    ("SELECT 1 /* a /* b */ DELETE */", R, "select", None),
    ("SELECT 1 /* a /* b */", W, "unknown", None),
    ("SELECT 'a\\' FROM t", R, "select", None),
    ("SELECT [a]]; EXEC p] FROM t", R, "select", None),
    ("SELECT 1 --x", R, "select", None),
];

fn check(router: &StatementRouter, sql: &str, row: &Row) {
    let (_, target, why, pin) = *row;
    let route = router.route(sql, &SessionState::new());
    let found = (route.target, route.why.as_str(), route.pin);
    assert_eq!(found, (target, why, pin), "{sql}");
    assert_eq!(route.sent, sql);
}

fn in_mixed_case(sql: &str) -> String {
    let mut upper = false;
    sql.chars()
        .map(|char| {
            upper = !upper;
            if upper { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() }
        })
        .collect()
}

/// Whether something may be added behind the statement without changing it.
fn is_closed(why: &str, sql: &str) -> bool {
    why != "unknown" && !sql.contains("--")
}

#[test]
fn every_row_of_the_statement_table_in_any_case_between_blanks_and_comments() {
    for (dialect, rows) in [(Dialect::MySql, MYSQL), (Dialect::TSql, TSQL)] {
        let router = StatementRouter::new(dialect);
        for row in rows {
            let sql = row.0;
            check(&router, sql, row);
            check(&router, &sql.to_lowercase(), row);
            check(&router, &sql.to_uppercase(), row);
            check(&router, &in_mixed_case(sql), row);
            check(&router, &format!(" \r\n\t{sql}"), row);
            check(&router, &format!("-- DELETE '\n{sql}"), row);
            check(&router, &format!("/* it's; UPDATE t */{sql}"), row);
            check(&router, &format!("/**//***/ /* */\n{sql}"), row);
            check(&router, &format!(";;{sql}"), row);
            if is_closed(row.2, sql) {
                for tail in
                    [";", " ; ", "; -- done", ";/* x */;", " -- FOR UPDATE", "/* FOR UPDATE */"]
                {
                    check(&router, &format!("{sql}{tail}"), row);
                }
            }
            if dialect == Dialect::MySql {
                check(&router, &format!("# it's\n{sql}"), row);
                check(&router, &format!("/*!40101 */{sql}"), row);
            }
        }
    }
}

#[test]
fn any_row_behind_a_read_makes_the_text_go_to_the_source() {
    for (dialect, rows) in [(Dialect::MySql, MYSQL), (Dialect::TSql, TSQL)] {
        let router = StatementRouter::new(dialect);
        for (sql, target, ..) in rows {
            let text = format!("SELECT 1; {sql}");
            let route = router.route(&text, &SessionState::new());
            let expected = if *target == NO { NO } else { W };
            assert_eq!(route.target, expected, "{text}");
            assert!(!route.is_retry_safe(), "{text}");
        }
    }
}

fn mysql(sql: &str) -> &'static str {
    let router = StatementRouter::default();
    let route = router.route(sql, &SessionState::new());
    assert_eq!(route.target == R, route.kind.is_read(), "{sql}");
    route.why.as_str()
}

#[test]
fn empty_texts_go_to_the_source() {
    for sql in ["", " ", ";", ";;", "-- x", "--", "# x", "/* x */", "/*! */", "/* x */ ; -- y"] {
        let router = StatementRouter::default();
        let route = router.route(sql, &SessionState::new());
        assert_eq!((route.target, route.why.as_str()), (W, "empty"), "{sql:?}");
    }
}

#[test]
fn comments_are_no_code_and_code_is_no_comment() {
    assert_eq!(mysql("SELECT 1 -- FOR UPDATE"), "select");
    assert_eq!(mysql("SELECT 1 --FOR UPDATE"), "locking-read", "MySQL wants a blank after --");
    assert_eq!(mysql("SELECT 1 --\tx\n FOR UPDATE"), "locking-read");
    assert_eq!(mysql("SELECT 5--3"), "select");
    assert_eq!(mysql("SELECT 1 # FOR UPDATE"), "select");
    assert_eq!(mysql("SELECT 1 /* FOR UPDATE */"), "select");
    assert_eq!(mysql("SELECT 1 /* /* */ FOR UPDATE"), "locking-read", "no nesting in MySQL");
    assert_eq!(mysql("SELECT /*+ MAX_EXECUTION_TIME(5) */ 1"), "select");
    assert_eq!(mysql("SELECT 1 /*/ FOR UPDATE /*/"), "select");
}

#[test]
fn version_comments_are_code() {
    assert_eq!(mysql("SELECT * FROM t /*! FOR UPDATE */"), "locking-read");
    assert_eq!(mysql("SELECT * FROM t /*!80000 FOR UPDATE */"), "locking-read");
    assert_eq!(mysql("SELECT * FROM t FOR /*!80000 UPDATE*/"), "locking-read");
    assert_eq!(mysql("SELECT * FROM t /*M!100100 FOR UPDATE */"), "locking-read");
    assert_eq!(mysql("/*!50000 INSERT */ INTO t VALUES (1)"), "write");
    assert_eq!(mysql("/*!50000 SELECT */ 1"), "select");
    assert_eq!(mysql("SELECT /*!40001 SQL_NO_CACHE */ 1"), "select");
    // What one server runs and another one skips must not hide what follows.
    assert_eq!(mysql("SELECT 1 /*!99999 ' */ FOR UPDATE -- '"), "unknown");
    assert_eq!(mysql("SELECT 1 /*!99999 /* */ FOR UPDATE /* */ */"), "unknown");
    assert_eq!(mysql("SELECT 1 /*!99999 -- */ FOR UPDATE"), "unknown");
    assert_eq!(mysql("SELECT 1 /*!/"), "unknown");
    assert_eq!(mysql("SELECT 1 /*!"), "unknown");
}

#[test]
fn strings_and_identifiers_hide_what_they_contain() {
    for text in [
        "SELECT 'FOR UPDATE'",
        "SELECT 'it''s; DELETE FROM t'",
        "SELECT \"a\"\"; DELETE FROM t\"",
        "SELECT 'a\\'; DELETE FROM t; -- '",
        "SELECT 'a\\\\'",
        "SELECT `a``; DELETE FROM t`",
        "SELECT `for update`, for_update, update_for FROM lock_table",
        "SELECT * FROM t WHERE for_update = 1",
        "SELECT N'x', _utf8mb4'y', x'4D', 'a' 'b'",
    ] {
        assert_eq!(mysql(text), "select", "{text}");
    }
    assert_eq!(mysql("SELECT 'a\\\\' FOR UPDATE"), "locking-read");
    assert_eq!(mysql("SELECT 'a''' FOR UPDATE"), "locking-read");
    assert_eq!(mysql("SELECT `a\\` FOR UPDATE"), "locking-read", "no escapes in backticks");
}

#[test]
fn the_modes_of_the_server_decide_where_a_string_ends() {
    let sql = "SELECT 'a\\' FOR UPDATE -- '";
    assert_eq!(mysql(sql), "select");
    let syntax = Syntax::new(Dialect::MySql).without_backslash_escapes();
    let router = StatementRouter::default().with_syntax(syntax);
    assert_eq!(router.route(sql, &SessionState::new()).why.as_str(), "locking-read");
    let sql = "SELECT \"a\\\" FOR UPDATE -- \"";
    assert_eq!(mysql(sql), "select");
    let router =
        StatementRouter::default().with_syntax(Syntax::new(Dialect::MySql).with_ansi_quotes());
    assert_eq!(router.route(sql, &SessionState::new()).why.as_str(), "locking-read");
}

#[test]
fn a_clause_at_the_far_end_of_a_long_text_is_seen() {
    let filler = "(1,'some text'),".repeat(70_000);
    for (tail, why) in
        [("(2)", "select"), ("(2) FOR UPDATE", "locking-read"), ("(2); DO 1", "multi-statement")]
    {
        assert_eq!(mysql(&format!("SELECT * FROM t WHERE (a, b) IN ({filler}{tail}")), why);
    }
}

#[test]
fn functions_declared_as_reading_do_not_send_a_read_to_the_source() {
    let router = StatementRouter::default().with_read_functions(["My_Function"]);
    for sql in ["SELECT my_function(1)", "SELECT MY_FUNCTION (1)", "SELECT `my_function`(1)"] {
        assert_eq!(router.route(sql, &SessionState::new()).target, R, "{sql}");
    }
    assert_eq!(router.route("SELECT other(1)", &SessionState::new()).target, W);
}

#[test]
fn a_pinned_session_stays_where_it_is_whatever_the_statement() {
    let router = StatementRouter::default();
    for pin in [
        Pin::Transaction,
        Pin::AutocommitOff,
        Pin::NamedLock,
        Pin::TableLock,
        Pin::TemporaryTable,
        Pin::Prepared,
        Pin::UserVariable,
        Pin::SessionSetting,
        Pin::Unsure,
    ] {
        let session = SessionState::new().pinned_by(pin);
        for sql in ["SELECT 1", "UPDATE t SET a = 1", "KILL 5", "COMMIT", ""] {
            let route = router.route(sql, &session);
            assert_eq!(route.target, Target::Held, "{pin} {sql}");
            assert_eq!(route.why, Why::Pinned(pin));
            assert!(!route.is_retry_safe());
        }
    }
    let session = SessionState::new().pinned_by(Pin::Transaction);
    assert_eq!(router.route("SELECT 1", &session).pin, Some(Pin::Transaction));
    assert_eq!(router.route("COMMIT", &session).pin, None);
}

/// Runs statements one after the other as a session would and returns what pins it after each.
fn session(dialect: Dialect, statements: &[&str]) -> Vec<Option<Pin>> {
    let router = StatementRouter::new(dialect);
    let mut state = PinState::new();
    statements
        .iter()
        .map(|sql| {
            let route = router.route(sql, &state.session());
            state.sent(&route);
            state.answered(Answer::Ok(None));
            state.pins().strongest()
        })
        .collect()
}

#[test]
fn pins_begin_and_end_with_what_caused_them() {
    let table = Some(Pin::TemporaryTable);
    assert_eq!(
        session(
            Dialect::MySql,
            &[
                "CREATE TEMPORARY TABLE a (x INT)",
                "CREATE TEMPORARY TABLE IF NOT EXISTS a (x INT)",
                "CREATE TEMPORARY TABLE `b` (x INT)",
                "SELECT * FROM a",
                "DROP TEMPORARY TABLE IF EXISTS c",
                "DROP TABLE a",
                "DROP TEMPORARY TABLE b",
            ]
        ),
        [table, table, table, table, table, table, None]
    );
    let lock = Some(Pin::NamedLock);
    assert_eq!(
        session(
            Dialect::MySql,
            &[
                "SELECT GET_LOCK('a', 1), GET_LOCK(\"b\", 1)",
                "SELECT RELEASE_LOCK('other')",
                "SELECT RELEASE_LOCK('A')",
                "SELECT RELEASE_LOCK('b')",
                "SELECT GET_LOCK(?, 1)",
                "SELECT RELEASE_ALL_LOCKS()",
            ]
        ),
        [lock, lock, lock, None, lock, None]
    );
    let transaction = Some(Pin::Transaction);
    assert_eq!(
        session(Dialect::MySql, &["BEGIN", "SAVEPOINT s", "ROLLBACK TO s", "SELECT 1", "COMMIT"]),
        [transaction, transaction, transaction, transaction, None]
    );
    assert_eq!(
        session(Dialect::MySql, &["BEGIN", "BEGIN", "ROLLBACK"]),
        [transaction, transaction, None]
    );
    let off = Some(Pin::AutocommitOff);
    assert_eq!(
        session(Dialect::MySql, &["SET autocommit=0", "COMMIT", "SET autocommit=1"]),
        [off, off, None]
    );
    assert_eq!(
        session(Dialect::MySql, &["LOCK TABLES t READ", "SELECT 1", "UNLOCK TABLES"]),
        [Some(Pin::TableLock), Some(Pin::TableLock), None]
    );
    assert_eq!(
        session(Dialect::MySql, &["PREPARE s FROM 'x'", "EXECUTE S", "DEALLOCATE PREPARE S"]),
        [Some(Pin::Prepared), Some(Pin::Prepared), None]
    );
    assert_eq!(session(Dialect::MySql, &["CALL p()", "SELECT 1; SELECT 2"]), [None, None]);
}

#[test]
fn tsql_pins_begin_and_end_too() {
    let transaction = Some(Pin::Transaction);
    assert_eq!(
        session(Dialect::TSql, &["BEGIN TRAN", "BEGIN TRAN", "COMMIT", "COMMIT"]),
        [transaction, transaction, transaction, None]
    );
    assert_eq!(
        session(Dialect::TSql, &["BEGIN TRAN BEGIN TRAN", "ROLLBACK TRAN s", "ROLLBACK"]),
        [transaction, transaction, None]
    );
    assert_eq!(
        session(Dialect::TSql, &["BEGIN TRAN", "IF @@TRANCOUNT > 0; ROLLBACK", "ROLLBACK"]),
        [transaction, transaction, None],
        "what may not run ends nothing"
    );
    let table = Some(Pin::TemporaryTable);
    assert_eq!(
        session(
            Dialect::TSql,
            &[
                "SELECT 1 a INTO #a",
                "INSERT INTO #a SELECT 1",
                "IF OBJECT_ID('tempdb..#b') IS NOT NULL DROP TABLE #b CREATE TABLE #b (x INT)",
                "DROP TABLE #A, [#b]",
                "SELECT 1 a INTO tempdb..#a",
                "ALTER TABLE #a ADD b INT",
                "DROP TABLE #a",
                "CREATE TABLE #a (a INT)",
                "DROP TABLE IF EXISTS [tempdb].dbo.#a",
            ]
        ),
        [table, table, table, None, table, table, None, table, None]
    );
    let lock = Some(Pin::NamedLock);
    assert_eq!(
        session(
            Dialect::TSql,
            &[
                "EXEC sp_getapplock 'r', 'Shared', 'Session'",
                "SELECT 1",
                "EXEC sp_releaseapplock @Resource = N'R', @LockOwner = 'Session'",
            ]
        ),
        [lock, lock, None]
    );
    assert_eq!(
        session(Dialect::TSql, &["DECLARE c CURSOR FOR SELECT 1", "FETCH c", "DEALLOCATE c"]),
        [Some(Pin::Prepared), Some(Pin::Prepared), None]
    );
}

#[test]
fn a_read_only_transaction_stays_on_its_replica_to_the_end() {
    let router = StatementRouter::default();
    let mut state = PinState::new();
    let mut run = |sql, flags| {
        let route = router.route(sql, &state.session());
        state.sent(&route);
        state.answered(Answer::Ok(Some(flags)));
        (route.target, state.session().place)
    };
    let open = ServerFlags { transaction: true, autocommit: true };
    let idle = ServerFlags { transaction: false, autocommit: true };
    assert_eq!(run("START TRANSACTION READ ONLY", open), (R, Place::Replica));
    assert_eq!(run("UPDATE t SET a = 1", open), (Target::Held, Place::Replica));
    assert_eq!(run("COMMIT", idle), (Target::Held, Place::Replica));
    assert_eq!(run("UPDATE t SET a = 1", idle), (W, Place::Source));
}
