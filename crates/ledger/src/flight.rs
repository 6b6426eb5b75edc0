//! Transfers in flight. Each has a slot, which is its number for as long as it is in flight.
//!
//! The slots are in pages, so that growth moves none of them: with a hundred thousand in flight
//! that would hold everybody up for milliseconds.

use alloc::vec::Vec;

use crate::page::{PAGE, Page};
use crate::transfers::Active;

/// All transfers in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    pages: Vec<Page<Option<Active>>>,
    vacant: Vec<u32>,
}

impl Flight {
    /// Gives a transfer a slot: the one that was left last, or a new one.
    pub(crate) fn insert(&mut self, transfer: Active) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            *self.place(slot) = Some(transfer);
            return slot;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Page::new());
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("a page was just added").own();
        page.push(Some(transfer));
        let slot = u32::try_from(before + page.len() - 1);
        slot.expect("fewer than four billion transfers are in flight")
    }

    pub(crate) fn get(&self, slot: u32) -> &Active {
        let place = &self.pages[slot as usize / PAGE][slot as usize % PAGE];
        place.as_ref().expect("an indexed slot is occupied")
    }

    pub(crate) fn take(&mut self, slot: u32) -> Active {
        let transfer = self.place(slot).take().expect("a taken slot is occupied");
        self.vacant.push(slot);
        transfer
    }

    /// In order of slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Active> {
        self.pages.iter().flat_map(|page| page.iter()).flatten()
    }

    fn place(&mut self, slot: u32) -> &mut Option<Active> {
        &mut self.pages[slot as usize / PAGE].own()[slot as usize % PAGE]
    }
}
