//! Background jobs of a running switch, each on a low-priority thread: archiving of closed
//! segments, the backup, signed chain heads, and checks of disk space and of the archives.
//!
//! No decision and no acknowledgement depends on them. A failure is logged once, shown by
//! `GET /storage` and the metrics, and retried. Until then, no disk
//! space is freed and the backup is not updated.

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
use node::Handle;
use operations::{DiskStatus, DiskUse};
use switch::ForwardedMessage;

use crate::CliError;
use crate::config::{self, Config};
use crate::data::archive::before_now;
use crate::data::backup::{self, extras};
use crate::data::layout;
use crate::inspect::live_replay::ReplaySource;
use crate::serve::arguments::ServeArguments;
use crate::serve::chain_heads::Publisher;
use crate::serve::data_keys::KeyRenewal;
use crate::serve::erasure::{ERASURE_INTERVAL, ErasureJob, ErasureStatus};
use crate::serve::job_reporter::JobReporter;
use crate::serve::retention::{RETENTION_INTERVAL, RetentionJob, RetentionView};
use crate::serve::segments::{JobFailure, Segments, watch};

/// Interval of the checks for segments to archive.
const ARCHIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of the checks of free disk space.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the measurements of log and store.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of the checks that archives are reachable.
const ARCHIVE_CHECK_INTERVAL: Duration = Duration::from_secs(600);
/// Interval of the checks whether a new data key is due.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);
/// Interval of the full checks of the backup.
const BACKUP_CHECK_INTERVAL: Duration = Duration::from_secs(24 * 3_600);
/// Period over which growth is measured, in microseconds.
const GROWTH_PERIOD_US: u64 = 24 * 3_600 * 1_000_000;
/// Shortest period over which growth is measured, in microseconds.
const GROWTH_PERIOD_US_MIN: u64 = 600 * 1_000_000;
/// Lowest scheduling priority.
const NICE: i32 = 19;

/// The threads, which end when this is dropped.
pub(crate) struct BackgroundJobs {
    stopping: Arc<AtomicBool>,
    alarms: Vec<SyncSender<()>>,
    threads: Vec<JoinHandle<()>>,
    pub(crate) status: BackgroundStatus,
}

/// Reports of the jobs.
#[derive(Clone)]
pub(crate) struct BackgroundStatus {
    pub(crate) storage: Arc<Mutex<DiskStatus>>,
    pub(crate) erasures: Arc<ErasureStatus>,
    /// The data keys of an encrypted directory.
    pub(crate) data_keys: Option<Arc<KeyRenewal>>,
    pub(crate) retention: RetentionView,
}

