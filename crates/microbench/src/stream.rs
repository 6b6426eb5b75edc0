//! One ordered stream at a constant rate, with bodies and a store, as a national system feeds it:
//! `upesi-bench core --only stream`.
//!
//! Two threads, as in the switch: one writes commands with their stored forms and hands over what
//! is due, the other takes whoever waits as one batch and makes it durable, decides it, and gives
//! the store what ended. Each fulfil comes some transfers after its prepare. The deliveries of what
//! is owed are noted as they are in the switch; nothing is sent.
//!
//! Latency is counted from the moment a pair should have come until it is durable and applied, so
//! a stream that does not keep up shows in both: the rate falls and the latency grows. Bounds: some
//! 65,000 commands wait between the threads, and the run ends with its time, whatever waits.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ledger::Command;
use sequencer::{Durability, Submission};

use crate::durable::{BEHIND, DELIVERIES, Hub, wall_ms};
use crate::measure::process_cpu;
use crate::messages::{PREPARE_AT, SAMPLES};
use crate::report::{Row, Section};
use crate::stored::{length_of, open_stored};
use crate::workload::{Spread, Workload};
use crate::{Done, Error, Options, Show};

/// Where `PUT /transfers` stands among the samples.
const FULFIL_AT: usize = PREPARE_AT + 1;
/// Pairs that are handed over at once at most.
const PORTION: u64 = 256;
/// Portions between the two threads.
const PORTIONS: usize = 128;
/// Commands that one batch is gathered of, about.
const GATHERED: usize = 8_192;
/// Between two looks of a thread that has nothing to do.
const GLANCE: Duration = Duration::from_micros(50);
/// Latencies beyond an hour count as one.
const LATE_MAX_US: u64 = 3_600_000_000;
/// What must stay free on the disk, and what a pair takes there beside two bodies, about; of that
/// in the store, merges included.
const FREE_BYTES: u64 = 1 << 30;
const BESIDE_BODIES_BYTES: u64 = 2_000;
const STORED_BYTES: u64 = 800;
/// Segments that stay where closed ones are deleted, and how often that is done, in pairs.
const SEGMENTS_KEPT: usize = 3;
const DISCARD_EVERY: u64 = 65_536;

/// Pairs that are due together.
struct DuePairs {
    /// The number of the first.
    from: u64,
    submissions: Vec<Submission<()>>,
}

/// How often pairs come.
#[derive(Clone, Copy)]
struct Pace {
    start: Instant,
    per_second: u32,
}

impl Pace {
    fn due(self) -> u64 {
        (self.start.elapsed().as_secs_f64() * f64::from(self.per_second)) as u64
    }

    /// How late a pair is by now.
    fn late(self, pair: u64) -> Duration {
        let intended = Duration::from_secs_f64(pair as f64 / f64::from(self.per_second));
        self.start.elapsed().saturating_sub(intended)
    }
}

/// Feeds the stream for so many seconds.
pub(crate) fn measure(
    options: &Options,
    directory: &Path,
    show: Show<'_>,
) -> Result<Section, Error> {
    let pairs = u64::from(options.pairs_per_second) * u64::from(options.seconds_fed());
    let of_pair = match options.discard_log {
        true => STORED_BYTES,
        false => 2 * u64::from(options.body_bytes) + BESIDE_BODIES_BYTES,
    };
    check_room(directory, pairs * of_pair)?;
    let mut show = |done| show(Done { what: "pairs", done, all: pairs });
    let row = fed(options, &directory.join("stream"), &mut show)?;
    let about = format!(
        "One stream for {} s, kernel, log and cold store, durable before it is applied: {} \
         prepares and as many fulfils a second, with bodies of {} bytes and their headers. CPU is \
         that of all threads of the process: the one that writes the messages' stored forms, the \
         sequencer's, the store's.{}",
        options.seconds_fed(),
        options.pairs_per_second,
        options.body_bytes,
        if options.discard_log { " Closed segments were deleted." } else { "" }
    );
    let columns = vec![
        "pairs/s kept",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "CPU us/command",
        "mean batch",
        "syncs/s",
        "log B/pair",
        "store B/pair",
        "waits",
    ];
    let case = format!("{}, {} a second", Spread::Uniform.name(), options.pairs_per_second);
    Ok(Section { name: "stream", about, columns, rows: vec![Row { case, figures: row }] })
}

pub(crate) fn check_room(directory: &Path, wanted: u64) -> Result<(), Error> {
    let found = rustix::fs::statvfs(directory).map_err(std::io::Error::from);
    let found = found.map_err(|error| Error::Directory { path: directory.to_owned(), error })?;
    let free = found.f_bavail * found.f_frsize;
    match wanted + FREE_BYTES <= free {
        true => Ok(()),
        false => Err(Error::Room { wanted: wanted + FREE_BYTES, free }),
    }
}

