//! The pool on real servers, MySQL and MariaDB: what it promises everywhere.

#![allow(clippy::unwrap_used)]

mod suite;

use pool_tests::real::{self, MariaDb, MySqlCluster};
use suite::{cancelled, fairness, killed, read_only, silence, transactions};

/// Rounds of tests that repeat themselves: as promised on MySQL, fewer on MariaDB.
const MYSQL_ROUNDS: usize = 1000;
const MARIADB_ROUNDS: usize = 200;

macro_rules! on_both {
    ($($(#[$attribute:meta])* $name:ident: |$site:ident, $rounds:ident| $work:expr;)*) => {
        mod mysql {
            use super::*;
            $($(#[$attribute])* async fn $name() {
                if !real::mysql_available() {
                    return;
                }
                let _turn = real::exclusive().await;
                let cluster = MySqlCluster::start(2).await.unwrap();
                let ($site, $rounds) = (&cluster, MYSQL_ROUNDS);
                $work.await;
            })*
        }

        mod mariadb {
            use super::*;
            $($(#[$attribute])* async fn $name() {
                if !real::mariadb_available() {
                    return;
                }
                let _turn = real::exclusive().await;
                let cluster = MariaDb::start_with_replicas(2).await.unwrap();
                let ($site, $rounds) = (&cluster, MARIADB_ROUNDS);
                $work.await;
            })*
        }
    };
}

on_both! {
    #[tokio::test]
    nobody_sees_the_answer_of_an_abandoned_statement: |site, rounds|
        cancelled::nobody_sees_the_answer_of_an_abandoned_statement(site, rounds);

    #[tokio::test]
    an_abandoned_transaction_frees_its_locks_at_once_and_the_next_lease_starts_clean: |site, _rounds|
        async {
            transactions::an_abandoned_transaction_frees_its_locks_at_once(site).await;
            transactions::the_next_lease_starts_clean(site).await;
        };

    #[tokio::test]
    a_stalled_link_or_a_frozen_source_holds_up_nobody: |site, _rounds| async {
        silence::a_stalled_link_holds_up_nobody(site).await;
        silence::a_frozen_source_holds_up_nobody(site).await;
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    reads_go_on_while_the_source_is_dead_and_the_pool_heals_itself: |site, _rounds|
        killed::reads_go_on_and_the_pool_heals_itself(site);

    #[tokio::test]
    a_refused_write_demotes_the_host_at_once: |site, _rounds|
        read_only::a_refused_write_demotes_the_host_at_once(site);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    a_switch_over_moves_all_writes: |site, _rounds|
        read_only::a_switch_over_moves_all_writes(site);
}

#[tokio::test]
async fn mysql_the_oldest_waiter_is_always_next() {
    if !real::mysql_available() {
        return;
    }
    let _turn = real::exclusive().await;
    let cluster = MySqlCluster::start(0).await.unwrap();
    fairness::the_oldest_waiter_is_always_next(&cluster, fairness::soak(30)).await;
}
