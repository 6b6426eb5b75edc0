//! Sends single messages to a topic that is not a log, and waits until the brokers have them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, ProducerContext};

use crate::client::{self, ErrorLog, locked};
use crate::connect::broker_error;
use crate::{Address, OpenError, TopicOptions};

/// Interval of looking for the report of a message.
const POLL: Duration = Duration::from_millis(100);
/// Time after the timeout of a message in which the library reports it.
const GRACE: Duration = Duration::from_secs(1);

/// A sender to one topic, which must exist. It connects with the first message.
pub struct MessageSender {
    producer: BaseProducer<Reports>,
    topic: String,
    patience: Duration,
    reported: Arc<Mutex<Option<Report>>>,
    errors: ErrorLog,
    /// The header `content-type` of messages, if they have one.
    content_type: Option<&'static str>,
    /// Number of the last message.
    number: usize,
}

/// The number of a message, and its result.
type Report = (usize, Result<(), String>);

/// Keeps the last report.
struct Reports {
    reported: Arc<Mutex<Option<Report>>>,
    errors: ErrorLog,
}

impl MessageSender {
    /// A sender that waits for each message up to the patience in `options`.
    ///
    /// # Errors
    /// [`OpenError::NoTls`], and [`OpenError::Brokers`] when the client library refuses.
    pub fn new(address: &Address, options: &TopicOptions) -> Result<Self, OpenError> {
        if options.security.is_missing() {
            return Err(OpenError::NoTls);
        }
        let (reported, errors) = (Arc::default(), ErrorLog::default());
        let reports = Reports { reported: Arc::clone(&reported), errors: errors.clone() };
        let producer = client::config(address, options)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("message.timeout.ms", options.patience.as_millis().to_string())
            .create_with_context(reports)
            .map_err(broker_error)?;
        let (topic, patience) = (address.topic.clone(), options.patience);
        Ok(Self { producer, topic, patience, reported, errors, content_type: None, number: 0 })
    }

    /// The same sender, whose messages have this header `content-type`.
    #[must_use]
    pub const fn with_content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// Sends a message, and waits until every replica in sync has it.
    ///
    /// # Errors
    /// In words. The message may have arrived.
    pub fn send(&mut self, key: &str, message: &[u8]) -> Result<(), String> {
        self.number += 1;
        let record = BaseRecord::<str, [u8], usize>::with_opaque_to(&self.topic, self.number);
        let record = record.key(key).payload(message);
        let sent = self.producer.send(match self.content_type {
            None => record,
            Some(value) => {
                let header = Header { key: "content-type", value: Some(value) };
                record.headers(OwnedHeaders::new_with_capacity(1).insert(header))
            }
        });
        sent.map_err(|(error, _)| error.to_string())?;
        let deadline = Instant::now() + self.patience + GRACE;
        while Instant::now() < deadline {
            self.producer.poll(POLL);
            let report = locked(&self.reported).take();
            if let Some((_, result)) = report.filter(|(number, _)| *number == self.number) {
                return result.map_err(|error| self.described(&error));
            }
        }
        Err(self.described("no report"))
    }

    fn described(&self, error: &str) -> String {
        let last = self.errors.last();
        let last = if last.is_empty() { last } else { format!(" ({last})") };
        format!("topic {}: no acknowledgement from the brokers: {error}{last}", self.topic)
    }
}

impl ClientContext for Reports {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let result = result.as_ref().map(drop).map_err(|(error, _)| error.to_string());
        *locked(&self.reported) = Some((number, result));
    }
}
