//! Detects a truncated log by comparing its end with the snapshots and the cold store. Both are
//! written only for records that are durable in the log. If one of them has a later record of the
//! same log, the log was truncated. `durable.mark` shows this too ([`journal::MARK`]), but it is a
//! single sector that may be lost with the log.
//!
//! A copy of a log on Kafka is not checked, because it is completed from the topic.

use std::path::Path;

use journal::{DamageReason, OpenError, TailPolicy};
use ledger::LogIndex;
use ports::{ColdStore, Disk, DiskError};
use record::frame::Tail;
use snapshots::{SnapshotFile, list, origin};

use crate::cli::stdout;
use crate::data::layout;

/// Refuses to create a log in a directory from which a log was removed.
///
/// # Errors
/// Names the file that remains without a log.
pub(crate) fn check_begins(disk: &impl Disk, data: &Path, has_log: bool) -> Result<(), String> {
    if has_log {
        return Ok(());
    }
    let snapshots = list(disk).map_err(|error| OpenError::from(error).to_string())?;
    let remaining = match snapshots.first() {
        Some(file) => file.name.clone(),
        None if data.join(layout::STORE).exists() => layout::STORE.to_owned(),
        None => return Ok(()),
    };
    Err(format!(
        "the log is missing, but {remaining}, which was made from a log, exists; restore the log \
         from its backup, or use an empty directory for a new log"
    ))
}

/// Checks an open log against its snapshots. With [`TailPolicy::Truncate`], snapshots of later
/// records are removed and reported.
///
/// # Errors
/// The log is truncated, unless the policy allows it.
pub(crate) fn check_snapshots(
    disk: &impl Disk,
    tail: &Tail,
    tail_policy: TailPolicy,
) -> Result<(), String> {
    let failed = |error: DiskError| OpenError::from(error).to_string();
    for file in list(disk).map_err(failed)?.iter().filter(|file| is_ahead(disk, file, tail)) {
        if tail_policy == TailPolicy::Refuse {
            return Err(missing_end(&file.name, file.log_index, tail.end));
        }
        disk.remove(&file.name).map_err(failed)?;
        stdout::print_message(format_args!(
            "{}: removed; it has record {}, but the log ends with record {}",
            file.name, file.log_index.0, tail.end.0
        ));
    }
    Ok(())
}

/// Whether a file begins as a snapshot of this log at a record after its end.
fn is_ahead(disk: &impl Disk, file: &SnapshotFile, tail: &Tail) -> bool {
    let at = origin(disk, file);
    at.is_ok_and(|at| at.identity == tail.identity && tail.end < at.end)
}

/// Checks an open log against its cold store. With [`TailPolicy::Truncate`], the store is rebuilt.
///
/// # Errors
/// The log is truncated, unless the policy allows it.
pub(crate) fn check_store(
    store: &impl ColdStore,
    end: LogIndex,
    tail_policy: TailPolicy,
) -> Result<(), String> {
    let reached = store.mark().log_index;
    match end < reached && tail_policy == TailPolicy::Refuse {
        true => Err(missing_end("the cold store", reached, end)),
        false => Ok(()),
    }
}

/// The error about a truncated log: `file` was made from it and has the record `reached`.
pub(crate) fn missing_end(file: &str, reached: LogIndex, end: LogIndex) -> String {
    format!(
        "the log ends with record {}, but {file} was made from this log and has record {}: its end \
         is missing. {}",
        end.0,
        reached.0,
        DamageReason::Cut { until: reached }.advice()
    )
}
