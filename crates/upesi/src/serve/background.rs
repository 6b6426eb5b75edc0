//! What a running switch does beside its work, each on a thread of low priority: hands closed
//! segments over to the archive, keeps a copy of the log, and watches how full the disk is and
//! whether archives are there.
//!
//! None of it is needed to decide or to acknowledge. What fails is said once, shown by
//! `GET /storage` and the metrics, and tried again; nothing is lost meanwhile but room and the
//! bound on what the copy lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use journal::{
    ArchiveError, Backup, BlobStore, Destination, RealDisk, Retention, SegmentInfo, Tier,
    TieredDisk,
};
use ledger::{LogIndex, Stamp};
use operations::{BackgroundJob, DiskStatus, DiskUse};
use ports::StopReading;

use crate::CliError;
use crate::cli::stdout;
use crate::config::{self, Config};
use crate::data::archive::before_now;
use crate::data::backup::{self, extras};
use crate::data::layout;

/// Between two looks for segments that are due.
const ARCHIVE_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at how much room the disk has.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at what log and store take of it.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
/// Between two looks whether archives are there.
const VISIT_EVERY: Duration = Duration::from_secs(600);
/// After a failure, before the next attempt.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// How often it is looked whether the copy is as it was left.
const LOOK_OVER: Duration = Duration::from_secs(24 * 3_600);
/// Growth is measured over this time.
const DAY: u64 = 24 * 3_600 * 1_000_000;
/// And over no less than this.
const LEAST: u64 = 600 * 1_000_000;
/// Lets every other thread of the machine go first.
const NICE: i32 = 19;

/// What the work is done on.
#[derive(Clone)]
pub(crate) struct Segments {
    pub(crate) log: TieredDisk<RealDisk>,
    /// Makes readers let go of a segment that was moved.
    pub(crate) closer: Arc<dyn Fn(LogIndex) + Send + Sync>,
}

/// The threads; they end when this is dropped.
pub(crate) struct BackgroundJobs {
    stopping: Arc<AtomicBool>,
    alarms: Vec<SyncSender<()>>,
    threads: Vec<JoinHandle<()>>,
    pub(crate) storage: Arc<Mutex<DiskStatus>>,
}

impl BackgroundJobs {
    /// Starts what the configuration asks for.
    pub(crate) fn start(
        config: &Config,
        paths: (&Path, Option<&Path>),
        segments: Segments,
    ) -> Result<Self, CliError> {
        let (data, configuration) = paths;
        let mut keeper = Self {
            stopping: Arc::default(),
            alarms: Vec::new(),
            threads: Vec::new(),
            storage: Arc::default(),
        };
        let mut disk = Disk::new(data, segments.log.clone(), Arc::clone(&keeper.storage));
        // The first look is part of the start, so that the first question has an answer.
        disk.look();
        keeper.spawn("disk", WATCH_EVERY, move |_| {
            disk.look();
            Ok(())
        })?;
        let mut archives = Archives { log: segments.log.clone(), absent: BTreeMap::new() };
        keeper.spawn("archives", VISIT_EVERY, move |_| archives.visit())?;
        if config.archive.to.is_some() || config.archive.compress {
            let place = open(config.archive.to.as_deref())?;
            let mut archiver = ArchiveJob::new(&config.archive, place, segments.clone(), &keeper);
            keeper.spawn("archive", ARCHIVE_EVERY, move |stopping| archiver.run(stopping))?;
        }
        if let Some(place) = open(config.backup.to.as_deref())? {
            let configuration = configuration.map(Path::to_owned);
            let mut copier = BackupJob::new(place, segments.log, configuration, &keeper);
            let every = Duration::from_secs(config.backup.every_seconds);
            keeper.spawn("backup", every, move |stopping| copier.run(stopping))?;
        }
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        every: Duration,
        mut work: impl FnMut(&AtomicBool) -> Result<(), ()> + Send + 'static,
    ) -> Result<(), CliError> {
        let (alarm, waiting) = sync_channel(1);
        let stopping = Arc::clone(&self.stopping);
        let run = move || {
            be_nice();
            repeat(&waiting, every, || work(&stopping));
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run);
        let cannot = |error| CliError::new(format!("cannot start the thread {name}: {error}"));
        self.threads.push(thread.map_err(cannot)?);
        self.alarms.push(alarm);
        Ok(())
    }

