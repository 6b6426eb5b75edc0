//! A part of a log decided once more under other caps or other cover.
//!
//! Up to the beginning everything is the log's own state. There three copies are made of it, the
//! change is decided in each by commands that any operator could give, and every later record is
//! decided in the log's state and in all copies, by the same kernel, at the same stamp.
//!
//! What the copies cannot know is how a transfer would have ended that the log refused and a copy
//! takes. So there are the three ends that it can have: in one copy such a transfer is committed at
//! once, in one it comes back at its deadline, in one its payee gives it back at once. They are the
//! ends for all such transfers alike; what really comes is some mixture. What the log holds for
//! transfers on which log and copy differ (answers to them) is left out of the copy. Notices that
//! the copy owes as the log did are delivered when they were; others at once.
//!
//! Deposits and withdrawals are decided in the copies as everything else is. A withdrawal that the
//! log took can be refused in a copy, whose position is higher. What was not withdrawn then covers
//! transfers there, so that each such movement is named, and what it covers is counted.
//!
//! Costs: four decisions a record instead of one. Memory: the log's state is held whole, with no
//! store beside it. Of what ended before the period the copies share the rows, and have an index
//! each; within the period everything is held four times, and some 250 bytes more are for each
//! transfer on which a copy differs.

use std::collections::{BTreeMap, HashMap, HashSet};

use ledger::{
    Abort, AccountId, Administer, Amount, ApplyStep, Batch, Change, Command, Currency,
    CurrencyAccounts, DeliveryResult, Digest, Effects, EndFundsOut, FinishedDelivery, FspName,
    Fulfil, FulfilState, Fulfilment, FundsDirection, LogIndex, MoveFunds, Notice, NoticeId,
    Outcome, ParticipantIndex, Prepare, PrepareOutcome, Redeliver, SetLimit, Stamp, State,
    TransferChange, TransferId, TransferMessage, TransferState,
};
use serde::Serialize;
use sha2::Digest as _;

/// What commits a transfer of which no fulfilment is known.
const FULFILMENT: [u8; 32] = [0x57; 32];

/// Something that could have been otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    pub(crate) name: FspName,
    pub(crate) currency: Currency,
    pub(crate) what: OverrideEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverrideEffect {
    /// This net debit cap.
    Cap(Amount),
    /// So much more cover, or less.
    Cover(Amount),
}

/// Where a period begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Record(LogIndex),
    Moment(Stamp),
}

/// How transfers end that the log refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AssumedEnd {
    Commit,
    ComeBack,
    GiveBack,
}

impl AssumedEnd {
    const ALL: [Self; 3] = [Self::Commit, Self::ComeBack, Self::GiveBack];
}

/// Transfers, counted and added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) value: Amount,
    pub(crate) first: Option<Mark>,
    pub(crate) last: Option<Mark>,
}

/// A transfer and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) log_index: LogIndex,
    pub(crate) stamp: Stamp,
    pub(crate) transfer: TransferId,
}

impl Tally {
    fn add(&mut self, mark: Mark, amount: Amount) {
        self.count += 1;
        self.value = self.value.checked_add(amount).expect("amounts have 18 digits");
        self.first.get_or_insert(mark);
        self.last = Some(mark);
    }
}

/// What became of a participant's own transfers in one currency, in one course of things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Refused for want of cover, or by the cap.
    pub(crate) refused: Tally,
    /// Refused here and reserved by the log.
    pub(crate) appear: Tally,
    /// Refused by the log and reserved here.
    pub(crate) vanish: Tally,
    /// Withdrawals that were more than could be spared.
    pub(crate) withdrawals_refused: Tally,
    /// So much more cover than in the log, beside what is assumed: of all that the log let out and
    /// this course did not, less what only this course let out. As of the last record.
    pub(crate) not_withdrawn: Amount,
    /// Reserved here with a position above the cover that would be left without
    /// [`Self::not_withdrawn`].
    pub(crate) so_covered: Tally,
    /// The highest position reached.
    pub(crate) highest: Option<Amount>,
    /// The least that was left below cover and cap.
    pub(crate) headroom: Option<Amount>,
}

/// A value of the log, and one of each copy in the order of [`AssumedEnd::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TotalsByCopy<T> {
    pub(crate) log: T,
    pub(crate) all_commit: T,
    pub(crate) none_commit: T,
    pub(crate) given_back: T,
}

/// A participant in one currency.
pub(crate) type Row = TotalsByCopy<Totals>;

impl<T> TotalsByCopy<T> {
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

