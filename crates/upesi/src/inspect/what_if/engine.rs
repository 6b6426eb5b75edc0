//! Replays a part of a log under other net debit caps or another liquidity cover.
//!
//! Up to the beginning of the period the log's own state is replayed. There it is copied three
//! times, and each copy applies the change with commands that an operator could give. Every later
//! record is decided in the log's state and in all copies, by the same kernel, with the same stamp.
//!
//! The log has no result of a transfer that it refused and a copy accepts. Each copy assumes one of
//! three results for all such transfers: committed at once, expired at the deadline, or aborted by
//! the payee at once. Reality is a mixture. If log and copy differ on a transfer, the copy skips
//! the log's later messages about it. Notices that exist in the log and the copy are delivered in
//! the copy when the log delivered them; notices that exist only in the copy are delivered at once.
//!
//! Copies decide deposits and withdrawals like every other command. A withdrawal that the log
//! accepted may be refused in a copy with a higher position. Its amount then covers transfers in
//! that copy. Each such movement is reported, and the transfers that it covers are counted.
//!
//! Costs: four decisions per record instead of one. Memory: the log's state is held whole, without
//! a store. The copies share the rows of transfers that ended before the period and have an index
//! each. Within the period everything is held four times. A transfer on which a copy differs takes
//! about 250 bytes more.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use ledger::{
    Abort, AccountId, Administer, Amount, ApplyStep, ApproveProposal, Batch, Change, Command,
    Currency, CurrencyAccounts, DeliveryResult, Digest, DropDeadLetter, Effects, EndFundsOut,
    FinishedDelivery, FspName, Fulfil, FulfilState, Fulfilment, FundsDirection, LogIndex,
    MoveFunds, Notice, NoticeId, Outcome, ParticipantIndex, Prepare, PrepareOutcome, Redeliver,
    SetLimit, Stamp, State, TransferChange, TransferId, TransferMessage, TransferState,
};
use serde::Serialize;
use sha2::Digest as _;

/// Fulfilment of transfers that the log refused.
const FULFILMENT: [u8; 32] = [0x57; 32];

/// An assumed change for a participant in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    pub(crate) name: FspName,
    pub(crate) currency: Currency,
    pub(crate) effect: OverrideEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverrideEffect {
    /// This net debit cap.
    Cap(Amount),
    /// Change of the liquidity cover.
    Cover(Amount),
}

/// Beginning or end of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeriodBound {
    Record(LogIndex),
    Time(Stamp),
}

/// Result of transfers that the log refused and a copy accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AssumedEnd {
    Commit,
    Expire,
    Abort,
}

impl AssumedEnd {
    const ALL: [Self; 3] = [Self::Commit, Self::Expire, Self::Abort];
}

/// Number and sum of transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountAndValue {
    pub(crate) count: u64,
    pub(crate) value: Amount,
    pub(crate) first: Option<TransferRecord>,
    pub(crate) last: Option<TransferRecord>,
}

/// A transfer or a movement of funds, and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferRecord {
    pub(crate) log_index: LogIndex,
    pub(crate) stamp: Stamp,
    pub(crate) transfer: TransferId,
}

impl CountAndValue {
    fn add(&mut self, record: TransferRecord, amount: Amount) {
        self.count += 1;
        self.value = self.value.checked_add(amount).expect("amounts have 18 digits");
        self.first.get_or_insert(record);
        self.last = Some(record);
    }
}

/// A participant's transfers as payer in one currency, in the log or in one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Refused because of the cover or the cap.
    pub(crate) refused: CountAndValue,
    /// Refused here, reserved by the log.
    pub(crate) appear: CountAndValue,
    /// Refused by the log, reserved here.
    pub(crate) vanish: CountAndValue,
    /// Withdrawals refused for insufficient liquidity.
    pub(crate) withdrawals_refused: CountAndValue,
    /// Cover at the last record, less that of the log and the assumed change: the withdrawals that
    /// only the log accepted, less those that only this copy accepted.
    pub(crate) not_withdrawn: Amount,
    /// Reserved here at a position above the cover without [`Self::not_withdrawn`].
    pub(crate) so_covered: CountAndValue,
    /// The highest position.
    pub(crate) highest: Option<Amount>,
    /// The smallest distance between the position and the lower of cover and cap.
    pub(crate) headroom: Option<Amount>,
}

