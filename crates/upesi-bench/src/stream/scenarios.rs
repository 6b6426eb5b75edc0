//! The scenarios of the published benchmark, and those that it lacks.

use std::time::Duration;

use serde::Serialize;
use stream::{Commit, Mode, Order};

/// How a scenario sends and reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// The published name, or `x-` and our own.
    pub(crate) name: &'static str,
    /// The difference from the first scenario.
    pub(crate) differs: &'static str,
    pub(crate) partitions: i32,
    pub(crate) producer: ProducerPart,
    pub(crate) consumer: ConsumerPart,
    pub(crate) published: PublishedRates,
}

/// The content of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// The two samples of the published benchmark, alternating.
    Samples,
    Protobuf,
    /// JSON of this size.
    Bytes(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProducerPart {
    /// Messages without acknowledgement at a time. 0: as many as the queue takes.
    pub(crate) depth: usize,
    pub(crate) linger: Duration,
    pub(crate) lz4: bool,
    pub(crate) payload: Payload,
    /// Interval at which the reference looks for acknowledgements.
    pub(crate) poll: Duration,
    /// Ends after this number of messages instead of after the time.
    pub(crate) messages: Option<u64>,
}

/// The work of a handler with a message, apart from reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    Read,
    /// Reads the key, but not the value.
    Undecoded,
    /// Takes this long.
    Slow(Duration),
    /// Refuses each message of this interval; it becomes a dead letter.
    Poison(u64),
    /// The consumer vanishes after half of the messages, and another one takes its place.
    Crash,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumerPart {
    pub(crate) mode: Mode,
    pub(crate) batch_max: usize,
    pub(crate) fill_timeout: Duration,
    pub(crate) concurrency: usize,
    pub(crate) order: Order,
    pub(crate) commit: Commit,
    pub(crate) strategy: &'static str,
    pub(crate) handling: Handling,
    /// Messages that the reference fetches at a time and handles one by one (`syncSingleMessage`,
    /// with short timers). `None`: as `batch_max`.
    pub(crate) singles: Option<usize>,
}

/// Published operations per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PublishedRates {
    pub(crate) producer: Option<u32>,
    pub(crate) consumer: Option<u32>,
}

const ACKNOWLEDGED: ProducerPart = ProducerPart {
    depth: 1,
    linger: Duration::ZERO,
    lz4: false,
    payload: Payload::Samples,
    poll: Duration::from_millis(50),
    messages: None,
};
const DEEP: ProducerPart = ProducerPart { depth: 100, ..ACKNOWLEDGED };
const PIPELINED: ProducerPart = ProducerPart { depth: 1_000, ..ACKNOWLEDGED };

/// One message at a time, each committed before the next.
const DEFAULT: ConsumerPart = ConsumerPart {
    mode: Mode::Recursive,
    batch_max: 1,
    fill_timeout: Duration::ZERO,
    concurrency: 1,
    order: Order::Partition,
    commit: Commit::Sync,
    strategy: "range,roundrobin",
    handling: Handling::Read,
    singles: None,
};

/// Commits do not wait.
const ASYNC: ConsumerPart = ConsumerPart { commit: Commit::Async, ..DEFAULT };
const SINGLES: ConsumerPart = ConsumerPart { singles: Some(1), ..DEFAULT };
const KEYED: ConsumerPart = ConsumerPart { concurrency: 10, order: Order::Key, ..SINGLES };
const KEYED_BY_TEN: ConsumerPart = ConsumerPart { singles: Some(10), ..KEYED };

const fn scenario(
    name: &'static str,
    differs: &'static str,
    (producer, consumer): (ProducerPart, ConsumerPart),
    published: (u32, u32),
) -> Scenario {
    let published = PublishedRates { producer: some(published.0), consumer: some(published.1) };
    Scenario { name, differs, partitions: 1, producer, consumer, published }
}

/// A scenario that the published benchmark lacks.
const fn ours(
    name: &'static str,
    differs: &'static str,
    producer: ProducerPart,
    consumer: ConsumerPart,
) -> Scenario {
    scenario(name, differs, (producer, consumer), (0, 0))
}

/// Partitions, each with a handler.
const fn spread(name: &'static str, differs: &'static str, partitions: i32) -> Scenario {
    let consumer =
        ConsumerPart { concurrency: partitions as usize, order: Order::Partition, ..ASYNC };
    Scenario { partitions, ..ours(name, differs, PIPELINED, consumer) }
}

const fn sized(name: &'static str, differs: &'static str, bytes: usize) -> Scenario {
    ours(name, differs, ProducerPart { payload: Payload::Bytes(bytes), ..PIPELINED }, ASYNC)
}

const fn deep(name: &'static str, differs: &'static str, depth: usize) -> Scenario {
    ours(name, differs, ProducerPart { depth, ..ACKNOWLEDGED }, ASYNC)
}

const fn handled(name: &'static str, differs: &'static str, handling: Handling) -> Scenario {
    ours(name, differs, PIPELINED, ConsumerPart { handling, ..ASYNC })
}

/// 0: not published.
const fn some(figure: u32) -> Option<u32> {
    if figure == 0 { None } else { Some(figure) }
}

const TEN: Duration = Duration::from_millis(10);
const AUTO: Commit = Commit::Interval(Duration::from_millis(100));
const POLL: Mode = Mode::Poll { every: TEN };

