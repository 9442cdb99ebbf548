//! Abandoned statements.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use mysql_async::prelude::Queryable;
use pool_mysql::Lease;
use tokio::time::timeout;

use super::site::Site;
use super::{assert_whole, builder, ms, soon};

const TASKS: usize = 8;

/// In each round a caller abandons a statement somewhere between its first byte and its answer, and a
/// caller after it has to get the answer to its own question.
pub async fn nobody_sees_the_answer_of_an_abandoned_statement(site: &impl Site, rounds: usize) {
    let pool = builder(site).max_size(TASKS).build().unwrap();
    let next = AtomicUsize::new(0);
    let (abandoned, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || async {
        loop {
            let round = next.fetch_add(1, Relaxed);
            if round >= rounds {
                return;
            }
            let mut lease = pool.get().await.unwrap();
            let patience = ms(1).mul_f64(14.0 * fastrand::f64());
            match timeout(patience, ask(&mut lease, round)).await {
                Ok(number) => {
                    assert_eq!(number, Some(round));
                    answered.fetch_add(1, Relaxed);
                }
                Err(_) => {
                    abandoned.fetch_add(1, Relaxed);
                }
            }
            drop(lease);
            let mine = rounds + round;
            let mut lease = pool.get().await.unwrap();
            let seen: Option<usize> = match round % 2 {
                0 => lease.query_first(format!("SELECT {mine}")).await.unwrap(),
                _ => lease.exec_first("SELECT CAST(? AS SIGNED)", (mine,)).await.unwrap(),
            };
            assert_eq!(seen, Some(mine), "the answer to another question");
        }
    };
    let all = join_all((0..TASKS).map(|_| work()));
    tokio::time::timeout(ms(60_000), all).await.expect("rounds take too long");
    let (abandoned, answered) = (abandoned.into_inner(), answered.into_inner());
    println!("{abandoned} statements abandoned, {answered} answered");
    assert!(abandoned >= rounds / 4, "{abandoned} of {rounds}");
    soon("a whole pool", assert_whole(&pool, &site.name(0))).await;
}

/// A statement of about 10 ms that knows its own number, in one of the ways a caller can send it.
async fn ask(lease: &mut Lease, number: usize) -> Option<usize> {
    type Row = Option<(usize, usize)>;
    match number % 4 {
        0 | 1 => {
            let sql = format!("SELECT {number}, SLEEP(0.01)");
            let row: Row = lease.query_first(sql).await.unwrap();
            row.map(|row| row.0)
        }
        2 => {
            // Never the same text, so that the PREPARE is abandoned as well.
            let sql = format!("SELECT CAST(? AS SIGNED), SLEEP(0.01) + {number}");
            let row: Row = lease.exec_first(sql, (number,)).await.unwrap();
            row.map(|row| row.0)
        }
        _ => {
            let part = format!("SELECT {number}, SLEEP(0.002)");
            let sql = [part.as_str(); 5].join(" UNION ALL ");
            let mut rows = lease.query_stream::<(usize, usize), _>(sql).await.unwrap();
            // The other rows stay unread.
            let row = rows.try_next().await.unwrap();
            row.map(|row| row.0)
        }
    }
}
