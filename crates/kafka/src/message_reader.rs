//! Reads all messages of a topic that is not a log, in all of its partitions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{self, ErrorLog};
use crate::connect::broker_error;
use crate::consumer::POLL;
use crate::{Address, OpenError, TopicOptions, topic};

/// Timeout of one query for the ends of a partition.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// A message of a topic.
#[derive(Clone, Copy, Debug)]
pub struct TopicEntry<'a> {
    /// Its partition.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
    /// Its key; empty if it has none.
    pub key: &'a [u8],
    /// Its bytes; empty if it has none.
    pub bytes: &'a [u8],
}

/// A reader of the messages that a topic has when it is opened.
pub struct MessageReader {
    consumer: BaseConsumer<ErrorLog>,
    topic: String,
    patience: Duration,
    /// Partitions that are not read to their end yet, with the offset after their last message.
    ends: BTreeMap<i32, i64>,
    starts: TopicPartitionList,
}

impl MessageReader {
    /// Finds the partitions of an existing topic and their ends.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::NoTopic`] when the topic does not exist.
    pub fn open(address: &Address, options: &TopicOptions) -> Result<Self, OpenError> {
        let (topic, patience) = (address.topic.clone(), options.patience);
        if options.security.is_missing() {
            return Err(OpenError::NoTls);
        }
        let mut config = client::reading(address, options);
        let errors = ErrorLog::default();
        let consumer: BaseConsumer<ErrorLog> = config
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .create_with_context(errors.clone())
            .map_err(broker_error)?;
        let partitions = topic::partitions((&consumer, &errors), address, options)?;
        let (mut ends, mut starts) = (BTreeMap::new(), TopicPartitionList::new());
        for partition in partitions {
            let once = patience.min(QUERY_TIMEOUT);
            let range = consumer.fetch_watermarks(&topic, partition, once).map_err(broker_error)?;
            if range.0 < range.1 {
                ends.insert(partition, range.1);
                let start = Offset::Offset(range.0);
                starts.add_partition_offset(&topic, partition, start).map_err(broker_error)?;
            }
        }
        Ok(Self { consumer, topic, patience, ends, starts })
    }

    /// Number of offsets in the topic: at least that of its messages.
    #[must_use]
    pub fn offsets(&self) -> u64 {
        let start = |partition: &i32| {
            let found = self.starts.find_partition(&self.topic, *partition);
            found.and_then(|found| found.offset().to_raw()).unwrap_or(0)
        };
        let counts = self.ends.iter().map(|(partition, end)| end - start(partition));
        counts.sum::<i64>().unsigned_abs()
    }

    /// Visits the messages, in order within a partition, until the visitor stops. Messages of
    /// transactions that were not committed are left out.
    ///
    /// # Errors
    /// [`OpenError::Brokers`], also when no message arrives within the patience.
    pub fn read(
        mut self,
        visit: &mut dyn FnMut(TopicEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        self.consumer.assign(&self.starts).map_err(broker_error)?;
        let mut since = Instant::now();
        while !self.ends.is_empty() {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => {
                    since = Instant::now();
                    let (partition, offset) = (message.partition(), message.offset());
                    let Some(&end) = self.ends.get(&partition) else { continue };
                    if end <= offset + 1 {
                        self.ends.remove(&partition);
                    }
                    let key = message.key().unwrap_or_default();
                    let bytes = message.payload().unwrap_or_default();
                    let entry = TopicEntry { partition, offset, key, bytes };
                    if offset < end && visit(entry).is_break() {
                        break;
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.ends.remove(&partition);
                }
                Some(Err(error)) if self.patience < since.elapsed() => {
                    return Err(broker_error(error));
                }
                None if self.patience < since.elapsed() => {
                    return Err(OpenError::Brokers(format!(
                        "topic {}: no message for {} s before its end",
                        self.topic,
                        self.patience.as_secs()
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
