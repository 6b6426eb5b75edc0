//! Results of a measurement: as JSON and as a table.

use std::fmt;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;
use waterfall::text;

use crate::options::BenchOptions;
use harness::histograms::{Latencies, Second};
use harness::proc_stats::Environment;
use harness::reconcile::{Check, differences};
use harness::report::{DemoReport, Latency, Legs};
use harness::run::Measured;
use harness::switch_process::SwitchCommand;

/// Results of a measurement: the members of [`DemoReport`] and those below, on one level. Times are
/// in milliseconds unless the name ends in `_s`. CPU time, log bytes and system calls are per
/// successful unit of the whole measured part.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BenchReport {
    /// The measured scenario.
    pub scenario: &'static str,
    /// Definition of one unit.
    pub unit: &'static str,
    /// Name of the units, in the plural.
    pub units: &'static str,
    /// Whether the run counts: every check that could be made passed.
    pub valid: bool,
    /// Whether accounts and counters of the hub were compared with those of the FSPs. Without an
    /// admin API only the observations of the FSPs are checked.
    pub books_compared: bool,
    /// The failed checks, with actual and expected numbers.
    pub invalid_because: Vec<String>,
    /// Every check with its result.
    pub checks: Vec<Check>,
    /// Units offered per second (open loop).
    pub offered_per_s: Option<f64>,
    /// Successful units per second, in the whole measured part.
    pub achieved_per_s: f64,
    /// Units that were not started because too many were in flight (open loop).
    pub dropped: u64,
    /// Maximum number of units in flight.
    pub in_flight_max: usize,
    /// The steady part.
    pub steady: Window,
    /// The parts of the run that the steady part excludes.
    pub trimmed: String,
    /// The whole measured part.
    pub whole_run: Window,
    /// Units of the whole measured part that took longer than one second.
    pub over_one_second: OverOneSecond,
    /// Time from the actual start to the 202 response to the first message. Zero if the callback
    /// arrives first.
    pub accepted_ms: Latency,
    /// Quantiles of the whole run and their latency.
    pub distribution_ms: Vec<(f64, f64)>,
    /// Number of units by latency, whole run. The bucket edges grow by a constant factor, from the
    /// fastest unit to the slowest.
    pub histogram_ms: Vec<Bucket>,
    /// CPU time of this process per unit: FSPs, load generation and statistics.
    pub harness_cpu_ms_per_tx: f64,
    /// The rate of the same load through a forward-only switch; `null` when not measured.
    pub ceiling: Option<Ceiling>,
    /// Achieved rate divided by that of the ceiling.
    pub ratio_to_ceiling: Option<f64>,
    /// The rate of one switch with its log in files; `null` unless nodes are measured.
    pub embedded: Option<Embedded>,
    /// Achieved rate divided by that of one switch.
    pub ratio_to_embedded: Option<f64>,
    /// System calls and context switches of the switch; `null` when its process is not known.
    pub system_calls: Option<SystemCalls>,
    /// Durability of an acknowledgement.
    pub durability_of: Durability,
    /// Protection of the messages.
    pub security: Security,
    /// Bodies that the FSPs sent.
    pub payload: Payload,
    /// Transfers that the hub stores.
    pub stored_transfers: StoredTransfers,
    /// The environment of the run, in addition to `machine`.
    pub environment: Environment,
    /// The commit that this program was built from; empty when not known.
    pub commit: &'static str,
    /// Load by payer, payee and pair.
    pub spread: Spread,
    /// All options of the run.
    pub configuration: Value,
    /// Start of the measured part, for observers in this process.
    #[serde(skip)]
    pub began: Option<Instant>,
    /// The figures of each second of the measured part. A unit counts in the second of its end.
    /// Units that started in the measured part and ended after it are in one more second. The sum
    /// may therefore differ by a few units from `committed`, which counts units that ended in that
    /// part.
    pub seconds_one_by_one: Vec<Second>,
    /// The members that every report has.
    #[serde(flatten)]
    pub summary: DemoReport,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Window {
    /// Its start, in seconds after the start of the measured part.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Units that succeeded in it.
    pub ended: u64,
    /// Successful units per second.
    pub rate_per_s: f64,
    /// Latency of its units.
    pub latency_ms: Latency,
}

