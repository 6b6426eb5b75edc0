//! A copy-on-write page of rows, shared by the state and its snapshots.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

/// Rows per page. Larger pages mean fewer pages and a longer copy when a shared one changes. With
/// the largest rows, 256 take 56 kB and about 10 µs.
pub(crate) const PAGE: usize = 256;

/// Up to [`PAGE`] rows. A clone shares them until one side changes its own.
#[derive(Clone, Debug)]
pub(crate) struct CowPage<T>(Arc<Vec<T>>);

impl<T: Clone> CowPage<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Vec::with_capacity(PAGE)))
    }

    /// The rows, for writing. Copies them first if another page shares them.
    pub(crate) fn own(&mut self) -> &mut Vec<T> {
        if Arc::get_mut(&mut self.0).is_none() {
            let mut copy = Vec::with_capacity(PAGE);
            copy.extend_from_slice(&self.0);
            self.0 = Arc::new(copy);
        }
        Arc::get_mut(&mut self.0).expect("a new page has one owner")
    }
}

impl<T> Deref for CowPage<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
