//! The directory that a restore makes, and how it becomes whole at once.
//!
//! Everything is brought into a directory within it, and moved up when it is proved: a mounted
//! volume can neither be replaced by another directory nor have one beside it. What is within it is
//! called [`UNFINISHED`] until all of it is there, and [`WHOLE`] while it is moved up, name by
//! name; a start goes on with the latter ([`put_in_place`]), and refuses the former.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use journal::{LOCK_FILE, RealDisk};
use ports::Disk;

use crate::CliError;
#[cfg(feature = "kafka")]
use crate::data::layout::MARKER;
use crate::data::layout::{UNFINISHED, WHOLE, move_up, put_in_place, sync};

/// What stands in a volume that nobody has used.
const IN_EVERY_VOLUME: &str = "lost+found";
/// What a first start leaves that had no log to begin with.
#[cfg(feature = "kafka")]
const OF_A_START_IN_VAIN: [&str; 2] = [MARKER, "admin-token"];

/// The directory being made. Nobody else owns it meanwhile.
pub(super) struct StagingDirectory {
    data: PathBuf,
    unfinished: PathBuf,
    /// Whether it was made for this.
    is_new: bool,
    owned: RealDisk,
}

impl StagingDirectory {
    /// Takes a directory that is not there or empty.
    ///
    /// # Errors
    /// There is something in it, or somebody owns it.
    pub(super) fn of(data: &Path) -> Result<Self, CliError> {
        Self::beside(data, &[])
    }

    /// Takes a directory in which no log was begun, for a node.
    #[cfg(feature = "kafka")]
    pub(super) fn of_node(data: &Path) -> Result<Self, CliError> {
        let target = Self::beside(data, &OF_A_START_IN_VAIN)?;
        // What comes is held against the topic, and is marked then.
        match fs::remove_file(data.join(MARKER)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(target.failure(&error.to_string()))
            }
            _ => Ok(target),
        }
    }

    fn beside(data: &Path, allowed: &[&str]) -> Result<Self, CliError> {
        let failed = |what: &str| CliError::new(format!("{}: {what}", data.display()));
        if put_in_place(data)? {
            return Err(failed(
                "an earlier restore had all of it, which is in its place now: `upesi verify` \
                 proves it",
            ));
        }
        let is_new = match fs::read_dir(data) {
            Ok(entries) => {
                let names = entries.flatten().map(|entry| entry.file_name());
                let ours = [UNFINISHED, LOCK_FILE, IN_EVERY_VOLUME];
                let mut others =
                    names.filter(|name| !ours.iter().chain(allowed).any(|one| name == one));
                if let Some(name) = others.next() {
                    let what = "the directory is not empty, there is";
                    let name = Path::new(&name).display();
                    return Err(failed(&format!("{what} {name}; nothing is ever overwritten")));
                }
                false
            }
            Err(_) if fs::symlink_metadata(data).is_ok() => {
                let what = "this is there and is no directory; nothing is ever overwritten";
                return Err(failed(what));
            }
            Err(_) => true,
        };
        let owned = RealDisk::open(data).map_err(|error| failed(&error.to_string()))?;
        let unfinished = data.join(UNFINISHED);
        Ok(Self { data: data.to_path_buf(), unfinished, is_new, owned })
    }

    /// Where everything is brought.
    pub(super) fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    /// Forgets what an earlier attempt brought.
    pub(super) fn begin_anew(&self) -> Result<(), CliError> {
        match fs::remove_dir_all(&self.unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failure(&error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Removes what was made for a copy of which nothing came; whether it did.
    pub(super) fn discard_if_empty(&self) -> bool {
        holds_nothing(&self.unfinished) && fs::remove_dir_all(&self.unfinished).is_ok()
    }

    /// Makes the directory what was brought, durably.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let failed = |error: io::Error| self.failure(&error.to_string());
        fs::rename(&self.unfinished, self.data.join(WHOLE)).map_err(failed)?;
        self.owned.sync_directory().map_err(|error| self.failure(&error.to_string()))?;
        move_up(&self.data).map_err(failed)?;
        let above = self.data.parent().filter(|above| !above.as_os_str().is_empty());
        sync(above.unwrap_or(Path::new("."))).map_err(failed)
    }

    /// An error with the place where it happened.
    pub(super) fn failure(&self, what: &str) -> CliError {
        CliError::new(format!("{}: {what}", self.unfinished.display()))
    }
}

impl Drop for StagingDirectory {
    /// A directory that was made for nothing goes again.
    fn drop(&mut self) {
        if self.is_new && holds_nothing(&self.data) {
            let _removed = fs::remove_dir_all(&self.data);
        }
    }
}

fn holds_nothing(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().all(|entry| entry.file_name() == LOCK_FILE)
}
