//! Publishes events to Kafka, on a separate thread. Off without `events.brokers`.
//!
//! The thread follows the durable log like a reader of `GET /events`, with a state of its own. The
//! sequencer neither knows it nor waits for it. Each transaction holds the events of whole batches
//! and the position after them, so that every event is in the topics exactly once.
//!
//! The thread and those of the client library have the lowest priority: on a machine without an
//! idle core, events are late and payments are not.
//!
//! On a shared log the live node with the first name publishes. The brokers fence its predecessor.
//!
//! Bounds: the events of one batch, and 32 MiB of messages that are not acknowledged yet.

mod counts;
mod forms;
mod session;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kafka::{PublishError, PublishOptions};
use node::{Handle, SystemClock};
use switch::{ForwardedMessage, Traffic};

use self::counts::CountPublisher;
use self::forms::EventForms;
use self::session::{CHECK, PublisherThread, SessionEnd, StoredPosition, hex};
use super::publisher_status::{PublisherState, PublisherStatus};
use super::replay::EventSource;
use crate::CliError;
use crate::config::Config;
use crate::inspect::live_replay::ReplaySource;
use crate::serve::background::spawn_low_priority;

/// Maximum duration of one request to the brokers.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause after an error. It doubles up to the last one.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(10);
/// How long a fenced publisher waits for the position of the one that fenced it.
const SUCCESSOR_TIME: Duration = Duration::from_secs(5);
/// How long a fenced node of a shared log waits before it publishes again, if it still has to.
const FENCED_PAUSE: Duration = Duration::from_secs(15);

/// The running thread.
pub(crate) struct EventPublisher {
    status: Arc<PublisherStatus>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// The thread of counts, if they are published.
    counts: Option<JoinHandle<()>>,
}

impl EventPublisher {
    /// Starts the thread, if brokers are configured. Does not wait for them.
    pub(crate) fn start(
        config: &Config,
        handle: &Handle<ForwardedMessage>,
        (replays, clock): (&ReplaySource, SystemClock),
        traffic: &Arc<Traffic>,
    ) -> Result<Option<Self>, CliError> {
        let Some(brokers) = &config.events.brokers else { return Ok(None) };
        let log = replays.frames.identity();
        let forms = EventForms::new(config, log.0)?;
        let security = config.events.access().security()?;
        security.check().map_err(|error| CliError::new(format!("events.tls: {error}")))?;
        let options = PublishOptions {
            brokers: brokers.clone(),
            security,
            transactional_id: format!("upesi-events-{log}"),
            topics: forms.topics(),
            position_topic: config.events.position_topic.clone(),
            position_key: log.to_string(),
            patience: PATIENCE,
        };
        let stopped_node = || CliError::new("the hub has stopped");
        let store = handle.store().ok_or_else(stopped_node)?;
        let status = Arc::new(PublisherStatus::new(clock));
        let (stopped, instance) = (Arc::new(AtomicBool::new(false)), instance()?);
        let measured = (Arc::clone(traffic), handle.clone(), clock);
        let counts = CountPublisher::new(config, &options, measured, (log.0, &instance))?;
        let counts = counts.map(|counts| counts.start(&stopped)).transpose()?;
        let work = PublisherThread {
            options,
            forms,
            start: config.events.start,
            source: EventSource { log: replays.clone(), store },
            handle: handle.clone(),
            status: Arc::clone(&status),
            stopped: Arc::clone(&stopped),
            instance,
            checked: Cell::new(None),
            committed: Cell::new(None),
        };
        let thread = spawn_low_priority("events", move || work.run())?;
        Ok(Some(Self { status, stopped, thread, counts }))
    }

    /// Its progress.
    pub(crate) fn status(&self) -> Arc<PublisherStatus> {
        Arc::clone(&self.status)
    }

    /// Ends the thread after its current transaction.
    pub(crate) fn stop(self) {
        self.stopped.store(true, Ordering::Release);
        for thread in [self.thread].into_iter().chain(self.counts) {
            // A panic was reported by its thread.
            let _ended = thread.join();
        }
    }
}

/// Random text that identifies this process among publishers.
fn instance() -> Result<String, CliError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| CliError::new(error.to_string()))?;
    Ok(hex(&random))
}

impl PublisherThread {
    fn run(&self) {
        let mut pause = PAUSE_FIRST;
        while !self.is_stopped() {
            if !self.is_chosen() {
                self.status.set(PublisherState::Standby, None);
                self.wait(CHECK);
                continue;
            }
            let before = self.status.log_index();
            let end = self.publish();
            if self.status.log_index() != before {
                pause = PAUSE_FIRST;
            }
            match end {
                SessionEnd::Ended => {}
                SessionEnd::Brokers(PublishError::Fenced(why)) if self.is_replaced() => {
                    tracing::error!(%why, "another process publishes the events of this log");
                    let error = "another process publishes the events of this log";
                    self.status.set(PublisherState::Fenced, Some(error.to_owned()));
                    match self.handle.cluster() {
                        Some(_) => self.wait(FENCED_PAUSE),
                        None => return,
                    }
                }
                SessionEnd::Brokers(PublishError::Cancelled) => {}
                error => {
                    let text = error.to_string();
                    if self.status.set(PublisherState::Failing, Some(text)) {
                        tracing::warn!(%error, "events cannot be published; retrying");
                    }
                    self.wait(pause);
                    pause = (2 * pause).min(PAUSE_LAST);
                }
            }
        }
    }

    /// Whether another publisher has stored a position since this one. Otherwise the brokers ended
    /// a transaction that took too long.
    fn is_replaced(&self) -> bool {
        let since = Instant::now();
        loop {
            let stored = self.options.stored_position().ok().flatten();
            let stored = stored.and_then(|bytes| StoredPosition::parse(&bytes));
            if stored.is_some_and(|stored| stored.publisher != self.instance) {
                return true;
            }
            if SUCCESSOR_TIME < since.elapsed() || self.is_stopped() {
                return false;
            }
            self.wait(CHECK);
        }
    }

    /// Waits, but not beyond a stop.
    fn wait(&self, time: Duration) {
        let since = Instant::now();
        while !self.is_stopped() && since.elapsed() < time {
            thread::sleep(CHECK.min(time));
        }
    }
}
