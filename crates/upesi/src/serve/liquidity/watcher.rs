//! Finds positions that have crossed their alarm threshold, and records a check of each. Keeps a
//! sample of all positions once a minute, and the values of participants for metrics.

use std::sync::Arc;

use ledger::{AccountId, Amount, CheckLiquidity, Currency, CurrencyAccounts, FspName, State};
use ports::Clock;
use tokio::task::JoinSet;

use super::enrolled::Newest;
use super::node_access::{read, record};
use super::participant_values::ParticipantValues;
use super::settlement_values::SettlementValues;
use super::trend::PositionKey;
use crate::serve::admin_backend::NodeBackend;

/// Participants that one query on the sequencer's thread visits.
pub(super) const PARTICIPANTS_READ_MAX: usize = 1_000;
/// Checks that are recorded at a time.
const CHECKS_MAX: usize = 100;

/// The watcher of all positions.
pub(super) struct Watcher {
    backend: Arc<NodeBackend>,
}

/// A position that has crossed its threshold.
type Crossing = (FspName, Currency);

/// Positions of some participants.
#[derive(Default)]
struct Part {
    crossings: Vec<Crossing>,
    /// All positions with a net debit cap, if they are sampled.
    sample: Vec<(PositionKey, Amount)>,
    /// Their changes since the last sample that no transfer has made, if there are any.
    jumps: Vec<(PositionKey, Amount)>,
    values: ParticipantValues,
    /// Only in the first part.
    settlement: Option<SettlementValues>,
    /// Index of the next participant.
    next: Option<usize>,
}

impl Watcher {
    pub(super) const fn new(backend: Arc<NodeBackend>) -> Self {
        Self { backend }
    }

    /// Looks at all positions once.
    pub(super) async fn check(&self) {
        let now = self.backend.clock.now();
        let is_sampled = self.backend.liquidity.samples().is_due(now);
        let mut positions = Vec::new();
        let mut values = ParticipantValues::default();
        let mut from = Some(0);
        while let Some(first) = from {
            let handle = self.backend.handle.clone();
            let jump = move |position| handle.take_position_jump(position);
            let query = move |state: &State| match is_sampled {
                true => Part::of(state, first, Some(&jump)),
                false => Part::of(state, first, None),
            };
            // A node without room for a query is asked again in a second.
            let Some(part) = read(&self.backend, query).await else { return };
            for (key, amount) in part.jumps {
                self.backend.liquidity.samples().shift(key, amount);
            }
            if let Some(settlement) = part.settlement {
                self.backend.liquidity.publish_settlement(settlement);
            }
            self.record(part.crossings).await;
            positions.extend(part.sample);
            values.append(part.values);
            from = part.next;
        }
        self.backend.liquidity.publish_participants(values);
        if is_sampled {
            self.backend.liquidity.samples().add(now, &positions);
        }
        self.read_certificates().await;
    }

    async fn read_certificates(&self) {
        let known = self.backend.liquidity.enrolled();
        if let Some(newest) = read(&self.backend, move |state| Newest::of(state, &known)).await {
            self.backend.liquidity.publish_enrolled(newest.read());
        }
    }

    /// Records a check of each crossing that this node serves.
    async fn record(&self, mut crossings: Vec<Crossing>) {
        if crossings.is_empty() {
            return;
        }
        if let Some(served) = self.backend.handle.served() {
            crossings.retain(|(name, _)| served.contains(name));
        }
        for some in crossings.chunks(CHECKS_MAX) {
            let mut checks = JoinSet::new();
            for (name, currency) in some.iter().copied() {
                let backend = Arc::clone(&self.backend);
                checks.spawn(async move {
                    let check = CheckLiquidity { name, currency };
                    // A check that was not recorded is made again in a second.
                    let _decided = record(&backend, check, "position crossed its threshold").await;
                });
            }
            checks.join_all().await;
        }
    }
}

