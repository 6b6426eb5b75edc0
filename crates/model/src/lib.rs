//! An independent model of the hub that predicts outcomes, balances and notices from the rules.
//!
//! It is written from the documents (hub-semantics 2.2, 3.3 to 3.10, 4.1 to 4.5, 5 and the
//! rulings), not from the kernel. It shares the types of commands, outcomes and notices with the
//! kernel, but no code that decides. It uses plain maps and sums without indexes.
//!
//! It follows the log, each command with the stamp of its batch. It predicts the outcome of every
//! command, every balance, every notice in order with its content, and every withdrawn prepare. It
//! takes nothing from the kernel, not even the numbers of accounts, participants, notices and
//! oracles. The tests of the kernel, the simulator and the fuzz targets compare it with the kernel.
//! The auditor of `verify` does not use it and is a second opinion.
//!
//! # Phases and costs
//! [`Model::compare`] is the cheap comparison after each batch: notices, changed balances, windows
//! and settlements, results of changes, and the counts of transfers in flight, notices owed and
//! dead letters. [`Model::compare_in_full`] compares each participant, account, transfer, notice
//! owed, dead letter, window and settlement, and the sums of the open window. Memory: a few hundred
//! bytes per transfer.

mod alerts;
mod bulks;
mod directory;
mod enrolments;
mod erasures;
mod fees;
mod funds;
mod operators;
mod outbox;
mod proposals;
mod quotes;
mod reference_data;
mod scheme;
mod settlement;
mod transaction_requests;
mod transfers;

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    Activate, Amount, AssignParties, Change, ChangeParties, Command, Configure, Counters, Currency,
    DeliveryResult, DropDeadLetter, Effects, FeeRule, FinishedDelivery, FspName, NoticeId,
    NoticeKind, Outcome, PartyBinding, PartyChangeForm, PartyOwnership, Redeliver, RegisterParties,
    Settings, Stamp, State, TransferId,
};

use alerts::Alerts;
use bulks::Bulks;
use directory::Directory;
pub use directory::{DirectoryEntry, Identifier};
use enrolments::Enrolments;
use erasures::Erasures;
use fees::FEE_RULES;
use funds::FundsMovement;
use operators::Operators;
use outbox::{NoticeContent, Outbox};
use proposals::Proposals;
use quotes::Quotes;
use reference_data::ReferenceData;
use scheme::Scheme;
use settlement::Settlements;
use transaction_requests::TransactionRequests;
use transfers::{Transfer, TransferStatus};

/// Ten-thousandths of the currency's unit.
type Money = i128;

/// The newest version of the rules.
const RULES: u32 = 5;

/// The model of one hub.
#[derive(Clone, Debug)]
pub struct Model {
    stamp: Stamp,
    log_index: u64,
    hub: Option<FspName>,
    settings: Settings,
    rules: u32,
    scheme: Scheme,
    reference_data: ReferenceData,
    transfers: BTreeMap<TransferId, Transfer>,
    /// Reserved transfers, by deadline and then by prepare.
    deadlines: BTreeMap<(u64, u64, u32), TransferId>,
    bulks: Bulks,
    directory: Directory,
    movements: BTreeMap<TransferId, FundsMovement>,
    outbox: Outbox,
    settlement: Settlements,
    alerts: Alerts,
    fee_rules: Vec<FeeRule>,
    operators: Operators,
    proposals: Proposals,
    enrolments: Enrolments,
    erasures: Erasures,
    quotes: Quotes,
    requests: TransactionRequests,
    counters: Counters,
    reserved: usize,
    /// Number of reserved outflows that were returned.
    pub returned_outflows: u64,
    /// Number of transfers that a gross model settled when they were committed.
    pub settled_at_once: u64,
    /// Number of fees that were charged.
    pub fees_charged: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            stamp: Stamp(0),
            log_index: 0,
            hub: None,
            settings: Settings::default(),
            rules: RULES,
            scheme: Scheme::default(),
            reference_data: ReferenceData::default(),
            transfers: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            bulks: Bulks::new(),
            directory: Directory::default(),
            movements: BTreeMap::new(),
            outbox: Outbox::default(),
            settlement: Settlements::default(),
            alerts: Alerts::default(),
            fee_rules: Vec::new(),
            operators: Operators::default(),
            proposals: Proposals::default(),
            enrolments: Enrolments::default(),
            erasures: Erasures::default(),
            quotes: Quotes::default(),
            requests: TransactionRequests::default(),
            counters: Counters::default(),
            reserved: 0,
            returned_outflows: 0,
            settled_at_once: 0,
            fees_charged: 0,
        }
    }
}

