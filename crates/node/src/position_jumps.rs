//! Changes of positions that no transfer has made, summed by account until they are taken.
//!
//! Costs: nothing for a batch without such changes. Bounds: one sum per POSITION account.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ledger::{AccountId, Amount};

/// The sums.
#[derive(Debug, Default)]
pub(crate) struct PositionJumps(Mutex<BTreeMap<AccountId, Amount>>);

impl PositionJumps {
    /// Adds the changes of a batch.
    pub(crate) fn add(&self, jumps: &[(AccountId, Amount)]) {
        if jumps.is_empty() {
            return;
        }
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (account, amount) in jumps {
            let sum = sums.entry(*account).or_default();
            // A sum beyond the range of the ledger makes a wrong forecast, and no wrong decision.
            *sum = sum.checked_add(*amount).unwrap_or(*amount);
        }
    }

    /// The sum of an account since the last call.
    pub(crate) fn take(&self, account: AccountId) -> Amount {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.remove(&account).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_summed_until_they_are_taken() {
        let jumps = PositionJumps::default();
        let (one, other) = (AccountId(1), AccountId(2));
        let amount = Amount::from_units;
        jumps.add(&[]);
        jumps.add(&[(one, amount(5)), (other, amount(-7))]);
        jumps.add(&[(one, amount(6))]);
        assert_eq!([one, one, other].map(|it| jumps.take(it)), [11, 0, -7].map(amount));
    }
}
