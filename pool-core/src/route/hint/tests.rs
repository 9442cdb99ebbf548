//! Every rule about hints, through the router.

use std::time::Duration;

use super::*;
use crate::route::{
    Dialect, HintFate, Pin, Refusal, Route, RoutePolicy, SessionState, StatementRouter, Target,
};

fn fresh<'s>(router: &'s StatementRouter, sql: &'s str) -> Route<'s> {
    router.route(sql, &SessionState::new())
}

/// Asserts where a text goes by its hint and what is sent; `None` if it has no hint.
fn table(router: &StatementRouter, rows: &[(&str, Option<Target<'_>>, &str)]) {
    for (sql, target, sent) in rows {
        let route = fresh(router, sql);
        assert_eq!(route.sent, *sent, "{sql}");
        match target {
            Some(target) => {
                assert_eq!((route.target, route.why.as_str()), (*target, "hint"), "{sql}");
                assert_eq!(route.hint, HintFate::Applied, "{sql}");
            }
            None => {
                assert_ne!(route.why.as_str(), "hint", "{sql}");
                assert_eq!(route.hint, HintFate::None, "{sql}");
            }
        }
    }
}

#[test]
fn force_hints_directly_before_the_statement() {
    use Target::{Host, Replica, Source};
    table(
        &StatementRouter::default(),
        &[
            ("/*FORCE_MASTER*/ SELECT 1", Some(Source), "SELECT 1"),
            ("/*FORCE_MASTER*/SELECT 1", Some(Source), "SELECT 1"),
            (" \n/* force_master */\tselect 1", Some(Source), "select 1"),
            (
                "/*Force_Slave*/ SELECT * FROM t FOR UPDATE",
                Some(Replica),
                "SELECT * FROM t FOR UPDATE",
            ),
            ("/*FORCE_SLAVE*/ UPDATE t SET a = 1", Some(Replica), "UPDATE t SET a = 1"),
            ("/*FORCE_SLAVE*/ SHOW PROCESSLIST", Some(Replica), "SHOW PROCESSLIST"),
            ("/*FORCE_MASTER*/ KILL 5", Some(Source), "KILL 5"),
            ("/*force_node='db-2'*/ SELECT 1", Some(Host("db-2")), "SELECT 1"),
            ("/* FORCE_NODE = 'a b' */ KILL 5", Some(Host("a b")), "KILL 5"),
            ("/*FORCE_MASTER*/ (SELECT 1)", Some(Source), "(SELECT 1)"),
            ("/*FORCE_MASTER*/ SELECT 1; SELECT 2", Some(Source), "SELECT 1; SELECT 2"),
            ("/* app */ /*FORCE_MASTER*/ SELECT 1", Some(Source), "/* app */  SELECT 1"),
            ("-- app\n/*FORCE_MASTER*/ SELECT 1", Some(Source), "-- app\n SELECT 1"),
            (
                "/*FORCE_SLAVE*/ /*FORCE_MASTER*/ SELECT 1",
                Some(Source),
                "/*FORCE_SLAVE*/  SELECT 1",
            ),
            (
                "/*FORCE_MASTER*/ SELECT /*+ NO_ICP(t) */ /*!40001 SQL_NO_CACHE */ 1 /* x */",
                Some(Source),
                "SELECT /*+ NO_ICP(t) */ /*!40001 SQL_NO_CACHE */ 1 /* x */",
            ),
        ],
    );
}

#[test]
fn what_only_looks_like_a_force_hint_is_left_alone() {
    let router = StatementRouter::default();
    for sql in [
        "SELECT /*FORCE_MASTER*/ 1",
        "SELECT 1 /*FORCE_MASTER*/",
        "SELECT '/*FORCE_MASTER*/'",
        "SELECT `/*FORCE_MASTER*/` FROM t",
        "'/*FORCE_MASTER*/' SELECT 1",
        "/*FORCE_MASTER*/ -- x\nSELECT 1",
        "/*FORCE_MASTER*/ /* x */ SELECT 1",
        "/* /*FORCE_MASTER*/ SELECT 1",
        "/*! /*FORCE_MASTER*/ SELECT 1 */",
        "/*!FORCE_MASTER*/ SELECT 1",
        "/*!40000 */ /*FORCE_MASTER*/ SELECT 1",
        "/*FORCE_MASTER*/",
        "/*FORCE_MASTER*/ ;",
        "/*FORCE_MASTER*/ ; SELECT 1",
        "SELECT 1; /*FORCE_MASTER*/ SELECT 2",
        "( /*FORCE_MASTER*/ SELECT 1)",
        "-- FORCE_MASTER\nSELECT 1",
        "# FORCE_MASTER\nSELECT 1",
        "/*FORCE_MASTER2*/ SELECT 1",
        "/*FORCE MASTER*/ SELECT 1",
        "/*force_node=db*/ SELECT 1",
        "/*force_node=''*/ SELECT 1",
        "/*force_node='a'b'*/ SELECT 1",
        "/*FORCE_MASTER SELECT 1",
        "/*+FORCE_MASTER*/ SELECT 1",
    ] {
        table(&router, &[(sql, None, sql)]);
    }
}

#[test]
fn in_tsql_a_hint_in_a_nested_comment_is_none() {
    let router = StatementRouter::new(Dialect::TSql);
    let nested = "/* a /*FORCE_MASTER*/ */ SELECT 1";
    table(
        &router,
        &[
            (nested, None, nested),
            ("/*FORCE_MASTER*/ SELECT [a]", Some(Target::Source), "SELECT [a]"),
        ],
    );
}

#[test]
fn hints_can_be_switched_off_and_left_in_the_text() {
    let sql = "/*FORCE_MASTER*/ SELECT 1";
    let off = StatementRouter::default().without_hints();
    table(&off, &[(sql, None, sql)]);
    assert_eq!(fresh(&off, sql).target, Target::Replica);
    let kept = StatementRouter::default().keeping_hint_text();
    table(&kept, &[(sql, Some(Target::Source), sql)]);
}

#[test]
fn a_hint_on_set_is_refused() {
    let router = StatementRouter::default();
    for sql in ["/*FORCE_MASTER*/ SET x = 1", "/*FORCE_SLAVE*/SET @v = 1"] {
        let route = fresh(&router, sql);
        assert_eq!(route.target, Target::Refused(Refusal::HintOnSet), "{sql}");
        assert_eq!(route.why.as_str(), "hint-on-set");
        assert_eq!(route.pin, None);
    }
    assert_eq!(fresh(&router.without_hints(), "/*FORCE_MASTER*/ SET x = 1").target, Target::Source);
}

#[test]
fn on_a_pinned_session_a_hint_is_ignored_or_refused_as_set() {
    let sql = "/*FORCE_SLAVE*/ SELECT 1";
    let session = SessionState::new().pinned_by(Pin::Transaction);
    let ignoring = StatementRouter::default();
    let route = ignoring.route(sql, &session);
    assert_eq!((route.target, route.hint), (Target::Held, HintFate::Ignored));
    assert_eq!(route.why.as_str(), "transaction");
    assert_eq!(route.sent, "SELECT 1", "it is cut out all the same");
    let refusing = StatementRouter::default().with_hints_while_pinned(WhilePinned::Refuse);
    let route = refusing.route(sql, &session);
    assert_eq!(route.target, Target::Refused(Refusal::HintWhilePinned));
    assert_eq!(refusing.route("SELECT 1", &session).target, Target::Held);
}

#[test]
fn any_replica_is_not_a_certain_node() {
    let router = StatementRouter::default();
    let route = fresh(&router, "/*FORCE_SLAVE*/ KILL 5");
    assert_eq!(route.target, Target::Refused(Refusal::NeedsHost));
}

#[test]
fn aws_hints() {
    use Target::{Held, Replica, Source};
    let later = "SELECT /*@writer*/ 1";
    let other = "/*@other*/ SELECT 1";
    table(
        &StatementRouter::default().with_hints(AwsHints::new()),
        &[
            ("/*@reader*/ UPDATE t SET a = 1", Some(Replica), "UPDATE t SET a = 1"),
            (" /* @WRITER */SELECT 1", Some(Source), "SELECT 1"),
            ("/*@keep*/ SELECT 1", Some(Held), "SELECT 1"),
            (later, None, later),
            (other, None, other),
        ],
    );
}

#[test]
fn maxscale_hints() {
    use Target::{Held, Host, Replica, Source};
    let second = "SELECT 1 /* a */ -- maxscale route to master";
    let stacked = "SELECT 1 -- maxscale begin route to master";
    let text = "SELECT '-- maxscale route to master'";
    let router = StatementRouter::default().with_hints(MaxScaleHints::new());
    table(
        &router,
        &[
            ("SELECT 1 -- maxscale route to master", Some(Source), "SELECT 1"),
            ("-- maxscale route to slave\nSELECT 1", Some(Replica), "SELECT 1"),
            ("SELECT/* MaxScale Route To Server db2 */1", Some(Host("db2")), "SELECT 1"),
            ("SELECT a # maxscale route to last\nFROM t", Some(Held), "SELECT a \nFROM t"),
            ("UPDATE t SET a = 1 -- maxscale route to slave", Some(Replica), "UPDATE t SET a = 1"),
            (second, None, second),
            (stacked, None, stacked),
            (text, None, text),
        ],
    );
    let route = fresh(&router, "SELECT 1 -- maxscale max_slave_replication_lag=5");
    assert_eq!((route.target, route.max_lag), (Target::Replica, Some(Duration::from_secs(5))));
}

#[test]
fn proxysql_hints() {
    use Target::{Host, Replica, Source};
    let hints = ProxySqlHints::new([
        (0, Hostgroup::Source),
        (1, Hostgroup::Replicas),
        (2, Hostgroup::Host("db2".into())),
    ]);
    let router = StatementRouter::default().with_hints(hints);
    let other = "/* cache_ttl=500 */ SELECT 1";
    let unknown = "/* hostgroup=9 */ SELECT 1";
    table(
        &router,
        &[
            ("/* hostgroup=0 */ SELECT 1", Some(Source), "SELECT 1"),
            ("/* hostgroup = 1 ; cache_ttl=5; */ DELETE FROM t", Some(Replica), "DELETE FROM t"),
            ("SELECT /* hostgroup=2 */ 1", Some(Host("db2")), "SELECT  1"),
            (other, None, other),
            (unknown, None, unknown),
        ],
    );
    let route = fresh(&router, "/* max_lag_ms=100 */ SELECT 1");
    assert_eq!((route.target, route.max_lag), (Target::Replica, Some(Duration::from_millis(100))));
}

#[test]
fn router_hints_and_their_rule_for_transactions() {
    let router = StatementRouter::default().with_hints(RouterHints::new());
    table(
        &router,
        &[
            ("/* router.access_mode=read_write */ SELECT 1", Some(Target::Source), "SELECT 1"),
            ("/*router.access_mode='READ_ONLY'*/ DO 1", Some(Target::Replica), "DO 1"),
        ],
    );
    let auto = fresh(&router, "/* router.access_mode=auto */ SELECT 1");
    assert_eq!((auto.target, &*auto.sent), (Target::Replica, "SELECT 1"));
    let session = SessionState::new().pinned_by(Pin::Transaction);
    let route = router.route("/* router.access_mode=auto */ SELECT 1", &session);
    assert_eq!(route.target, Target::Refused(Refusal::HintWhilePinned));
}

#[test]
fn vitess_targets_bind_the_session_and_move_it() {
    let router = StatementRouter::default().with_hints(VitessHints::new());
    for (sql, target) in [
        ("USE ks@replica", Target::Replica),
        ("use `ks`@rdonly;", Target::Replica),
        ("USE ks@primary", Target::Source),
    ] {
        let route = fresh(&router, sql);
        assert_eq!((route.target, route.pin), (target, Some(Pin::SessionSetting)), "{sql}");
        assert_eq!(
            route.sent,
            sql.replace("@replica", "").replace("@rdonly", "").replace("@primary", "")
        );
        let bound = SessionState::new().pinned_by(Pin::SessionSetting);
        assert_eq!(router.route(sql, &bound).target, target, "{sql}");
        let busy = bound.pinned_by(Pin::Transaction);
        assert_eq!(router.route(sql, &busy).target, Target::Held, "{sql}");
    }
    for sql in ["USE ks", "USE ks@shard", "SELECT 1", "/*vt+ PLANNER=gen4 */ SELECT 1"] {
        table(&router, &[(sql, None, sql)]);
    }
}