impl Model {
    /// Predicts by this version of the rules, under which the log began.
    pub fn begin_under(&mut self, rules_version: u32) {
        assert_eq!(self.log_index, 0, "a log begins under one version of the rules");
        self.rules = rules_version;
    }

    /// Begins a batch: expires the transfers that are due by its stamp.
    pub fn begin(&mut self, stamp: Stamp) {
        assert!(self.stamp <= stamp, "the stamp went back from {:?} to {stamp:?}", self.stamp);
        self.stamp = stamp;
        self.outbox.begin();
        self.scheme.begin(stamp);
        self.settlement.begin();
        self.expire();
    }

    /// Predicts the outcome of the next command.
    pub fn decide(&mut self, command: &Command) -> Outcome {
        self.log_index += 1;
        match command {
            Command::Genesis(genesis) => {
                self.hub = Some(genesis.hub);
                self.scheme.add_participant(genesis.hub);
                self.begin_settlement();
                Outcome::Accepted
            }
            Command::Tick => Outcome::Accepted,
            Command::Prepare(prepare) => self.prepare(prepare),
            Command::Fulfil(fulfil) => self.fulfil(fulfil),
            Command::Abort(abort) => self.abort(abort),
            Command::PrepareBulk(bulk) => self.prepare_bulk(bulk),
            Command::FulfilBulk(bulk) => self.fulfil_bulk(bulk),
            Command::AbortBulk(bulk) => self.abort_bulk(bulk),
            Command::RecordQuote(quote) => self.record_quote(quote),
            Command::RecordQuoteAnswer(answer) => self.record_quote_answer(answer),
            Command::RecordRequestToPay(request) => self.record_request_to_pay(request),
            Command::FinishDeliveries(ends) => self.finish_deliveries(ends),
            Command::ChangeParties(change) => self.change_parties(change),
            Command::Administer(administer) => match self.must_be_approved(&administer.change) {
                true => Outcome::ApprovalRequired,
                false => administer.change.predict(self),
            },
        }
    }

    /// Ignores a record that its node wrote twice.
    pub fn skip_repeated(&mut self) -> Outcome {
        self.log_index += 1;
        Outcome::Repeated
    }

    /// Whether the transfer is known and the participant is its payer or payee.
    pub fn is_party(&self, id: &TransferId, name: &FspName) -> bool {
        self.transfers.get(id).is_some_and(|known| known.payer == *name || known.payee == *name)
    }

    /// Compares the last batch: changed balances and new notices.
    pub fn compare(&self, state: &State, effects: &Effects) {
        self.outbox.compare(effects);
        self.scheme.compare_touched(state);
        self.settlement.compare(state, effects);
        assert_eq!(state.reserved_transfer_count(), self.reserved, "transfers in flight");
        assert_eq!(state.notices_owed_count(), self.outbox.owed.len(), "notices owed");
        assert_eq!(state.dead_letter_count(), self.outbox.dead.len(), "dead letters");
        assert_eq!(*state.counters(), self.counters, "counters");
        let due = self.deadlines.keys().next().map(|(expiration_ms, ..)| *expiration_ms);
        assert_eq!(state.next_deadline().map(Stamp::millis), due, "the next deadline");
    }

    /// The ids of all transfers and movements of funds. [`Self::compare_in_full`] needs all of
    /// their rows in the state.
    pub fn ids(&self) -> impl Iterator<Item = &TransferId> {
        self.transfers.keys().chain(self.movements.keys()).chain(self.bulks.keys())
    }