/// A range of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bucket {
    /// Its start.
    pub from_ms: f64,
    /// Its end, exclusive.
    pub to_ms: f64,
    /// Units with a latency in this range.
    pub units: u64,
}

/// Number of successful units in the measured part that took longer than one second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct OverOneSecond {
    /// Units.
    pub units: u64,
    /// Transfers, from `POST /transfers` to the commit notice.
    pub transfers: u64,
}

/// The rate that the load generator and sockets reach without a switch's work.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ceiling {
    /// Units per second through a forward-only switch: the mean of both runs.
    pub rate_per_s: f64,
    /// Units per second in the run before.
    pub before_per_s: f64,
    /// Units per second in the run after.
    pub after_per_s: f64,
}

/// The rate of one switch with its log in files, which syncs before it answers.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Embedded {
    /// Units a second: the mean of both runs.
    pub rate_per_s: f64,
    /// Median latency: the mean of both runs.
    pub p50_ms: f64,
    /// Units per second in the run before.
    pub before_per_s: f64,
    /// Units per second in the run after.
    pub after_per_s: f64,
}

/// System calls of the switch's process, per unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SystemCalls {
    /// The source of the counts.
    pub counted: &'static str,
    /// Calls of the read family.
    pub reads_per_tx: f64,
    /// Calls of the write family.
    pub writes_per_tx: f64,
    /// Calls that read data from a socket, as counted by the switch; `null` if it does not count
    /// them.
    pub socket_reads_per_tx: Option<f64>,
    /// Calls that wrote data to a socket.
    pub socket_writes_per_tx: Option<f64>,
    /// Voluntary context switches: a thread waited.
    pub context_switches_voluntary_per_tx: f64,
    /// Involuntary context switches: a thread was preempted.
    pub context_switches_involuntary_per_tx: f64,
}

/// Durability of an acknowledgement; `null` where it is not known.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Durability {
    /// Whether the record is synced to disk first.
    pub fsync: Option<bool>,
    /// Copies of the log.
    pub replicas: Option<u32>,
    /// Copies that must have the record first.
    pub acks: Option<u32>,
}

/// Protection of the messages.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Security {
    /// Whether connections were encrypted.
    pub tls: bool,
    /// Signatures: off, verify or sign.
    pub jws: &'static str,
}

/// Bodies that the FSPs sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Payload {
    /// Messages with a body, warm-up included.
    pub bodies: u64,
    /// Their mean length.
    pub mean_body_bytes: f64,
}

/// Transfers that the hub stores; `null` if it does not report them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StoredTransfers {
    /// At the start of the measured part.
    pub at_start: Option<u64>,
    /// When all transfers were final.
    pub at_end: Option<u64>,
}

/// Load by payer, payee and pair, as shares of all units, warm-up included.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Spread {
    /// `uniform` or `skewed`.
    pub kind: &'static str,
    /// Share of the busiest payer.
    pub largest_payer: f64,
    /// Share of the busiest payee.
    pub largest_payee: f64,
    /// Share of the busiest pair.
    pub largest_pair: f64,
    /// All pairs, the busiest first.
    pub pairs: Vec<Share>,
}

/// The share of one pair.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Share {
    /// The paying FSP.
    pub payer: String,
    /// The paid FSP.
    pub payee: String,
    /// Share of all units.
    pub share: f64,
}

/// The expiring transfers of the expiry sweep.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ExpiryConfiguration {
    /// Number of transfers.
    pub count: usize,
    /// Seconds within which they expire.
    pub within: f64,
    /// Seconds allowed for reserving them.
    pub reserve: f64,
    /// Measured seconds before the first expiration, and at least after the last.
    pub around: u32,
    /// Number in the name of the first FSP that holds them.
    pub first: u64,
}

