//! Moving a log between files and a topic.
//!
//! # To a topic
//! [`export`], in this order: the topic is found or made, and checked; what it holds is compared
//! with the files, frame by frame, and must be their beginning; the rest is sent; all of the topic
//! is read back and compared; whoever moves the log notes that it has left the files; the word that
//! it is whole is sent. Up to the note the log goes on in the files, from that word on in the
//! topic, and in between nowhere. What was interrupted goes on with the next attempt.
//!
//! # From a topic
//! A word that the log has left ([`say_left`]) ends it for every node: what stands behind is no
//! part of it. Whoever has read up to there ([`Reader`]) has all of it; [`compare`] holds the files
//! against the topic once more.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::LocatedFrame;
use ledger::{LogIndex, Stamp};
use ports::{Arrival, Disk, StopReading};
use record::frame::{FRAME_HEADER_BYTES, Frame, LogIdentity};
use record::topic_message::{self, LogEnd, TopicMessage};

use crate::client::{self, Outbound, locked};
use crate::connect::cannot;
use crate::consumer::{Messages, ReadMessage, TopicConsumer, is_made_of, range_of_messages};
use crate::topic::{self, TopicCreation};
use crate::{Address, OpenError, Options};

/// Why a log was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// As when a log is opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files cannot be read, or are damaged.
    #[error(transparent)]
    Files(#[from] journal::OpenError),
    /// The topic holds something else.
    #[error(
        "topic {topic} holds {what} at offset {offset}: a log is moved to a topic of its own. Name \
         one that does not exist, and it is made as it must be"
    )]
    Occupied {
        /// The topic.
        topic: String,
        /// Where.
        offset: i64,
        /// What.
        what: &'static str,
    },
    /// The log was moved before, and the files hold something else than then.
    #[error(
        "topic {topic} holds this log whole, up to record {}, and the files end at record {}: they \
         are a copy from another time. Start nodes with --log and a directory of their own",
        .whole.0,
        .files.0
    )]
    Older {
        /// The topic.
        topic: String,
        /// Where the log ended when it was moved.
        whole: LogIndex,
        /// Where the files end.
        files: LogIndex,
    },
    /// The log was moved there, and has gone on elsewhere since.
    #[error(
        "this log was in topic {topic} and has left it: a topic is used once. Name one that does \
         not exist, and it is made as it must be"
    )]
    Left {
        /// The topic.
        topic: String,
    },
    /// The files are not what the topic says.
    #[error(
        "topic {topic} does not hold the frame that begins with record {} as the files have it",
        .log_index.0
    )]
    Differs {
        /// The topic.
        topic: String,
        /// First record of the frame.
        log_index: LogIndex,
    },
    /// Whoever moves the log gave up.
    #[error("{0}")]
    Stopped(String),
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// Records were compared with what the topic held, or sent to it.
    Sent(LogIndex),
    /// Records were read back and compared.
    Read(LogIndex),
}

/// What whoever moves a log says to it.
pub trait MigrationObserver {
    /// So much is done. With an error the move ends, and goes on with the next attempt.
    ///
    /// # Errors
    /// Whatever ends it.
    fn tell(&mut self, step: MigrationStep) -> Result<(), String>;

    /// All of the log is in the topic: notes, durably, that it goes on there and not in the files.
    ///
    /// # Errors
    /// When that cannot be noted: then the log goes on in the files.
    fn note_left(&mut self) -> Result<(), String>;
}

/// What was moved.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    /// Where the log ends.
    pub end: LogEnd,
    /// Its frames.
    pub frames: u64,
    /// Frames that the topic did not have before.
    pub sent: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Whether the topic was made just now.
    pub created: bool,
}

