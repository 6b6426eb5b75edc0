//! Programs whose clock stands elsewhere: a library that is loaded before all others adds to the
//! time of day. Only what asks for the time of day sees it; what measures passing time does not,
//! and who waits until a time of day waits as long as before.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::apart::run;

/// Names the file that says by how many seconds the clock is ahead.
const FILE: &str = "UPESI_TEST_CLOCK";
const LIBRARY: &str = "LD_PRELOAD";

const SOURCE: &str = include_str!("clock.c");

/// Clocks that are set by name.
pub(crate) struct Clocks {
    directory: TempDir,
}

impl Clocks {
    /// Builds the library. The compiler is the one that Rust links with.
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let clocks = Self { directory };
        let source = clocks.path("clock.c");
        fs::write(&source, SOURCE).unwrap();
        let (source, library) = (source.display().to_string(), clocks.library());
        run("cc", &["-O2", "-shared", "-fPIC", "-o", &library, &source]);
        clocks
    }

    /// Sets a clock so many seconds ahead, or back, while programs run by it.
    pub(crate) fn set(&self, name: &str, seconds: i64) {
        let mut file = OpenOptions::new();
        let file = file.create(true).truncate(false).write(true).open(self.path(name)).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// Has a program run by a clock that was set.
    pub(crate) fn lead(&self, name: &str, command: &mut Command) {
        command.envs(self.variables(name));
    }

    /// The same for a program that somebody else starts.
    pub(crate) fn variables(&self, name: &str) -> [(&'static str, String); 2] {
        [(LIBRARY, self.library()), (FILE, self.path(name).display().to_string())]
    }

    fn library(&self) -> String {
        self.path("clock.so").display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
