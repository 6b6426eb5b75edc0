//! The log itself.

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use journal::{FileLog, Recovery, admit};
use ledger::Position;
use ports::{Disk, Log, LogError, RecordReader, Rejection, Visitor};
use record::frame::{Frame, FrameHeader, LogIdentity, Tail};

use crate::client::{self, Outbound, locked};
use crate::feed::{Feed, Kind};
use crate::{Address, OpenError, topic};

/// Frames that may be under way; the next append waits for them.
pub const FRAMES_MAX: usize = 64;
/// Bytes of frames that may be under way, but for the last frame.
pub const BYTES_MAX: usize = 32 << 20;

/// Between two looks whether somebody else writes.
const WATCH: Duration = Duration::from_secs(1);

/// How a log on Kafka is opened and kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, by which brokers know it.
    pub node: String,
    /// How long brokers are waited for: when opening, and for each acknowledgement.
    pub patience: Duration,
    /// The log's identity if the topic is empty. It must be random: no participant may guess it.
    pub identity: LogIdentity,
    /// How the copy is kept.
    pub copy: journal::Options,
}

/// What was found and done when a log was opened.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the topic was made just now.
    pub created: bool,
    /// Brokers in the cluster.
    pub brokers: usize,
    /// Replicas of the topic.
    pub replicas: usize,
    /// Replicas that have a record before it is acknowledged.
    pub in_sync: String,
    /// Records fetched that the copy did not have.
    pub fetched: u64,
    /// Messages passed over: of writers that were too late.
    pub late: u64,
    /// What recovering the copy found.
    pub copy: Recovery,
}

/// A log on Kafka, with its copy on a [`Disk`].
pub struct KafkaLog<D: Disk> {
    copy: FileLog<D>,
    feed: Feed,
    outbound: Outbound,
    patience: Duration,
    /// The log's end for whoever appends; the copy's is what is durable.
    tail: Tail,
    /// Frames handed over and not known to be stored.
    sent: VecDeque<Vec<u8>>,
    sent_bytes: usize,
    /// The offset that the first of them must get.
    next: i64,
    /// For the watch.
    reached: Arc<Mutex<Reached>>,
    poisoned: bool,
    watch: Watch,
}

