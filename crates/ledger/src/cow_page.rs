//! A page of rows that a frozen state may share with the living one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

/// Rows of a page. More of them make fewer pages, and a longer copy when a shared one changes: of
/// the largest rows there are, 256 take 56 kB and some ten microseconds.
pub(crate) const PAGE: usize = 256;

/// Up to [`PAGE`] rows. A clone shares them until one side changes its own.
#[derive(Clone, Debug)]
pub(crate) struct CowPage<T>(Arc<Vec<T>>);

impl<T: Clone> CowPage<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Vec::with_capacity(PAGE)))
    }

    /// The rows, to be changed by this side alone: copied first if another one has them too.
    pub(crate) fn own(&mut self) -> &mut Vec<T> {
        if Arc::get_mut(&mut self.0).is_none() {
            let mut copy = Vec::with_capacity(PAGE);
            copy.extend_from_slice(&self.0);
            self.0 = Arc::new(copy);
        }
        Arc::get_mut(&mut self.0).expect("nobody else has what was just made")
    }
}

impl<T> Deref for CowPage<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