/// In the order in which they run.
pub(crate) const SCENARIOS: [Scenario; 35] = [
    scenario("s00-01", "", (ACKNOWLEDGED, DEFAULT), (861, 4_620)),
    scenario(
        "s00-02",
        "sends do not wait for acknowledgements",
        (ProducerPart { depth: 0, linger: Duration::from_millis(5), ..ACKNOWLEDGED }, DEFAULT),
        (3_311, 0),
    ),
    scenario(
        "s01",
        "commits every 100 ms",
        (ACKNOWLEDGED, ConsumerPart { commit: AUTO, ..DEFAULT }),
        (0, 10_051),
    ),
    scenario("s02", "lz4", (ProducerPart { lz4: true, ..ACKNOWLEDGED }, DEFAULT), (0, 4_781)),
    scenario(
        "s03",
        "polls the library every 10 ms",
        (ProducerPart { poll: TEN, ..ACKNOWLEDGED }, DEFAULT),
        (860, 4_678),
    ),
    scenario(
        "s04",
        "lingers for 10 ms",
        (ProducerPart { linger: TEN, ..ACKNOWLEDGED }, DEFAULT),
        (90, 0),
    ),
    scenario("s05", "poll", (ACKNOWLEDGED, ConsumerPart { mode: POLL, ..DEFAULT }), (0, 0)),
    scenario(
        "s06-01",
        "flow",
        (ACKNOWLEDGED, ConsumerPart { mode: Mode::Flow, ..DEFAULT }),
        (0, 5_966),
    ),
    scenario(
        "s06-02",
        "flow, commits without waiting",
        (ACKNOWLEDGED, ConsumerPart { mode: Mode::Flow, ..ASYNC }),
        (0, 0),
    ),
    scenario("s07-01", "messages by themselves", (ACKNOWLEDGED, SINGLES), (0, 5_456)),
    scenario("s07-02", "10 handlers", (ACKNOWLEDGED, KEYED), (0, 0)),
    scenario("s07-03", "10 handlers, taken by 10", (ACKNOWLEDGED, KEYED_BY_TEN), (0, 6_190)),
    scenario("s07-04", "as s07-01", (ACKNOWLEDGED, SINGLES), (0, 5_509)),
    scenario(
        "s08",
        "batches of 10, one commit each",
        (ACKNOWLEDGED, ConsumerPart { batch_max: 10, fill_timeout: TEN, ..DEFAULT }),
        (0, 6_603),
    ),
    scenario(
        "s09",
        "protobuf",
        (ProducerPart { payload: Payload::Protobuf, ..ACKNOWLEDGED }, DEFAULT),
        (0, 4_724),
    ),
    scenario("s10", "as s07-03", (ACKNOWLEDGED, KEYED_BY_TEN), (0, 0)),
    scenario(
        "s11-coop-sticky",
        "cooperative-sticky",
        (ACKNOWLEDGED, ConsumerPart { strategy: "cooperative-sticky", ..DEFAULT }),
        (0, 0),
    ),
    ours("x-async", "100 sends at a time; commits without waiting", DEEP, ASYNC),
    ours(
        "x-keyed",
        "1,000 sends at a time; 10 handlers by key, commits without waiting",
        PIPELINED,
        ConsumerPart { commit: Commit::Async, ..KEYED },
    ),
    ours(
        "x-batch",
        "sends do not wait; batches of 1,000, commits without waiting",
        ProducerPart { depth: 0, linger: TEN, ..ACKNOWLEDGED },
        ConsumerPart { batch_max: 1_000, ..ASYNC },
    ),
    spread("x-partitions-2", "2 partitions, 2 handlers", 2),
    spread("x-partitions-4", "4 partitions, 4 handlers", 4),
    spread("x-partitions-8", "8 partitions, 8 handlers", 8),
    sized("x-bytes-128", "messages of 128 bytes", 128),
    sized("x-bytes-1k", "messages of 1 KiB", 1_024),
    sized("x-bytes-10k", "messages of 10 KiB", 10_240),
    deep("x-depth-1", "1 send at a time", 1),
    deep("x-depth-10", "10 sends at a time", 10),
    deep("x-depth-1000", "1,000 sends at a time", 1_000),
    deep("x-depth-10000", "10,000 sends at a time", 10_000),
    ours(
        "x-raw",
        "1 KiB, sends do not wait; batches of 1,000, values are not decoded",
        ProducerPart { depth: 0, linger: TEN, payload: Payload::Bytes(1_024), ..ACKNOWLEDGED },
        ConsumerPart { batch_max: 1_000, handling: Handling::Undecoded, ..ASYNC },
    ),
    handled("x-slow", "the handler takes 1 ms", Handling::Slow(Duration::from_millis(1))),
    handled("x-poison", "each 1,000th message is poison", Handling::Poison(1_000)),
    handled("x-crash", "the consumer vanishes in the middle", Handling::Crash),
    ours(
        "x-million",
        "a million messages of 100 bytes, batches of 1,000",
        ProducerPart {
            depth: 0,
            linger: TEN,
            payload: Payload::Bytes(100),
            messages: Some(1_000_000),
            ..ACKNOWLEDGED
        },
        ConsumerPart { batch_max: 1_000, ..ASYNC },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_seventeen_are_published() {
        let mut names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.iter().filter(|name| name.starts_with('s')).count(), 17);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
    }
}
