//! Pages of events. Readers wait between pages with their newest events, so that a client that
//! follows the stream costs little.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use events::{Event, EventWriter, Position};
use ledger::LogIndex;
use operations::{EVENTS_READ_MAX, EventPage, EventQuery, PagedEvent};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::end_watch::EndWatch;
use super::replay::{EventReplay, EventSource, EventsError, Flow};
use crate::serve::shutdown::until_stopped;

/// Maximum number of readers, each with a state in memory.
const READERS_MAX: usize = 2;
/// Maximum number of events that a reader keeps.
const KEPT_MAX: usize = 20_000;
/// Maximum number of records before a position that a waiting reader decides again. Beyond it a
/// snapshot may be nearer.
const REPLAYED_MAX: u64 = 100_000;

/// Maximum number of clients that follow the events.
const STREAMS_MAX: usize = 8;
/// How long a page waits for others.
const TURN: Duration = Duration::from_secs(1);
/// Records that are decided again before the events so far are looked at.
const CHUNK_RECORDS: u64 = 8_192;

/// Readers that wait between pages.
pub(crate) struct EventPages {
    writer: EventWriter,
    waiting: Mutex<VecDeque<EventReader>>,
    permits: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    ends: Arc<EndWatch>,
    stopping: watch::Receiver<bool>,
}

impl EventPages {
    pub(crate) fn new(writer: EventWriter, stopping: watch::Receiver<bool>) -> Self {
        let [permits, streams] = [READERS_MAX, STREAMS_MAX].map(|it| Arc::new(Semaphore::new(it)));
        let ends = EndWatch::new();
        Self { writer, waiting: Mutex::default(), permits, streams, ends, stopping }
    }