/// A value for the log, and one for each copy in the order of [`AssumedEnd::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ByCopy<T> {
    pub(crate) log: T,
    pub(crate) all_commit: T,
    pub(crate) none_commit: T,
    pub(crate) given_back: T,
}

impl<T> ByCopy<T> {
    fn new(log: T, [all_commit, none_commit, given_back]: [T; 3]) -> Self {
        Self { log, all_commit, none_commit, given_back }
    }

    pub(crate) fn all(&self) -> [&T; 4] {
        [&self.log, &self.all_commit, &self.none_commit, &self.given_back]
    }

    fn all_mut(&mut self) -> [&mut T; 4] {
        [&mut self.log, &mut self.all_commit, &mut self.none_commit, &mut self.given_back]
    }

    pub(crate) fn copies(&self) -> [&T; 3] {
        [&self.all_commit, &self.none_commit, &self.given_back]
    }

    fn copies_mut(&mut self) -> [&mut T; 3] {
        [&mut self.all_commit, &mut self.none_commit, &mut self.given_back]
    }

    pub(crate) fn map<U>(&self, convert: impl Fn(&T) -> U) -> ByCopy<U> {
        ByCopy::new(convert(&self.log), self.copies().map(convert))
    }
}

/// A transfer with another decision in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedDecision {
    pub(crate) record: TransferRecord,
    pub(crate) payer: FspName,
    pub(crate) payee: FspName,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) outcomes: ByCopy<Outcome>,
}

/// A deposit or withdrawal of the period with another result in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedFunds {
    /// Its first record.
    pub(crate) record: TransferRecord,
    pub(crate) participant: FspName,
    pub(crate) direction: FundsDirection,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) statuses: ByCopy<FundsStatus>,
}

/// State of a movement of funds at the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FundsStatus {
    Deposited,
    Refused,
    /// A withdrawal that is reserved, and no longer part of the cover.
    Reserved,
    Withdrawn,
    /// A withdrawal that was aborted, and is part of the cover again.
    CalledOff,
}

/// Follows a log with three copies of its state, in the order of [`AssumedEnd::ALL`].
pub(crate) struct WhatIf {
    overrides: Vec<Override>,
    from: PeriodBound,
    to: Option<PeriodBound>,
    copies: Option<Box<[StateCopy; 3]>>,
    /// Number of notices of this batch that were processed.
    noticed: usize,
    over: bool,
    pub(crate) rows: BTreeMap<(ParticipantIndex, Currency), ByCopy<Totals>>,
    pub(crate) differing: Vec<ChangedDecision>,
    /// Changes of a cap in the log that the assumed cap replaced.
    pub(crate) overridden: u64,
    /// Movements of funds with another result in a copy, each one once.
    pub(crate) funds_differing: Vec<ChangedFunds>,
    pub(crate) first: Option<(LogIndex, Stamp)>,
    pub(crate) last: Option<(LogIndex, Stamp)>,
    /// Why a change cannot be applied.
    pub(crate) fault: Option<String>,
}

/// A copy of the state in which the change was applied.
struct StateCopy {
    assumed_end: AssumedEnd,
    state: State,
    epoch: u32,
    sequence: u64,
    effects: Effects,
    /// The copy's notice for each notice of the log since the copy was made.
    notices: HashMap<NoticeId, NoticeId>,
    /// The log's last notice when the copy was made.
    common: NoticeId,
    /// Transfers on which log and copy differ.
    differing: HashSet<TransferId>,
}

impl WhatIf {
    pub(crate) fn new(
        overrides: Vec<Override>,
        from: PeriodBound,
        to: Option<PeriodBound>,
    ) -> Self {
        Self {
            overrides,
            from,
            to,
            copies: None,
            noticed: 0,
            over: false,
            rows: BTreeMap::new(),
            differing: Vec::new(),
            overridden: 0,
            funds_differing: Vec::new(),
            first: None,
            last: None,
            fault: None,
        }
    }

    /// Whether the remaining records are irrelevant.
    pub(crate) fn is_over(&self) -> bool {
        self.over || self.fault.is_some()
    }