impl BenchReport {
    /// Adds a check. The run is void if it failed.
    pub(crate) fn add(&mut self, check: Check) {
        self.checks.push(check);
        let lines = differences(&self.checks);
        self.valid = lines.is_empty();
        self.summary.verified = self.valid;
        self.invalid_because.clone_from(&lines);
        self.summary.differences = lines;
    }
}

/// Buckets of a histogram in each factor of ten.
const BUCKETS_PER_TENFOLD: i32 = 10;

impl Bucket {
    /// All buckets from the fastest unit to the slowest, including empty ones.
    pub(crate) fn all(micros: &Histogram<u64>) -> Vec<Self> {
        let edge = |at: i32| 10_f64.powf(f64::from(at) / f64::from(BUCKETS_PER_TENFOLD));
        let place = |value: u64| {
            let value = value.max(1) as f64;
            (value.log10() * f64::from(BUCKETS_PER_TENFOLD) + 1e-9).floor() as i32
        };
        let mut buckets: Vec<Self> = Vec::new();
        let mut first = None;
        for value in micros.iter_recorded() {
            let at = place(value.value_iterated_to());
            let first = *first.get_or_insert(at);
            while (buckets.len() as i32) <= at - first {
                let next = first + buckets.len() as i32;
                let [from_ms, to_ms] = [edge(next), edge(next + 1)].map(|micros| micros / 1e3);
                buckets.push(Self { from_ms, to_ms, units: 0 });
            }
            buckets[(at - first) as usize].units += value.count_at_value();
        }
        buckets
    }
}

impl OverOneSecond {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        let over = |micros: &Histogram<u64>| micros.count_between(1_000_001, u64::MAX);
        Self { units: over(&latencies.whole), transfers: over(&latencies.transfer) }
    }
}

impl SystemCalls {
    /// System calls of the hub's process in the measured part; `None` if they are not known.
    pub(crate) fn of(measured: &Measured, units: f64) -> Option<Self> {
        let used = measured.hub?;
        let each = |count: u64| count as f64 / units;
        // With several nodes, the metrics are those of one node.
        let counted = |name| measured.nodes.is_none().then(|| measured.risen(name)).flatten();
        let each_counted = |name| Some(counted(name)? / units);
        Some(Self {
            counted: "reads and writes: syscr and syscw of /proc/PID/io, which are read, pread, \
                readv and write, pwrite, writev, on files, pipes and sockets, without recv and \
                send; socket_reads and socket_writes: the switch's own counts of calls on FSPIOP's \
                sockets that moved bytes, some of which are writev; epoll_wait, futex and fsync \
                are in none",
            reads_per_tx: each(used.reads),
            writes_per_tx: each(used.writes),
            context_switches_voluntary_per_tx: each(used.switches_voluntary),
            context_switches_involuntary_per_tx: each(used.switches_involuntary),
            socket_reads_per_tx: each_counted("upesi_socket_reads_total"),
            socket_writes_per_tx: each_counted("upesi_socket_writes_total"),
        })
    }
}

impl Durability {
    /// One embedded log, synced before every acknowledgement.
    pub(crate) const fn embedded() -> Self {
        Self { fsync: Some(true), replicas: Some(1), acks: Some(1) }
    }

    /// A log on brokers whose configuration is not known.
    pub(crate) const fn of_a_topic() -> Self {
        Self { fsync: Some(false), replicas: None, acks: None }
    }

    /// A log on `replicas` brokers, of which `acks` must have a record first.
    pub(crate) const fn shared((replicas, acks): (u32, u32)) -> Self {
        Self { fsync: Some(false), replicas: Some(replicas), acks: Some(acks) }
    }

    pub(crate) const fn unknown() -> Self {
        Self { fsync: None, replicas: None, acks: None }
    }
}

impl Security {
    /// The protection that the simulated FSPs use.
    pub(crate) const fn plain() -> Self {
        Self { tls: false, jws: "off" }
    }
}

