//! Counters of one thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A value that one thread changes and others read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; only the thread that owns it may call this.
    #[inline]
    pub fn add(&self, count: u64) {
        // With one writer, no read-modify-write is needed.
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Sets a value that may also decrease.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// Its value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
