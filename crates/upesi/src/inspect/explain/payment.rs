//! The messages of one payment: its transaction request, its quotes and its transfer.
//!
//! Messages name each other: an answer to a transaction request names the transaction, a quote
//! names the transaction and perhaps the request, and the transfer has the id of the transaction.
//! An accepted message is recorded under each id that it names ([`TransferId::as_payment`]).
//! Anyone can name any id, so only messages between the two FSPs of the payment belong to it.
//!
//! Costs: a few rounds of look-ups, and one record read per message in each.

use std::collections::BTreeSet;

use ledger::{
    Command, Decision, FspName, Outcome, PrepareOutcome, RecordRequestToPay, RequestStep,
    TransferId,
};
use ports::{LogError, RecordReader};
use serde::Serialize;

use crate::inspect::explain::stored_command::command_of;

/// Maximum number of ids of one payment. Each repeated quote has one.
const IDS_MAX: usize = 64;
/// Maximum number of messages that are read for the ids that they name.
const MESSAGES_MAX: usize = 512;
/// Maximum number of rounds: a request leads to the transaction, it to a quote, it to the request.
pub(crate) const ROUNDS_MAX: usize = 6;

/// The ids of one payment, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Payment {
    /// Ids of messages, and references to the payment.
    ids: BTreeSet<TransferId>,
    /// Ids of messages between other FSPs.
    foreign: BTreeSet<TransferId>,
    /// The two FSPs.
    parties: Option<[FspName; 2]>,
    request: Option<TransferId>,
    request_state: Option<&'static str>,
    quotes: Vec<TransferId>,
    transaction: Option<TransferId>,
    transfer: Option<TransferId>,
}

/// The ids of one payment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PaymentReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transaction_request: Option<String>,
    /// `RECEIVED`, `PENDING`, `ACCEPTED`, `REJECTED` or `FAILED`: the last answer of the FSP that
    /// was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transaction_request_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) quotes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transfer: Option<String>,
}

impl Payment {
    /// Starts with any id of the payment.
    pub(crate) fn new(asked: TransferId) -> Self {
        let mut payment = Self::default();
        payment.ids.insert(asked);
        if !asked.is_bulk() {
            payment.ids.insert(asked.as_payment());
        }
        payment
    }

    /// The ids under which its decisions are recorded.
    pub(crate) fn ids(&self) -> &BTreeSet<TransferId> {
        &self.ids
    }

    /// Whether a decision is about a message of the payment, and not only a reference to it.
    pub(crate) fn has(&self, decision: &Decision) -> bool {
        !decision.transfer.is_payment() && self.ids.contains(&decision.transfer)
    }

    /// The transfer of the payment.
    pub(crate) fn transfer(&self) -> Option<TransferId> {
        self.transfer
    }

    /// Its ids for a reader; `None` if no message about a quote or a request is recorded.
    pub(crate) fn report(&self) -> Option<PaymentReport> {
        let text = |id: Option<TransferId>| id.map(|id| id.to_string());
        (self.request.is_some() || !self.quotes.is_empty()).then(|| PaymentReport {
            transaction_request: text(self.request),
            transaction_request_state: self.request_state,
            quotes: self.quotes.iter().map(TransferId::to_string).collect(),
            transaction: text(self.transaction),
            transfer: text(self.transfer),
        })
    }

    /// Adds the ids that the messages of these decisions name. Returns whether there are new ones,
    /// whose decisions are to be read too.
    ///
    /// # Errors
    /// As [`RecordReader::read`].
    pub(crate) fn extend(
        &mut self,
        decisions: &[Decision],
        reader: &dyn RecordReader,
    ) -> Result<bool, LogError> {
        let before = self.ids.clone();
        let (references, own): (Vec<_>, Vec<_>) = decisions
            .iter()
            .filter(|decision| is_taken(decision))
            .partition(|decision| decision.transfer.is_payment());
        // Messages with the id itself name its two FSPs.
        for decision in own.into_iter().chain(references).take(MESSAGES_MAX) {
            let command = match reader.read(decision.log_index)? {
                Some(owned) => command_of(&owned)?,
                None => continue,
            };
            self.add(&command);
        }
        Ok(!self.ids.is_subset(&before))
    }

    fn add(&mut self, command: &Command) {
        if let Command::Prepare(prepare) = command
            && self.is_between(prepare.id, [prepare.payer, prepare.payee])
        {
            self.transfer = Some(prepare.id);
            self.link([prepare.id, prepare.id.as_payment()]);
        }
        if let Command::RecordQuote(quote) = command
            && self.is_between(quote.quote, [quote.source, quote.destination])
        {
            if !self.quotes.contains(&quote.quote) {
                self.quotes.push(quote.quote);
            }
            self.transaction.get_or_insert(quote.transaction);
            self.link([quote.quote, quote.transaction]);
            self.link(command.payments());
            self.link(quote.request);
        }
        if let Command::RecordRequestToPay(request) = command {
            self.add_request(request, command);
        }
    }

    fn add_request(&mut self, request: &RecordRequestToPay, command: &Command) {
        let id = request.request;
        let is_answer = match request.step {
            RequestStep::Requested(terms) => {
                if self.is_between(id, [request.source, terms.destination]) {
                    self.request = Some(id);
                    self.link([id, id.as_payment()]);
                }
                return;
            }
            RequestStep::Answered(_) | RequestStep::Failed => {
                self.request.is_none_or(|known| known == id) && !self.foreign.contains(&id)
            }
        };
        let is_party = |name: &FspName| name.matches(&request.source);
        if !is_answer || self.parties.is_some_and(|both| !both.iter().any(is_party)) {
            return;
        }
        self.link([id]);
        // The request itself names its two FSPs.
        if self.request != Some(id) {
            return;
        }
        let RequestStep::Answered(status) = request.step else {
            self.request_state = Some("FAILED");
            return;
        };
        self.request_state = Some(status.state.name());
        self.link(command.payments());
        if let Some(transaction) = status.transaction {
            self.transaction.get_or_insert(transaction);
            self.link([transaction]);
        }
    }

    /// Whether a message is between the FSPs of the payment. The first one names them.
    fn is_between(&mut self, id: TransferId, fsps: [FspName; 2]) -> bool {
        let [one, other] = *self.parties.get_or_insert(fsps);
        let [source, destination] = fsps;
        let is_same = one.matches(&source) && other.matches(&destination);
        let is_reversed = one.matches(&destination) && other.matches(&source);
        if is_same || is_reversed {
            return true;
        }
        self.ids.remove(&id);
        self.foreign.insert(id);
        false
    }

    fn link(&mut self, ids: impl IntoIterator<Item = TransferId>) {
        for id in ids {
            if self.ids.len() < IDS_MAX && !self.foreign.contains(&id) {
                self.ids.insert(id);
            }
        }
    }
}

/// Whether the hub accepted a message. Only then do the ids in it belong to the payment.
fn is_taken(decision: &Decision) -> bool {
    decision.outcome == Outcome::Accepted
        || PrepareOutcome::of(decision.outcome).is_some_and(PrepareOutcome::begins)
}
