//! The same failover suite for our pool, for `bb8`'s and for `deadpool`'s, over both databases.

#![allow(clippy::unwrap_used)]

mod interop_support;

use interop_support::{Kind, OnCluster, OnPair, failover_suite};

failover_suite!(our_pool_on_a_mirrored_pair, Kind::Ours, OnPair);
failover_suite!(our_pool_on_a_mysql_cluster, Kind::Ours, OnCluster);
failover_suite!(bb8_on_a_mirrored_pair, Kind::Bb8, OnPair);
failover_suite!(bb8_on_a_mysql_cluster, Kind::Bb8, OnCluster);
failover_suite!(deadpool_on_a_mirrored_pair, Kind::Deadpool, OnPair);
failover_suite!(deadpool_on_a_mysql_cluster, Kind::Deadpool, OnCluster);
