//! Independent accounts of a log, computed from the commands and their outcomes, never from the
//! kernel's balances.
//!
//! For every decision the audit posts the amounts that the decision must move, ends its transfers
//! and tracks its notices. After each decision it compares the changed accounts and the counts with
//! the kernel's; every [`FULL_INTERVAL`] batches and at the end, every account. It keeps the first
//! difference with its location and stops there.
//!
//! Memory: 25 bytes per transfer in memory or in a file ([`reserved_ids`]), 200 bytes per transfer
//! in flight, 80 bytes per owed notice. No messages are kept.

mod fees;
mod id_hasher;
mod reserved_ids;
mod windows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;

use fspiop::body::{self, TransferState};
use fspiop::stored_message::StoredSummary;
use ledger::{
    AccountId, AccountKind, AdjustBalance, Amount, ApplyStep, Change, Command, Currency,
    DeliveryResult, Effects, FinishedDelivery, FspName, Fulfil, FulfilState, Fulfilment,
    FundsDirection, LogIndex, MoveFunds, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex,
    PostingChange, Prepare, ResponseEnd, SetInitialPositionAndLimits, State, TransferChange,
    TransferId, TransferMessage, WindowChange,
};
use record::command::read_fields;
use record::frame::{Payload, Record, Records};
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::fees::{FeeRules, OpenFee};
use self::id_hasher::IdHasher;
use self::reserved_ids::ReservedIds;
use self::windows::{Movement, Windows, account_of, gross_account};
use crate::cli::units::counted;

/// Batches between two comparisons of all accounts.
const FULL_INTERVAL: u64 = 1_024;

/// Counts of the audit, independent of the kernel's.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Postings, each with two legs.
    pub(crate) postings: u64,
    /// Reserved transfers, each checked against cover and cap.
    pub(crate) reserved: u64,
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) expired: u64,
    /// Fulfilments whose hash equals the condition.
    pub(crate) fulfilments_hashed: u64,
    /// Stored messages whose digest was verified.
    pub(crate) messages: u64,
    /// Erased messages, of which the log has only the digest.
    pub(crate) messages_erased: u64,
    /// Bodies of transfer messages that equal the decoded fields.
    pub(crate) bodies_compared: u64,
    /// Bodies that the present parser rejects.
    pub(crate) bodies_unreadable: u64,
    /// All notices; the sum of the next six.
    pub(crate) notices: u64,
    pub(crate) notices_delivered: u64,
    pub(crate) notices_withdrawn: u64,
    pub(crate) notices_given_up: u64,
    pub(crate) notices_dead: u64,
    /// Dead letters that an operator dropped.
    pub(crate) notices_dropped: u64,
    pub(crate) notices_pending: u64,
    /// Commits that a gross model settled at once.
    pub(crate) settled_at_once: u64,
    /// Interchange fees, each posted with the commit of its transfer.
    pub(crate) fees: u64,
    /// Commits in windows, closed or open.
    pub(crate) transfers_in_windows: u64,
    /// Windows closed, the nets of each found to sum to zero.
    pub(crate) windows_closed: u64,
    /// Windows of which each content was settled, once.
    pub(crate) windows_settled: u64,
    /// Settlements created; the sum of the next two and of those under way.
    pub(crate) settlements: u64,
    pub(crate) settlements_settled: u64,
    pub(crate) settlements_aborted: u64,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) log_index: LogIndex,
    pub(crate) transfer: Option<TransferId>,
    pub(crate) what: String,
}

/// Independent accounts of a log.
#[derive(Default)]
pub(crate) struct Audit {
    figures: Figures,
    finding: Option<Finding>,
    /// The present record.
    at: LogIndex,
    /// Its transfer.
    transfer: Option<TransferId>,
    batches: u64,
    /// Balances by account number.
    balances: Vec<Amount>,
    /// Accounts that the present decision changed.
    changed: Vec<AccountId>,
    internal: HashMap<(Currency, AccountKind), AccountId>,
    /// Reserved transfers.
    open: HashMap<TransferId, OpenTransfer, IdHasher>,
    /// By expiration, then by prepare.
    deadlines: BTreeMap<(u64, LogIndex, u64), TransferId>,
    /// Whether the current decision is about an item of a bulk.
    is_item: bool,
    /// All transfers that were ever reserved.
    reserved: ReservedIds,
    outflows: HashMap<TransferId, Amount>,
    owed: HashMap<NoticeId, OpenNotice, IdHasher>,
    dead: HashSet<NoticeId, IdHasher>,
    windows: Windows,
    fee_rules: FeeRules,
    /// Number of notices of this batch that were processed.
    noticed: usize,
}