    /// Ends the threads, in the middle of a segment if need be.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.alarms.clear();
        for thread in self.threads.drain(..) {
            // What it had to say it has said.
            let _ended = thread.join();
        }
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        self.end();
    }
}

/// Works, waits, works again, until the other end of the channel is gone.
fn repeat(waiting: &Receiver<()>, every: Duration, mut work: impl FnMut() -> Result<(), ()>) {
    loop {
        let pause = match work() {
            Ok(()) => every,
            Err(()) => every.max(AFTER_FAILURE),
        };
        match waiting.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn be_nice() {
    // A hint: if it is not taken, the work costs others a little more.
    let _taken = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

fn open(url: Option<&str>) -> Result<Option<Arc<dyn BlobStore>>, CliError> {
    let place = url.map(journal::open_blob_store).transpose();
    place.map_err(|error| CliError::new(error.to_string()))
}

fn watch(stopping: &AtomicBool) -> impl Fn(u64) -> Result<(), StopReading> + '_ {
    |_| if stopping.load(Ordering::Relaxed) { Err(StopReading) } else { Ok(()) }
}

fn lock(storage: &Mutex<DiskStatus>) -> MutexGuard<'_, DiskStatus> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Stamp {
    before_now(Duration::ZERO)
}

/// Which of the two kinds of work is told about.
type Field = fn(&mut DiskStatus) -> &mut Option<BackgroundJob>;

/// Tells how a kind of work goes, and says it when that changes.
struct Teller {
    name: &'static str,
    storage: Arc<Mutex<DiskStatus>>,
    field: Field,
}

impl Teller {
    fn new(name: &'static str, storage: &Arc<Mutex<DiskStatus>>, field: Field) -> Self {
        *field(&mut lock(storage)) = Some(BackgroundJob::default());
        Self { name, storage: Arc::clone(storage), field }
    }

    fn tell(&self, done: Result<Option<LogIndex>, ArchiveError>) -> Result<(), ()> {
        let mut storage = lock(&self.storage);
        let task = (self.field)(&mut storage).get_or_insert_default();
        match done {
            Ok(log_index) => {
                if task.failing.take().is_some() {
                    stdout::print_message(format_args!("{}: it goes well again", self.name));
                }
                task.last_done = Some(now());
                task.log_index = log_index.map_or(task.log_index, |log_index| log_index.0);
                Ok(())
            }
            Err(ArchiveError::Stopped) => Ok(()),
            Err(error) => {
                let error = error.to_string();
                if task.failing.as_ref() != Some(&error) {
                    stdout::print_message(format_args!(
                        "{}: {error}; it is tried again",
                        self.name
                    ));
                    task.failing = Some(error);
                }
                Err(())
            }
        }
    }
}

/// Hands closed segments over.
struct ArchiveJob {
    settings: config::Archive,
    place: Option<Arc<dyn BlobStore>>,
    segments: Segments,
    teller: Teller,
}

impl ArchiveJob {
    fn new(
        settings: &config::Archive,
        place: Option<Arc<dyn BlobStore>>,
        segments: Segments,
        keeper: &BackgroundJobs,
    ) -> Self {
        let teller = Teller::new("archive", &keeper.storage, |storage| &mut storage.archive);
        Self { settings: settings.clone(), place, segments, teller }
    }

    fn run(&mut self, stopping: &AtomicBool) -> Result<(), ()> {
        self.teller.tell(self.hand_over(stopping))
    }

    fn hand_over(&self, stopping: &AtomicBool) -> Result<Option<LogIndex>, ArchiveError> {
        let Segments { log, closer } = &self.segments;
        let destination =
            self.place.as_deref().map_or(Destination::InPlace, Destination::BlobStore);
        let age = Duration::from_secs(self.settings.after_hours * 3_600);
        let keep_segments = self.settings.keep_segments;
        let retention = Retention { keep_segments, closed_by: before_now(age) };
        let mut last = None;
        for due in journal::due(log, &retention, destination)? {
            if let Some(place) = &self.place {
                journal::claim_for(log, &**place)?;
            }
            let handed = journal::archive_segment(log, &due, destination, &mut watch(stopping))?;
            closer(handed.first);
            last = Some(handed.last);
        }
        Ok(last)
    }
}

/// Looks whether the places are there that segments were moved to: a start from a snapshot needs
/// none of them, and nobody would notice one that is not mounted before a segment is wanted.
struct Archives {
    log: TieredDisk<RealDisk>,
    /// Those that are not, and why.
    absent: BTreeMap<Arc<str>, String>,
}

impl Archives {
    fn visit(&mut self) -> Result<(), ()> {
        let segments = self.log.segments().unwrap_or_default();
        let place = |segment: SegmentInfo| match segment.tier {
            Tier::Archived(place) => Some(place),
            Tier::Plain | Tier::Compressed => None,
        };
        let places: BTreeSet<_> = segments.into_iter().filter_map(place).collect();
        for place in places {
            let looked = journal::open_blob_store(&place).map_err(ArchiveError::from);
            let looked = looked.and_then(|it| journal::claim_for(&self.log, &*it));
            match looked.map_err(|error| error.to_string()) {
                Err(why) if self.absent.get(&place) != Some(&why) => {
                    stdout::print_message(format_args!(
                        "THE ARCHIVE IS NOT THERE; whatever needs the segments in it is \
                         refused: {why}"
                    ));
                    self.absent.insert(place, why);
                }
                Err(_) => {}
                Ok(()) => {
                    if self.absent.remove(&place).is_some() {
                        stdout::print_message(format_args!(
                            "the archive in {place} is there again"
                        ));
                    }
                }
            }
        }
        if self.absent.is_empty() { Ok(()) } else { Err(()) }
    }
}

/// Keeps the copy.
struct BackupJob {
    place: Arc<dyn BlobStore>,
    log: TieredDisk<RealDisk>,
    configuration: Option<PathBuf>,
    /// With the moment at which it was opened. None before the first attempt, and after one that
    /// failed.
    backup: Option<(Backup, Instant)>,
    teller: Teller,
}

impl BackupJob {
    fn new(
        place: Arc<dyn BlobStore>,
        log: TieredDisk<RealDisk>,
        configuration: Option<PathBuf>,
        keeper: &BackgroundJobs,
    ) -> Self {
        let teller = Teller::new("backup", &keeper.storage, |storage| &mut storage.backup);
        Self { place, log, configuration, backup: None, teller }
    }

    fn run(&mut self, stopping: &AtomicBool) -> Result<(), ()> {
        let copied = self.copy(stopping);
        if copied.is_err() {
            // The next attempt looks at the place anew.
            self.backup = None;
        }
        self.teller.tell(copied)
    }

    fn open(&self) -> Result<Backup, ArchiveError> {
        let backup = Backup::open(&self.log, Arc::clone(&self.place))?;
        for object in backup.damaged() {
            stdout::print_message(format_args!(
                "backup: {object} is missing or damaged there; it is written again"
            ));
        }
        Ok(backup)
    }

    fn copy(&mut self, stopping: &AtomicBool) -> Result<Option<LogIndex>, ArchiveError> {
        // Between two runs anybody else may copy, even to the same place.
        let _alone = backup::copy_alone(self.log.below(), || stopping.load(Ordering::Relaxed))?;
        let backup = match self.backup.take() {
            Some((kept, since)) if since.elapsed() < LOOK_OVER && kept.is_current()? => {
                (kept, since)
            }
            _ => (self.open()?, Instant::now()),
        };
        let (backup, _) = self.backup.insert(backup);
        let extras = extras(self.configuration.as_deref());
        let copied = backup.run(&self.log, &extras, &mut watch(stopping))?;
        Ok(Some(copied.end))
    }
}

/// Watches the disk.
struct Disk {
    data: PathBuf,
    log: TieredDisk<RealDisk>,
    storage: Arc<Mutex<DiskStatus>>,
    /// When it was looked at first, and how long the log was.
    start: Option<Point>,
    /// When log and store were measured last.
    measured: Option<Instant>,
}

/// How long the log was at a moment, its plain bytes counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    stamp: Stamp,
    bytes: u64,
}