    /// The end of the period, unless it was reached.
    pub(crate) fn unreached(&self) -> Option<PeriodBound> {
        self.to.filter(|_| !self.over)
    }

    /// Follows one step of the log's own replay.
    pub(crate) fn watch(&mut self, step: ApplyStep<'_>, state: &State, effects: &Effects) {
        if self.is_over() {
            return;
        }
        match step {
            ApplyStep::Opened => {
                self.noticed = 0;
                self.over |= matches!(self.to, Some(PeriodBound::Time(to)) if to < state.stamp());
            }
            ApplyStep::DeadlinesFired => {
                let new = &effects.notices[self.noticed..];
                for copy in self.copies.iter_mut().flat_map(|copies| copies.iter_mut()) {
                    copy.decide(state.stamp(), None, new);
                }
            }
            ApplyStep::Expiring(_)
            | ApplyStep::Expired(_)
            | ApplyStep::ItemBefore(..)
            | ApplyStep::ItemAfter(..) => return,
            ApplyStep::Before(log_index, _) => {
                if self.copies.is_none() && reached(self.from, log_index, state.stamp()) {
                    self.begin(log_index, state);
                }
                return;
            }
            ApplyStep::After(log_index, command, outcome) => {
                let new = &effects.notices[self.noticed..];
                if self.copies.is_some() {
                    self.follow((log_index, command, outcome), state, new);
                    self.last = Some((log_index, state.stamp()));
                }
                self.over |= matches!(self.to, Some(PeriodBound::Record(to)) if to <= log_index);
            }
        }
        self.noticed = effects.notices.len();
    }

    /// Makes the copies and applies the change to them.
    fn begin(&mut self, log_index: LogIndex, state: &State) {
        self.first = Some((log_index, state.stamp()));
        let mut copies = Box::new(AssumedEnd::ALL.map(|assumed_end| StateCopy {
            assumed_end,
            state: state.clone().without_four_eyes(),
            epoch: state.epoch_of(0) + 1,
            sequence: 0,
            effects: Effects::default(),
            notices: HashMap::new(),
            common: state.last_notice(),
            differing: HashSet::new(),
        }));
        for (at, change) in self.overrides.iter().enumerate() {
            for copy in copies.iter_mut() {
                if let Err(fault) = copy.apply_override(change, at, state.stamp()) {
                    self.fault = Some(fault);
                    return;
                }
            }
        }
        self.copies = Some(copies);
        self.observe_all(state);
    }

    /// Decides a record in the copies.
    fn follow(
        &mut self,
        (log_index, command, outcome): (LogIndex, &Command, Outcome),
        state: &State,
        new: &[Notice],
    ) {
        let Some(copies) = &mut self.copies else { return };
        let plain = without_four_eyes(command, outcome);
        let overridden = plain.as_ref().is_some_and(|it| is_overridden(&self.overrides, it));
        self.overridden += u64::from(overridden);
        let is_duplicate = outcome == Outcome::Repeated;
        let followed = plain.as_deref().filter(|_| !overridden && !is_duplicate);
        let outcomes = copies.each_mut().map(|copy| match followed {
            Some(command) => copy.follow(command, outcome, state.stamp(), new),
            None => {
                let ticked = copy.decide(state.stamp(), Some(&Command::Tick), new);
                if plain.is_some() { ticked } else { outcome }
            }
        });
        let record = |transfer| TransferRecord { log_index, stamp: state.stamp(), transfer };
        if let Some(TransferMessage::Prepare(prepare)) = command.message()
            && begins_transfer(outcome)
        {
            self.compare_prepare(prepare, record(prepare.id), (outcome, outcomes), state);
        }
        if let Some(change) = command.change() {
            match change.about_transfer().filter(|_| !is_duplicate) {
                Some(TransferChange::MoveFunds(funds)) => {
                    self.compare_funds(funds, record(funds.id), (outcome, outcomes), state);
                }
                Some(TransferChange::EndFundsOut(end)) => {
                    self.compare_funds_end(end, (outcome, outcomes));
                }
                Some(
                    TransferChange::Redeliver(_)
                    | TransferChange::DropDeadLetter(_)
                    | TransferChange::AdjustBalance(_),
                )
                | None => {}
            }
            self.observe_all(state);
        }
    }

