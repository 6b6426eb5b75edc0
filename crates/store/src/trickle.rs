//! What the library writes goes to the disk while it is written, a little at a time.
//!
//! It writes a table, or its journal, into the page cache and syncs it when it is whole. Megabytes
//! then stand in the disk's queue at once, and a sync of the log, for which everybody waits, stands
//! behind them: 5 ms for 8 MB here. So a thread hears from the system of what grows in the
//! database's directories and has every [`PIECE`] of it written out; the sync finds little left.
//!
//! Nothing depends on it: what fails here is left to the library's own sync. Linux only, as the
//! switch.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Advice, fadvise};

/// Bytes from which on it is worth while to write them out: a third of a millisecond of this disk.
const PIECE: u64 = 512 << 10;

/// Between two looks, so that one look serves many small writes.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Trickle {
    system: Arc<OwnedFd>,
    /// The watch whose removal tells the thread to end.
    last_word: i32,
    thread: Option<JoinHandle<()>>,
}

impl Trickle {
    /// Begins to look after the files that grow in these directories, of which there is one at
    /// least.
    ///
    /// # Errors
    /// The system tells nothing, or a thread cannot be started.
    pub(crate) fn start(directories: impl Iterator<Item = PathBuf>) -> io::Result<Self> {
        let system = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        let watch = |directory: PathBuf| {
            let what = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
            Ok((inotify::add_watch(&system, &directory, what)?, directory))
        };
        let directories = directories.map(watch).collect::<io::Result<BTreeMap<_, _>>>()?;
        let last_word = *directories.keys().next().expect("a directory");
        let mut growing = Growing { directories, files: BTreeMap::new() };
        let told_by = Arc::clone(&system);
        // It does not step back: it has to come before the thread that writes is done.
        let follow = move || growing.follow(&told_by, last_word);
        let thread = thread::Builder::new().name("trickle".into()).spawn(follow)?;
        Ok(Self { system, last_word, thread: Some(thread) })
    }
}

impl Drop for Trickle {
    fn drop(&mut self) {
        let removed = inotify::remove_watch(&self.system, self.last_word);
        if let (Ok(()), Some(thread)) = (removed, self.thread.take()) {
            // A panic of its own was printed.
            let _joined = thread.join();
        }
    }
}

/// The files that are being written.
struct Growing {
    directories: BTreeMap<i32, PathBuf>,
    files: BTreeMap<Name, Grown>,
}

/// A watch and a name in its directory.
type Name = (i32, CString);

struct Grown {
    file: File,
    /// Bytes that are being written out, or were.
    asked: u64,
}

impl Growing {
    /// The thread: ends with the watch `last_word`, or when the system says no more.
    fn follow(&mut self, system: &OwnedFd, last_word: i32) {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(system, &mut buffer);
        loop {
            if events.is_buffer_empty() {
                thread::sleep(LOOK_EVERY);
            }
            let Ok(event) = events.next() else { return };
            let is_over = event.events().contains(ReadFlags::IGNORED);
            if is_over && event.wd() == last_word {
                return;
            }
            let Some(name) = event.file_name() else { continue };
            let name = (event.wd(), name.to_owned());
            if event.events().contains(ReadFlags::CLOSE_WRITE) || self.grew(&name).is_none() {
                self.files.remove(&name);
            }
        }
    }

    /// Something was appended to a file. `None` when it cannot be looked after.
    fn grew(&mut self, name: &Name) -> Option<()> {
        if !self.files.contains_key(name) {
            let file = OsStr::from_bytes(name.1.as_bytes());
            let file = File::open(self.directories.get(&name.0)?.join(file)).ok()?;
            self.files.insert(name.clone(), Grown { file, asked: 0 });
        }
        self.files.get_mut(name)?.write_out()
    }
}

impl Grown {
    /// Begins to write out what is new, when that is a piece.
    fn write_out(&mut self) -> Option<()> {
        let length = self.file.metadata().ok()?.len();
        let new = length.saturating_sub(self.asked);
        if PIECE <= new {
            // Of pages that are not on the disk yet, this advice begins to write them there.
            fadvise(&self.file, self.asked, new.try_into().ok(), Advice::DontNeed).ok()?;
            self.asked = length;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_file_is_written_out_by_the_piece() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("table");
        let mut writing = File::create(&path).expect("a file");
        let mut grown = Grown { file: File::open(&path).expect("the file"), asked: 0 };
        for (bytes, asked) in
            [(1, 0), (PIECE - 2, 0), (1, PIECE), (PIECE - 1, PIECE), (7, 2 * PIECE + 6)]
        {
            writing.write_all(&vec![7; bytes as usize]).expect("room");
            grown.write_out().expect("it can be read");
            assert_eq!(grown.asked, asked);
        }
    }

    #[test]
    fn what_grows_is_heard_of_until_the_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let trickle = Trickle::start([directory.path().to_owned()].into_iter()).expect("a thread");
        let path = directory.path().join("table");
        let mut writing = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
        for _ in 0..64 {
            writing.write_all(&[7; 64 << 10]).expect("room");
        }
        let open_by_trickle = || {
            std::fs::read_dir("/proc/self/fd")
                .expect("Linux")
                .flatten()
                .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|open| open == path))
                .count()
        };
        let until = |count: usize| {
            let started = Instant::now();
            while open_by_trickle() != count {
                assert!(started.elapsed() < Duration::from_secs(10), "{}", open_by_trickle());
                thread::sleep(LOOK_EVERY);
            }
        };
        until(2);
        drop(writing);
        until(0);
        drop(trickle);
    }
}