/// A pending notice.
struct OpenNotice {
    transfer: Option<TransferId>,
    kind: NoticeKind,
}

/// A reserved transfer.
struct OpenTransfer {
    payer: ParticipantIndex,
    payee: ParticipantIndex,
    payer_account: AccountId,
    payee_account: AccountId,
    currency: Currency,
    amount: Amount,
    condition: [u8; 32],
    expiration_ms: u64,
    prepare: LogIndex,
    /// Number of the reservation. Items of a bulk share a prepare.
    ordinal: u64,
    /// An item of a bulk has no notice: the bulk has.
    is_item: bool,
    fee: Option<Box<OpenFee>>,
}

impl OpenTransfer {
    fn deadline(&self) -> (u64, LogIndex, u64) {
        (self.expiration_ms, self.prepare, self.ordinal)
    }
}

impl Audit {
    /// An audit whose list of transfers is kept in an empty file.
    pub(crate) fn with_file(scratch: File) -> Self {
        Self { reserved: ReservedIds::with_file(scratch), ..Self::default() }
    }

    pub(crate) fn figures(&self) -> Figures {
        let windows = self.windows.counts();
        Figures {
            notices_pending: self.owed.len() as u64,
            notices_dead: self.dead.len() as u64,
            transfers_in_windows: windows.added,
            windows_closed: windows.closed,
            windows_settled: windows.settled,
            settlements: windows.settlements,
            settlements_settled: windows.settlements_settled,
            settlements_aborted: windows.settlements_aborted,
            ..self.figures
        }
    }

    pub(crate) fn finding(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    /// The error of the file with the list of transfers.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.reserved.failure()
    }

