//! An independent account of what the hub should have decided and of what everybody should own,
//! written from the rules rather than from the kernel: plain maps, plain sums, no indices.
//!
//! It follows the log: each command with the stamp of its batch. Where the rules leave no choice
//! it predicts the outcome and compares; elsewhere (operators' changes) it takes the outcome and
//! keeps the books by it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ledger::{
    Abort, AccountId, Amount, Change, Command, Currency, FspName, Fulfil, FulfilState, Fulfilment,
    FundsDirection, Outcome, PRECISION_MAX, Prepare, Settings, Stamp, State, TransferId,
};
use sha2::{Digest as _, Sha256};

use crate::catalogue::Catalogue;

type Money = i128;

/// What one participant holds in one currency.
#[derive(Clone, Debug)]
struct Holding {
    position: Money,
    /// Funds on deposit: the negative of the SETTLEMENT account.
    cover: Money,
    cap: Money,
    active: bool,
}

#[derive(Clone, Debug)]
struct Transfer {
    payer: FspName,
    payee: FspName,
    currency: Currency,
    amount: Money,
    condition: [u8; 32],
    deadline_ms: u64,
    hash: ledger::Digest,
    fate: Fate,
    /// The first answer that its payee gave: which message, and its digest.
    answer: Option<(bool, ledger::Digest)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Reserved,
    Ended(Outcome),
}

/// The account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    stamp: Stamp,
    settings: Settings,
    participants: BTreeMap<FspName, bool>,
    holdings: BTreeMap<(FspName, Currency), Holding>,
    /// POSITION and SETTLEMENT of each holding, as the kernel numbered them.
    accounts: BTreeMap<(FspName, Currency), (AccountId, AccountId)>,
    transfers: HashMap<TransferId, Transfer>,
    deadlines: BTreeMap<(u64, u64), TransferId>,
    outflows: BTreeMap<TransferId, (FspName, Currency, Money)>,
    funds: BTreeMap<TransferId, ()>,
    /// Digests of the requests to move funds, or to end an outflow, that were taken.
    taken: BTreeSet<[u8; 32]>,
    catalogue: Catalogue,
    reserved: u64,
    made: u64,
}

impl Shadow {
    /// An account of nothing yet, for a log that is read again from its beginning.
    pub(crate) fn anew(&self) -> Self {
        Self { accounts: self.accounts.clone(), ..Self::default() }
    }

    /// A batch begins: what was due by its stamp has ended.
    pub(crate) fn begin(&mut self, stamp: Stamp) {
        assert!(self.stamp <= stamp, "the stamp went back from {:?} to {stamp:?}", self.stamp);
        self.stamp = stamp;
        self.expire();
    }

    /// Compares the outcome of a command with the rules, and keeps the books.
    pub(crate) fn decide(&mut self, command: &Command, outcome: Outcome) {
        match command {
            Command::Prepare(prepare) => self.prepare(prepare, outcome),
            Command::Fulfil(fulfil) => self.fulfil(fulfil, outcome),
            Command::Abort(abort) => self.abort(abort, outcome),
            Command::Administer(administer) => self.administer(&administer.change, outcome),
            Command::Genesis(_) | Command::Tick | Command::FinishDeliveries(_) => {
                assert_eq!(outcome, Outcome::Accepted, "for {command:?}");
            }
            Command::ChangeParties(_) => {}
        }
    }

    /// Every visible balance, and the number of transfers in flight, are what they should be.
    pub(crate) fn compare(&mut self, state: &State) {
        for (currency, sum) in state.books().sums() {
            assert_eq!(sum, Amount::ZERO, "the accounts of {currency} do not sum to zero");
        }
        let value = |account| state.books().get(account).map(|held| held.value.units());
        for (key @ (name, currency), holding) in &self.holdings {
            let accounts = self.accounts.entry(*key);
            let (position, settlement) = *accounts.or_insert_with(|| find(state, *key));
            assert_eq!(
                value(position),
                Some(holding.position),
                "the POSITION of {name} in {currency} is not the sum of what was decided"
            );
            assert_eq!(
                value(settlement),
                Some(-holding.cover),
                "the SETTLEMENT of {name} in {currency} is not the sum of what was decided"
            );
        }
        assert_eq!(state.transfers_in_flight() as u64, self.reserved, "transfers in flight");
        self.catalogue.compare(state);
    }

