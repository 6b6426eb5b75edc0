//! Configures the client library, and keeps its last errors for error messages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ports::Arrival;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use crate::connect::broker_error;
use crate::consumer::{DELETED, is_deleted};
use crate::settings::MESSAGE_BYTES_MIN;
use crate::{Address, OpenError, TopicOptions};

/// The log's only partition.
pub(crate) const PARTITION: i32 = 0;

/// Interval between two checks whether the send queue has room.
const ROOM: Duration = Duration::from_millis(5);
/// Timeout of one query for the topic's leader.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// Settings of every client.
pub(crate) fn config(address: &Address, options: &TopicOptions) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &address.brokers)
        .set("client.id", format!("upesi-{}", options.node))
        .set("allow.auto.create.topics", "false")
        .set("message.max.bytes", MESSAGE_BYTES_MIN.to_string())
        // Messages of other clients of any allowed size must be readable, so that they can be
        // skipped.
        .set("receive.message.max.bytes", i32::MAX.to_string())
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        // A stalled broker is treated like a dead one.
        .set("socket.timeout.ms", "4000")
        .set("socket.connection.setup.timeout.ms", "3000")
        // A leader that moved is looked up at once, and again soon.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .set("retry.backoff.ms", "20")
        .set("retry.backoff.max.ms", "200")
        .set("topic.metadata.refresh.fast.interval.ms", "50")
        .set_log_level(RDKafkaLogLevel::Critical);
    options.security.apply(&mut config);
    config
}

/// The consumer that opens a topic, if this build supports its settings.
pub(crate) fn first_consumer(
    address: &Address,
    options: &TopicOptions,
) -> Result<(BaseConsumer<ErrorLog>, ErrorLog), OpenError> {
    match options.security.is_missing() {
        true => Err(OpenError::NoTls),
        false => consumer(address, options).map_err(broker_error),
    }
}

/// A consumer of single partitions that joins no group and commits nothing.
pub(crate) fn consumer(
    address: &Address,
    options: &TopicOptions,
) -> KafkaResult<(BaseConsumer<ErrorLog>, ErrorLog)> {
    let quiet = ErrorLog::default();
    let consumer = reading(address, options).create_with_context(quiet.clone())?;
    Ok((consumer, quiet))
}

/// A consumer that also reports the end of the partition.
pub(crate) fn consumer_to_end(
    address: &Address,
    options: &TopicOptions,
) -> KafkaResult<BaseConsumer<ErrorLog>> {
    let mut config = reading(address, options);
    config.set("enable.partition.eof", "true").create_with_context(ErrorLog::default())
}

/// A consumer that reads committed messages only, and also reports the end of the partition.
pub(crate) fn consumer_of_committed(
    address: &Address,
    options: &TopicOptions,
) -> KafkaResult<BaseConsumer<ErrorLog>> {
    let mut config = reading(address, options);
    config
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .create_with_context(ErrorLog::default())
}

pub(crate) fn reading(address: &Address, options: &TopicOptions) -> ClientConfig {
    let mut config = config(address, options);
    config
        // The library requires a group id, although no group is joined.
        .set("group.id", format!("upesi-{}", options.node))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // A missing offset is an error, never a reason to start elsewhere.
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true")
        // Nodes use no transactions. An open transaction of another client must not block the
        // reader.
        .set("isolation.level", "read_uncommitted")
        // The broker responds as soon as it has a message; this is its maximum wait.
        .set("fetch.wait.max.ms", "500")
        .set("fetch.min.bytes", "1")
        .set("fetch.error.backoff.ms", "50")
        .set("max.partition.fetch.bytes", MESSAGE_BYTES_MIN.to_string())
        .set("fetch.max.bytes", (2 * MESSAGE_BYTES_MIN).to_string())
        .set("queued.max.messages.kbytes", "32768");
    config
}

/// The last errors of the library, instead of log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorLog(Arc<Mutex<LastErrors>>);

#[derive(Debug, Default)]
struct LastErrors {
    last: String,
    /// Why TLS or authentication failed, once that was reported.
    authentication_failure: Option<String>,
}

impl ErrorLog {
    /// The last error, or an empty text.
    pub(crate) fn last(&self) -> String {
        locked(&self.0).last.clone()
    }

    /// Why TLS or authentication failed. Such an error is permanent.
    pub(crate) fn authentication_failure(&self) -> Option<String> {
        locked(&self.0).authentication_failure.clone()
    }
}