impl Part {
    /// The part from a participant on. `jump` takes the jump of a position, if it is sampled.
    fn of(state: &State, first: usize, jump: Option<&dyn Fn(AccountId) -> Amount>) -> Self {
        let mut part = Self::default();
        if first == 0 {
            part.settlement = Some(SettlementValues::of(state));
            part.values.add_notices(state.notices_owed());
        }
        let mut participants = state.registry().iter().skip(first);
        for (index, participant) in participants.by_ref().take(PARTICIPANTS_READ_MAX) {
            part.values.add(state, index, participant);
            for accounts in &participant.by_currency {
                if state.alarm_change(index, accounts).is_some() {
                    part.crossings.push((participant.name, accounts.currency));
                }
                if let Some(jump) = jump.filter(|_| accounts.net_debit_cap.is_some()) {
                    part.add_sample((state, accounts), (index, accounts.currency), jump);
                }
            }
        }
        part.next = participants.next().map(|(index, _)| index.0 as usize);
        part
    }

    fn add_sample(
        &mut self,
        (state, accounts): (&State, &CurrencyAccounts),
        key: PositionKey,
        jump: &dyn Fn(AccountId) -> Amount,
    ) {
        let position = state.accounts().get(accounts.position);
        self.sample.push((key, position.map_or(Amount::ZERO, |account| account.value)));
        let jump = jump(accounts.position);
        self.jumps.extend((jump != Amount::ZERO).then_some((key, jump)));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ledger::{
        AccountKind, Administer, Batch, Change, Command, CreateHubAccount, CreateParticipant,
        Effects, Genesis, LogIndex, ParticipantIndex, SetInitialPositionAndLimits, Stamp,
    };

    use super::*;

    fn usd() -> Currency {
        Currency::parse("USD").expect("a currency")
    }

    fn name(number: usize) -> FspName {
        FspName::new(&format!("dfsp{number}")).expect("a name")
    }

    /// A state with this number of participants, whose cap is 1000 and whose alarm is at 10 %.
    pub(in super::super) fn scheme(participants: usize, position: impl Fn(usize) -> i128) -> State {
        let hub = FspName::new("Hub").expect("a name");
        let mut commands = vec![Command::Genesis(Genesis { seed: [7; 16], hub })];
        let mut change = |change: Change| {
            let administer = Administer { actor: String::new(), reason: String::new(), change };
            commands.push(Command::Administer(Box::new(administer)));
        };
        let currency = usd();
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            change(CreateHubAccount { currency, kind }.into());
        }
        for number in 1..=participants {
            let name = name(number);
            change(CreateParticipant { name, currency }.into());
            let net_debit_cap = Amount::from_units(1_000 * 10_000);
            let position = Amount::from_units(position(number) * 10_000);
            let initial = SetInitialPositionAndLimits { name, currency, net_debit_cap, position };
            change(initial.into());
        }
        let mut state = State::new();
        for (at, command) in (1..).zip(&commands) {
            let stamp = Stamp::from_millis(at);
            let batch = Batch { first: LogIndex(at), stamp, node: 1, epoch: 1, sequence: at };
            state.apply(&batch, [command], &mut Effects::default());
        }
        state
    }

    #[test]
    fn parts_visit_each_participant_once() {
        let high = [1, 998, 999, 1_000, 1_999, 2_000, 2_500];
        let state = scheme(2_500, |number| if high.contains(&number) { 100 } else { 99 });
        let (mut crossings, mut sampled, mut from) = (Vec::new(), 0, Some(0));
        let (mut parts, mut jumps) = (0, Vec::new());
        let jumped = state.registry().find(&name(1_999)).expect("a participant").1;
        let jumped = jumped.by_currency[0].position;
        let jump = |position| if position == jumped { Amount::from_units(7) } else { Amount::ZERO };
        while let Some(first) = from {
            let part = Part::of(&state, first, Some(&jump));
            jumps.extend(part.jumps);
            crossings.extend(part.crossings);
            sampled += part.sample.len();
            from = part.next;
            parts += 1;
        }
        assert_eq!(crossings, high.map(|number| (name(number), usd())));
        assert_eq!((parts, sampled), (3, 2_500));
        let key = (ParticipantIndex(1_999), usd());
        assert_eq!(jumps, [(key, Amount::from_units(7))]);
        let unsampled = Part::of(&state, 0, None);
        assert_eq!((unsampled.sample.len(), unsampled.crossings.len()), (0, 3));
    }
}
