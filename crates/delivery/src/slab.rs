//! Storage of entries and the lists that run through it.
//!
//! An entry keeps its slot until it is released. It is in at most one [`List`] (by `previous`,
//! `next`) and in the chain of its transfer within its lane (by `before`, `after`). Any entry is
//! removed in O(1), without a trace.

use std::ops::{Index, IndexMut};

use ledger::{NoticeId, Stamp, TransferId};

use crate::notice::{AttemptResult, EndedAttempt, NoticePriority};
use crate::policy::MonotonicTime;

/// Index of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

/// Index of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneIndex(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryStage {
    /// The slot is free.
    Vacant,
    /// An earlier entry of the transfer is unfinished.
    Blocked,
    /// Can be sent; never attempted.
    Fresh,
    /// Can be sent; its pause or its predecessor is over.
    Resumed,
    /// An attempt is in flight.
    InFlight,
    /// The only attempt of a probing lane is in flight.
    Probe,
    /// Waits for its timer.
    BackingOff,
    /// Waits for an address.
    Parked,
    /// Ended with an attempt; its report is not yet durable.
    Unrecorded,
    /// Ended without an attempt in flight, so without a window slot; its report is not yet durable.
    Lapsed,
}

impl EntryStage {
    /// Whether no attempt is in flight and the delivery has not ended.
    pub(crate) const fn waits(self) -> bool {
        match self {
            Self::Blocked | Self::Fresh | Self::Resumed | Self::BackingOff | Self::Parked => true,
            Self::Vacant | Self::InFlight | Self::Probe | Self::Unrecorded | Self::Lapsed => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct SlabEntry<M> {
    pub(crate) notice: NoticeId,
    pub(crate) transfer: Option<TransferId>,
    pub(crate) lane: LaneIndex,
    pub(crate) purpose: NoticePriority,
    pub(crate) stage: EntryStage,
    pub(crate) bytes: u32,
    pub(crate) attempts: u32,
    /// Number of consecutive attempts in which nothing was sent.
    pub(crate) unsent: u32,
    /// Time at which it is given up.
    pub(crate) until: MonotonicTime,
    /// Whether it is given up at that time even if it only waits.
    pub(crate) watched: bool,
    /// Whether it is a prepare whose transfer is final: no further attempt is made.
    pub(crate) unwanted: bool,
    pub(crate) first_attempt: MonotonicTime,
    /// Time of the last attempt.
    pub(crate) began: MonotonicTime,
    /// The newest ended attempts, unless the first one delivered the notice.
    pub(crate) ended_attempts: Vec<EndedAttempt>,
    /// The result of the last ended attempt.
    pub(crate) last: Option<AttemptResult>,
    /// End of its pause, while it backs off.
    pub(crate) pause_end: MonotonicTime,
    pub(crate) reserved_at: Option<Stamp>,
    pub(crate) message: Option<M>,
    pub(crate) before: Option<Slot>,
    pub(crate) after: Option<Slot>,
    pub(crate) previous: Option<Slot>,
    pub(crate) next: Option<Slot>,
}

/// Maximum number of ended attempts kept per notice. The oldest are dropped.
pub const ENDED_ATTEMPTS_MAX: usize = 32;

impl<M> SlabEntry<M> {
    pub(crate) fn add_ended_attempt(&mut self, ended: MonotonicTime, result: AttemptResult) {
        if self.ended_attempts.len() == ENDED_ATTEMPTS_MAX {
            self.ended_attempts.remove(0);
        }
        self.ended_attempts.push(EndedAttempt { began: self.began, ended, result });
    }
}

/// The slots, as many as the maximum number of entries so far. They are in pages, so that growth
/// moves no entry.
#[derive(Debug)]
pub(crate) struct Slab<M> {
    pages: Vec<Vec<SlabEntry<M>>>,
    free: Vec<Slot>,
}

const PAGE: usize = 256;

impl<M> Slab<M> {
    pub(crate) fn new() -> Self {
        Self { pages: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, entry: SlabEntry<M>) -> Slot {
        if let Some(slot) = self.free.pop() {
            assert_eq!(self[slot].stage, EntryStage::Vacant, "a free slot holds no entry");
            self[slot] = entry;
            return slot;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("a page was just added");
        page.push(entry);
        let slot = u32::try_from(before + page.len() - 1);
        Slot(slot.expect("fewer than 2^32 entries at once"))
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let entry = &mut self[slot];
        assert_ne!(entry.stage, EntryStage::Vacant, "a slot is released once");
        entry.stage = EntryStage::Vacant;
        entry.message = None;
        entry.ended_attempts = Vec::new();
        self.free.push(slot);
    }
}

impl<M> Index<Slot> for Slab<M> {
    type Output = SlabEntry<M>;

    fn index(&self, slot: Slot) -> &SlabEntry<M> {
        &self.pages[slot.0 as usize / PAGE][slot.0 as usize % PAGE]
    }
}

impl<M> IndexMut<Slot> for Slab<M> {
    fn index_mut(&mut self, slot: Slot) -> &mut SlabEntry<M> {
        &mut self.pages[slot.0 as usize / PAGE][slot.0 as usize % PAGE]
    }
}

/// A first-in first-out list of entries.
#[derive(Debug, Default)]
pub(crate) struct List {
    head: Option<Slot>,
    tail: Option<Slot>,
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) fn first(&self) -> Option<Slot> {
        self.head
    }

    pub(crate) fn push<M>(&mut self, slab: &mut Slab<M>, slot: Slot) {
        slab[slot].previous = self.tail;
        slab[slot].next = None;
        match self.tail {
            Some(tail) => slab[tail].next = Some(slot),
            None => self.head = Some(slot),
        }
        self.tail = Some(slot);
    }

    pub(crate) fn pop<M>(&mut self, slab: &mut Slab<M>) -> Option<Slot> {
        let slot = self.head?;
        self.remove(slab, slot);
        Some(slot)
    }

    pub(crate) fn remove<M>(&mut self, slab: &mut Slab<M>, slot: Slot) {
        let (previous, next) = (slab[slot].previous, slab[slot].next);
        match previous {
            Some(previous) => slab[previous].next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => slab[next].previous = previous,
            None => self.tail = previous,
        }
        (slab[slot].previous, slab[slot].next) = (None, None);
    }
}