    pub(crate) fn map<U>(&self, of: impl Fn(&T) -> U) -> TotalsByCopy<U> {
        TotalsByCopy::new(of(&self.log), self.copies().map(of))
    }
}

/// A transfer that would have been decided otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedDecision {
    pub(crate) mark: Mark,
    pub(crate) payer: FspName,
    pub(crate) payee: FspName,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) outcomes: TotalsByCopy<Outcome>,
}

/// A deposit or a withdrawal, begun in the period, that ends otherwise in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedFunds {
    /// The record that begins it.
    pub(crate) mark: Mark,
    pub(crate) participant: FspName,
    pub(crate) direction: FundsDirection,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) standings: TotalsByCopy<FundsStatus>,
}

/// What became of a movement of funds up to the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FundsStatus {
    Deposited,
    Refused,
    /// To be withdrawn: no longer cover.
    Reserved,
    Withdrawn,
    /// Reserved once, and cover again.
    CalledOff,
}

/// A log and its copies, in the order of [`AssumedEnd::ALL`].
pub(crate) struct WhatIf {
    assumptions: Vec<Override>,
    from: Edge,
    to: Option<Edge>,
    copies: Option<Box<[Copy; 3]>>,
    /// Notices of this batch that were looked at.
    noticed: usize,
    over: bool,
    pub(crate) rows: BTreeMap<(ParticipantIndex, Currency), Row>,
    pub(crate) differing: Vec<ChangedDecision>,
    /// Changes of a cap in the log that the assumed one took the place of.
    pub(crate) overridden: u64,
    /// Movements of funds that end otherwise in a copy, each one once.
    pub(crate) funds_differing: Vec<ChangedFunds>,
    pub(crate) first: Option<(LogIndex, Stamp)>,
    pub(crate) last: Option<(LogIndex, Stamp)>,
    /// Why an assumption cannot be made.
    pub(crate) fault: Option<String>,
}

/// One course of things beside the log's.
struct Copy {
    ending: AssumedEnd,
    state: State,
    epoch: u32,
    sequence: u64,
    effects: Effects,
    /// Which notice of the copy is meant by one of the log since the copy was made.
    notices: HashMap<NoticeId, NoticeId>,
    /// The log's last notice when the copy was made.
    common: NoticeId,
    /// Transfers on which log and copy differ.
    differing: HashSet<TransferId>,
}