/// All options by name, and the configuration of the switch.
pub(crate) fn configuration(options: &BenchOptions, command: &SwitchCommand) -> Value {
    let mut set = serde_json::to_value(options).expect("options have only plain members");
    let unused = if options.count.is_some() { "seconds" } else { "count" };
    set[unused] = Value::Null;
    if options.rate.is_some() {
        set["concurrency"] = Value::Null;
    }
    let spawned = options.hub.is_none();
    set["program"] = spawned.then(|| command.program.display().to_string()).into();
    set["program_version"] = spawned.then(|| command.version()).flatten().into();
    set["switch_configuration"] = command.configuration.clone().filter(|_| spawned).into();
    set
}

/// Members that are in the table, in the last lines, or in the JSON only.
const NOT_AS_FIELDS: [&str; 17] = [
    "scenario",
    "unit",
    "steady",
    "whole_run",
    "accepted_ms",
    "latency_ms",
    "legs_ms",
    "checks",
    "valid",
    "verified",
    "books_compared",
    "invalid_because",
    "differences",
    "failures",
    "nodes",
    "distribution_ms",
    "histogram_ms",
];

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scenario        {}: {}", self.scenario, self.unit)?;
        f.write_str(&self.latencies())?;
        f.write_str(&text::fields(self, &NOT_AS_FIELDS))?;
        if let Some(nodes) = &self.summary.nodes {
            write!(f, "{nodes}")?;
        }
        self.verdict(f)
    }
}

impl BenchReport {
    /// A row for each part of the run, and for each leg if there are several.
    fn latencies(&self) -> String {
        let row = |name: &str, of: &Latency, rate: Option<f64>| {
            let Latency { avg, p50, p90, p95, p99, p999, max, .. } = *of;
            let figures = [avg, p50, p90, p95, p99, p999, max].map(Some);
            let figures = figures.into_iter().chain([rate]).map(text::cell);
            [name.to_owned()].into_iter().chain(figures).collect::<Vec<_>>()
        };
        let window = |name: &str, it: &Window| row(name, &it.latency_ms, Some(it.rate_per_s));
        let mut rows = vec![window("steady", &self.steady), window("whole run", &self.whole_run)];
        if self.accepted_ms.max > 0.0 {
            rows.push(row("answered 202", &self.accepted_ms, None));
        }
        if self.scenario == "whole" {
            let Legs { lookup, quote, transfer } = self.summary.legs_ms;
            for (name, leg) in [("look-up", lookup), ("quote", quote), ("transfer", transfer)] {
                let figures = [None, Some(leg.p50), None, Some(leg.p95), Some(leg.p99)];
                let figures = figures.into_iter().map(text::cell);
                rows.push([name.to_owned()].into_iter().chain(figures).collect());
            }
        }
        let columns = ["ms", "avg", "p50", "p90", "p95", "p99", "p99.9", "max", "rate/s"];
        text::table(&columns, &rows)
    }

    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.summary.failures {
            writeln!(f, "FAILED          {failure}")?;
        }
        for check in &self.checks {
            let word = match check.passed {
                Some(true) => "ok     ",
                Some(false) => "FAILED ",
                None => "skipped",
            };
            writeln!(f, "check           {word} {}", check.name)?;
            for problem in check.problems.iter().take(10) {
                writeln!(f, "                        {problem}")?;
            }
        }
        if self.valid && !self.books_compared {
            return writeln!(
                f,
                "valid           yes, without the hub's accounts: no --admin was given, so only \
                 the observations of the FSPs were checked"
            );
        }
        if self.valid {
            return writeln!(f, "valid           yes");
        }
        writeln!(f, "VOID            this run is not a valid result; see the failed checks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::histograms::histogram;

    #[test]
    fn histogram_counts_each_unit_once() {
        let mut micros = histogram();
        for value in [1_000, 1_100, 1_300, 9_000] {
            micros.record(value).expect("within the bounds");
        }
        let buckets = Bucket::all(&micros);
        assert_eq!(buckets.len(), 10, "from 1 to 10 ms, empty ones too");
        let units: Vec<_> = buckets.iter().map(|bucket| bucket.units).collect();
        assert_eq!(units, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!((buckets[0].from_ms - 1.0).abs() < 1e-9, "{:?}", buckets[0]);
        assert!(buckets.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms));
        assert_eq!(Bucket::all(&histogram()), []);
    }
}