    /// Whether the transfer is known and the participant its payer or payee.
    pub(crate) fn is_party(&self, id: &TransferId, name: &FspName) -> bool {
        self.transfers.get(id).is_some_and(|known| known.payer == *name || known.payee == *name)
    }

    fn expire(&mut self) {
        while let Some((&key, _)) = self.deadlines.first_key_value() {
            if self.stamp.millis() < key.0 {
                break;
            }
            let id = self.deadlines.remove(&key).expect("it is the first");
            if self.transfers[&id].fate == Fate::Reserved {
                self.end(id, Outcome::Expired);
            }
        }
    }

    fn prepare(&mut self, prepare: &Prepare, outcome: Outcome) {
        if outcome != Outcome::PreparePayeeLaneFull {
            assert_eq!(outcome, self.predict_prepare(prepare), "for {prepare:?}");
        }
        if self.knows(&prepare.id) {
            return;
        }
        let reserved = outcome == Outcome::PrepareReserved;
        let fate = if reserved { Fate::Reserved } else { Fate::Ended(outcome) };
        let transfer = Transfer {
            payer: prepare.payer,
            payee: prepare.payee,
            currency: prepare.currency,
            amount: prepare.amount.units(),
            condition: prepare.condition,
            deadline_ms: prepare.expiration_ms,
            hash: prepare.hash,
            fate,
            answer: None,
        };
        if reserved {
            self.reserved += 1;
            self.made += 1;
            self.deadlines.insert((transfer.deadline_ms, self.made), prepare.id);
            self.holding(prepare.payer, prepare.currency).position += transfer.amount;
        }
        self.transfers.insert(prepare.id, transfer);
        self.expire();
    }

    fn knows(&self, id: &TransferId) -> bool {
        self.transfers.contains_key(id) || self.funds.contains_key(id)
    }

    fn predict_prepare(&self, prepare: &Prepare) -> Outcome {
        if self.funds.contains_key(&prepare.id) {
            return Outcome::PrepareModified;
        }
        match self.transfers.get(&prepare.id) {
            None => self.predict_new(prepare),
            Some(known) if known.hash != prepare.hash => Outcome::PrepareModified,
            Some(known) => match known.fate {
                Fate::Reserved => Outcome::PrepareResentReserved,
                Fate::Ended(Outcome::Committed) => Outcome::PrepareResentCommitted,
                Fate::Ended(_) => Outcome::PrepareResentAborted,
            },
        }
    }

    fn predict_new(&self, prepare: &Prepare) -> Outcome {
        let payer = self.holdings.get(&(prepare.payer, prepare.currency));
        let payee = self.holdings.get(&(prepare.payee, prepare.currency));
        let own = prepare.payer == prepare.payee && !self.settings.on_us_transfers;
        let after = payer.map_or(0, |held| held.position) + prepare.amount.units();
        let checks = [
            (prepare.source != prepare.payer, Outcome::PrepareSourceNotPayer),
            (prepare.amount.precision() > PRECISION_MAX, Outcome::PrepareAmountPrecision),
            (!self.participants.contains_key(&prepare.payer), Outcome::PreparePayerNotFound),
            (self.is_off(&prepare.payer), Outcome::PreparePayerInactive),
            (!self.participants.contains_key(&prepare.payee), Outcome::PreparePayeeNotFound),
            (self.is_off(&prepare.payee), Outcome::PreparePayeeInactive),
            (prepare.expiration_ms < self.stamp.millis(), Outcome::PrepareExpirationPast),
            (own, Outcome::PreparePayerIsPayee),
            (payer.is_none(), Outcome::PreparePayerAccountNotFound),
            (payer.is_some_and(|held| !held.active), Outcome::PreparePayerAccountInactive),
            (payee.is_none(), Outcome::PreparePayeeAccountNotFound),
            (payee.is_some_and(|held| !held.active), Outcome::PreparePayeeAccountInactive),
            (payer.is_some_and(|held| held.cover < after), Outcome::PrepareLiquidityInsufficient),
            (payer.is_some_and(|held| held.cap < after), Outcome::PrepareCapExceeded),
        ];
        let refusal = checks.iter().find(|(refused, _)| *refused);
        refusal.map_or(Outcome::PrepareReserved, |(_, outcome)| *outcome)
    }