    fn compare_prepare(
        &mut self,
        prepare: &Prepare,
        record: TransferRecord,
        (outcome, outcomes): (Outcome, [Outcome; 3]),
        state: &State,
    ) {
        let Some(copies) = &mut self.copies else { return };
        let reserved = outcome == Outcome::PrepareReserved;
        // A transfer whose deadline has passed expires within the decision that reserves it.
        let is_past = prepare.expiration_ms <= record.stamp.millis();
        let released = |outcome| {
            let has_expired = outcome == Outcome::PrepareReserved && is_past;
            if has_expired { prepare.amount } else { Amount::ZERO }
        };
        if let Some((payer, participant)) = state.registry().find(&prepare.payer) {
            let row = self.rows.entry((payer, prepare.currency)).or_default();
            let holding = participant.accounts_in(prepare.currency);
            holding.iter().for_each(|holding| row.log.observe(state, holding, released(outcome)));
            if is_liquidity_refusal(outcome) {
                row.log.refused.add(record, prepare.amount);
            }
            let all_totals = row.copies_mut().into_iter().zip(&**copies);
            for ((totals, copy), outcome) in all_totals.zip(outcomes) {
                if is_liquidity_refusal(outcome) {
                    totals.refused.add(record, prepare.amount);
                }
                match (reserved, outcome == Outcome::PrepareReserved) {
                    (true, false) => totals.appear.add(record, prepare.amount),
                    (false, true) => totals.vanish.add(record, prepare.amount),
                    (true, true) | (false, false) => {}
                }
                let party = (&prepare.payer, prepare.currency);
                totals.observe_in(&copy.state, party, released(outcome));
                let is_so_covered = || totals.is_so_covered(&copy.state, party, released(outcome));
                if outcome == Outcome::PrepareReserved && is_so_covered() {
                    totals.so_covered.add(record, prepare.amount);
                }
            }
        }
        let differs = |one: &Outcome| (*one == Outcome::PrepareReserved) != reserved;
        for (copy, outcome) in copies.iter_mut().zip(&outcomes) {
            if differs(outcome) {
                copy.differing.insert(prepare.id);
            }
        }
        // After the observation, which needs the position with the reservation.
        for (copy, outcome) in copies.iter_mut().zip(outcomes) {
            if !reserved && outcome == Outcome::PrepareReserved {
                copy.end(prepare, record.stamp);
            }
        }
        if outcomes.iter().any(differs) {
            self.differing.push(ChangedDecision {
                record,
                payer: prepare.payer,
                payee: prepare.payee,
                amount: prepare.amount,
                currency: prepare.currency,
                outcomes: ByCopy::new(outcome, outcomes),
            });
        }
    }

    /// Compares the results of the first record of a movement of funds.
    fn compare_funds(
        &mut self,
        funds: &MoveFunds,
        record: TransferRecord,
        (outcome, outcomes): (Outcome, [Outcome; 3]),
        state: &State,
    ) {
        let MoveFunds { name, direction, amount, currency, .. } = *funds;
        let all = ByCopy::new(outcome, outcomes);
        if let Some((index, _)) = state.registry().find(&name) {
            let row = self.rows.entry((index, currency)).or_default();
            for (totals, outcome) in row.all_mut().into_iter().zip(all.all()) {
                if *outcome == Outcome::FundsInsufficient {
                    totals.withdrawals_refused.add(record, amount);
                }
            }
        }
        if outcomes.iter().any(|one| *one != outcome) {
            self.funds_differing.push(ChangedFunds {
                record,
                participant: name,
                direction,
                amount,
                currency,
                statuses: all.map(|outcome| FundsStatus::after(direction, *outcome)),
            });
        }
    }

    /// Compares the results of the end of a withdrawal, which does not count again.
    fn compare_funds_end(
        &mut self,
        end: &EndFundsOut,
        (outcome, outcomes): (Outcome, [Outcome; 3]),
    ) {
        let mut begun = self.funds_differing.iter_mut().rev();
        let Some(found) = begun.find(|one| one.record.transfer == end.id) else {
            let same = outcomes.iter().all(|one| *one == outcome);
            assert!(same, "results of a withdrawal differ only if its reservations differed");
            return;
        };
        let all = ByCopy::new(outcome, outcomes);
        for (status, outcome) in found.statuses.all_mut().into_iter().zip(all.all()) {
            status.end(end, *outcome);
        }
    }

