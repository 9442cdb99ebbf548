//! Futures that are dropped at every await: nothing leaks, no answer goes to the wrong statement, and nobody
//! gets a connection on which something is still open.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pool_core::failover::Failure;
use pool_core::route::StatementRouter;
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::{Consistency, Failed, Session};
use pool_tests::mysql::{LoggedStatement, Outcome};

use crate::bench::{Bench, left_nothing, until, within};

/// Polls `work` this many times, waits for `event`, then drops it. `None` if it was not done by then.
async fn steps<T>(
    work: impl Future<Output = T>,
    steps: usize,
    event: impl Future<Output = ()>,
) -> Option<T> {
    let mut work = pin!(work);
    let mut left = steps;
    let done = poll_fn(|context| {
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    if done.is_none() {
        event.await;
    }
    done
}

/// What is done before, undisturbed, and what is dropped.
struct Case {
    name: &'static str,
    before: &'static [&'static str],
    dropped: &'static str,
    /// Whether what is dropped is sent as it is, instead of by a method of the session.
    as_text: bool,
}

const fn case(
    name: &'static str,
    before: &'static [&'static str],
    dropped: &'static str,
    as_text: bool,
) -> Case {
    Case { name, before, dropped, as_text }
}

const WRITE: &str = "UPDATE t SET v = v + 1 WHERE id = 1";
const READ: &str = "SELECT v FROM t WHERE id = 1";
const READ_ONLY: &str = "START TRANSACTION READ ONLY";
const LOCK: &str = "SELECT GET_LOCK('a', 5)";
/// On the second replica.
const LOCK_BESIDE: &str = "/*force_node='R'*/ SELECT GET_LOCK('a', 5)";
const WRITE_NAMED: &str = "/*force_node='S'*/ UPDATE t SET v = v + 1 WHERE id = 1";
const BEGIN_NAMED: &str = "/*force_node='S'*/ START TRANSACTION";

const CASES: &[Case] = &[
    case("the first write", &[], WRITE, true),
    case("the first read", &[], READ, true),
    case("a write", &[WRITE], WRITE, true),
    case("a read", &[WRITE, READ], READ, true),
    case("a write after a read", &[WRITE, READ], WRITE, true),
    case("begin", &[WRITE], "BEGIN", false),
    case("begin as text", &[WRITE], "BEGIN", true),
    case("a write in a transaction", &["BEGIN", WRITE], WRITE, true),
    case("commit", &["BEGIN", WRITE], "COMMIT", false),
    case("commit as text", &["BEGIN", WRITE], "COMMIT", true),
    case("rollback", &["BEGIN", WRITE], "ROLLBACK", false),
    case("autocommit", &["SET autocommit = 0", WRITE], "SET autocommit = 1", false),
    case("a lock", &[WRITE], LOCK, true),
    case("a read under a lock", &[WRITE, LOCK], READ, true),
    case("a variable", &[WRITE], "SET @a = 1", true),
    case("a table", &[WRITE], "CREATE TEMPORARY TABLE xa (a INT)", true),
    case("a read-only transaction", &[WRITE], READ_ONLY, true),
    case("a read in it", &[READ_ONLY, READ], READ, true),
    case("its end", &[READ_ONLY, READ], "COMMIT", false),
    case("begin after it", &[READ_ONLY, READ], "BEGIN", false),
    case("a lock beside", &[WRITE], LOCK_BESIDE, true),
    case("a read under it", &[LOCK_BESIDE], READ, true),
    case("its release", &[LOCK_BESIDE], "DO RELEASE_LOCK('a')", true),
    case("a write on a named host", &[READ], WRITE_NAMED, true),
    case("a write in a transaction there", &[BEGIN_NAMED, WRITE], WRITE, true),
    case("commit there", &[BEGIN_NAMED, WRITE], "COMMIT", false),
];

async fn send(session: &mut Session, sql: &str, as_text: bool) -> Result<(), Failed> {
    match as_text {
        true => session.query::<i64>(sql).await.map(drop),
        false => session.query_drop(sql).await,
    }
}

/// Runs a case, drops its last step at its `at`th await; whether it was done before that.
async fn drop_at(bench: &Bench, case: &Case, at: usize, leaves: bool, late: bool) -> bool {
    let why = format!("{}, dropped at {at}", case.name);
    let names = (bench.name(2), bench.name(0));
    let text = |sql: &str| {
        sql.replace("'R'", &format!("'{}'", names.0)).replace("'S'", &format!("'{}'", names.1))
    };
    let mut session = bench.fresh().consistency(Consistency::Token(Duration::from_millis(50)));
    for sql in case.before {
        send(&mut session, &text(sql), sql.starts_with("SELECT")).await.unwrap();
    }
    let dropped = text(case.dropped);
    let from = bench.cluster.statements().len();
    let answered = async {
        if late {
            // The answer is there, and unread.
            let is_over = |line: &LoggedStatement| line.outcome != Outcome::Running;
            let is_answered = || bench.cluster.statements()[from..].iter().all(is_over);
            until("it is answered", is_answered).await;
        }
    };
    let done = steps(send(&mut session, &dropped, case.as_text), at, answered).await;
    if let Some(done) = &done {
        assert!(done.is_ok(), "{why}: {done:?}");
    }
    if !leaves {
        goes_on(&mut session, &why).await;
    }
    drop(session);
    assert_eq!(bench.in_use(), 0, "{why}");
    // No row lock, no lock, no state is left.
    let other = async {
        let mut other = bench.pool.get().await.unwrap();
        other.query_drop("UPDATE t SET v = 0 WHERE id = 1").await.unwrap();
    };
    within(&why, other).await;
    left_nothing(bench, &why).await;
    done.is_some()
}

/// The session goes on, after at most an error that says what was lost; every answer is the right one.
async fn goes_on(session: &mut Session, why: &str) {
    let mut asked = 0;
    let mut ended = 0;
    for hint in ["", "/*FORCE_MASTER*/ ", "", "/*FORCE_MASTER*/ "] {
        loop {
            asked += 1;
            let sql = format!("{hint}SELECT 1000 + {asked}");
            match within(why, session.query_first::<i64>(&sql)).await {
                Ok(answer) => {
                    assert_eq!(answer, Some(1000 + asked), "{why}");
                    break;
                }
                Err(error) if error.failure == Failure::TransactionLost => {
                    session.rollback().await.unwrap_or_else(|error| panic!("{why}: {error}"));
                }
                Err(error) => assert_eq!(error.failure, Failure::Switched, "{why}: {error}"),
            }
            ended += 1;
            assert!(ended < 3, "{why}: the loss is told once");
        }
    }
}

#[tokio::test]
async fn a_call_may_be_dropped_at_every_await() {
    let bench = Bench::with(3, "failOverReadOnly=false", StatementRouter::default()).await;
    bench.cluster.execute("INSERT INTO t (id, v) VALUES (1, 0)").await.unwrap();
    let source = bench.name(0);
    bench.pool.set_weight(&source, 1).unwrap();
    for case in CASES {
        for (leaves, late) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut at = 1;
            while !drop_at(&bench, case, at, leaves, late).await {
                at += 1;
                assert!(at < 200, "{}: it never ends", case.name);
            }
        }
    }
}
