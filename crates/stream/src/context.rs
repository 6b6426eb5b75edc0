//! Keeps reports of the client library until the consumer reads them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::{Partition, Statistics};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

/// A change of the partitions that this consumer has.
#[derive(Debug)]
pub(crate) enum Rebalance {
    Assigned(TopicPartitionList),
    Revoked(TopicPartitionList),
}

/// Reports of the client library.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Events that were served, of any kind. A poll that served one returns no message, although
    /// messages may wait.
    served: AtomicU64,
    waiting: Mutex<Waiting>,
    /// The consumer is being closed: partitions are released at once.
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    rebalances: VecDeque<Rebalance>,
    commit_failures: VecDeque<(TopicPartitionList, KafkaError)>,
    commits_answered: u64,
    unread: Option<i64>,
    /// Whether a broker is connected, as last measured.
    is_connected: bool,
    error: Option<String>,
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an event that is being served.
    fn record(&self) -> MutexGuard<'_, Waiting> {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.lock()
    }

    /// From now on, partitions are released as soon as they are revoked.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// How many events were served.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    pub(crate) fn next_rebalance(&self) -> Option<Rebalance> {
        self.lock().rebalances.pop_front()
    }

    pub(crate) fn next_commit_failure(&self) -> Option<(TopicPartitionList, KafkaError)> {
        self.lock().commit_failures.pop_front()
    }

    /// Commits that the brokers have answered.
    pub(crate) fn commits_answered(&self) -> u64 {
        self.lock().commits_answered
    }

    /// Messages in the assigned partitions that the library has not given to this consumer, as last
    /// measured.
    pub(crate) fn unread(&self) -> Option<i64> {
        self.lock().unread
    }

    /// Whether a broker is connected, as last measured.
    pub(crate) fn is_connected(&self) -> bool {
        self.lock().is_connected
    }

    /// Records an error of a connection. Only a later measurement refutes it.
    pub(crate) fn disconnected(&self) {
        self.lock().is_connected = false;
    }

    /// The last error since the question was asked.
    pub(crate) fn take_error(&self) -> Option<String> {
        self.lock().error.take()
    }
}

impl ClientContext for Reports {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {
        drop(self.record());
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let known: Vec<i64> = partitions.filter_map(unread_of).collect();
        let mut waiting = self.record();
        waiting.unread = (!known.is_empty()).then(|| known.iter().sum());
        waiting.is_connected = statistics.brokers.values().any(|broker| broker.state == "UP");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut waiting = self.record();
        waiting.is_connected = false;
        waiting.error = Some(format!("{error}: {reason}"));
    }
}

impl ConsumerContext for Reports {
    /// Only records the change: handlers that work on a revoked partition finish first.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        if self.closing.load(Ordering::Relaxed) {
            release(consumer, partitions);
            drop(self.record());
            return;
        }
        let partitions = partitions.clone();
        let change = match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Assigned(partitions),
            _ => Rebalance::Revoked(partitions),
        };
        self.record().rebalances.push_back(change);
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let mut waiting = self.record();
        waiting.commits_answered += 1;
        if let Err(error) = result {
            waiting.commit_failures.push_back((offsets.clone(), error));
        }
    }
}

/// The messages of a partition that the library has not given to this consumer. Markers of
/// transactions are passed over, so the position of the consumer counts, and not that of its last
/// commit.
fn unread_of(partition: &Partition) -> Option<i64> {
    let position = partition.app_offset.max(partition.committed_offset);
    let is_fetched = 0 <= partition.partition && partition.fetch_state == "active";
    let is_known = is_fetched && 0 <= partition.consumer_lag && 0 <= partition.committed_offset;
    let end = partition.committed_offset + partition.consumer_lag;
    is_known.then(|| (end - position).max(0))
}

/// Gives partitions back to the group. An error means that they are gone already.
pub(crate) fn release(consumer: &BaseConsumer<Reports>, partitions: &TopicPartitionList) {
    let _gone = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
        _ => consumer.unassign(),
    };
}

/// Starts to fetch from assigned partitions, from their committed positions.
pub(crate) fn accept(
    consumer: &BaseConsumer<Reports>,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
        _ => consumer.assign(partitions),
    }
}
