//! Consumers and producers of Kafka topics.
//!
//! A [`Consumer`] gives messages to a handler, in order per partition or key, commits only what is
//! done, retries, and moves messages that cannot be handled to a dead-letter topic. Everything that
//! waits is bounded. Its [`Health`] shows whether it makes progress.
//!
//! A [`Producer`] sends messages that every replica in sync acknowledges. If its queue is full,
//! sending waits.
//!
//! ```no_run
//! use stream::{Consumer, ConsumerSettings, Poison};
//!
//! #[derive(serde::Deserialize)]
//! struct Transfer {
//!     #[serde(rename = "transferId")]
//!     id: String,
//! }
//!
//! # async fn example() -> Result<(), stream::StreamError> {
//! let settings = ConsumerSettings {
//!     poison: Poison::DeadLetters("transfers-dead".to_owned()),
//!     ..ConsumerSettings::new("127.0.0.1:9092", "reporting", &["transfers"])
//! };
//! let consumer = Consumer::connect(settings)?;
//! let handler = async |batch: &[stream::ReceivedMessage<'_>]| {
//!     for message in batch {
//!         let transfer: Transfer = message.json()?;
//!         println!("{}", transfer.id);
//!     }
//!     Ok(())
//! };
//! consumer.run(handler).await?;
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

mod assignment;
mod consumer;
mod context;
mod handler;
mod health;
mod lag_limit;
mod lanes;
mod message;
mod metrics;
mod offsets;
mod producer;
mod settings;
mod topics;
mod trace_context;
mod work;

pub use consumer::{Consumer, Control};
pub use health::{Counts, Health};
pub use lag_limit::LagLimit;
pub use message::{DecodeError, ReceivedMessage};
pub use producer::{Acknowledged, Producer, Record, SendError};
pub use settings::{
    Commit, ConsumerSettings, Mode, Order, Poison, ProducerSettings, Properties, Retries,
};
pub use topics::create_topic;
pub use trace_context::TraceContext;

use rdkafka::error::KafkaError;

/// Why a handler did not process its messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// A later attempt may succeed.
    #[error("{0}")]
    Failed(String),
    /// No attempt can succeed.
    #[error("{0}")]
    Poison(String),
}

/// Why a consumer or producer cannot start, or has ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// A setting cannot be used.
    #[error("{0}")]
    Settings(String),
    /// No broker answers.
    #[error("no broker answered ({0}): check the addresses and the security properties")]
    Unreachable(KafkaError),
    /// A topic does not exist.
    #[error("topic {0} does not exist: create it with as many partitions as it will need")]
    NoTopic(String),
    /// A message cannot be handled, and there is no dead-letter topic.
    #[error("message {offset} of {topic}[{partition}] failed {attempts} times: {reason}")]
    Poison {
        /// Its topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
        /// How often the handler was called.
        attempts: u32,
        /// The handler's last error.
        reason: String,
    },
    /// The client library does not work any more.
    #[error("the Kafka client failed: {0}")]
    Client(KafkaError),
}
