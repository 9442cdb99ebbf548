//! Random sessions whose links break at any time: what they were told about their writes is true.

use std::collections::HashMap;

use fastrand::Rng;
use pool_core::failover::Failure;
use pool_core::route::StatementRouter;
use pool_mysql::{Failed, Session};
use pool_tests::mysql::{Ending, Fault};

use crate::bench::{Bench, within};

/// What a session was told about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    NotDone,
    Unknown,
}

#[derive(Default)]
struct Book {
    told: HashMap<u64, Told>,
    /// Written in the transaction that is open.
    pending: Vec<u64>,
    in_transaction: bool,
    history: Vec<String>,
}

impl Book {
    fn end(&mut self, told: Told) {
        self.in_transaction = false;
        for id in self.pending.drain(..) {
            self.told.insert(id, told);
        }
    }

    fn inserted(&mut self, id: u64, result: &Result<(), Failed>) {
        let told = match result {
            Ok(()) if self.in_transaction => return self.pending.push(id),
            Ok(()) => Told::Done,
            Err(error) if error.failure == Failure::OutcomeUnknown => Told::Unknown,
            Err(_) => Told::NotDone,
        };
        self.told.insert(id, told);
    }
}

/// Breaks something, now or at one of the next statements.
async fn break_something(bench: &Bench, rng: &mut Rng) -> String {
    let host = bench.cluster.host(rng.usize(..3));
    if rng.bool() {
        let ending = if rng.bool() { Ending::Fin } else { Ending::Reset };
        host.kill_connections(ending).await;
        return format!("kill {}", host.index());
    }
    let fault = if rng.bool() { Fault::DropBefore } else { Fault::DropAfter };
    let text = ["INSERT", "COMMIT", "START", "COUNT", "ROLLBACK"][rng.usize(..5)];
    host.inject_matching(1, text, fault.clone());
    format!("{fault:?} {text} on {}", host.index())
}

async fn act(session: &mut Session, book: &mut Book, id: u64, rng: &mut Rng) {
    let (what, result) = match rng.u32(..12) {
        0..=3 => {
            let sql = format!("INSERT INTO t (id, v) VALUES ({id}, 1)");
            let result = session.query_drop(&sql).await;
            book.inserted(id, &result);
            ("insert", result)
        }
        4..=6 => {
            let read = session.query::<i64>("SELECT COUNT(*) FROM t").await;
            ("read", read.map(drop))
        }
        7..=8 if !book.in_transaction => {
            let begun = session.begin().await;
            book.in_transaction = begun.is_ok();
            ("begin", begun)
        }
        9 if !book.in_transaction => {
            let begun = session.begin_read_only().await;
            if begun.is_ok() {
                let _ = session.query_drop("SELECT COUNT(*) FROM t").await;
                let ended = session.commit().await;
                if ended.is_err() {
                    let _ = session.rollback().await;
                }
            }
            ("read only", begun)
        }
        10 => {
            let undone = session.rollback().await;
            // Whatever the answer, the transaction is over.
            book.end(Told::NotDone);
            ("rollback", undone)
        }
        _ => {
            let committed = session.commit().await;
            match &committed {
                Ok(()) => book.end(Told::Done),
                Err(error) if error.failure == Failure::OutcomeUnknown => book.end(Told::Unknown),
                Err(_) => book.end(Told::NotDone),
            }
            ("commit", committed)
        }
    };
    let end = result.as_ref().map_err(|error| error.failure);
    book.history.push(format!("{what} {id}: {end:?}"));
    if let Err(error) = result
        && error.failure == Failure::TransactionLost
    {
        book.end(Told::NotDone);
        let acknowledged = session.rollback().await;
        assert!(acknowledged.is_ok(), "{acknowledged:?}: {:?}", book.history);
    }
}

#[tokio::test]
async fn what_a_session_says_about_its_writes_is_true() {
    let keys = "queriesBeforeRetrySource=1&connectTimeout=5000";
    let seeds = std::env::var("ATTACK_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(12) {
        let rng = &mut Rng::with_seed(seed);
        let bench = Bench::with(3, keys, StatementRouter::default()).await;
        let mut session = bench.fresh().retry_reads(rng.bool());
        let mut book = Book::default();
        for id in 1..=60 {
            if rng.u32(..5) == 0 {
                book.history.push(break_something(&bench, rng).await);
            }
            within("an act", act(&mut session, &mut book, id, rng)).await;
        }
        for host in bench.cluster.hosts() {
            host.clear_faults();
        }
        drop(session);
        book.end(Told::NotDone);
        assert_eq!(bench.in_use(), 0);
        for (id, told) in &book.told {
            let rows = bench.cluster.query(&format!("SELECT v FROM t WHERE id = {id}")).await;
            let is_there = !rows.unwrap().is_empty();
            let is_true = match told {
                Told::Done => is_there,
                Told::NotDone => !is_there,
                Told::Unknown => true,
            };
            assert!(is_true, "seed {seed}, {id}: {told:?}, there: {is_there}: {:#?}", book.history);
        }
        let times = |id: u64| bench.log(&format!("VALUES ({id}, 1)")).len();
        assert!((1..=60).all(|id| times(id) <= 1), "sent once: {:#?}", book.history);
    }
}