    /// Follows one step of a replay; `records` are the remaining ones of the frame.
    pub(crate) fn watch(
        &mut self,
        step: ApplyStep<'_>,
        records: &mut Records<'_>,
        state: &State,
        effects: &Effects,
    ) {
        if self.finding.is_some() {
            return;
        }
        match step {
            ApplyStep::Opened => {
                (self.at, self.transfer) = (LogIndex(state.log_index().0 + 1), None);
                self.noticed = 0;
            }
            ApplyStep::DeadlinesFired => {
                let new = &effects.notices[self.noticed..];
                self.expire_due(state, new);
                self.close_decision(state, effects);
            }
            ApplyStep::Expiring(_) | ApplyStep::Expired(_) => {}
            ApplyStep::Before(log_index, command) | ApplyStep::ItemBefore(log_index, command) => {
                self.is_item = matches!(step, ApplyStep::ItemBefore(..));
                (self.at, self.transfer) = (log_index, command.rows().next().copied());
            }
            ApplyStep::ItemAfter(_, command, outcome) => {
                let new = &effects.notices[self.noticed..];
                self.follow(command, outcome, state, new);
                self.close_decision(state, effects);
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

    /// Ends a batch.
    pub(crate) fn close_batch(&mut self, state: &State) {
        self.batches += 1;
        self.transfer = None;
        if self.batches.is_multiple_of(FULL_INTERVAL) {
            self.compare_all(state);
        }
    }

    /// Compares with the kernel after a decision, or after the processing of deadlines.
    fn close_decision(&mut self, state: &State, effects: &Effects) {
        self.add_notices(effects);
        self.compare_changed(state);
        for (what, own, kernel) in [
            ("transfers in flight", self.open.len(), state.reserved_transfer_count()),
            ("notices owed", self.owed.len(), state.notices_owed_count()),
            ("dead letters", self.dead.len(), state.dead_letter_count()),
        ] {
            if own != kernel {
                self.find(
                    None,
                    format!("{own} {what} according to the audit, {kernel} in the kernel"),
                );
            }
        }
    }

    /// Ends the log: compares every account, sum and count, and checks that no transfer was
    /// reserved twice.
    ///
    /// # Errors
    /// The file with the list of transfers cannot be written or read. Nothing is proved then.
    pub(crate) fn close(&mut self, state: &State) -> io::Result<()> {
        if let Some((id, at)) = self.reserved.repeated()? {
            let what = "reserved again after its end".into();
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
                self.find(
                    None,
                    format!("{own} {what} according to the audit, {kernel} in the kernel"),
                );
            }
        }
        let ends = own.notices_delivered + own.notices_withdrawn + own.notices_given_up;
        let dead = own.notices_dead + own.notices_dropped;
        if own.notices != ends + dead + own.notices_pending {
            let what = format!("{} notices were created, but {ends} have ended", own.notices);
            self.find(None, what);
        }
        let open = state.settlement().numbers().window;
        let compared = self.windows.compare_open(state, open);
        self.note(compared);
        Ok(())
    }

    /// Records a fault of a window or settlement.
    fn note<T>(&mut self, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|what| self.find(None, what)).ok()
    }

    fn find(&mut self, transfer: Option<TransferId>, what: String) {
        let (log_index, transfer) = (self.at, transfer.or(self.transfer));
        self.finding.get_or_insert(Finding { log_index, transfer, what });
    }

    /// Applies the effects that a decision must have.
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
                self.apply_response(&fulfil.id, outcome, state, new);
            }
            Command::Abort(abort) => self.apply_response(&abort.id, outcome, state, new),
            Command::FinishDeliveries(ends) => {
                ends.iter().filter(|_| is_accepted).for_each(|end| self.finish(end));
            }
            Command::Administer(administer) => {
                if let Some(change) = administer.change.posting().filter(|_| is_accepted) {
                    self.post_change(change, state);
                }
                if is_accepted {
                    self.drop_letter(&administer.change);
                    self.follow_windows(&administer.change, state);
                    let followed = self.fee_rules.follow(&administer.change);
                    self.note(followed);
                }
            }
            Command::Genesis(_) => self.windows.begin(state.rules_version()),
            // The items of a bulk are followed one by one.
            Command::Tick
            | Command::ChangeParties(_)
            | Command::PrepareBulk(_)
            | Command::FulfilBulk(_)
            | Command::AbortBulk(_)
            | Command::RecordQuote(_)
            | Command::RecordQuoteAnswer(_)
            | Command::RecordRequestToPay(_) => {}
        }
    }

    /// Checks that messages of unknown senders, and only those, are ignored.
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
        let accounts_of = |name| {
            let (index, participant) = state.registry().find(name)?;
            Some((index, *participant.accounts_in(prepare.currency)?))
        };
        let (Some((payer, holding)), Some((payee, payee_holding))) =
            (accounts_of(&prepare.payer), accounts_of(&prepare.payee))
        else {
            return self.find(Some(prepare.id), "reserved between unknown accounts".into());
        };
        self.reserved.insert(&prepare.id, self.at);
        let in_flight = self.internal(AccountKind::InFlight, prepare.currency, state);
        self.post(holding.position, in_flight, prepare.amount);
        let (after, cover) = (self.value(holding.position), -self.value(holding.settlement));
        let cap = holding.net_debit_cap.map_or(Amount::ZERO, |cap| cap.value);
        if after > cover || after > cap {
            let what = format!(
                "reserved although the position of {} becomes {after}, with cover {cover} and cap \
                 {cap}",
                prepare.payer.as_str()
            );
            self.find(Some(prepare.id), what);
        }
        let open = OpenTransfer {
            payer,
            payee,
            payer_account: holding.position,
            payee_account: payee_holding.position,
            currency: prepare.currency,
            amount: prepare.amount,
            condition: prepare.condition,
            expiration_ms: prepare.expiration_ms,
            prepare: self.at,
            ordinal: self.figures.reserved,
            is_item: self.is_item,
            fee: self.fee_rules.fee_of(prepare, (payer, payee), state),
        };
        self.deadlines.insert(open.deadline(), prepare.id);
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
                "committed with a fulfilment whose SHA-256 is not the condition of record {prepare}"
            );
            self.find(Some(fulfil.id), what);
        }
    }

    /// A response ends its transfer or does not change it.
    fn apply_response(&mut self, id: &TransferId, outcome: Outcome, state: &State, new: &[Notice]) {
        if is_end(outcome) {
            self.end(id, outcome, state, new);
        }
    }

    /// Ends a transfer, which can end once.
    fn end(&mut self, id: &TransferId, outcome: Outcome, state: &State, new: &[Notice]) {
        let Some(open) = self.open.remove(id) else {
            let what = match self.reserved.contains(id) {
                true => "has two final states: this one and an earlier one",
                false => "ended without a reservation",
            };
            return self.find(Some(*id), what.into());
        };
        self.deadlines.remove(&open.deadline());
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
        if outcome == Outcome::Committed && self.windows.are_open() {
            self.settle(&open, state);
            if let Some(fee) = &open.fee {
                self.charge(fee);
            }
        }
        let is_notified =
            |party| new.iter().any(|one| one.transfer == Some(*id) && one.recipient == party);
        let is_for_both = matches!(outcome, Outcome::Expired | Outcome::ResponseNotToPayer);
        if open.is_item {
            return;
        }
        if !is_notified(open.payer) || (is_for_both && !is_notified(open.payee)) {
            self.find(Some(*id), "ended without a notice to its parties".into());
        }
        let is_error = |one: &&Notice| {
            one.transfer == Some(*id) && one.kind == NoticeKind::Error && one.outcome == outcome
        };
        let to_payer = |one: &&Notice| one.recipient == open.payer;
        if 1 < new.iter().filter(is_error).filter(to_payer).count() {
            self.find(Some(*id), "ended with the same notice to its payer twice".into());
        }
    }

    /// A commit is settled at once by a gross model, or enters the open window.
    fn settle(&mut self, open: &OpenTransfer, state: &State) {
        let (payer, payee, amount) = (open.payer_account, open.payee_account, open.amount);
        let of = gross_account(state, open.currency).map(|kind| (kind, open.currency));
        let accounts = of.and_then(|of| {
            Some((account_of(state, open.payer, of)?, account_of(state, open.payee, of)?))
        });
        if let Some((from, to)) = accounts {
            self.post(from, payer, amount);
            self.post(payee, to, amount);
            self.figures.settled_at_once += 1;
        } else {
            let added = self.windows.add((payer, payee), amount);
            self.note(added);
        }
    }

    /// A commit moves its fee, which enters the open window whatever settles the transfer.
    fn charge(&mut self, fee: &OpenFee) {
        let OpenFee { from, to, amount } = *fee;
        self.post(from, to, amount);
        self.figures.fees += 1;
        let added = self.windows.add_fee((from, to), amount);
        self.note(added);
    }

    /// A change that opens or closes windows, or takes them into a settlement.
    fn follow_windows(&mut self, change: &Change, state: &State) {
        let checked = match change.about_windows() {
            Some(WindowChange::Activate(change)) => {
                self.windows.begin(change.rules_version);
                Ok(())
            }
            Some(WindowChange::CloseWindow(change)) => {
                self.windows.close((change.window, self.at), state)
            }
            Some(WindowChange::CreateSettlement(change)) => self.windows.create(change, state),
            None => Ok(()),
        };
        self.note(checked);
    }

    fn expire_due(&mut self, state: &State, new: &[Notice]) {
        let now = state.stamp().millis();
        if self.deadlines.first_key_value().is_none_or(|(key, _)| now < key.0) {
            return;
        }
        let mut by_transfer: HashMap<TransferId, Vec<Notice>> = HashMap::new();
        for one in new {
            let Some(transfer) = one.transfer else { continue };
            by_transfer.entry(transfer).or_default().push(*one);
        }
        while let Some((&key, &id)) = self.deadlines.first_key_value() {
            if now < key.0 {
                return;
            }
            self.deadlines.remove(&key);
            let new = by_transfer.get(&id).map_or(&[][..], Vec::as_slice);
            self.end(&id, Outcome::Expired, state, new);
        }
    }

    fn finish(&mut self, end: &FinishedDelivery) {
        let Some(owed) = self.owed.remove(&end.notice) else { return };
        if !self.is_possible_end(&owed, end) {
            let what = format!(
                "its notice {} ({:?}) ended as {:?} after {} with status {}",
                end.notice.0,
                owed.kind,
                end.result,
                counted(end.attempts.into(), "attempt"),
                end.status
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

    /// Follows the drop of a dead letter.
    fn drop_letter(&mut self, change: &Change) {
        let Some(TransferChange::DropDeadLetter(drop)) = change.about_transfer() else { return };
        match self.dead.remove(&drop.notice) {
            true => self.figures.notices_dropped += 1,
            false => {
                let what = format!("notice {} was dropped, but was no dead letter", drop.notice.0);
                self.find(None, what);
            }
        }
    }

    /// Whether a delivery can have this result. Only a prepare that was never sent is withdrawn,
    /// and only if its transfer has ended. A prepare that was sent is given up then, and so is the
    /// answer to a registration. Every other notice is delivered or becomes a dead letter.
    fn is_possible_end(&self, owed: &OpenNotice, end: &FinishedDelivery) -> bool {
        let is_success = (200..=299).contains(&end.status);
        let failed = !is_success && (0 < end.attempts || end.status == 0);
        let is_open = owed.transfer.is_some_and(|transfer| self.open.contains_key(&transfer));
        // The kernel withdraws that of a bulk when the bulk is final.
        let is_stale =
            (owed.kind == NoticeKind::Prepare && !is_open) || owed.kind == NoticeKind::BulkPrepare;
        match end.result {
            DeliveryResult::Delivered => 0 < end.attempts && is_success,
            DeliveryResult::Dead => failed && owed.transfer.is_some(),
            DeliveryResult::Withdrawn => is_stale && end.attempts == 0,
            DeliveryResult::GivenUp => failed && (is_stale || owed.transfer.is_none()),
        }
    }

    /// Adds the notices that the last decision created or requeued.
    fn add_notices(&mut self, effects: &Effects) {
        for notice in &effects.notices[self.noticed..] {
            let is_resend = !self.dead.is_empty() && self.dead.remove(&notice.id);
            self.figures.notices += u64::from(!is_resend);
            let owed = OpenNotice { transfer: notice.transfer, kind: notice.kind };
            if self.owed.insert(notice.id, owed).is_some() {
                let what = format!("notice {} was created twice", notice.id.0);
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
                    let what = "an outflow ended without a reservation".into();
                    return self.find(Some(end.id), what);
                };
                let account = state.accounts().get(end.account);
                let Some(currency) = account.map(|account| account.currency) else { return };
                let outflow = self.internal(AccountKind::Outflow, currency, state);
                let to = match end.commit {
                    true => self.internal(AccountKind::HubReconciliation, currency, state),
                    false => end.account,
                };
                self.post(outflow, to, amount);
            }
            PostingChange::SetInitialPositionAndLimits(change) => {
                let SetInitialPositionAndLimits { name, currency, position, .. } = change;
                let found = state.registry().find(name);
                let holding = found.and_then(|(_, participant)| participant.accounts_in(*currency));
                let Some(holding) = holding.filter(|_| *position != Amount::ZERO) else { return };
                let opening = self.internal(AccountKind::Opening, *currency, state);
                self.post(holding.position, opening, *position);
            }
            PostingChange::AdjustBalance(change) => self.adjust(change, state),
            PostingChange::AdvanceSettlement(change) => {
                let moved = self.windows.advance(change, state);
                self.move_positions(moved, state);
            }
            PostingChange::AbortSettlement(change) => {
                let moved = self.windows.abort(change.settlement, state);
                self.move_positions(moved, state);
            }
        }
    }

    /// Posts the movements of a settlement against the hub.
    fn move_positions(&mut self, moved: Result<Vec<Movement>, String>, state: &State) {
        for Movement { account, amount } in self.note(moved).unwrap_or_default() {
            let held = state.accounts().get(account).map(|account| account.currency);
            let Some(currency) = held else { continue };
            let hub = self.internal(AccountKind::HubMultilateralSettlement, currency, state);
            self.post(account, hub, amount);
        }
    }

    fn adjust(&mut self, change: &AdjustBalance, state: &State) {
        let hub = self.internal(AccountKind::HubReconciliation, change.currency, state);
        self.post(change.account, hub, change.amount);
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
            if self.balances.len() <= at {
                self.balances.resize(at + 1, Amount::ZERO);
            }
            match self.balances[at].checked_add(change) {
                Some(sum) => self.balances[at] = sum,
                None => self.find(None, format!("account {at}: balance out of range")),
            }
            self.changed.push(account);
        }
    }

    fn value(&self, account: AccountId) -> Amount {
        self.balances.get(account.0 as usize).copied().unwrap_or(Amount::ZERO)
    }

    /// The hub's account of this kind. Only its number is read from the kernel, never its balance.
    fn internal(&mut self, kind: AccountKind, currency: Currency, state: &State) -> AccountId {
        *self.internal.entry((currency, kind)).or_insert_with(|| {
            let mut accounts = state.accounts().iter();
            let found = accounts
                .find(|account| (account.kind, account.currency) == (kind, currency))
                .map(|account| account.id);
            found.expect("a currency has its internal accounts before money moves in it")
        })
    }

    fn compare_changed(&mut self, state: &State) {
        while let Some(account) = self.changed.pop() {
            self.compare(account, state);
        }
    }

    fn compare(&mut self, id: AccountId, state: &State) {
        let own = self.value(id);
        let Some(account) = state.accounts().get(id).filter(|account| account.value != own) else {
            return;
        };
        let owner = state.registry().get(account.owner).name;
        let what = format!(
            "account {} ({:?} of {} in {}) has the balance {}, but its postings add up to {own}",
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
        for account in state.accounts().iter() {
            *sums.entry(account.currency).or_default() += account.value.units();
            self.compare(account.id, state);
        }
        let mut reserved: HashMap<Currency, i128> = HashMap::new();
        for open in self.open.values() {
            *reserved.entry(open.currency).or_default() += open.amount.units();
        }
        for (currency, sum) in sums {
            let sum = Amount::from_units(sum);
            let open = Amount::from_units(reserved.get(&currency).copied().unwrap_or(0));
            let in_flight = state.accounts().in_flight(currency);
            if sum != Amount::ZERO {
                self.find(None, format!("the accounts in {currency} sum to {sum}, not to zero"));
            } else if open != in_flight {
                let what = format!(
                    "{in_flight} {currency} in flight, but the reserved transfers sum to {open}"
                );
                self.find(None, what);
            }
        }
    }

    /// Checks that a message matches its digest, and that its content equals the decoded fields.
    fn check_message(&mut self, record: &Record<'_>, command: &Command) {
        let transfer = transfer_of(command);
        let stored = match record.payload {
            Payload::None if transfer.is_none() => return,
            Payload::None => return self.find(transfer, "it has no stored message".into()),
            Payload::Erased => return self.figures.messages_erased += 1,
            Payload::Stored(stored) => stored,
        };
        self.figures.messages += 1;
        if !record.verify_payload() {
            let what = "the stored message does not match its digest";
            return self.find(transfer, what.into());
        }
        let Some((_, hash)) = transfer.zip(command.message().map(TransferMessage::hash)) else {
            return;
        };
        let Ok(summary) = fspiop::stored_message::stated(stored) else {
            return self.find(transfer, "the stored message cannot be read".into());
        };
        let body = summary.body;
        if !has_same_parties(&summary, command) {
            let what = "the stored headers name other participants than the decoded fields";
            return self.find(transfer, what.into());
        }
        if fspiop::body_hash(body) != hash.0 {
            let what = "the stored body does not match the hash of the record";
            return self.find(transfer, what.into());
        }
        if let Command::Prepare(prepare) = command
            && !self.fee_rules.are_named_rightly(prepare, body)
        {
            let what = "the transaction in the stored body does not match the fee rule";
            return self.find(transfer, what.into());
        }
        match has_same_content(body, command) {
            None => self.figures.bodies_unreadable += 1,
            Some(true) => self.figures.bodies_compared += 1,
            Some(false) => {
                let what = "the stored body differs from the decoded fields of the record";
                self.find(transfer, what.into());
            }
        }
    }
}

/// The first record of a damaged frame whose fields differ from its message. The transfer is taken
/// from the undamaged one of the two.
pub(crate) fn first_mismatch<'a>(records: impl Iterator<Item = Record<'a>>) -> Option<Finding> {
    let mut audit = Audit::default();
    for record in records {
        audit.at = record.log_index;
        match read_fields(record.kind, record.version, record.fields) {
            Ok(command) => audit.check_message(&record, &command),
            Err(error) => audit.find(None, format!("invalid fields: {error}")),
        }
        if let Some(finding) = audit.finding {
            let transfer = transfer_of_body(&record).or(finding.transfer);
            return Some(Finding { transfer, ..finding });
        }
    }
    None
}

