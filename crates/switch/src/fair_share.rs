//! Divides a bounded number of slots among participants.
//!
//! A participant may take `1/PARTS` ([`PARTS`]) of the free slots, and at most [`Shares::most`]. So
//! its limit decreases as slots are taken, by itself or by others. With `n` participants that take
//! as many as they can, each has `1/(PARTS + n)` and `PARTS/(PARTS + n)` stay free for the rest. A
//! participant with fewer than [`FLOOR`] slots may take one as long as any is free.
//!
//! The rule needs two counts and no list of participants: it costs a few instructions.

/// A participant may take `1/PARTS` of the free slots.
const PARTS: usize = 8;
/// Slots that a participant may take as long as any is free.
const FLOOR: usize = 4;

/// The number of slots and the limit of one participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All slots.
    pub(crate) all: usize,
    /// Maximum slots of one participant.
    pub(crate) most: usize,
}

impl Shares {
    /// Slots that one participant may have while `taken` are taken by all participants.
    pub(crate) fn limit(self, taken: usize) -> usize {
        match self.all.saturating_sub(taken) {
            0 => 0,
            free => (free / PARTS).max(FLOOR).min(self.most),
        }
    }

    /// Whether a participant that has `own` of the `taken` places may take one more.
    pub(crate) fn allows(self, taken: usize, own: usize) -> bool {
        own < self.limit(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets `greedy` participants take turns until none may take another slot; returns the slots of
    /// each.
    fn taken_by(shares: Shares, greedy: usize) -> Vec<usize> {
        let mut own = vec![0; greedy];
        loop {
            let before: usize = own.iter().sum();
            for at in 0..greedy {
                if shares.allows(own.iter().sum(), own[at]) {
                    own[at] += 1;
                }
            }
            if own.iter().sum::<usize>() == before {
                return own;
            }
        }
    }

    #[test]
    fn greedy_participants_get_equal_shares_and_leave_room() {
        let shares = Shares { all: 4_096, most: 512 };
        for (greedy, each, free) in [(1, 456, 3_640), (8, 256, 2_048), (100, 38, 296)] {
            let own = taken_by(shares, greedy);
            let taken: usize = own.iter().sum();
            assert!(own.iter().all(|one| one.abs_diff(each) <= 1), "{greedy}: {own:?}");
            assert!(shares.all - taken <= free + PARTS, "{greedy}: {taken}");
            assert!(shares.allows(taken, 0), "{greedy}: another one finds room");
        }
    }

    #[test]
    fn no_place_is_given_twice_however_many_ask() {
        let shares = Shares { all: 100, most: 50 };
        let own = taken_by(shares, 1_000);
        assert_eq!(own.iter().sum::<usize>(), 100);
        assert!(!shares.allows(100, 0));
        assert!(!shares.allows(101, 0));
    }

    #[test]
    fn one_participant_has_its_limit_even_when_all_is_free() {
        let shares = Shares { all: 1_000_000, most: 7 };
        assert_eq!(taken_by(shares, 1), [7]);
        assert_eq!(taken_by(Shares { all: 2, most: 7 }, 1), [2]);
    }
}
