//! One scenario: sends for a time, then reads everything back and checks it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use harness::histograms::{histogram, record};
use harness::proc_stats::{own_cpu, process_figures};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stream::{
    Consumer, ConsumerSettings, HandlerError, Order, Poison, Producer, ProducerSettings,
    Properties, ReceivedMessage, Record, StreamError, create_topic,
};

use tokio::sync::Notify;

use super::samples::{Audit, Samples, id};
use super::scenarios::{ConsumerPart, Handling, Payload, ProducerPart, Scenario};

/// Messages before the measured part, which open the connections.
pub(super) const FIRST: u64 = 1;
/// A consumer that has not read everything after this time has lost messages.
const PATIENCE: Duration = Duration::from_secs(30);

/// The measured rate, cost and latency of one side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) messages: u64,
    pub(crate) per_s: f64,
    /// CPU time of this process per message, with the client library's threads.
    pub(crate) cpu_us: f64,
    /// Time from the send to its acknowledgement, or between the ends of two handlers.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

/// Messages that did not arrive exactly once and in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) reordered: u64,
}

/// The result of a scenario.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) producer: Side,
    pub(crate) consumer: Side,
    pub(crate) faults: Faults,
    /// Messages in the dead-letter topic, each of which was refused as poison.
    pub(crate) dead_letters: u64,
    /// Messages that were handled again because their consumer vanished before it committed.
    pub(crate) handled_again: u64,
    /// Memory of this process at the end of reading.
    pub(crate) resident_mb: u64,
}

/// Times of one side while it runs.
struct Meter {
    start: Instant,
    cpu: Duration,
    times: Histogram<u64>,
}

impl Meter {
    fn start() -> Self {
        Self { start: Instant::now(), cpu: own_cpu(), times: histogram() }
    }

    fn side(&self, messages: u64) -> Side {
        let count = messages.max(1) as f64;
        let percentile = |value| self.times.value_at_percentile(value) as f64;
        Side {
            messages,
            per_s: messages as f64 / self.start.elapsed().as_secs_f64(),
            cpu_us: own_cpu().saturating_sub(self.cpu).as_secs_f64() * 1e6 / count,
            p50_us: percentile(50.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
        }
    }
}

/// Plays a scenario on a topic of its own.
pub(crate) async fn play(
    scenario: &Scenario,
    brokers: &str,
    topic: &str,
    time: Duration,
) -> Result<Played, StreamError> {
    create_topic(brokers, &Properties::new(), topic, scenario.partitions, 1).await?;
    let producer = send(scenario.producer, brokers, topic, time).await?;
    let sent = FIRST + producer.messages;
    let reading = Reading { scenario, brokers, topic, sent, time };
    let arrivals = RefCell::new(Arrivals::new(sent));
    let is_crash = scenario.consumer.handling == Handling::Crash;
    if is_crash {
        reading.until(sent / 2, &arrivals).await?;
        arrivals.borrow_mut().latest.clear();
    }
    let dead_letters = reading.until(sent, &arrivals).await?;
    let arrivals = arrivals.into_inner();
    let missing = arrivals.refused.abs_diff(dead_letters);
    let (consumer, mut faults) = arrivals.result(sent, time);
    faults.lost += missing;
    let handled_again = if is_crash { std::mem::take(&mut faults.repeated) } else { 0 };
    let resident_mb = process_figures(std::process::id()).resident_bytes >> 20;
    Ok(Played { producer, consumer, faults, dead_letters, handled_again, resident_mb })
}

fn delivery_failed(error: stream::SendError) -> StreamError {
    match error {
        stream::SendError::Failed(error) => StreamError::Client(error),
        lagging @ stream::SendError::Lagging { .. } => StreamError::Settings(lagging.to_string()),
    }
}

async fn send(
    part: ProducerPart,
    brokers: &str,
    topic: &str,
    time: Duration,
) -> Result<Side, StreamError> {
    let mut settings = ProducerSettings { linger: part.linger, ..ProducerSettings::new(brokers) };
    let lz4 = part.lz4.then(|| ("compression.type".to_owned(), "lz4".to_owned()));
    settings.properties.extend(lz4);
    let producer = Producer::connect(settings)?;
    let samples = Samples::new();
    let message = |number| Record::to(topic, samples.of_kind(part.payload, number)).key(id(number));
    for number in 0..FIRST {
        producer.send(&message(number)).await.map_err(delivery_failed)?;
    }
    let mut meter = Meter::start();
    let end = End { at: meter.start + time, messages: part.messages.unwrap_or(u64::MAX) };
    let sent = match part.depth {
        0 => send_without_waiting(&producer, message, &mut meter, end).await,
        depth => send_by(depth, &producer, message, &mut meter, end).await,
    };
    Ok(meter.side(sent.map_err(delivery_failed)? - FIRST))
}

/// When sending ends: at a time, or after a number of messages if there is one.
#[derive(Clone, Copy)]
struct End {
    at: Instant,
    messages: u64,
}

impl End {
    fn is_reached(self, sent: u64, now: Instant) -> bool {
        match self.messages {
            u64::MAX => self.at <= now,
            messages => FIRST + messages <= sent,
        }
    }
}

/// Keeps `depth` messages without acknowledgement.
async fn send_by(
    depth: usize,
    producer: &Producer,
    message: impl Fn(u64) -> Record,
    meter: &mut Meter,
    end: End,
) -> Result<u64, stream::SendError> {
    let mut sent = FIRST;
    let mut sends = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        while sends.len() < depth && !end.is_reached(sent, now) {
            let record = message(sent);
            sends.push(async move {
                let start = Instant::now();
                producer.send(&record).await.map(|_| start.elapsed())
            });
            sent += 1;
        }
        match sends.next().await {
            Some(time) => record(&mut meter.times, time?),
            None => return Ok(sent),
        }
    }
}

