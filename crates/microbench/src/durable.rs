//! Kernel and log together: the sequencer with synced files, in large batches and in batches of
//! waiting commands.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use journal::{FileLog, RealDisk};
use ledger::{Command, Notice, State};
use node::SystemClock;
use ports::{Clock, StoreError};
use record::frame::LogIdentity;
use sequencer::{ColdTier, Durability, Quarantine, ReplayStart, Sequencer, Submission};

use crate::measure::{Durations, Measurement, median, try_time};
use crate::report::{Row, Section};
use crate::stream::check_room;
use crate::timed_log::{Timed, Times};
use crate::workload::{Spread, Workload, delivered};
use crate::{BATCH_LARGE, CoreOptions, Error, PartProgress, ProgressSink};

/// Large batches per round; half of them prepares, half fulfils.
const BATCHES: usize = 20;
/// Rounds per log and state, which keeps final transfers: 400,000 transfers.
const ROUNDS_PER_LOG: usize = 5;
/// Approximate bytes of log for them.
const LOG_BYTES: u64 = 400_000 * 2 * COMMAND_BYTES;
/// Number of transfers between a prepare and its fulfil.
pub(crate) const FULFIL_DELAY: usize = 200;
/// Number of finished deliveries that are recorded together, as in the switch.
pub(crate) const DELIVERIES: usize = 512;

/// Maximum length of `arrivals`: the latency of each command is kept in memory.
const ARRIVALS_SECONDS_MAX: u32 = 3_600;
/// Approximate bytes of log per command.
const COMMAND_BYTES: u64 = 256;
/// Length of a portion of arrivals, which are created in memory beforehand. The clock is paused in
/// between.
const PORTION_SECONDS: u32 = 60;

/// A hub without sockets.
pub(crate) struct CoreHub {
    pub(crate) sequencer: Sequencer<Timed<FileLog<RealDisk>>>,
    clock: SystemClock,
    pub(crate) waiting: VecDeque<Submission<()>>,
    batch: Vec<Submission<()>>,
    owed: Vec<Notice>,
    times: Rc<RefCell<Times>>,
}

impl CoreHub {
    fn open(directory: &Path, workload: &Workload) -> Result<Self, Error> {
        Self::open_with(directory, workload, |_| Ok(None))
    }

    /// Opens a hub with a cold store for the log with this identity.
    pub(crate) fn open_with_store(
        directory: &Path,
        workload: &Workload,
        cold: impl FnOnce(LogIdentity) -> Result<ColdTier, StoreError>,
    ) -> Result<Self, Error> {
        Self::open_with(directory, workload, |identity| cold(identity).map(Some))
    }

    fn open_with(
        directory: &Path,
        workload: &Workload,
        cold: impl FnOnce(LogIdentity) -> Result<Option<ColdTier>, StoreError>,
    ) -> Result<Self, Error> {
        let disk = RealDisk::open(directory)?;
        let mut identity = [0; 16];
        getrandom::fill(&mut identity)?;
        let log = FileLog::create(disk, LogIdentity(identity), journal::LogOptions::default())?;
        let clock = SystemClock::new();
        let times = Rc::default();
        let cold = cold(LogIdentity(identity))?;
        let start =
            ReplayStart { state: State::new(), quarantine: Quarantine::default(), cold_tier: cold };
        let log = Timed::new(log, Rc::clone(&times));
        let sequencer = Sequencer::open_from(log, start, (0, clock.now()), &mut |_| {})
            .map_err(|failed| failed.1)?;
        let (waiting, batch, owed) = Default::default();
        let mut hub = Self { sequencer, clock, waiting, batch, owed, times };
        let mut failed = None;
        workload.onboard(|commands, look| {
            hub.waiting.extend(commands.into_iter().map(lazy));
            failed = failed.take().or(hub.commit_all().err());
            look(hub.sequencer.state());
        });
        hub.owed.clear();
        hub.times.take();
        failed.map_or(Ok(hub), Err)
    }

    /// Commits all waiting commands. With a store, also evicts final rows.
    pub(crate) fn commit_all(&mut self) -> Result<(), Error> {
        while !self.waiting.is_empty() {
            self.sequencer.commit(&mut self.waiting, &mut self.batch, self.clock.now())?;
            self.batch.clear();
            self.owed.extend_from_slice(&self.sequencer.effects().notices);
            self.sequencer.run_maintenance(self.clock.now())?;
        }
        Ok(())
    }

    /// Commits a batch, with the record of the deliveries owed before, and adds its times.
    pub(crate) fn commit_batch(
        &mut self,
        batch: Vec<Command>,
        spent: &mut Measurement,
        batches: &mut Durations,
    ) -> Result<(), Error> {
        self.waiting.extend(batch.into_iter().map(synced));
        self.deliver();
        let took = try_time(|| self.commit_all())?;
        batches.add(took.wall);
        spent.wall += took.wall;
        spent.cpu += took.cpu;
        Ok(())
    }

