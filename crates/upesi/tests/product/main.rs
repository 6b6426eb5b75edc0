//! Product tests: the real binary, with a separate directory, real sockets and real signals.
//!
//! Every test starts its own switch on free ports and stops it. No test sleeps for a fixed time: it
//! waits for a callback, for a figure of the admin API, or for the end of a process, each with a
//! deadline.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]

mod adapter;
mod admin;
#[cfg(feature = "real-receivers")]
mod alerts;
mod apply;
mod archive;
mod audit;
mod bench;
mod bulk;
mod caller_tokens;
mod cold;
mod demo;
mod deployment;
mod disk_operations;
mod documents;
mod edge;
mod encryption;
mod enrolment;
mod erasure;
mod events;
#[cfg(feature = "real-brokers")]
mod events_kafka;
mod faults;
mod four_eyes;
mod helper_threads;
mod http2_calls;
mod init;
mod interchange_fees;
mod isolation;
#[cfg(feature = "real-brokers")]
mod kafka;
#[cfg(feature = "real-brokers")]
mod kafka_clocks;
#[cfg(feature = "real-brokers")]
mod kafka_demo;
#[cfg(feature = "real-brokers")]
mod kafka_erasure;
#[cfg(feature = "real-brokers")]
mod kafka_faults;
#[cfg(feature = "real-brokers")]
mod kafka_matrix;
#[cfg(feature = "real-brokers")]
mod kafka_moving;
#[cfg(all(feature = "real-brokers", feature = "kafka-tls"))]
mod kafka_security;
#[cfg(feature = "real-brokers")]
mod kafka_shutdown;
#[cfg(feature = "real-brokers")]
mod kafka_trim;
#[cfg(all(feature = "real-brokers", feature = "rehearsed-rules"))]
mod kafka_upgrade;
mod kill;
mod liquidity;
mod logging;
mod long_history;
mod lookup_and_quotes;
mod many_participants;
mod mojaloop_metrics;
#[cfg(feature = "real-prometheus")]
mod monitoring;
#[cfg(feature = "real-object-stores")]
mod object_stores;
mod offline;
mod older_proposals;
#[cfg(feature = "real-receivers")]
mod openid;
mod operate;
mod operations;
mod operators;
mod oracle_api;
mod oracles;
mod participant_erasure;
mod participant_keys;
mod participant_metrics;
mod parties;
mod party_erasure;
mod preload;
mod privacy;
mod provider_tokens;
mod reconcile;
mod requests_to_pay;
mod settlement;
mod settlement_commands;
mod signatures;
mod signed_log;
mod snapshots;
mod statements;
mod support;
mod tls_listeners;
#[cfg(feature = "real-collector")]
mod traces;
mod transfers;
mod watchdog;