    fn is_off(&self, name: &FspName) -> bool {
        self.participants.get(name) == Some(&false)
    }

    fn fulfil(&mut self, fulfil: &Fulfil, outcome: Outcome) {
        let Fulfil { id, source, destination, hash, .. } = fulfil;
        let expected = match fulfil.state {
            FulfilState::ReservedUnderVersion10 => Outcome::FulfilVersionIgnored,
            _ => match self.predict_answer(id, (true, *hash), (source, destination.as_ref())) {
                Some(expected) => expected,
                None => self.predict_fulfil(fulfil),
            },
        };
        assert_eq!(outcome, expected, "for {fulfil:?}");
        if outcome != Outcome::FulfilVersionIgnored {
            self.take_answer(id, (true, *hash), outcome);
        }
    }

    fn predict_fulfil(&self, fulfil: &Fulfil) -> Outcome {
        let condition = self.transfers[&fulfil.id].condition;
        let fits = |preimage: &[u8; 32]| <[u8; 32]>::from(Sha256::digest(preimage)) == condition;
        match (fulfil.state, &fulfil.fulfilment) {
            (FulfilState::Aborted, _) if self.settings.put_aborted_aborts => Outcome::AbortedByPut,
            (FulfilState::Aborted, _) => Outcome::FulfilAbortedIgnored,
            (_, Fulfilment::Present(preimage)) if fits(preimage) => Outcome::Committed,
            _ => Outcome::FulfilmentInvalid,
        }
    }

    fn abort(&mut self, abort: &Abort, outcome: Outcome) {
        let Abort { id, source, destination, hash, .. } = abort;
        let expected = self
            .predict_answer(id, (false, *hash), (source, destination.as_ref()))
            .unwrap_or(match abort.code_is_known {
                true => Outcome::Aborted,
                false => Outcome::AbortedWithUnknownCode,
            });
        assert_eq!(outcome, expected, "for {abort:?}");
        self.take_answer(id, (false, *hash), outcome);
    }

    /// What becomes of an answer that cannot end its transfer; `None` if it can.
    fn predict_answer(
        &self,
        id: &TransferId,
        answer: (bool, ledger::Digest),
        (source, destination): (&FspName, Option<&FspName>),
    ) -> Option<Outcome> {
        let Some(transfer) = self.transfers.get(id) else {
            let funds = self.funds.contains_key(id) && !self.outflows.contains_key(id);
            return Some(match funds {
                true => Outcome::AnswerFromStranger,
                false => Outcome::AnswerTransferNotFound,
            });
        };
        if transfer.payee != *source || !self.participants.contains_key(source) {
            return Some(Outcome::AnswerFromStranger);
        }
        match (transfer.fate, transfer.answer) {
            (Fate::Reserved, _) => {
                let astray = destination.is_some_and(|to| *to != transfer.payer);
                astray.then_some(Outcome::AnswerToStranger)
            }
            (Fate::Ended(Outcome::Expired), None) => Some(Outcome::AnswerExpired),
            (Fate::Ended(Outcome::Expired), Some(_)) => Some(Outcome::AnswerStateNotReserved),
            (Fate::Ended(_), Some(taken)) if taken.0 == answer.0 && taken.1 == answer.1 => {
                Some(Outcome::AnswerResent)
            }
            (Fate::Ended(_), Some(taken)) if taken.0 == answer.0 => Some(Outcome::AnswerModified),
            (Fate::Ended(_), _) => Some(Outcome::AnswerStateNotReserved),
        }
    }

    fn take_answer(&mut self, id: &TransferId, answer: (bool, ledger::Digest), outcome: Outcome) {
        use Outcome::*;
        let ends = matches!(
            outcome,
            Committed
                | Aborted
                | AbortedWithUnknownCode
                | AbortedByPut
                | FulfilmentInvalid
                | AnswerToStranger
        );
        if ends {
            self.end(*id, outcome);
        }
        if ends || outcome == AnswerExpired {
            let transfer = self.transfers.get_mut(id).expect("it was found");
            transfer.answer = Some(answer);
        }
    }