    /// Compares every table of the state.
    pub fn compare_in_full(&self, state: &State) {
        assert_eq!(state.log_index().0, self.log_index, "the state is as far as the log");
        assert_eq!(*state.settings(), self.settings, "settings");
        assert_eq!(state.rules_version(), self.rules, "version of the rules");
        assert_eq!(*state.counters(), self.counters, "counters");
        self.scheme.compare(state);
        self.compare_internal(state);
        self.reference_data.compare(state);
        self.settlement.compare_in_full(state);
        self.alerts.compare(state);
        self.compare_fees(state);
        self.operators.compare(state);
        self.proposals.compare(state);
        self.enrolments.compare(state);
        self.erasures.compare(state);
        self.quotes.compare(state);
        self.requests.compare(state);
        self.outbox.compare_in_full(state);
        assert_eq!(state.reserved_transfer_count(), self.reserved, "transfers in flight");
        for (id, transfer) in &self.transfers {
            assert_eq!(state.view(id), Some(transfer.view()), "transfer {id}");
        }
        for (id, movement) in &self.movements {
            assert_eq!(state.view(id), Some(movement.view()), "movement of funds {id}");
        }
        let ended = self.transfers.len() - self.reserved + self.movements.len()
            - self.movements.values().filter(|movement| movement.is_reserved()).count();
        let ended = ended + self.ended_bulks();
        self.compare_bulks(state);
        assert_eq!(state.final_transfer_count(), ended, "transfers and movements that ended");
    }

    /// Each currency's visible and internal accounts sum to zero, and the internal ones equal the
    /// amounts in flight.
    fn compare_internal(&self, state: &State) {
        for (currency, sum) in state.accounts().sums() {
            assert_eq!(sum, Amount::ZERO, "the accounts of {currency} do not sum to zero");
            let reserved = self.transfers.values().filter(|one| one.is_reserved_in(currency));
            let reserved: Money = reserved.map(|transfer| transfer.amount).sum();
            let actual = state.accounts().in_flight(currency).units();
            assert_eq!(actual, reserved, "amount reserved in {currency}");
        }
    }

    /// Enqueues a notice. The hub owes itself none.
    fn enqueue_notice(
        &mut self,
        name: FspName,
        kind: NoticeKind,
        content: &NoticeContent,
    ) -> Option<NoticeId> {
        let recipient = self.scheme.participant_number(&name).filter(|index| *index != 0)?;
        Some(self.outbox.enqueue(recipient, kind, content))
    }

    /// The content of a notice about the current decision.
    fn notice_content(
        &self,
        transfer: TransferId,
        outcome: Outcome,
        trace: [u8; 16],
    ) -> NoticeContent {
        let (at, owed_at) = (self.stamp, self.stamp);
        NoticeContent {
            transfer: Some(transfer),
            outcome,
            trace,
            source: self.log_index,
            at,
            owed_at,
        }
    }

    /// Removes finished deliveries; permanently failed ones become dead letters.
    fn finish_deliveries(&mut self, ends: &[FinishedDelivery]) -> Outcome {
        for end in ends {
            if !self.outbox.finish_delivery(end) {
                continue;
            }
            match end.result {
                DeliveryResult::Delivered => self.counters.delivered += 1,
                DeliveryResult::GivenUp => self.counters.given_up += 1,
                DeliveryResult::Dead | DeliveryResult::Withdrawn => {}
            }
        }
        Outcome::Accepted
    }

    /// 2.2: any participant may register, and gets a callback.
    fn change_parties(&mut self, change: &ChangeParties) -> Outcome {
        if self.scheme.participant_number(&change.source).is_none() {
            return Outcome::RegistrarNotFound;
        }
        let (at, owed_at) = (self.stamp, self.stamp);
        let (trace, source, outcome) = (change.trace, self.log_index, Outcome::Accepted);
        let content = NoticeContent { transfer: None, outcome, trace, source, at, owed_at };
        self.enqueue_notice(change.source, NoticeKind::PartiesChanged, &content);
        let former = change.rule.iter().flat_map(|rule| &rule.former).map(|owner| owner.fsp);
        let others: BTreeSet<_> = former.filter(|fsp| *fsp != change.source).collect();
        for fsp in others {
            self.enqueue_notice(fsp, NoticeKind::PartiesChanged, &content);
        }
        let rule = change.rule.as_ref().map(|rule| rule.ownership);
        let owners = [PartyOwnership::OwnerOnly, PartyOwnership::OwnerPerCurrency];
        let own = rule.is_some_and(|rule| owners.contains(&rule)).then_some(change.source);
        for party in &change.parties {
            match change.form {
                PartyChangeForm::Single | PartyChangeForm::Batch => {
                    self.directory.register(party, rule, Some(change.source));
                }
                PartyChangeForm::Delete => self.directory.release(party, own),
            }
        }
        outcome
    }

