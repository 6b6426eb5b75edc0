//! The runs of each sweep and the published figures that stand beside them, as data.
//!
//! The figures are those that their publications print; where one computes instead of measuring,
//! its name says so.

use crate::options::{BenchOptions, FspOptions};
use crate::scenario::Scenario;
use crate::sweep::{DiskOptions, HourOptions, MillionOptions, ShortOptions, StandardOptions};
use crate::sweep_report::{Published, Source};

/// One run to be made.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) group: &'static str,
    pub(crate) at: f64,
    pub(crate) scenario: Scenario,
    pub(crate) options: BenchOptions,
    /// Text for the configuration file of the switch.
    pub(crate) configuration: String,
    /// Further arguments of the switch, and what they make of its durability.
    pub(crate) injected: Option<(String, String)>,
    pub(crate) published: Vec<Published>,
}

/// A sweep's runs and what they are compared with.
pub(crate) struct Plans {
    pub(crate) question: &'static str,
    pub(crate) sources: Vec<Source>,
    pub(crate) plans: Vec<Plan>,
}

const IN_FLIGHT: usize = 100;
const QUICK_SECONDS: f64 = 1.0;

/// Records per batch with 100 in flight, then a few in flight.
pub(crate) fn coil(options: &ShortOptions) -> Plans {
    let runs = |name, rows: [[f64; 3]; 3]| {
        let row = |[rate, avg, max]: [f64; 3]| published(name, rate, Some(avg), Some(max));
        rows.map(row).to_vec()
    };
    let tables = [
        (1, runs("handlers 1", [[69., 1381., 1562.], [71., 1341., 1629.], [73., 1310., 1525.]])),
        (4, runs("handlers 4", [[133., 718., 985.], [130., 728., 1041.], [134., 715., 1041.]])),
        (8, runs("handlers 8", [[139., 685., 983.], [143., 651., 903.], [146., 654., 881.]])),
        (10, runs("handlers 16", [[133., 724., 1128.], [128., 756., 1473.], [138., 696., 967.]])),
        (16, runs("handlers 16", [[131., 738., 1199.], [112., 848., 1766.], [115., 840., 1669.]])),
    ];
    let length = |concurrency| {
        let count = if options.output.quick { 200 } else { options.count };
        BenchOptions {
            concurrency,
            count: options.seconds.is_none().then_some(count),
            seconds: options.seconds.unwrap_or(1.0),
            ..base(options.output.quick)
        }
    };
    let batches = tables.map(|(batch, published)| Plan {
        configuration: batch_limit(batch),
        published,
        ..plan(
            format!("batch {batch}, {IN_FLIGHT} in flight"),
            ("100 in flight, by records in a batch", f64::from(batch)),
            Scenario::Transfer,
            length(IN_FLIGHT),
        )
    });
    let few = [1_usize, 4, 8, 16].map(|flight| {
        let name = format!("{flight} in flight");
        let group = ("by transfers in flight", flight as f64);
        plan(name, group, Scenario::Transfer, length(flight))
    });
    Plans {
        question: "transfers with handlers of the reference at concurrency and batch 1 to 16; ours \
                   with as many records in a batch of the log, and with as many in flight",
        sources: vec![Source {
            title: "report on the concurrency of handlers (Coil, 2020), three runs of each",
            work: "1,000 transfers, 100 in flight, no look-up, no quote",
            hardware: "9 machines of 4 vCPU",
            durability: "MySQL synced to NVMe",
            left_out: "percentiles, CPU time, how durable Kafka was",
        }],
        plans: batches.into_iter().chain(few).collect(),
    }
}

/// S1 to S10: with and without batches, 30 to 100 in flight.
pub(crate) fn batching(options: &StandardOptions) -> Plans {
    let row = |name, rate, avg| published(name, rate, Some(avg), None);
    let tables = [
        (1, 30, vec![row("S1", 103., 298.)]),
        (1, 50, vec![]),
        (1, 70, vec![]),
        (1, 100, vec![]),
        (
            50,
            30,
            vec![
                row("S2", 119., 260.),
                row("S3", 135., 232.),
                row("S7", 140., 237.),
                row("S9", 201., 155.),
            ],
        ),
        (50, 50, vec![row("S4", 173., 316.)]),
        (50, 70, vec![row("S5", 198., 362.)]),
        (50, 100, vec![row("S6", 226., 456.), row("S8", 233., 453.), row("S10", 282., 393.)]),
    ];
    let plans = tables.map(|(batch, users, published)| Plan {
        configuration: batch_limit(batch),
        published,
        ..plan(
            format!("batch {batch}, {users} users"),
            (if batch == 1 { "no batches" } else { "batches of 50" }, users as f64),
            Scenario::Transfer,
            BenchOptions {
                concurrency: users,
                seconds: if options.output.quick { QUICK_SECONDS } else { options.seconds },
                ..base(options.output.quick)
            },
        )
    });
    Plans {
        question: "transfers with the reference's position handler unbatched and in batches of 50; \
                   ours with 1 and 50 records in a batch of the log",
        sources: vec![Source {
            title: "Mojaloop's page on batch processing (2023), S1 to S10",
            work: "transfers, 8 DFSPs, closed loop; only position prepares are batched",
            hardware: "one machine of 16 vCPU, simulators and load included",
            durability: "none: MySQL in memory",
            left_out: "percentiles, CPU time per transfer, what more handlers alone bring",
        }],
        plans: plans.into(),
    }
}