    /// Observes all positions, covers and caps: at the beginning, and after each operator's change.
    /// Only operators change a cover.
    fn observe_all(&mut self, state: &State) {
        let Some(copies) = &self.copies else { return };
        for (index, participant) in state.registry().iter() {
            for holding in participant.by_currency.iter() {
                let row = self.rows.entry((index, holding.currency)).or_default();
                row.log.observe(state, holding, Amount::ZERO);
                let party = (&participant.name, holding.currency);
                let expected = cover(state, holding)
                    .checked_add(assumed_cover(&self.overrides, party))
                    .expect("amounts have 18 digits");
                for (totals, copy) in row.copies_mut().into_iter().zip(&**copies) {
                    totals.observe_in(&copy.state, party, Amount::ZERO);
                    totals.observe_cover(&copy.state, party, expected);
                }
            }
        }
    }

    /// Whether every copy has the content of the log's state.
    #[cfg(test)]
    fn is_the_same(&self, state: &State) -> bool {
        let content = state.hashes().content;
        let copies = self.copies.as_ref().expect("the period began");
        copies.iter().all(|copy| copy.state.hashes().content == content)
    }
}

impl Totals {
    fn observe_in(&mut self, state: &State, party: (&FspName, Currency), released: Amount) {
        holding_in(state, party).iter().for_each(|holding| self.observe(state, holding, released));
    }

    /// Observes the position, including the amount that was reserved and `released` at once.
    fn observe(&mut self, state: &State, holding: &CurrencyAccounts, released: Amount) {
        let (position, cover) = (value(state, holding.position), cover(state, holding));
        let position = position.checked_add(released).expect("amounts have 18 digits");
        let cap = holding.net_debit_cap.map_or(Amount::ZERO, |limit| limit.value);
        let left = cover.min(cap).checked_sub(position).expect("amounts have 18 digits");
        self.highest = Some(self.highest.map_or(position, |highest| highest.max(position)));
        self.headroom = Some(self.headroom.map_or(left, |least| least.min(left)));
    }

    /// Compares the cover with the one `expected` if all funds move as in the log.
    fn observe_cover(&mut self, state: &State, party: (&FspName, Currency), expected: Amount) {
        let found = holding_in(state, party).map_or(Amount::ZERO, |found| cover(state, &found));
        self.not_withdrawn = found.checked_sub(expected).expect("amounts have 18 digits");
    }

    /// Whether the position is within the cover only because a withdrawal was refused here.
    fn is_so_covered(&self, state: &State, party: (&FspName, Currency), released: Amount) -> bool {
        let Some(holding) = holding_in(state, party) else { return false };
        let left = cover(state, &holding).checked_sub(self.not_withdrawn);
        let left = left.and_then(|left| left.checked_sub(released));
        let left = left.expect("amounts have 18 digits");
        Amount::ZERO < self.not_withdrawn && left < value(state, holding.position)
    }
}

impl FundsStatus {
    fn after(direction: FundsDirection, outcome: Outcome) -> Self {
        if outcome != Outcome::Accepted {
            return Self::Refused;
        }
        match direction {
            FundsDirection::In => Self::Deposited,
            FundsDirection::Out => Self::Reserved,
        }
    }

    fn end(&mut self, end: &EndFundsOut, outcome: Outcome) {
        if outcome == Outcome::Accepted {
            *self = if end.commit { Self::Withdrawn } else { Self::CalledOff };
        }
    }
}

impl ChangedFunds {
    /// For each copy, whether the result differs from that in the log.
    pub(crate) fn differs(&self) -> [bool; 3] {
        self.statuses.copies().map(|one| *one != self.statuses.log)
    }
}

