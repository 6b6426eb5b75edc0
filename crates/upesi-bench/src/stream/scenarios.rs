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
    pub(crate) producer: ProducerPart,
    pub(crate) consumer: ConsumerPart,
    pub(crate) published: PublishedRates,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProducerPart {
    /// Messages without acknowledgement at a time. 0: as many as the queue takes.
    pub(crate) depth: usize,
    pub(crate) linger: Duration,
    pub(crate) lz4: bool,
    pub(crate) protobuf: bool,
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
}

/// PublishedRates operations per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PublishedRates {
    pub(crate) producer: Option<u32>,
    pub(crate) consumer: Option<u32>,
}

const ACKNOWLEDGED: ProducerPart =
    ProducerPart { depth: 1, linger: Duration::ZERO, lz4: false, protobuf: false };

/// One message at a time, each committed before the next.
const DEFAULT: ConsumerPart = ConsumerPart {
    mode: Mode::Recursive,
    batch_max: 1,
    fill_timeout: Duration::ZERO,
    concurrency: 1,
    order: Order::Partition,
    commit: Commit::Sync,
    strategy: "range,roundrobin",
};

const KEYED: ConsumerPart = ConsumerPart { concurrency: 10, order: Order::Key, ..DEFAULT };

const fn scenario(
    name: &'static str,
    differs: &'static str,
    (producer, consumer): (ProducerPart, ConsumerPart),
    published: (u32, u32),
) -> Scenario {
    let published = PublishedRates { producer: some(published.0), consumer: some(published.1) };
    Scenario { name, differs, producer, consumer, published }
}

/// 0: not published.
const fn some(figure: u32) -> Option<u32> {
    if figure == 0 { None } else { Some(figure) }
}

const TEN: Duration = Duration::from_millis(10);
const AUTO: Commit = Commit::Interval(Duration::from_millis(100));
const POLL: Mode = Mode::Poll { every: TEN };

/// In the order in which they run.
pub(crate) const SCENARIOS: [Scenario; 20] = [
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
    scenario("s03", "polls the library every 10 ms", (ACKNOWLEDGED, DEFAULT), (860, 4_678)),
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
        (ACKNOWLEDGED, ConsumerPart { mode: Mode::Flow, commit: Commit::Async, ..DEFAULT }),
        (0, 0),
    ),
    scenario("s07-01", "messages by themselves", (ACKNOWLEDGED, DEFAULT), (0, 5_456)),
    scenario("s07-02", "10 handlers", (ACKNOWLEDGED, KEYED), (0, 0)),
    scenario("s07-03", "10 handlers, taken by 10", (ACKNOWLEDGED, KEYED), (0, 6_190)),
    scenario("s07-04", "as s07-01", (ACKNOWLEDGED, DEFAULT), (0, 5_509)),
    scenario(
        "s08",
        "batches of 10, one commit each",
        (ACKNOWLEDGED, ConsumerPart { batch_max: 10, fill_timeout: TEN, ..DEFAULT }),
        (0, 6_603),
    ),
    scenario(
        "s09",
        "protobuf",
        (ProducerPart { protobuf: true, ..ACKNOWLEDGED }, DEFAULT),
        (0, 4_724),
    ),
    scenario("s10", "as s07-03", (ACKNOWLEDGED, KEYED), (0, 0)),
    scenario(
        "s11-coop-sticky",
        "cooperative-sticky",
        (ACKNOWLEDGED, ConsumerPart { strategy: "cooperative-sticky", ..DEFAULT }),
        (0, 0),
    ),
    scenario(
        "x-async",
        "100 sends at a time; commits without waiting",
        (
            ProducerPart { depth: 100, ..ACKNOWLEDGED },
            ConsumerPart { commit: Commit::Async, ..DEFAULT },
        ),
        (0, 0),
    ),
    scenario(
        "x-keyed",
        "1,000 sends at a time; 10 handlers by key, commits without waiting",
        (
            ProducerPart { depth: 1_000, ..ACKNOWLEDGED },
            ConsumerPart { commit: Commit::Async, ..KEYED },
        ),
        (0, 0),
    ),
    scenario(
        "x-batch",
        "sends do not wait; batches of 1,000, commits without waiting",
        (
            ProducerPart { depth: 0, linger: TEN, ..ACKNOWLEDGED },
            ConsumerPart { batch_max: 1_000, commit: Commit::Async, ..DEFAULT },
        ),
        (0, 0),
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
