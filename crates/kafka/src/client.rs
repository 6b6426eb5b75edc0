//! The client library, configured; and what it has to say, kept for error messages.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};

use crate::settings::MESSAGE_BYTES_MIN;
use crate::{Address, Options};

/// The log's only partition.
pub(crate) const PARTITION: i32 = 0;

/// Settings that every client has.
pub(crate) fn config(address: &Address, options: &Options) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &address.brokers)
        .set("client.id", format!("upesi-{}", options.node))
        .set("allow.auto.create.topics", "false")
        .set("message.max.bytes", MESSAGE_BYTES_MIN.to_string())
        .set("receive.message.max.bytes", (4 * MESSAGE_BYTES_MIN).to_string())
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        // A leader that moved is looked for at once, and again soon.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .set("topic.metadata.refresh.fast.interval.ms", "50")
        .set_log_level(RDKafkaLogLevel::Critical);
    config
}

/// A reader of single partitions, that belongs to no group and commits nothing.
pub(crate) fn consumer(
    address: &Address,
    options: &Options,
) -> KafkaResult<(BaseConsumer<Quiet>, Quiet)> {
    let quiet = Quiet::default();
    let consumer = config(address, options)
        // The library wants a name, though no group is ever joined.
        .set("group.id", format!("upesi-{}", options.node))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // An offset that is not there is an error, never a reason to begin elsewhere.
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "20")
        .set("fetch.error.backoff.ms", "50")
        .set("max.partition.fetch.bytes", MESSAGE_BYTES_MIN.to_string())
        .set("fetch.max.bytes", (2 * MESSAGE_BYTES_MIN).to_string())
        .set("queued.max.messages.kbytes", "32768")
        .create_with_context(quiet.clone())?;
    Ok((consumer, quiet))
}

/// What the library said last, instead of log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quiet(Arc<Mutex<String>>);

impl Quiet {
    /// The last trouble, or nothing.
    pub(crate) fn last(&self) -> String {
        locked(&self.0).clone()
    }
}

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let said = if reason.is_empty() { error.to_string() } else { reason.to_owned() };
        *locked(&self.0) = said;
    }
}

impl ConsumerContext for Quiet {}

/// Sends frames and learns what became of them.
pub(crate) struct Outbound {
    producer: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
    topic: String,
}

/// Reports of the brokers on what was sent, from the library's thread.
#[derive(Clone, Default)]
struct Deliveries {
    shared: Arc<Shared>,
    quiet: Quiet,
}

#[derive(Default)]
struct Shared {
    reports: Mutex<Reports>,
    arrived: Condvar,
}

/// Since they were last taken.
#[derive(Default)]
struct Reports {
    /// Offsets given, in order of the reports.
    offsets: Vec<i64>,
    /// The first failure.
    failure: Option<String>,
}

impl Outbound {
    pub(crate) fn open(address: &Address, options: &Options) -> KafkaResult<Self> {
        let deliveries = Deliveries::default();
        let producer = config(address, options)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("compression.type", "none")
            .set("message.timeout.ms", options.patience.as_millis().to_string())
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "200")
            .set("queue.buffering.max.kbytes", "131072")
            .create_with_context(deliveries.clone())?;
        Ok(Self { producer, deliveries, topic: address.topic.clone() })
    }

    /// Hands a frame over; the library has copied it when this returns.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<(), String> {
        let record =
            BaseRecord::<(), [u8], ()>::to(&self.topic).partition(PARTITION).payload(frame);
        self.producer.send(record).map_err(|(error, _)| error.to_string())
    }

    /// Waits until `count` frames have been reported on, and gives their offsets.
    pub(crate) fn wait(&self, count: usize, patience: Duration) -> Result<Vec<i64>, String> {
        // The library gives up by itself; this is for a library that does not.
        let deadline = Instant::now() + patience + Duration::from_secs(5);
        let mut reports = locked(&self.deliveries.shared.reports);
        while reports.failure.is_none() && reports.offsets.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                reports.failure = Some("no word from the client library".into());
                break;
            }
            let waited = self.deliveries.shared.arrived.wait_timeout(reports, left);
            reports = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let reports = std::mem::take(&mut *reports);
        match reports.failure {
            None => Ok(reports.offsets),
            Some(failure) => {
                let last = self.deliveries.quiet.last();
                let last = if last.is_empty() { last } else { format!(" ({last})") };
                Err(format!("the brokers acknowledged nothing: {failure}{last}"))
            }
        }
    }
}

impl ClientContext for Deliveries {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut reports = locked(&self.shared.reports);
        match result {
            Ok(message) => reports.offsets.push(message.offset()),
            Err((error, _)) => {
                reports.failure.get_or_insert_with(|| error.to_string());
            }
        }
        self.shared.arrived.notify_all();
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
