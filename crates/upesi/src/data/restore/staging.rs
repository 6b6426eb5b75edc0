//! The target directory of a restore, which becomes complete in one step.
//!
//! Files are written to a staging directory inside the target, because a mounted volume can neither
//! be renamed nor have a sibling. The staging directory is called [`UNFINISHED`] until it is
//! complete and verified, and [`WHOLE`] while its files move up, one by one. A start continues the
//! latter ([`put_in_place`]) and refuses the former.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use journal::{LOCK_FILE, RealDisk};
use ports::Disk;

use crate::CliError;
#[cfg(feature = "kafka")]
use crate::data::layout::MARKER;
use crate::data::layout::{UNFINISHED, WHOLE, move_up, put_in_place, sync};

/// Directory in every new volume.
const IN_EVERY_VOLUME: &str = "lost+found";
/// Files left by a first start that found no log.
#[cfg(feature = "kafka")]
const LEFT_BY_A_FAILED_START: [&str; 3] = [MARKER, "admin-token", "admin-secrets-key"];

/// Advice if the target exists.
const NO_OVERWRITE: &str = "restore overwrites nothing; use an empty or new directory";

/// The target directory, locked while it is filled.
pub(super) struct StagingDirectory {
    data: PathBuf,
    unfinished: PathBuf,
    /// Whether this restore created the directory.
    is_new: bool,
    owned: RealDisk,
}

impl StagingDirectory {
    /// Locks a directory that does not exist or is empty.
    ///
    /// # Errors
    /// The directory is not empty, or another process uses it.
    pub(super) fn of(data: &Path) -> Result<Self, CliError> {
        Self::with_allowed(data, &[])
    }

    /// Locks a directory without a log, for a node.
    #[cfg(feature = "kafka")]
    pub(super) fn of_node(data: &Path) -> Result<Self, CliError> {
        let target = Self::with_allowed(data, &LEFT_BY_A_FAILED_START)?;
        // The start compares the restored log with the topic and then writes the marker.
        match fs::remove_file(data.join(MARKER)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(target.failure(&error.to_string()))
            }
            _ => Ok(target),
        }
    }

    fn with_allowed(data: &Path, allowed: &[&str]) -> Result<Self, CliError> {
        let failed = |what: &str| CliError::new(format!("{}: {what}", data.display()));
        if put_in_place(data)? {
            return Err(failed(
                "finished an earlier restore, which is in its place now; check it with `upesi \
                 verify`",
            ));
        }
        let is_new = match fs::read_dir(data) {
            Ok(entries) => {
                let names = entries.flatten().map(|entry| entry.file_name());
                let ours = [UNFINISHED, LOCK_FILE, IN_EVERY_VOLUME];
                let mut others =
                    names.filter(|name| !ours.iter().chain(allowed).any(|one| name == one));
                if let Some(name) = others.next() {
                    let name = Path::new(&name).display();
                    let what = format!("the directory is not empty: it has {name}; {NO_OVERWRITE}");
                    return Err(failed(&what));
                }
                false
            }
            Err(_) if fs::symlink_metadata(data).is_ok() => {
                return Err(failed(&format!("not a directory; {NO_OVERWRITE}")));
            }
            Err(_) => true,
        };
        let owned = RealDisk::open(data).map_err(|error| failed(&error.to_string()))?;
        let unfinished = data.join(UNFINISHED);
        Ok(Self { data: data.to_path_buf(), unfinished, is_new, owned })
    }

    /// The staging directory.
    pub(super) fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    /// Removes the files of an earlier attempt.
    pub(super) fn begin_anew(&self) -> Result<(), CliError> {
        match fs::remove_dir_all(&self.unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failure(&error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Removes a staging directory without files. Returns whether it was removed.
    pub(super) fn discard_if_empty(&self) -> bool {
        is_empty(&self.unfinished) && fs::remove_dir_all(&self.unfinished).is_ok()
    }

    /// Moves the staged files to their final place, durably.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let failed = |error: io::Error| self.failure(&error.to_string());
        fs::rename(&self.unfinished, self.data.join(WHOLE)).map_err(failed)?;
        self.owned.sync_directory().map_err(|error| self.failure(&error.to_string()))?;
        move_up(&self.data).map_err(failed)?;
        let above = self.data.parent().filter(|above| !above.as_os_str().is_empty());
        sync(above.unwrap_or(Path::new("."))).map_err(failed)
    }

    /// An error that names the staging directory.
    pub(super) fn failure(&self, what: &str) -> CliError {
        CliError::new(format!("{}: {what}", self.unfinished.display()))
    }
}

impl Drop for StagingDirectory {
    /// Removes a new directory that stayed empty.
    fn drop(&mut self) {
        if self.is_new && is_empty(&self.data) {
            let _removed = fs::remove_dir_all(&self.data);
        }
    }
}

fn is_empty(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().all(|entry| entry.file_name() == LOCK_FILE)
}
