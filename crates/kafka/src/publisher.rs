//! Publishes messages in transactions. Each transaction also stores a position, so that a later
//! publisher continues after exactly the messages that readers of committed records see.
//!
//! The position is a record in a topic of its own: one partition, compacted by key. Deletion of
//! old messages by the brokers therefore does not lose it, and one partition is read back.
//!
//! A publisher fences earlier ones with the same transactional id. After an error other than
//! [`PublishError::Fenced`] the publisher is dropped and connected again: connecting ends the open
//! transaction and reads the position, whether or not the last commit arrived.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use crate::client::{self, PARTITION};
use crate::consumer::{POLL, TopicConsumer, is_transient};
use crate::topic::administer;
use crate::{Address, OpenError, Security, TopicOptions};

/// One attempt of a request that can be continued.
const STEP: Duration = Duration::from_millis(500);
/// Interval between two checks whether the queue has room or another transaction has ended.
const PAUSE: Duration = Duration::from_millis(5);
/// Interval between two checks whether all messages are acknowledged.
const DRAIN_PAUSE: Duration = Duration::from_micros(200);
/// Number of records in the first step of the search for the position. Each further step has ten
/// times as many.
const POSITIONS_READ: i64 = 1_000;
/// Settings of the topic of positions: compaction keeps the last one of each key.
const POSITION_SETTINGS: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.ms", "3600000"), ("segment.bytes", "16777216")];

/// Settings of a [`Publisher`].
#[derive(Clone, Debug)]
pub struct PublishOptions {
    /// `host:port,host:port`.
    pub brokers: String,
    /// How this client and the brokers authenticate each other.
    pub security: Security,
    /// Publishers with the same id replace each other. It is also the client id.
    pub transactional_id: String,
    /// Topics that are created if they do not exist, with the brokers' defaults.
    pub topics: Vec<String>,
    /// The topic of the position.
    pub position_topic: String,
    /// The key of the position in that topic.
    pub position_key: String,
    /// Maximum duration of one request.
    pub patience: Duration,
}

/// A message to publish.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Messages with the same key stay in order. Without one they may go to any partition.
    pub key: Option<&'a str>,
    /// The content.
    pub value: &'a [u8],
    /// The header `content-type`.
    pub content_type: &'a str,
}

/// Why publishing stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Another publisher has the transactional id now, or the transaction took too long.
    #[error("fenced by the brokers: {0}")]
    Fenced(String),
    /// The brokers did not respond or refused a request. Connecting again may help.
    #[error("{0}")]
    Failed(String),
    /// The caller has cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl From<OpenError> for PublishError {
    fn from(error: OpenError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A connected publisher, and the only one with its transactional id.
pub struct Publisher {
    producer: ThreadedProducer<Reports>,
    options: PublishOptions,
}

/// Errors that the client library reports.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<String>>);

impl Reports {
    fn set(&self, error: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Reports {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.set(if reason.is_empty() { error.to_string() } else { reason.to_owned() });
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let purged = [RDKafkaErrorCode::PurgeQueue, RDKafkaErrorCode::PurgeInflight].map(Some);
            // Purged messages only follow from an earlier error.
            if !purged.contains(&error.rdkafka_error_code()) {
                self.set(format!("topic {}: {error}", message.topic()));
            }
        }
    }
}

impl Publisher {
    /// Connects, creates missing topics, fences earlier publishers and reads the position. Blocks.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn connect(
        options: &PublishOptions,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(Self, Option<Vec<u8>>), PublishError> {
        options.security.check()?;
        let (address, client) = options.client();
        create_missing(options, (&address, &client))?;
        let producer = client::config(&address, &client)
            .set("transactional.id", &options.transactional_id)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "1")
            // As clients in Java and of the reference choose partitions.
            .set("partitioner", "murmur2_random")
            .set("transaction.timeout.ms", (2 * options.patience.as_millis()).to_string())
            .set("message.timeout.ms", options.patience.as_millis().to_string())
            .set("topic.metadata.propagation.max.ms", "5000")
            .set("queue.buffering.max.kbytes", "32768")
            .create_with_context(Reports::default())
            .map_err(|error| PublishError::Failed(error.to_string()))?;
        let publisher = Self { producer, options: options.clone() };
        publisher.repeat(is_cancelled, |step| publisher.producer.init_transactions(step))?;
        let position = options.stored_position()?;
        Ok((publisher, position))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn begin(&self) -> Result<(), PublishError> {
        self.producer.begin_transaction().map_err(|error| self.failed(&error))
    }

    /// Adds a message to the transaction. Waits while the queue is full.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn send(&self, message: &Publication<'_>) -> Result<(), PublishError> {
        let header = Header { key: "content-type", value: Some(message.content_type) };
        let headers = OwnedHeaders::new_with_capacity(1).insert(header);
        let record = BaseRecord::to(message.topic).payload(message.value).headers(headers);
        self.enqueue(match message.key {
            Some(key) => record.key(key),
            None => record,
        })
    }

    /// Stores a position and commits the transaction.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn commit(
        &self,
        position: &[u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), PublishError> {
        let record = BaseRecord::to(&self.options.position_topic).partition(PARTITION);
        self.enqueue(record.key(&*self.options.position_key).payload(position))?;
        self.drain();
        self.repeat(is_cancelled, |step| self.producer.commit_transaction(step))
    }

    /// Waits until no message is in flight. A flush by the client library would take 100 ms at
    /// least. A message that fails is in flight no longer, and the commit reports it.
    fn drain(&self) {
        let deadline = Instant::now() + self.options.patience;
        while 0 < self.producer.in_flight_count() && Instant::now() < deadline {
            std::thread::sleep(DRAIN_PAUSE);
        }
    }

    fn enqueue(&self, record: BaseRecord<'_, str, [u8]>) -> Result<(), PublishError> {
        let deadline = Instant::now() + self.options.patience;
        let mut next = record;
        loop {
            match self.producer.send(next) {
                Ok(()) => return Ok(()),
                Err((error, record)) => {
                    let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !is_full || deadline < Instant::now() {
                        return Err(self.failed(&error));
                    }
                    next = record;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Repeats a request of the transaction until it succeeds, fails or takes too long.
    fn repeat(
        &self,
        is_cancelled: &dyn Fn() -> bool,
        request: impl Fn(Duration) -> KafkaResult<()>,
    ) -> Result<(), PublishError> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            let error = match request(STEP) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_retriable =
                matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !is_retriable || deadline < Instant::now() {
                return Err(self.failed(&error));
            }
            if is_cancelled() {
                return Err(PublishError::Cancelled);
            }
        }
    }

    /// The error, with the last one that the library reported by itself.
    fn failed(&self, error: &KafkaError) -> PublishError {
        let fatal = self.producer.client().fatal_error().map(|(code, _)| code);
        let codes = [fatal, error.rdkafka_error_code(), transaction_code(error)];
        let reported = self.producer.context().take();
        let text = match reported.is_empty() {
            true => error.to_string(),
            false => format!("{error} ({reported})"),
        };
        match codes.into_iter().flatten().any(is_fencing) {
            true => PublishError::Fenced(text),
            false => PublishError::Failed(text),
        }
    }
}

fn transaction_code(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::Transaction(error) => Some(error.code()),
        _ => None,
    }
}

const fn is_fencing(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Fenced
            | RDKafkaErrorCode::ProducerFenced
            | RDKafkaErrorCode::InvalidProducerEpoch
    )
}

