//! One connection to the brokers: continues from the stored position, until an error or the end.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kafka::{PublishError, PublishOptions, Publisher};
use ledger::LogIndex;
use node::Handle;
use serde::{Deserialize, Serialize};
use switch::ForwardedMessage;

use super::super::publisher_status::{PublisherState, PublisherStatus};
use super::super::replay::{EventReplay, EventSource, EventsError, Flow};
use super::forms::{EventForms, MessageBuffer};
use crate::config::EventStart;

/// Number of events after which a transaction is committed at the end of a batch.
const EVENTS_MAX: u64 = 2_000;
/// Time after which it is committed at the end of a batch.
const TIME_MAX: Duration = Duration::from_millis(100);
/// Number of records without events after which the position is stored alone.
const RECORDS_MAX: u64 = 100_000;
/// Interval between two checks whether this node publishes, or the thread has to stop.
pub(super) const CHECK: Duration = Duration::from_millis(100);
/// Interval between two checks for new records.
const POLL: Duration = Duration::from_millis(1);

/// Why a session has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionEnd {
    #[error(transparent)]
    Brokers(#[from] PublishError),
    #[error("{0}")]
    Failed(String),
    /// The switch stops, or another node publishes.
    #[error("ended")]
    Ended,
}

impl From<EventsError> for SessionEnd {
    fn from(error: EventsError) -> Self {
        match error {
            EventsError::Cancelled => Self::Ended,
            EventsError::Failed(error) => Self::Failed(error),
        }
    }
}

/// The record in the topic of positions: all events up to it are published.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredPosition {
    log_index: u64,
    /// The chain head of the log there, which identifies its history.
    chain: String,
    /// The process that stored it.
    pub(super) publisher: String,
}

impl StoredPosition {
    /// Reads the value of a message; `None` for one of another program.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A place in the log.
struct Place {
    log_index: LogIndex,
    chain: String,
}

/// The parts of the thread.
pub(super) struct PublisherThread {
    pub(super) options: PublishOptions,
    pub(super) forms: EventForms,
    pub(super) start: EventStart,
    pub(super) source: EventSource,
    pub(super) handle: Handle<ForwardedMessage>,
    pub(super) status: Arc<PublisherStatus>,
    pub(super) stopped: Arc<AtomicBool>,
    pub(super) instance: String,
    /// The last check whether this node publishes, and its result.
    pub(super) checked: Cell<Option<(Instant, bool)>>,
    /// The last position that this process has stored.
    pub(super) committed: Cell<Option<LogIndex>>,
}

impl PublisherThread {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether the publisher has to end, because the switch stops or another node publishes.
    fn is_ended(&self) -> bool {
        self.is_stopped() || !self.is_chosen()
    }

    /// Whether this node publishes: that with the first name of the live nodes.
    pub(super) fn is_chosen(&self) -> bool {
        if let Some((at, result)) = self.checked.get()
            && at.elapsed() < CHECK
        {
            return result;
        }
        let result = self.handle.cluster().is_none_or(|cluster| {
            let first = cluster.nodes.iter().map(|node| &node.name).min();
            first == Some(&cluster.me)
        });
        self.checked.set(Some((Instant::now(), result)));
        result
    }

    /// Publishes until an error or the end.
    pub(super) fn publish(&self) -> SessionEnd {
        match self.session() {
            Err(end) => end,
        }
    }

    fn session(&self) -> Result<Infallible, SessionEnd> {
        let (publisher, stored) = Publisher::connect(&self.options, &|| self.is_ended())?;
        let place = self.place_of(stored.and_then(|bytes| StoredPosition::parse(&bytes)))?;
        // Shows an earlier publisher that it was replaced.
        publisher.begin()?;
        self.commit(&publisher, &place)?;
        let Place { log_index: after, .. } = place;
        let mut replay = EventReplay::open(&self.source, after, &|| self.is_ended())?;
        self.status.set(PublisherState::Publishing, None);
        self.status.seen(after, 0, None);
        while !self.is_ended() {
            if replay.log_index() < replay.end() {
                self.publish_some(&publisher, &mut replay)?;
            } else {
                thread::sleep(POLL);
            }
            self.status.seen_end(replay.end());
        }
        Err(SessionEnd::Ended)
    }