impl WhatIf {
    pub(crate) fn new(assumptions: Vec<Override>, from: Edge, to: Option<Edge>) -> Self {
        Self {
            assumptions,
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

    /// Whether nothing that follows is looked at.
    pub(crate) fn is_over(&self) -> bool {
        self.over || self.fault.is_some()
    }

    /// The end of the period, if the log ended before it.
    pub(crate) fn unreached(&self) -> Option<Edge> {
        self.to.filter(|_| !self.over)
    }

    /// One moment of the log's own replay.
    pub(crate) fn watch(&mut self, moment: ApplyStep<'_>, state: &State, effects: &Effects) {
        if self.is_over() {
            return;
        }
        match moment {
            ApplyStep::Opened => {
                self.noticed = 0;
                self.over |= matches!(self.to, Some(Edge::Moment(to)) if to < state.stamp());
            }
            ApplyStep::DeadlinesFired => {
                let new = &effects.notices[self.noticed..];
                for copy in self.copies.iter_mut().flat_map(|copies| copies.iter_mut()) {
                    copy.decide(state.stamp(), None, new);
                }
            }
            ApplyStep::Expiring(_) | ApplyStep::Expired(_) => return,
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
                self.over |= matches!(self.to, Some(Edge::Record(to)) if to <= log_index);
            }
        }
        self.noticed = effects.notices.len();
    }

    /// Makes the copies, and the change in them.
    fn begin(&mut self, log_index: LogIndex, state: &State) {
        self.first = Some((log_index, state.stamp()));
        let mut copies = Box::new(AssumedEnd::ALL.map(|ending| Copy {
            ending,
            state: state.clone(),
            epoch: state.epoch_of(0) + 1,
            sequence: 0,
            effects: Effects::default(),
            notices: HashMap::new(),
            common: state.last_notice(),
            differing: HashSet::new(),
        }));
        for (at, assumption) in self.assumptions.iter().enumerate() {
            for copy in copies.iter_mut() {
                if let Err(fault) = copy.assume(assumption, at, state.stamp()) {
                    self.fault = Some(fault);
                    return;
                }
            }
        }
        self.copies = Some(copies);
        self.observe_all(state);
    }

    /// One record, decided in the copies too.
    fn follow(
        &mut self,
        (log_index, command, outcome): (LogIndex, &Command, Outcome),
        state: &State,
        new: &[Notice],
    ) {
        let Some(copies) = &mut self.copies else { return };
        let overridden = is_overridden(&self.assumptions, command);
        self.overridden += u64::from(overridden);
        let followed = if overridden { &Command::Tick } else { command };
        let known = outcome == Outcome::Repeated;
        let outcomes = copies.each_mut().map(|copy| match known {
            true => copy.decide(state.stamp(), Some(&Command::Tick), new),
            false => copy.follow(followed, outcome, state.stamp(), new),
        });
        let mark = |transfer| Mark { log_index, stamp: state.stamp(), transfer };
        if let Some(TransferMessage::Prepare(prepare)) = command.message()
            && is_first(outcome)
        {
            self.note(prepare, mark(prepare.id), (outcome, outcomes), state);
        }
        if let Some(change) = command.change() {
            match change.about_transfer().filter(|_| !known) {
                Some(TransferChange::MoveFunds(funds)) => {
                    self.note_funds(funds, mark(funds.id), (outcome, outcomes), state);
                }
                Some(TransferChange::EndFundsOut(end)) => {
                    self.note_funds_end(end, (outcome, outcomes));
                }
                Some(TransferChange::Redeliver(_)) | None => {}
            }
            self.observe_all(state);
        }
    }

    fn note(
        &mut self,
        prepare: &Prepare,
        mark: Mark,
        (outcome, outcomes): (Outcome, [Outcome; 3]),
        state: &State,
    ) {
        let Some(copies) = &mut self.copies else { return };
        let reserved = outcome == Outcome::PrepareReserved;
        // What was reserved with its deadline passed came back within its own decision.
        let is_past = prepare.expiration_ms <= mark.stamp.millis();
        let besides = |outcome| {
            let came_back = outcome == Outcome::PrepareReserved && is_past;
            if came_back { prepare.amount } else { Amount::ZERO }
        };
        if let Some((payer, participant)) = state.register().find(&prepare.payer) {
            let row = self.rows.entry((payer, prepare.currency)).or_default();
            let holding = participant.holding(prepare.currency);
            holding.iter().for_each(|holding| row.log.observe(state, holding, besides(outcome)));
            if is_want(outcome) {
                row.log.refused.add(mark, prepare.amount);
            }
            let courses = row.copies_mut().into_iter().zip(&**copies);
            for ((course, copy), outcome) in courses.zip(outcomes) {
                if is_want(outcome) {
                    course.refused.add(mark, prepare.amount);
                }
                match (reserved, outcome == Outcome::PrepareReserved) {
                    (true, false) => course.appear.add(mark, prepare.amount),
                    (false, true) => course.vanish.add(mark, prepare.amount),
                    (true, true) | (false, false) => {}
                }
                let party = (&prepare.payer, prepare.currency);
                course.observe_in(&copy.state, party, besides(outcome));
                let is_so_covered = || course.is_so_covered(&copy.state, party, besides(outcome));
                if outcome == Outcome::PrepareReserved && is_so_covered() {
                    course.so_covered.add(mark, prepare.amount);
                }
            }
        }
        let differs = |one: &Outcome| (*one == Outcome::PrepareReserved) != reserved;
        for (copy, outcome) in copies.iter_mut().zip(&outcomes) {
            if differs(outcome) {
                copy.differing.insert(prepare.id);
            }
        }
        // Ended only now: until here the position is that of the reservation.
        for (copy, outcome) in copies.iter_mut().zip(outcomes) {
            if !reserved && outcome == Outcome::PrepareReserved {
                copy.end(prepare, mark.stamp);
            }
        }
        if outcomes.iter().any(differs) {
            self.differing.push(ChangedDecision {
                mark,
                payer: prepare.payer,
                payee: prepare.payee,
                amount: prepare.amount,
                currency: prepare.currency,
                outcomes: TotalsByCopy::new(outcome, outcomes),
            });
        }
    }

    /// The beginning of a movement of funds.
    fn note_funds(
        &mut self,
        funds: &MoveFunds,
        mark: Mark,
        (outcome, outcomes): (Outcome, [Outcome; 3]),
        state: &State,
    ) {
        let MoveFunds { name, direction, amount, currency, .. } = *funds;
        let all = TotalsByCopy::new(outcome, outcomes);
        if let Some((index, _)) = state.register().find(&name) {
            let row = self.rows.entry((index, currency)).or_default();
            for (course, outcome) in row.all_mut().into_iter().zip(all.all()) {
                if *outcome == Outcome::FundsInsufficient {
                    course.withdrawals_refused.add(mark, amount);
                }
            }
        }
        if outcomes.iter().any(|one| *one != outcome) {
            self.funds_differing.push(ChangedFunds {
                mark,
                participant: name,
                direction,
                amount,
                currency,
                standings: all.map(|outcome| FundsStatus::of(direction, *outcome)),
            });
        }
    }

    /// The end of one: it is the same movement, and not counted again.
    fn note_funds_end(&mut self, end: &EndFundsOut, (outcome, outcomes): (Outcome, [Outcome; 3])) {
        let mut begun = self.funds_differing.iter_mut().rev();
        let Some(found) = begun.find(|one| one.mark.transfer == end.id) else {
            let same = outcomes.iter().all(|one| *one == outcome);
            assert!(same, "a withdrawal ends otherwise only where it began otherwise");
            return;
        };
        let all = TotalsByCopy::new(outcome, outcomes);
        for (standing, outcome) in found.standings.all_mut().into_iter().zip(all.all()) {
            standing.end(end, *outcome);
        }
    }

    /// Positions, covers and caps of everybody: at the beginning, and after an operator's change.
    /// Nothing else moves a cover.
    fn observe_all(&mut self, state: &State) {
        let Some(copies) = &self.copies else { return };
        for (index, participant) in state.register().iter() {
            for holding in participant.holdings.iter() {
                let row = self.rows.entry((index, holding.currency)).or_default();
                row.log.observe(state, holding, Amount::ZERO);
                let party = (&participant.name, holding.currency);
                let expected = cover(state, holding)
                    .checked_add(assumed_cover(&self.assumptions, party))
                    .expect("both are far from the range");
                for (course, copy) in row.copies_mut().into_iter().zip(&**copies) {
                    course.observe_in(&copy.state, party, Amount::ZERO);
                    course.observe_cover(&copy.state, party, expected);
                }
            }
        }
    }

    /// Whether every copy holds what the log's state holds.
    #[cfg(test)]
    fn is_the_same(&self, state: &State) -> bool {
        let content = state.hashes().content;
        let copies = self.copies.as_ref().expect("the period began");
        copies.iter().all(|copy| copy.state.hashes().content == content)
    }
}

impl Totals {
    fn observe_in(&mut self, state: &State, party: (&FspName, Currency), besides: Amount) {
        holding_in(state, party).iter().for_each(|holding| self.observe(state, holding, besides));
    }

