//! The client library, configured; and what it has to say, kept for error messages.

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

use crate::connect::cannot;
use crate::consumer::{GONE, is_gone};
use crate::settings::MESSAGE_BYTES_MIN;
use crate::{Address, OpenError, Options};

/// The log's only partition.
pub(crate) const PARTITION: i32 = 0;

/// Between two looks whether there is room for a message.
const ROOM: Duration = Duration::from_millis(5);
/// Longest wait for the answer to one question who leads the topic.
const ANSWER: Duration = Duration::from_millis(500);

/// Settings that every client has.
pub(crate) fn config(address: &Address, options: &Options) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &address.brokers)
        .set("client.id", format!("upesi-{}", options.node))
        .set("allow.auto.create.topics", "false")
        .set("message.max.bytes", MESSAGE_BYTES_MIN.to_string())
        // Whatever the topic takes of somebody else must be read, to be passed over.
        .set("receive.message.max.bytes", i32::MAX.to_string())
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        // A broker that stands still is as one that is gone.
        .set("socket.timeout.ms", "4000")
        .set("socket.connection.setup.timeout.ms", "3000")
        // A leader that moved is looked for at once, and again soon.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .set("retry.backoff.ms", "20")
        .set("retry.backoff.max.ms", "200")
        .set("topic.metadata.refresh.fast.interval.ms", "50")
        .set_log_level(RDKafkaLogLevel::Critical);
    options.security.apply(&mut config);
    config
}

/// The one with which a topic is opened, if this build has what it takes.
pub(crate) fn first_consumer(
    address: &Address,
    options: &Options,
) -> Result<(BaseConsumer<ErrorLog>, ErrorLog), OpenError> {
    match options.security.is_missing() {
        true => Err(OpenError::NoTls),
        false => consumer(address, options).map_err(cannot),
    }
}

/// A reader of single partitions, that belongs to no group and commits nothing.
pub(crate) fn consumer(
    address: &Address,
    options: &Options,
) -> KafkaResult<(BaseConsumer<ErrorLog>, ErrorLog)> {
    let quiet = ErrorLog::default();
    let consumer = reading(address, options).create_with_context(quiet.clone())?;
    Ok((consumer, quiet))
}

/// One that also says when it has come to the end of the topic.
pub(crate) fn consumer_to_end(
    address: &Address,
    options: &Options,
) -> KafkaResult<BaseConsumer<ErrorLog>> {
    let mut config = reading(address, options);
    config.set("enable.partition.eof", "true").create_with_context(ErrorLog::default())
}

fn reading(address: &Address, options: &Options) -> ClientConfig {
    let mut config = config(address, options);
    config
        // The library wants a name, though no group is ever joined.
        .set("group.id", format!("upesi-{}", options.node))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // An offset that is not there is an error, never a reason to begin elsewhere.
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true")
        // Nodes write in no transaction: one of somebody else that stays open holds nothing up.
        .set("isolation.level", "read_uncommitted")
        // A fetch is answered as soon as there is anything; this is how long it waits for it.
        .set("fetch.wait.max.ms", "500")
        .set("fetch.min.bytes", "1")
        .set("fetch.error.backoff.ms", "50")
        .set("max.partition.fetch.bytes", MESSAGE_BYTES_MIN.to_string())
        .set("fetch.max.bytes", (2 * MESSAGE_BYTES_MIN).to_string())
        .set("queued.max.messages.kbytes", "32768");
    config
}

/// What the library said last, instead of log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorLog(Arc<Mutex<LastErrors>>);

#[derive(Debug, Default)]
struct LastErrors {
    last: String,
    /// Why one side does not trust the other, once that was said.
    distrust: Option<String>,
}

impl ErrorLog {
    /// The last trouble, or nothing.
    pub(crate) fn last(&self) -> String {
        locked(&self.0).last.clone()
    }

    /// Why one side does not trust the other: it will not pass by itself.
    pub(crate) fn distrust(&self) -> Option<String> {
        locked(&self.0).distrust.clone()
    }
}

impl ClientContext for ErrorLog {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let last = if reason.is_empty() { error.to_string() } else { reason.to_owned() };
        let mut said = locked(&self.0);
        let is_distrust = [RDKafkaErrorCode::Authentication, RDKafkaErrorCode::SSL].map(Some);
        if is_distrust.contains(&error.rdkafka_error_code()) {
            said.distrust = Some(last.clone());
        }
        // That all are down follows on why each is, and says less.
        let says_less = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        if !says_less || said.last.is_empty() {
            said.last = last;
        }
    }
}

impl ConsumerContext for ErrorLog {}

/// Where arrivals go; false when nobody takes them any more.
pub(crate) type ArrivalSink = Arc<dyn Fn(Arrival) -> bool + Send + Sync>;

/// Sends messages, and says which of them are not known to have arrived.
pub(crate) struct Outbound {
    producer: ThreadedProducer<Reports>,
    topic: String,
    /// Messages of which the brokers have reported nothing.
    unreported: Arc<AtomicUsize>,
}

/// What the brokers report on what was sent, from the library's thread.
pub(crate) struct Reports {
    sink: ArrivalSink,
    quiet: ErrorLog,
    unreported: Arc<AtomicUsize>,
}

impl Outbound {
    pub(crate) fn open(
        address: &Address,
        options: &Options,
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
            .create_with_context(Reports { sink, quiet, unreported: reported })?;
        Ok(Self { producer, topic: address.topic.clone(), unreported })
    }

    /// Hands a message over; the library has copied it when this returns.
    pub(crate) fn send(&self, message: &[u8], tag: u64) -> Result<(), String> {
        self.hand_over(message, tag).map_err(|error| match is_gone(&error) {
            true => format!("topic {} is not there any more. {GONE} ({error})", self.topic),
            false => error.to_string(),
        })
    }

    /// The same, once there is room among what waits to be sent, within `patience`.
    pub(crate) fn send_patiently(&self, message: &[u8], patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.hand_over(message, 0) {
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

    fn hand_over(&self, message: &[u8], tag: u64) -> KafkaResult<()> {
        let tag = usize::try_from(tag).map_err(|_| KafkaError::Canceled)?;
        let record = BaseRecord::<(), [u8], usize>::with_opaque_to(&self.topic, tag)
            .partition(PARTITION)
            .payload(message);
        // Before it is sent: the report may be quicker than the way back from there.
        self.unreported.fetch_add(1, Ordering::Relaxed);
        self.producer.send(record).map_err(|(error, _)| {
            self.unreported.fetch_sub(1, Ordering::Relaxed);
            error
        })
    }

    /// Whether something was sent of which the brokers have reported nothing.
    pub(crate) fn is_waiting(&self) -> bool {
        0 < self.unreported.load(Ordering::Relaxed)
    }

    /// Asks who leads the topic. With the answer the library sends to that broker.
    pub(crate) fn look_for_leader(&self) {
        let _leader = self.producer.client().fetch_metadata(Some(&self.topic), ANSWER);
    }

    /// Waits until everything sent has an end.
    pub(crate) fn flush(&self, patience: Duration) -> KafkaResult<()> {
        self.producer.flush(patience)
    }
}

impl ClientContext for Reports {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        self.unreported.fetch_sub(1, Ordering::Relaxed);
        let Err((error, _)) = result else { return };
        let last = self.quiet.last();
        let last = if last.is_empty() { last } else { format!(" ({last})") };
        let reason = format!("the brokers acknowledged nothing: {error}{last}");
        // Nobody may be there any more to hear it.
        let _taken = (self.sink)(Arrival::Lost { tag: tag as u64, reason });
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