impl StateCopy {
    /// Decides a command of the log.
    fn follow(
        &mut self,
        command: &Command,
        outcome: Outcome,
        stamp: Stamp,
        new: &[Notice],
    ) -> Outcome {
        let differs = |id: &TransferId| self.differing.contains(id);
        match command {
            // Caps and covers affect neither a full lane nor any other reason for a refusal. Such a
            // transfer is refused here too, and a reservation is undone.
            Command::Prepare(prepare) if is_other_refusal(outcome) => {
                self.decide(stamp, Some(command), new);
                if self.is_reserved(&prepare.id) {
                    self.abort(prepare, stamp);
                }
                outcome
            }
            // With a condition that this copy can meet, in case it accepts the transfer.
            Command::Prepare(prepare)
                if is_liquidity_refusal(outcome) && self.assumed_end == AssumedEnd::Commit =>
            {
                let condition = sha2::Sha256::digest(FULFILMENT).into();
                let prepare = Prepare { condition, ..(**prepare).clone() };
                self.decide(stamp, Some(&Command::Prepare(Box::new(prepare))), new)
            }
            Command::Fulfil(_) | Command::Abort(_) if command.rows().any(differs) => {
                self.decide(stamp, Some(&Command::Tick), new)
            }
            Command::FinishDeliveries(ends) => {
                let own = ends.iter().filter_map(|end| {
                    let notice = self.own_notice(end.notice)?;
                    Some(FinishedDelivery { notice, ..*end })
                });
                let own = own.collect();
                // The log refers again only to dead letters, which an operator can resend.
                for end in ends.iter().filter(|end| end.result != DeliveryResult::Dead) {
                    self.notices.remove(&end.notice);
                }
                self.decide(stamp, Some(&Command::FinishDeliveries(own)), new)
            }
            Command::Administer(administer) => {
                let (Change::Redeliver(Redeliver { notice })
                | Change::DropDeadLetter(DropDeadLetter { notice })) = administer.change
                else {
                    return self.decide(stamp, Some(command), new);
                };
                let Some(notice) = self.own_notice(notice) else {
                    return self.decide(stamp, Some(&Command::Tick), new);
                };
                let dropped = matches!(administer.change, Change::DropDeadLetter(_));
                let resent = || Redeliver { notice }.into();
                let change = if dropped { DropDeadLetter { notice }.into() } else { resent() };
                let administer = Administer { change, ..(**administer).clone() };
                self.decide(stamp, Some(&Command::Administer(Box::new(administer))), new)
            }
            Command::Genesis(_)
            | Command::Tick
            | Command::Prepare(_)
            | Command::Fulfil(_)
            | Command::Abort(_)
            | Command::ChangeParties(_)
            | Command::PrepareBulk(_)
            | Command::FulfilBulk(_)
            | Command::AbortBulk(_)
            | Command::RecordQuote(_)
            | Command::RecordQuoteAnswer(_)
            | Command::RecordRequestToPay(_) => self.decide(stamp, Some(command), new),
        }
    }

    /// The copy's notice that corresponds to one of the log.
    fn own_notice(&self, notice: NoticeId) -> Option<NoticeId> {
        match notice <= self.common {
            true => Some(notice),
            false => self.notices.get(&notice).copied(),
        }
    }

    /// Decides a command; without one, only processes deadlines. `new` are the notices that the log
    /// created. Other notices of the copy are delivered at once.
    fn decide(&mut self, stamp: Stamp, command: Option<&Command>, new: &[Notice]) -> Outcome {
        let outcome = self.apply(stamp, command);
        let mut expected: Vec<Option<&Notice>> = new.iter().map(Some).collect();
        let mut only_here = Vec::new();
        for own in &self.effects.notices {
            let same = |other: &Notice| {
                let subject = |one: &Notice| (one.recipient, one.transfer, one.kind);
                subject(own) == subject(other)
            };
            match expected.iter_mut().find(|other| other.is_some_and(same)) {
                Some(found) => {
                    let of_log = found.take().expect("`same` checked it");
                    self.notices.insert(of_log.id, own.id);
                }
                None => only_here.push(delivered(own.id, stamp)),
            }
        }
        if !only_here.is_empty() {
            self.apply(stamp, Some(&Command::FinishDeliveries(only_here)));
        }
        outcome
    }

