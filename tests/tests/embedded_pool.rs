//! The pool on embedded servers: what it promises everywhere.

#![allow(clippy::unwrap_used)]

mod suite;

use pool_tests::mysql::Cluster;
use pool_tests::real;
use suite::fairness::soak;
use tokio::sync::MutexGuard;

/// Times are measured, so the tests take turns.
async fn cluster() -> (Cluster, MutexGuard<'static, ()>) {
    let turn = real::exclusive().await;
    (Cluster::start(3).await.unwrap(), turn)
}

#[tokio::test]
async fn nobody_sees_the_answer_of_an_abandoned_statement() {
    suite::cancelled::nobody_sees_the_answer_of_an_abandoned_statement(&cluster().await.0, 200)
        .await;
}

#[tokio::test]
async fn an_abandoned_transaction_frees_its_locks_at_once() {
    suite::transactions::an_abandoned_transaction_frees_its_locks_at_once(&cluster().await.0).await;
}

#[tokio::test]
async fn the_next_lease_starts_clean() {
    suite::transactions::the_next_lease_starts_clean(&cluster().await.0).await;
}

#[tokio::test]
async fn a_stalled_link_holds_up_nobody() {
    suite::silence::a_stalled_link_holds_up_nobody(&cluster().await.0).await;
}

#[tokio::test]
async fn a_frozen_source_holds_up_nobody() {
    suite::silence::a_frozen_source_holds_up_nobody(&cluster().await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_while_the_source_is_dead_and_the_pool_heals_itself() {
    suite::killed::reads_go_on_and_the_pool_heals_itself(&cluster().await.0).await;
}

#[tokio::test]
async fn a_refused_write_demotes_the_host_at_once() {
    suite::read_only::a_refused_write_demotes_the_host_at_once(&cluster().await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_over_moves_all_writes() {
    suite::read_only::a_switch_over_moves_all_writes(&cluster().await.0).await;
}

#[tokio::test]
async fn the_oldest_waiter_is_always_next() {
    suite::fairness::the_oldest_waiter_is_always_next(&cluster().await.0, soak(5)).await;
}