    /// The position, with what was reserved `besides` and is gone again.
    fn observe(&mut self, state: &State, holding: &CurrencyAccounts, besides: Amount) {
        let (position, cover) = (value(state, holding.position), cover(state, holding));
        let position = position.checked_add(besides).expect("both are far from the range");
        let cap = holding.limit.map_or(Amount::ZERO, |limit| limit.value);
        let left = cover.min(cap).checked_sub(position).expect("both are far from the range");
        self.highest = Some(self.highest.map_or(position, |highest| highest.max(position)));
        self.headroom = Some(self.headroom.map_or(left, |least| least.min(left)));
    }

    /// The cover beside the one that is `expected` if all funds move as in the log.
    fn observe_cover(&mut self, state: &State, party: (&FspName, Currency), expected: Amount) {
        let found = holding_in(state, party).map_or(Amount::ZERO, |found| cover(state, &found));
        self.not_withdrawn = found.checked_sub(expected).expect("both are far from the range");
    }

    /// Whether the position was within the cover only because a withdrawal was refused here.
    fn is_so_covered(&self, state: &State, party: (&FspName, Currency), besides: Amount) -> bool {
        let Some(holding) = holding_in(state, party) else { return false };
        let left = cover(state, &holding).checked_sub(self.not_withdrawn);
        let left = left.and_then(|left| left.checked_sub(besides));
        let left = left.expect("both are far from the range");
        Amount::ZERO < self.not_withdrawn && left < value(state, holding.position)
    }
}

impl FundsStatus {
    fn of(direction: FundsDirection, outcome: Outcome) -> Self {
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
    /// Whether it ends otherwise than in the log: with all commit, with none, and given back.
    pub(crate) fn differs(&self) -> [bool; 3] {
        self.standings.copies().map(|one| *one != self.standings.log)
    }
}

impl Copy {
    /// Decides a command of the log.
    fn follow(
        &mut self,
        command: &Command,
        outcome: Outcome,
        stamp: Stamp,
        new: &[Notice],
    ) -> Outcome {
        let left_out = |id: &TransferId| self.differing.contains(id);
        match command {
            // Whether a lane has room is no matter of cap or cover: what the log refused for that,
            // or for anything else, is refused here, and nothing of it stays.
            Command::Prepare(prepare) if is_refused_otherwise(outcome) => {
                self.decide(stamp, Some(command), new);
                if self.holds(&prepare.id) {
                    self.give_back(prepare, stamp);
                }
                outcome
            }
            // Its condition is one that this copy can meet, should it be taken here.
            Command::Prepare(prepare) if is_want(outcome) && self.ending == AssumedEnd::Commit => {
                let condition = sha2::Sha256::digest(FULFILMENT).into();
                let prepare = Prepare { condition, ..(**prepare).clone() };
                self.decide(stamp, Some(&Command::Prepare(Box::new(prepare))), new)
            }
            Command::Fulfil(fulfil) if left_out(&fulfil.id) => {
                self.decide(stamp, Some(&Command::Tick), new)
            }
            Command::Abort(abort) if left_out(&abort.id) => {
                self.decide(stamp, Some(&Command::Tick), new)
            }
            Command::FinishDeliveries(ends) => {
                let own = ends.iter().filter_map(|end| self.own(end.notice).map(|own| (own, end)));
                let own = own.map(|(notice, end)| FinishedDelivery { notice, ..*end }).collect();
                // The log speaks again only of those that an operator can have sent again.
                for end in ends.iter().filter(|end| end.result != DeliveryResult::Dead) {
                    self.notices.remove(&end.notice);
                }
                self.decide(stamp, Some(&Command::FinishDeliveries(own)), new)
            }
            Command::Administer(administer) => {
                let Change::Redeliver(Redeliver { notice }) = administer.change else {
                    return self.decide(stamp, Some(command), new);
                };
                let Some(notice) = self.own(notice) else {
                    return self.decide(stamp, Some(&Command::Tick), new);
                };
                let change = Change::Redeliver(Redeliver { notice });
                let administer = Administer { change, ..(**administer).clone() };
                self.decide(stamp, Some(&Command::Administer(Box::new(administer))), new)
            }
            Command::Genesis(_)
            | Command::Tick
            | Command::Prepare(_)
            | Command::Fulfil(_)
            | Command::Abort(_)
            | Command::ChangeParties(_) => self.decide(stamp, Some(command), new),
        }
    }

