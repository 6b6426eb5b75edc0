//! Settings of consumers and producers.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::lag_limit::LagLimit;

const NO_STATISTICS: &str =
    "statistics.interval.ms is 0, but the health of a consumer needs statistics: set it to 5000";

/// Properties of the client library by name, such as `security.protocol`. They win over the
/// values that this crate chooses, except those that its guarantees depend on.
pub type Properties = BTreeMap<String, String>;

/// When messages are given to the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each message by itself, as soon as it arrives.
    Flow,
    /// Batches, at most one per lane in each interval.
    Poll {
        /// The interval.
        every: Duration,
    },
    /// Batches, the next one of a lane as soon as its handler is done.
    Recursive,
}

/// Which messages are handled one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those of a partition.
    Partition,
    /// Those with the same key. Messages without a key are ordered by partition.
    Key,
}

/// How positions are committed. A position is committed only when all messages before it are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// After each batch. The next batch of the lane waits until the broker has answered.
    Sync,
    /// After each batch, without waiting. Positions that follow while a request is in progress
    /// share the next one.
    Async,
    /// At each interval: the position after the messages that are done.
    Interval(Duration),
}

/// The treatment of a message that its handler cannot process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poison {
    /// The consumer ends with an error. The message is delivered again to the next one.
    Stop,
    /// It is written to this topic, with headers that name its origin and the reason, and counts as
    /// done once the brokers have acknowledged it.
    DeadLetters(String),
}

/// Retries of a handler that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts after the first one, at most.
    pub attempts_max: u32,
    /// The pause before the first one. Each further pause is twice as long.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            pause: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
        }
    }
}

impl Retries {
    /// The pause before this retry, counted from 1.
    pub(crate) fn pause(&self, retry: u32) -> Duration {
        let doubled = self.pause.saturating_mul(1 << (retry - 1).min(20));
        doubled.min(self.pause_max)
    }
}

/// Settings of a [`crate::Consumer`].
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// `host:port` of brokers, separated by commas.
    pub brokers: String,
    /// The group that shares the partitions of the topics.
    pub group: String,
    /// The topics, at least one.
    pub topics: Vec<String>,
    /// When messages are given to the handler.
    pub mode: Mode,
    /// Messages that a handler gets at most. [`Mode::Flow`] ignores it.
    pub batch_max: usize,
    /// How long the first message of a batch waits for others. Zero: not at all.
    pub fill_timeout: Duration,
    /// How long the consumer waits before it looks for messages again, after it found none and has
    /// no work. Zero: it is woken by the next message.
    pub idle_wait: Duration,
    /// Handlers that work at a time, from 1. With [`Order::Partition`], at most one per partition.
    pub concurrency: usize,
    /// Which messages are handled one after another.
    pub order: Order,
    /// Messages that wait for a handler at most. Beyond it nothing is taken from the client
    /// library, whose own queue is bounded too.
    pub waiting_max: usize,
    /// How positions are committed.
    pub commit: Commit,
    /// Retries of a handler that failed.
    pub retries: Retries,
    /// The treatment of a message when all retries have failed.
    pub poison: Poison,
    /// A handler that works longer has failed. `None`: it may work for ever, and
    /// [`crate::Health`] shows it.
    pub handler_timeout: Option<Duration>,
    /// How long handlers may finish their work when the consumer stops or loses a partition.
    pub drain_timeout: Duration,
    /// No progress for this long, although there is work, is reported by [`crate::Health`].
    pub stall_after: Duration,
    /// Further properties of the client library.
    pub properties: Properties,
}

impl ConsumerSettings {
    /// One message at a time, in order, with commits that do not delay the next message.
    pub fn new(brokers: &str, group: &str, topics: &[&str]) -> Self {
        Self {
            brokers: brokers.to_owned(),
            group: group.to_owned(),
            topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
            mode: Mode::Recursive,
            batch_max: 1,
            fill_timeout: Duration::ZERO,
            idle_wait: Duration::ZERO,
            concurrency: 1,
            order: Order::Partition,
            waiting_max: 1_000,
            commit: Commit::Async,
            retries: Retries::default(),
            poison: Poison::Stop,
            handler_timeout: None,
            drain_timeout: Duration::from_secs(10),
            stall_after: Duration::from_secs(30),
            properties: Properties::new(),
        }
    }

    /// The batch size of the mode.
    pub(crate) fn batch_max(&self) -> usize {
        match self.mode {
            Mode::Flow => 1,
            Mode::Poll { .. } | Mode::Recursive => self.batch_max,
        }
    }

    /// The fill timeout of the mode.
    pub(crate) fn fill_timeout(&self) -> Duration {
        match self.mode {
            Mode::Flow | Mode::Poll { .. } => Duration::ZERO,
            Mode::Recursive => self.fill_timeout,
        }
    }