async fn send_without_waiting(
    producer: &Producer,
    message: impl Fn(u64) -> Record,
    meter: &mut Meter,
    end: End,
) -> Result<u64, stream::SendError> {
    let mut sent = FIRST;
    let mut now = Instant::now();
    while !end.is_reached(sent, now) {
        producer.enqueue(&message(sent)).await?;
        sent += 1;
        let next = Instant::now();
        record(&mut meter.times, next - now);
        now = next;
    }
    producer.flush().await?;
    Ok(sent)
}

/// Messages that arrived, by number.
struct Arrivals {
    meter: Option<Meter>,
    last: Instant,
    seen: Vec<bool>,
    faults: Faults,
    /// The last number of each partition, by its number.
    latest: Vec<Option<u64>>,
    count: u64,
    distinct: u64,
    /// Messages that were refused as poison.
    refused: u64,
}

impl Arrivals {
    fn new(sent: u64) -> Self {
        Self {
            meter: None,
            last: Instant::now(),
            seen: vec![false; usize::try_from(sent).unwrap_or(usize::MAX)],
            faults: Faults::default(),
            latest: Vec::new(),
            count: 0,
            distinct: 0,
            refused: 0,
        }
    }

    /// Handlers by key of one partition work at a time, so only numbers of a key are ordered; each
    /// number is a key of its own.
    fn add(&mut self, number: u64, is_by_key: bool, message: &ReceivedMessage<'_>) {
        if self.meter.is_none() {
            let meter = self.meter.insert(Meter::start());
            self.last = meter.start;
        }
        self.count += 1;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        match self.seen.get_mut(at) {
            Some(seen) if !*seen => {
                *seen = true;
                self.distinct += 1;
            }
            _ => self.faults.repeated += 1,
        }
        let partition = usize::try_from(message.partition()).unwrap_or_default();
        if self.latest.len() <= partition {
            self.latest.resize(partition + 1, None);
        }
        let previous = self.latest[partition].replace(number);
        let is_late = previous.is_some_and(|previous| number <= previous);
        self.faults.reordered += u64::from(is_late && !is_by_key);
    }

    /// Records the end of a handler: the mean time of its messages since the end of the last one.
    /// A clock for each message would take as long as the consumer does.
    fn handled(&mut self, messages: usize) {
        let Some(meter) = &mut self.meter else { return };
        let now = Instant::now();
        let messages = messages.max(1) as u64;
        let time = (now - self.last).as_micros() as u64;
        meter.times.saturating_record_n(time / messages, messages);
        self.last = now;
    }

    /// Reading takes twice the time of sending at most: one commit for each message is slower than
    /// sends that do not wait.
    fn is_over(&self, sending: Duration) -> bool {
        self.meter.as_ref().is_some_and(|meter| 2 * sending < self.last - meter.start)
    }

    /// Messages before the last one that arrived which did not arrive.
    fn lost(&self) -> u64 {
        let last = self.seen.iter().rposition(|seen| *seen).unwrap_or_default();
        self.seen[..last].iter().filter(|seen| !**seen).count() as u64
    }