    /// The pages after a position, as they become durable; `None` if too many clients follow. Must
    /// be called within a tokio runtime.
    pub(crate) fn follow(
        self: &Arc<Self>,
        source: EventSource,
        query: EventQuery,
    ) -> Option<Receiver<EventPage>> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        let (pages, taken) = channel(1);
        let reader = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = reader.send_pages(source, query, pages) => {}
                () = until_stopped(reader.stopping.clone()) => {}
            }
            drop(permit);
        });
        Some(taken)
    }

    /// Sends pages until the client is gone or they cannot be read.
    async fn send_pages(
        self: &Arc<Self>,
        source: EventSource,
        mut query: EventQuery,
        pages: Sender<EventPage>,
    ) {
        let Some(mut ends) = self.ends.subscribe(&source) else { return };
        while !pages.is_closed() {
            let permit = tokio::select! {
                permit = Arc::clone(&self.permits).acquire_owned() => permit,
                () = pages.closed() => return,
            };
            let Ok(permit) = permit else { return };
            let (reader, asked, client) = (Arc::clone(self), query.clone(), pages.clone());
            let of = source.clone();
            let read = tokio::task::spawn_blocking(move || {
                let page = reader.read(&of, &asked, &|| client.is_closed());
                drop(permit);
                page
            });
            let page = match read.await {
                Ok(Ok(page)) => page,
                Ok(Err(EventsError::Cancelled)) | Err(_) => return,
                Ok(Err(error)) => return tracing::error!(%error, "events cannot be read"),
            };
            if page.next != query.after {
                query.after = page.next;
                if pages.send(page).await.is_err() {
                    return;
                }
            }
            let is_new = async { ends.wait_for(|end| query.after.record < *end).await.map(drop) };
            tokio::select! {
                watched = is_new => if watched.is_err() { return },
                () = pages.closed() => return,
            }
        }
    }

    /// A permit to read a page; `None` if too many are being read for too long. Clients that follow
    /// read at each new record, so that a page waits its turn.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.permits).acquire_owned();
        tokio::time::timeout(TURN, turn).await.ok()?.ok()
    }

    /// Reads a page. Blocks on the disk.
    pub(crate) fn read(
        &self,
        source: &EventSource,
        query: &EventQuery,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<EventPage, EventsError> {
        let end = source.log.frames.end();
        if end < query.after.record {
            return Ok(EventPage { events: Vec::new(), next: query.after, end });
        }
        let mut reader = match self.take(query.after) {
            Some(reader) => reader,
            None => EventReader::open(source, query.after, is_cancelled)?,
        };
        let page = reader.page(&self.writer, query, is_cancelled)?;
        let mut waiting = self.lock();
        waiting.push_back(reader);
        while READERS_MAX < waiting.len() {
            waiting.pop_front();
        }
        Ok(page)
    }

    /// Takes the waiting reader that is nearest to a position. Without one, makes room for a
    /// new reader.
    fn take(&self, after: Position) -> Option<EventReader> {
        let mut waiting = self.lock();
        let usable = waiting.iter().enumerate().filter(|(_, reader)| reader.can_serve(after));
        let nearest = usable.max_by_key(|(_, reader)| reader.replay.log_index());
        let nearest = nearest.map(|(at, _)| at);
        if nearest.is_none() && READERS_MAX <= waiting.len() {
            waiting.pop_front();
        }
        waiting.remove(nearest?)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<EventReader>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replay with its newest events.
struct EventReader {
    replay: EventReplay,
    /// All events of the records after `since`.
    kept: VecDeque<Event>,
    since: LogIndex,
}

impl EventReader {
    fn open(
        source: &EventSource,
        after: Position,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, EventsError> {
        // A position within a record needs the events of that record.
        let before = match after.number {
            Position::LAST => after.record,
            _ => LogIndex(after.record.0.saturating_sub(1)),
        };
        let replay = EventReplay::open(source, before, is_cancelled)?;
        Ok(Self { since: replay.log_index(), replay, kept: VecDeque::new() })
    }

    fn can_serve(&self, after: Position) -> bool {
        let replayed = after.record.0.saturating_sub(self.replay.log_index().0);
        Position::after(self.since) <= after && replayed <= REPLAYED_MAX
    }

    fn page(
        &mut self,
        writer: &EventWriter,
        query: &EventQuery,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<EventPage, EventsError> {
        let mut events = Vec::new();
        let mut next = query.after;
        let first = self.replay.log_index();
        loop {
            self.collect(writer, query, (&mut next, &mut events));
            let read = self.replay.log_index().0.saturating_sub(first.0.max(query.after.record.0));
            let end = self.replay.end();
            let is_far = EVENTS_READ_MAX <= read || end <= self.replay.log_index();
            if query.limit <= events.len() || is_far {
                return Ok(EventPage { events, next, end });
            }
            self.read_chunk((query.after, next), query.limit, is_cancelled)?;
        }
    }

    /// Adds the wanted ones of the kept events after `next`, which it advances.
    fn collect(
        &self,
        writer: &EventWriter,
        query: &EventQuery,
        (next, events): (&mut Position, &mut Vec<PagedEvent>),
    ) {
        let from = self.kept.partition_point(|event| event.position <= *next);
        for event in self.kept.range(from..) {
            if query.limit <= events.len() {
                return;
            }
            *next = event.position;
            if query.accepts(event) {
                let mut json = Vec::new();
                writer.write(event, &mut json);
                let json = String::from_utf8(json).expect("JSON is text");
                events.push(PagedEvent { position: event.position, json });
            }
        }
        if events.len() < query.limit {
            *next = (*next).max(Position::after(self.replay.log_index()));
        }
    }

    /// Decides further batches again, until about `limit` events are there. Those up to `next` are
    /// no longer needed, and those up to `after` never were.
    fn read_chunk(
        &mut self,
        (after, next): (Position, Position),
        limit: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), EventsError> {
        let Self { replay, kept, since } = self;
        let (mut added, mut first) = (0, None);
        replay.read(is_cancelled, &mut |last, new| {
            if Position::after(last) <= after {
                kept.clear();
                *since = last;
                return Flow::Continue;
            }
            added += new.len();
            while KEPT_MAX < kept.len() + new.len() && forget_record(kept, since, next) {}
            kept.extend(new);
            let first = *first.get_or_insert(last.0);
            let is_enough = limit <= added || first + CHUNK_RECORDS <= last.0;
            if is_enough { Flow::Stop } else { Flow::Continue }
        })
    }
}

/// Removes the events of the oldest record, unless one of them is after `next`.
fn forget_record(kept: &mut VecDeque<Event>, since: &mut LogIndex, next: Position) -> bool {
    let Some(record) = kept.front().map(|event| event.position.record) else { return false };
    if next < Position::after(record) {
        return false;
    }
    while kept.pop_front_if(|event| event.position.record == record).is_some() {}
    *since = record;
    true
}
