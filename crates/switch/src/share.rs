//! Divides a bounded number of places among participants.
//!
//! A participant may take one part in [`PARTS`] of the places that are free, and at most
//! [`Shares::most`]. So its limit falls as places are taken, by itself or by others. With `n`
//! participants that take all they can, one part in `PARTS + n` is left to each of them and
//! `PARTS` parts stay free for the rest. A participant with fewer than [`FLOOR`] places may take
//! one as long as any is free.
//!
//! The rule needs two counts and no list of participants: it costs a few instructions.

/// A participant may take one part in so many of the free places.
const PARTS: usize = 8;
/// Places that a participant may take while any is free.
const FLOOR: usize = 4;

/// The places and the limit of one participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All places.
    pub(crate) all: usize,
    /// Places of one participant, however many are free.
    pub(crate) most: usize,
}

impl Shares {
    /// Places that one participant may have while `taken` are taken by all participants.
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

    /// Lets `greedy` participants take turns until none may take another place; answers with the
    /// places of each.
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
