//! Trials decide as records do, in all scenarios and histories, and leave the state as it is.

use super::history::TestKernel;
use crate::*;

/// The decision of a trial on the only command of a batch, if a trial decides it.
pub(super) fn tried(state: &State, commands: &[Command]) -> Option<(Trial, ChangeReply)> {
    let [Command::Administer(administer)] = commands else { return None };
    if !Trial::decides(administer.change.declaration()) {
        return None;
    }
    let before = state.hash();
    let mut trial = state.trial();
    let reply = trial.decide(administer.as_ref().clone());
    assert_eq!(state.hash(), before, "a trial leaves the state as it is");
    Some((trial, reply))
}

/// Compares the decision of a trial with that of the record.
pub(super) fn compare(
    state: &State,
    batch: &Batch,
    (tried, effects): (Option<(Trial, ChangeReply)>, &Effects),
) {
    let Some((trial, reply)) = tried else { return };
    let decided = effects.decided(batch.first, effects.outcomes[0]);
    if decided.outcome == Outcome::Repeated {
        return;
    }
    assert_eq!((reply.outcome, &reply.result), (decided.outcome, &decided.result));
    assert_eq!(trial.archived().len(), effects.archived.len());
    assert_eq!(trial.state().settlement().numbers(), state.settlement().numbers());
    let rules = |state: &State| state.fees().rules().to_vec();
    assert_eq!(rules(trial.state()), rules(state));
}

#[test]
#[should_panic(expected = "a trial has all that the change reads")]
fn changes_that_read_transfers_are_not_tried() {
    let kernel = TestKernel::new();
    let name = FspName::new("a").expect("a name");
    let change = SetParticipantActive { name, active: false }.into();
    let administer = Administer { actor: "".into(), reason: "".into(), change };
    let _never = kernel.state.trial().decide(administer);
}
