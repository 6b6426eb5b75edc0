//! The thread that takes snapshots while the switch runs.
//!
//! Four times a second it checks whether enough records or bytes were written since the last
//! snapshot. Then the sequencer's thread freezes the state between two batches. The snapshot thread
//! waits until the cold store has caught up and writes the frozen state. It has low priority and
//! works in pieces of some milliseconds for a configured share of the time, so that it never uses a
//! whole core.
//!
//! A failure is logged and retried later; it does not affect the switch.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use journal::DurableFrames;
use ledger::LogIndex;
use ports::{ColdStore, Disk, StopReading};

use crate::files::{SnapshotFile, list};
use crate::writer::{FrozenState, WriteError, WrittenSnapshot, store_frozen};

/// Interval between two checks of the log.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Pause after a failure before the next automatic attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// How long a frozen state waits for the store, and the interval between two checks of it.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);
const STORE_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Working time between two pauses.
const WORK_INTERVAL: Duration = Duration::from_millis(4);
/// Niceness above that of every other thread: on a busy machine this thread waits.
const NICENESS: i32 = 10;

/// Frequency and speed of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSchedule {
    /// Take a snapshot after this many records since the last one; 0 for never.
    pub every_records: u64,
    /// Take a snapshot after this many bytes of log since the last one or the start; 0 for never.
    pub every_bytes: u64,
    /// Share of a core's time that taking one may use, in percent, 1 to 100.
    pub cpu_percent: u8,
}

/// An event to log.
#[derive(Debug)]
pub enum SnapshotEvent {
    /// A snapshot was taken in this time.
    Taken(WrittenSnapshot, Duration),
    /// An attempt failed.
    Failed(WriteError),
}

/// Status of the snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// Existing files, newest first.
    pub files: Vec<SnapshotFile>,
    /// Whether a snapshot is being taken or was requested.
    pub busy: bool,
    /// Number of snapshots taken since the start.
    pub taken: u64,
    /// Number of failed attempts since the start.
    pub failed: u64,
    /// Length of the newest one taken since the start, in bytes.
    pub last_bytes: u64,
    /// Duration of the newest one, in milliseconds.
    pub last_millis: u64,
    /// When the newest one was complete; `None` if none was taken since the start.
    pub last_done: Option<Instant>,
    /// The reason why the last attempt failed, if it did.
    pub error: Option<String>,
}

/// The source of the states that the thread stores.
pub struct SnapshotSource<D: Disk> {
    /// The log, for its end.
    pub frames: DurableFrames<D>,
    /// The cold store to which the sequencer evicts rows.
    pub store: Option<Arc<dyn ColdStore>>,
    /// The snapshot that the start continued from.
    pub before: Option<SnapshotFile>,
    /// Freezes the state. Everything up to its record is durable and queued for the store. `None`
    /// when this was not possible in time.
    pub freeze: Box<dyn Fn() -> Option<FrozenState> + Send>,
}

/// The thread.
#[derive(Debug)]
pub struct Snapshotter {
    handle: SnapshotterHandle,
    thread: JoinHandle<()>,
}

/// Access to the thread, for others.
#[derive(Clone, Debug)]
pub struct SnapshotterHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Requests>,
    woken: Condvar,
    status: Mutex<SnapshotStatus>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    stop: bool,
    requested: bool,
}

/// Starts the thread. It calls `report` with each event.
///
/// # Errors
/// When it cannot be started.
pub fn start_snapshotter<D: Disk>(
    disk: D,
    source: SnapshotSource<D>,
    due: SnapshotSchedule,
    report: impl Fn(&SnapshotEvent) + Send + 'static,
) -> std::io::Result<Snapshotter> {
    let handle = SnapshotterHandle(Arc::new(Shared::default()));
    let mut runner = Runner { disk, source, due, shared: Arc::clone(&handle.0) };
    runner.list();
    let run = move || runner.run(&report);
    let thread = std::thread::Builder::new().name("snapshots".into()).spawn(run)?;
    Ok(Snapshotter { handle, thread })
}

impl Snapshotter {
    /// Access for others.
    #[must_use]
    pub fn handle(&self) -> SnapshotterHandle {
        self.handle.clone()
    }

    /// Ends the thread within some milliseconds; a snapshot in progress is abandoned.
    pub fn stop(self) {
        self.handle.0.requests().stop = true;
        self.handle.0.woken.notify_all();
        // It has printed why it ended if it did by itself.
        let _ended = self.thread.join();
    }
}

