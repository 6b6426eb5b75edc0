//! Migrates a log between files and a topic.
//!
//! # To a topic
//! [`export`] works in this order. It finds or creates the topic, and checks it. It compares the
//! topic's content, frame by frame, with the beginning of the files. It sends the remaining frames,
//! reads all of the topic back, and compares it. The observer records that the log has left the
//! files. Finally the end-of-log message is sent. The log is in the files until the observer's
//! record, and in the topic from the end-of-log message; in between it is in neither. An
//! interrupted migration is continued by the next attempt.
//!
//! # From a topic
//! A leave message ([`send_log_moved`]) ends the log for every node: later messages do not belong
//! to it. A reader that has reached it ([`TopicReader`]) has the complete log. [`compare`] compares
//! the files with the topic again.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::LocatedFrame;
use ledger::{LogIndex, Stamp};
use ports::{Arrival, Disk, StopReading};
use record::frame::{FRAME_HEADER_BYTES, Frame, LogIdentity};
use record::topic_message::{self, LogEnd, TopicMessage};

use crate::client::{self, Outbound, locked};
use crate::connect::broker_error;
use crate::consumer::{Messages, ReadMessage, TopicConsumer, is_made_of, range_of_messages};
use crate::topic::{self, TopicCreation};
use crate::{Address, OpenError, TopicOptions};

/// Why a log was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// As when a log is opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files cannot be read, or are damaged.
    #[error(transparent)]
    Files(#[from] journal::OpenError),
    /// The topic holds other messages.
    #[error(
        "topic {topic} holds {what} at offset {offset}: a log needs a topic of its own. Name a \
         topic that does not exist; it is created with the required settings"
    )]
    Occupied {
        /// The topic.
        topic: String,
        /// Offset of the first of them.
        offset: i64,
        /// Their kind.
        what: &'static str,
    },
    /// The log was migrated before, and the files have changed since.
    #[error(
        "topic {topic} holds the complete log up to record {}, but the files end at record {}: \
         they are a copy from another time. Start nodes with --log and their own data directory",
        .whole.0,
        .files.0
    )]
    FilesChanged {
        /// The topic.
        topic: String,
        /// The end of the log when it was migrated.
        whole: LogIndex,
        /// The end of the files.
        files: LogIndex,
    },
    /// The log was migrated to this topic, and has left it since.
    #[error(
        "this log was moved away from topic {topic}: a topic cannot be reused. Name a topic that \
         does not exist; it is created with the required settings"
    )]
    MovedAway {
        /// The topic.
        topic: String,
    },
    /// Files and topic differ.
    #[error(
        "topic {topic} and the files differ in the frame that begins with record {}",
        .log_index.0
    )]
    Differs {
        /// The topic.
        topic: String,
        /// First record of the frame.
        log_index: LogIndex,
    },
    /// The observer cancelled the migration.
    #[error("{0}")]
    Stopped(String),
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// Records up to this one were compared with the topic, or sent to it.
    Sent(LogIndex),
    /// Records up to this one were read back and compared.
    Read(LogIndex),
}

/// Observes a migration, and can cancel it.
pub trait MigrationObserver {
    /// Reports progress. An error ends the migration; the next attempt continues it.
    ///
    /// # Errors
    /// The reason to end it.
    fn report_progress(&mut self, step: MigrationStep) -> Result<(), String>;

    /// The complete log is in the topic: records durably that it continues there and not in the
    /// files.
    ///
    /// # Errors
    /// When that cannot be recorded. The log then continues in the files.
    fn record_log_moved(&mut self) -> Result<(), String>;
}

/// Result of a migration.
#[derive(Clone, Copy, Debug)]
pub struct ExportReport {
    /// The end of the log.
    pub end: LogEnd,
    /// Frames that were not in the topic before.
    pub frames: u64,
    /// Frames that the topic did not have before.
    pub sent: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Whether the topic was created by this migration.
    pub created: bool,
}

