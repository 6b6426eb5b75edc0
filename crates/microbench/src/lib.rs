//! Costs of the core, part by part: `upesi-bench core`.
//!
//! Phases of [`run`]: the kernel alone; kernel and log, durable, in large batches and in batches of
//! waiting commands; kernel, log and cold store; the log alone; then single operations: stored
//! forms, the steps of each kind of FSPIOP message, signatures; and, only if requested, one stream
//! at a constant rate. The cases of one table take turns, round by round, so that other load on the
//! machine affects all of them alike. A figure is the median over the rounds.
//!
//! A run takes about half a minute, a gigabyte of memory, and some hundred megabytes in the
//! directory of [`CoreOptions::data`], which are removed at the end. There are no sockets.
//!
//! [`operations`] returns the same operations for `cargo xtask counts`, which counts their
//! instructions. That figure does not depend on other load.
#![warn(missing_docs)]

mod bulk;
mod cold_store;
mod durable;
mod kernel;
mod log;
mod measure;
mod messages;
mod operation;
mod report;
mod settlement;
mod signatures;
mod steps;
mod stream;
mod timed_log;
mod workload;

use std::path::{Path, PathBuf};

pub use bulk::{KernelRates, decide_bulks};
pub use operation::{Group, Operation};
pub use report::{Report, Row, Section};
pub use settlement::{SettledWindow, settle_window};
pub use steps::operations;

use measure::{median, time};
use serde::Serialize;

/// Default duration of `arrivals` and of the stream, in seconds.
const SECONDS_FED: u32 = 5;
/// Commands of a large batch: the size of a message of TigerBeetle's own benchmark.
const BATCH_LARGE: usize = 8_189;

/// Arguments of `upesi-bench core`.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct CoreOptions {
    /// Directory on the disk to measure; temporary files are created in it.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub data: PathBuf,
    /// Number of rounds; the median counts.
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Rate of commands in the part `arrivals`.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Length of the parts `durable` (per row), `arrivals` and `stream`, in seconds.
    ///
    /// Default: --rounds alone for `durable`, 5 for the others. `arrivals` is limited to 3600.
    #[arg(long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Rate of prepares in the stream, and of fulfils.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 50_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pairs_per_second: u32,
    /// Length of the bodies in the stream, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub body_bytes: u32,
    /// Delete closed segments of the stream's log, for a long run on a small disk.
    #[arg(long)]
    pub discard_log: bool,
    /// Transfers of the part `store`; ten million use 6 GB of disk.
    #[arg(long, value_name = "COUNT", default_value_t = 250_000,
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub transfers: u32,
    /// Measure only these parts.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[serde(skip)]
    pub json: Option<Option<PathBuf>>,
}

impl CoreOptions {
    /// Duration of `arrivals` and of the stream, in seconds.
    fn seconds_fed(&self) -> u32 {
        self.seconds.unwrap_or(SECONDS_FED)
    }
}

/// Progress of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartProgress {
    /// Name of the items, in the plural.
    pub items: &'static str,
    /// Finished items.
    pub done: u64,
    /// All items, possibly an estimate.
    pub all: u64,
}

/// Receives the progress of a part at intervals.
pub type ProgressSink<'a> = &'a mut dyn FnMut(PartProgress);

