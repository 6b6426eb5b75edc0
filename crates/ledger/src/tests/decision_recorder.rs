//! Recorded decisions, compared with the state before and after, in every batch of every history.

use alloc::vec::Vec;

use crate::transfers::TransferLocation;
use crate::*;

/// The recorded decisions and deliveries.
#[derive(Default)]
struct CollectedDecisions {
    decisions: Vec<Decision>,
    deliveries: Vec<(NoticeId, LogIndex)>,
}

impl DecisionSink for CollectedDecisions {
    fn record_decision(&mut self, decision: &Decision) {
        self.decisions.push(decision.clone());
    }

    fn record_delivery(&mut self, notice: NoticeId, log_index: LogIndex) {
        self.deliveries.push((notice, log_index));
    }
}

/// The state before a decision, and the transfer concerned.
#[derive(Default)]
struct StateBefore {
    transfer: Option<TransferId>,
    values: Vec<Amount>,
    notices_before: usize,
    /// The payer and the amount of a reservation that ended within the decision.
    reserved: Option<(FspName, Amount)>,
}

/// Applies a batch and compares the recorded decisions with the changes of the state.
pub(super) fn apply(state: &mut State, batch: &Batch, commands: &[Command], effects: &mut Effects) {
    let (mut recorder, mut before) = (DecisionRecorder::default(), StateBefore::default());
    state.apply_watched(batch, commands, effects, &mut |step, state, effects| {
        let mut collected = CollectedDecisions::default();
        recorder.observe(step, state, effects, &mut collected);
        match step {
            ApplyStep::Opened | ApplyStep::DeadlinesFired => {
                assert!(collected.decisions.is_empty())
            }
            ApplyStep::Expiring(id) => before = StateBefore::of(state, effects, Some(id)),
            ApplyStep::Before(log_index, command) | ApplyStep::ItemBefore(log_index, command) => {
                before = StateBefore::of(state, effects, transfer_of(state, command));
                assert_eq!(collected.deliveries, finished_deliveries(state, log_index, command));
            }
            ApplyStep::Expired(id) => {
                let decision = &collected.decisions[0];
                assert_eq!((decision.transfer, decision.log_index), (id, batch.first));
                assert_eq!(decision.outcome, Outcome::Expired);
                let recipients: Vec<_> = decision.owed.iter().map(|owed| owed.recipient).collect();
                // The notices about an item are those of its bulk.
                let is_alone = !recipients.is_empty();
                assert_eq!(recipients, if is_alone { parties(state, &id) } else { Vec::new() });
                if let [_, of_bulk] = &collected.decisions[..] {
                    assert!(!is_alone && of_bulk.transfer.is_bulk());
                    assert_eq!(of_bulk.outcome, Outcome::Expired);
                    check_bulk(of_bulk, &effects.notices[before.notices_before..]);
                }
                before.check(&collected.decisions[..1], state, effects);
            }
            ApplyStep::After(log_index, command, outcome) if is_bulk(command) => {
                let [decision] = &collected.decisions[..] else {
                    panic!("{:?} of {command:?}", collected.decisions)
                };
                assert_eq!((decision.log_index, decision.outcome), (log_index, outcome));
                check_bulk(decision, &effects.notices[before.notices_before..]);
            }
            ApplyStep::After(log_index, command, outcome)
            | ApplyStep::ItemAfter(log_index, command, outcome) => {
                for decision in &collected.decisions {
                    assert_eq!((decision.log_index, decision.outcome), (log_index, outcome));
                }
                let is_reference = |decision: &mut Decision| decision.transfer.is_payment();
                let named = collected.decisions.extract_if(.., is_reference);
                let named: Vec<_> = named.map(|decision| decision.transfer).collect();
                let is_accepted = outcome == Outcome::Accepted;
                let expected: Vec<_> = command.payments().filter(|_| is_accepted).collect();
                assert_eq!(named, expected, "payments of {command:?}");
                let transfers: Vec<_> =
                    collected.decisions.iter().map(|decision| decision.transfer).collect();
                assert_eq!(
                    transfers,
                    Vec::from_iter(before.transfer),
                    "recorded decisions of {command:?}"
                );
                if before.transfer.is_some() {
                    before.reserved = reserved_and_expired(state, command, outcome);
                    before.check(&collected.decisions, state, effects);
                }
            }
        }
    });
}

/// Checks that the notices of a decision about a bulk are all new ones, and that it has no inputs.
fn check_bulk(decision: &Decision, new: &[Notice]) {
    let owed = decision.owed.iter().map(|owed| owed.notice);
    assert_eq!(owed.collect::<Vec<_>>(), new.iter().map(|notice| notice.id).collect::<Vec<_>>());
    assert!(decision.transfer.is_bulk() && decision.inputs.is_none(), "{decision:?}");
}

