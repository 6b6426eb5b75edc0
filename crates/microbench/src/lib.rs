//! What the core costs, part by part: `upesi-bench core`.
//!
//! Phases of [`run`]: the kernel alone; kernel and log, durable, in large batches and in batches
//! that form themselves; kernel, log and cold store; the log alone; then single operations: stored
//! forms, the steps of each kind of FSPIOP message, signatures; and, only when it is asked for, one
//! stream at a constant rate, as long as wanted. The cases of one table take turns,
//! round by round, so that a busy machine slows all of them alike; the figure is the median over
//! the rounds.
//!
//! Costs: about half a minute, a gigabyte of memory, and some hundred megabytes below the
//! directory of [`Options::data`], which are removed at the end. Nothing listens or connects.
//!
//! [`operations`] gives the same operations one by one to `cargo xtask counts`, which counts
//! their instructions: a figure that no other load on the machine moves.
#![warn(missing_docs)]

mod durable;
mod kernel;
mod log;
mod measure;
mod messages;
mod operation;
mod report;
mod signatures;
mod steps;
mod stored;
mod stream;
mod timed;
mod workload;

use std::path::{Path, PathBuf};

pub use operation::{Group, Operation};
pub use report::{Report, Row, Section};
pub use steps::operations;

use measure::{median, time};
use serde::Serialize;

/// Seconds for which commands come, unless it is said.
const SECONDS_FED: u32 = 5;
/// Commands of a large batch: what one message of TigerBeetle's own benchmark holds.
const BATCH_LARGE: usize = 8_189;

/// Arguments of `upesi-bench core`.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct Options {
    /// Directory for logs, on the disk to be measured; a fresh one inside it is used and removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub data: PathBuf,
    /// Rounds of which the median counts.
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Commands a second that arrive one by one.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Seconds of work for each row of `durable`, which without it has --rounds alone; for which
    /// commands of `arrivals` come (5 without it, 3600 at most), and the stream is fed (5).
    #[arg(long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Prepares a second that the stream is fed, and as many fulfils.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 50_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pairs_per_second: u32,
    /// Length of the bodies in the stream.
    #[arg(long, value_name = "BYTES", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub body_bytes: u32,
    /// Delete segments of the stream's log when they are closed, for a long stream on a small disk.
    #[arg(long)]
    pub discard_log: bool,
    /// Transfers that end beside a store; with ten million, 6 GB of disk.
    #[arg(long, value_name = "COUNT", default_value_t = 250_000,
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub transfers: u32,
    /// Measure only these parts.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Write the results as JSON to this file, or without a name to the output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[serde(skip)]
    pub json: Option<Option<PathBuf>>,
}

impl Options {
    /// For how long commands come one by one, or the stream is fed.
    fn seconds_fed(&self) -> u32 {
        self.seconds.unwrap_or(SECONDS_FED)
    }
}

/// How far a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What is counted, in the plural.
    pub what: &'static str,
    /// So many were done.
    pub done: u64,
    /// Of so many, as far as can be told.
    pub all: u64,
}

/// Is told now and then how far a part is.
pub type Show<'a> = &'a mut dyn FnMut(Done);

/// The parts that can be measured alone.
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
    /// One stream at a constant rate with bodies and a store; only when it is named.
    Stream,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory for the logs cannot be made or removed.
    #[error("cannot use {} for the logs: {error}; choose another with --data", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// A part would fill the disk.
    #[error(
        "this would need {} MiB of disk, and {} MiB are free: fewer --seconds, or another \
         disk with --data", .wanted >> 20, .free >> 20
    )]
    Room {
        /// Bytes that it takes, about, with what shall stay free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The disk did not do as asked.
    #[error(transparent)]
    Disk(#[from] ports::DiskError),
    /// The log did not do as asked.
    #[error(transparent)]
    Log(#[from] ports::LogError),
    /// A log could not be made.
    #[error(transparent)]
    Open(#[from] journal::OpenError),
    /// A new log could not be read.
    #[error(transparent)]
    Replay(#[from] sequencer::ReplayError),
    /// The store did not do as asked.
    #[error(transparent)]
    Store(#[from] ports::StoreError),
    /// A batch was not committed.
    #[error(transparent)]
    Commit(#[from] sequencer::CommitError),
    /// The system gave no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The cryptographic library made no usable key.
    #[error("the cryptographic library made no usable RSA key")]
    Key,
}

/// Measures. On standard error stands what is being measured, and `show` is told how far it is.
///
/// # Errors
/// [`Error`] when the disk or the cryptographic library fails; nothing is printed then.
pub fn run(options: &Options, show: Show<'_>) -> Result<Report, Error> {
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
            Part::Store => sections.push(stored::large(options, &directory.path, show)?),
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
    "The way between threads: inbox, mailboxes, wake-ups.",
    "Choosing an endpoint, callbacks and retries; deliveries end here the moment they are owed.",
    "Replication; and reading the log back.",
    "Memory and caches after days: states hold under a million transfers.",
];

/// Stored forms and messages, all taking turns.
fn steps(options: &Options) -> Vec<Section> {
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

fn signatures(options: &Options) -> Result<Section, Error> {
    let mut operations = signatures::operations()?;
    let measured = nanos(&mut operations, options);
    let rows = operations.iter().enumerate().map(|(at, one)| {
        let bare = measured[at / 2 * 2];
        Row { case: one.name.clone(), figures: vec![measured[at] / 1e3, measured[at] / bare] }
    });
    Ok(Section {
        name: Group::Jws.name(),
        about: "Signatures over a POST /transfers, beside the bare operation on the same bytes, \
                taking turns."
            .into(),
        columns: vec!["CPU us", "times bare"],
        rows: rows.collect(),
    })
}

/// CPU time of each operation in nanoseconds: the median over rounds in which all take turns.
fn nanos(operations: &mut [Operation], options: &Options) -> Vec<f64> {
    let mut all = vec![Vec::new(); operations.len()];
    // The first round warms caches and buffers up and does not count.
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

/// Removes what this process has written in `parent` for a measurement that goes on: it must end
/// then.
pub fn remove_files(parent: &Path) {
    // Whoever writes meanwhile makes another file now and then.
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
        // After a failure; what is left can only be told by the failure that ended the run.
        let _gone = std::fs::remove_dir_all(&self.path);
    }
}
