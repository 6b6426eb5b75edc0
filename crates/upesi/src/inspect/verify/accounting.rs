//! An account of a log kept apart from the kernel's: made from the commands and what was decided
//! about each, never from the kernel's sums.
//!
//! Of every decision it posts what that decision must move, ends what it must end, and notes what
//! it makes the hub owe. After each it holds the accounts that were touched and the counts against
//! the kernel's, every [`FULL_INTERVAL`] batches and at the end every account. The first difference
//! is kept, with its place; nothing after it is looked at.
//!
//! Memory: 25 bytes per transfer, or of a file ([`reserved`]), 200 per transfer in flight, 80 per
//! notice owed. Nothing of a message is kept.

mod id_hasher;
mod reserved_ids;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;

use fspiop::body::{self, TransferState};
use fspiop::stored_message::StoredSummary;
use ledger::{
    AccountId, AccountKind, Amount, ApplyStep, Command, Currency, DeliveryResult, Effects,
    FinishedDelivery, FspName, Fulfil, FulfilState, Fulfilment, FundsDirection, LogIndex,
    MoveFunds, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, PostingChange, Prepare,
    ResponseEnd, SetInitialPositionAndLimits, State, TransferId, TransferMessage,
};
use record::command::read_fields;
use record::frame::{Payload, Record, Records};
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::id_hasher::IdHasher;
use self::reserved_ids::Reserved;

/// Batches between two comparisons of all accounts.
const FULL_INTERVAL: u64 = 1_024;

/// What was counted; every figure is the audit's own.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Movements of money posted, each with two legs.
    pub(crate) postings: u64,
    /// Prepares that reserved, each found within cover and cap.
    pub(crate) reserved: u64,
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) expired: u64,
    /// Fulfilments hashed and found to be what their conditions ask for.
    pub(crate) fulfilments_hashed: u64,
    /// Stored messages whose digest was taken again.
    pub(crate) messages: u64,
    /// Messages of which only the digest is left.
    pub(crate) messages_erased: u64,
    /// Bodies of transfer messages read again and found to say what was decided on.
    pub(crate) bodies_compared: u64,
    /// Bodies that the rules of today do not take.
    pub(crate) bodies_unreadable: u64,
    /// Notices ever owed; the sum of the next five.
    pub(crate) notices: u64,
    pub(crate) notices_delivered: u64,
    pub(crate) notices_withdrawn: u64,
    pub(crate) notices_given_up: u64,
    pub(crate) notices_dead: u64,
    pub(crate) notices_pending: u64,
}

/// The first thing that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) log_index: LogIndex,
    pub(crate) transfer: Option<TransferId>,
    pub(crate) what: String,
}

/// The account of a log.
#[derive(Default)]
pub(crate) struct Audit {
    figures: Figures,
    finding: Option<Finding>,
    /// The record that is being decided.
    at: LogIndex,
    /// The transfer that it is about.
    about: Option<TransferId>,
    batches: u64,
    /// By number of the account.
    own: Vec<Amount>,
    touched: Vec<AccountId>,
    internal: HashMap<(Currency, AccountKind), AccountId>,
    open: HashMap<TransferId, Open, IdHasher>,
    /// By expiration, then by prepare.
    deadlines: BTreeMap<(u64, LogIndex), TransferId>,
    /// Every transfer that ever was in flight.
    reserved: Reserved,
    outflows: HashMap<TransferId, Amount>,
    owed: HashMap<NoticeId, Owed, IdHasher>,
    dead: HashSet<NoticeId, IdHasher>,
    /// Notices of this batch that were looked at.
    noticed: usize,
}

/// A notice that waits for its delivery.
struct Owed {
    transfer: Option<TransferId>,
    kind: NoticeKind,
}

/// A reserved transfer.
struct Open {
    payer: ParticipantIndex,
    payee: ParticipantIndex,
    payer_account: AccountId,
    payee_account: AccountId,
    currency: Currency,
    amount: Amount,
    condition: [u8; 32],
    expiration_ms: u64,
    prepare: LogIndex,
}