/// Moves a log in files to a topic.
///
/// # Errors
/// [`MigrateError`]; the log goes on in the files unless `watch` has noted that it left.
pub fn export<D: Disk>(
    address: &Address,
    disk: &D,
    options: &Options,
    watch: &mut dyn MigrationObserver,
) -> Result<Exported, MigrateError> {
    let (consumer, quiet) = client::first_consumer(address, options)?;
    let checked = topic::check((&consumer, &quiet), address, options, Some(TopicCreation))?;
    let feed = TopicConsumer::new(consumer, address, options.patience);
    let outbound = Confirmed::open(address, options)?;
    let range = feed.range()?;
    if 0 < range.start {
        let (topic, offset) = (address.topic.clone(), range.start);
        return Err(MigrateError::Occupied {
            topic,
            offset,
            what: "what follows on deleted messages",
        });
    }
    let mut sent = 0;
    let mut held = History::of(&feed, address, range)?;
    let mut bytes = Vec::new();
    let walked = walk(disk, &mut |placed| {
        if !held.has(placed.frame)? {
            topic_message::write_frame(placed.frame, &mut bytes);
            outbound.send(&bytes)?;
            sent += 1;
        }
        watch.tell(MigrationStep::Sent(placed.frame.header().last())).map_err(MigrateError::Stopped)
    });
    // Who gives up keeps what was sent, and the next attempt goes on behind it.
    let flushed = outbound.flush();
    let walked = walked?;
    flushed?;
    let tail = walked.tail;
    let end = LogEnd { identity: tail.identity, log_index: tail.end, chain: tail.chain };
    let was_whole = held.close(&end)?;
    drop(held);
    let (frames, all) = (walked.frames, walked.bytes);
    let exported = Exported { end, frames, sent, bytes: all, created: checked.created };
    if was_whole {
        watch.note_left().map_err(MigrateError::Stopped)?;
        return Ok(exported);
    }

    let until = feed.range()?.end;
    let mut held = History::of(&feed, address, 0..until)?;
    walk(disk, &mut |placed| {
        let log_index = placed.frame.header().first;
        if !held.has(placed.frame)? {
            return Err(MigrateError::Differs { topic: address.topic.clone(), log_index });
        }
        watch.tell(MigrationStep::Read(placed.frame.header().last())).map_err(MigrateError::Stopped)
    })?;
    held.close(&end)?;
    drop(held);
    watch.note_left().map_err(MigrateError::Stopped)?;
    topic_message::write_whole(&end, &mut bytes);
    outbound.send(&bytes)?;
    outbound.flush()?;
    wait_for_whole(&feed, until, &end)?;
    Ok(exported)
}

/// Reads the word that a log is whole back.
fn wait_for_whole(feed: &TopicConsumer, from: i64, end: &LogEnd) -> Result<(), OpenError> {
    let range = from..feed.range()?.end;
    let mut is_there = false;
    feed.read(range, &mut |found| {
        let message = TopicMessage::parse(found.bytes);
        is_there = matches!(message, Ok(TopicMessage::Whole(found)) if found == *end);
        if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if is_there {
        return Ok(());
    }
    let what = "the word that the log is whole was acknowledged and is not there; try again";
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

/// What a topic holds of a log that is moved to it, held against the frames in their order.
struct History<'a> {
    messages: Messages<'a>,
    topic: &'a str,
    /// The last record found.
    last: LogIndex,
}

impl<'a> History<'a> {
    fn of(
        feed: &'a TopicConsumer,
        address: &'a Address,
        range: Range<i64>,
    ) -> Result<Self, MigrateError> {
        let messages = feed.messages(range)?;
        Ok(Self { messages, topic: &address.topic, last: LogIndex(0) })
    }

    /// Whether the topic holds the next frame of the files; false behind its end.
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
                // A message of an earlier attempt that came late.
                Ok(TopicMessage::Frame(held)) if held.header().last() <= self.last => {}
                Ok(TopicMessage::Frame(_)) => {
                    return Err(MigrateError::Differs { topic: topic(), log_index: first });
                }
                Ok(TopicMessage::Whole(whole)) => {
                    self.check_left(whole.identity)?;
                    let files = frame.header().last();
                    return Err(MigrateError::Older {
                        topic: topic(),
                        whole: whole.log_index,
                        files,
                    });
                }
                Ok(TopicMessage::Bundle(_) | TopicMessage::State(_) | TopicMessage::Left(_)) => {
                    return Err(occupied("a log that began there"));
                }
                Err(_) => return Err(occupied("a message that is no part of a log")),
            }
        }
        Ok(false)
    }

    /// Behind the word that the log is whole: fails when it has left.
    fn check_left(&mut self, identity: LogIdentity) -> Result<(), MigrateError> {
        while let Some(message) = self.messages.next()? {
            let said = TopicMessage::parse(ReadMessage::of(&message).bytes);
            if matches!(said, Ok(TopicMessage::Left(left)) if left == identity) {
                return Err(MigrateError::Left { topic: self.topic.to_owned() });
            }
        }
        Ok(())
    }

    /// Behind the last frame of the files: nothing more may be there but the word that this was
    /// all, and what nodes wrote behind that. Whether it is.
    fn close(&mut self, end: &LogEnd) -> Result<bool, MigrateError> {
        let topic = || self.topic.to_owned();
        while let Some(message) = self.messages.next()? {
            let found = ReadMessage::of(&message);
            match TopicMessage::parse(found.bytes) {
                Ok(TopicMessage::Whole(whole)) if whole == *end => {
                    self.check_left(end.identity)?;
                    return Ok(true);
                }
                Ok(TopicMessage::Frame(held)) if held.header().last() <= self.last => {}
                Ok(TopicMessage::Frame(held)) => {
                    let (whole, files) = (held.header().last(), end.log_index);
                    return Err(MigrateError::Older { topic: topic(), whole, files });
                }
                _ => {
                    let what = "a message that is no part of this log";
                    let offset = found.offset;
                    return Err(MigrateError::Occupied { topic: topic(), offset, what });
                }
            }
        }
        Ok(false)
    }
}