/// Migrates a log in files to a topic.
///
/// # Errors
/// [`MigrateError`]. The log continues in the files unless `watch` has recorded that it left.
pub fn export<D: Disk>(
    address: &Address,
    disk: &D,
    options: &TopicOptions,
    watch: &mut dyn MigrationObserver,
) -> Result<ExportReport, MigrateError> {
    let (consumer, quiet) = client::first_consumer(address, options)?;
    let checked = topic::check((&consumer, &quiet), address, options, Some(TopicCreation))?;
    let feed = TopicConsumer::new(consumer, address, options.patience);
    let outbound = ConfirmedSender::open(address, options)?;
    let range = feed.range()?;
    if 0 < range.start {
        let (topic, offset) = (address.topic.clone(), range.start);
        return Err(MigrateError::Occupied {
            topic,
            offset,
            what: "the rest of a log whose first messages were deleted",
        });
    }
    let mut sent = 0;
    let mut held = TopicHistory::of(&feed, address, range)?;
    let mut bytes = Vec::new();
    let walked = walk(disk, &mut |placed| {
        if !held.has(placed.frame)? {
            topic_message::write_frame(placed.frame, &mut bytes);
            outbound.send(&bytes)?;
            sent += 1;
        }
        watch
            .report_progress(MigrationStep::Sent(placed.frame.header().last()))
            .map_err(MigrateError::Stopped)
    });
    // After a cancellation the sent messages stay, and the next attempt continues after them.
    let flushed = outbound.flush();
    let walked = walked?;
    flushed?;
    let tail = walked.tail;
    let end = LogEnd { identity: tail.identity, log_index: tail.end, chain: tail.chain };
    let was_whole = held.close(&end)?;
    drop(held);
    let (frames, all) = (walked.frames, walked.bytes);
    let exported = ExportReport { end, frames, sent, bytes: all, created: checked.created };
    if was_whole {
        watch.record_log_moved().map_err(MigrateError::Stopped)?;
        return Ok(exported);
    }

    let until = feed.range()?.end;
    let mut held = TopicHistory::of(&feed, address, 0..until)?;
    walk(disk, &mut |placed| {
        let log_index = placed.frame.header().first;
        if !held.has(placed.frame)? {
            return Err(MigrateError::Differs { topic: address.topic.clone(), log_index });
        }
        watch
            .report_progress(MigrationStep::Read(placed.frame.header().last()))
            .map_err(MigrateError::Stopped)
    })?;
    held.close(&end)?;
    drop(held);
    watch.record_log_moved().map_err(MigrateError::Stopped)?;
    topic_message::write_end_of_moved_log(&end, &mut bytes);
    outbound.send(&bytes)?;
    outbound.flush()?;
    wait_for_whole(&feed, until, &end)?;
    Ok(exported)
}

/// Reads the end-of-log message back.
fn wait_for_whole(feed: &TopicConsumer, from: i64, end: &LogEnd) -> Result<(), OpenError> {
    let range = from..feed.range()?.end;
    let mut is_there = false;
    feed.read(range, &mut |found| {
        let message = TopicMessage::parse(found.bytes);
        is_there = matches!(message, Ok(TopicMessage::EndOfMovedLog(found)) if found == *end);
        if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if is_there {
        return Ok(());
    }
    let what = "the end-of-log message was acknowledged but cannot be read back; try again";
    Err(OpenError::Brokers(what.into()))
}

/// Visits the frames of a log in files.
fn walk<D: Disk>(
    disk: &D,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), MigrateError>,
) -> Result<journal::LogWalk, MigrateError> {
    let mut failed = None;
    let walked = journal::walk(disk, &mut |placed| {
        visit(placed).map_err(|error| {
            failed = Some(error);
            StopReading
        })
    })?;
    failed.map_or(Ok(walked), Err)
}

/// The frames of a log that a topic holds, for comparison with the files in order.
struct TopicHistory<'a> {
    messages: Messages<'a>,
    topic: &'a str,
    /// The last record found.
    last: LogIndex,
}

impl<'a> TopicHistory<'a> {
    fn of(
        feed: &'a TopicConsumer,
        address: &'a Address,
        range: Range<i64>,
    ) -> Result<Self, MigrateError> {
        let messages = feed.messages(range)?;
        Ok(Self { messages, topic: &address.topic, last: LogIndex(0) })
    }

