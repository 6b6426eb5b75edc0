//! File names in a data directory, and checks for a log, a copy of a topic or an interrupted
//! restore.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use journal::{LOCK_FILE, RealDisk};

use crate::CliError;

/// Name of the cold store's directory within the data directory.
pub(crate) const STORE: &str = "store";
/// Marker file in a copy of a topic: holds the topic's name.
pub(crate) const MARKER: &str = "kafka-topic";
/// Staging directory of a restore that is incomplete.
pub(crate) const UNFINISHED: &str = ".restoring";
/// Staging directory of a complete restore. It contains a lock file until everything else has
/// moved.
pub(crate) const WHOLE: &str = ".restored";

/// Whether a directory has a log, in local segments or in an archive.
pub(crate) fn has_segments(data: &Path) -> bool {
    let names = fs::read_dir(data).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_segment = |name: &str| name.ends_with(".segment") || name.ends_with(".packed");
    names.any(|name| is_segment(&name) || name == journal::ARCHIVE_INDEX)
}

/// Refuses a directory without a log, before a lock file is created in it.
pub(crate) fn refuse_without_log(data: &Path) -> Result<(), CliError> {
    let what = match (data.is_dir(), has_segments(data)) {
        (false, _) => "directory not found",
        (true, false) => "no log found",
        (true, true) => return Ok(()),
    };
    Err(CliError::new(format!("{}: {what}", data.display())))
}

/// Finishes a complete restore that was interrupted while moving its files. Returns whether there
/// was one.
///
/// # Errors
/// The directory cannot be changed, or another process uses it.
pub(crate) fn put_in_place(data: &Path) -> Result<bool, CliError> {
    if !is_half_moved(data) {
        return Ok(false);
    }
    let failed = |what: &str| CliError::new(format!("{}: {what}", data.display()));
    let _owned = RealDisk::open(data).map_err(|error| failed(&error.to_string()))?;
    move_up(data).map_err(|error| failed(&error.to_string()))?;
    Ok(true)
}

/// Refuses a directory with an incomplete restore: a new log in it would be mistaken for the
/// restored one.
pub(crate) fn refuse_unfinished(data: &Path) -> Result<(), CliError> {
    let unfinished = data.join(UNFINISHED);
    match unfinished.exists() {
        false => Ok(()),
        true => Err(CliError::new(format!(
            "{}: left by an interrupted restore; repeat the restore, or remove this directory to \
             start without it",
            unfinished.display()
        ))),
    }
}

/// Refuses a directory whose restored files have moved only in part: it would read as damaged.
pub(crate) fn refuse_half(data: &Path) -> Result<(), CliError> {
    match is_half_moved(data) {
        false => Ok(()),
        true => Err(CliError::new(format!(
            "{}: a restore was interrupted in its last step; repeat it or start the switch to \
             finish it",
            data.display()
        ))),
    }
}

fn is_half_moved(data: &Path) -> bool {
    data.join(WHOLE).join(LOCK_FILE).is_file()
}

/// Moves the files of a complete restore to their place, except the lock. Can be resumed.
pub(crate) fn move_up(data: &Path) -> io::Result<()> {
    let whole = data.join(WHOLE);
    for entry in fs::read_dir(&whole)? {
        let entry = entry?;
        if entry.file_name() != LOCK_FILE {
            fs::rename(entry.path(), data.join(entry.file_name()))?;
        }
    }
    sync(data)?;
    fs::remove_dir_all(&whole)?;
    sync(data)
}

pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
