//! Finds or creates the topic, and checks it against the requirements of a log.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataBroker, MetadataPartition};

use crate::client::{self, ErrorLog};
use crate::settings::{self, TopicLayout};
use crate::{Address, OpenError, TopicOptions};

/// Interval between two checks whether a new topic is available.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of the first response. Then the cause is investigated.
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);

/// A topic that was checked.
pub(crate) struct SafeTopic {
    pub(crate) layout: TopicLayout,
    /// Replicas that store a record before it is acknowledged.
    pub(crate) in_sync: String,
    pub(crate) created: bool,
}

/// Permission to create a missing topic.
pub(crate) struct TopicCreation;

/// Finds or creates the topic, and checks it.
///
/// # Errors
/// [`OpenError::Unreachable`], [`OpenError::Brokers`], [`OpenError::Unsafe`], [`OpenError::NoLog`],
/// [`OpenError::TooFew`].
pub(crate) fn check(
    (consumer, quiet): (&BaseConsumer<ErrorLog>, &ErrorLog),
    address: &Address,
    options: &TopicOptions,
    make: Option<TopicCreation>,
) -> Result<SafeTopic, OpenError> {
    let fetch = |patience| consumer.fetch_metadata(Some(&address.topic), patience);
    let metadata = first_metadata((consumer, quiet), address, options)?;
    let (layout, created) = match layout(&metadata, address.named())? {
        Some(layout) => (layout, false),
        None if make.is_none() => return Err(OpenError::NoLog(address.topic.clone())),
        None => {
            create(address, options, wait_for_brokers(address, options, fetch)?)?;
            (wait_for((options, address.named()), fetch)?, true)
        }
    };
    let settings = describe(address, options)?;
    let value = |name: &str| {
        let found = settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    settings::check(&address.topic, &layout, value)?;
    let in_sync = value("min.insync.replicas").unwrap_or_default();
    Ok(SafeTopic { layout, in_sync, created })
}

/// The first response of a broker. A TLS or authentication failure is reported at once, because it
/// is permanent.
fn first_metadata(
    (consumer, quiet): (&BaseConsumer<ErrorLog>, &ErrorLog),
    address: &Address,
    options: &TopicOptions,
) -> Result<Metadata, OpenError> {
    let deadline = Instant::now() + options.patience;
    loop {
        let once = FIRST_TIMEOUT.min(options.patience);
        let error = match consumer.fetch_metadata(Some(&address.topic), once) {
            Ok(metadata) => return Ok(metadata),
            Err(error) => error,
        };
        // The library reports its errors only to a polling consumer.
        while consumer.poll(Duration::ZERO).is_some() {}
        if let Some(reason) = quiet.authentication_failure() {
            return Err(OpenError::AuthenticationFailed {
                brokers: address.brokers.clone(),
                reason,
            });
        }
        if deadline <= Instant::now() {
            return Err(unreachable(address, options, quiet, &error));
        }
    }
}

/// The partitions of an existing topic.
///
/// # Errors
/// [`OpenError::Unreachable`], [`OpenError::AuthenticationFailed`], [`OpenError::NoTopic`].
pub(crate) fn partitions(
    connected: (&BaseConsumer<ErrorLog>, &ErrorLog),
    address: &Address,
    options: &TopicOptions,
) -> Result<Vec<i32>, OpenError> {
    let metadata = first_metadata(connected, address, options)?;
    match metadata.topics().first() {
        Some(topic) if topic.error().is_none() => {
            Ok(topic.partitions().iter().map(MetadataPartition::id).collect())
        }
        _ => Err(OpenError::NoTopic(address.topic.clone())),
    }
}

fn unreachable(
    address: &Address,
    options: &TopicOptions,
    quiet: &ErrorLog,
    error: &rdkafka::error::KafkaError,
) -> OpenError {
    let last = quiet.last();
    OpenError::Unreachable {
        brokers: address.brokers.clone(),
        seconds: options.patience.as_secs(),
        reason: if last.is_empty() { error.to_string() } else { last },
    }
}

/// The topic's layout; `None` if it does not exist.
fn layout(metadata: &Metadata, named: usize) -> Result<Option<TopicLayout>, OpenError> {
    let Some(topic) = metadata.topics().first() else { return Ok(None) };
    match topic.error().map(RDKafkaErrorCode::from) {
        None | Some(RDKafkaErrorCode::LeaderNotAvailable) => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            return Ok(None);
        }
        Some(error) => return Err(OpenError::Brokers(error.to_string())),
    }
    let Some(first) = topic.partitions().first() else { return Ok(None) };
    Ok(Some(TopicLayout {
        brokers: metadata.brokers().iter().map(MetadataBroker::id).collect(),
        named,
        partitions: topic.partitions().len(),
        replicas: first.replicas().to_vec(),
    }))
}