    /// Publishes the events of the next batches in one transaction.
    fn publish_some(
        &self,
        publisher: &Publisher,
        replay: &mut EventReplay,
    ) -> Result<(), SessionEnd> {
        let (after, began) = (self.committed.get().unwrap_or_default(), Instant::now());
        let (mut sent, mut failed, mut json) = (0_u64, None, MessageBuffer::default());
        replay.read(&|| false, &mut |last, events| {
            if after < last {
                for event in events.iter().filter(|event| self.forms.accepts(event)) {
                    let begun = if sent == 0 { publisher.begin() } else { Ok(()) };
                    let message = self.forms.message(event, &mut json);
                    if let Err(error) = begun.and_then(|()| publisher.send(&message)) {
                        failed = Some(error);
                        return Flow::Stop;
                    }
                    sent += 1;
                }
            }
            let is_enough = EVENTS_MAX <= sent || TIME_MAX < began.elapsed();
            if is_enough || self.is_ended() { Flow::Stop } else { Flow::Continue }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let last = replay.log_index();
        if sent == 0 && last.0 < after.0.saturating_add(RECORDS_MAX) {
            self.status.seen(after.max(last), 0, Some(replay.stamp()));
            return Ok(());
        }
        if sent == 0 {
            publisher.begin()?;
        }
        self.commit(publisher, &Place { log_index: last, chain: hex(&replay.chain().0) })?;
        self.status.seen(last, sent, Some(replay.stamp()));
        Ok(())
    }

    fn commit(&self, publisher: &Publisher, place: &Place) -> Result<(), SessionEnd> {
        let stored = StoredPosition {
            log_index: place.log_index.0,
            chain: place.chain.clone(),
            publisher: self.instance.clone(),
        };
        let stored = serde_json::to_vec(&stored).expect("a position is always writable");
        // A commit that has begun is finished, also if the switch stops.
        publisher.commit(&stored, &|| false)?;
        self.committed.set(Some(place.log_index));
        Ok(())
    }

    /// The place in the log after which this session begins.
    fn place_of(&self, stored: Option<StoredPosition>) -> Result<Place, SessionEnd> {
        let topic = &self.options.position_topic;
        let frames = &self.source.log.frames;
        let before = self.committed.get();
        let lost = before
            .is_some_and(|before| stored.as_ref().is_none_or(|stored| stored.log_index < before.0));
        if lost {
            return Err(SessionEnd::Failed(format!(
                "topic {topic} has lost the position up to which events are published; restart to \
                 publish from the one in the topic"
            )));
        }
        let Some(StoredPosition { log_index, chain, .. }) = stored else {
            return self.first_place();
        };
        let place = Place { log_index: LogIndex(log_index), chain };
        let end = frames.end();
        if end < place.log_index {
            return Err(SessionEnd::Failed(format!(
                "topic {topic} has the position {log_index}, but the log ends at record {}",
                end.0
            )));
        }
        let tail = frames.tail_at(place.log_index);
        let tail = tail.map_err(|error| SessionEnd::Failed(error.to_string()))?;
        let chain = tail.map(|tail| hex(&tail.chain.0)).unwrap_or_default();
        if chain != place.chain {
            return Err(SessionEnd::Failed(format!(
                "topic {topic} has a position in another history of the log: record {log_index} \
                 differs. Events up to it were published before the log was restored"
            )));
        }
        Ok(place)
    }

    /// The place after which the first publisher of a log begins.
    fn first_place(&self) -> Result<Place, SessionEnd> {
        let frames = &self.source.log.frames;
        let found = match self.start {
            EventStart::Beginning => Ok(None),
            EventStart::End => frames.tail_at(frames.end()),
        };
        let tail = found.map_err(|error| SessionEnd::Failed(error.to_string()))?;
        Ok(tail.map_or(Place { log_index: LogIndex(0), chain: String::new() }, |tail| Place {
            log_index: tail.end,
            chain: hex(&tail.chain.0),
        }))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text can be extended");
        text
    })
}
