//! Random statements against the router: it never panics, nothing quoted decides anything, everything in the
//! clear does, and it agrees with the tokenizer of `sqlparser` on where comments and quotes end.
//!
//! Runs for 3 seconds a test, or as many as `POOL_TESTS_FUZZ_SECONDS` says.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;
use pool_core::route::hint::{
    AwsHints, Hostgroup, MaxScaleHints, ProxySqlHints, RouterHints, VitessHints,
};
use pool_core::route::lexer::{Lexer, Syntax, TokenKind};
use pool_core::route::{
    Answer, Dialect, PinState, RoutePolicy, SessionState, StatementRouter, Target,
};
use sqlparser::dialect::{Dialect as Grammar, MsSqlDialect, MySqlDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, Tokenizer, Whitespace};

/// Calls `case` with generators of fresh seeds until the time is over; names the seed of a failure.
fn fuzz(name: &str, mut case: impl FnMut(&mut Rng)) {
    let seconds = std::env::var("POOL_TESTS_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(3));
    let first = fastrand::u64(..);
    let mut cases = 0_u64;
    while Instant::now() < end || cases == 0 {
        for _ in 0..64 {
            let seed = first.wrapping_add(cases);
            cases += 1;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(&mut Rng::with_seed(seed)))) {
                eprintln!("{name}: failed with seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{name}: {cases} cases from seed {first}");
}

const PIECES: &[&str] = &[
    "SELECT",
    "select",
    "FROM t",
    "WHERE",
    "a",
    "b1",
    "1",
    "1.5",
    "1e5",
    ".5",
    "0x1F",
    ",",
    "(",
    ")",
    "=",
    "*",
    "-",
    "/",
    ".",
    "+",
    ";",
    "'",
    "''",
    "\"",
    "`",
    "[",
    "]",
    "\\",
    "@",
    "@@",
    "@v",
    "@@x",
    "#",
    "--",
    "-- ",
    "/*",
    "*/",
    "/*!",
    "/*!50000",
    "/*M!",
    "/*+",
    "\n",
    "\t",
    " ",
    "  ",
    "FOR UPDATE",
    "FOR SHARE",
    "LOCK IN SHARE MODE",
    "INTO",
    "INSERT INTO",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "SET",
    "autocommit",
    "= 0",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "TRAN",
    "WITH",
    "AS",
    "COUNT(",
    "f(",
    "GET_LOCK('a',1)",
    "LAST_INSERT_ID()",
    "EXEC",
    "DECLARE",
    "CURSOR",
    "#t",
    "CREATE",
    "TEMPORARY",
    "TABLE",
    "DROP",
    "IF",
    "EXISTS",
    "EXPLAIN",
    "SHOW",
    "KILL",
    "USE",
    "ks@replica",
    "CALL",
    "PREPARE",
    "/*FORCE_MASTER*/",
    "/*FORCE_SLAVE*/",
    "/*force_node='x'*/",
    "/*@reader*/",
    "/* hostgroup=1 */",
    "-- maxscale route to slave\n",
    "/* router.access_mode=read_only */",
    "é",
    "\u{a0}",
    "漢",
    "\0",
    "'a'",
    "\"b\"",
    "`c`",
    "[d]",
    "/* x */",
    "-- y\n",
    "# z\n",
    "XA",
    "HANDLER",
    "FLUSH",
    "START TRANSACTION READ ONLY",
    "NEXT VALUE FOR",
];

fn text(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(0..24) {
        text.push_str(PIECES[rng.usize(..PIECES.len())]);
        if rng.bool() {
            text.push(' ');
        }
    }
    text
}

fn routers() -> Vec<StatementRouter> {
    let groups =
        [(0, Hostgroup::Source), (1, Hostgroup::Replicas), (2, Hostgroup::Host("x".into()))];
    let mut routers = Vec::new();
    for dialect in [Dialect::MySql, Dialect::TSql] {
        let new = || StatementRouter::new(dialect).with_read_functions(["f"]);
        routers.push(new());
        routers.push(new().without_hints());
        routers.push(new().with_hints(AwsHints::new()));
        routers.push(new().with_hints(MaxScaleHints::new()).keeping_hint_text());
        routers.push(new().with_hints(ProxySqlHints::new(groups.clone())));
        routers.push(new().with_hints(RouterHints::new()));
        routers.push(new().with_hints(VitessHints::new()));
        let syntax = Syntax::new(dialect).without_backslash_escapes().with_ansi_quotes();
        routers.push(new().with_syntax(syntax));
    }
    routers
}

#[test]
fn no_text_makes_the_router_panic_and_every_answer_is_consistent() {
    let routers = routers();
    fuzz("router", |rng| {
        let router = &routers[rng.usize(..routers.len())];
        let mut state = PinState::new();
        for _ in 0..rng.usize(1..4) {
            let sql = text(rng);
            let route = router.route(&sql, &state.session());
            let again = router.route(&sql, &state.session());
            assert_eq!(route, again, "{sql:?}");
            let pinned = !state.pins().is_empty();
            if route.is_retry_safe() {
                assert!(route.kind.is_read() && !pinned, "{sql:?}");
            }
            if route.target == Target::Replica && route.why.as_str() != "hint" {
                assert!(!pinned, "{sql:?}");
                assert!(
                    route.kind.is_read() || route.kind.as_str() == "read-only-transaction",
                    "{sql:?}"
                );
            }
            assert!(route.sent.len() <= sql.len() + 1, "{sql:?}");
            state.sent(&route);
            state.answered(if rng.bool() { Answer::Ok(None) } else { Answer::Failed });
        }
    });
}

#[test]
fn tokens_cover_the_text_in_order() {
    fuzz("tokens", |rng| {
        let sql = text(rng);
        for dialect in [Dialect::MySql, Dialect::TSql] {
            let mut lexer = Lexer::new(&sql, Syntax::new(dialect));
            let mut at = 0;
            loop {
                let token = lexer.next_with_comments();
                assert!(token.start >= at && token.end >= token.start, "{sql:?} {token:?}");
                assert!(sql.is_char_boundary(token.start) && sql.is_char_boundary(token.end));
                at = token.end;
                if token.kind == TokenKind::End {
                    assert_eq!(at, sql.len(), "{sql:?}");
                    break;
                }
                assert!(token.end > token.start || token.kind == TokenKind::Odd, "{sql:?}");
            }
        }
    });
}

/// Something that hides its content, complete in itself.
fn hidden(rng: &mut Rng, dialect: Dialect) -> String {
    let inner = text(rng);
    let mysql = dialect == Dialect::MySql;
    match rng.u8(0..6) {
        0 => {
            let inner = if mysql { inner.replace('\\', "\\\\") } else { inner };
            let quote = if mysql && rng.bool() { "\\'" } else { "''" };
            format!(" '{}' ", inner.replace('\'', quote))
        }
        1 if mysql => format!(" \"{}\" ", inner.replace('\\', "\\\\").replace('"', "\"\"")),
        1 => format!(" \"x{}\" ", inner.replace('"', "\"\"").replace('#', "")),
        2 if mysql => format!(" `{}` ", inner.replace('`', "``")),
        2 => format!(" [x{}] ", inner.replace(']', "]]")),
        3 => {
            let inner = inner.replace("*/", "").replace("/*", "").replace('/', "");
            // Not a version comment.
            format!("/* {inner} */")
        }
        4 => format!("-- {}\n", inner.replace('\n', " ")),
        _ if mysql => format!("# {}\n", inner.replace('\n', " ")),
        _ => format!("--{}\n", inner.replace('\n', " ")),
    }
}

#[test]
fn nothing_hidden_decides_and_everything_in_the_clear_does() {
    fuzz("hidden", |rng| {
        let dialect = if rng.bool() { Dialect::MySql } else { Dialect::TSql };
        let mut sql = String::from("SELECT 1");
        for _ in 0..rng.usize(1..6) {
            sql.push_str(&hidden(rng, dialect));
            sql.push_str([" , a", " = 5 ", " t.b ", "\n"][rng.usize(..4)]);
        }
        let router = StatementRouter::new(dialect).without_hints();
        let session = SessionState::new();
        assert_eq!(router.route(&sql, &session).target, Target::Replica, "{sql}");
        let tails: &[&str] = match dialect {
            Dialect::MySql => &[
                " FOR UPDATE",
                " for/**/update",
                " LOCK IN SHARE MODE",
                "; DELETE FROM t",
                " INTO @x",
                ", @v",
                ", f(1)",
                ", LAST_INSERT_ID()",
                " /*!50000 FOR UPDATE */",
                ", GET_LOCK('a', 1)",
                " '",
                " /*",
                " `",
                " INTO OUTFILE 'x'",
            ],
            Dialect::TSql => &[
                " FROM t WITH (UPDLOCK)",
                " INTO #x",
                " INTO x",
                "; EXEC p",
                " EXEC p",
                " DELETE t",
                ", dbo.f(1)",
                ", SCOPE_IDENTITY()",
                " FROM #x",
                " '",
                " /*",
                " [",
                " /* /* */",
                " BEGIN TRAN",
                " SET NOCOUNT ON",
            ],
        };
        let tail = tails[rng.usize(..tails.len())];
        let sql = format!("{sql}{tail}");
        assert_eq!(router.route(&sql, &session).target, Target::Source, "{sql}");
    });
}

/// Statements that have a chance to be accepted by a parser.
fn plausible(rng: &mut Rng, dialect: Dialect) -> String {
    let mysql = dialect == Dialect::MySql;
    let literal = |rng: &mut Rng| -> String {
        const INNER: &[&str] = &[
            "a",
            "''",
            "\"",
            "--",
            "-- ",
            "#",
            "/*",
            "*/",
            ";",
            " ",
            "`",
            "[",
            "]",
            "é",
            "\n",
            "FOR UPDATE",
            "\\\\",
            "\\n",
        ];
        let inner: String = (0..rng.usize(0..5)).map(|_| INNER[rng.usize(..INNER.len())]).collect();
        match rng.u8(0..4) {
            0 => rng.u16(..).to_string(),
            1 if mysql => format!("`c{}`", inner.replace('`', "``")),
            1 => format!("[c{}]", inner.replace(']', "]]")),
            2 => format!("\"c{}\"", inner.replace('"', "\"\"")),
            _ => format!("'{inner}'"),
        }
    };
    let gap = |rng: &mut Rng| -> String {
        const INNER: &[&str] = &["a", "'", "\"", "`", "*", "--", ";", "/", "é", " ", "!x"];
        let inner: String = (0..rng.usize(0..4)).map(|_| INNER[rng.usize(..INNER.len())]).collect();
        match rng.u8(0..8) {
            0 => {
                let mut inner = inner;
                while inner.contains("*/") || inner.contains("/*") {
                    inner = inner.replace("*/", "").replace("/*", "");
                }
                format!("/* {}*/", inner.trim_end_matches('/'))
            }
            1 => format!("-- {inner}\n"),
            2 if mysql => format!("#{inner}\n"),
            3 => "\n".into(),
            _ => " ".into(),
        }
    };
    let mut sql = String::new();
    let push = |sql: &mut String, rng: &mut Rng, word: &str| {
        sql.push_str(&gap(rng));
        sql.push_str(word);
        sql.push_str(&gap(rng));
    };
    push(&mut sql, rng, "SELECT");
    for item in 0..rng.usize(1..4) {
        if item > 0 {
            push(&mut sql, rng, ",");
        }
        let literal = literal(rng);
        push(&mut sql, rng, &literal);
    }
    push(&mut sql, rng, "FROM");
    push(&mut sql, rng, "t");
    if rng.bool() {
        push(&mut sql, rng, "WHERE");
        let (a, b) = (literal(rng), literal(rng));
        push(&mut sql, rng, &a);
        let operator = ["=", "<", "-", "/", "*"][rng.usize(..5)];
        push(&mut sql, rng, operator);
        push(&mut sql, rng, &b);
    }
    if rng.u8(0..4) == 0 {
        push(&mut sql, rng, ";");
    }
    sql
}

/// Byte offsets of the lines of a text, to translate what `sqlparser` reports.
fn offset(sql: &str, location: Location) -> usize {
    let line_start: usize =
        sql.split_inclusive('\n').take(location.line as usize - 1).map(str::len).sum();
    let columns = location.column as usize - 1;
    sql[line_start..].chars().take(columns).map(char::len_utf8).sum::<usize>() + line_start
}

#[derive(Debug, PartialEq, Eq)]
enum Region {
    Block(usize, usize),
    Line(usize),
    Quoted(usize, usize),
}

fn ours(sql: &str, dialect: Dialect) -> Vec<Region> {
    let mut lexer = Lexer::new(sql, Syntax::new(dialect));
    let mut regions = Vec::new();
    loop {
        let token = lexer.next_with_comments();
        match token.kind {
            TokenKind::Comment if sql[token.start..].starts_with("/*") => {
                regions.push(Region::Block(token.start, token.end));
            }
            TokenKind::Comment => regions.push(Region::Line(token.start)),
            TokenKind::Quoted | TokenKind::Text => {
                regions.push(Region::Quoted(token.start, token.end));
            }
            TokenKind::End => return regions,
            _ => {}
        }
    }
}

fn theirs(sql: &str, grammar: &dyn Grammar) -> Option<Vec<Region>> {
    Parser::parse_sql(grammar, sql).ok()?;
    let tokens = Tokenizer::new(grammar, sql).tokenize_with_location().ok()?;
    let mut regions = Vec::new();
    for token in tokens {
        let (start, end) = (offset(sql, token.span.start), offset(sql, token.span.end));
        match token.token {
            Token::Whitespace(Whitespace::SingleLineComment { .. }) => {
                regions.push(Region::Line(start));
            }
            Token::Whitespace(Whitespace::MultiLineComment(_)) => {
                regions.push(Region::Block(start, end));
            }
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {
                regions.push(Region::Quoted(start, end));
            }
            Token::Word(word) if word.quote_style.is_some() => {
                regions.push(Region::Quoted(start, end));
            }
            _ => {}
        }
    }
    Some(regions)
}

#[test]
fn comments_and_quotes_end_where_sqlparser_says() {
    let mut accepted = 0_u32;
    fuzz("sqlparser", |rng| {
        let (dialect, grammar): (_, &dyn Grammar) = if rng.bool() {
            (Dialect::MySql, &MySqlDialect {})
        } else {
            (Dialect::TSql, &MsSqlDialect {})
        };
        let sql = plausible(rng, dialect);
        if let Some(theirs) = theirs(&sql, grammar) {
            accepted += 1;
            assert_eq!(ours(&sql, dialect), theirs, "{dialect:?} {sql:?}");
        }
    });
    println!("accepted by the parser: {accepted}");
    assert!(accepted > 0, "the generator must make statements that a parser accepts");
}
