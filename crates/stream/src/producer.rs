//! The producer: acknowledged and pipelined sends with a bounded queue.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::{Semaphore, oneshot};

use crate::StreamError;
use crate::lag_limit::LagMonitor;
use crate::settings::ProducerSettings;

/// Timeout of the first request to the brokers.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a message is offered again to a library that is full in spite of our bound.
const ROOM: Duration = Duration::from_millis(1);
/// Interval between two checks whether a producer that is dropped has sent its messages.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The topic.
    pub topic: String,
    /// The partition. `None`: that of the key, or any.
    pub partition: Option<i32>,
    /// The key. Messages with the same key go to the same partition, in order.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Vec<u8>,
    /// Headers, such as `traceparent`.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// A message without key and headers.
    pub fn to(topic: &str, value: Vec<u8>) -> Self {
        let topic = topic.to_owned();
        Self { topic, partition: None, key: None, value, headers: Vec::new() }
    }

    /// The same with a key.
    pub fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// The place of a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Why a message was not stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SendError {
    /// The client library or a broker refused it, or did not answer within `delivery_timeout`.
    #[error("the message was not delivered: {0}")]
    Failed(KafkaError),
    /// The group of [`crate::LagLimit`] has too great a lag. Nothing was sent.
    #[error("topic {topic} has a lag of {lag}, more than {lag_max}")]
    Lagging {
        /// The topic.
        topic: String,
        /// The lag as last measured.
        lag: i64,
        /// The limit.
        lag_max: i64,
    },
}

/// Sends messages. It can be shared between tasks.
///
/// Dropping it sends the messages in its queue first. This blocks the thread until the brokers
/// have answered, for up to `delivery_timeout`. [`Producer::flush`] does not block, and reports
/// failures.
pub struct Producer {
    client: ThreadedProducer<Deliveries>,
    queue_max: u32,
    /// How long dropping it waits.
    drain: Duration,
    lag: Option<LagMonitor>,
}

/// Receives the client library's reports about messages.
struct Deliveries {
    /// Room for messages without acknowledgement.
    room: Arc<Semaphore>,
    /// The first failure of a pipelined message that was not reported yet.
    failure: Mutex<Option<SendError>>,
}

type Answer = Option<oneshot::Sender<Result<Acknowledged, SendError>>>;

impl ClientContext for Deliveries {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Answer>;

    fn delivery(&self, result: &DeliveryResult<'_>, answer: Self::DeliveryOpaque) {
        let result = match result {
            Ok(message) => {
                Ok(Acknowledged { partition: message.partition(), offset: message.offset() })
            }
            Err((error, _)) => Err(SendError::Failed(error.clone())),
        };
        match (*answer, result) {
            // A sender that does not wait any more needs no answer.
            (Some(answer), result) => drop(answer.send(result)),
            (None, Err(error)) => drop(self.lock().get_or_insert(error)),
            (None, Ok(_)) => {}
        }
        self.room.add_permits(1);
    }
}

impl Deliveries {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SendError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producer {
    /// Connects to the brokers. Blocks for up to 10 s.
    ///
    /// # Errors
    /// [`StreamError::Settings`] and [`StreamError::Unreachable`].
    pub fn connect(settings: ProducerSettings) -> Result<Self, StreamError> {
        let queue_max = u32::try_from(settings.queue_max).ok().filter(|max| 0 < *max);
        let queue_max = queue_max.ok_or_else(|| {
            StreamError::Settings("queue_max must be from 1 to 4294967295".to_owned())
        })?;
        let room = Arc::new(Semaphore::new(settings.queue_max));
        let deliveries = Deliveries { room, failure: Mutex::new(None) };
        let client = settings.client_config().create_with_context(deliveries);
        let client: ThreadedProducer<Deliveries> = client.map_err(crate::consumer::refused)?;
        let metadata = client.client().fetch_metadata(None, FIRST_REQUEST_TIMEOUT);
        metadata.map_err(StreamError::Unreachable)?;
        let limit = settings.lag_limit.as_ref();
        let lag = limit.map(|limit| LagMonitor::start(&settings, limit)).transpose()?;
        Ok(Self { client, queue_max, drain: settings.delivery_timeout, lag })
    }

    /// The same for a caller that sends a message again if it was not acknowledged: dropping it
    /// does not wait.
    pub(crate) fn without_drain(self) -> Self {
        let mut producer = self;
        producer.drain = Duration::ZERO;
        producer
    }

    /// Sends a message and waits until the brokers have stored it.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(&self, record: &Record) -> Result<Acknowledged, SendError> {
        let (sender, answer) = oneshot::channel();
        self.queue(record, Some(sender)).await?;
        answer.await.expect("each message gets an answer")
    }

    /// Gives a message to the queue, and waits only while it is full. The messages of a key are
    /// stored in order.
    ///
    /// # Errors
    /// The first failure of an earlier message that was not reported yet. This message is not
    /// sent then.
    pub async fn enqueue(&self, record: &Record) -> Result<(), SendError> {
        if let Some(failure) = self.client.context().lock().take() {
            return Err(failure);
        }
        self.queue(record, None).await
    }

    /// Waits until the brokers have answered for every message.
    ///
    /// # Errors
    /// The first failure of a message that was not reported yet.
    pub async fn flush(&self) -> Result<(), SendError> {
        let room = Arc::clone(&self.client.context().room);
        let all = room.acquire_many(self.queue_max).await;
        drop(all.expect("the semaphore is never closed"));
        self.client.context().lock().take().map_or(Ok(()), Err)
    }

    async fn queue(&self, record: &Record, answer: Answer) -> Result<(), SendError> {
        self.lag.as_ref().map_or(Ok(()), LagMonitor::check)?;
        let room = Arc::clone(&self.client.context().room);
        let permit = match room.try_acquire() {
            Ok(permit) => permit,
            Err(_) => room.acquire().await.expect("the semaphore is never closed"),
        };
        let mut message = base_record(record, answer);
        loop {
            match self.client.send(message) {
                Ok(()) => {
                    // It comes back with the answer.
                    permit.forget();
                    return Ok(());
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) => {
                    message = unsent;
                    tokio::time::sleep(ROOM).await;
                }
                Err((error, _)) => return Err(SendError::Failed(error)),
            }
        }
    }
}

impl Drop for Producer {
    /// The client library would discard the messages that are not acknowledged yet.
    fn drop(&mut self) {
        let start = Instant::now();
        while 0 < self.client.in_flight_count() && start.elapsed() < self.drain {
            std::thread::sleep(DRAIN_PAUSE);
        }
    }
}

fn base_record(record: &Record, answer: Answer) -> BaseRecord<'_, [u8], [u8], Box<Answer>> {
    let mut message = BaseRecord::with_opaque_to(&record.topic, Box::new(answer))
        .payload(record.value.as_slice());
    if let Some(key) = &record.key {
        message = message.key(key.as_slice());
    }
    if let Some(partition) = record.partition {
        message = message.partition(partition);
    }
    if record.headers.is_empty() {
        return message;
    }
    let headers = OwnedHeaders::new_with_capacity(record.headers.len());
    message.headers(
        record.headers.iter().fold(headers, |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        }),
    )
}
