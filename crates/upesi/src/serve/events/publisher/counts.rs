//! Publishes the counts of quotes and look-ups at an interval, on a thread of its own.
//!
//! Every node publishes its own counts: it alone has them. They are read from the measurements
//! that the I/O threads keep anyway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use events::{CountEvent, CountKind, EventWriter, MessageCount, PersonalData};
use fspiop::Resource;
use fspiop::route_table::Operation;
use kafka::{MessageSender, PublishOptions, TopicOptions};
use ledger::Stamp;
use node::{Handle, SystemClock};
use ports::Clock as _;
use switch::{CallResult, ForwardedMessage, Traffic, TrafficTimes, resource_of};

use super::forms::CLOUD_EVENT;
use super::session::CHECK;
use crate::CliError;
use crate::config::Config;
use crate::serve::background::spawn_low_priority;

/// The sources of the counts, and the clock.
type Measured = (Arc<Traffic>, Handle<ForwardedMessage>, SystemClock);

/// Accepted and failed messages by recipient and operation.
type Counts = BTreeMap<(String, Operation), [u64; 2]>;

/// Publishes counts.
pub(super) struct CountPublisher {
    sender: MessageSender,
    writer: EventWriter,
    measured: Measured,
    interval: Duration,
    /// Identifies this process in ids.
    instance: String,
    published: BTreeMap<CountKind, Published>,
    is_failing: bool,
}

/// The counts of the last event of a kind.
struct Published {
    number: u64,
    until: Stamp,
    counts: Counts,
}

impl CountPublisher {
    /// The publisher; `None` without counts, or without the histograms that they are part of.
    pub(super) fn new(
        config: &Config,
        options: &PublishOptions,
        measured: Measured,
        (identity, instance): ([u8; 16], &str),
    ) -> Result<Option<Self>, CliError> {
        if config.events.counts_every_seconds == 0 || !config.metrics.histograms {
            return Ok(None);
        }
        let failed = |error: String| CliError::new(format!("events.counts_topic: {error}"));
        let address = format!("kafka://{}/{}", options.brokers, config.events.counts_topic);
        let address =
            address.parse().map_err(|error: kafka::AddressError| failed(error.to_string()));
        let topic = TopicOptions {
            node: "events-counts".into(),
            patience: options.patience,
            copy: journal::LogOptions::default(),
            security: options.security.clone(),
        };
        let sender = MessageSender::new(&address?, &topic);
        let sender = sender.map_err(|error| failed(error.to_string()))?;
        let now = measured.2.now().wall;
        let published = |kind| (kind, Published { number: 1, until: now, counts: Counts::new() });
        Ok(Some(Self {
            sender: sender.with_content_type(CLOUD_EVENT),
            writer: EventWriter::new(&config.hub_name()?, identity, PersonalData::Omitted),
            measured,
            interval: Duration::from_secs(config.events.counts_every_seconds),
            instance: instance.to_owned(),
            published: CountKind::ALL.map(published).into(),
            is_failing: false,
        }))
    }

    /// Starts the thread.
    pub(super) fn start(mut self, stopped: &Arc<AtomicBool>) -> Result<JoinHandle<()>, CliError> {
        let stopped = Arc::clone(stopped);
        spawn_low_priority("event-counts", move || {
            let mut last = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                thread::sleep(CHECK);
                if self.interval <= last.elapsed() {
                    last = Instant::now();
                    self.publish();
                }
            }
        })
    }

    /// Publishes the counts since the last event of each kind. If the brokers do not acknowledge an
    /// event, its counts are part of the next one, which has the same id.
    fn publish(&mut self) {
        let (traffic, handle, clock) = &self.measured;
        let (times, now) = (traffic.times(&handle.view()), clock.now().wall);
        for (kind, published) in &mut self.published {
            let counts = counts_of(*kind, &times);
            let new = difference(&counts, &published.counts);
            if new.is_empty() {
                published.until = now;
                continue;
            }
            let event = CountEvent {
                kind: *kind,
                id: format!("{}.{}.{}", self.instance, kind.name(), published.number),
                since: published.until,
                until: now,
                counts: new,
            };
            let sent = self.sender.send(kind.name(), &self.writer.counts(&event));
            if let Err(error) = sent {
                if !self.is_failing {
                    tracing::warn!(%error, "counts cannot be published; retrying");
                }
                self.is_failing = true;
                return;
            }
            self.is_failing = false;
            *published = Published { number: published.number + 1, until: now, counts };
        }
    }
}

/// The counts of a kind since the start of the process.
fn counts_of(kind: CountKind, times: &TrafficTimes) -> Counts {
    let resource = match kind {
        CountKind::Parties => Resource::Parties,
        CountKind::Quotes => Resource::Quotes,
    };
    let mut counts = Counts::new();
    for participant in &times.participants {
        for (request, result, time) in &participant.forwards {
            if resource_of(request.operation) == resource {
                let key = (participant.name.clone(), request.operation);
                let count = counts.entry(key).or_default();
                count[usize::from(*result == CallResult::Failed)] += time.distribution.count();
            }
        }
    }
    counts
}

fn difference(counts: &Counts, before: &Counts) -> Vec<MessageCount> {
    let new = counts.iter().filter_map(|(key, count)| {
        let before = before.get(key).copied().unwrap_or_default();
        let [accepted, failed] = [0, 1].map(|at| count[at].saturating_sub(before[at]));
        let (method, path) = key.1.method_and_path();
        (0 < accepted + failed).then(|| MessageCount {
            recipient: key.0.clone(),
            request: format!("{method} {path}"),
            accepted,
            failed,
        })
    });
    new.collect()
}