impl SnapshotterHandle {
    /// Requests a snapshot that includes everything durable at the time of the call.
    pub fn request(&self) {
        self.0.requests().requested = true;
        self.0.status().busy = true;
        self.0.woken.notify_all();
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> SnapshotStatus {
        self.0.status().clone()
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, SnapshotStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `until` or a request.
    fn wait(&self, time: Duration) {
        let idle = |requests: &mut Requests| !requests.stop && !requests.requested;
        let waited = self.woken.wait_timeout_while(self.requests(), time, idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Rests, unless the thread is to end.
    fn rest(&self, time: Duration) -> Result<(), StopReading> {
        let going = |requests: &mut Requests| !requests.stop;
        let waited = self.woken.wait_timeout_while(self.requests(), time, going);
        let (requests, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if requests.stop { Err(StopReading) } else { Ok(()) }
    }
}

struct Runner<D: Disk> {
    disk: D,
    source: SnapshotSource<D>,
    due: SnapshotSchedule,
    shared: Arc<Shared>,
}

impl<D: Disk> Runner<D> {
    fn run(&mut self, report: &impl Fn(&SnapshotEvent)) {
        // Without it the thread competes with the others; that is acceptable.
        let _set = rustix::process::setpriority_process(None, NICENESS);
        let mut bytes_before = 0;
        let mut not_before = Instant::now();
        loop {
            let requests = std::mem::take(&mut *self.shared.requests());
            if requests.stop {
                return;
            }
            let is_due = not_before <= Instant::now() && self.is_due(bytes_before);
            if !requests.requested && !is_due {
                self.shared.wait(CHECK_INTERVAL);
                continue;
            }
            let bytes_now = self.source.frames.bytes();
            match self.take(report) {
                Ok(()) => bytes_before = bytes_now,
                Err(StopReading) => not_before = Instant::now() + RETRY_PAUSE,
            }
        }
    }

    fn is_due(&self, bytes_before: u64) -> bool {
        let end = self.source.frames.end();
        let status = self.shared.status();
        // A file of a record that the log does not have belongs to another log.
        let last = status.files.iter().find(|file| file.log_index <= end);
        let records = end.0 - last.map_or(0, |file| file.log_index.0);
        let bytes = self.source.frames.bytes().saturating_sub(bytes_before);
        let reached = |limit, now| 0 < limit && limit <= now;
        reached(self.due.every_records, records) || reached(self.due.every_bytes, bytes)
    }

    fn take(&mut self, report: &impl Fn(&SnapshotEvent)) -> Result<(), StopReading> {
        self.shared.status().busy = true;
        let started = Instant::now();
        let result = self.attempt();
        let took = started.elapsed();
        self.list();
        let mut status = self.shared.status();
        status.busy = self.shared.requests().requested;
        status.error = None;
        let event = match result {
            Ok(None) | Err(WriteError::Stopped) => return Ok(()),
            Ok(Some(taken)) => {
                status.taken += 1;
                status.last_bytes = taken.bytes;
                status.last_millis = took.as_millis() as u64;
                status.last_done = Some(Instant::now());
                self.source.before = Some(taken.file.clone());
                SnapshotEvent::Taken(taken, took)
            }
            Err(error) => {
                status.failed += 1;
                status.error = Some(error.to_string());
                SnapshotEvent::Failed(error)
            }
        };
        drop(status);
        report(&event);
        if matches!(event, SnapshotEvent::Failed(_)) { Err(StopReading) } else { Ok(()) }
    }

    fn attempt(&self) -> Result<Option<WrittenSnapshot>, WriteError> {
        let SnapshotSource { store, before, freeze, .. } = &self.source;
        let frozen = freeze().ok_or(WriteError::Busy)?;
        let store = store.as_deref();
        if let Some(store) = store {
            self.await_store(store, frozen.tail.end)?;
        }
        let mut throttle = CpuThrottle::new(&self.shared, self.due.cpu_percent);
        let mut pace = || throttle.rest();
        store_frozen(&self.disk, frozen, (store, before.as_ref()), &mut pace)
    }

    /// Waits until the store has caught up: a snapshot must not be ahead of the store.
    fn await_store(&self, store: &dyn ColdStore, end: LogIndex) -> Result<(), WriteError> {
        let deadline = Instant::now() + STORE_TIMEOUT;
        while store.mark().log_index < end {
            if deadline < Instant::now() {
                return Err(WriteError::StoreBehind);
            }
            self.shared.rest(STORE_CHECK_INTERVAL).map_err(|StopReading| WriteError::Stopped)?;
        }
        Ok(())
    }

    fn list(&self) {
        if let Ok(files) = list(&self.disk) {
            self.shared.status().files = files;
        }
    }
}

/// Works a share of the time.
struct CpuThrottle<'a> {
    shared: &'a Shared,
    percent: u32,
    since: Instant,
}

impl<'a> CpuThrottle<'a> {
    fn new(shared: &'a Shared, percent: u8) -> Self {
        let percent = u32::from(percent.clamp(1, 100));
        Self { shared, percent, since: Instant::now() }
    }

    /// Rests for its share of the time since the last rest.
    fn rest(&mut self) -> Result<(), StopReading> {
        let worked = self.since.elapsed();
        if worked < WORK_INTERVAL {
            return Ok(());
        }
        let rest = worked * (100 - self.percent) / self.percent;
        self.shared.rest(rest)?;
        self.since = Instant::now();
        Ok(())
    }
}