impl Audit {
    /// An account whose list of transfers goes to this file, which is empty.
    pub(crate) fn within(scratch: File) -> Self {
        Self { reserved: Reserved::within(scratch), ..Self::default() }
    }

    pub(crate) fn figures(&self) -> Figures {
        let pending = self.owed.len() as u64;
        Figures { notices_pending: pending, notices_dead: self.dead.len() as u64, ..self.figures }
    }

    pub(crate) fn finding(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    /// Why the file with the list of transfers cannot be written, if that is so.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.reserved.failure()
    }

    /// One moment of a replay; `records` are those of the frame, from the next one on.
    pub(crate) fn watch(
        &mut self,
        moment: ApplyStep<'_>,
        records: &mut Records<'_>,
        state: &State,
        effects: &Effects,
    ) {
        if self.finding.is_some() {
            return;
        }
        match moment {
            ApplyStep::Opened => {
                (self.at, self.about) = (LogIndex(state.log_index().0 + 1), None);
                self.noticed = 0;
            }
            ApplyStep::DeadlinesFired => {
                let new = &effects.notices[self.noticed..];
                self.expire_due(state, new);
                self.close_decision(state, effects);
            }
            ApplyStep::Expiring(_) | ApplyStep::Expired(_) => {}
            ApplyStep::Before(log_index, command) => {
                (self.at, self.about) = (log_index, command.rows().next().copied());
            }
            ApplyStep::After(_, command, outcome) => {
                let record = records.next();
                record.iter().for_each(|record| self.check_message(record, command));
                let new = &effects.notices[self.noticed..];
                self.follow(command, outcome, state, new);
                self.close_decision(state, effects);
            }
        }
    }

    /// The end of a batch.
    pub(crate) fn close_batch(&mut self, state: &State) {
        self.batches += 1;
        self.about = None;
        if self.batches.is_multiple_of(FULL_INTERVAL) {
            self.compare_all(state);
        }
    }

    /// The end of a decision, or of what deadlines brought about.
    fn close_decision(&mut self, state: &State, effects: &Effects) {
        self.note_new(effects);
        self.compare_touched(state);
        for (what, own, kernel) in [
            ("transfers are in flight", self.open.len(), state.transfers_in_flight()),
            ("notices are owed", self.owed.len(), state.notices_owed_count()),
            ("notices are dead letters", self.dead.len(), state.dead_letter_count()),
        ] {
            if own != kernel {
                self.find(None, format!("{own} {what} by this account, {kernel} by the kernel's"));
            }
        }
    }

    /// The end of the log: every account, every sum, every count, and that no transfer came twice.
    ///
    /// # Errors
    /// When the file with the list of transfers cannot be written or read: nothing is proved.
    pub(crate) fn close(&mut self, state: &State) -> io::Result<()> {
        if let Some((id, at)) = self.reserved.repeated()? {
            let what = "reserved again; it has ended before".into();
            self.finding.get_or_insert(Finding { log_index: at, transfer: Some(id), what });
        }
        self.compare_all(state);
        let (own, kernel) = (self.figures(), state.counters());
        for (what, own, kernel) in [
            ("reserved", own.reserved, kernel.reserved),
            ("committed", own.committed, kernel.committed),
            ("aborted", own.aborted, kernel.aborted),
            ("expired", own.expired, kernel.expired),
            ("delivered", own.notices_delivered, kernel.delivered),
            ("given up", own.notices_given_up, kernel.given_up),
        ] {
            if own != kernel {
                self.find(None, format!("{own} {what} by this account, {kernel} by the kernel's"));
            }
        }
        let ends = own.notices_delivered + own.notices_withdrawn + own.notices_given_up;
        if own.notices != ends + own.notices_dead + own.notices_pending {
            let what = format!("{} notices were owed, but {ends} have ended", own.notices);
            self.find(None, what);
        }
        Ok(())
    }

