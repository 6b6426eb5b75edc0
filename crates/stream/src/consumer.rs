//! The consumer: takes messages, gives them to handlers, commits finished work.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use tokio::sync::Notify;

use crate::context::Reports;
use crate::handler::Finished;
use crate::health::{Counts, Health, Progress};
use crate::message::ReceivedMessage;
use crate::producer::Producer;
use crate::settings::{ConsumerSettings, Poison, ProducerSettings};
use crate::work::Work;
use crate::{HandlerError, StreamError};

/// Timeout of the first request to the brokers.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A consumer of topics. [`Consumer::run`] gives their messages to a handler.
///
/// A message counts as done when its handler has returned `Ok`, or when it was written to the
/// dead-letter topic. A message that is not done is never committed. It may be handled again after
/// a crash, and is never lost.
pub struct Consumer {
    pub(crate) settings: ConsumerSettings,
    pub(crate) client: Arc<Client>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) dead_letters: Option<(String, Producer)>,
}

/// State that [`Control`] shares with the consumer's task.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) progress: Progress,
    pub(crate) wake: Notify,
    pub(crate) is_stopping: AtomicBool,
    /// Wakes retries and dead letters that wait when the consumer stops.
    pub(crate) stopped: Notify,
    pub(crate) is_paused: AtomicBool,
    stall_after: Duration,
}

/// Controls a running consumer from elsewhere.
#[derive(Clone, Debug)]
pub struct Control(Arc<Shared>);

impl Control {
    /// Ends [`Consumer::run`] when the handlers that work are done, at the latest after
    /// `drain_timeout`.
    pub fn stop(&self) {
        self.0.is_stopping.store(true, Ordering::SeqCst);
        self.0.stopped.notify_waiters();
        self.0.wake.notify_one();
    }

    /// Takes no further messages. Those that wait are still handled.
    pub fn pause(&self) {
        self.0.is_paused.store(true, Ordering::SeqCst);
        self.0.wake.notify_one();
    }

    /// Takes messages again.
    pub fn resume(&self) {
        self.0.is_paused.store(false, Ordering::SeqCst);
        self.0.wake.notify_one();
    }

    /// Whether the consumer makes progress.
    pub fn health(&self) -> Health {
        self.0.progress.health(self.0.stall_after, Instant::now())
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        self.0.progress.counts()
    }
}

/// The client library's consumer, which gives its partitions back when it is dropped.
pub(crate) struct Client(BaseConsumer<Reports>);

impl Deref for Client {
    type Target = BaseConsumer<Reports>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.context().close();
    }
}

impl Client {
    /// The next message, if one is there.
    pub(crate) fn next(&self) -> Option<KafkaResult<BorrowedMessage<'_>>> {
        let reports = self.0.context();
        loop {
            let served = reports.served();
            let message = self.0.poll(Duration::ZERO);
            if message.is_some() || served == reports.served() {
                return message;
            }
        }
    }
}

impl Consumer {
    /// Connects to the brokers, and asks for each topic.
    ///
    /// Blocks for up to 10 s.
    ///
    /// # Errors
    /// [`StreamError::Settings`], [`StreamError::Unreachable`], and [`StreamError::NoTopic`] if a
    /// topic does not exist: a misspelt one is not created.
    pub fn connect(settings: ConsumerSettings) -> Result<Self, StreamError> {
        if let Some(fault) = settings.fault() {
            return Err(StreamError::Settings(fault.to_owned()));
        }
        let shared = Arc::new(Shared {
            progress: Progress::new(),
            wake: Notify::new(),
            is_stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            is_paused: AtomicBool::new(false),
            stall_after: settings.stall_after,
        });
        let config = settings.client_config();
        let consumer = config.create_with_context(Reports::default()).map_err(refused)?;
        let mut client = Client(consumer);
        let woken = Arc::clone(&shared);
        client.0.set_nonempty_callback(move || woken.wake.notify_one());
        for topic in &settings.topics {
            check_topic(&client, topic)?;
        }
        let dead_letters = match &settings.poison {
            Poison::Stop => None,
            Poison::DeadLetters(topic) => Some((topic.clone(), dead_letters(&settings)?)),
        };
        Ok(Self { settings, client: Arc::new(client), shared, dead_letters })
    }

    /// Controls this consumer while it runs.
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.shared))
    }

    /// Joins the group and gives messages to the handler until [`Control::stop`], or until a
    /// message cannot be handled and [`Poison::Stop`] is set.
    ///
    /// The handler gets at least one message. With [`crate::Mode::Flow`] it gets exactly one. It
    /// must not block the thread. The futures of all handlers run in the caller's task.
    ///
    /// # Errors
    /// [`StreamError::Poison`] names the message. [`StreamError::Client`] is an error after which
    /// the client library does not work any more.
    pub async fn run<H>(&self, handler: H) -> Result<Counts, StreamError>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        let topics: Vec<&str> = self.settings.topics.iter().map(String::as_str).collect();
        self.client.subscribe(&topics).map_err(StreamError::Client)?;
        let result = self.work(&handler).await;
        self.client.unsubscribe();
        self.shared.progress.end();
        result.map(|()| self.shared.progress.counts())
    }

    async fn work<H>(&self, handler: &H) -> Result<(), StreamError>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        let mut work = Work::new(self);
        let mut running = FuturesUnordered::new();
        loop {
            work.step().await?;
            while let Some((lane, batch)) = work.next_batch() {
                running.push(self.handle(handler, lane, batch));
            }
            if work.is_over(running.is_empty()) {
                return work.end().await;
            }
            let timer = tokio::time::sleep_until(work.next_timer().into());
            tokio::select! {
                biased;
                Some(finished) = running.next(), if !running.is_empty() => work.finish(finished),
                () = work.committed() => {}
                () = self.shared.wake.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Calls the handler until the batch is done.
    async fn handle<'c, H>(
        &'c self,
        handler: &H,
        lane: usize,
        batch: Vec<ReceivedMessage<'c>>,
    ) -> Finished<'c>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        let outcome = self.attempt(handler, &batch).await;
        Finished { lane, batch, outcome }
    }
}

pub(crate) fn refused(error: KafkaError) -> StreamError {
    match error {
        KafkaError::ClientConfig(_, reason, name, value) => {
            StreamError::Settings(format!("property {name} = {value}: {reason}"))
        }
        other => StreamError::Client(other),
    }
}

fn check_topic(client: &Client, topic: &str) -> Result<(), StreamError> {
    let metadata = client.fetch_metadata(Some(topic), FIRST_REQUEST_TIMEOUT);
    let metadata = metadata.map_err(StreamError::Unreachable)?;
    let found = metadata.topics().first().filter(|found| found.error().is_none());
    match found.filter(|found| !found.partitions().is_empty()) {
        Some(_) => Ok(()),
        None => Err(StreamError::NoTopic(topic.to_owned())),
    }
}

/// The producer of dead letters, with the same brokers and properties for security.
fn dead_letters(settings: &ConsumerSettings) -> Result<Producer, StreamError> {
    let mut producer = ProducerSettings::new(&settings.brokers);
    let is_shared = |name: &str| {
        ["security.", "ssl.", "sasl.", "enable.ssl", "client.id"]
            .iter()
            .any(|it| name.starts_with(it))
    };
    producer.properties = settings.properties.clone();
    producer.properties.retain(|name, _| is_shared(name));
    Producer::connect(producer).map(Producer::without_drain)
}