/// So many whole transactions.
pub(crate) fn million(options: &MillionOptions) -> Plans {
    let count = if options.output.quick { 2_000 } else { options.count };
    let row =
        |name, rate, avg, p99, max| Published { p99_ms: p99, ..published(name, rate, avg, max) };
    let run = BenchOptions {
        count: Some(count),
        concurrency: options.concurrency,
        rate: options.rate,
        ..base(options.output.quick)
    };
    let one = Plan {
        published: vec![
            row("v17.1.0", 650., None, Some(946.), None),
            row("1,000-TPS run", 990.7, Some(560.), None, Some(4_320.)),
            row("2,000-TPS run", 1_903.9, Some(1_010.), None, Some(20_300.)),
        ],
        ..plan(format!("{count} whole transactions"), ("", 0.0), Scenario::Whole, run)
    };
    Plans {
        question: "a million whole transactions (look-up, quote, transfer) in four pairs: does it \
                   stay fast, and what does it need",
        sources: vec![
            Source {
                title: "v17.1.0 without TLS: 650/s, steady part of 1.27 million (2026)",
                work: "whole transactions, open loop, 13 pairs, 70% from one payer",
                hardware: "48 vCPU for the hub alone",
                durability: "one Kafka broker on a volatile disk, MySQL not synced per commit",
                left_out: "the longest, memory over time, bytes stored",
            },
            Source {
                title: "1,000-TPS and 2,000-TPS runs of a million (2025 to 2026)",
                work: "whole transactions, open loop; p95 829 ms and 1,880 ms",
                hardware: "80 and 144 vCPU for the hub alone",
                durability: "one Kafka broker on a volatile disk, MySQL not synced per commit",
                left_out: "p99, memory over time, bytes stored",
            },
        ],
        plans: vec![one],
    }
}

/// Slower disks.
pub(crate) fn disk(options: &DiskOptions) -> Plans {
    let run = || BenchOptions {
        concurrency: options.concurrency,
        seconds: if options.output.quick { QUICK_SECONDS } else { options.seconds },
        ..base(options.output.quick)
    };
    let one = |name: String, group, injected: Option<(String, String)>, published| Plan {
        injected,
        published,
        ..plan(name, group, Scenario::Transfer, run())
    };
    const ADDED: &str = "by milliseconds added to a sync";
    let mut plans = vec![one("this disk".to_owned(), (ADDED, 0.0), None, vec![])];
    for (micros, ceiling) in [(140_u32, 549.), (490, 156.), (790, 97.), (3_800, 20.)] {
        let millis = f64::from(micros) / 1e3;
        let argument = format!("--inject-sync-delay-us={micros}");
        let meaning = format!("fsync before 202, each {millis} ms longer (injected)");
        plans.push(one(
            format!("syncs + {millis} ms"),
            (ADDED, millis),
            Some((argument, meaning)),
            vec![published("computed", ceiling, None, None)],
        ));
    }
    let most = options.syncs_per_second;
    let meaning = format!("fsync before 202, at most {most} a second (injected)");
    plans.push(one(
        format!("{most} syncs/s"),
        ("by syncs a second", f64::from(most)),
        Some((format!("--inject-sync-per-second={most}"), meaning)),
        vec![],
    ));
    Plans {
        question: "transfers on slower disks: each sync of the log takes so much longer, or there \
                   are only so many a second",
        sources: vec![Source {
            title: "report on the concurrency of handlers (Coil, 2020): ceilings by the disk",
            work: "transfers; computed as 1000 / (milliseconds of a sync x 13 write transactions)",
            hardware: "any: a bound by the disk alone",
            durability: "each write transaction synced",
            left_out: "a measurement on such disks",
        }],
        plans,
    }
}

/// A long run at a constant rate.
pub(crate) fn hour(options: &HourOptions) -> Plans {
    let seconds = if options.output.quick { 5.0 } else { options.seconds };
    let rate = if options.output.quick { options.rate.min(100.0) } else { options.rate };
    let run = BenchOptions { rate: Some(rate), seconds, ..base(options.output.quick) };
    let baseline = published("baseline", 1_000., None, None);
    let end_to_end = published("PI-9", 301., Some(331.), Some(690.));
    let one = Plan {
        published: vec![baseline, end_to_end],
        ..plan(format!("{rate}/s for {seconds} s"), ("", 0.0), Scenario::Whole, run)
    };
    Plans {
        question: "whole transactions at a constant rate for an hour: how many transfers take \
                   longer than a second",
        sources: vec![
            Source {
                title: "Mojaloop's official baseline of v17.0.0: 1,000/s for an hour",
                work: "at most 1% of the transfer stage over one second",
                hardware: "\"minimal hardware\"",
                durability: "not said",
                left_out: "hardware, durability, percentiles, how many failed",
            },
            Source {
                title: "PI-9 end to end (2020): 301/s for 4,800 s, none over a second",
                work: "transfers only, 8 FSPs",
                hardware: "about 88 vCPU",
                durability: "not said; the timeout handler was off",
                left_out: "percentiles, CPU time",
            },
        ],
        plans: vec![one],
    }
}

/// The options that every run of a sweep starts from.
pub(crate) fn base(quick: bool) -> BenchOptions {
    let standard = FspOptions::standard();
    let fsps = if quick { FspOptions { subscribers: 20, ..standard } } else { standard };
    BenchOptions { fsps, warmup: if quick { 0.1 } else { 1.0 }, ..BenchOptions::standard() }
}

fn plan(
    name: String,
    (group, at): (&'static str, f64),
    scenario: Scenario,
    options: BenchOptions,
) -> Plan {
    let (configuration, published) = (String::new(), Vec::new());
    Plan { name, group, at, scenario, options, configuration, injected: None, published }
}

fn batch_limit(records: u32) -> String {
    format!("[log]\nbatch_records_max = {records}\n")
}

fn published(name: &'static str, rate: f64, avg_ms: Option<f64>, max_ms: Option<f64>) -> Published {
    Published { name, rate_per_s: Some(rate), avg_ms, p99_ms: None, max_ms }
}