    fn find(&mut self, transfer: Option<TransferId>, what: String) {
        let (log_index, transfer) = (self.at, transfer.or(self.about));
        self.finding.get_or_insert(Finding { log_index, transfer, what });
    }

    /// What a decision must have brought about.
    fn follow(&mut self, command: &Command, outcome: Outcome, state: &State, new: &[Notice]) {
        self.check_sender(command, outcome, state, new);
        let is_accepted = outcome == Outcome::Accepted;
        match command {
            Command::Prepare(prepare) => {
                if outcome == Outcome::PrepareReserved {
                    self.reserve(prepare, state);
                    if prepare.expiration_ms <= state.stamp().millis() {
                        self.expire_due(state, new);
                    }
                }
            }
            Command::Fulfil(fulfil) => {
                if outcome == Outcome::Committed {
                    self.check_fulfilment(fulfil);
                }
                self.answered(&fulfil.id, outcome, state, new);
            }
            Command::Abort(abort) => self.answered(&abort.id, outcome, state, new),
            Command::FinishDeliveries(ends) => {
                ends.iter().filter(|_| is_accepted).for_each(|end| self.finish(end));
            }
            Command::Administer(administer) => {
                if let Some(change) = administer.change.posting().filter(|_| is_accepted) {
                    self.post_change(change, state);
                }
            }
            Command::Genesis(_) | Command::Tick | Command::ChangeParties(_) => {}
        }
    }

    /// An unknown sender changes nothing, and nobody else is taken for one.
    fn check_sender(&mut self, command: &Command, outcome: Outcome, state: &State, new: &[Notice]) {
        let Some(source) = command.message().map(TransferMessage::source) else { return };
        let is_known = is_participant(state, source);
        let is_ignored = outcome == Outcome::SenderNotFound;
        let is_nothing =
            is_ignored || matches!(outcome, Outcome::Repeated | Outcome::FulfilVersionIgnored);
        let what = match is_known {
            true if is_ignored => "ignored although its sender is a participant",
            false if !is_nothing || !new.is_empty() => {
                "decided although its sender is not a participant"
            }
            _ => return,
        };
        self.find(None, what.into());
    }

    fn reserve(&mut self, prepare: &Prepare, state: &State) {
        let found = |name| {
            let (index, participant) = state.register().find(name)?;
            Some((index, *participant.holding(prepare.currency)?))
        };
        let (Some((payer, holding)), Some((payee, payee_holding))) =
            (found(&prepare.payer), found(&prepare.payee))
        else {
            return self.find(Some(prepare.id), "reserved between unknown accounts".into());
        };
        self.reserved.insert(&prepare.id, self.at);
        let in_flight = self.internal(AccountKind::InFlight, prepare.currency, state);
        self.post(holding.position, in_flight, prepare.amount);
        let (after, cover) = (self.value(holding.position), -self.value(holding.settlement));
        let cap = holding.limit.map_or(Amount::ZERO, |limit| limit.value);
        if after > cover || after > cap {
            let what = format!(
                "reserved although the position of {} then is {after}, with cover {cover} and cap \
                 {cap}",
                prepare.payer.as_str()
            );
            self.find(Some(prepare.id), what);
        }
        let open = Open {
            payer,
            payee,
            payer_account: holding.position,
            payee_account: payee_holding.position,
            currency: prepare.currency,
            amount: prepare.amount,
            condition: prepare.condition,
            expiration_ms: prepare.expiration_ms,
            prepare: self.at,
        };
        self.deadlines.insert((open.expiration_ms, open.prepare), prepare.id);
        if self.open.insert(prepare.id, open).is_some() {
            self.find(Some(prepare.id), "reserved twice".into());
        }
        self.figures.reserved += 1;
    }

