//! Rows of four eyes and proposals.

use super::{SMALL_END, StateBuilder, TableRow};
use crate::change::Change;
use crate::field::{InvalidState, Row};
use crate::proposals::{FourEyes, PROPOSAL_BYTES_MAX, Proposal, stored_bytes};
use crate::state::State;

impl TableRow for FourEyes {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let four_eyes = state.proposals.four_eyes();
        (*four_eyes != Self::default()).then_some(four_eyes)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let is_ascending = self.changes.is_sorted_by(|one, next| one < next);
        let is_known = self.changes.iter().all(|number| Change::is_proposable(*number));
        if !is_ascending || !is_known || SMALL_END <= self.last_proposal.0 {
            return Err(InvalidState("the list of four eyes is invalid"));
        }
        builder.proposals.four_eyes = self;
        Ok(())
    }
}

impl TableRow for Proposal {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.proposals.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let decided = self.decision.iter().map(|decision| decision.record);
        decided.chain([self.record]).try_for_each(|record| builder.check_record(record))?;
        let proposals = &mut builder.proposals;
        let last = proposals.rows.back().map(|row| row.id);
        if Some(self.id) <= last || proposals.four_eyes.last_proposal < self.id {
            return Err(InvalidState("a proposal has an invalid number"));
        }
        if PROPOSAL_BYTES_MAX < stored_bytes(&*self.change) {
            return Err(InvalidState("a proposed change is too large"));
        }
        proposals.rows.push_back(self);
        Ok(())
    }
}
