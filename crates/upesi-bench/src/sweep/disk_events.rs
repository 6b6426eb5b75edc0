//! Disk events of a switch, observed from outside, and the latency of the seconds in which they
//! occurred: a new segment of the log, tables of the store written by a flush or a compaction, and
//! a snapshot.
//!
//! A thread polls names and lengths of files about 40 times per second. It does not read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::bench_report::BenchReport;
use crate::sweep::stored_transfers::median;
use harness::error::HarnessError;

const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskEvent {
    Rotation,
    Compaction,
    Snapshot,
}

impl DiskEvent {
    const ALL: [Self; 3] = [Self::Rotation, Self::Compaction, Self::Snapshot];
}

/// A thread that polls the data directory.
pub(crate) struct DiskWatcher {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, DiskEvent)>>,
}

impl DiskWatcher {
    pub(crate) fn start(data: &Path) -> Result<Self, HarnessError> {
        let (data, stopping) = (data.to_owned(), Arc::new(AtomicBool::new(false)));
        let watched = Arc::clone(&stopping);
        let watching = thread::Builder::new().name("watcher".to_owned());
        let thread = watching.spawn(move || watch(&data, &watched));
        Ok(Self { stopping, thread: thread.map_err(HarnessError::file("watcher"))? })
    }

    /// Stops the thread and returns the observed events with their times.
    pub(crate) fn end(self) -> Vec<(Instant, DiskEvent)> {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(data: &Path, stopping: &AtomicBool) -> Vec<(Instant, DiskEvent)> {
    let mut observed = Vec::new();
    let look = || [segments(data), tables(data), snapshots(data)];
    let mut before = look();
    while !stopping.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
        let (now, after) = (Instant::now(), look());
        for (at, event) in DiskEvent::ALL.into_iter().enumerate() {
            if before[at] != after[at] {
                observed.push((now, event));
            }
        }
        before = after;
    }
    observed
}

type Files = BTreeMap<PathBuf, u64>;

/// Segments by name, without their lengths, since they grow all the time.
fn segments(data: &Path) -> Files {
    let names = files(data).map(|entry| entry.path());
    names
        .filter(|path| path.extension().is_some_and(|it| it == "segment"))
        .map(|path| (path, 0))
        .collect()
}

/// Snapshots with their lengths, including one that is being written.
fn snapshots(data: &Path) -> Files {
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name == "snapshot.new" || path.extension().is_some_and(|it| it == "snapshot")
    };
    let found = files(data).filter(|entry| is_one(&entry.path()));
    found.map(|entry| (entry.path(), entry.metadata().map_or(0, |it| it.len()))).collect()
}

/// Tables of the store with their lengths, at any depth.
fn tables(data: &Path) -> Files {
    let mut found = Files::new();
    let mut directories = vec![data.join("store")];
    while let Some(directory) = directories.pop() {
        let are_tables = directory.file_name().is_some_and(|name| name == "tables");
        for entry in files(&directory) {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) if are_tables => {
                    found.insert(entry.path(), metadata.len());
                }
                _ => {}
            }
        }
    }
    found
}

fn files(directory: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

/// The 99th percentile of each second in milliseconds, by the event in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SecondsByEvent {
    quiet: Vec<f64>,
    /// In the order of [`DiskEvent::ALL`].
    changed: [Vec<f64>; 3],
}

impl SecondsByEvent {
    /// Adds a run and the events observed in it.
    pub(crate) fn add(&mut self, run: &BenchReport, observed: &[(Instant, DiskEvent)]) {
        let Some(began) = run.began else { return };
        let at = |(moment, event): &(Instant, DiskEvent)| {
            moment.checked_duration_since(began).map(|after| (after.as_secs(), *event))
        };
        let marked: Vec<_> = observed.iter().filter_map(at).collect();
        let seconds = run.seconds_one_by_one.iter().filter(|second| second.ended > 0);
        self.sort(seconds.map(|second| (u64::from(second.second), second.p99_ms)), &marked);
    }

    fn sort(&mut self, seconds: impl Iterator<Item = (u64, f64)>, marked: &[(u64, DiskEvent)]) {
        for (second, p99) in seconds {
            let had = DiskEvent::ALL.map(|event| marked.contains(&(second, event)));
            for (seconds, had) in self.changed.iter_mut().zip(had) {
                seconds.extend(had.then_some(p99));
            }
            if !had.contains(&true) {
                self.quiet.push(p99);
            }
        }
    }

    /// Medians of the seconds with a rotation, with a flush or a compaction, and with a snapshot,
    /// each divided by the median of the quiet seconds.
    pub(crate) fn relative(&self) -> [Option<f64>; 3] {
        let of = |seconds: &[f64]| median(seconds.iter().copied());
        let quiet = of(&self.quiet).filter(|quiet| *quiet > 0.0);
        self.changed.each_ref().map(|seconds| Some(of(seconds)? / quiet?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_grouped_by_their_disk_events() {
        let mut seconds = SecondsByEvent::default();
        assert_eq!(seconds.relative(), [None; 3]);
        let p99 = [(0, 2.0), (1, 3.0), (2, 2.0), (3, 8.0), (4, 5.0)];
        let kinds = [
            DiskEvent::Rotation,
            DiskEvent::Compaction,
            DiskEvent::Compaction,
            DiskEvent::Snapshot,
        ];
        let marked: Vec<_> = [1, 3, 3, 4].into_iter().zip(kinds).collect();
        seconds.sort(p99.into_iter(), &marked);
        assert_eq!(seconds.quiet, [2.0, 2.0]);
        assert_eq!(seconds.relative(), [Some(1.5), Some(4.0), Some(2.5)]);
    }

    #[test]
    fn new_segments_and_tables_are_events_and_growth_is_not() {
        let directory = std::env::temp_dir().join(format!("upesi-changes-{}", std::process::id()));
        let tables_of = directory.join("store/rows/keyspaces/1/tables");
        fs::create_dir_all(&tables_of).expect("makes it");
        fs::write(directory.join("1.segment"), "a").expect("writes");
        let before = (segments(&directory), tables(&directory));
        fs::write(directory.join("1.segment"), "longer").expect("writes");
        fs::write(directory.join("store/rows/0.jnl"), "longer").expect("writes");
        assert_eq!(snapshots(&directory).len(), 0);
        fs::write(directory.join("snapshot.new"), "a").expect("writes");
        assert_eq!(snapshots(&directory).len(), 1);
        assert_eq!((segments(&directory), tables(&directory)), before);
        fs::write(directory.join("2.segment"), "a").expect("writes");
        fs::write(tables_of.join("7"), "a").expect("writes");
        assert_eq!((segments(&directory).len(), tables(&directory).len()), (2, 1));
        fs::remove_dir_all(&directory).expect("removes it");
    }
}