/// Number of brokers for a new topic, once there are enough. Brokers that are starting at the same
/// time as this node are awaited.
fn wait_for_brokers(
    address: &Address,
    options: &TopicOptions,
    fetch: impl Fn(Duration) -> KafkaResult<Metadata>,
) -> Result<usize, OpenError> {
    let deadline = Instant::now() + options.patience;
    let named = address.named();
    loop {
        let metadata =
            fetch(options.patience).map_err(|error| OpenError::Brokers(error.to_string()))?;
        let alive = metadata.brokers().len();
        if TopicLayout::may_be_created(alive, named) {
            return Ok(alive);
        }
        if deadline <= Instant::now() {
            return Err(OpenError::TooFew { topic: address.topic.clone(), alive, named });
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

fn create(address: &Address, options: &TopicOptions, brokers: usize) -> Result<(), OpenError> {
    let replicas = TopicLayout::replicas_wanted(brokers);
    let settings = settings::wanted(replicas);
    let fixed = TopicReplication::Fixed(i32::try_from(replicas).expect("at most three"));
    let topic = NewTopic::new(&address.topic, 1, fixed);
    let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
    let results = administer(address, options, async |admin, asked| {
        admin.create_topics([&topic], asked).await
    })?;
    for result in results {
        match result {
            // Another node may have been faster.
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, RDKafkaErrorCode::RequestTimedOut)) => return Err(undecided(options)),
            Err((_, error)) => {
                let what = format!("topic {} was not created: {error}", address.topic);
                return Err(OpenError::Brokers(what));
            }
        }
    }
    Ok(())
}

/// Waits until every broker knows a new topic.
fn wait_for(
    (options, named): (&TopicOptions, usize),
    fetch: impl Fn(Duration) -> KafkaResult<Metadata>,
) -> Result<TopicLayout, OpenError> {
    let deadline = Instant::now() + options.patience;
    while Instant::now() < deadline {
        let metadata =
            fetch(options.patience).map_err(|error| OpenError::Brokers(error.to_string()))?;
        let led = |metadata: &Metadata| {
            let partition = metadata.topics().first().and_then(|topic| topic.partitions().first());
            partition.is_some_and(|partition| 0 <= partition.leader())
        };
        if let Some(layout) = layout(&metadata, named)?.filter(|_| led(&metadata)) {
            return Ok(layout);
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Err(OpenError::Brokers("the new topic has no leader; check the brokers".into()))
}

/// The topic's settings. A broker that does not know a new topic yet returns none.
fn describe(address: &Address, options: &TopicOptions) -> Result<Vec<(String, String)>, OpenError> {
    let deadline = Instant::now() + options.patience;
    loop {
        let settings = fetch_settings(address, options);
        let is_there = settings.as_ref().is_ok_and(|settings| !settings.is_empty());
        if is_there || deadline < Instant::now() {
            return settings;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

fn fetch_settings(
    address: &Address,
    options: &TopicOptions,
) -> Result<Vec<(String, String)>, OpenError> {
    let results = administer(address, options, async |admin, asked| {
        admin.describe_configs([&ResourceSpecifier::Topic(&address.topic)], asked).await
    })?;
    let mut settings = Vec::new();
    for result in results {
        let resource = result.map_err(|error| {
            OpenError::Brokers(format!(
                "cannot read the settings of topic {}: {error}",
                address.topic
            ))
        })?;
        let entries = resource.entries.into_iter();
        settings.extend(entries.filter_map(|entry| Some((entry.name, entry.value?))));
    }
    Ok(settings)
}

/// One request of the admin API of Kafka.
pub(crate) fn administer<R>(
    address: &Address,
    options: &TopicOptions,
    request: impl AsyncFnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> KafkaResult<R>,
) -> Result<R, OpenError> {
    let failed = |error: KafkaError| match error {
        KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut) => undecided(options),
        error => OpenError::Brokers(error.to_string()),
    };
    let admin: AdminClient<DefaultClientContext> =
        client::config(address, options).create().map_err(failed)?;
    let asked = AdminOptions::new()
        .request_timeout(Some(options.patience))
        .operation_timeout(Some(options.patience));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| OpenError::Brokers(error.to_string()))?;
    runtime.block_on(request(&admin, &asked)).map_err(failed)
}

/// Brokers respond, but their controllers do not: too few controllers are running.
fn undecided(options: &TopicOptions) -> OpenError {
    OpenError::Undecided { seconds: options.patience.as_secs() }
}