    /// Whether the topic holds the next frame of the files; false after its end.
    fn has(&mut self, frame: &Frame<'_>) -> Result<bool, MigrateError> {
        let first = frame.header().first;
        let topic = || self.topic.to_owned();
        while let Some(message) = self.messages.next()? {
            let found = ReadMessage::of(&message);
            let occupied =
                |what| MigrateError::Occupied { topic: topic(), offset: found.offset, what };
            match TopicMessage::parse(found.bytes) {
                Ok(TopicMessage::Frame(held)) if held.as_bytes() == frame.as_bytes() => {
                    self.last = frame.header().last();
                    return Ok(true);
                }
                Ok(TopicMessage::Frame(held))
                    if held.header().identity != frame.header().identity =>
                {
                    return Err(occupied("another log"));
                }
                // A late message of an earlier attempt.
                Ok(TopicMessage::Frame(held)) if held.header().last() <= self.last => {}
                Ok(TopicMessage::Frame(_)) => {
                    return Err(MigrateError::Differs { topic: topic(), log_index: first });
                }
                Ok(TopicMessage::EndOfMovedLog(whole)) => {
                    self.check_log_moved(whole.identity)?;
                    let files = frame.header().last();
                    return Err(MigrateError::FilesChanged {
                        topic: topic(),
                        whole: whole.log_index,
                        files,
                    });
                }
                Ok(
                    TopicMessage::Bundle(_) | TopicMessage::State(_) | TopicMessage::LogMoved(_),
                ) => {
                    return Err(occupied("a log that was started there"));
                }
                Err(_) => return Err(occupied("a message that does not belong to a log")),
            }
        }
        Ok(false)
    }

    /// After the end-of-log message: fails if the log has left the topic.
    fn check_log_moved(&mut self, identity: LogIdentity) -> Result<(), MigrateError> {
        while let Some(message) = self.messages.next()? {
            let parsed = TopicMessage::parse(ReadMessage::of(&message).bytes);
            if matches!(parsed, Ok(TopicMessage::LogMoved(moved)) if moved == identity) {
                return Err(MigrateError::MovedAway { topic: self.topic.to_owned() });
            }
        }
        Ok(())
    }

    /// After the last frame of the files: allows only the end-of-log message and later messages of
    /// nodes. Returns whether that message exists.
    fn close(&mut self, end: &LogEnd) -> Result<bool, MigrateError> {
        let topic = || self.topic.to_owned();
        while let Some(message) = self.messages.next()? {
            let found = ReadMessage::of(&message);
            match TopicMessage::parse(found.bytes) {
                Ok(TopicMessage::EndOfMovedLog(whole)) if whole == *end => {
                    self.check_log_moved(end.identity)?;
                    return Ok(true);
                }
                Ok(TopicMessage::Frame(held)) if held.header().last() <= self.last => {}
                Ok(TopicMessage::Frame(held)) => {
                    let (whole, files) = (held.header().last(), end.log_index);
                    return Err(MigrateError::FilesChanged { topic: topic(), whole, files });
                }
                _ => {
                    let what = "a message that does not belong to this log";
                    let offset = found.offset;
                    return Err(MigrateError::Occupied { topic: topic(), offset, what });
                }
            }
        }
        Ok(false)
    }
}

/// Sends messages that must all be acknowledged.
struct ConfirmedSender {
    outbound: Outbound,
    /// Why a message was not acknowledged.
    lost: Arc<Mutex<Option<String>>>,
    patience: Duration,
}

impl ConfirmedSender {
    fn open(address: &Address, options: &TopicOptions) -> Result<Self, OpenError> {
        let lost = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&lost);
        let sink = Arc::new(move |arrival: Arrival| {
            if let Arrival::Lost { reason, .. } = arrival {
                locked(&noted).get_or_insert(reason);
            }
            true
        });
        let outbound = Outbound::open(address, options, sink).map_err(broker_error)?;
        Ok(Self { outbound, lost, patience: options.patience })
    }

    fn send(&self, message: &[u8]) -> Result<(), OpenError> {
        self.check()?;
        self.outbound.send_patiently(message, self.patience).map_err(OpenError::Brokers)
    }

    fn flush(&self) -> Result<(), OpenError> {
        // Each message is acknowledged or fails within the timeout, counted from its sending.
        self.outbound.flush(2 * self.patience).map_err(broker_error)?;
        self.check()
    }

    fn check(&self) -> Result<(), OpenError> {
        let lost = locked(&self.lost);
        lost.as_ref().map_or(Ok(()), |reason| Err(OpenError::Brokers(reason.clone())))
    }
}

