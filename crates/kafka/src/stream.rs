//! The topic at work: a thread that reads it, one that asks where it ends, and the client library's
//! own, which sends.
//!
//! While the broker that leads the topic is gone, the library looks for another one once a second.
//! Nobody is answered meanwhile, so the thread that reads asks more often ([`Search`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ports::{Arrival, Topic};

use crate::client::{self, Outbound, Sink};
use crate::feed::{Feed, Found, POLL, is_passing};
use crate::open::cannot;
use crate::{Address, OpenError, Options};

/// Questions where the topic ends that may wait; a node asks one at a time.
const QUESTIONS_MAX: usize = 16;
/// Something was sent and nothing has come for so long: the leader may have moved.
const SILENCE: Duration = Duration::from_millis(300);
/// Between two questions who leads the topic.
const AGAIN: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_millis(500);

/// One topic, read from an offset on and written to. Dropping it ends its threads.
pub struct Stream {
    outbound: Arc<Outbound>,
    /// Dropped to end the thread that asks.
    questions: Option<SyncSender<u64>>,
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    /// Begins to read at `next`. Everything goes to `sink`, which may block, and is done with when
    /// it answers false.
    ///
    /// # Errors
    /// [`OpenError::Brokers`] when the client library or a thread cannot be started.
    pub fn start(
        address: &Address,
        options: &Options,
        next: i64,
        sink: impl Fn(Arrival) -> bool + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let sink: Sink = Arc::new(sink);
        let (consumer, _) = client::consumer(address, options).map_err(cannot)?;
        let reading = Feed::new(consumer, address, options.patience);
        let (consumer, _) = client::consumer(address, options).map_err(cannot)?;
        let asking = Feed::new(consumer, address, options.patience);
        let outbound = Outbound::open(address, options, Arc::clone(&sink)).map_err(cannot)?;
        let outbound = Arc::new(outbound);
        reading.seek(next)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (questions, asked) = sync_channel(QUESTIONS_MAX);
        let (stop, into) = (Arc::clone(&stopped), Arc::clone(&sink));
        let search = Search::new(Arc::clone(&outbound));
        let threads = vec![
            spawn("kafka-read", move || read((&reading, search), next, &stop, &into))?,
            spawn("kafka-end", move || answer(&asking, &asked, &sink))?,
        ];
        Ok(Self { outbound, questions: Some(questions), stopped, threads })
    }
}

impl Topic for Stream {
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String> {
        self.outbound.send(message, tag)
    }

    fn ask_end(&mut self, number: u64) {
        if let Some(questions) = &self.questions {
            // Who asks again before he was answered, and so often, has asked in vain.
            let _asked = questions.try_send(number);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.questions = None;
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let builder = std::thread::Builder::new().name(name.into());
    builder.spawn(work).map_err(|error| OpenError::Brokers(error.to_string()))
}

/// Looks for the leader of a topic from which nothing comes though something was sent.
struct Search {
    outbound: Arc<Outbound>,
    /// When something came last.
    heard: Instant,
    /// When the leader was asked for last, if it is looked for.
    asked: Option<Instant>,
}

impl Search {
    fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, heard: Instant::now(), asked: None }
    }

    /// Something came.
    fn end(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Asks, if it is time to. What was sent may be reported, and the reader still ask a broker
    /// that is gone: it goes on until something comes.
    fn go_on(&mut self, feed: &Feed) {
        let is_due = match self.asked {
            Some(asked) => AGAIN <= asked.elapsed(),
            None => SILENCE <= self.heard.elapsed() && self.outbound.is_waiting(),
        };
        if is_due {
            self.asked = Some(Instant::now());
            feed.look_for_leader(ANSWER);
            self.outbound.look_for_leader();
        }
    }
}

fn read((feed, mut search): (&Feed, Search), mut next: i64, stopped: &AtomicBool, sink: &Sink) {
    while !stopped.load(Ordering::Acquire) {
        let is_taken = match feed.consumer().poll(POLL) {
            None => true,
            Some(Ok(message)) => {
                search.end();
                let Found { offset, at, bytes } = Found::of(&message);
                // What was fetched twice comes once.
                let is_new = next <= offset;
                next = next.max(offset + 1);
                !is_new || sink(Arrival::Message { offset, at, bytes: bytes.to_vec() })
            }
            // The library looks for the leader by itself.
            Some(Err(error)) if is_passing(&error) => true,
            Some(Err(error)) => {
                let reason = format!("reading offset {next} of the topic: {error}");
                sink(Arrival::Broken { reason });
                false
            }
        };
        if !is_taken {
            return;
        }
        search.go_on(feed);
    }
}

/// Where the topic ends, for whoever asked last, and so for all before.
fn answer(feed: &Feed, asked: &Receiver<u64>, sink: &Sink) {
    while let Ok(number) = asked.recv() {
        let offset = feed.range().ok().map(|range| range.end);
        if !sink(Arrival::End { number, offset }) {
            return;
        }
    }
}
