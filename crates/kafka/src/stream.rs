//! The stream of a topic: a thread that reads it, a thread that queries its end, and the client
//! library's threads, which send.
//!
//! While the broker that leads the topic is down, the library looks for the new leader once per
//! second. Requests wait meanwhile, so the reading thread queries more often ([`LeaderSearch`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ports::{Arrival, Topic};

use crate::client::{self, ArrivalSink, Outbound};
use crate::connect::broker_error;
use crate::consumer::{
    POLL, ReadMessage, TopicConsumer, end_of_messages, is_transient, unreadable,
};
use crate::{Address, OpenError, TopicOptions};

/// Maximum number of waiting end queries; a node makes one at a time.
const END_QUERIES_MAX: usize = 16;
/// A message was sent, but none arrived for this long: the leader may have moved.
const SEARCH_AFTER: Duration = Duration::from_millis(300);
/// Interval between two queries for the leader.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);
/// Within this time, messages before the end may still be on their way to the reader.
const CATCH_UP_TIME: Duration = Duration::from_millis(100);
/// Maximum duration of one search for the last message. Then the reader's progress is checked
/// again.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two checks of the reader's progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// One topic, read from an offset and written to. Dropping it ends its threads.
pub struct TopicStream {
    outbound: Arc<Outbound>,
    /// Dropped to end the query thread.
    end_queries: Option<SyncSender<u64>>,
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TopicStream {
    /// Starts reading at `next`. Everything goes to `sink`, which may block. Returning false ends
    /// the stream.
    ///
    /// # Errors
    /// [`OpenError::Brokers`] when the client library or a thread cannot be started.
    pub fn start(
        address: &Address,
        options: &TopicOptions,
        next: i64,
        sink: impl Fn(Arrival) -> bool + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let sink: ArrivalSink = Arc::new(sink);
        let outbound = Outbound::open(address, options, Arc::clone(&sink)).map_err(broker_error)?;
        let outbound = Arc::new(outbound);
        let (consumer, _) = client::consumer(address, options).map_err(broker_error)?;
        let reading = TopicConsumer::new(consumer, address, options.patience);
        let (consumer, _) = client::consumer(address, options).map_err(broker_error)?;
        let feed = TopicConsumer::new(consumer, address, options.patience);
        let reached = Arc::new(AtomicI64::new(next));
        let (address, options) = (address.clone(), options.clone());
        let end_query = EndQuery { feed, reached: Arc::clone(&reached), address, options };
        reading.seek(next)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (end_queries, asked) = sync_channel(END_QUERIES_MAX);
        let (stop, into) = (Arc::clone(&stopped), Arc::clone(&sink));
        let search = LeaderSearch::new(Arc::clone(&outbound));
        let threads = vec![
            spawn("kafka-read", move || read((&reading, search), &reached, &stop, &into))?,
            spawn("kafka-end", move || end_query.run(&asked, &sink))?,
        ];
        Ok(Self { outbound, end_queries: Some(end_queries), stopped, threads })
    }
}

impl Topic for TopicStream {
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String> {
        self.outbound.send(message, tag)
    }

    fn ask_end(&mut self, number: u64) {
        if let Some(end_queries) = &self.end_queries {
            // A node with this many open queries has stopped waiting for them.
            let _asked = end_queries.try_send(number);
        }
    }
}

impl Drop for TopicStream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.end_queries = None;
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let builder = std::thread::Builder::new().name(name.into());
    builder.spawn(work).map_err(|error| OpenError::Brokers(error.to_string()))
}

/// Looks for a new leader when sent messages do not arrive.
struct LeaderSearch {
    outbound: Arc<Outbound>,
    /// Time of the last arrival.
    heard: Instant,
    /// Time of the last query, during a search.
    asked: Option<Instant>,
}

impl LeaderSearch {
    fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, heard: Instant::now(), asked: None }
    }

    /// A message arrived: ends the search.
    fn end(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Queries the leader if it is due. Delivery may be reported while the reader still fetches
    /// from a dead broker, so the search continues until a message arrives.
    fn query_if_due(&mut self, feed: &TopicConsumer) {
        let is_due = match self.asked {
            Some(asked) => QUERY_INTERVAL <= asked.elapsed(),
            None => SEARCH_AFTER <= self.heard.elapsed() && self.outbound.is_waiting(),
        };
        if is_due {
            self.asked = Some(Instant::now());
            feed.look_for_leader(QUERY_TIMEOUT);
            self.outbound.look_for_leader();
        }
    }
}

fn read(
    (feed, mut search): (&TopicConsumer, LeaderSearch),
    reached: &AtomicI64,
    stopped: &AtomicBool,
    sink: &ArrivalSink,
) {
    let mut next = reached.load(Ordering::Acquire);
    while !stopped.load(Ordering::Acquire) {
        let is_taken = match feed.consumer().poll(POLL) {
            None => true,
            Some(Ok(message)) => {
                search.end();
                let ReadMessage { offset, at, bytes } = ReadMessage::of(&message);
                // Deliver a message that was fetched twice only once.
                let is_new = next <= offset;
                next = next.max(offset + 1);
                reached.store(next, Ordering::Release);
                !is_new || sink(Arrival::Message { offset, at, bytes: bytes.to_vec() })
            }
            // The library looks for the leader itself.
            Some(Err(error)) if is_transient(&error) => true,
            Some(Err(error)) => {
                sink(Arrival::Broken { reason: unreadable(next, &error) });
                false
            }
        };
        if !is_taken {
            return;
        }
        search.query_if_due(feed);
    }
}

/// Determines the end of the topic.
struct EndQuery {
    feed: TopicConsumer,
    /// The offset up to which the other thread has read.
    reached: Arc<AtomicI64>,
    address: Address,
    options: TopicOptions,
}

impl EndQuery {
    fn run(&self, asked: &Receiver<u64>, sink: &ArrivalSink) {
        while let Ok(number) = asked.recv() {
            let offset = self.end().ok();
            if !sink(Arrival::End { number, offset }) {
                return;
            }
        }
    }

    /// The offset after the last message. Usually the reader has reached it or is about to;
    /// otherwise it is searched, because the last offsets may have no readable message.
    fn end(&self) -> Result<i64, OpenError> {
        let since = Instant::now();
        loop {
            let range = self.feed.range()?;
            if self.is_reached(range.end) {
                return Ok(range.end);
            }
            let found = end_of_messages(&self.address, &self.options, (&range, SEARCH_TIMEOUT));
            // The brokers may be down. When they are back, the reader may have reached the end
            // meanwhile.
            if found.is_ok() || self.options.patience < since.elapsed() {
                return found;
            }
        }
    }

    /// Whether the reader has reached an offset, or does so soon.
    fn is_reached(&self, end: i64) -> bool {
        let since = Instant::now();
        while self.reached.load(Ordering::Acquire) < end {
            if CATCH_UP_TIME < since.elapsed() {
                return false;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        true
    }
}
