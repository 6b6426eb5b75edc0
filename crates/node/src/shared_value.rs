//! A value that one thread replaces and others read.
//!
//! Costs: one atomic load for a reader who knows the newest value already, a shared lock and a
//! count otherwise. Bound: the newest value, and older ones as long as a reader keeps them.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, PoisonError, RwLock};

/// The newest value and its number.
pub(crate) struct SharedValue<T> {
    value: RwLock<Arc<T>>,
    generation: AtomicU64,
}

impl<T> SharedValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: RwLock::new(Arc::new(value)), generation: AtomicU64::new(1) }
    }

    /// Replaces the value. The generation rises afterwards: a reader that sees the new generation
    /// reads at least this value.
    pub(crate) fn publish(&self, value: T) {
        *self.value.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The newest value, if it was replaced since `generation`, which is updated; 0 for never
    /// seen.
    pub(crate) fn since(&self, generation: &mut u64) -> Option<Arc<T>> {
        let current = self.generation.load(Ordering::Acquire);
        if *generation == current {
            return None;
        }
        *generation = current;
        Some(self.newest())
    }

    /// The newest value.
    pub(crate) fn newest(&self) -> Arc<T> {
        Arc::clone(&self.value.read().unwrap_or_else(PoisonError::into_inner))
    }
}