/// Sends the leave message: the log continues elsewhere, and later messages do not belong to it.
///
/// # Errors
/// [`OpenError::Brokers`] when the message is not known to have arrived; it may have arrived.
pub fn send_log_moved(
    address: &Address,
    options: &TopicOptions,
    identity: LogIdentity,
) -> Result<(), OpenError> {
    let outbound = ConfirmedSender::open(address, options)?;
    let mut bytes = Vec::new();
    topic_message::write_log_moved(identity, &mut bytes);
    outbound.send(&bytes)?;
    outbound.flush()
}

/// Reads a topic without being a node.
pub struct TopicReader {
    feed: TopicConsumer,
    address: Address,
    options: TopicOptions,
}

impl TopicReader {
    /// Opens an existing topic.
    ///
    /// # Errors
    /// [`OpenError::Brokers`].
    pub fn open(address: &Address, options: &TopicOptions) -> Result<Self, OpenError> {
        let (consumer, _) = client::consumer(address, options).map_err(broker_error)?;
        let feed = TopicConsumer::new(consumer, address, options.patience);
        Ok(Self { feed, address: address.clone(), options: options.clone() })
    }

    /// The first offset, and the offset after the last message.
    ///
    /// # Errors
    /// [`OpenError::Brokers`].
    pub fn range(&self) -> Result<Range<i64>, OpenError> {
        range_of_messages(&self.feed, &self.address, &self.options)
    }

    /// Visits the messages at these offsets, with their arrival times, until the visitor stops.
    ///
    /// # Errors
    /// [`OpenError::Brokers`].
    pub fn read(
        &self,
        offsets: Range<i64>,
        visit: &mut dyn FnMut(Stamp, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        self.feed.read(offsets, &mut |found| visit(found.at, found.bytes))
    }
}

/// Compares the frames of a copy with the topic's messages from the first one: each frame was
/// migrated as it is, or was made from a bundle with exactly these records. Frames whose messages
/// were deleted from the topic are not compared. `report_progress` receives the progress.
///
/// # Errors
/// [`MigrateError::Differs`] at the first frame that the topic does not hold in this order.
pub fn compare<D: Disk>(
    reader: &TopicReader,
    address: &Address,
    disk: &D,
    report_progress: &mut dyn FnMut(LogIndex),
) -> Result<journal::LogWalk, MigrateError> {
    let range = reader.range()?;
    let mut deleted = match range.start {
        0 => None,
        _ => first_of(reader, &range)?,
    };
    let mut messages = reader.feed.messages(range)?;
    let differs = |log_index| MigrateError::Differs { topic: address.topic.clone(), log_index };
    let walked = walk(disk, &mut |placed| {
        let frame = placed.frame;
        report_progress(frame.header().last());
        if deleted.take_if(|first| is_of(frame, first)).is_none() && deleted.is_some() {
            return Ok(());
        }
        while let Some(message) = messages.next()? {
            if is_of(frame, ReadMessage::of(&message).bytes) {
                return Ok(());
            }
        }
        Err(differs(frame.header().first))
    })?;
    match deleted {
        None => Ok(walked),
        Some(_) => Err(differs(walked.tail.next())),
    }
}

/// The first message of a topic.
fn first_of(reader: &TopicReader, range: &Range<i64>) -> Result<Option<Vec<u8>>, OpenError> {
    let mut first = None;
    reader.feed.read(range.start..range.end.min(range.start + 1), &mut |found| {
        first = Some(found.bytes.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Whether a message holds a frame, or the bundle that it was made from.
fn is_of(frame: &Frame<'_>, message: &[u8]) -> bool {
    match TopicMessage::parse(message) {
        Ok(TopicMessage::Frame(held)) => held.as_bytes() == frame.as_bytes(),
        Ok(TopicMessage::Bundle(bundle)) => {
            let records = &frame.as_bytes()[FRAME_HEADER_BYTES..];
            is_made_of(frame.header(), &bundle) && bundle.records == records
        }
        Ok(TopicMessage::EndOfMovedLog(_) | TopicMessage::State(_) | TopicMessage::LogMoved(_))
        | Err(_) => false,
    }
}
