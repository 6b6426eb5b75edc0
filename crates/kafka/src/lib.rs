//! The log on Kafka: one partition of one topic, which is the one total order, and a copy of it in
//! the files of this node.
//!
//! # Phases
//! [`open`] asks the brokers for the topic, makes it if there is none, refuses settings that could
//! lose records, holds the copy against the topic and fetches what the copy lacks. After that
//! [`ports::Log::append`] hands a frame to the client library and returns, and
//! [`ports::Log::sync`] waits until the brokers have acknowledged everything handed over
//! (`acks=all`); only then do the frames go into the copy. So the copy never holds what the topic
//! does not.
//!
//! # What the topic says
//! A message is one frame, byte for byte as in a file log. The log is those frames, in order of
//! offsets, that continue what came before by position and hash chain. A frame that does not was
//! written by a node that did not know the end of the log any more: it is no part of the log, for
//! every reader alike. That makes an append a compare-and-append, without locks or leases: two
//! nodes that write after the same end cannot both be right. The one that was too late finds that
//! its frame has not the offset it expected, reads what came between, and stops for good.
//!
//! # Failure
//! Brokers that do not acknowledge within [`Options::patience`], a message of somebody else, or
//! another writer poison the log, as a failed sync of a file does. Opening it anew finds out what
//! is stored.
//!
//! # Costs and bounds
//! Nothing blocks but `open`, `sync`, and an append behind more than [`FRAMES_MAX`] frames or
//! [`BYTES_MAX`] bytes that nobody synced. A frame is copied twice: into the client library, and
//! for the copy. The library runs a handful of threads of its own; none of ours waits for it but
//! the sequencer's.
#![warn(missing_docs)]

mod address;
mod client;
mod feed;
mod log;
mod settings;
mod topic;

pub use address::{Address, AddressError};
pub use log::{BYTES_MAX, FRAMES_MAX, KafkaLog, Options, Overtaken, Report, open};
pub use settings::{MESSAGE_BYTES_MIN, Unsafe};

use journal::OpenError as CopyError;
use ledger::Position;
use ports::LogError;

/// Why a log on Kafka could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody answers, or not as a broker does.
    #[error(
        "no broker of {brokers} answered within {seconds} s ({reason}): check the addresses in \
         --log, and that the brokers run"
    )]
    Unreachable {
        /// Who was asked.
        brokers: String,
        /// How long.
        seconds: u64,
        /// What the client library says.
        reason: String,
    },
    /// The brokers answered, but not with what was asked for.
    #[error("the brokers did not do as asked: {0}")]
    Brokers(String),
    /// The topic could lose records, or cannot hold them.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// A message that is no frame of this log.
    #[error(
        "topic {topic} holds a message at offset {offset} that is no record of this log \
         ({reason}). Somebody else writes to it: give the log a topic of its own"
    )]
    Foreign {
        /// The topic.
        topic: String,
        /// Where.
        offset: i64,
        /// What it is instead.
        reason: String,
    },
    /// The first messages are gone.
    #[error(
        "topic {topic} begins at offset {offset}: what stood before was deleted, and the copy in \
         the data directory ends before it. Start from the data directory of a node that has it"
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
        end: Position,
    },
    /// The copy cannot be used.
    #[error("the copy of the log: {0}")]
    Copy(#[from] CopyError),
    /// The copy cannot be written.
    #[error("the copy of the log: {0}")]
    Write(#[from] LogError),
}
