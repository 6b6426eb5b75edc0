//! Deadlines of the transfers in flight, ordered by deadline and then by prepare.
//!
//! Deadlines are whole milliseconds, and at high rates many transfers share one. The tree holds one
//! entry per millisecond. The transfers of one millisecond form a linked list in order of their
//! prepares, which is the order of insertion.
//!
//! Costs: adding takes one search of the tree, or none if the deadline equals the last one added.
//! Removing takes a few loads and stores, and one tree operation for the last transfer of a
//! millisecond.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Marks the absence of a transfer or list.
const NONE: u32 = u32::MAX;

/// The transfers of one millisecond.
#[derive(Clone, Debug)]
struct Millisecond {
    deadline_ms: u64,
    first: u32,
    last: u32,
    count: u32,
}

/// The links of one transfer in its list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    moment: u32,
    before: u32,
    after: u32,
}

const NOWHERE: Entry = Entry { moment: NONE, before: NONE, after: NONE };

/// The deadlines of all transfers in flight, by slot number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    by_time: BTreeMap<u64, u32>,
    moments: Vec<Millisecond>,
    vacant: Vec<u32>,
    /// By slot.
    places: Vec<Entry>,
    /// The millisecond added to last; often the next transfer shares it.
    recent: u32,
}

impl Deadlines {
    /// Adds a transfer, the newest of all.
    pub(crate) fn add(&mut self, deadline_ms: u64, slot: u32) {
        let moment = self.moment(deadline_ms);
        self.recent = moment;
        let at = slot as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, NOWHERE);
        }
        let list = &mut self.moments[moment as usize];
        list.count += 1;
        let before = core::mem::replace(&mut list.last, slot);
        match before {
            NONE => list.first = slot,
            before => self.places[before as usize].after = slot,
        }
        self.places[at] = Entry { moment, before, after: NONE };
    }

    /// Removes a transfer, which must be present.
    pub(crate) fn remove(&mut self, slot: u32) {
        let place = core::mem::replace(&mut self.places[slot as usize], NOWHERE);
        assert!(place.moment != NONE, "every transfer in flight has its deadline");
        let list = &mut self.moments[place.moment as usize];
        list.count -= 1;
        match place.before {
            NONE => list.first = place.after,
            before => self.places[before as usize].after = place.after,
        }
        match place.after {
            NONE => list.last = place.before,
            after => self.places[after as usize].before = place.before,
        }
        if list.first == NONE {
            self.by_time.remove(&list.deadline_ms);
            self.vacant.push(place.moment);
        }
    }

    /// The first transfer, with its deadline.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let (deadline_ms, moment) = self.by_time.first_key_value()?;
        Some((*deadline_ms, self.moments[*moment as usize].first))
    }

    /// The earliest deadline by which `count` transfers are due; `None` if there are fewer.
    pub(crate) fn of_nth(&self, count: usize) -> Option<u64> {
        let mut due = 0;
        let mut moments = self.by_time.iter();
        let (deadline_ms, _) = moments.find(|(_, moment)| {
            due += self.moments[**moment as usize].count as usize;
            count <= due
        })?;
        Some(*deadline_ms)
    }

    fn moment(&mut self, deadline_ms: u64) -> u32 {
        let recent = self.moments.get(self.recent as usize);
        if recent.is_some_and(|list| list.deadline_ms == deadline_ms && list.first != NONE) {
            return self.recent;
        }
        if let Some(moment) = self.by_time.get(&deadline_ms) {
            return *moment;
        }
        let new = Millisecond { deadline_ms, first: NONE, last: NONE, count: 0 };
        let moment = match self.vacant.pop() {
            Some(moment) => {
                self.moments[moment as usize] = new;
                moment
            }
            None => {
                self.moments.push(new);
                (self.moments.len() - 1) as u32
            }
        };
        self.by_time.insert(deadline_ms, moment);
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a plain tree of deadline and order of arrival.
        #[test]
        fn deadlines_come_in_order(actions in prop::collection::vec((0..8u64, 0..6usize), 1..200)) {
            let mut subject = Deadlines::default();
            let mut model: BTreeMap<(u64, usize), u32> = BTreeMap::new();
            let mut vacant: Vec<u32> = (0..actions.len() as u32).rev().collect();
            for (arrival, (deadline_ms, take)) in actions.into_iter().enumerate() {
                if take < 3 {
                    let slot = vacant.pop().expect("one for each action");
                    subject.add(deadline_ms, slot);
                    model.insert((deadline_ms, arrival), slot);
                } else if let Some(key) = model.keys().copied().nth(take - 3) {
                    let slot = model.remove(&key).expect("just seen");
                    subject.remove(slot);
                    vacant.push(slot);
                }
                let first = model.first_key_value().map(|((ms, _), slot)| (*ms, *slot));
                prop_assert_eq!(subject.first(), first);
                for count in 1..4 {
                    let nth = model.keys().nth(count - 1).map(|(ms, _)| *ms);
                    prop_assert_eq!(subject.of_nth(count), nth);
                }
            }
        }
    }
}