    /// Moves a participant's POSITION. The counterpart of reserved or returned money is the hub's
    /// internal account.
    fn move_position(&mut self, name: &FspName, currency: Currency, by: Money) {
        let accounts = self.scheme.accounts_in(name, currency).expect("it was checked");
        let account = accounts.position;
        self.scheme.add(account, by);
    }
}

/// Whether a transfer with this end is COMMITTED; all others are ABORTED.
fn is_commit(status: TransferStatus) -> bool {
    status == TransferStatus::Ended(Outcome::Committed)
}

/// Predicts the outcome of a change by its own rules, and applies it.
trait Predict {
    fn predict(&self, model: &mut Model) -> Outcome;
}

/// Requires a prediction for every change.
macro_rules! predict_each {
    ($($change:ident),*) => {
        impl Predict for Change {
            fn predict(&self, model: &mut Model) -> Outcome {
                match self {
                    $( Self::$change(change) => change.predict(model), )*
                }
            }
        }
    };
}
ledger::for_each_change!(predict_each);

impl Predict for Configure {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.settings = self.settings;
        Outcome::Accepted
    }
}

/// Only newer, supported rules can be activated.
impl Predict for Activate {
    fn predict(&self, model: &mut Model) -> Outcome {
        if self.rules_version < model.rules || RULES < self.rules_version {
            return Outcome::RulesVersionRefused;
        }
        let before = std::mem::replace(&mut model.rules, self.rules_version);
        if before < FEE_RULES && FEE_RULES <= model.rules {
            model.scheme.open_fee_accounts();
        }
        model.begin_settlement();
        Outcome::Accepted
    }
}

/// 2.2: every FSP that is named must be a participant.
impl Predict for RegisterParties {
    fn predict(&self, model: &mut Model) -> Outcome {
        let is_fsp = |party: &PartyBinding| model.scheme.fsp(&party.fsp).is_some();
        if !self.parties.iter().all(is_fsp) {
            return Outcome::ParticipantNotFound;
        }
        self.parties.iter().for_each(|party| model.directory.register(party, None, None));
        Outcome::Accepted
    }
}

/// The same, and each FSP that loses an entry is owed one message.
impl Predict for AssignParties {
    fn predict(&self, model: &mut Model) -> Outcome {
        let is_fsp = |party: &PartyBinding| model.scheme.fsp(&party.fsp).is_some();
        if !self.parties.iter().all(is_fsp) {
            return Outcome::ParticipantNotFound;
        }
        let content = NoticeContent {
            transfer: None,
            outcome: Outcome::Accepted,
            trace: u128::from(model.log_index).to_be_bytes(),
            source: model.log_index,
            at: model.stamp,
            owed_at: model.stamp,
        };
        let former: BTreeSet<_> = self.former.iter().map(|owner| owner.fsp).collect();
        for fsp in former {
            model.enqueue_notice(fsp, NoticeKind::PartiesChanged, &content);
        }
        for party in &self.parties {
            match self.form {
                PartyChangeForm::Single | PartyChangeForm::Batch => {
                    model.directory.register(party, Some(PartyOwnership::LatestWins), None);
                }
                PartyChangeForm::Delete => model.directory.release(party, Some(party.fsp)),
            }
        }
        Outcome::Accepted
    }
}

impl Predict for DropDeadLetter {
    fn predict(&self, model: &mut Model) -> Outcome {
        match model.outbox.dead.remove(&self.notice.0) {
            Some(_) => Outcome::Accepted,
            None => Outcome::DeadLetterNotFound,
        }
    }
}

impl Predict for Redeliver {
    fn predict(&self, model: &mut Model) -> Outcome {
        match model.outbox.requeue(self.notice, model.stamp) {
            true => Outcome::Accepted,
            false => Outcome::DeadLetterNotFound,
        }
    }
}
