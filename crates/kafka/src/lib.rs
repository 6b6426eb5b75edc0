//! The log on Kafka: one partition of one topic puts the records of several nodes into one order.
//! Each node keeps a local copy of the resulting log in files.
//!
//! # Phases
//! [`open`] queries the topic and creates it if it does not exist. It refuses settings that could
//! lose records, starts a log in an empty topic, and finds the offset that matches the end of the
//! local copy. [`TopicStream`] then reads all later messages in order, and sends this node's
//! proposals. The meaning of the messages is decided elsewhere ([`sequencer::Replica`]).
//!
//! # Messages
//! A message is a [`record::bundle`]: records of one node, without a log index. Sending is
//! idempotent, in order, and acknowledged by every in-sync replica (`acks=all`). A message without
//! acknowledgement within [`TopicOptions::patience`] is reported as failed. It may still arrive.
//!
//! [`Publisher`] is separate from the log: it writes messages for others in transactions.
//!
//! A log in files is migrated to a topic frame by frame ([`export`]). It is migrated back by
//! reading the topic like any node, up to an end marker ([`send_log_moved`]).
//!
//! # Costs and bounds
//! Only `open` blocks. A message is copied once into the client library and once out of it. There
//! are two threads of this crate and several of the library. Messages wait in a bounded inbox;
//! reading pauses while it is full.
#![warn(missing_docs)]

mod address;
mod client;
mod connect;
mod consumer;
mod message_reader;
mod message_sender;
mod migrate;
mod publisher;
mod security;
mod settings;
mod stream;
mod topic;
mod trim;

pub use address::{Address, AddressError};
pub use connect::{ConnectReport, ConnectedLog, MissingLog, TopicOptions, open};
pub use message_reader::{MessageReader, TopicEntry};
pub use message_sender::MessageSender;
pub use migrate::{
    ExportReport, MigrateError, MigrationObserver, MigrationStep, TopicReader, compare, export,
    send_log_moved,
};
pub use publisher::{Publication, PublishError, PublishOptions, Publisher};
pub use security::{Identity, Login, Mechanism, Security, Tls};
pub use settings::{MESSAGE_BYTES_MIN, UnsafeTopic};
pub use stream::TopicStream;
pub use trim::{TrimReport, trim};

use journal::OpenError as CopyError;
use ledger::LogIndex;
use ports::LogError;

/// Why a log on Kafka could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No broker responds, or the response is not from a broker.
    #[error(
        "no broker of {brokers} answered within {seconds} s ({reason}): check the addresses in \
         --log, that the brokers are running, and that they accept connections with the \
         settings in `[kafka]` of the configuration"
    )]
    Unreachable {
        /// The brokers' addresses.
        brokers: String,
        /// The timeout.
        seconds: u64,
        /// The client library's error.
        reason: String,
    },
    /// TLS or authentication failed, on either side.
    #[error(
        "the brokers of {brokers} or this node rejected the other side: {reason}. Check the \
         settings kafka.tls, kafka.ca, kafka.certificate, kafka.user and kafka.password_file, and \
         that the addresses in --log name the right listener"
    )]
    AuthenticationFailed {
        /// The brokers' addresses.
        brokers: String,
        /// The client library's error.
        reason: String,
    },
    /// This build does not support the security settings.
    #[error(
        "this binary was built without TLS and passwords for Kafka: build it with `cargo \
         build --profile dist --features kafka-tls`, which needs OpenSSL's headers \
         (Debian: libssl-dev)"
    )]
    NoTls,
    /// The brokers rejected a request.
    #[error("Kafka request failed: {0}")]
    Brokers(String),
    /// The controllers did not decide in time.
    #[error(
        "the brokers answered, but their controllers made no decision within {seconds} s: more \
         than half of the controllers must be running (in small clusters the brokers are the \
         controllers). Start again when they are. The request may still be carried out: a topic \
         that was created meanwhile is used"
    )]
    Undecided {
        /// The timeout.
        seconds: u64,
    },
    /// The topic does not exist, and a new one would get too few replicas.
    #[error(
        "topic {topic} does not exist, and only {alive} of the {named} brokers in --log answered: \
         a topic created now would keep too few replicas. Nothing was created. Start again when \
         all brokers are running; if the cluster has fewer, name each broker once in --log"
    )]
    TooFew {
        /// The topic.
        topic: String,
        /// Brokers that responded.
        alive: usize,
        /// Brokers in the address.
        named: usize,
    },
    /// The topic's settings could lose records, or are too small.
    #[error(transparent)]
    Unsafe(#[from] UnsafeTopic),
    /// There is no log, and the options forbid starting one.
    #[error("topic {0} does not exist or holds no log")]
    NoLog(String),
    /// A topic that is to be read does not exist.
    #[error("topic {0} does not exist, or this user may not read it")]
    NoTopic(String),
    /// The first messages were deleted.
    #[error(
        "topic {topic} begins at offset {offset}: earlier messages were deleted, and the local \
         copy of the log ends before that offset. Start with an empty data directory and a copy of \
         the log: use --from or `upesi restore`"
    )]
    StartDeleted {
        /// The topic.
        topic: String,
        /// Its first offset.
        offset: i64,
    },
    /// The local copy does not belong to this topic.
    #[error(
        "the data directory holds a log that ends at record {}, but topic {topic} does not contain \
         that record: the directory belongs to another log, or the topic has lost its end. \
         Compare both first; with an empty data directory the node uses the topic as it is",
        .end.0
    )]
    OtherLog {
        /// The topic.
        topic: String,
        /// The last record of the local copy.
        end: LogIndex,
    },
    /// The local copy cannot be used.
    #[error("local copy of the log: {0}")]
    Copy(#[from] CopyError),
    /// The local copy cannot be written.
    #[error("local copy of the log: {0}")]
    Write(#[from] LogError),
}
