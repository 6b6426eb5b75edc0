//! What is in a data directory, by its names: whether there is a log, a copy of a topic, or a
//! restore that was interrupted.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use journal::{LOCK_FILE, RealDisk};

use crate::CliError;

/// Name of the cold store's directory within the data directory.
pub(crate) const STORE: &str = "store";
/// Beside the files of a log that is the copy of a topic: the topic's name.
pub(crate) const MARKER: &str = "kafka-topic";
/// Where a restore brings everything, until all of it is there.
pub(crate) const UNFINISHED: &str = ".restoring";
/// There is a lock in it until nothing else is: without one it is nothing of ours.
pub(crate) const WHOLE: &str = ".restored";

/// Whether there is a log in a directory, wherever its segments are.
pub(crate) fn has_segments(data: &Path) -> bool {
    let names = fs::read_dir(data).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_segment = |name: &str| name.ends_with(".segment") || name.ends_with(".packed");
    names.any(|name| is_segment(&name) || name == journal::CATALOGUE)
}

/// Before a directory is owned, which makes a file in it: whether a log is there.
pub(crate) fn refuse_without_log(data: &Path) -> Result<(), CliError> {
    let what = match (data.is_dir(), has_segments(data)) {
        (false, _) => "there is no such directory",
        (true, false) => "there is no log here",
        (true, true) => return Ok(()),
    };
    Err(CliError::new(format!("{}: {what}", data.display())))
}

/// Finishes a restore that was interrupted when it was whole already; whether there was one.
///
/// # Errors
/// The directory cannot be changed, or somebody owns it.
pub(crate) fn put_in_place(data: &Path) -> Result<bool, CliError> {
    if !is_half_moved(data) {
        return Ok(false);
    }
    let failed = |what: &str| CliError::new(format!("{}: {what}", data.display()));
    let _owned = RealDisk::open(data).map_err(|error| failed(&error.to_string()))?;
    move_up(data).map_err(|error| failed(&error.to_string()))?;
    Ok(true)
}

/// Refuses a directory in which a restore was begun: a log that is begun beside it would be taken
/// for the one that was to come.
pub(crate) fn refuse_unfinished(data: &Path) -> Result<(), CliError> {
    let unfinished = data.join(UNFINISHED);
    match unfinished.exists() {
        false => Ok(()),
        true => Err(CliError::new(format!(
            "{} is of a restore that was interrupted: repeat it, or remove that directory to begin \
             without it",
            unfinished.display()
        ))),
    }
}

/// Refuses a directory that such a restore has half moved up: to a reader it would be damaged.
pub(crate) fn refuse_half(data: &Path) -> Result<(), CliError> {
    match is_half_moved(data) {
        false => Ok(()),
        true => Err(CliError::new(format!(
            "{}: a restore into it was interrupted when it had everything: repeat it, or start the \
             switch, and it is finished",
            data.display()
        ))),
    }
}

fn is_half_moved(data: &Path) -> bool {
    data.join(WHOLE).join(LOCK_FILE).is_file()
}

/// Moves up what is whole, the lock excepted. If that is interrupted, the next one goes on.
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