    /// The first setting that cannot be used, as an error message.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let zero = |value: usize| value == 0;
        let faults = [
            (self.topics.is_empty(), "topics is empty: name at least one"),
            (zero(self.batch_max), "batch_max is 0: it must be at least 1"),
            (zero(self.concurrency), "concurrency is 0: it must be at least 1"),
            (self.waiting_max < self.batch_max(), "waiting_max must be at least batch_max"),
            (self.has_no_statistics(), NO_STATISTICS),
        ];
        faults.iter().find(|(is_fault, _)| *is_fault).map(|(_, text)| *text)
    }

    fn has_no_statistics(&self) -> bool {
        let interval = self.properties.get("statistics.interval.ms");
        interval.is_some_and(|interval| interval.trim().parse() == Ok(0_u32))
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut config = client_config(&self.brokers, &self.properties);
        let defaults = [
            ("auto.offset.reset", "earliest"),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "50"),
            ("fetch.queue.backoff.ms", "20"),
            ("queued.max.messages.kbytes", "32768"),
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("statistics.interval.ms", "5000"),
        ];
        set_defaults(&mut config, &defaults, &self.properties);
        config
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "false");
        config
    }
}

/// Settings of a [`crate::Producer`].
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// `host:port` of brokers, separated by commas.
    pub brokers: String,
    /// How long a message waits for others that share its request.
    pub linger: Duration,
    /// Messages that the brokers have not acknowledged, at most. Beyond it, sending waits.
    pub queue_max: usize,
    /// How long a message may wait for its acknowledgement, with all retries.
    pub delivery_timeout: Duration,
    /// Refuses messages while a group of consumers has a greater lag. `None`: never.
    pub lag_limit: Option<LagLimit>,
    /// Further properties of the client library, such as `compression.type`.
    pub properties: Properties,
}

impl ProducerSettings {
    /// Durable and in order: idempotent, acknowledged by all replicas in sync.
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            linger: Duration::ZERO,
            queue_max: 100_000,
            delivery_timeout: Duration::from_secs(120),
            lag_limit: None,
            properties: Properties::new(),
        }
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut config = client_config(&self.brokers, &self.properties);
        let linger = format!("{}", self.linger.as_secs_f64() * 1e3);
        let timeout = self.delivery_timeout.as_millis().to_string();
        let defaults = [
            ("linger.ms", linger.as_str()),
            ("message.timeout.ms", timeout.as_str()),
            ("enable.idempotence", "true"),
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.messages", "0"),
            ("queue.buffering.max.kbytes", "1048576"),
        ];
        set_defaults(&mut config, &defaults, &self.properties);
        config
    }
}

/// Properties that consumers and producers share.
pub(crate) fn client_config(brokers: &str, properties: &Properties) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (name, value) in properties {
        config.set(name, value);
    }
    let defaults = [
        ("allow.auto.create.topics", "false"),
        ("client.id", "upesi"),
        ("socket.keepalive.enable", "true"),
        ("socket.nagle.disable", "true"),
        ("reconnect.backoff.ms", "50"),
        ("reconnect.backoff.max.ms", "1000"),
        ("retry.backoff.ms", "20"),
        ("topic.metadata.refresh.fast.interval.ms", "50"),
    ];
    set_defaults(&mut config, &defaults, properties);
    config.set("bootstrap.servers", brokers).set_log_level(RDKafkaLogLevel::Critical);
    config
}

fn set_defaults(config: &mut ClientConfig, defaults: &[(&str, &str)], properties: &Properties) {
    for (name, value) in defaults.iter().filter(|(name, _)| !properties.contains_key(*name)) {
        config.set(*name, *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_the_user_replace_defaults_but_no_guarantee() {
        let mut settings = ConsumerSettings::new("127.0.0.1:1", "group", &["topic"]);
        for (name, value) in [("fetch.wait.max.ms", "7"), ("enable.auto.commit", "true")] {
            settings.properties.insert(name.to_owned(), value.to_owned());
        }
        let config = settings.client_config();
        assert_eq!(config.get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
    }

    #[test]
    fn settings_without_meaning_are_named() {
        let settings = ConsumerSettings::new("127.0.0.1:1", "group", &["topic"]);
        assert_eq!(settings.fault(), None);
        let without_topics = ConsumerSettings { topics: Vec::new(), ..settings.clone() };
        assert_eq!(without_topics.fault(), Some("topics is empty: name at least one"));
        let mut blind = settings.clone();
        blind.properties.insert("statistics.interval.ms".to_owned(), "0".to_owned());
        assert_eq!(blind.fault(), Some(NO_STATISTICS));
        let small = ConsumerSettings { batch_max: 2_000, ..settings };
        assert_eq!(small.fault(), Some("waiting_max must be at least batch_max"));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retries = Retries::default();
        let pauses = [1, 2, 3, 8, 100].map(|retry| retries.pause(retry).as_millis());
        assert_eq!(pauses, [100, 200, 400, 10_000, 10_000]);
    }
}