/// Sends messages, all of which must be acknowledged.
struct Confirmed {
    outbound: Outbound,
    /// Why one was not.
    lost: Arc<Mutex<Option<String>>>,
    patience: Duration,
}

impl Confirmed {
    fn open(address: &Address, options: &Options) -> Result<Self, OpenError> {
        let lost = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&lost);
        let sink = Arc::new(move |arrival: Arrival| {
            if let Arrival::Lost { reason, .. } = arrival {
                locked(&noted).get_or_insert(reason);
            }
            true
        });
        let outbound = Outbound::open(address, options, sink).map_err(cannot)?;
        Ok(Self { outbound, lost, patience: options.patience })
    }

    fn send(&self, message: &[u8]) -> Result<(), OpenError> {
        self.check()?;
        self.outbound.send_patiently(message, self.patience).map_err(OpenError::Brokers)
    }

    fn flush(&self) -> Result<(), OpenError> {
        // Each message is acknowledged or given up within the patience, counted from its sending.
        self.outbound.flush(2 * self.patience).map_err(cannot)?;
        self.check()
    }

    fn check(&self) -> Result<(), OpenError> {
        let lost = locked(&self.lost);
        lost.as_ref().map_or(Ok(()), |reason| Err(OpenError::Brokers(reason.clone())))
    }
}

/// Says in the topic that a log goes on elsewhere. What stands behind that is no part of it.
///
/// # Errors
/// [`OpenError::Brokers`] when that is not known to have arrived; it may have.
pub fn say_left(
    address: &Address,
    options: &Options,
    identity: LogIdentity,
) -> Result<(), OpenError> {
    let outbound = Confirmed::open(address, options)?;
    let mut bytes = Vec::new();
    topic_message::write_left(identity, &mut bytes);
    outbound.send(&bytes)?;
    outbound.flush()
}

/// Reads a topic from outside of a node.
pub struct Reader {
    feed: TopicConsumer,
    address: Address,
    options: Options,
}

impl Reader {
    /// Over a topic that is there.
    ///
    /// # Errors
    /// [`OpenError::Brokers`].
    pub fn open(address: &Address, options: &Options) -> Result<Self, OpenError> {
        let (consumer, _) = client::consumer(address, options).map_err(cannot)?;
        let feed = TopicConsumer::new(consumer, address, options.patience);
        Ok(Self { feed, address: address.clone(), options: options.clone() })
    }

    /// The first offset, and the one behind the last message.
    ///
    /// # Errors
    /// [`OpenError::Brokers`].
    pub fn range(&self) -> Result<Range<i64>, OpenError> {
        range_of_messages(&self.feed, &self.address, &self.options)
    }

    /// Shows the messages at these offsets, with the times of their arrival, until the visitor has
    /// enough.
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

/// Holds the frames of a copy against the messages of the topic from its first on: each was moved
/// there as it is, or was made of a bundle with just these records. Frames of messages that were
/// deleted from the topic have nothing to be held against. `tell` hears how far it is.
///
/// # Errors
/// [`MigrateError::Differs`] at the first frame that the topic does not hold, in this order.
pub fn compare<D: Disk>(
    reader: &Reader,
    address: &Address,
    disk: &D,
    tell: &mut dyn FnMut(LogIndex),
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
        tell(frame.header().last());
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
fn first_of(reader: &Reader, range: &Range<i64>) -> Result<Option<Vec<u8>>, OpenError> {
    let mut first = None;
    reader.feed.read(range.start..range.end.min(range.start + 1), &mut |found| {
        first = Some(found.bytes.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Whether a message holds a frame, or the bundle that it was made of.
fn is_of(frame: &Frame<'_>, message: &[u8]) -> bool {
    match TopicMessage::parse(message) {
        Ok(TopicMessage::Frame(held)) => held.as_bytes() == frame.as_bytes(),
        Ok(TopicMessage::Bundle(bundle)) => {
            let records = &frame.as_bytes()[FRAME_HEADER_BYTES..];
            is_made_of(frame.header(), &bundle) && bundle.records == records
        }
        Ok(TopicMessage::Whole(_) | TopicMessage::State(_) | TopicMessage::Left(_)) | Err(_) => {
            false
        }
    }
}