    /// Gives final rows to the store, and evicts those that it has stored.
    pub(crate) fn evict_stored(&mut self) -> Result<(), Error> {
        Ok(self.sequencer.run_maintenance(self.clock.now())?)
    }

    /// Number of notices whose delivery is not yet submitted.
    pub(crate) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Submits the record of all owed deliveries after the waiting commands.
    pub(crate) fn deliver(&mut self) {
        for part in self.owed.chunks(ledger::ENTRIES_MAX) {
            self.waiting.push_back(lazy(Command::FinishDeliveries(delivered(part))));
        }
        self.owed.clear();
    }
}

/// Batches of 8,189 commands, as sent by TigerBeetle's own benchmark.
pub(crate) fn large(
    options: &CoreOptions,
    directory: &Path,
    show: ProgressSink<'_>,
) -> Result<Section, Error> {
    let mut rows = Vec::new();
    for spread in [Spread::Hot, Spread::Uniform] {
        let directory = directory.join(format!("large-{spread:?}"));
        rows.push(large_row(options, spread, &directory, show)?);
    }
    let about = format!(
        "Kernel and log, durable before it is applied, one thread: batches of {BATCH_LARGE} \
         commands without bodies, one of prepares, one of fulfils; the deliveries of a batch are \
         recorded with the next one. At most {ROUNDS_PER_LOG} rounds share a log and a state."
    );
    let columns = vec![
        "commands/s",
        "CPU ns/command",
        "batch p50 us",
        "batch p99 us",
        "bytes/command",
        "sync p50 us",
        "sync share %",
        "syncs",
        "seconds",
    ];
    Ok(Section { name: "durable", about, columns, rows })
}

/// The sums over the rounds of one row.
#[derive(Default)]
struct Large {
    rates: Vec<f64>,
    cpu: Vec<f64>,
    batches: Durations,
    syncs: Durations,
    total: Duration,
    commands: usize,
    bytes: u64,
    sync_count: u64,
}

/// Makes the requested number of rounds, and more until the total time is long enough.
fn large_row(
    options: &CoreOptions,
    spread: Spread,
    directory: &Path,
    show: ProgressSink<'_>,
) -> Result<Row, Error> {
    let mut sums = Large::default();
    let wanted = Duration::from_secs(options.seconds.unwrap_or(0).into());
    let least = options.rounds as usize;
    while sums.rates.len() < least || sums.total < wanted {
        check_room(directory.parent().unwrap_or(directory), LOG_BYTES)?;
        sums.run_rounds(spread, directory, &mut |sums| {
            let rounds = sums.rates.len();
            let time = sums.total.as_secs_f64() / wanted.as_secs_f64();
            let share = time.min(rounds as f64 / least as f64);
            let done = sums.commands as u64;
            show(PartProgress {
                items: "commands",
                done,
                all: (done as f64 / share.min(1.0)) as u64,
            });
            rounds < least || sums.total < wanted
        })?;
        std::fs::remove_dir_all(directory)
            .map_err(|error| Error::Directory { path: directory.to_owned(), error })?;
    }
    Ok(sums.row(spread))
}

impl Large {
    /// Makes rounds in one log while `needs_more` returns true.
    fn run_rounds(
        &mut self,
        spread: Spread,
        directory: &Path,
        needs_more: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        let mut workload = Workload::new(spread, wall_ms());
        let mut hub = CoreHub::open(directory, &workload)?;
        let before = hub.sequencer.counts();
        for _ in 0..ROUNDS_PER_LOG {
            self.round(&mut hub, &mut workload)?;
            if !needs_more(self) {
                break;
            }
        }
        let after = hub.sequencer.counts();
        let counters = hub.sequencer.state().counters();
        assert!(counters.refused == 0 && counters.reserved == counters.committed, "{counters:?}");
        self.syncs.append(hub.times.take().syncs);
        self.bytes += after.bytes - before.bytes;
        self.sync_count += after.syncs - before.syncs;
        Ok(())
    }

    fn round(&mut self, hub: &mut CoreHub, workload: &mut Workload) -> Result<(), Error> {
        let made = workload.batches(BATCHES / 2 * BATCH_LARGE, BATCH_LARGE);
        let mut spent = Measurement::default();
        for batch in made {
            self.commands += batch.len();
            hub.commit_batch(batch, &mut spent, &mut self.batches)?;
        }
        let count = (BATCHES * BATCH_LARGE) as f64;
        self.total += spent.wall;
        self.rates.push(count / spent.wall.as_secs_f64());
        self.cpu.push(spent.cpu.as_nanos() as f64 / count);
        Ok(())
    }