    fn check_fulfilment(&mut self, fulfil: &Fulfil) {
        let Some(open) = self.open.get(&fulfil.id) else { return };
        let hashed = match fulfil.fulfilment {
            Fulfilment::Present(preimage) => Some(<[u8; 32]>::from(Sha256::digest(preimage))),
            Fulfilment::Absent | Fulfilment::Undecodable => None,
        };
        if hashed == Some(open.condition) {
            self.figures.fulfilments_hashed += 1;
        } else {
            let prepare = open.prepare.0;
            let what = format!(
                "committed by a fulfilment whose SHA-256 is not the condition of record {prepare}"
            );
            self.find(Some(fulfil.id), what);
        }
    }

    /// An answer ends its transfer, or leaves it as it is.
    fn answered(&mut self, id: &TransferId, outcome: Outcome, state: &State, new: &[Notice]) {
        if is_end(outcome) {
            self.end(id, outcome, state, new);
        }
    }

    /// The one end of a transfer.
    fn end(&mut self, id: &TransferId, outcome: Outcome, state: &State, new: &[Notice]) {
        let Some(open) = self.open.remove(id) else {
            let what = match self.reserved.contains(id) {
                true => "has two ends: this one and one before",
                false => "ended without having been reserved",
            };
            return self.find(Some(*id), what.into());
        };
        self.deadlines.remove(&(open.expiration_ms, open.prepare));
        let in_flight = self.internal(AccountKind::InFlight, open.currency, state);
        let (to, count) = if outcome == Outcome::Committed {
            (open.payee_account, &mut self.figures.committed)
        } else if outcome == Outcome::Expired {
            (open.payer_account, &mut self.figures.expired)
        } else {
            (open.payer_account, &mut self.figures.aborted)
        };
        *count += 1;
        self.post(in_flight, to, open.amount);
        let told = |who| new.iter().any(|one| one.transfer == Some(*id) && one.recipient == who);
        let both = matches!(outcome, Outcome::Expired | Outcome::ResponseNotToPayer);
        if !told(open.payer) || (both && !told(open.payee)) {
            self.find(Some(*id), "ended, and no notice to its parties is owed".into());
        }
        let is_error = |one: &&Notice| {
            one.transfer == Some(*id) && one.kind == NoticeKind::Error && one.outcome == outcome
        };
        let to_payer = |one: &&Notice| one.recipient == open.payer;
        if 1 < new.iter().filter(is_error).filter(to_payer).count() {
            self.find(Some(*id), "ended, and its payer is owed the same notice twice".into());
        }
    }

    fn expire_due(&mut self, state: &State, new: &[Notice]) {
        let now = state.stamp().millis();
        if self.deadlines.first_key_value().is_none_or(|(key, _)| now < key.0) {
            return;
        }
        let mut about: HashMap<TransferId, Vec<Notice>> = HashMap::new();
        for one in new {
            let Some(transfer) = one.transfer else { continue };
            about.entry(transfer).or_default().push(*one);
        }
        while let Some((&key, &id)) = self.deadlines.first_key_value() {
            if now < key.0 {
                return;
            }
            self.deadlines.remove(&key);
            self.end(&id, Outcome::Expired, state, about.get(&id).map_or(&[], Vec::as_slice));
        }
    }

    fn finish(&mut self, end: &FinishedDelivery) {
        let Some(owed) = self.owed.remove(&end.notice) else { return };
        if !self.is_end_of(&owed, end) {
            let what = format!(
                "its notice {} ({:?}) counts as {:?} after {} attempts and status {}",
                end.notice.0, owed.kind, end.result, end.attempts, end.status
            );
            self.find(owed.transfer, what);
        }
        match end.result {
            DeliveryResult::Delivered => self.figures.notices_delivered += 1,
            DeliveryResult::Withdrawn => self.figures.notices_withdrawn += 1,
            DeliveryResult::GivenUp => self.figures.notices_given_up += 1,
            DeliveryResult::Dead => drop(self.dead.insert(end.notice)),
        }
    }