    fn result(self, sent: u64, time: Duration) -> (Side, Faults) {
        let lost = if self.is_over(time) { self.lost() } else { sent - self.distinct };
        let faults = Faults { lost, ..self.faults };
        let count = self.count;
        (self.meter.unwrap_or_else(Meter::start).side(count), faults)
    }
}

/// The reading part of a scenario.
struct Reading<'a> {
    scenario: &'a Scenario,
    brokers: &'a str,
    topic: &'a str,
    sent: u64,
    time: Duration,
}

impl Reading<'_> {
    /// Reads with a consumer until this number of messages has arrived. If it is less than all,
    /// the consumer vanishes then: it commits nothing more. Returns its dead letters.
    async fn until(&self, limit: u64, arrivals: &RefCell<Arrivals>) -> Result<u64, StreamError> {
        let settings = settings(self.scenario.consumer, self.brokers, self.topic);
        if let Poison::DeadLetters(topic) = &settings.poison {
            create_topic(self.brokers, &Properties::new(), topic, 1, 1).await?;
        }
        let consumer = Consumer::connect(settings)?;
        let (control, vanishing) = (consumer.control(), Notify::new());
        let end = || match limit < self.sent {
            true => vanishing.notify_one(),
            false => control.stop(),
        };
        let handler = async |batch: &[ReceivedMessage<'_>]| {
            for message in batch {
                let handled = self.handle(message, arrivals).await;
                let arrivals = arrivals.borrow();
                if limit <= arrivals.distinct || arrivals.is_over(self.time) {
                    end();
                }
                handled?;
            }
            arrivals.borrow_mut().handled(batch.len());
            Ok(())
        };
        let stall = async {
            tokio::time::sleep(2 * self.time + PATIENCE).await;
            control.stop();
            std::future::pending().await
        };
        tokio::select! {
            ended = consumer.run(handler) => Ok(ended?.dead_letters),
            () = vanishing.notified() => Ok(control.counts().dead_letters),
            never = stall => never,
        }
    }

    async fn handle(
        &self,
        message: &ReceivedMessage<'_>,
        arrivals: &RefCell<Arrivals>,
    ) -> Result<(), HandlerError> {
        let Scenario { producer, consumer, .. } = self.scenario;
        let number = match consumer.handling {
            Handling::Undecoded => last_number(message.key().unwrap_or_default()),
            _ => number(message, producer.payload == Payload::Protobuf),
        }?;
        arrivals.borrow_mut().add(number, consumer.order == Order::Key, message);
        match consumer.handling {
            Handling::Slow(time) => tokio::time::sleep(time).await,
            Handling::Poison(every) if number % every == 0 => {
                arrivals.borrow_mut().refused += 1;
                return Err(HandlerError::Poison("its number is refused".to_owned()));
            }
            Handling::Read | Handling::Undecoded | Handling::Poison(_) | Handling::Crash => {}
        }
        Ok(())
    }
}

fn settings(part: ConsumerPart, brokers: &str, topic: &str) -> ConsumerSettings {
    let mut settings = ConsumerSettings {
        mode: part.mode,
        batch_max: part.batch_max,
        fill_timeout: part.fill_timeout,
        concurrency: part.concurrency,
        order: part.order,
        commit: part.commit,
        waiting_max: 10_000,
        ..ConsumerSettings::new(brokers, &format!("group-of-{topic}"), &[topic])
    };
    if let Handling::Poison(_) = part.handling {
        settings.poison = Poison::DeadLetters(format!("{topic}-dead"));
    }
    let strategy = ("partition.assignment.strategy".to_owned(), part.strategy.to_owned());
    settings.properties.extend([strategy]);
    settings
}

/// The number in the id of a message, which is decoded whole.
fn number(message: &ReceivedMessage<'_>, is_protobuf: bool) -> Result<u64, HandlerError> {
    let id = if is_protobuf {
        message.protobuf::<Audit>()?.id
    } else {
        let value: serde_json::Value = message.json()?;
        value["id"].as_str().unwrap_or_default().to_owned()
    };
    last_number(id.as_bytes())
}

/// The number at the end of an id.
fn last_number(id: &[u8]) -> Result<u64, HandlerError> {
    let last = id.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
    let number = std::str::from_utf8(last).ok().and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        HandlerError::Poison(format!("id {:?} has no number", String::from_utf8_lossy(id)))
    })
}