impl PublishOptions {
    /// The position that the last committed transaction has stored. Messages of others in the topic
    /// are ignored. Blocks.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn stored_position(&self) -> Result<Option<Vec<u8>>, PublishError> {
        let (address, client) = self.client();
        let (all, _) = client::consumer(&address, &client).map_err(failed)?;
        let range = TopicConsumer::new(all, &address, self.patience).range()?;
        let committed = client::consumer_of_committed(&address, &client).map_err(failed)?;
        let committed = TopicConsumer::new(committed, &address, self.patience);
        let deadline = Instant::now() + self.patience;
        // A transaction of another program that began earlier hides later records.
        while committed.range()?.end < range.end {
            if deadline < Instant::now() {
                return Err(PublishError::Failed(format!(
                    "topic {}: another program has an open transaction",
                    self.position_topic
                )));
            }
            std::thread::sleep(PAUSE);
        }
        let mut count = POSITIONS_READ;
        loop {
            let from = range.start.max(range.end - count);
            let found = self.last_of(&committed, from)?;
            if found.is_some() || from == range.start {
                return Ok(found);
            }
            count = count.saturating_mul(10);
        }
    }

    /// The last position from an offset on.
    fn last_of(&self, feed: &TopicConsumer, from: i64) -> Result<Option<Vec<u8>>, PublishError> {
        feed.seek(from)?;
        let (mut found, mut since) = (None, Instant::now());
        loop {
            match feed.consumer().poll(POLL) {
                Some(Ok(message)) => {
                    since = Instant::now();
                    if message.key() == Some(self.position_key.as_bytes()) {
                        found = message.payload().map(<[u8]>::to_vec);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(found),
                Some(Err(error)) if !is_transient(&error) => return Err(failed(error)),
                Some(Err(_)) | None => {}
            }
            if self.patience < since.elapsed() {
                return Err(PublishError::Failed(format!(
                    "topic {}: no response to a read of the position",
                    self.position_topic
                )));
            }
        }
    }

    /// Address and options of the clients.
    fn client(&self) -> (Address, TopicOptions) {
        let address = Address { brokers: self.brokers.clone(), topic: self.position_topic.clone() };
        let client = TopicOptions {
            node: self.transactional_id.clone(),
            patience: self.patience,
            copy: journal::LogOptions::default(),
            security: self.security.clone(),
        };
        (address, client)
    }
}

fn failed(error: KafkaError) -> PublishError {
    PublishError::Failed(error.to_string())
}

/// Creates the topics that do not exist.
fn create_missing(
    options: &PublishOptions,
    (address, client): (&Address, &TopicOptions),
) -> Result<(), PublishError> {
    let (consumer, reported) = client::first_consumer(address, client)?;
    let metadata = consumer.fetch_metadata(None, client.patience).map_err(|error| {
        let reason = reported.last();
        PublishError::Failed(format!("no broker of {} answered: {error} {reason}", address.brokers))
    })?;
    let exists = |topic: &str| metadata.topics().iter().any(|known| known.name() == topic);
    // Both are the brokers' defaults.
    let topic = |name, partitions| NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
    let position = POSITION_SETTINGS
        .iter()
        .fold(topic(&options.position_topic, 1), |topic, (name, value)| topic.set(name, value));
    let others = options.topics.iter().map(|name| topic(name, -1));
    let missing: Vec<NewTopic<'_>> =
        others.chain([position]).filter(|topic| !exists(topic.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let results = administer(address, client, async |admin, asked| {
        admin.create_topics(&missing, asked).await
    })?;
    for result in results {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, error)) => {
                return Err(PublishError::Failed(format!("topic {topic} not created: {error}")));
            }
        }
    }
    Ok(())
}
