//! The cores on which this thread, and the threads and processes that it starts, may run.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread runs on some of its cores until this value is dropped. Threads and processes that it
/// starts meanwhile stay on them.
#[derive(Debug)]
pub struct PinnedCores(CpuSet);

impl PinnedCores {
    /// Pins this thread to the first `count` of its cores.
    ///
    /// # Errors
    ///
    /// It has fewer cores.
    pub fn first(count: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut pinned = CpuSet::new();
        let cores = (0..CpuSet::MAX_CPU).filter(|&core| before.is_set(core));
        cores.take(count).for_each(|core| pinned.set(core));
        if (pinned.count() as usize) < count {
            let text = format!("{count} cores are needed, and there are {}", before.count());
            return Err(io::Error::other(text));
        }
        sched_setaffinity(None, &pinned)?;
        Ok(Self(before))
    }
}

impl Drop for PinnedCores {
    fn drop(&mut self) {
        // These cores were allowed before.
        let _restored = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_pinned_until_the_end() {
        let allowed = || sched_getaffinity(None).map_or(0, |cores| cores.count());
        let before = allowed();
        let pinned = PinnedCores::first(1).expect("there is one");
        assert_eq!(allowed(), 1);
        let inherited = std::thread::spawn(allowed).join().expect("it ends");
        assert_eq!(inherited, 1);
        drop(pinned);
        assert_eq!(allowed(), before);
        assert!(PinnedCores::first(1 + before as usize).is_err());
        assert_eq!(allowed(), before);
    }
}