impl Disk {
    fn new(data: &Path, log: TieredDisk<RealDisk>, storage: Arc<Mutex<DiskStatus>>) -> Self {
        Self { data: data.to_owned(), log, storage, start: None, measured: None }
    }

    /// Looks at the room that is left, and now and then at what log and store take. What cannot be
    /// looked at stays as it was seen last, and the reason is shown.
    fn look(&mut self) {
        let failing = self.try_look().err();
        let mut storage = lock(&self.storage);
        if failing.is_some() && storage.failing.is_none() {
            let why = failing.as_deref().unwrap_or_default();
            stdout::print_message(format_args!("{why}; what GET /storage shows is as of before"));
        }
        storage.failing = failing;
    }

    fn try_look(&mut self) -> Result<(), String> {
        let data = self.data.display();
        let disk = rustix::fs::statvfs(&self.data)
            .map_err(|error| format!("{data}: its disk cannot be looked at: {error}"))?;
        let (disk_bytes, free_bytes) =
            (disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize);
        if self.measured.is_none_or(|last| MEASURE_EVERY <= last.elapsed()) {
            let segments = self.log.segments();
            let segments = segments
                .map_err(|error| format!("{data}: its segments cannot be listed: {error}"))?;
            self.measure(&segments);
            self.measured = Some(Instant::now());
        }
        let mut storage = lock(&self.storage);
        let hours_until_full =
            storage.growth_bytes_per_day.and_then(|growth| (free_bytes * 24).checked_div(growth));
        let fullness = fullness(disk_bytes, free_bytes, hours_until_full);
        if fullness != storage.fullness {
            say(fullness, free_bytes, hours_until_full);
        }
        let known = storage.clone();
        *storage = DiskStatus { fullness, disk_bytes, free_bytes, hours_until_full, ..known };
        Ok(())
    }

