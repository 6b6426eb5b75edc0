//! Programs with a shifted clock: a preloaded library adds an offset to the time of day. Only calls
//! for the time of day are affected. Monotonic clocks and timers are not.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::namespaces::run;

/// Names the file that contains the offset of the clock, in seconds.
const FILE: &str = "UPESI_TEST_CLOCK";
const LIBRARY: &str = "LD_PRELOAD";

const SOURCE: &str = include_str!("clock.c");

/// Clocks with names, whose offsets can be set.
pub(crate) struct Clocks {
    directory: TempDir,
}

impl Clocks {
    /// Builds the library with the compiler that Rust links with.
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let clocks = Self { directory };
        let source = clocks.path("clock.c");
        fs::write(&source, SOURCE).unwrap();
        let (source, library) = (source.display().to_string(), clocks.library());
        run("cc", &["-O2", "-shared", "-fPIC", "-o", &library, &source]);
        clocks
    }

    /// Sets the offset of a clock in seconds while programs use it.
    pub(crate) fn set(&self, name: &str, seconds: i64) {
        let mut file = OpenOptions::new();
        let file = file.create(true).truncate(false).write(true).open(self.path(name)).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// Makes a program use a clock.
    pub(crate) fn lead(&self, name: &str, command: &mut Command) {
        command.envs(self.variables(name));
    }

    /// The environment variables for a program that is started elsewhere.
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
