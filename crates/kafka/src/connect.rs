//! Opens a log on Kafka: checks the topic, starts a log in it if it is empty, and compares the
//! local copy with it.

use std::time::{Duration, Instant};

use journal::{FileLog, Recovery};
use ports::{Arrival, Disk, Log as _, StopReading};
use record::frame::{FrameHeader, LogIdentity};
use sequencer::{GenesisMessage, LastMessage};

use crate::client::{self, Outbound};
use crate::consumer::{TopicConsumer, range_of_messages};
use crate::topic::{self, TopicCreation};
use crate::{Address, OpenError, Security};

/// Options of a log on Kafka.
#[derive(Clone, Debug)]
pub struct TopicOptions {
    /// The node's name, used as its client id.
    pub node: String,
    /// Maximum wait for brokers: when opening, and for each message.
    pub patience: Duration,
    /// Options of the local copy.
    pub copy: journal::LogOptions,
    /// How node and brokers authenticate each other.
    pub security: Security,
}

/// The behavior if there is no log.
#[derive(Clone, Copy, Debug)]
pub enum MissingLog<'a> {
    /// Create the topic, and start a log in it.
    Create(&'a GenesisMessage),
    /// Fail with [`OpenError::NoLog`].
    Refuse,
}

/// Result of opening a log.
#[derive(Clone, Debug)]
pub struct ConnectReport {
    /// Whether the topic was created by this call.
    pub created: bool,
    /// Brokers in the cluster.
    pub brokers: usize,
    /// Replicas of the topic.
    pub replicas: usize,
    /// Replicas that store a record before it is acknowledged.
    pub in_sync: String,
    /// Messages of the topic after the end of the local copy.
    pub behind: u64,
    /// Result of recovering the local copy.
    pub copy: Recovery,
}

/// An open log.
#[derive(Debug)]
pub struct ConnectedLog<D: Disk> {
    /// The local copy, up to its end.
    pub copy: FileLog<D>,
    /// The offset of the next message.
    pub next: i64,
    /// The bundle at the end of the local copy. `None` if the copy is empty, or ends with migrated
    /// frames.
    pub last: Option<LastMessage>,
    /// Result of opening.
    pub report: ConnectReport,
}

/// Opens the log of a topic with its local copy on a disk. The copy may lag or be empty. An empty
/// topic gets a first message, unless another node was faster.
///
/// # Errors
/// [`OpenError`].
pub fn open<D: Disk + Clone>(
    address: &Address,
    disk: D,
    options: &TopicOptions,
    missing: MissingLog<'_>,
) -> Result<ConnectedLog<D>, OpenError> {
    let (consumer, quiet) = client::first_consumer(address, options)?;
    let make = matches!(missing, MissingLog::Create(_));
    let checked =
        topic::check((&consumer, &quiet), address, options, make.then_some(TopicCreation))?;
    let feed = TopicConsumer::new(consumer, address, options.patience);
    let mut range = range_of_messages(&feed, address, options)?;
    let identity = match (feed.identity(&range)?, missing) {
        (Some(identity), _) => identity,
        (None, MissingLog::Create(genesis)) => {
            create_log(address, options, genesis)?;
            let identity = wait_for_identity(&feed, options)?;
            range = range_of_messages(&feed, address, options)?;
            identity
        }
        (None, MissingLog::Refuse) => return Err(OpenError::NoLog(address.topic.clone())),
    };
    let start_deleted =
        OpenError::StartDeleted { topic: address.topic.clone(), offset: range.start };
    let opened = match FileLog::open(disk.clone(), options.copy) {
        // Create nothing, so that the next start can begin with a copy.
        Err(journal::OpenError::NoLog) if 0 < range.start => return Err(start_deleted),
        Err(journal::OpenError::NoLog) => FileLog::open_or_create(disk, identity, options.copy),
        opened => opened,
    };
    let (mut copy, recovery) = opened?;
    let tail = copy.tail();
    if tail.end.0 == 0 && 0 < range.start {
        return Err(start_deleted);
    }
    let other_log = || OpenError::OtherLog { topic: address.topic.clone(), end: tail.end };
    if tail.identity != identity {
        return Err(other_log());
    }
    let (mut next, mut last) = (range.start, None);
    if 0 < tail.end.0 {
        let header = last_frame(&mut copy)?.ok_or_else(other_log)?;
        let (offset, message) = feed.locate(&range, &header)?.ok_or_else(other_log)?;
        (next, last) = (offset + 1, message);
    }
    let report = ConnectReport {
        created: checked.created,
        brokers: checked.layout.brokers.len(),
        replicas: checked.layout.replicas.len(),
        in_sync: checked.in_sync,
        behind: range.end.saturating_sub(next).max(0) as u64,
        copy: recovery,
    };
    Ok(ConnectedLog { copy: copy.into_copy(), next, last, report })
}

fn wait_for_identity(
    feed: &TopicConsumer,
    options: &TopicOptions,
) -> Result<LogIdentity, OpenError> {
    let deadline = Instant::now() + options.patience;
    while Instant::now() < deadline {
        if let Some(identity) = feed.identity(&feed.range()?)? {
            return Ok(identity);
        }
    }
    Err(OpenError::Brokers(
        "the first message of the log did not arrive in time; check the brokers".into(),
    ))
}

pub(crate) fn broker_error(error: rdkafka::error::KafkaError) -> OpenError {
    OpenError::Brokers(error.to_string())
}

fn last_frame<D: Disk>(copy: &mut FileLog<D>) -> Result<Option<FrameHeader>, OpenError> {
    let mut last = None;
    let end = copy.end();
    copy.replay(end, &mut |frame| {
        last = Some(*frame.header());
        Err(StopReading)
    })?;
    Ok(last)
}

/// Sends the message that starts a log. It counts only if it is the first in the topic; every
/// reader of the topic decides that.
fn create_log(
    address: &Address,
    options: &TopicOptions,
    genesis: &GenesisMessage,
) -> Result<(), OpenError> {
    let sink = std::sync::Arc::new(|_: Arrival| true);
    let outbound = Outbound::open(address, options, sink).map_err(broker_error)?;
    outbound.send(&genesis.bundle(&options.node), 0).map_err(OpenError::Brokers)?;
    outbound.flush(options.patience).map_err(broker_error)
}