    fn apply(&mut self, stamp: Stamp, command: Option<&Command>) -> Outcome {
        let first = LogIndex(self.state.log_index().0 + 1);
        self.sequence += 1;
        let (epoch, sequence) = (self.epoch, self.sequence);
        let batch = Batch { first, stamp, node: 0, epoch, sequence };
        self.effects.clear();
        self.state.apply(&batch, command, &mut self.effects);
        self.effects.outcomes.first().copied().unwrap_or(Outcome::Accepted)
    }

    /// Ends a transfer that the log refused.
    fn end(&mut self, prepare: &Prepare, stamp: Stamp) {
        if !self.is_reserved(&prepare.id) {
            return;
        }
        match self.assumed_end {
            AssumedEnd::Commit => self.commit(prepare, stamp),
            AssumedEnd::Expire => {}
            AssumedEnd::Abort => self.abort(prepare, stamp),
        }
    }

    /// Whether a transfer is reserved, and did not expire on arrival.
    fn is_reserved(&self, id: &TransferId) -> bool {
        self.state.view(id).is_some_and(|view| view.state == TransferState::Reserved)
    }

    fn abort(&mut self, prepare: &Prepare, stamp: Stamp) {
        let abort = Abort {
            id: prepare.id,
            source: prepare.payee,
            destination: None,
            code_is_known: true,
            hash: Digest::default(),
            trace: prepare.trace,
        };
        let outcome = self.decide(stamp, Some(&Command::Abort(abort.into())), &[]);
        assert_eq!(outcome, Outcome::Aborted, "a payee may abort a reserved transfer");
    }

    fn commit(&mut self, prepare: &Prepare, stamp: Stamp) {
        let fulfil = Fulfil {
            id: prepare.id,
            source: prepare.payee,
            destination: None,
            state: FulfilState::Committed,
            fulfilment: Fulfilment::Present(FULFILMENT),
            hash: Digest::default(),
            trace: prepare.trace,
        };
        let outcome = self.decide(stamp, Some(&Command::Fulfil(Box::new(fulfil))), &[]);
        assert_eq!(outcome, Outcome::Committed, "the condition was made for this fulfilment");
    }

    /// Applies a change with the commands of an operator.
    fn apply_override(&mut self, change: &Override, at: usize, stamp: Stamp) -> Result<(), String> {
        let Override { name, currency, effect } = *change;
        let whose = format!("{} in {currency}", name.as_str());
        let holding = holding_in(&self.state, (&name, currency))
            .ok_or_else(|| format!("{whose}: no such account at the beginning of the period"))?;
        let changes = match effect {
            OverrideEffect::Cap(value) => {
                let limit = holding.net_debit_cap.ok_or_else(|| {
                    format!("{whose}: no net debit cap at the beginning of the period")
                })?;
                let alarm_percentage = limit.alarm_percentage;
                vec![Change::SetLimit(SetLimit {
                    name,
                    currency,
                    net_debit_cap: value,
                    alarm_percentage,
                })]
            }
            OverrideEffect::Cover(more) => Self::move_funds(name, &holding, more, at),
        };
        for change in changes {
            let administer = Administer { actor: "what-if".into(), reason: String::new(), change };
            let command = Command::Administer(Box::new(administer));
            match self.decide(stamp, Some(&command), &[]) {
                Outcome::Accepted => {}
                Outcome::FundsInsufficient => {
                    return Err(format!(
                        "{whose}: the cover cannot be reduced by this amount at the beginning of \
                         the period; the position would exceed it"
                    ));
                }
                other => return Err(format!("{whose}: the change is refused with {other:?}")),
            }
        }
        Ok(())
    }

    /// Commands that deposit or withdraw funds.
    fn move_funds(
        name: FspName,
        holding: &CurrencyAccounts,
        more: Amount,
        at: usize,
    ) -> Vec<Change> {
        let account = holding.settlement;
        let id = unused_id(at);
        let moving = |direction, amount| {
            let (currency, hash) = (holding.currency, Digest([0; 32]));
            Change::MoveFunds(MoveFunds { id, name, account, direction, currency, amount, hash })
        };
        match Amount::ZERO <= more {
            true => vec![moving(FundsDirection::In, more)],
            false => vec![
                moving(FundsDirection::Out, -more),
                Change::EndFundsOut(EndFundsOut {
                    id,
                    name,
                    account,
                    commit: true,
                    hash: Digest([1; 32]),
                }),
            ],
        }
    }
}