    /// What log and store take, and how they grow.
    fn measure(&mut self, segments: &[SegmentInfo]) {
        let points = self.points(segments);
        let store_bytes = store::bytes_below(&self.data.join(layout::STORE));
        let whole_log = points.last().map_or(0, |now| now.bytes);
        let growth =
            growth_per_day(&points).map(|growth| with_store(growth, whole_log, store_bytes));
        let count = |archived: bool| {
            let of = segments
                .iter()
                .filter(move |segment| matches!(segment.tier, Tier::Archived(_)) == archived);
            of.fold((0, 0), |(count, bytes), segment| (count + 1, bytes + segment.stored_bytes))
        };
        let ((log_segments, log_bytes), (archived_segments, archived_bytes)) =
            (count(false), count(true));
        let mut storage = lock(&self.storage);
        storage.log_bytes = log_bytes;
        storage.log_segments = log_segments;
        storage.archived_bytes = archived_bytes;
        storage.archived_segments = archived_segments;
        storage.store_bytes = store_bytes;
        storage.growth_bytes_per_day = growth;
    }

    /// How the log grew: at the start of each segment, at the first look, and now.
    fn points(&mut self, segments: &[SegmentInfo]) -> Vec<Point> {
        let mut bytes = 0;
        let mut points = Vec::new();
        for segment in segments {
            if segment.base.stamp.0 != 0 {
                points.push(Point { stamp: segment.base.stamp, bytes });
            }
            bytes += segment.plain_bytes;
        }
        let now = Point { stamp: now(), bytes };
        points.push(*self.start.get_or_insert(now));
        points.push(now);
        points.sort_by_key(|point| point.stamp);
        points
    }
}

/// Bytes per day, over the last day or what is known of it.
fn growth_per_day(points: &[Point]) -> Option<u64> {
    let now = points.last()?;
    let since = Stamp(now.stamp.0.saturating_sub(DAY));
    let at = points.partition_point(|point| point.stamp < since);
    let first = match (at.checked_sub(1).map(|before| points[before]), points.get(at)) {
        (Some(before), Some(after)) => between(before, *after, since),
        (_, first) => *first?,
    };
    let time = now.stamp.0 - first.stamp.0;
    let bytes = u128::from(now.bytes.saturating_sub(first.bytes));
    (LEAST <= time).then(|| (bytes * u128::from(DAY) / u128::from(time)) as u64)
}