    /// A transfer ends: once, and its money goes on or back.
    fn end(&mut self, id: TransferId, outcome: Outcome) {
        let transfer = self.transfers.get_mut(&id).expect("only a known transfer ends");
        assert_eq!(transfer.fate, Fate::Reserved, "{id} ended twice");
        transfer.fate = Fate::Ended(outcome);
        let Transfer { payer, payee, currency, amount, .. } = *transfer;
        let to = if outcome == Outcome::Committed { payee } else { payer };
        self.holding(to, currency).position -= amount;
        self.reserved -= 1;
    }

    fn holding(&mut self, name: FspName, currency: Currency) -> &mut Holding {
        self.holdings.get_mut(&(name, currency)).expect("the kernel accepted it")
    }

    fn administer(&mut self, change: &Change, outcome: Outcome) {
        self.take_request(change, outcome);
        self.catalogue.decide(change, outcome, |name| self.participants.contains_key(name));
        if let Change::MoveFunds(funds) = change
            && outcome == Outcome::FundsInsufficient
        {
            self.funds.insert(funds.id, ());
        }
        if outcome != Outcome::Accepted {
            return;
        }
        match change {
            Change::Configure(settings) => self.settings = *settings,
            Change::CreateParticipant { name, currency } => {
                self.participants.entry(*name).or_insert(true);
                let holding = Holding { position: 0, cover: 0, cap: 0, active: false };
                self.holdings.insert((*name, *currency), holding);
            }
            Change::SetParticipantActive { name, active } => {
                self.participants.insert(*name, *active);
            }
            Change::SetAccountActive { account, active, .. } => {
                let mut known = self.accounts.iter();
                let found = known.find(|(_, (position, _))| position == account);
                let (name, currency) = *found.expect("the kernel accepted it").0;
                self.holding(name, currency).active = *active;
            }
            Change::SetInitialPositionAndLimits { name, currency, limit, position } => {
                let holding = self.holding(*name, *currency);
                holding.cap = limit.units();
                holding.position += position.units();
                holding.active = true;
            }
            Change::SetLimit { name, currency, limit, .. } => {
                self.holding(*name, *currency).cap = limit.units();
            }
            Change::MoveFunds(_) | Change::EndFundsOut(_) => self.funds(change),
            _ => {}
        }
    }

    /// The same request to move funds is taken once, and known ever after.
    fn take_request(&mut self, change: &Change, outcome: Outcome) {
        let hash = match change {
            Change::MoveFunds(funds) => funds.hash,
            Change::EndFundsOut(end) => end.hash,
            _ => None,
        };
        let Some(hash) = hash else { return };
        let known = self.taken.contains(&hash.0);
        assert_eq!(outcome == Outcome::FundsRepeated, known, "for {change:?}: {outcome:?}");
        if let Change::MoveFunds(funds) = change {
            let modified = !known && self.knows(&funds.id);
            assert_eq!(outcome == Outcome::FundsModified, modified, "for {change:?}: {outcome:?}");
        }
        if matches!(outcome, Outcome::Accepted | Outcome::FundsInsufficient) {
            self.taken.insert(hash.0);
        }
    }

    fn funds(&mut self, change: &Change) {
        match change {
            Change::MoveFunds(funds) => {
                let amount = funds.amount.units();
                let new = self.funds.insert(funds.id, ()).is_none();
                assert!(new && !self.transfers.contains_key(&funds.id), "funds moved twice");
                let looks_at_position = self.settings.funds_out_covers_position;
                let holding = self.holding(funds.name, funds.currency);
                match funds.direction {
                    FundsDirection::In => holding.cover += amount,
                    FundsDirection::Out => {
                        holding.cover -= amount;
                        let owed = if looks_at_position { holding.position.max(0) } else { 0 };
                        assert!(owed <= holding.cover, "{} took out what it owes", funds.name);
                        let flow = (funds.name, funds.currency, amount);
                        self.outflows.insert(funds.id, flow);
                    }
                }
            }
            Change::EndFundsOut(end) => {
                let flow = self.outflows.remove(&end.id);
                let (name, currency, amount) = flow.expect("an outflow ends once");
                if !end.commit {
                    self.holding(name, currency).cover += amount;
                }
            }
            _ => {}
        }
    }
}

fn find(state: &State, (name, currency): (FspName, Currency)) -> (AccountId, AccountId) {
    let (_, participant) = state.register().find(&name).expect("the kernel created it");
    let held = participant.holding(currency).expect("the kernel created it");
    (held.position, held.settlement)
}