impl BackgroundJobs {
    /// Starts the configured jobs.
    pub(crate) fn start(
        config: &Config,
        arguments: &ServeArguments,
        (segments, replays, handle): (Segments, &ReplaySource, Handle<ForwardedMessage>),
    ) -> Result<Self, CliError> {
        let (data, configuration) = (&*arguments.data, arguments.config.as_deref());
        let has_backup = config.backup.to.is_some();
        let erasures = Arc::new(ErasureStatus::new(segments.log.clone(), has_backup));
        let frames = replays.frames.clone();
        let retention = RetentionView::new(config, (handle.clone(), frames), Arc::clone(&erasures));
        let mut jobs = Self {
            stopping: Arc::default(),
            alarms: Vec::new(),
            threads: Vec::new(),
            status: BackgroundStatus {
                storage: Arc::default(),
                erasures,
                data_keys: None,
                retention,
            },
        };
        let mut disk =
            DiskMonitor::new(data, segments.log.clone(), Arc::clone(&jobs.status.storage));
        // The first check is part of the start, so that `GET /storage` has an answer at once.
        disk.check();
        jobs.spawn("disk", DISK_CHECK_INTERVAL, move |_| {
            disk.check();
            Ok(())
        })?;
        if let Some(keys) = segments.keys.clone() {
            let period = Duration::from_secs(u64::from(config.encryption.data_key_hours) * 3_600);
            let renewal = Arc::new(KeyRenewal::new(keys, period, &jobs.status.storage));
            jobs.status.data_keys = Some(Arc::clone(&renewal));
            jobs.spawn("data-keys", KEY_CHECK_INTERVAL, move |_| renewal.check())?;
        }
        let log = segments.log.clone();
        let mut archives = ArchiveMonitor { log, unreachable: BTreeMap::new() };
        jobs.spawn("archives", ARCHIVE_CHECK_INTERVAL, move |_| archives.check())?;
        if config.archive.to.is_some() || config.archive.compress {
            let place = open(config.archive.to.as_deref())?;
            let mut archive = ArchiveJob::new(&config.archive, place, segments.clone(), &jobs);
            jobs.spawn("archive", ARCHIVE_INTERVAL, move |stopping| archive.run(stopping))?;
        }
        if RetentionJob::is_needed(config) {
            let reporter =
                JobReporter::new("retention", &jobs.status.storage, |it| &mut it.retention);
            let mut job = RetentionJob::new(jobs.status.retention.clone());
            jobs.spawn("retention", RETENTION_INTERVAL, move |_| reporter.report(job.run()))?;
        }
        jobs.start_erasures(segments.clone(), handle)?;
        if let Some(place) = open(config.backup.to.as_deref())? {
            let configuration = configuration.map(Path::to_owned);
            let mut backup = BackupJob::new(place, segments.log.clone(), configuration, &jobs);
            let interval = Duration::from_secs(config.backup.every_seconds);
            jobs.spawn("backup", interval, move |stopping| backup.run(stopping))?;
        }
        let place = open(config.chain_heads.to.as_deref())?;
        let publisher = Publisher::open(place, config, &segments.log, replays.frames.clone())?;
        if let Some(mut publisher) = publisher {
            let reporter =
                JobReporter::new("chain heads", &jobs.status.storage, |it| &mut it.chain_heads);
            let interval = Duration::from_secs(config.chain_heads.every_seconds);
            jobs.spawn("chain-heads", interval, move |_| {
                reporter.report(publisher.publish().map_err(JobFailure::Failed))
            })?;
        }
        Ok(jobs)
    }

    fn start_erasures(
        &mut self,
        segments: Segments,
        handle: Handle<ForwardedMessage>,
    ) -> Result<(), CliError> {
        let reporter = JobReporter::new("erasure", &self.status.storage, |it| &mut it.erasure);
        let mut job = ErasureJob::new(segments, handle, Arc::clone(&self.status.erasures));
        self.spawn("erasure", ERASURE_INTERVAL, move |stopping| reporter.report(job.run(stopping)))
    }

    fn spawn(
        &mut self,
        name: &'static str,
        interval: Duration,
        mut work: impl FnMut(&AtomicBool) -> Result<(), ()> + Send + 'static,
    ) -> Result<(), CliError> {
        let (alarm, waiting) = sync_channel(1);
        let stopping = Arc::clone(&self.stopping);
        let run = move || repeat(&waiting, interval, || work(&stopping));
        self.threads.push(spawn_low_priority(name, run)?);
        self.alarms.push(alarm);
        Ok(())
    }

    /// Ends the threads, even in the middle of a segment.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.alarms.clear();
        for thread in self.threads.drain(..) {
            // The thread reports its errors itself.
            let _ended = thread.join();
        }
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        self.end();
    }
}