    /// Whether a delivery can have ended so. Withdrawn is only a prepare that was never sent, of a
    /// transfer that has ended. Given up is such a prepare that was sent, or an answer to a
    /// registration. Every other notice is delivered or a dead letter.
    fn is_end_of(&self, owed: &Owed, end: &FinishedDelivery) -> bool {
        let taken = (200..=299).contains(&end.status);
        let failed = !taken && (0 < end.attempts || end.status == 0);
        let is_open = owed.transfer.is_some_and(|transfer| self.open.contains_key(&transfer));
        let is_stale = owed.kind == NoticeKind::Prepare && !is_open;
        match end.result {
            DeliveryResult::Delivered => 0 < end.attempts && taken,
            DeliveryResult::Dead => failed && owed.transfer.is_some(),
            DeliveryResult::Withdrawn => is_stale && end.attempts == 0,
            DeliveryResult::GivenUp => failed && (is_stale || owed.transfer.is_none()),
        }
    }

    /// Notices that the last decision made the hub owe, or owe again.
    fn note_new(&mut self, effects: &Effects) {
        for notice in &effects.notices[self.noticed..] {
            let again = !self.dead.is_empty() && self.dead.remove(&notice.id);
            self.figures.notices += u64::from(!again);
            let owed = Owed { transfer: notice.transfer, kind: notice.kind };
            if self.owed.insert(notice.id, owed).is_some() {
                let what = format!("notice {} is owed twice", notice.id.0);
                self.find(notice.transfer, what);
            }
        }
        self.noticed = effects.notices.len();
    }

    fn post_change(&mut self, change: PostingChange<'_>, state: &State) {
        match change {
            PostingChange::MoveFunds(funds) => self.move_funds(funds, state),
            PostingChange::EndFundsOut(end) => {
                let Some(amount) = self.outflows.remove(&end.id) else {
                    let what = "an outflow ended that was not reserved".into();
                    return self.find(Some(end.id), what);
                };
                let held = state.books().get(end.account).map(|account| account.currency);
                let Some(currency) = held else { return };
                let outflow = self.internal(AccountKind::Outflow, currency, state);
                let to = match end.commit {
                    true => self.internal(AccountKind::HubReconciliation, currency, state),
                    false => end.account,
                };
                self.post(outflow, to, amount);
            }
            PostingChange::SetInitialPositionAndLimits(change) => {
                let SetInitialPositionAndLimits { name, currency, position, .. } = change;
                let found = state.register().find(name);
                let holding = found.and_then(|(_, participant)| participant.holding(*currency));
                let Some(holding) = holding.filter(|_| *position != Amount::ZERO) else { return };
                let opening = self.internal(AccountKind::Opening, *currency, state);
                self.post(holding.position, opening, *position);
            }
        }
    }

    fn move_funds(&mut self, funds: &MoveFunds, state: &State) {
        let (debit, credit) = match funds.direction {
            FundsDirection::In => {
                let hub = self.internal(AccountKind::HubReconciliation, funds.currency, state);
                (hub, funds.account)
            }
            FundsDirection::Out => {
                self.outflows.insert(funds.id, funds.amount);
                (funds.account, self.internal(AccountKind::Outflow, funds.currency, state))
            }
        };
        self.post(debit, credit, funds.amount);
    }

    fn post(&mut self, debit: AccountId, credit: AccountId, amount: Amount) {
        self.figures.postings += 1;
        for (account, change) in [(debit, amount), (credit, -amount)] {
            let at = account.0 as usize;
            if self.own.len() <= at {
                self.own.resize(at + 1, Amount::ZERO);
            }
            match self.own[at].checked_add(change) {
                Some(sum) => self.own[at] = sum,
                None => self.find(None, format!("account {at} leaves the range of the ledger")),
            }
            self.touched.push(account);
        }
    }

    fn value(&self, account: AccountId) -> Amount {
        self.own.get(account.0 as usize).copied().unwrap_or(Amount::ZERO)
    }