fn fed(options: &Options, directory: &Path, show: &mut dyn FnMut(u64)) -> Result<Vec<f64>, Error> {
    let workload = Workload::new(Spread::Uniform, wall_ms());
    let mut hub = open_stored(directory, &workload)?;
    let (sender, receiver) = sync_channel(PORTIONS);
    let (before, cpu) = (hub.sequencer.counts(), process_cpu());
    let pace = Pace { start: Instant::now(), per_second: options.pairs_per_second };
    let letters = StoredMessages::new(options.body_bytes as usize);
    let mut eaten = StreamResult::new();
    let seconds = Duration::from_secs(options.seconds_fed().into());
    thread::scope(|scope| {
        scope.spawn(move || feed(workload, &letters, pace, &sender));
        let mut discarded = 0;
        let mut show = |pairs| {
            show(pairs);
            if options.discard_log && discarded + DISCARD_EVERY <= pairs {
                discarded = pairs;
                // Beside the threads that are measured: to delete takes a file system its time.
                scope.spawn(|| discard(directory));
            }
        };
        eaten.eat(&mut hub, pace, (seconds, receiver), &mut show)
    })?;
    let cpu = process_cpu().saturating_sub(cpu);
    let after = hub.sequencer.counts();
    let counters = hub.sequencer.state().counters();
    assert!(counters.refused == 0, "{counters:?}");
    let waits = hub.sequencer.cold_counts().waits;
    drop(hub);
    let pairs = eaten.pairs as f64;
    let elapsed = eaten.elapsed.as_secs_f64();
    let of = |quantile| eaten.late.value_at_quantile(quantile) as f64 / 1e3;
    Ok(vec![
        pairs / elapsed,
        of(0.5),
        of(0.99),
        of(0.999),
        eaten.late.max() as f64 / 1e3,
        cpu.as_nanos() as f64 / 1e3 / (2.0 * pairs),
        2.0 * pairs / (after.batches - before.batches) as f64,
        (after.syncs - before.syncs) as f64 / elapsed,
        (after.bytes - before.bytes) as f64 / pairs,
        length_of(&directory.join("store")) as f64 / pairs,
        waits as f64,
    ])
}

/// Deletes segments but the last ones. What cannot be deleted stays: it is a matter of room alone.
fn discard(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
    let mut segments: Vec<_> = entries.map(|entry| entry.path()).filter(is_segment).collect();
    segments.sort();
    for path in segments.iter().rev().skip(SEGMENTS_KEPT) {
        let _deleted = std::fs::remove_file(path);
    }
}

/// The messages, as they are stored beside commands: one of each kind, again and again.
struct StoredMessages {
    prepare: Vec<u8>,
    fulfil: Vec<u8>,
}

impl StoredMessages {
    fn new(body_bytes: usize) -> Self {
        let stored = |at: usize| {
            let sample: &crate::messages::Sample = &SAMPLES[at];
            // To the log a body is bytes: it is cut off, or filled up with spaces.
            let mut body = sample.body.as_bytes().to_vec();
            body.resize(body_bytes, b' ');
            let mut out = Vec::new();
            fspiop::stored_message::encode(&sample.headers(), &body, &mut out);
            out
        };
        Self { prepare: stored(PREPARE_AT), fulfil: stored(FULFIL_AT) }
    }

    fn submit(&self, command: Command) -> Submission<()> {
        let is_prepare = matches!(command, Command::Prepare(_));
        let payload = if is_prepare { &self.prepare } else { &self.fulfil };
        let record = sequencer::encode(&command, Some(payload)).expect("the messages are small");
        Submission { command, record, durability: Durability::Synced, attached: () }
    }
}

/// Hands over what is due until nobody takes it.
fn feed(
    mut workload: Workload,
    letters: &StoredMessages,
    pace: Pace,
    sender: &SyncSender<DuePairs>,
) {
    let (mut made, mut open) = (0, VecDeque::new());
    loop {
        let until = pace.due().min(made + PORTION);
        if until == made {
            thread::sleep(GLANCE);
            continue;
        }
        let mut submissions = Vec::with_capacity(2 * PORTION as usize);
        for _ in made..until {
            let (prepare, fulfil) = workload.next();
            submissions.push(letters.submit(prepare));
            open.push_back(fulfil);
            if BEHIND < open.len() {
                submissions.extend(open.pop_front().map(|fulfil| letters.submit(fulfil)));
            }
        }
        if sender.send(DuePairs { from: made, submissions }).is_err() {
            return;
        }
        made = until;
    }
}

/// What came of it.
struct StreamResult {
    pairs: u64,
    elapsed: Duration,
    /// In microseconds.
    late: Histogram<u64>,
}

impl StreamResult {
    fn new() -> Self {
        let late = Histogram::new_with_bounds(1, LATE_MAX_US, 3).expect("good bounds");
        Self { pairs: 0, elapsed: Duration::ZERO, late }
    }

    /// Commits what comes until the time is over; what still waits then is not counted.
    fn eat(
        &mut self,
        hub: &mut Hub,
        pace: Pace,
        (seconds, receiver): (Duration, Receiver<DuePairs>),
        show: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut taken = Vec::new();
        while pace.start.elapsed() < seconds {
            match receiver.recv_timeout(GLANCE) {
                Ok(portion) => taken.push(take(hub, portion)),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while hub.waiting.len() < GATHERED
                && let Ok(portion) = receiver.try_recv()
            {
                taken.push(take(hub, portion));
            }
            if DELIVERIES <= hub.owed() {
                hub.deliver();
            }
            hub.commit_all()?;
            for (from, pairs) in taken.drain(..) {
                self.pairs += pairs;
                for pair in from..from + pairs {
                    self.late.saturating_record(pace.late(pair).as_micros() as u64);
                }
            }
            show(self.pairs);
        }
        self.elapsed = pace.start.elapsed();
        Ok(())
    }
}

/// Has a portion wait for the next batch; answers with the first of its pairs, and how many.
fn take(hub: &mut Hub, portion: DuePairs) -> (u64, u64) {
    let prepares = |submission: &&Submission<()>| matches!(submission.command, Command::Prepare(_));
    let pairs = portion.submissions.iter().filter(prepares).count() as u64;
    hub.waiting.extend(portion.submissions);
    (portion.from, pairs)
}