impl ClientContext for ErrorLog {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let last = if reason.is_empty() { error.to_string() } else { reason.to_owned() };
        let mut errors = locked(&self.0);
        let is_authentication = [RDKafkaErrorCode::Authentication, RDKafkaErrorCode::SSL].map(Some);
        if is_authentication.contains(&error.rdkafka_error_code()) {
            errors.authentication_failure = Some(last.clone());
        }
        // The library also reports that all brokers are down, which adds nothing to the first
        // reason.
        let is_summary = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        if !is_summary || errors.last.is_empty() {
            errors.last = last;
        }
    }
}

impl ConsumerContext for ErrorLog {}

/// Receives arrivals. Returns false when the receiver is gone.
pub(crate) type ArrivalSink = Arc<dyn Fn(Arrival) -> bool + Send + Sync>;

/// Sends messages, and reports those whose delivery is unknown.
pub(crate) struct Outbound {
    producer: ThreadedProducer<DeliveryReports>,
    topic: String,
    /// Messages without a delivery report.
    unreported: Arc<AtomicUsize>,
}

/// Delivery reports of the brokers, from the library's thread.
pub(crate) struct DeliveryReports {
    sink: ArrivalSink,
    quiet: ErrorLog,
    unreported: Arc<AtomicUsize>,
}

impl Outbound {
    pub(crate) fn open(
        address: &Address,
        options: &TopicOptions,
        sink: ArrivalSink,
    ) -> KafkaResult<Self> {
        let unreported = Arc::new(AtomicUsize::new(0));
        let (quiet, reported) = (ErrorLog::default(), Arc::clone(&unreported));
        let producer = config(address, options)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("compression.type", "none")
            .set("message.timeout.ms", options.patience.as_millis().to_string())
            .set("queue.buffering.max.kbytes", "131072")
            .create_with_context(DeliveryReports { sink, quiet, unreported: reported })?;
        Ok(Self { producer, topic: address.topic.clone(), unreported })
    }

    /// Queues a message. The library has copied it when this returns.
    pub(crate) fn send(&self, message: &[u8], tag: u64) -> Result<(), String> {
        self.enqueue(message, tag).map_err(|error| match is_deleted(&error) {
            true => format!("topic {} no longer exists. {DELETED} ({error})", self.topic),
            false => error.to_string(),
        })
    }

    /// Queues a message as [`Outbound::send`] does, but waits up to `patience` for room in the
    /// queue.
    pub(crate) fn send_patiently(&self, message: &[u8], patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.enqueue(message, 0) {
                Err(error)
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                        && Instant::now() < deadline =>
                {
                    std::thread::sleep(ROOM);
                }
                sent => return sent.map_err(|error| error.to_string()),
            }
        }
    }

    fn enqueue(&self, message: &[u8], tag: u64) -> KafkaResult<()> {
        let tag = usize::try_from(tag).map_err(|_| KafkaError::Canceled)?;
        let record = BaseRecord::<(), [u8], usize>::with_opaque_to(&self.topic, tag)
            .partition(PARTITION)
            .payload(message);
        // Count before sending: the report may arrive before `send` returns.
        self.unreported.fetch_add(1, Ordering::Relaxed);
        self.producer.send(record).map_err(|(error, _)| {
            self.unreported.fetch_sub(1, Ordering::Relaxed);
            error
        })
    }

    /// Whether a message without a delivery report exists.
    pub(crate) fn is_waiting(&self) -> bool {
        0 < self.unreported.load(Ordering::Relaxed)
    }

    /// Queries the leader of the topic. The library then sends to that broker.
    pub(crate) fn look_for_leader(&self) {
        let _leader = self.producer.client().fetch_metadata(Some(&self.topic), QUERY_TIMEOUT);
    }

    /// Waits until every message has a delivery report.
    pub(crate) fn flush(&self, patience: Duration) -> KafkaResult<()> {
        self.producer.flush(patience)
    }
}

impl ClientContext for DeliveryReports {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ProducerContext for DeliveryReports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        self.unreported.fetch_sub(1, Ordering::Relaxed);
        let Err((error, _)) = result else { return };
        let last = self.quiet.last();
        let last = if last.is_empty() { last } else { format!(" ({last})") };
        let reason = format!("no acknowledgement from the brokers: {error}{last}");
        // The receiver may be gone already.
        let _taken = (self.sink)(Arrival::Lost { tag: tag as u64, reason });
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