/// The parts of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The kernel without a log.
    Kernel,
    /// Kernel and log in large batches.
    Durable,
    /// Kernel and log with commands that arrive one by one.
    Arrivals,
    /// Kernel, log and cold store in large batches.
    Store,
    /// The log alone.
    Log,
    /// Stored forms and the steps of FSPIOP messages.
    Steps,
    /// Signatures.
    Signatures,
    /// One stream at a constant rate with bodies and a store; only if named.
    Stream,
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory for the logs cannot be created or removed.
    #[error("cannot use {} for the logs: {error}; choose another with --data", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The disk has too little space for a part.
    #[error(
        "not enough disk space: {} MiB needed, {} MiB free; use fewer --seconds, or another \
         disk with --data", .wanted >> 20, .free >> 20
    )]
    Room {
        /// Approximate bytes needed, including the space to leave free.
        wanted: u64,
        /// Free bytes.
        free: u64,
    },
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] ports::DiskError),
    /// A log operation failed.
    #[error(transparent)]
    Log(#[from] ports::LogError),
    /// A log could not be created.
    #[error(transparent)]
    Open(#[from] journal::OpenError),
    /// A new log could not be read.
    #[error(transparent)]
    Replay(#[from] sequencer::ReplayError),
    /// A store operation failed.
    #[error(transparent)]
    Store(#[from] ports::StoreError),
    /// A batch was not committed.
    #[error(transparent)]
    Commit(#[from] sequencer::CommitError),
    /// The system did not provide random bytes.
    #[error("the system provided no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The cryptographic library did not generate a usable key.
    #[error("the cryptographic library generated no usable RSA key")]
    Key,
}

/// Measures. Prints the current part to standard error, and reports its progress to `show`.
///
/// # Errors
///
/// [`Error`] if the disk or the cryptographic library fails. Nothing is printed then.
pub fn run(options: &CoreOptions, show: ProgressSink<'_>) -> Result<Report, Error> {
    let directory = Directory::make(&options.data)?;
    let mut sections = Vec::new();
    for (part, what) in PARTS {
        let named = options.only.contains(&part);
        if !named && (!options.only.is_empty() || part == Part::Stream) {
            continue;
        }
        eprintln!("measuring {what} ...");
        match part {
            Part::Kernel => sections.push(kernel::measure(options)?),
            Part::Durable => sections.push(durable::large(options, &directory.path, show)?),
            Part::Arrivals => sections.push(durable::arrivals(options, &directory.path, show)?),
            Part::Store => sections.push(cold_store::large(options, &directory.path, show)?),
            Part::Log => sections.push(log::measure(options, &directory.path)?),
            Part::Steps => sections.extend(steps(options)),
            Part::Signatures => sections.push(signatures(options)?),
            Part::Stream => sections.push(stream::measure(options, &directory.path, show)?),
        }
    }
    directory.remove()?;
    Ok(Report { sections, not_measured: NOT_MEASURED.to_vec() })
}

const PARTS: [(Part, &str); 8] = [
    (Part::Kernel, "the kernel alone"),
    (Part::Durable, "kernel and log in large batches"),
    (Part::Arrivals, "kernel and log with single commands"),
    (Part::Store, "kernel, log and cold store in large batches"),
    (Part::Log, "the log alone"),
    (Part::Steps, "stored forms and messages"),
    (Part::Signatures, "signatures"),
    (Part::Stream, "one stream at a constant rate"),
];

const NOT_MEASURED: [&str; 5] = [
    "Sockets, TLS, and reading and writing HTTP.",
    "Communication between threads: inbox, mailboxes, wake-ups.",
    "Choosing an endpoint, callbacks and retries; deliveries are recorded immediately.",
    "Replication, and reading the log.",
    "Memory and caches after days; the states hold fewer than a million transfers.",
];

/// Measures stored forms and messages, which take turns.
fn steps(options: &CoreOptions) -> Vec<Section> {
    let mut operations = operations();
    operations.retain(|operation| operation.group != Group::Kernel);
    let about = |group| match group {
        Group::Codec => "Stored forms, one thread, CPU time.",
        Group::Fspiop => "Single steps of a message, one thread, CPU time.",
        _ => {
            "Whole messages: path, headers and body checked, the body's hash where it is \
             recorded, headers rewritten."
        }
    };
    let measured = nanos(&mut operations, options);
    [Group::Codec, Group::Fspiop, Group::Message]
        .into_iter()
        .map(|group| {
            let of_group = operations.iter().zip(&measured).filter(|(one, _)| one.group == group);
            let row = |(one, nanos): (&Operation, &f64)| Row {
                case: one.name.clone(),
                figures: vec![*nanos],
            };
            let (name, about) = (group.name(), about(group).to_owned());
            Section { name, about, columns: vec!["CPU ns"], rows: of_group.map(row).collect() }
        })
        .collect()
}

fn signatures(options: &CoreOptions) -> Result<Section, Error> {
    let mut operations = signatures::operations()?;
    let measured = nanos(&mut operations, options);
    let rows = operations.iter().enumerate().map(|(at, one)| {
        let bare = measured[at / 2 * 2];
        Row { case: one.name.clone(), figures: vec![measured[at] / 1e3, measured[at] / bare] }
    });
    Ok(Section {
        name: Group::Jws.name(),
        about: "Signatures over a POST /transfers, compared with the bare operation on the same \
                bytes, taking turns."
            .into(),
        columns: vec!["CPU us", "times bare"],
        rows: rows.collect(),
    })
}

/// CPU time of each operation in nanoseconds: the median over rounds in which all take turns.
fn nanos(operations: &mut [Operation], options: &CoreOptions) -> Vec<f64> {
    let mut all = vec![Vec::new(); operations.len()];
    // The first round warms up caches and buffers and does not count.
    for round in 0..=3 * options.rounds {
        for (operation, times) in operations.iter_mut().zip(&mut all) {
            operation.prepare();
            let took = time(|| operation.perform());
            if round > 0 {
                times.push(took.cpu.as_nanos() as f64 / operation.count as f64);
            }
        }
    }
    all.into_iter().map(median).collect()
}

/// Removes the files of this process in `parent` while a measurement is running, which must then
/// end.
pub fn remove_files(parent: &Path) {
    // The running measurement may create another file meanwhile.
    for _ in 0..REMOVED_WITHIN {
        if std::fs::remove_dir_all(directory_in(parent)).is_ok() {
            return;
        }
    }
}

const REMOVED_WITHIN: usize = 100;

fn directory_in(parent: &Path) -> PathBuf {
    parent.join(format!("bench-core-{}", std::process::id()))
}

/// A directory of this run alone.
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn make(parent: &Path) -> Result<Self, Error> {
        let path = directory_in(parent);
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(error) => Err(Error::Directory { path, error }),
        }
    }

    fn remove(self) -> Result<(), Error> {
        let path = self.path.clone();
        std::fs::remove_dir_all(&path).map_err(|error| Error::Directory { path, error })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Only after a failure, which is reported instead of an error of the removal.
        let _gone = std::fs::remove_dir_all(&self.path);
    }
}