/// Opens the log of a topic with its copy on a disk. Both may be empty; the copy may lag, or be
/// empty.
///
/// # Errors
/// [`OpenError`]. What was fetched by then is in the copy; nothing was written to the topic.
pub fn open<D: Disk + Clone>(
    address: &Address,
    disk: D,
    options: &Options,
) -> Result<(KafkaLog<D>, Report), OpenError> {
    let cannot = |error: rdkafka::error::KafkaError| OpenError::Brokers(error.to_string());
    let (consumer, quiet) = client::consumer(address, options).map_err(cannot)?;
    let checked = topic::check((&consumer, &quiet), address, options)?;
    let feed = Feed::new(consumer, address, options.patience);
    let range = feed.range()?;
    let identity = feed.identity(&range)?.unwrap_or(options.identity);
    let (mut copy, recovery) = FileLog::open_or_create(disk, identity, options.copy)?;
    let before = copy.tail();
    let mut from = range.start;
    if before.end.0 == 0 && 0 < range.start {
        let topic = address.topic.clone();
        return Err(OpenError::Beheaded { topic, offset: range.start });
    }
    let another = || OpenError::Another { topic: address.topic.clone(), end: before.end };
    if before.identity != identity {
        return Err(another());
    }
    if 0 < before.end.0 {
        from = feed.locate(&range, &before)?.ok_or_else(another)? + 1;
    }
    let mut late = 0;
    feed.read(from..range.end, &mut |offset, bytes| {
        match feed.judge(offset, bytes, &copy.tail())? {
            Kind::Next(_) => copy.append_durable(bytes)?,
            Kind::Late => late += 1,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let report = Report {
        created: checked.created,
        brokers: checked.layout.brokers,
        replicas: checked.layout.replicas,
        in_sync: checked.in_sync,
        fetched: copy.end().0 - before.end.0,
        late,
        copy: recovery,
    };
    let reached = Reached { offset: range.end, tail: copy.tail() };
    let reached = Arc::new(Mutex::new(reached));
    let (watching, _) = client::consumer(address, options).map_err(cannot)?;
    let watch = Watch::start(Feed::new(watching, address, WATCH), Arc::clone(&reached))?;
    let log = KafkaLog {
        tail: copy.tail(),
        copy,
        feed,
        outbound: Outbound::open(address, options).map_err(cannot)?,
        patience: options.patience,
        sent: VecDeque::new(),
        sent_bytes: 0,
        next: range.end,
        reached,
        poisoned: false,
        watch,
    };
    Ok((log, report))
}

impl<D: Disk> KafkaLog<D> {
    /// The copy, for whoever follows the log from another thread.
    #[must_use]
    pub fn copy(&self) -> &FileLog<D> {
        &self.copy
    }

    /// Tells whether somebody else has written to the topic.
    #[must_use]
    pub fn overtaken(&self) -> Overtaken {
        self.watch.overtaken.clone()
    }

    fn check_poison(&self) -> Result<(), LogError> {
        if self.poisoned { Err(LogError::Poisoned) } else { Ok(()) }
    }

    fn poison(&mut self, reason: String) -> LogError {
        self.poisoned = true;
        LogError::Storage(reason)
    }

    /// After everything sent was acknowledged, and not at the offsets expected: reads which of it
    /// is the log.
    fn settle(&mut self) -> Result<(), String> {
        let end = self.feed.range().map_err(|error| error.to_string())?.end;
        let mut tail = self.copy.tail();
        let mut ours = self.sent.iter();
        let mut overtaken = None;
        let read = self.feed.read(self.next..end, &mut |offset, bytes| {
            if let Kind::Next(after) = self.feed.judge(offset, bytes, &tail)? {
                if ours.next().is_none_or(|frame| frame != bytes) {
                    overtaken = FrameHeader::parse(bytes).ok();
                    return Ok(ControlFlow::Break(()));
                }
                tail = after;
            }
            Ok(ControlFlow::Continue(()))
        });
        read.map_err(|error| error.to_string())?;
        match overtaken {
            Some(by) => Err(format!(
                "another node (number {}, in its life {}) wrote record {} to the topic: it goes \
                 on with the log, and this one must not",
                by.batch.node, by.batch.epoch, by.first.0
            )),
            None if ours.next().is_some() => {
                Err("a frame was acknowledged and is not in the topic".into())
            }
            None => {
                self.next = end - self.sent.len() as i64;
                Ok(())
            }
        }
    }

    /// Everything sent is in the topic: it goes into the copy.
    fn keep(&mut self) -> Result<(), LogError> {
        self.next += self.sent.len() as i64;
        locked(&self.reached).offset = self.next;
        self.sent_bytes = 0;
        for frame in self.sent.drain(..) {
            self.copy.append_durable(&frame)?;
        }
        self.tail = self.copy.tail();
        Ok(())
    }

    fn wait(&mut self) -> Result<(), String> {
        let offsets = self.outbound.wait(self.sent.len(), self.patience)?;
        let expected = self.next..self.next + self.sent.len() as i64;
        if expected.eq(offsets) { Ok(()) } else { self.settle() }
    }
}

impl<D: Disk> Log for KafkaLog<D> {
    fn tail(&self) -> Tail {
        self.tail
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.check_poison()?;
        let header = admit(&self.tail, frame)?;
        if self.sent.len() == FRAMES_MAX || BYTES_MAX < self.sent_bytes {
            self.sync()?;
        }
        self.tail = header.follows(&self.tail).map_err(Rejection::Order)?;
        self.sent.push_back(frame.to_vec());
        self.sent_bytes += frame.len();
        // Before it is on its way: the watch must not take it for somebody else's.
        let offset = self.next + self.sent.len() as i64;
        *locked(&self.reached) = Reached { offset, tail: self.tail };
        self.outbound.send(frame).map_err(|reason| self.poison(reason))
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.check_poison()?;
        if self.sent.is_empty() {
            return Ok(());
        }
        if let Err(reason) = self.wait() {
            return Err(self.poison(reason));
        }
        self.keep().map_err(|error| self.poison(format!("its copy: {error}")))
    }

    fn replay(&mut self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.check_poison()?;
        let mut stopped = false;
        self.copy.replay(from, &mut |frame| visit(frame).inspect_err(|_| stopped = true))?;
        for bytes in self.sent.iter().take_while(|_| !stopped) {
            let frame = Frame::parse(bytes).map_err(Rejection::Frame)?;
            if from <= frame.header().last() && visit(&frame).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.copy.reader()
    }
}

impl<D: Disk> Drop for KafkaLog<D> {
    /// What is under way may arrive or not; better before somebody opens the log anew.
    fn drop(&mut self) {
        if !self.poisoned && !self.sent.is_empty() {
            let _known = self.outbound.wait(self.sent.len(), Duration::ZERO);
        }
    }
}

impl<D: Disk> fmt::Debug for KafkaLog<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLog")
            .field("tail", &self.tail)
            .field("next", &self.next)
            .field("sent", &self.sent.len())
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

/// Tells whether another node has written to the topic. A node that appends finds that out by
/// itself; this is for one that has nothing to append.
#[derive(Clone, Debug, Default)]
pub struct Overtaken(Arc<AtomicBool>);

impl Overtaken {
    /// Whether it has: then what this node knows is old, and it must stop.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How far this node has written.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Behind its last message, if nobody else wrote.
    offset: i64,
    tail: Tail,
}

/// The thread that looks at the topic's end once a second.
struct Watch {
    overtaken: Overtaken,
    /// Dropped to end the thread.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(feed: Feed, reached: Arc<Mutex<Reached>>) -> Result<Self, OpenError> {
        let overtaken = Overtaken::default();
        let (stop, stopped) = sync_channel(0);
        let told = overtaken.clone();
        let thread = std::thread::Builder::new()
            .name("kafka-watch".into())
            .spawn(move || watch(&feed, &reached, &told, &stopped))
            .map_err(|error| OpenError::Brokers(error.to_string()))?;
        Ok(Self { overtaken, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn watch(feed: &Feed, reached: &Mutex<Reached>, overtaken: &Overtaken, stopped: &Receiver<()>) {
    let mut seen = 0;
    while stopped.recv_timeout(WATCH) == Err(RecvTimeoutError::Timeout) {
        // Brokers that are gone are the business of whoever appends.
        let Ok(range) = feed.range() else { continue };
        // Looked up after the end: what this node sent before is behind it.
        let Reached { offset, tail } = *locked(reached);
        let mut next = false;
        let looked = feed.read(seen.max(offset)..range.end, &mut |offset, bytes| {
            next |= matches!(feed.judge(offset, bytes, &tail)?, Kind::Next(_));
            Ok(ControlFlow::Continue(()))
        });
        match looked {
            Ok(()) => seen = range.end,
            Err(OpenError::Foreign { .. }) => next = true,
            Err(_) => {}
        }
        if next {
            overtaken.0.store(true, Ordering::Release);
        }
    }
}