/// The transfer id in the body of a stored prepare.
fn transfer_of_body(record: &Record<'_>) -> Option<TransferId> {
    let Payload::Stored(stored) = record.payload else { return None };
    let summary =
        fspiop::stored_message::stated(stored).ok().filter(|_| record.verify_payload())?;
    body::Prepare::parse(summary.body).ok().map(|prepare| prepare.transfer)
}

/// The transfer that a message is about.
pub(crate) fn transfer_of(command: &Command) -> Option<TransferId> {
    command.message().map(|message| *message.transfer())
}

/// Whether a response with this outcome ends its transfer.
pub(crate) fn is_end(outcome: Outcome) -> bool {
    ResponseEnd::of(outcome).is_some()
}

/// Whether the name is that of a participant, in any case. The hub is not a participant.
fn is_participant(state: &State, name: &FspName) -> bool {
    let mut others = state.registry().iter().skip(1);
    let exact = state.registry().find(name);
    exact.is_some_and(|(index, _)| index != ParticipantIndex::HUB)
        || others.any(|(_, participant)| participant.name.matches(name))
}

/// Whether the headers name the sender and the recipient of the command. A prepare is sent to its
/// payee, whatever recipient the header names.
fn has_same_parties(summary: &StoredSummary<'_>, command: &Command) -> bool {
    let Some(message) = command.message() else { return true };
    let source = message.source();
    let destination = match message {
        TransferMessage::Prepare(_) => None,
        TransferMessage::Fulfil(fulfil) => Some(fulfil.destination),
        TransferMessage::Abort(abort) => Some(abort.destination),
    };
    let written = |name: Option<FspName>| {
        let written = name.as_ref().map_or("", FspName::as_str);
        written.as_bytes() == summary.destination
    };
    summary.source == source.as_str().as_bytes() && destination.is_none_or(written)
}

