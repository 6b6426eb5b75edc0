//! Programs whose clock stands elsewhere: a library that is loaded before all others adds to the
//! time of day. Only what asks for the time of day sees it; what measures passing time does not, and
//! who waits until a time of day waits as long as before.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::apart::run;

/// Names the file that says by how many seconds the clock is ahead.
const FILE: &str = "UPESI_TEST_CLOCK";
const LIBRARY: &str = "LD_PRELOAD";

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *ahead;

typedef int (*wait_until)(cnd_t *, mtx_t *, const struct timespec *);

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
                  const struct timespec *restrict until) {
    static wait_until real;
    if (real == NULL) real = (wait_until)dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec at = *until;
    if (ahead != NULL) at.tv_sec -= *ahead;
    return real(cond, mutex, &at);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("UPESI_TEST_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) ahead = found;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    int is_day = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_day && ahead != NULL) now->tv_sec += *ahead;
    return result;
}

int gettimeofday(struct timeval *restrict day, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    day->tv_sec = now.tv_sec;
    day->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

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
