//! Slab of the transfers in flight, or of the notices owed. Each has a slot, its number while it is
//! there.
//!
//! The slots are in pages, so that growth moves none of them. With 100,000 transfers in flight,
//! moving them would stall the kernel for milliseconds. Vacated slots are used again; pages are
//! kept.

use alloc::vec::Vec;

use crate::cow_page::{CowPage, PAGE};

/// Rows of one kind, by slot.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<CowPage<Option<T>>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), vacant: Vec::new() }
    }
}

impl<T: Clone> Slab<T> {
    /// Assigns a slot: the last one vacated, or a new one.
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            *self.place(slot) = Some(row);
            return slot;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(CowPage::new());
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("a page was just added").own();
        page.push(Some(row));
        let slot = u32::try_from(before + page.len() - 1);
        slot.expect("fewer than four billion rows are in a slab")
    }

    pub(crate) fn get(&self, slot: u32) -> &T {
        let place = &self.pages[slot as usize / PAGE][slot as usize % PAGE];
        place.as_ref().expect("an indexed slot is occupied")
    }

    pub(crate) fn take(&mut self, slot: u32) -> T {
        let row = self.place(slot).take().expect("a taken slot is occupied");
        self.vacant.push(slot);
        row
    }

    /// All rows, in order of slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter()).flatten()
    }

    fn place(&mut self, slot: u32) -> &mut Option<T> {
        &mut self.pages[slot as usize / PAGE].own()[slot as usize % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_span_pages_and_vacated_ones_are_reused_first() {
        let mut slab = Slab::default();
        for number in 0..2 * PAGE as u64 + 1 {
            assert_eq!(u64::from(slab.insert(number)), number);
        }
        for number in 0..2 * PAGE as u64 + 1 {
            assert_eq!(*slab.get(number as u32), number);
        }
        let left = PAGE as u32 + 3;
        assert_eq!(slab.take(left), u64::from(left));
        assert_eq!(slab.iter().count(), 2 * PAGE);
        assert_eq!(slab.insert(9), left);
    }
}