fn is_bulk(command: &Command) -> bool {
    command.rows().any(TransferId::is_bulk)
}

/// Payer and payee of a final transfer; one of them if they are the same.
fn parties(state: &State, id: &TransferId) -> Vec<FspName> {
    let TransferLocation::Final(at) = state.transfers.find(id) else {
        panic!("{id:?} has not ended")
    };
    let ended = state.transfers.final_transfer(at);
    let mut parties: Vec<_> = ended.payer.into_iter().chain(ended.payee).collect();
    parties.dedup();
    parties.into_iter().map(|party| state.registry.get(party).name).collect()
}

/// The transfer, the movement of funds or the quote that a command concerns. For a redelivery: the
/// transfer of the notice.
fn transfer_of(state: &State, command: &Command) -> Option<TransferId> {
    if let Command::Administer(administer) = command
        && let Change::Redeliver(Redeliver { notice })
        | Change::DropDeadLetter(DropDeadLetter { notice }) = administer.change
    {
        let letter = state.dead_letters().find(|letter| letter.notice.id == notice)?;
        return letter.notice.transfer;
    }
    command.exchange().or_else(|| command.rows().next()).copied()
}

/// The deliveries of owed notices that a command ends.
fn finished_deliveries(
    state: &State,
    log_index: LogIndex,
    command: &Command,
) -> Vec<(NoticeId, LogIndex)> {
    let Command::FinishDeliveries(ends) = command else { return Vec::new() };
    let owed = ends.iter().filter(|end| state.notice(end.notice).is_some());
    owed.map(|end| (end.notice, log_index)).collect()
}

impl StateBefore {
    fn of(state: &State, effects: &Effects, transfer: Option<TransferId>) -> Self {
        let accounts = transfer.iter().flat_map(|_| state.accounts().iter());
        let values = accounts.map(|account| account.value).collect();
        Self { transfer, values, notices_before: effects.notices.len(), reserved: None }
    }

    /// Checks that every posting and every new notice is recorded, and nothing else.
    fn check(&self, decisions: &[Decision], state: &State, effects: &Effects) {
        let owed: Vec<_> =
            decisions.iter().flat_map(|decision| &decision.owed).map(|owed| owed.notice).collect();
        // The notices about an item are those of its bulk.
        let is_own = |notice: &&Notice| {
            notice.transfer.is_none_or(|id| !id.is_bulk())
                || decisions.iter().any(|decision| notice.transfer == Some(decision.transfer))
        };
        let new = effects.notices[self.notices_before..].iter().filter(is_own);
        assert_eq!(owed, new.map(|notice| notice.id).collect::<Vec<_>>());
        let inputs = decisions.iter().filter_map(|decision| decision.inputs.as_ref());
        let changes: Vec<_> = inputs.flat_map(balance_changes).collect();
        for (account, before) in state.accounts().iter().zip(&self.values) {
            let own = changes.iter().filter(|change| change.account == account.id);
            let recorded = own.map(|change| (change.before, change.after())).next();
            let moved = account.value != *before;
            assert!(recorded.is_some() || !moved, "{account:?} moved, but is not in the inputs");
            let after = account.value.checked_add(self.returned_to(account, state)).unwrap();
            assert!(recorded.is_none_or(|recorded| recorded == (*before, after)), "{account:?}");
        }
    }

    /// The part of an account's balance that was reserved and came back within the decision.
    fn returned_to(&self, account: &Account, state: &State) -> Amount {
        let Some((payer, amount)) = self.reserved else { return Amount::ZERO };
        let payer = state.registry().find(&payer).map(|(index, _)| index);
        match account.kind {
            AccountKind::Position if Some(account.owner) == payer => amount,
            AccountKind::InFlight => -amount,
            _ => Amount::ZERO,
        }
    }
}

fn reserved_and_expired(
    state: &State,
    command: &Command,
    outcome: Outcome,
) -> Option<(FspName, Amount)> {
    let Command::Prepare(prepare) = command else { return None };
    let is_open = state.view(&prepare.id).is_some_and(|view| view.state == TransferState::Reserved);
    (outcome == Outcome::PrepareReserved && !is_open).then_some((prepare.payer, prepare.amount))
}

fn balance_changes(inputs: &DecisionInputs) -> Vec<BalanceChange> {
    let own = inputs.parties.iter().flat_map(|party| [party.position, party.settlement]);
    let fees = inputs.fees.iter().map(|account| account.balance);
    own.chain(fees).chain(inputs.hub.iter().map(|account| account.balance)).collect()
}