/// Whether a body has the content of the command; `None` if the present parser rejects the body.
fn has_same_content(body: &[u8], command: &Command) -> Option<bool> {
    let Some(message) = command.message() else { return Some(true) };
    match message {
        TransferMessage::Prepare(prepare) => {
            let read = body::Prepare::parse(body).ok()?;
            let stored =
                (read.transfer, read.payer, read.payee, read.condition, read.expiration_ms);
            let decoded = (
                prepare.id,
                prepare.payer,
                prepare.payee,
                prepare.condition,
                prepare.expiration_ms,
            );
            let money = (read.amount.amount, read.amount.currency);
            Some(stored == decoded && money == (prepare.amount, prepare.currency))
        }
        TransferMessage::Fulfil(fulfil) => {
            let read = body::Fulfil::parse(body).ok()?;
            let state = is_same_state(read.state, fulfil.state);
            match (read.fulfilment, fulfil.fulfilment) {
                (Some(stored), Fulfilment::Present(decoded)) => Some(stored == decoded && state),
                (None, Fulfilment::Absent) => Some(state),
                // The present parser accepts a fulfilment that an earlier version rejected.
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

/// Whether a body has the state of the command. The FSPIOP version is not compared.
fn is_same_state(read: TransferState, decoded: FulfilState) -> bool {
    match read {
        TransferState::Committed | TransferState::Received => decoded == FulfilState::Committed,
        TransferState::Aborted => decoded == FulfilState::Aborted,
        TransferState::Reserved => {
            matches!(decoded, FulfilState::Reserved | FulfilState::ReservedUnderVersion10)
        }
    }
}

#[cfg(test)]
mod tests;
