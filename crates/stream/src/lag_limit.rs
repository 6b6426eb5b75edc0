//! Refuses messages while a group of consumers is too far from the end of a topic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};

use crate::StreamError;
use crate::producer::SendError;
use crate::settings::{ProducerSettings, client_config};

/// Interval between two checks whether the thread has to end.
const CHECK: Duration = Duration::from_millis(50);

/// The lag of a group above which a [`crate::Producer`] refuses messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagLimit {
    /// The topic that the group reads.
    pub topic: String,
    /// The group.
    pub group: String,
    /// Messages after the group's positions, in all partitions, at most. A partition without a
    /// position counts with all its messages.
    pub lag_max: i64,
    /// Interval of the measurements.
    pub interval: Duration,
    /// Timeout of the requests of a measurement. If one fails, the last lag applies.
    pub timeout: Duration,
}

impl LagLimit {
    /// A limit that is measured every 5 s.
    pub fn new(topic: &str, group: &str, lag_max: i64) -> Self {
        let (topic, group) = (topic.to_owned(), group.to_owned());
        let time = Duration::from_secs(5);
        Self { topic, group, lag_max, interval: time, timeout: time }
    }
}

/// The thread that measures the lag.
#[derive(Debug)]
pub(crate) struct LagMonitor {
    limit: LagLimit,
    lag: Arc<AtomicI64>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LagMonitor {
    /// Measures once, and starts the thread.
    pub(crate) fn start(
        settings: &ProducerSettings,
        limit: &LagLimit,
    ) -> Result<Self, StreamError> {
        let mut config = client_config(&settings.brokers, &settings.properties);
        // It joins no group, and commits nothing.
        config.set("group.id", &limit.group).set("enable.auto.commit", "false");
        let consumer: BaseConsumer = config.create().map_err(crate::consumer::refused)?;
        let first = measure(&consumer, limit).map_err(StreamError::Unreachable)?;
        let lag = Arc::new(AtomicI64::new(first));
        let stopped = Arc::new(AtomicBool::new(false));
        let (of, seen, end) = (limit.clone(), Arc::clone(&lag), Arc::clone(&stopped));
        let work = move || {
            while wait(of.interval, &end) {
                if let Ok(lag) = measure(&consumer, &of) {
                    seen.store(lag, Ordering::Relaxed);
                }
            }
        };
        let thread = thread::Builder::new().name("stream-lag".into()).spawn(work);
        let thread = thread.map_err(|error| StreamError::Settings(error.to_string()))?;
        Ok(Self { limit: limit.clone(), lag, stopped, thread: Some(thread) })
    }

    /// Refuses a message while the lag is above the limit.
    pub(crate) fn check(&self) -> Result<(), SendError> {
        let lag = self.lag.load(Ordering::Relaxed);
        match lag <= self.limit.lag_max {
            true => Ok(()),
            false => Err(SendError::Lagging {
                topic: self.limit.topic.clone(),
                lag,
                lag_max: self.limit.lag_max,
            }),
        }
    }
}

impl Drop for LagMonitor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its thread.
            let _ended = thread.join();
        }
    }
}

/// Waits for an interval. Returns false if the thread has to end.
fn wait(interval: Duration, stopped: &AtomicBool) -> bool {
    let since = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        let Some(left) = interval.checked_sub(since.elapsed()) else { return true };
        thread::sleep(left.min(CHECK));
    }
    false
}

/// The messages after the group's positions.
fn measure(consumer: &BaseConsumer, limit: &LagLimit) -> KafkaResult<i64> {
    let metadata = consumer.fetch_metadata(Some(&limit.topic), limit.timeout)?;
    let topic = metadata.topics().first().ok_or(KafkaError::NoMessageReceived)?;
    let mut places = TopicPartitionList::new();
    for partition in topic.partitions() {
        places.add_partition(&limit.topic, partition.id());
    }
    let committed = consumer.committed_offsets(places, limit.timeout)?;
    let mut lag = 0;
    for place in committed.elements() {
        let (low, high) =
            consumer.fetch_watermarks(&limit.topic, place.partition(), limit.timeout)?;
        let position = match place.offset() {
            Offset::Offset(offset) => offset.max(low),
            _ => low,
        };
        lag += (high - position).max(0);
    }
    Ok(lag)
}
