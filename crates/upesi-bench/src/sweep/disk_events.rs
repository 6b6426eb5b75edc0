//! What a switch does on its disk beside its work, noticed from outside, and what the seconds of a
//! run were like in which it did: a new segment of the log, tables of the store that are written by
//! a flush or a compaction, and a snapshot.
//!
//! A thread looks at the names and lengths of files some forty times a second; it reads none.

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

const GLANCE: Duration = Duration::from_millis(25);

/// Of what kind it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Rotation,
    Compaction,
    Snapshot,
}

impl Change {
    const ALL: [Self; 3] = [Self::Rotation, Self::Compaction, Self::Snapshot];
}

/// A thread that looks on.
pub(crate) struct Watcher {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, Change)>>,
}

impl Watcher {
    pub(crate) fn start(data: &Path) -> Result<Self, HarnessError> {
        let (data, stopping) = (data.to_owned(), Arc::new(AtomicBool::new(false)));
        let watched = Arc::clone(&stopping);
        let watching = thread::Builder::new().name("watcher".to_owned());
        let thread = watching.spawn(move || watch(&data, &watched));
        Ok(Self { stopping, thread: thread.map_err(HarnessError::file("watcher"))? })
    }

    /// When what was seen.
    pub(crate) fn end(self) -> Vec<(Instant, Change)> {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(data: &Path, stopping: &AtomicBool) -> Vec<(Instant, Change)> {
    let mut seen = Vec::new();
    let look = || [segments(data), tables(data), snapshots(data)];
    let mut before = look();
    while !stopping.load(Ordering::Relaxed) {
        thread::sleep(GLANCE);
        let (now, after) = (Instant::now(), look());
        for (at, change) in Change::ALL.into_iter().enumerate() {
            if before[at] != after[at] {
                seen.push((now, change));
            }
        }
        before = after;
    }
    seen
}

type Files = BTreeMap<PathBuf, u64>;

/// Segments by name; they grow all the time.
fn segments(data: &Path) -> Files {
    let names = files(data).map(|entry| entry.path());
    names
        .filter(|path| path.extension().is_some_and(|it| it == "segment"))
        .map(|path| (path, 0))
        .collect()
}

/// Snapshots, the one that is being written among them, with their lengths.
fn snapshots(data: &Path) -> Files {
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name == "snapshot.new" || path.extension().is_some_and(|it| it == "snapshot")
    };
    let found = files(data).filter(|entry| is_one(&entry.path()));
    found.map(|entry| (entry.path(), entry.metadata().map_or(0, |it| it.len()))).collect()
}

/// Tables of the store, wherever below it they are, with their lengths.
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

/// The 99th percentile of each second in milliseconds, by what was done in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seconds {
    quiet: Vec<f64>,
    /// In the order of [`Change::ALL`].
    changed: [Vec<f64>; 3],
}

impl Seconds {
    /// Adds a run and what was seen in it.
    pub(crate) fn add(&mut self, run: &BenchReport, seen: &[(Instant, Change)]) {
        let Some(began) = run.began else { return };
        let at = |(moment, change): &(Instant, Change)| {
            moment.checked_duration_since(began).map(|after| (after.as_secs(), *change))
        };
        let marked: Vec<_> = seen.iter().filter_map(at).collect();
        let seconds = run.seconds_one_by_one.iter().filter(|second| second.ended > 0);
        self.sort(seconds.map(|second| (u64::from(second.second), second.p99_ms)), &marked);
    }

    fn sort(&mut self, seconds: impl Iterator<Item = (u64, f64)>, marked: &[(u64, Change)]) {
        for (second, p99) in seconds {
            let had = Change::ALL.map(|change| marked.contains(&(second, change)));
            for (seconds, had) in self.changed.iter_mut().zip(had) {
                seconds.extend(had.then_some(p99));
            }
            if !had.contains(&true) {
                self.quiet.push(p99);
            }
        }
    }

    /// Medians of the seconds with a rotation, of those with a flush or a compaction, and of those
    /// with a snapshot, each by that of the quiet seconds.
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
    fn seconds_are_told_by_what_was_done_in_them() {
        let mut seconds = Seconds::default();
        assert_eq!(seconds.relative(), [None; 3]);
        let p99 = [(0, 2.0), (1, 3.0), (2, 2.0), (3, 8.0), (4, 5.0)];
        let kinds = [Change::Rotation, Change::Compaction, Change::Compaction, Change::Snapshot];
        let marked: Vec<_> = [1, 3, 3, 4].into_iter().zip(kinds).collect();
        seconds.sort(p99.into_iter(), &marked);
        assert_eq!(seconds.quiet, [2.0, 2.0]);
        assert_eq!(seconds.relative(), [Some(1.5), Some(4.0), Some(2.5)]);
    }

    #[test]
    fn new_segments_and_tables_are_seen_and_what_grows_otherwise_is_not() {
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