fn value(state: &State, account: AccountId) -> Amount {
    state.accounts().get(account).map_or(Amount::ZERO, |account| account.value)
}

fn cover(state: &State, holding: &CurrencyAccounts) -> Amount {
    -value(state, holding.settlement)
}

fn holding_in(state: &State, (name, currency): (&FspName, Currency)) -> Option<CurrencyAccounts> {
    let (_, participant) = state.registry().find(name)?;
    participant.accounts_in(currency).copied()
}

/// Sum of the assumed changes of a cover.
fn assumed_cover(overrides: &[Override], (name, currency): (&FspName, Currency)) -> Amount {
    let more = overrides.iter().filter_map(|one| match one.effect {
        OverrideEffect::Cover(more) if (&one.name, one.currency) == (name, currency) => Some(more),
        OverrideEffect::Cover(_) | OverrideEffect::Cap(_) => None,
    });
    let sum = |sum: Amount, more| sum.checked_add(more).expect("amounts have 18 digits");
    more.fold(Amount::ZERO, sum)
}

/// An id that no transfer can have: a UUID of version 0, which is rejected in messages.
fn unused_id(at: usize) -> TransferId {
    let mut bytes = [0; 17];
    bytes[9..].copy_from_slice(&(at as u64 + 1).to_be_bytes());
    TransferId::from_bytes(bytes).expect("it has the form of a UUID")
}

fn reached(bound: PeriodBound, log_index: LogIndex, stamp: Stamp) -> bool {
    match bound {
        PeriodBound::Record(from) => from <= log_index,
        PeriodBound::Time(from) => from <= stamp,
    }
}

/// The command as the copies decide it, which know no four eyes: an approved change as a change on
/// its own. `None` for a command of four eyes that changed nothing else.
fn without_four_eyes(command: &Command, outcome: Outcome) -> Option<Cow<'_, Command>> {
    let Command::Administer(administer) = command else { return Some(Cow::Borrowed(command)) };
    let change = &administer.change;
    let of_list = matches!(change, Change::SetFourEyes(_));
    let of_proposals = matches!(change, Change::Propose(_) | Change::RejectProposal(_));
    if of_list || of_proposals || outcome == Outcome::ApprovalRequired {
        return None;
    }
    let Change::ApproveProposal(approval) = change else { return Some(Cow::Borrowed(command)) };
    let mut refusals = ApproveProposal::DECLARATION.outcomes.iter().map(|it| it.outcome());
    if outcome != Outcome::Accepted && refusals.any(|it| it == outcome) {
        return None;
    }
    let change = (*approval.change).clone();
    let administer = Administer { change, ..(**administer).clone() };
    Some(Cow::Owned(Command::Administer(Box::new(administer))))
}

/// Whether a command sets a cap for which another one is assumed.
fn is_overridden(overrides: &[Override], command: &Command) -> bool {
    let Command::Administer(administer) = command else { return false };
    let Change::SetLimit(SetLimit { name, currency, .. }) = &administer.change else {
        return false;
    };
    overrides.iter().any(|one| {
        matches!(one.effect, OverrideEffect::Cap(_))
            && (&one.name, &one.currency) == (name, currency)
    })
}

/// Whether a prepare was neither a resend nor a modified resend nor ignored.
fn begins_transfer(outcome: Outcome) -> bool {
    PrepareOutcome::of(outcome).is_some_and(PrepareOutcome::begins)
}

/// Whether a prepare was refused because of the cover or the cap.
fn is_liquidity_refusal(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::PrepareLiquidityInsufficient | Outcome::PrepareCapExceeded)
}

/// Whether a prepare was refused for another reason.
fn is_other_refusal(outcome: Outcome) -> bool {
    begins_transfer(outcome)
        && outcome != Outcome::PrepareReserved
        && !is_liquidity_refusal(outcome)
}

fn delivered(notice: NoticeId, stamp: Stamp) -> FinishedDelivery {
    FinishedDelivery {
        notice,
        result: DeliveryResult::Delivered,
        attempts: 1,
        status: 200,
        finished_ms: stamp.millis(),
    }
}

#[cfg(test)]
mod tests;
