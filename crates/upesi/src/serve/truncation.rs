//! Whether the end of a log is missing, as what was made of it tells. A snapshot is stored, and a
//! row written to the cold store, only once the log is durable up to there: either of a later
//! record of the same log shows that its end was lost. `durable.mark` shows it too
//! ([`journal::MARK`]), but is one sector that may be lost with it.
//!
//! Of a log that several nodes share, the files are a copy that the topic makes whole again: it is
//! not asked about.

use std::path::Path;

use journal::{DamageReason, OpenError, TailPolicy};
use ledger::LogIndex;
use ports::{ColdStore, Disk, DiskError};
use record::frame::Tail;
use snapshots::{SnapshotFile, list, origin};

use crate::cli::stdout;
use crate::data::layout;

/// Before a log is opened: refuses to begin one where another was.
///
/// # Errors
/// What is there without a log.
pub(crate) fn check_begins(disk: &impl Disk, data: &Path, has_log: bool) -> Result<(), String> {
    if has_log {
        return Ok(());
    }
    let snapshots = list(disk).map_err(|error| OpenError::from(error).to_string())?;
    let beside = match snapshots.first() {
        Some(file) => file.name.clone(),
        None if data.join(layout::STORE).exists() => layout::STORE.to_owned(),
        None => return Ok(()),
    };
    Err(format!(
        "the log is missing, but {beside}, which was made from a log, exists; restore the log from \
         its backup, or use an empty directory for a new log"
    ))
}

/// Once it is open: the snapshots of this log that are of later records. With the end given up,
/// they are removed, and said.
///
/// # Errors
/// The first of them, unless the end is given up.
pub(crate) fn check_snapshots(
    disk: &impl Disk,
    tail: &Tail,
    tail_policy: TailPolicy,
) -> Result<(), String> {
    let failed = |error: DiskError| OpenError::from(error).to_string();
    for file in list(disk).map_err(failed)?.iter().filter(|file| is_ahead(disk, file, tail)) {
        if tail_policy == TailPolicy::Refuse {
            return Err(missing(&format!("{} was", file.name), file.log_index, tail.end));
        }
        disk.remove(&file.name).map_err(failed)?;
        stdout::print_message(format_args!(
            "removed {}: the log went as far as record {}, and ends with record {}",
            file.name, file.log_index.0, tail.end.0
        ));
    }
    Ok(())
}

/// Whether it is a sound beginning of a snapshot of this log, at a record that the log has not.
fn is_ahead(disk: &impl Disk, file: &SnapshotFile, tail: &Tail) -> bool {
    let at = origin(disk, file);
    at.is_ok_and(|at| at.identity == tail.identity && tail.end < at.end)
}

/// The same of the cold store, which knows its log. With the end given up, it is built anew, and
/// that is said.
///
/// # Errors
/// What it shows, unless the end is given up.
pub(crate) fn check_store(
    store: &impl ColdStore,
    end: LogIndex,
    tail_policy: TailPolicy,
) -> Result<(), String> {
    let reached = store.mark().log_index;
    match end < reached && tail_policy == TailPolicy::Refuse {
        true => Err(missing("the cold store next to it was", reached, end)),
        false => Ok(()),
    }
}

/// What is to be said, and done.
pub(crate) fn missing(made: &str, of: LogIndex, end: LogIndex) -> String {
    format!(
        "the log ends with record {}, though {made} made of this log when it went as far as record \
         {}: its end is missing. {}",
        end.0,
        of.0,
        DamageReason::Cut { until: of }.advice()
    )
}
