//! Which transfers have ended: the one thing that the account must know of every transfer of the
//! log until its end, so it is kept small.
//!
//! An id is 16 bytes and its form, which chooses the table. Costs: 20 to 39 bytes per transfer,
//! the less the fuller a table is. There are many small tables, so that none needs much room
//! beside itself when it grows.

use std::collections::HashSet;
use std::hash::BuildHasher;

use ledger::TransferId;

use super::folding::Folding;

/// Tables for each form of an id.
const SHARDS: usize = 1_024;
/// A UUID, and a ULID by its two topmost bits, which are in the first byte of its stored form.
const FORMS: [u8; 5] = [0, 4, 5, 6, 7];

/// The ids of transfers that ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// By form of the id, then by its hash.
    shards: Vec<HashSet<[u8; 16], Folding>>,
    hasher: Folding,
}

impl Default for Ended {
    fn default() -> Self {
        let hasher = Folding::default();
        let shard = || HashSet::with_hasher(hasher.clone());
        Self { shards: (0..FORMS.len() * SHARDS).map(|_| shard()).collect(), hasher }
    }
}

impl Ended {
    /// Notes an end.
    pub(super) fn insert(&mut self, id: &TransferId) {
        let (shard, id) = self.place(id);
        self.shards[shard].insert(id);
    }

    pub(super) fn contains(&self, id: &TransferId) -> bool {
        let (shard, id) = self.place(id);
        self.shards[shard].contains(&id)
    }

    fn place(&self, id: &TransferId) -> (usize, [u8; 16]) {
        let [form, rest @ ..] = id.to_bytes();
        let group = FORMS.iter().position(|known| *known == form);
        let group = group.expect("an id has one of the known forms");
        // The table itself looks at the lowest and the highest bits of the same hash.
        let shard = (self.hasher.hash_one(rest) >> 32) as usize % SHARDS;
        (group * SHARDS + shard, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_all_forms_are_told_apart() {
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        let uuid = TransferId::parse(uuid).expect("a UUID");
        let mut bytes = uuid.to_bytes();
        let forms = (0..=u8::MAX).filter_map(|form| {
            bytes[0] = form;
            TransferId::from_bytes(bytes)
        });
        let forms: Vec<_> = forms.collect();
        assert_eq!(forms.len(), FORMS.len(), "each form has its tables");
        let mut ended = Ended::default();
        for (at, id) in forms.iter().enumerate() {
            assert!(!ended.contains(id), "{id}");
            ended.insert(id);
            assert!(forms[..=at].iter().all(|id| ended.contains(id)));
        }
    }
}