/// Repeats the work until the sender of the channel is dropped.
fn repeat(waiting: &Receiver<()>, interval: Duration, mut work: impl FnMut() -> Result<(), ()>) {
    loop {
        let pause = match work() {
            Ok(()) => interval,
            Err(()) => interval.max(FAILURE_PAUSE),
        };
        match waiting.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Starts a thread with the lowest priority, which the threads that it starts inherit.
pub(crate) fn spawn_low_priority(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, CliError> {
    let run = move || {
        lower_priority();
        work();
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| CliError::new(format!("cannot start the thread {name}: {error}")))
}

fn lower_priority() {
    // Not essential: without it, the work delays other threads a little more.
    let _lowered = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

fn open(url: Option<&str>) -> Result<Option<Arc<dyn BlobStore>>, CliError> {
    let place = url.map(journal::open_blob_store).transpose();
    place.map_err(|error| CliError::new(error.to_string()))
}

fn lock(storage: &Mutex<DiskStatus>) -> MutexGuard<'_, DiskStatus> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Stamp {
    before_now(Duration::ZERO)
}

/// Archives closed segments.
struct ArchiveJob {
    settings: config::Archive,
    place: Option<Arc<dyn BlobStore>>,
    segments: Segments,
    reporter: JobReporter,
}

impl ArchiveJob {
    fn new(
        settings: &config::Archive,
        place: Option<Arc<dyn BlobStore>>,
        segments: Segments,
        jobs: &BackgroundJobs,
    ) -> Self {
        let reporter =
            JobReporter::new("archive", &jobs.status.storage, |storage| &mut storage.archive);
        Self { settings: settings.clone(), place, segments, reporter }
    }

    fn run(&mut self, stopping: &AtomicBool) -> Result<(), ()> {
        self.reporter.report(self.archive_due(stopping).map_err(JobFailure::from))
    }

    fn archive_due(&self, stopping: &AtomicBool) -> Result<Option<LogIndex>, ArchiveError> {
        let Segments { log, closer, moving, .. } = &self.segments;
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
            let _alone = moving.lock().unwrap_or_else(PoisonError::into_inner);
            let archived = journal::archive_segment(log, &due, destination, &mut watch(stopping))?;
            closer(archived.first);
            last = Some(archived.last);
        }
        Ok(last)
    }
}

/// Checks that the archives of moved segments are reachable. A start from a snapshot does not need
/// them, so an archive that is not mounted would go unnoticed until a segment is read.
struct ArchiveMonitor {
    log: TieredDisk<RealDisk>,
    /// Unreachable archives, with the error.
    unreachable: BTreeMap<Arc<str>, String>,
}

impl ArchiveMonitor {
    fn check(&mut self) -> Result<(), ()> {
        let segments = self.log.segments().unwrap_or_default();
        let place = |segment: SegmentInfo| match segment.tier {
            Tier::Archived(place) => Some(place),
            Tier::Plain | Tier::Compressed => None,
        };
        let places: BTreeSet<_> = segments.into_iter().filter_map(place).collect();
        for place in places {
            let opened = journal::open_blob_store(&place).map_err(ArchiveError::from);
            let checked = opened.and_then(|it| journal::claim_for(&self.log, &*it));
            match checked.map_err(|error| error.to_string()) {
                Err(why) if self.unreachable.get(&place) != Some(&why) => {
                    tracing::error!(
                        %why,
                        "the archive cannot be reached; requests that need its segments fail"
                    );
                    self.unreachable.insert(place, why);
                }
                Err(_) => {}
                Ok(()) => {
                    if self.unreachable.remove(&place).is_some() {
                        tracing::info!(%place, "the archive can be reached again");
                    }
                }
            }
        }
        if self.unreachable.is_empty() { Ok(()) } else { Err(()) }
    }
}

/// Keeps the backup up to date.
struct BackupJob {
    place: Arc<dyn BlobStore>,
    log: TieredDisk<RealDisk>,
    configuration: Option<PathBuf>,
    /// With the time at which it was opened. `None` before the first attempt and after a failure.
    backup: Option<(Backup, Instant)>,
    reporter: JobReporter,
    erasures: Arc<ErasureStatus>,
}

impl BackupJob {
    fn new(
        place: Arc<dyn BlobStore>,
        log: TieredDisk<RealDisk>,
        configuration: Option<PathBuf>,
        jobs: &BackgroundJobs,
    ) -> Self {
        let reporter =
            JobReporter::new("backup", &jobs.status.storage, |storage| &mut storage.backup);
        let erasures = Arc::clone(&jobs.status.erasures);
        Self { place, log, configuration, backup: None, reporter, erasures }
    }

    fn run(&mut self, stopping: &AtomicBool) -> Result<(), ()> {
        let run = self.erasures.copy_begins();
        let copied = self.copy(stopping);
        match copied {
            Ok(_) => self.erasures.copy_is_done(run),
            // The next attempt reads the backup's inventory again.
            Err(_) => self.backup = None,
        }
        self.reporter.report(copied.map_err(JobFailure::from))
    }

    fn open(&self) -> Result<Backup, ArchiveError> {
        let backup = Backup::open(&self.log, Arc::clone(&self.place))?;
        for object in backup.damaged() {
            tracing::warn!(%object, "missing or damaged in the backup; it is written again");
        }
        Ok(backup)
    }

    fn copy(&mut self, stopping: &AtomicBool) -> Result<Option<LogIndex>, ArchiveError> {
        // Between two runs, another process may back up to the same place.
        let _alone = backup::copy_alone(self.log.below(), || stopping.load(Ordering::Relaxed))?;
        let backup = match self.backup.take() {
            Some((open, since))
                if since.elapsed() < BACKUP_CHECK_INTERVAL && open.is_current()? =>
            {
                (open, since)
            }
            _ => (self.open()?, Instant::now()),
        };
        let (backup, _) = self.backup.insert(backup);
        let extras = extras(self.configuration.as_deref());
        let copied = backup.run(&self.log, &extras, &mut watch(stopping))?;
        Ok(Some(copied.end))
    }
}

/// Monitors disk space.
struct DiskMonitor {
    data: PathBuf,
    log: TieredDisk<RealDisk>,
    storage: Arc<Mutex<DiskStatus>>,
    /// The first measurement.
    start: Option<LogSize>,
    /// Time of the last measurement of log and store.
    measured: Option<Instant>,
}

/// Uncompressed size of the log at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogSize {
    stamp: Stamp,
    bytes: u64,
}

impl DiskMonitor {
    fn new(data: &Path, log: TieredDisk<RealDisk>, storage: Arc<Mutex<DiskStatus>>) -> Self {
        Self { data: data.to_owned(), log, storage, start: None, measured: None }
    }

    /// Reads the free space, and at longer intervals the sizes of log and store. On an error, the
    /// last values stay and the error is published.
    fn check(&mut self) {
        let failing = self.try_check().err();
        let mut storage = lock(&self.storage);
        if failing.is_some() && storage.failing.is_none() {
            let why = failing.as_deref().unwrap_or_default();
            tracing::error!(%why, "the disk cannot be checked; GET /storage shows the last values");
        }
        storage.failing = failing;
    }

    fn try_check(&mut self) -> Result<(), String> {
        let data = self.data.display();
        let disk = rustix::fs::statvfs(&self.data)
            .map_err(|error| format!("{data}: cannot read the free space of its disk: {error}"))?;
        let (disk_bytes, free_bytes) =
            (disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize);
        if self.is_measure_due() {
            let segments = self.log.segments();
            let segments =
                segments.map_err(|error| format!("{data}: cannot list the segments: {error}"))?;
            self.measure(&segments);
            self.measured = Some(Instant::now());
        }
        let mut storage = lock(&self.storage);
        let hours_until_full =
            storage.growth_bytes_per_day.and_then(|growth| (free_bytes * 24).checked_div(growth));
        let fullness = fullness(disk_bytes, free_bytes, hours_until_full);
        if fullness != storage.fullness {
            log_disk_use(fullness, free_bytes, hours_until_full);
        }
        let known = storage.clone();
        *storage = DiskStatus { fullness, disk_bytes, free_bytes, hours_until_full, ..known };
        Ok(())
    }

    /// A disk without much room is measured at every check, because the log may stop.
    fn is_measure_due(&self) -> bool {
        let is_low = lock(&self.storage).fullness != DiskUse::Ok;
        is_low || self.measured.is_none_or(|last| MEASURE_INTERVAL <= last.elapsed())
    }

    /// Measures log and store and their growth.
    fn measure(&mut self, segments: &[SegmentInfo]) {
        let sizes = self.sizes(segments);
        let store_bytes = store::bytes_below(&self.data.join(layout::STORE));
        let whole_log = sizes.last().map_or(0, |now| now.bytes);
        let growth =
            growth_per_day(&sizes).map(|growth| with_store(growth, whole_log, store_bytes));
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

    /// Sizes of the log: at the start of each segment, at the first measurement, and now.
    fn sizes(&mut self, segments: &[SegmentInfo]) -> Vec<LogSize> {
        let mut bytes = 0;
        let mut sizes = Vec::new();
        for segment in segments {
            if segment.base.stamp.0 != 0 {
                sizes.push(LogSize { stamp: segment.base.stamp, bytes });
            }
            bytes += segment.plain_bytes;
        }
        let now = LogSize { stamp: now(), bytes };
        sizes.push(*self.start.get_or_insert(now));
        sizes.push(now);
        sizes.sort_by_key(|size| size.stamp);
        sizes
    }
}

/// Growth in bytes per day, measured over the last day at most.
fn growth_per_day(sizes: &[LogSize]) -> Option<u64> {
    let now = sizes.last()?;
    let since = Stamp(now.stamp.0.saturating_sub(GROWTH_PERIOD_US));
    let at = sizes.partition_point(|size| size.stamp < since);
    let first = match (at.checked_sub(1).map(|before| sizes[before]), sizes.get(at)) {
        (Some(before), Some(after)) => interpolate(before, *after, since),
        (_, first) => *first?,
    };
    let time = now.stamp.0 - first.stamp.0;
    let bytes = u128::from(now.bytes.saturating_sub(first.bytes));
    (GROWTH_PERIOD_US_MIN <= time)
        .then(|| (bytes * u128::from(GROWTH_PERIOD_US) / u128::from(time)) as u64)
}

/// Growth of log and store together, if the store keeps its ratio to the log. The store's journal
/// has a fixed size and is not included.
fn with_store(log_growth: u64, log_bytes: u64, store_bytes: u64) -> u64 {
    let tables = u128::from(store_bytes.saturating_sub(store::JOURNAL));
    let store_growth = u128::from(log_growth) * tables / u128::from(log_bytes.max(1));
    log_growth.saturating_add(u64::try_from(store_growth).unwrap_or(u64::MAX))
}

/// The size of the log at a time between two others.
fn interpolate(before: LogSize, after: LogSize, stamp: Stamp) -> LogSize {
    let whole = u128::from(after.stamp.0 - before.stamp.0).max(1);
    let part = u128::from(stamp.0 - before.stamp.0);
    let grown = u128::from(after.bytes.saturating_sub(before.bytes)) * part / whole;
    LogSize { stamp, bytes: before.bytes + grown as u64 }
}

fn fullness(disk_bytes: u64, free_bytes: u64, hours_until_full: Option<u64>) -> DiskUse {
    let hours = hours_until_full.unwrap_or(u64::MAX);
    match () {
        () if free_bytes < disk_bytes / 20 || hours < 24 => DiskUse::Critical,
        () if free_bytes < disk_bytes / 10 || hours < 72 => DiskUse::Low,
        () => DiskUse::Ok,
    }
}

fn log_disk_use(fullness: DiskUse, free_bytes: u64, hours_until_full: Option<u64>) {
    let free_mib = free_bytes >> 20;
    let status = fullness.name();
    match fullness {
        DiskUse::Ok => tracing::info!(free_mib, "the disk of the log has enough space again"),
        DiskUse::Low => tracing::warn!(
            status,
            free_mib,
            hours_until_full,
            "the disk of the log fills up: free space, or set archive.to"
        ),
        DiskUse::Critical | DiskUse::Full => tracing::error!(
            status,
            free_mib,
            hours_until_full,
            "the disk of the log fills up: free space, or set archive.to; requests are refused \
             with 503 when it is full"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = GROWTH_PERIOD_US / 24;

    #[test]
    fn growth_is_that_of_the_last_day() {
        let check = |sizes: &[(u64, u64)], expected: Option<u64>| {
            let sizes: Vec<_> = sizes
                .iter()
                .map(|&(hours, bytes)| LogSize { stamp: Stamp(hours * HOUR), bytes })
                .collect();
            assert_eq!(growth_per_day(&sizes), expected, "{sizes:?}");
        };
        check(&[], None);
        check(&[(5, 100), (5, 100)], None);
        check(&[(5, 100), (6, 200)], Some(2_400));
        check(&[(0, 0), (24, 100), (48, 300)], Some(200));
        // A segment that began before the last day counts in proportion.
        check(&[(0, 0), (40, 400), (48, 1_000)], Some(1_000 - 240));
        check(&[(0, 0), (48, 0)], Some(0));
    }

    #[test]
    fn store_grows_in_proportion() {
        let store = |tables: u64| store::JOURNAL + tables;
        assert_eq!(with_store(1_000, 10_000, store(1_500)), 1_150);
        assert_eq!(with_store(1_000, 0, store::JOURNAL), 1_000);
        assert_eq!(with_store(u64::MAX, 1, store(1)), u64::MAX);
    }

    #[test]
    fn disk_is_low_by_space_or_by_time() {
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
