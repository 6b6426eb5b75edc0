//! What a start goes on from.

use journal::DurableFrames;
use ledger::{LogIndex, State};
use ports::{Disk, DiskError};
use record::frame::Tail;

use crate::Pace;
use crate::files::{InvalidFileReason, SnapshotFile, list, load, origin};

/// A snapshot that is good, and of this log.
#[derive(Debug)]
pub struct SnapshotStart {
    /// Its file.
    pub file: SnapshotFile,
    /// Where the log stood.
    pub tail: Tail,
    /// The state there.
    pub state: State,
}

/// What [`newest`] found.
#[derive(Debug)]
pub struct NewestSnapshot {
    /// What to go on from; without it, from the log's first record.
    pub start: Option<SnapshotStart>,
    /// Newer files that can not be used, each with the reason, in a line for people.
    pub passed_over: Vec<String>,
    /// Whether the search was stopped by its pace.
    pub stopped: bool,
}

/// Finds the newest snapshot that is sound and whose place in the log has the same chain head.
/// `stored` is up to where the store beside the kernel is complete: a later snapshot needs what the
/// store does not have. Without a store only one that holds every row will do.
///
/// # Errors
/// [`DiskError`] when the directory can not be listed. What is wrong with a file is no error: it
/// is passed over.
pub fn newest<D: Disk>(
    disk: &D,
    frames: &DurableFrames<D>,
    stored: Option<LogIndex>,
    pace: &mut Pace<'_>,
) -> Result<NewestSnapshot, DiskError> {
    let mut found = NewestSnapshot { start: None, passed_over: Vec::new(), stopped: false };
    for file in list(disk)? {
        match open(disk, (frames, stored), &file, pace) {
            Ok(start) => {
                found.start = Some(start);
                break;
            }
            Err(Unusable::Stopped) => {
                found.stopped = true;
                break;
            }
            Err(Unusable::Because(reason)) => found.passed_over.push(reason),
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
    pace: &mut Pace<'_>,
) -> Result<SnapshotStart, Unusable> {
    let tail = origin(disk, file).map_err(|fault| Unusable::Because(fault.to_string()))?;
    let unusable = |why: String| Unusable::Because(format!("{}: {why}", file.name));
    check_place(frames, &tail).map_err(unusable)?;
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
    if stored.is_none() && 0 < state.cold().rows {
        return Err(unusable("it needs the cold store".into()));
    }
    Ok(SnapshotStart { file, tail: snapshot.tail, state })
}

/// Whether this log stood there once.
fn check_place<D: Disk>(frames: &DurableFrames<D>, tail: &Tail) -> Result<(), String> {
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