    /// The copy's notice that one of the log's stands for.
    fn own(&self, notice: NoticeId) -> Option<NoticeId> {
        match notice <= self.common {
            true => Some(notice),
            false => self.notices.get(&notice).copied(),
        }
    }

    /// Decides a command, or with none only lets deadlines fire. `new` is what the log then owed:
    /// what the copy owes beside that is delivered at once.
    fn decide(&mut self, stamp: Stamp, command: Option<&Command>, new: &[Notice]) -> Outcome {
        let outcome = self.apply(stamp, command);
        let mut expected: Vec<Option<&Notice>> = new.iter().map(Some).collect();
        let mut beside = Vec::new();
        for own in &self.effects.notices {
            let same = |other: &Notice| {
                let subject = |one: &Notice| (one.recipient, one.transfer, one.kind);
                subject(own) == subject(other)
            };
            match expected.iter_mut().find(|other| other.is_some_and(same)) {
                Some(found) => {
                    let theirs = found.take().expect("it was just looked at");
                    self.notices.insert(theirs.id, own.id);
                }
                None => beside.push(delivered(own.id, stamp)),
            }
        }
        if !beside.is_empty() {
            self.apply(stamp, Some(&Command::FinishDeliveries(beside)));
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
        if !self.holds(&prepare.id) {
            return;
        }
        match self.ending {
            AssumedEnd::Commit => self.commit(prepare, stamp),
            AssumedEnd::ComeBack => {}
            AssumedEnd::GiveBack => self.give_back(prepare, stamp),
        }
    }

    /// Whether it is reserved, and did not end within its own decision.
    fn holds(&self, id: &TransferId) -> bool {
        self.state.view(id).is_some_and(|view| view.state == TransferState::Reserved)
    }

    fn give_back(&mut self, prepare: &Prepare, stamp: Stamp) {
        let abort = Abort {
            id: prepare.id,
            source: prepare.payee,
            destination: None,
            code_is_known: true,
            hash: Digest::default(),
            trace: prepare.trace,
        };
        let outcome = self.decide(stamp, Some(&Command::Abort(abort.into())), &[]);
        assert_eq!(outcome, Outcome::Aborted, "a payee may give back what is reserved for it");
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

    /// Makes an assumption true, as an operator would.
    fn assume(&mut self, assumption: &Override, at: usize, stamp: Stamp) -> Result<(), String> {
        let Override { name, currency, what } = *assumption;
        let whose = format!("{} in {currency}", name.as_str());
        let holding = holding_in(&self.state, (&name, currency))
            .ok_or_else(|| format!("{whose}: there is no such account when the period begins"))?;
        let changes = match what {
            OverrideEffect::Cap(value) => {
                let limit = holding.limit.ok_or_else(|| {
                    format!("{whose}: there is no net debit cap yet when the period begins")
                })?;
                let alarm_percentage = limit.alarm_percentage;
                vec![Change::SetLimit(SetLimit { name, currency, limit: value, alarm_percentage })]
            }
            OverrideEffect::Cover(more) => Self::funds(name, &holding, more, at),
        };
        for change in changes {
            let administer = Administer { actor: "what-if".into(), reason: String::new(), change };
            let command = Command::Administer(Box::new(administer));
            match self.decide(stamp, Some(&command), &[]) {
                Outcome::Accepted => {}
                Outcome::FundsInsufficient => {
                    return Err(format!(
                        "{whose}: that much cover cannot be taken away when the period begins; the \
                         position would not be covered"
                    ));
                }
                other => return Err(format!("{whose}: the change is refused: {other:?}")),
            }
        }
        Ok(())
    }

    /// Funds in, or out and gone.
    fn funds(name: FspName, holding: &CurrencyAccounts, more: Amount, at: usize) -> Vec<Change> {
        let account = holding.settlement;
        let id = id_of_nobody(at);
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
    state.books().get(account).map_or(Amount::ZERO, |account| account.value)
}

fn cover(state: &State, holding: &CurrencyAccounts) -> Amount {
    -value(state, holding.settlement)
}

fn holding_in(state: &State, (name, currency): (&FspName, Currency)) -> Option<CurrencyAccounts> {
    let (_, participant) = state.register().find(name)?;
    participant.holding(currency).copied()
}

/// How much more cover is assumed, or less.
fn assumed_cover(assumptions: &[Override], (name, currency): (&FspName, Currency)) -> Amount {
    let more = assumptions.iter().filter_map(|one| match one.what {
        OverrideEffect::Cover(more) if (&one.name, one.currency) == (name, currency) => Some(more),
        OverrideEffect::Cover(_) | OverrideEffect::Cap(_) => None,
    });
    let sum = |sum: Amount, more| sum.checked_add(more).expect("amounts have 18 digits");
    more.fold(Amount::ZERO, sum)
}

/// An id that no transfer has or will have: a UUID of version 0, which no message is taken with.
fn id_of_nobody(at: usize) -> TransferId {
    let mut bytes = [0; 17];
    bytes[9..].copy_from_slice(&(at as u64 + 1).to_be_bytes());
    TransferId::from_bytes(bytes).expect("it has the form of a UUID")
}

fn reached(edge: Edge, log_index: LogIndex, stamp: Stamp) -> bool {
    match edge {
        Edge::Record(from) => from <= log_index,
        Edge::Moment(from) => from <= stamp,
    }
}

/// Whether a command sets a cap for which another one is assumed.
fn is_overridden(assumptions: &[Override], command: &Command) -> bool {
    let Command::Administer(administer) = command else { return false };
    let Change::SetLimit(SetLimit { name, currency, .. }) = &administer.change else {
        return false;
    };
    assumptions.iter().any(|one| {
        matches!(one.what, OverrideEffect::Cap(_)) && (&one.name, &one.currency) == (name, currency)
    })
}

/// Whether a prepare was neither a resend, a change of one, nor ignored.
fn is_first(outcome: Outcome) -> bool {
    PrepareOutcome::of(outcome).is_some_and(PrepareOutcome::begins)
}

/// Refused for want of cover, or by the cap.
fn is_want(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::PrepareLiquidityInsufficient | Outcome::PrepareCapExceeded)
}

/// Refused, and not for want of anything.
fn is_refused_otherwise(outcome: Outcome) -> bool {
    is_first(outcome) && outcome != Outcome::PrepareReserved && !is_want(outcome)
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
