//! One scenario: sends for a time, then reads everything back and checks it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use harness::histograms::{histogram, record};
use harness::proc_stats::own_cpu;
use hdrhistogram::Histogram;
use serde::Serialize;
use stream::{
    Consumer, ConsumerSettings, HandlerError, Order, Producer, ProducerSettings, ReceivedMessage,
    Record, StreamError,
};

use super::samples::{Audit, Samples, id};
use super::scenarios::{ConsumerPart, ProducerPart, Scenario};

/// Messages before the measured part, which open the connections.
const FIRST: u64 = 1;
/// A consumer that has not read everything after this time has lost messages.
const PATIENCE: Duration = Duration::from_secs(30);

/// The measured rate, cost and latency of one side.
#[derive(Clone, Copy, Debug, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) reordered: u64,
}

/// The result of a scenario.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Played {
    pub(crate) producer: Side,
    pub(crate) consumer: Side,
    pub(crate) faults: Faults,
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
    let producer = send(scenario.producer, brokers, topic, time).await?;
    let sent = FIRST + producer.messages;
    let (consumer, faults) = read(scenario, brokers, topic, sent, time).await?;
    Ok(Played { producer, consumer, faults })
}

fn delivery_failed(error: stream::SendError) -> StreamError {
    let stream::SendError::Failed(error) = error;
    StreamError::Client(error)
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
    let message = |number| {
        let value = if part.protobuf { samples.protobuf(number) } else { samples.json(number) };
        Record::to(topic, value).key(id(number))
    };
    for number in 0..FIRST {
        producer.send(&message(number)).await.map_err(delivery_failed)?;
    }
    let mut meter = Meter::start();
    let end = meter.start + time;
    let sent = match part.depth {
        0 => send_without_waiting(&producer, message, &mut meter, end).await,
        depth => send_by(depth, &producer, message, &mut meter, end).await,
    };
    Ok(meter.side(sent.map_err(delivery_failed)? - FIRST))
}

/// Keeps `depth` messages without acknowledgement.
async fn send_by(
    depth: usize,
    producer: &Producer,
    message: impl Fn(u64) -> Record,
    meter: &mut Meter,
    end: Instant,
) -> Result<u64, stream::SendError> {
    let mut sent = FIRST;
    let mut sends = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        while sends.len() < depth && now < end {
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
    end: Instant,
) -> Result<u64, stream::SendError> {
    let mut sent = FIRST;
    let mut now = Instant::now();
    while now < end {
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
    /// The next expected number: of the topic, or of a key.
    next: u64,
    by_key: HashMap<Vec<u8>, i64>,
    count: u64,
}

impl Arrivals {
    fn add(&mut self, number: u64, order: Order, message: &ReceivedMessage<'_>) {
        let now = Instant::now();
        match &mut self.meter {
            None => self.meter = Some(Meter::start()),
            Some(meter) => record(&mut meter.times, now - self.last),
        }
        self.last = now;
        self.count += 1;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        match self.seen.get_mut(at) {
            Some(seen) if !*seen => *seen = true,
            _ => self.faults.repeated += 1,
        }
        let is_ordered = match order {
            Order::Partition => self.next == number,
            Order::Key => {
                let key = message.key().unwrap_or_default().to_vec();
                self.by_key.insert(key, message.offset()).is_none_or(|last| last < message.offset())
            }
        };
        self.faults.reordered += u64::from(!is_ordered);
        self.next = number + 1;
    }
}

impl Arrivals {
    /// Reading takes twice the time of sending at most: one commit for each message is slower than
    /// sends that do not wait.
    fn is_over(&self, sending: Duration) -> bool {
        self.meter.as_ref().is_some_and(|meter| 2 * sending < meter.start.elapsed())
    }

    fn distinct(&self) -> u64 {
        self.seen.iter().filter(|seen| **seen).count() as u64
    }

    /// Messages before the last one that arrived which did not arrive.
    fn lost(&self) -> u64 {
        let last = self.seen.iter().rposition(|seen| *seen).unwrap_or_default();
        self.seen[..last].iter().filter(|seen| !**seen).count() as u64
    }
}

async fn read(
    scenario: &Scenario,
    brokers: &str,
    topic: &str,
    sent: u64,
    time: Duration,
) -> Result<(Side, Faults), StreamError> {
    let part = scenario.consumer;
    let consumer = Consumer::connect(settings(part, brokers, topic))?;
    let control = consumer.control();
    let arrivals = RefCell::new(Arrivals {
        meter: None,
        last: Instant::now(),
        seen: vec![false; usize::try_from(sent).unwrap_or(usize::MAX)],
        faults: Faults::default(),
        next: 0,
        by_key: HashMap::new(),
        count: 0,
    });
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        for message in batch {
            let number = number(message, scenario.producer.protobuf)?;
            let mut arrivals = arrivals.borrow_mut();
            arrivals.add(number, part.order, message);
            if arrivals.count == sent || arrivals.is_over(time) {
                control.stop();
            }
        }
        Ok(())
    };
    let stall = async {
        tokio::time::sleep(2 * time + PATIENCE).await;
        control.stop();
        std::future::pending().await
    };
    tokio::select! {
        ended = consumer.run(handler) => ended?,
        never = stall => never,
    };
    let arrivals = arrivals.into_inner();
    let lost = if arrivals.is_over(time) { arrivals.lost() } else { sent - arrivals.distinct() };
    let meter = arrivals.meter.unwrap_or_else(Meter::start);
    Ok((meter.side(arrivals.count), Faults { lost, ..arrivals.faults }))
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
    let number = id.rsplit('-').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| HandlerError::Poison(format!("id {id:?} has no number")))
}
