//! Embedded clusters, fault proxy and scripted driver to test failover handling.

pub mod real;
pub mod scripted;
