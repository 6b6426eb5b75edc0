//! The log on Kafka: one partition of one topic is the one order in which several nodes are heard,
//! and each of them keeps a copy of the log that follows from it in its files.
//!
//! # Phases
//! [`open`] asks the brokers for the topic, makes it if there is none, refuses settings that could
//! lose records, begins a log in it if it holds none, and finds where in it the copy ends.
//! [`Stream`] then reads everything behind that, in order, and sends what this node proposes.
//! What the messages mean is not decided here ([`sequencer::Replica`]).
//!
//! # What a message is
//! A [`record::bundle`]: records of one node, without a place in the log. Sending is idempotent
//! and acknowledged by every replica in sync (`acks=all`), and in order; a message that is not
//! acknowledged within [`Options::patience`] is given up and reported, and may arrive all the same.
//!
//! A log that was in files is moved here frame by frame ([`export`]), and back by reading it like
//! any node, behind a word that it has left ([`say_left`]).
//!
//! # Costs and bounds
//! Nothing blocks but `open`. A message is copied once into the client library and once out of it.
//! Two threads of ours and a handful of the library's; what is read waits in a bounded inbox, and
//! reading waits for it.
#![warn(missing_docs)]

mod address;
mod client;
mod connect;
mod consumer;
mod migrate;
mod security;
mod settings;
mod stream;
mod topic;
mod trim;

pub use address::{Address, AddressError};
pub use connect::{ConnectReport, ConnectedLog, Missing, Options, open};
pub use migrate::{
    Exported, MigrateError, MigrationObserver, MigrationStep, Reader, compare, export, say_left,
};
pub use security::{Identity, Login, Mechanism, Security, Tls};
pub use settings::{MESSAGE_BYTES_MIN, UnsafeTopic};
pub use stream::Stream;
pub use trim::{Trim, trim};

use journal::OpenError as CopyError;
use ledger::LogIndex;
use ports::LogError;

/// Why a log on Kafka could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody answers, or not as a broker does.
    #[error(
        "no broker of {brokers} answered within {seconds} s ({reason}): check the addresses in \
         --log, and that the brokers run and take connections as `[kafka]` of the configuration \
         says"
    )]
    Unreachable {
        /// Who was asked.
        brokers: String,
        /// How long.
        seconds: u64,
        /// What the client library says.
        reason: String,
    },
    /// They will have nothing to do with this client, or it with them.
    #[error(
        "the brokers of {brokers} and this node do not trust each other: {reason}. Check the \
         settings kafka.tls, kafka.ca, kafka.certificate, kafka.user and kafka.password_file, and \
         which listener the addresses in --log are of"
    )]
    Distrusted {
        /// Who was asked.
        brokers: String,
        /// What the client library says.
        reason: String,
    },
    /// This build cannot do what is asked for.
    #[error(
        "this binary was built without TLS and passwords towards brokers: build it with `cargo \
         build --profile dist --features kafka-tls`, which needs OpenSSL's headers \
         (Debian: libssl-dev)"
    )]
    NoTls,
    /// The brokers answered, but not with what was asked for.
    #[error("the brokers did not do as asked: {0}")]
    Brokers(String),
    /// Nothing was decided in time.
    #[error(
        "the brokers answered, and decided nothing within {seconds} s: of their controllers, which \
         in small clusters are the brokers themselves, more than half must be there. Start again \
         when they are. What was asked of them may be done by then: a topic that was made is found"
    )]
    Undecided {
        /// How long was waited.
        seconds: u64,
    },
    /// The topic is to be made, and would not get the replicas that it needs.
    #[error(
        "topic {topic} is not there, and {alive} of the {named} brokers that --log names answered: \
         a topic that is made now would keep too few replicas. Nothing was made; start again when \
         all of them are there. If there are not so many, name each once in --log"
    )]
    TooFew {
        /// The topic.
        topic: String,
        /// Brokers that are there.
        alive: usize,
        /// Brokers that should be.
        named: usize,
    },
    /// The topic could lose records, or cannot hold them.
    #[error(transparent)]
    Unsafe(#[from] UnsafeTopic),
    /// There is no log, and none is to be begun.
    #[error("topic {0} is not there, or holds no log")]
    NoLog(String),
    /// The first messages are gone.
    #[error(
        "topic {topic} begins at offset {offset}: what stood before was deleted, and the copy in \
         the data directory ends before it. Start with an empty directory and a copy of the log: \
         --from, or `upesi restore`"
    )]
    Beheaded {
        /// The topic.
        topic: String,
        /// Its first offset.
        offset: i64,
    },
    /// The copy is not one of this topic.
    #[error(
        "the data directory holds a log that ends at record {}, and topic {topic} does not hold \
         that record: it is a copy of another log, or the topic has lost its end. Compare before \
         you choose: with an empty data directory the topic is taken as it is",
        .end.0
    )]
    Another {
        /// The topic.
        topic: String,
        /// Where the copy ends.
        end: LogIndex,
    },
    /// The copy cannot be used.
    #[error("the copy of the log: {0}")]
    Copy(#[from] CopyError),
    /// The copy cannot be written.
    #[error("the copy of the log: {0}")]
    Write(#[from] LogError),
}