/// What log and store grow by together, if the store goes on taking as much as it did for each byte
/// of the whole log. Its own journal is left out: it takes room once.
fn with_store(log_growth: u64, log_bytes: u64, store_bytes: u64) -> u64 {
    let tables = u128::from(store_bytes.saturating_sub(store::JOURNAL));
    let store_growth = u128::from(log_growth) * tables / u128::from(log_bytes.max(1));
    log_growth.saturating_add(u64::try_from(store_growth).unwrap_or(u64::MAX))
}

/// How long the log was at a moment between two others.
fn between(before: Point, after: Point, stamp: Stamp) -> Point {
    let whole = u128::from(after.stamp.0 - before.stamp.0).max(1);
    let part = u128::from(stamp.0 - before.stamp.0);
    let grown = u128::from(after.bytes.saturating_sub(before.bytes)) * part / whole;
    Point { stamp, bytes: before.bytes + grown as u64 }
}

fn fullness(disk_bytes: u64, free_bytes: u64, hours_until_full: Option<u64>) -> DiskUse {
    let hours = hours_until_full.unwrap_or(u64::MAX);
    match () {
        () if free_bytes < disk_bytes / 20 || hours < 24 => DiskUse::Critical,
        () if free_bytes < disk_bytes / 10 || hours < 72 => DiskUse::Low,
        () => DiskUse::Ok,
    }
}

fn say(fullness: DiskUse, free_bytes: u64, hours_until_full: Option<u64>) {
    let free = free_bytes >> 20;
    let until = hours_until_full
        .map_or(String::new(), |hours| format!(", full in about {hours} hours at this growth"));
    match fullness {
        DiskUse::Ok => stdout::print_message(format_args!(
            "the disk of the log has room again: {free} MiB free"
        )),
        DiskUse::Low | DiskUse::Critical | DiskUse::Full => stdout::print_message(format_args!(
            "the disk of the log fills up ({}): {free} MiB free{until}. Make room, or set \
             archive.to; a full disk refuses with 503",
            fullness.name()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = DAY / 24;

    #[test]
    fn growth_is_that_of_the_last_day() {
        let check = |points: &[(u64, u64)], expected: Option<u64>| {
            let points: Vec<_> = points
                .iter()
                .map(|&(hours, bytes)| Point { stamp: Stamp(hours * HOUR), bytes })
                .collect();
            assert_eq!(growth_per_day(&points), expected, "{points:?}");
        };
        check(&[], None);
        check(&[(5, 100), (5, 100)], None);
        check(&[(5, 100), (6, 200)], Some(2_400));
        check(&[(0, 0), (24, 100), (48, 300)], Some(200));
        // What came before the last day counts by its share.
        check(&[(0, 0), (40, 400), (48, 1_000)], Some(1_000 - 240));
        check(&[(0, 0), (48, 0)], Some(0));
    }

    #[test]
    fn the_store_grows_as_it_did() {
        let store = |tables: u64| store::JOURNAL + tables;
        assert_eq!(with_store(1_000, 10_000, store(1_500)), 1_150);
        assert_eq!(with_store(1_000, 0, store::JOURNAL), 1_000);
        assert_eq!(with_store(u64::MAX, 1, store(1)), u64::MAX);
    }

    #[test]
    fn a_disk_is_low_by_room_or_by_time() {
        for (free, hours, expected) in [
            (100, None, DiskUse::Ok),
            (100, Some(72), DiskUse::Ok),
            (99, None, DiskUse::Low),
            (900, Some(71), DiskUse::Low),
            (49, Some(1_000), DiskUse::Critical),
            (900, Some(23), DiskUse::Critical),
        ] {
            assert_eq!(fullness(1_000, free, hours), expected, "{free} {hours:?}");
        }
    }
}