    /// The hub's account of this kind. Which number it has is looked up, what it holds never.
    fn internal(&mut self, kind: AccountKind, currency: Currency, state: &State) -> AccountId {
        *self.internal.entry((currency, kind)).or_insert_with(|| {
            let mut accounts = state.books().iter();
            let found = accounts
                .find(|account| (account.kind, account.currency) == (kind, currency))
                .map(|account| account.id);
            found.expect("a currency has its internal accounts before money moves in it")
        })
    }

    fn compare_touched(&mut self, state: &State) {
        while let Some(account) = self.touched.pop() {
            self.compare(account, state);
        }
    }

    fn compare(&mut self, id: AccountId, state: &State) {
        let own = self.value(id);
        let Some(account) = state.books().get(id).filter(|account| account.value != own) else {
            return;
        };
        let owner = state.register().get(account.owner).name;
        let what = format!(
            "account {} ({:?} of {} in {}) has the value {}, but its postings add up to {own}",
            id.0,
            account.kind,
            owner.as_str(),
            account.currency,
            account.value
        );
        self.find(None, what);
    }

    fn compare_all(&mut self, state: &State) {
        let mut sums: HashMap<Currency, i128> = HashMap::new();
        for account in state.books().iter() {
            *sums.entry(account.currency).or_default() += account.value.units();
            self.compare(account.id, state);
        }
        let mut held: HashMap<Currency, i128> = HashMap::new();
        for open in self.open.values() {
            *held.entry(open.currency).or_default() += open.amount.units();
        }
        for (currency, sum) in sums {
            let sum = Amount::from_units(sum);
            let open = Amount::from_units(held.get(&currency).copied().unwrap_or(0));
            let in_flight = state.books().in_flight(currency);
            if sum != Amount::ZERO {
                self.find(None, format!("the accounts of {currency} sum to {sum}, not to zero"));
            } else if open != in_flight {
                let what = format!("{in_flight} {currency} are held in flight, for {open}");
                self.find(None, what);
            }
        }
    }

    /// The message is the one that was stored, and says what the kernel was told.
    fn check_message(&mut self, record: &Record<'_>, command: &Command) {
        let transfer = transfer_of(command);
        let stored = match record.payload {
            Payload::None if transfer.is_none() => return,
            Payload::None => return self.find(transfer, "no message is stored with it".into()),
            Payload::Erased => return self.figures.messages_erased += 1,
            Payload::Stored(stored) => stored,
        };
        self.figures.messages += 1;
        if !record.verify_payload() {
            let what = "the stored message is not the one that its digest was taken of";
            return self.find(transfer, what.into());
        }
        let Some((_, hash)) = transfer.zip(command.message().map(TransferMessage::hash)) else {
            return;
        };
        let Ok(stated) = fspiop::stored_message::stated(stored) else {
            return self.find(transfer, "the stored message cannot be read".into());
        };
        let body = stated.body;
        if !names_the_same(&stated, command) {
            let what = "the stored headers name other participants than what was decided on";
            return self.find(transfer, what.into());
        }
        if fspiop::body_hash(body) != hash.0 {
            let what = "the stored body is not the one that the hash of the record was taken of";
            return self.find(transfer, what.into());
        }
        match says_the_same(body, command) {
            None => self.figures.bodies_unreadable += 1,
            Some(true) => self.figures.bodies_compared += 1,
            Some(false) => {
                let what = "the stored body differs from the decoded fields of the record";
                self.find(transfer, what.into());
            }
        }
    }
}

/// The first of a damaged frame's records that does not say what its message does, and its transfer
/// by whichever of the two is as it was written.
pub(crate) fn first_untrue<'a>(records: impl Iterator<Item = Record<'a>>) -> Option<Finding> {
    let mut audit = Audit::default();
    for record in records {
        audit.at = record.log_index;
        match read_fields(record.kind, record.version, record.fields) {
            Ok(command) => audit.check_message(&record, &command),
            Err(error) => audit.find(None, format!("its fields: {error}")),
        }
        if let Some(finding) = audit.finding {
            let transfer = transfer_of_body(&record).or(finding.transfer);
            return Some(Finding { transfer, ..finding });
        }
    }
    None
}

