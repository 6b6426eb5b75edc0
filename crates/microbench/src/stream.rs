//! One ordered stream at a constant rate, with bodies and a store, at the scale of a national
//! system: `upesi-bench core --only stream`.
//!
//! Two threads, as in the switch. One creates commands with their stored forms and submits those
//! that are due. The other takes all waiting commands as one batch, makes it durable, decides it,
//! and gives final rows to the store. Each fulfil follows its prepare after a number of transfers.
//! Finished deliveries are recorded as in the switch, but nothing is sent.
//!
//! Latency counts from the intended time of a pair until it is durable and applied. If the stream
//! does not keep up, the rate falls and the latency grows. At most about 65,000 commands wait
//! between the threads. The run ends on time, whatever is still waiting.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ledger::Command;
use sequencer::{Durability, Submission};

use crate::cold_store::{length_of, open_stored};
use crate::durable::{CoreHub, DELIVERIES, FULFIL_DELAY, wall_ms};
use crate::measure::process_cpu;
use crate::messages::{PREPARE_AT, SAMPLES};
use crate::report::{Row, Section};
use crate::workload::{Spread, Workload};
use crate::{CoreOptions, Error, PartProgress, ProgressSink};

/// The index of `PUT /transfers` among the samples.
const FULFIL_AT: usize = PREPARE_AT + 1;
/// Maximum number of pairs that are submitted together.
const PORTION: u64 = 256;
/// Maximum number of portions between the two threads.
const PORTIONS: usize = 128;
/// Approximate maximum of commands in a batch.
const GATHERED: usize = 8_192;
/// Polling interval of an idle thread.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Longer latencies are recorded as one hour.
const LATE_MAX_US: u64 = 3_600_000_000;
/// Disk space to leave free, approximate space of a pair without its two bodies, and the part of it
/// in the store, compaction included.
const FREE_BYTES: u64 = 1 << 30;
const PAIR_OVERHEAD_BYTES: u64 = 2_000;
const STORED_BYTES: u64 = 800;
/// Number of segments to keep if closed ones are deleted, and the interval of deletions, in pairs.
const SEGMENTS_KEPT: usize = 3;
const DISCARD_EVERY: u64 = 65_536;

/// Pairs that are due at the same time.
struct DuePairs {
    /// The number of the first pair.
    from: u64,
    submissions: Vec<Submission<()>>,
}

/// Rate of the pairs.
#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    per_second: u32,
}

impl Schedule {
    fn due(self) -> u64 {
        (self.start.elapsed().as_secs_f64() * f64::from(self.per_second)) as u64
    }

    /// The current delay of a pair.
    fn late(self, pair: u64) -> Duration {
        let intended = Duration::from_secs_f64(pair as f64 / f64::from(self.per_second));
        self.start.elapsed().saturating_sub(intended)
    }
}

/// Runs the stream for the requested duration.
pub(crate) fn measure(
    options: &CoreOptions,
    directory: &Path,
    show: ProgressSink<'_>,
) -> Result<Section, Error> {
    let pairs = u64::from(options.pairs_per_second) * u64::from(options.seconds_fed());
    let of_pair = match options.discard_log {
        true => STORED_BYTES,
        false => 2 * u64::from(options.body_bytes) + PAIR_OVERHEAD_BYTES,
    };
    check_room(directory, pairs * of_pair)?;
    let mut show = |done| show(PartProgress { items: "pairs", done, all: pairs });
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

fn fed(
    options: &CoreOptions,
    directory: &Path,
    show: &mut dyn FnMut(u64),
) -> Result<Vec<f64>, Error> {
    let workload = Workload::new(Spread::Uniform, wall_ms());
    let mut hub = open_stored(directory, &workload)?;
    let (sender, receiver) = sync_channel(PORTIONS);
    let (before, cpu) = (hub.sequencer.counts(), process_cpu());
    let schedule = Schedule { start: Instant::now(), per_second: options.pairs_per_second };
    let messages = StoredMessages::new(options.body_bytes as usize);
    let mut eaten = StreamResult::new();
    let seconds = Duration::from_secs(options.seconds_fed().into());
    thread::scope(|scope| {
        scope.spawn(move || feed(workload, &messages, schedule, &sender));
        let mut discarded = 0;
        let mut show = |pairs| {
            show(pairs);
            if options.discard_log && discarded + DISCARD_EVERY <= pairs {
                discarded = pairs;
                // On a separate thread, since a deletion can take the file system some time.
                scope.spawn(|| discard(directory));
            }
        };
        eaten.commit_stream(&mut hub, schedule, (seconds, receiver), &mut show)
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

/// Deletes all segments but the last ones. Failed deletions are ignored, since they only cost
/// space.
fn discard(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
    let mut segments: Vec<_> = entries.map(|entry| entry.path()).filter(is_segment).collect();
    segments.sort();
    for path in segments.iter().rev().skip(SEGMENTS_KEPT) {
        let _deleted = std::fs::remove_file(path);
    }
}

/// The stored forms of the messages: one of each kind, reused for all commands.
struct StoredMessages {
    prepare: Vec<u8>,
    fulfil: Vec<u8>,
}

impl StoredMessages {
    fn new(body_bytes: usize) -> Self {
        let stored = |at: usize| {
            let sample: &crate::messages::Sample = &SAMPLES[at];
            // The log stores a body as bytes, so it is truncated or padded with spaces.
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

/// Submits due pairs until the receiver is dropped.
fn feed(
    mut workload: Workload,
    messages: &StoredMessages,
    schedule: Schedule,
    sender: &SyncSender<DuePairs>,
) {
    let (mut made, mut open) = (0, VecDeque::new());
    loop {
        let until = schedule.due().min(made + PORTION);
        if until == made {
            thread::sleep(POLL_INTERVAL);
            continue;
        }
        let mut submissions = Vec::with_capacity(2 * PORTION as usize);
        for _ in made..until {
            let (prepare, fulfil) = workload.next();
            submissions.push(messages.submit(prepare));
            open.push_back(fulfil);
            if FULFIL_DELAY < open.len() {
                submissions.extend(open.pop_front().map(|fulfil| messages.submit(fulfil)));
            }
        }
        if sender.send(DuePairs { from: made, submissions }).is_err() {
            return;
        }
        made = until;
    }
}

/// The result of a stream.
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

    /// Commits pairs until the time is over. Pairs that still wait are not counted.
    fn commit_stream(
        &mut self,
        hub: &mut CoreHub,
        schedule: Schedule,
        (seconds, receiver): (Duration, Receiver<DuePairs>),
        show: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut taken = Vec::new();
        while schedule.start.elapsed() < seconds {
            match receiver.recv_timeout(POLL_INTERVAL) {
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
                    self.late.saturating_record(schedule.late(pair).as_micros() as u64);
                }
            }
            show(self.pairs);
        }
        self.elapsed = schedule.start.elapsed();
        Ok(())
    }
}

/// Queues a portion for the next batch. Returns the number of its first pair, and their count.
fn take(hub: &mut CoreHub, portion: DuePairs) -> (u64, u64) {
    let prepares = |submission: &&Submission<()>| matches!(submission.command, Command::Prepare(_));
    let pairs = portion.submissions.iter().filter(prepares).count() as u64;
    hub.waiting.extend(portion.submissions);
    (portion.from, pairs)
}
