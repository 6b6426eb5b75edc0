//! Recorded decisions, compared with the state before and after, in every batch of every history.

use alloc::vec::Vec;

use crate::transfers::Found;
use crate::*;

/// The recorded decisions and deliveries.
#[derive(Default)]
struct CollectedDecisions {
    told: Vec<Decision>,
    ends: Vec<(NoticeId, LogIndex)>,
}

impl DecisionSink for CollectedDecisions {
    fn decided(&mut self, decided: &Decision) {
        self.told.push(decided.clone());
    }

    fn delivered(&mut self, notice: NoticeId, log_index: LogIndex) {
        self.ends.push((notice, log_index));
    }
}

/// The state before a decision, and the transfer concerned.
#[derive(Default)]
struct Before {
    about: Option<TransferId>,
    values: Vec<Amount>,
    noticed: usize,
    /// The payer and the amount of a reservation that ended within the decision.
    reserved: Option<(FspName, Amount)>,
}

/// Applies a batch and compares the recorded decisions with the changes of the state.
pub(super) fn apply(state: &mut State, batch: &Batch, commands: &[Command], effects: &mut Effects) {
    let (mut teller, mut before) = (DecisionRecorder::default(), Before::default());
    state.apply_watched(batch, commands, effects, &mut |moment, state, effects| {
        let mut ear = CollectedDecisions::default();
        teller.watch(moment, state, effects, &mut ear);
        match moment {
            ApplyStep::Opened | ApplyStep::DeadlinesFired => assert!(ear.told.is_empty()),
            ApplyStep::Expiring(id) => before = Before::of(state, effects, Some(id)),
            ApplyStep::Before(log_index, command) => {
                before = Before::of(state, effects, about(state, command));
                assert_eq!(ear.ends, ends(state, log_index, command));
            }
            ApplyStep::Expired(id) => {
                let decided = &ear.told[0];
                assert_eq!((decided.transfer, decided.log_index), (id, batch.first));
                assert_eq!(decided.outcome, Outcome::Expired);
                let recipients: Vec<_> = decided.owed.iter().map(|owed| owed.recipient).collect();
                assert_eq!(recipients, parties(state, &id));
                before.check(&ear.told, state, effects);
            }
            ApplyStep::After(log_index, command, outcome) => {
                let told: Vec<_> = ear.told.iter().map(|decided| decided.transfer).collect();
                assert_eq!(told, Vec::from_iter(before.about), "recorded decisions of {command:?}");
                for decided in &ear.told {
                    assert_eq!((decided.log_index, decided.outcome), (log_index, outcome));
                }
                if before.about.is_some() {
                    before.reserved = ended_at_once(state, command, outcome);
                    before.check(&ear.told, state, effects);
                }
            }
        }
    });
}

/// Payer and payee of a final transfer; one of them if they are the same.
fn parties(state: &State, id: &TransferId) -> Vec<FspName> {
    let Found::Final(at) = state.transfers.find(id) else { panic!("{id:?} has not ended") };
    let ended = state.transfers.ended(at);
    let mut parties: Vec<_> = ended.payer.into_iter().chain(ended.payee).collect();
    parties.dedup();
    parties.into_iter().map(|party| state.registry.get(party).name).collect()
}

/// The transfer or movement of funds that a command concerns. For a redelivery: that of the notice.
fn about(state: &State, command: &Command) -> Option<TransferId> {
    if let Command::Administer(administer) = command
        && let Change::Redeliver(Redeliver { notice }) = administer.change
    {
        let letter = state.dead_letters().find(|letter| letter.notice.id == notice)?;
        return letter.notice.transfer;
    }
    command.rows().next().copied()
}

/// The deliveries of owed notices that a command ends.
fn ends(state: &State, log_index: LogIndex, command: &Command) -> Vec<(NoticeId, LogIndex)> {
    let Command::FinishDeliveries(ends) = command else { return Vec::new() };
    let owed = ends.iter().filter(|end| state.notice(end.notice).is_some());
    owed.map(|end| (end.notice, log_index)).collect()
}

impl Before {
    fn of(state: &State, effects: &Effects, about: Option<TransferId>) -> Self {
        let books = about.iter().flat_map(|_| state.books().iter());
        let values = books.map(|account| account.value).collect();
        Self { about, values, noticed: effects.notices.len(), reserved: None }
    }

    /// Checks that every posting and every new notice is recorded, and nothing else.
    fn check(&self, told: &[Decision], state: &State, effects: &Effects) {
        let owed: Vec<_> =
            told.iter().flat_map(|told| &told.owed).map(|owed| owed.notice).collect();
        let new = effects.notices[self.noticed..].iter().map(|notice| notice.id);
        assert_eq!(owed, new.collect::<Vec<_>>());
        let numbers = told.iter().filter_map(|decided| decided.numbers.as_ref());
        let held: Vec<_> = numbers.flat_map(held).collect();
        for (account, before) in state.books().iter().zip(&self.values) {
            let own = held.iter().filter(|held| held.account == account.id);
            let told = own.map(|held| (held.before, held.after())).next();
            let moved = account.value != *before;
            assert!(told.is_some() || !moved, "{account:?} moved, but is not in the inputs");
            let after = account.value.checked_add(self.held_of(account, state)).unwrap();
            assert!(told.is_none_or(|told| told == (*before, after)), "{account:?}");
        }
    }

    /// The part of an account's balance that was reserved and came back within the decision.
    fn held_of(&self, account: &Account, state: &State) -> Amount {
        let Some((payer, amount)) = self.reserved else { return Amount::ZERO };
        let payer = state.register().find(&payer).map(|(index, _)| index);
        match account.kind {
            AccountKind::Position if Some(account.owner) == payer => amount,
            AccountKind::InFlight => -amount,
            _ => Amount::ZERO,
        }
    }
}

fn ended_at_once(state: &State, command: &Command, outcome: Outcome) -> Option<(FspName, Amount)> {
    let Command::Prepare(prepare) = command else { return None };
    let is_open = state.view(&prepare.id).is_some_and(|view| view.state == TransferState::Reserved);
    (outcome == Outcome::PrepareReserved && !is_open).then_some((prepare.payer, prepare.amount))
}

fn held(numbers: &DecisionInputs) -> Vec<BalanceChange> {
    let own = numbers.sides.iter().flat_map(|side| [side.position, side.settlement]);
    own.chain(numbers.hub.iter().map(|account| account.held)).collect()
}