    fn row(self, spread: Spread) -> Row {
        let figures = vec![
            median(self.rates),
            median(self.cpu),
            self.batches.per_mille_us(500),
            self.batches.per_mille_us(990),
            self.bytes as f64 / self.commands as f64,
            self.syncs.per_mille_us(500),
            100.0 * self.syncs.sum().as_secs_f64() / self.total.as_secs_f64(),
            self.sync_count as f64,
            self.total.as_secs_f64(),
        ];
        Row { case: spread.name().into(), figures }
    }
}

/// Commands that arrive one at a time at a constant rate. All waiting commands form the next batch.
pub(crate) fn arrivals(
    options: &CoreOptions,
    directory: &Path,
    show: ProgressSink<'_>,
) -> Result<Section, Error> {
    let spread = Spread::Uniform;
    let mut workload = Workload::new(spread, wall_ms());
    let seconds = options.seconds_fed().min(ARRIVALS_SECONDS_MAX);
    let wanted = u64::from(options.rate) * u64::from(seconds) * COMMAND_BYTES;
    check_room(directory, wanted)?;
    let mut hub = CoreHub::open(&directory.join("arrivals"), &workload)?;
    let before = hub.sequencer.counts();
    let gap = Duration::from_secs(1).div_f64(f64::from(options.rate));
    let mut latencies = Durations::default();
    let (mut commands, mut took) = (0, Duration::ZERO);
    let all = u64::from(options.rate) * u64::from(seconds);
    let mut show = |done| show(PartProgress { items: "commands", done, all });
    for portion in portions(seconds) {
        let pairs = options.rate as usize * portion as usize / 2;
        let row = workload.interleaved(pairs.max(1), FULFIL_DELAY);
        let row: Vec<_> = row.into_iter().map(synced).collect();
        commands += row.len();
        took += try_time(|| arrive(&mut hub, row, gap, &mut latencies, &mut show))?.wall;
    }
    let counts = hub.sequencer.counts();
    let batches = (counts.batches - before.batches) as f64;
    let figures = vec![
        commands as f64 / took.as_secs_f64(),
        latencies.per_mille_us(500),
        latencies.per_mille_us(990),
        latencies.per_mille_us(999),
        latencies.per_mille_us(1_000),
        commands as f64 / batches,
        (counts.syncs - before.syncs) as f64,
    ];
    let about = format!(
        "Kernel and log, durable: one command every {} us for {} s, one at a time; all commands \
         that wait when the thread is free form a batch. Latency counts from the intended time of \
         arrival until the command is durable and applied. The thread spins while it is idle.",
        gap.as_micros(),
        seconds
    );
    let columns =
        vec!["commands/s", "p50 us", "p99 us", "p99.9 us", "max us", "mean batch", "syncs"];
    let case = format!("{}, {} a second", spread.name(), options.rate);
    Ok(Section { name: "arrivals", about, columns, rows: vec![Row { case, figures }] })
}

/// The seconds of each portion.
fn portions(seconds: u32) -> impl Iterator<Item = u32> {
    let starts = (0..seconds).step_by(PORTION_SECONDS as usize);
    starts.map(move |start| (seconds - start).min(PORTION_SECONDS))
}

fn arrive(
    hub: &mut CoreHub,
    row: Vec<Submission<()>>,
    gap: Duration,
    latencies: &mut Durations,
    show: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let start = Instant::now();
    let mut row = row.into_iter().enumerate().peekable();
    let mut arrived = Vec::new();
    while row.peek().is_some() {
        let now = start.elapsed();
        while let Some((at, submission)) = row.next_if(|(at, _)| gap * (*at as u32) <= now) {
            arrived.push(gap * at as u32);
            hub.waiting.push_back(submission);
        }
        if arrived.is_empty() {
            std::hint::spin_loop();
            continue;
        }
        if DELIVERIES <= hub.owed() {
            hub.deliver();
        }
        hub.commit_all()?;
        let done = start.elapsed();
        arrived.drain(..).for_each(|intended| latencies.add(done - intended));
        show(latencies.count());
    }
    Ok(())
}

pub(crate) fn synced(command: Command) -> Submission<()> {
    submission(command, Durability::Synced)
}

fn lazy(command: Command) -> Submission<()> {
    submission(command, Durability::Lazy)
}

fn submission(command: Command, durability: Durability) -> Submission<()> {
    Submission::without_payload(command, durability, ()).expect("these commands are small")
}

pub(crate) fn wall_ms() -> u64 {
    SystemClock::new().now().wall.millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_add_up_to_the_time() {
        for (seconds, expected) in [(5, &[5][..]), (60, &[60]), (130, &[60, 60, 10])] {
            assert_eq!(portions(seconds).collect::<Vec<_>>(), expected);
        }
        assert_eq!(portions(ARRIVALS_SECONDS_MAX).sum::<u32>(), 3_600);
    }
}
