//! The model of erasures, as `docs/security/erasure.md` has them.

use ledger::{ERASURES_MAX, Erase, Outcome, State};

use super::operators::OPERATOR_RULES;
use super::{Model, Predict};

/// The records that ordered erasures, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Erasures(Vec<(u64, u64)>);

impl Erasures {
    pub(super) fn compare(&self, state: &State) {
        let actual: Vec<_> = state.erasures().iter().map(|it| (it.record.0, it.at.0)).collect();
        assert_eq!(actual, self.0, "erasures");
    }
}

impl Predict for Erase {
    fn predict(&self, model: &mut Model) -> Outcome {
        let mut before = 0;
        for range in &self.records {
            if range.first.0 <= before || range.last < range.first {
                return Outcome::ErasureInvalid;
            }
            before = range.last.0;
        }
        if self.records.is_empty() || model.log_index <= before {
            return Outcome::ErasureInvalid;
        }
        if model.rules < OPERATOR_RULES || model.erasures.0.len() == ERASURES_MAX {
            return Outcome::RegistryFull;
        }
        model.erasures.0.push((model.log_index, model.stamp.0));
        Outcome::Accepted
    }
}