/// The transfer that a stored prepare is about, by its body.
fn transfer_of_body(record: &Record<'_>) -> Option<TransferId> {
    let Payload::Stored(stored) = record.payload else { return None };
    let stated = fspiop::stored_message::stated(stored).ok().filter(|_| record.verify_payload())?;
    body::Prepare::parse(stated.body).ok().map(|prepare| prepare.transfer)
}

/// The transfer that a message is about.
pub(crate) fn transfer_of(command: &Command) -> Option<TransferId> {
    command.message().map(|message| *message.transfer())
}

/// Whether the outcome of an answer ends its transfer.
pub(crate) fn is_end(outcome: Outcome) -> bool {
    ResponseEnd::of(outcome).is_some()
}

/// Whether the name is a participant's, in whatever case. The hub is none.
fn is_participant(state: &State, name: &FspName) -> bool {
    let mut others = state.register().iter().skip(1);
    let exact = state.register().find(name);
    exact.is_some_and(|(index, _)| index != ParticipantIndex::HUB)
        || others.any(|(_, participant)| participant.name.matches(name))
}

/// Whether the headers say from whom to whom the command is. A prepare goes to its payee, whatever
/// they say.
fn names_the_same(stated: &StoredSummary<'_>, command: &Command) -> bool {
    let Some(message) = command.message() else { return true };
    let source = message.source();
    let destination = match message {
        TransferMessage::Prepare(_) => None,
        TransferMessage::Fulfil(fulfil) => Some(fulfil.destination),
        TransferMessage::Abort(abort) => Some(abort.destination),
    };
    let written = |name: Option<FspName>| {
        let written = name.as_ref().map_or("", FspName::as_str);
        written.as_bytes() == stated.destination
    };
    stated.source == source.as_str().as_bytes() && destination.is_none_or(written)
}

/// Whether a body says what the command has; `None` if the rules of today do not take the body.
fn says_the_same(body: &[u8], command: &Command) -> Option<bool> {
    let Some(message) = command.message() else { return Some(true) };
    match message {
        TransferMessage::Prepare(prepare) => {
            let read = body::Prepare::parse(body).ok()?;
            let said = (read.transfer, read.payer, read.payee, read.condition, read.expiration_ms);
            let taken = (
                prepare.id,
                prepare.payer,
                prepare.payee,
                prepare.condition,
                prepare.expiration_ms,
            );
            let money = (read.amount.amount, read.amount.currency);
            Some(said == taken && money == (prepare.amount, prepare.currency))
        }
        TransferMessage::Fulfil(fulfil) => {
            let read = body::Fulfil::parse(body).ok()?;
            let state = states_the_same(read.state, fulfil.state);
            match (read.fulfilment, fulfil.fulfilment) {
                (Some(said), Fulfilment::Present(taken)) => Some(said == taken && state),
                (None, Fulfilment::Absent) => Some(state),
                // What earlier rules did not read, those of today do.
                (Some(_), Fulfilment::Undecodable) => None,
                _ => Some(false),
            }
        }
        TransferMessage::Abort(abort) => {
            let read = body::ErrorInformation::parse(body).ok()?;
            Some(read.code.is_accepted() == abort.code_is_known)
        }
    }
}

/// Whether a body's state is the one decided on. Which version it came under is not looked at.
fn states_the_same(read: TransferState, taken: FulfilState) -> bool {
    match read {
        TransferState::Committed | TransferState::Received => taken == FulfilState::Committed,
        TransferState::Aborted => taken == FulfilState::Aborted,
        TransferState::Reserved => {
            matches!(taken, FulfilState::Reserved | FulfilState::ReservedUnderVersion10)
        }
    }
}

#[cfg(test)]
mod tests;
