//! Finds the snapshot that a start continues from.

use journal::DurableFrames;
use ledger::{LogIndex, State};
use ports::{Disk, DiskError};
use record::frame::Tail;

use crate::Throttle;
use crate::files::{InvalidFileReason, SnapshotFile, list, load, origin};

/// A valid snapshot of this log.
#[derive(Debug)]
pub struct SnapshotStart {
    /// Its file.
    pub file: SnapshotFile,
    /// The end of the log at that time.
    pub tail: Tail,
    /// The state at that record.
    pub state: State,
}

/// The result of [`find_newest`].
#[derive(Debug)]
pub struct NewestSnapshot {
    /// The snapshot to continue from; `None` to replay from the first record.
    pub start: Option<SnapshotStart>,
    /// Newer files that cannot be used, each with the reason as a line of text.
    pub skipped: Vec<String>,
    /// Whether the search was cancelled.
    pub stopped: bool,
}

/// Finds the newest valid snapshot whose chain head matches the log. `stored` is the mark of the
/// cold store: a later snapshot needs rows that the store does not have. Without a store the
/// snapshot must contain every row.
///
/// # Errors
/// [`DiskError`] when the directory cannot be listed. An invalid file is skipped.
pub fn find_newest<D: Disk>(
    disk: &D,
    frames: &DurableFrames<D>,
    stored: Option<LogIndex>,
    pace: &mut Throttle<'_>,
) -> Result<NewestSnapshot, DiskError> {
    find_newest_where(disk, (frames, stored), &|_| true, pace)
}

/// Finds the newest valid snapshot like [`find_newest`], among those whose end of the log is
/// `wanted`.
///
/// # Errors
/// As [`find_newest`].
pub fn find_newest_where<D: Disk>(
    disk: &D,
    (frames, stored): (&DurableFrames<D>, Option<LogIndex>),
    wanted: &dyn Fn(&Tail) -> bool,
    pace: &mut Throttle<'_>,
) -> Result<NewestSnapshot, DiskError> {
    let mut found = NewestSnapshot { start: None, skipped: Vec::new(), stopped: false };
    for file in list(disk)? {
        if origin(disk, &file).is_ok_and(|tail| !wanted(&tail)) {
            continue;
        }
        match open(disk, (frames, stored), &file, pace) {
            Ok(start) => {
                found.start = Some(start);
                break;
            }
            Err(Unusable::Stopped) => {
                found.stopped = true;
                break;
            }
            Err(Unusable::Because(reason)) => found.skipped.push(reason),
        }
    }
    Ok(found)
}

enum Unusable {
    Stopped,
    Because(String),
}

fn open<D: Disk>(
    disk: &D,
    (frames, stored): (&DurableFrames<D>, Option<LogIndex>),
    file: &SnapshotFile,
    pace: &mut Throttle<'_>,
) -> Result<SnapshotStart, Unusable> {
    let tail = origin(disk, file).map_err(|fault| Unusable::Because(fault.to_string()))?;
    let unusable = |why: String| Unusable::Because(format!("{}: {why}", file.name));
    check_tail(frames, &tail).map_err(unusable)?;
    if let Some(stored) = stored.filter(|stored| *stored < tail.end) {
        let (log_index, stored) = (tail.end.0, stored.0);
        return Err(unusable(format!(
            "it is of record {log_index}, and the cold store ends at record {stored}"
        )));
    }
    let snapshot = load(disk, file, pace).map_err(|fault| match fault.reason {
        InvalidFileReason::Stopped => Unusable::Stopped,
        _ => Unusable::Because(fault.to_string()),
    })?;
    let (file, state) = (file.clone(), snapshot.state);
    if stored.is_none() && 0 < state.evicted().rows {
        return Err(unusable("it needs the cold store".into()));
    }
    Ok(SnapshotStart { file, tail: snapshot.tail, state })
}

/// Whether this log contains that end.
fn check_tail<D: Disk>(frames: &DurableFrames<D>, tail: &Tail) -> Result<(), String> {
    let (log_index, end) = (tail.end.0, frames.end());
    let identity = frames.identity();
    if tail.identity != identity {
        return Err(format!("it is of log {}, this is log {identity}", tail.identity));
    }
    if end < tail.end {
        return Err(format!("it is of record {log_index}, and the log ends with record {}", end.0));
    }
    match frames.tail_at(tail.end) {
        Ok(Some(here)) if here == *tail => Ok(()),
        Ok(_) => Err(format!(
            "it is of another history: at record {log_index} this log has another head"
        )),
        Err(error) => Err(format!("its place in the log can not be read: {error}")),
    }
}
