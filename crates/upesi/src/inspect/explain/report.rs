//! The report of `upesi explain`: the history of one transfer, as JSON for scripts and as text for
//! people.

use std::fmt::{self, Display, Formatter};

use delivery::{AttemptResult, WaitReason};
use ledger::{Amount, ExplainedOutcome, NoticeKind, Stamp};
use record::attempts::{AttemptEnd, DeliveryAttempt};
use serde::{Serialize, Serializer};

use crate::cli::stdout::moment;
use crate::cli::table::{Align, Table};
use crate::cli::units::{Milliseconds, counted};
use crate::inspect::explain::payment::PaymentReport;
use crate::operate::quarantine::Entry;

/// The history of one transfer.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    pub(crate) transfer: String,
    /// The payment to which it belongs, if messages about its quote or transaction request are
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payment: Option<PaymentReport>,
    /// Whether it is a bulk transfer, or an item of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bulk: Option<BulkMembership>,
    /// `RESERVED`, `COMMITTED` or `ABORTED`, or for a bulk `ACCEPTED`, `PROCESSING`, `COMPLETED` or
    /// `REJECTED`; `None` if no record created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    /// How it is settled, once committed. `None` under rules without settlement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settlement: Option<SettlementReport>,
    /// How its interchange fee is settled. `None` if its commit posted no fee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fee_settlement: Option<SettlementReport>,
    pub(crate) events: Vec<Event>,
    /// Number of omitted decisions in the middle, about messages that were resent many times. The
    /// deliveries of their notices are omitted too.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
    /// Notices about it that are pending at the end.
    pub(crate) notices_pending: Vec<u64>,
    /// Notices about it that were given up. They are attempted again only if an operator resends
    /// them.
    pub(crate) dead_letters: Vec<u64>,
    /// Delivery status of the pending notices, if a running switch reports it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) under_way: Vec<PendingDelivery>,
    /// Last record that the history includes.
    pub(crate) up_to: u64,
    #[serde(flatten)]
    pub(crate) source: Source,
    /// Errors about quarantined records that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unread: Vec<String>,
    /// Number of records read or replayed.
    pub(crate) records: u64,
    pub(crate) seconds: f64,
}

/// A transfer in relation to a bulk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BulkMembership {
    /// It is a bulk with this number of items.
    Items(usize),
    /// It is an item of the bulk with this id.
    ItemOf(String),
}

/// How a transfer and its interchange fee are settled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferSettlement {
    /// `None` before the commit, and under rules without settlement.
    pub(crate) transfer: Option<SettlementReport>,
    /// `None` if the commit posted no fee.
    pub(crate) fee: Option<SettlementReport>,
}

impl Explanation {
    /// Adds how the transfer and its fee are settled.
    pub(crate) fn settled(self, found: TransferSettlement) -> Self {
        Self { settlement: found.transfer, fee_settlement: found.fee, ..self }
    }
}

/// How a committed transfer is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum SettlementReport {
    /// By a gross model, in the decision that committed it.
    Gross,
    /// With its window.
    Window {
        window: u32,
        state: &'static str,
        /// The last settlement that took its part of the window.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement: Option<SettlementOfWindow>,
    },
}

/// A settlement of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SettlementOfWindow {
    pub(crate) id: u32,
    pub(crate) model: String,
    pub(crate) state: &'static str,
}

/// Source of the decisions.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub(crate) enum Source {
    /// Recorded when they were made, and read from the cold store.
    Store,
    /// A replay of the log.
    Replay {
        /// Why the store cannot be used; `None` if a replay was requested.
        #[serde(rename = "store_not_asked", skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// One event; events are in the order of the log.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    /// The record. For an expiry, the first one stamped at or after the deadline.
    pub(crate) log_index: u64,
    pub(crate) time: String,
    #[serde(flatten)]
    pub(crate) detail: EventDetail,
}

/// Kind and details of an event.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum EventDetail {
    /// A message of a participant and its decision.
    Message { message: MessageReport, decision: DecisionReport },
    /// The transfer expired.
    Expiry { expiration: String, decision: DecisionReport },
    /// An operator moved funds or resent a dead letter.
    Operator { actor: String, reason: String, change: String, decision: DecisionReport },
    /// A callback was delivered or given up.
    Delivery(Delivery),
    /// A record that an operator quarantined because it broke an invariant. It has no effect.
    #[serde(rename = "set_aside")]
    Quarantined {
        /// If the record is a message of a participant.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<MessageReport>,
        /// Otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<String>,
        quarantined: Entry,
    },
}

impl EventDetail {
    /// The message of a participant; `None` if the event has none.
    pub(crate) const fn message(&self) -> Option<&MessageReport> {
        match self {
            Self::Message { message, .. } => Some(message),
            Self::Quarantined { message, .. } => message.as_ref(),
            Self::Expiry { .. } | Self::Operator { .. } | Self::Delivery(_) => None,
        }
    }

    /// The same, to be completed or masked.
    pub(crate) const fn message_mut(&mut self) -> Option<&mut MessageReport> {
        match self {
            Self::Message { message, .. } => Some(message),
            Self::Quarantined { message, .. } => message.as_mut(),
            Self::Expiry { .. } | Self::Operator { .. } | Self::Delivery(_) => None,
        }
    }
}

impl Explanation {
    /// Masks the free texts of participants: descriptions of errors.
    pub(crate) fn mask(&mut self) {
        for event in &mut self.events {
            if let Some(message) = event.detail.message_mut()
                && message.request.ends_with("/error")
                && let Some((known, description)) = message.says.split_once('"')
            {
                message.says = format!("{known}\"{}", operations::masked_text(description));
            }
        }
    }
}

/// A stored message.
#[derive(Debug, Serialize)]
pub(crate) struct MessageReport {
    /// Method and path.
    pub(crate) request: &'static str,
    pub(crate) sender: String,
    pub(crate) destination: Option<String>,
    /// The decoded fields.
    pub(crate) says: String,
    pub(crate) expiration: Option<String>,
    /// Time left until then; negative when it had passed.
    pub(crate) expires_in_ms: Option<i64>,
    pub(crate) trace: String,
    /// Hash by which a resend is recognised.
    pub(crate) hash: String,
    /// `stored`, `damaged` if the stored message does not match its digest, `erased` or `none`.
    pub(crate) kept: &'static str,
    /// When the contents were erased, by which record, by whom, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) erasure: Option<String>,
    pub(crate) header_lines: Option<usize>,
    pub(crate) header_bytes: Option<usize>,
    pub(crate) body_bytes: Option<usize>,
    /// BLAKE3 of the stored headers and body.
    pub(crate) digest: Option<String>,
}

/// An outcome as name, number and sentence.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) outcome: String,
    pub(crate) number: u16,
    /// The sentence.
    pub(crate) why: &'static str,
}

impl Verdict {
    pub(crate) fn of(outcome: ExplainedOutcome) -> Self {
        let number = outcome.outcome().number();
        Self { outcome: format!("{outcome:?}"), number, why: why(outcome) }
    }
}

/// A decision of the kernel.
#[derive(Debug, Serialize)]
pub(crate) struct DecisionReport {
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    /// Inputs of the decision, and the balances after it.
    pub(crate) parties: Vec<PartyReport>,
    pub(crate) postings: Vec<PostingLeg>,
    /// Notices that the decision created.
    pub(crate) owes: Vec<NoticeReport>,
}

/// A participant's balances and limits before and after a decision.
#[derive(Debug, Serialize)]
pub(crate) struct PartyReport {
    pub(crate) name: String,
    pub(crate) currency: String,
    pub(crate) active: bool,
    pub(crate) account_active: bool,
    pub(crate) position_before: Decimal,
    pub(crate) position_after: Decimal,
    pub(crate) cover_before: Decimal,
    pub(crate) cover_after: Decimal,
    pub(crate) cap: Option<Decimal>,
    /// Callbacks owed to it before the decision.
    pub(crate) notices_owed: u32,
    /// Owed callbacks at which prepares to it are refused.
    pub(crate) lane_capacity: u32,
}

/// The change of one account.
#[derive(Debug, Serialize)]
pub(crate) struct PostingLeg {
    pub(crate) side: &'static str,
    pub(crate) account: u32,
    pub(crate) kind: String,
    pub(crate) owner: String,
    pub(crate) amount: Decimal,
    pub(crate) currency: String,
    pub(crate) before: Decimal,
    pub(crate) after: Decimal,
}

/// A notice that a decision created.
#[derive(Debug, Serialize)]
pub(crate) struct NoticeReport {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// Outcome that it reports.
    pub(crate) outcome: String,
}

/// The result of a delivery.
#[derive(Debug, Serialize)]
pub(crate) struct Delivery {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// `delivered`, `dead`, `withdrawn` or `given up`.
    pub(crate) result: &'static str,
    pub(crate) attempts: u16,
    /// HTTP status of the last response; `None` without a response.
    pub(crate) last_status: Option<u16>,
    /// Wall-clock time at the end of the last attempt.
    pub(crate) finished: String,
    /// The newest attempts since the switch started. Empty if the first attempt succeeded.
    pub(crate) tried: Vec<Attempt>,
}

/// A finished attempt.
#[derive(Debug, Serialize)]
pub(crate) struct Attempt {
    /// Wall-clock time at its start.
    pub(crate) began: String,
    pub(crate) took_ms: u32,
    /// HTTP status of the response; `None` without a response.
    pub(crate) status: Option<u16>,
    /// Why there was no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<&'static str>,
}

impl Attempt {
    pub(crate) fn from_record(attempt: &DeliveryAttempt) -> Self {
        let (status, failure) = match attempt.end {
            AttemptEnd::Status(status) => (Some(status), None),
            AttemptEnd::TimedOut => (None, Some(TIMED_OUT)),
            AttemptEnd::ConnectFailed => (None, Some(CONNECT_FAILED)),
            AttemptEnd::Broken => (None, Some(BROKEN)),
        };
        let began = moment(Stamp::from_millis(attempt.began_ms));
        Self { began, took_ms: attempt.took_ms, status, failure }
    }
}

const TIMED_OUT: &str = "no answer in time";
const CONNECT_FAILED: &str = "no connection";
/// The stored form does not distinguish the two cases.
const BROKEN: &str = "the connection broke, or the message could not be built from its records";

/// A pending callback, and its attempts since this switch started.
#[derive(Debug, Serialize)]
pub(crate) struct PendingDelivery {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// The next step that it waits for.
    pub(crate) waits: &'static str,
    pub(crate) attempts: u32,
    pub(crate) first_attempt: Option<String>,
    /// HTTP status of the last response; `None` without a response.
    pub(crate) last_status: Option<u16>,
    /// Why the last attempt had no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure: Option<&'static str>,
    /// Earliest time of the next attempt, if a pause delays it.
    pub(crate) next_attempt: Option<String>,
    /// The newest finished attempts, oldest first.
    pub(crate) tried: Vec<Attempt>,
}

impl PendingDelivery {
    pub(crate) fn new(
        status: &switch::DeliveryStatus,
        (recipient, request): (String, &'static str),
    ) -> Self {
        let at = |ms: u64| moment(Stamp::from_millis(ms));
        Self {
            notice: status.notice.0,
            recipient,
            request,
            waits: match status.wait_reason {
                WaitReason::Earlier => "an earlier callback of this transfer to this participant",
                WaitReason::Turn => "its turn among the callbacks to this participant",
                WaitReason::Result => "the response to an attempt",
                WaitReason::Until(_) => "the end of a pause after a failure",
                WaitReason::Address => {
                    "an address for this request to be registered by the recipient"
                }
                WaitReason::Record => "its result to be recorded",
            },
            attempts: status.attempts,
            first_attempt: status.first_attempt_ms.map(at),
            last_status: status.last.and_then(AttemptResult::status),
            last_failure: status.last.and_then(|last| match last {
                AttemptResult::Status(_) => None,
                AttemptResult::TimedOut => Some(TIMED_OUT),
                AttemptResult::ConnectFailed => Some(CONNECT_FAILED),
                AttemptResult::TlsFailed(reason) | AttemptResult::Http2Failed(reason) => {
                    Some(reason)
                }
                AttemptResult::Broken => Some(BROKEN),
                AttemptResult::Unsent => {
                    Some("not sent: the message could not be read from the log")
                }
                AttemptResult::NoAddress => Some("not sent: no usable address is registered"),
            }),
            next_attempt: status.next_attempt_ms.map(at),
            tried: status.finished_attempts.iter().map(Attempt::from_record).collect(),
        }
    }
}

/// An amount as a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal(pub(crate) Amount);

impl Display for Decimal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Explanation {
    /// The event that ended a failed transfer, or, if it was never reserved, the first refusal. A
    /// quote failed if each of its messages was refused.
    fn failure(&self) -> Option<&Event> {
        if !matches!(self.state, None | Some("ABORTED" | "REJECTED")) {
            return None;
        }
        let starts = |event: &&Event, any: &[&str]| {
            let why = event.detail.decision().map_or("", |decision| decision.verdict.why);
            any.iter().any(|begin| why.starts_with(begin))
        };
        const ENDS: [&str; 3] = ["aborted", "expired", "rejected"];
        const REFUSALS: [&str; 2] = ["refused", "ignored"];
        let is_refusal = |event: &&Event| starts(event, &REFUSALS);
        if self.is_of_exchange() && !self.events.iter().all(|event| is_refusal(&event)) {
            return None;
        }
        let ended = self.events.iter().find(|event| starts(event, &ENDS));
        ended.or_else(|| self.events.iter().find(is_refusal))
    }

    /// Whether all messages are about quotes and transaction requests.
    fn is_of_exchange(&self) -> bool {
        let mut messages = self.events.iter().map(|event| match &event.detail {
            EventDetail::Message { message, .. } => {
                let paths = [" /quotes", " /transactionRequests"];
                paths.iter().any(|path| message.request.contains(path))
            }
            _ => false,
        });
        !self.events.is_empty() && messages.all(|is_of_exchange| is_of_exchange)
    }

    /// The heading, if no message about a transfer is known.
    fn exchange_heading(&self) -> String {
        let Self { transfer: id, payment, .. } = self;
        let PaymentReport { transaction_request: request, quotes, .. } =
            payment.clone().unwrap_or_default();
        match &self.events.first().map(|event| &event.detail) {
            _ if request.as_ref() == Some(id) => format!("transaction request {id}"),
            _ if quotes.contains(id) => format!("quote {id}"),
            Some(EventDetail::Message { message, .. }) if payment.is_none() => {
                let is_quote = message.request.contains(" /quotes");
                format!("{} {id}", if is_quote { "quote" } else { "transaction request" })
            }
            _ => format!("transaction {id}"),
        }
    }
}

impl EventDetail {
    fn decision(&self) -> Option<&DecisionReport> {
        match self {
            Self::Message { decision, .. }
            | Self::Expiry { decision, .. }
            | Self::Operator { decision, .. } => Some(decision),
            Self::Delivery(_) | Self::Quarantined { .. } => None,
        }
    }

    /// Why a payment failed, if this decided it: the decision, and the error of the payee.
    fn failure(&self) -> String {
        let why = self.decision().map_or("", |decision| decision.verdict.why);
        match self {
            Self::Message { message, .. } if message.request.ends_with("/error") => {
                format!("{why}: {}", message.says)
            }
            _ => why.to_owned(),
        }
    }
}

impl PendingDelivery {
    /// Its attempts, and the next step that it waits for.
    pub(crate) fn progress(&self) -> String {
        let Self { attempts, waits, .. } = self;
        let last = match (self.last_failure, self.last_status) {
            (Some(failure), _) => format!(", the last one: {failure}"),
            (None, Some(status)) => format!(", the last one: status {status}"),
            (None, None) => String::new(),
        };
        let next = self.next_attempt.as_ref().map(|next| format!("; next attempt at {next}"));
        let attempts = counted(u64::from(*attempts), "attempt");
        format!("{attempts}{last}; waits for {waits}{}", next.unwrap_or_default())
    }
}

impl Display for PendingDelivery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { notice, recipient, request, .. } = self;
        write!(f, "not delivered yet: notice {notice}, {request} to {recipient}: ")?;
        f.write_str(&self.progress())
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = self.state.unwrap_or("not created");
        match &self.bulk {
            None if self.is_of_exchange() => writeln!(f, "{}", self.exchange_heading())?,
            None => writeln!(f, "transfer {}: {state}", self.transfer)?,
            Some(BulkMembership::Items(items)) => {
                let items = counted(*items as u64, "item");
                writeln!(f, "bulk transfer {} of {items}: {state}", self.transfer)?;
            }
            Some(BulkMembership::ItemOf(bulk)) => {
                writeln!(f, "transfer {} of bulk transfer {bulk}: {state}", self.transfer)?;
            }
        }
        if let Some(payment) = &self.payment {
            writeln!(f, "payment: {payment}")?;
        }
        if let Some(event) = self.failure() {
            writeln!(f, "why it failed: {}", event.detail.failure())?;
        }
        for event in &self.events {
            write!(f, "\nrecord {}, {}: {}", event.log_index, event.time, event.detail)?;
        }
        writeln!(f)?;
        if let Some(settlement) = &self.settlement {
            writeln!(f, "{settlement}")?;
        }
        if let Some(settlement) = &self.fee_settlement {
            writeln!(f, "interchange fee: {settlement}")?;
        }
        if 0 < self.left_out {
            writeln!(
                f,
                "omitted in the middle: {}, with the deliveries of their callbacks",
                counted(self.left_out, "decision")
            )?;
        }
        for pending in &self.under_way {
            writeln!(f, "{pending}")?;
        }
        let known: Vec<_> = self.under_way.iter().map(|pending| pending.notice).collect();
        match &*self.notices_pending {
            pending if !known.is_empty() && pending == known => Ok(()),
            [] => writeln!(f, "no pending notices at the end of the log"),
            pending => writeln!(f, "pending notices at the end of the log: {}", numbers(pending)),
        }?;
        if !self.dead_letters.is_empty() {
            writeln!(
                f,
                "dead letters: {}; `upesi callback resend ID` resends one",
                numbers(&self.dead_letters)
            )?;
        }
        self.unread.iter().try_for_each(|unread| writeln!(f, "{unread}"))?;
        let Self { up_to, records, seconds, .. } = self;
        match &self.source {
            Source::Store => write!(
                f,
                "source: cold store, up to record {up_to}; {records} records read in {:.1} ms",
                seconds * 1e3
            ),
            Source::Replay { why } => {
                write!(f, "source: replay of {records} records in {seconds:.1} s")?;
                why.iter().try_for_each(|why| write!(f, "; the cold store cannot be used: {why}"))
            }
        }
    }
}

fn numbers(notices: &[u64]) -> String {
    notices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Display for SettlementReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self::Window { window, state, settlement } = self else {
            return write!(f, "settled at once by a gross model, with its commit");
        };
        write!(f, "settlement window {window}: {state}")?;
        if let Some(SettlementOfWindow { id, model, state }) = settlement {
            write!(f, "; settlement {id} by model {model}: {state}")?;
        }
        Ok(())
    }
}

impl Display for PaymentReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(request) = &self.transaction_request {
            let state = self.transaction_request_state.unwrap_or("not answered");
            parts.push(format!("transaction request {request}: {state}"));
        }
        parts.extend(self.quotes.iter().map(|quote| format!("quote {quote}")));
        parts.extend(self.transaction.iter().map(|id| format!("transaction {id}")));
        parts.extend(self.transfer.iter().map(|id| format!("transfer {id}")));
        f.write_str(&parts.join("; "))
    }
}

impl Display for EventDetail {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { message, decision } => write!(f, "{message}{decision}"),
            Self::Expiry { expiration, decision } => {
                writeln!(f, "expired at its deadline, {expiration}")?;
                write!(f, "{decision}")
            }
            Self::Operator { actor, reason, change, decision } => {
                writeln!(f, "{change}")?;
                writeln!(f, "  operator  {actor}; reason: {reason}")?;
                write!(f, "{decision}")
            }
            Self::Delivery(delivery) => write!(f, "{delivery}"),
            Self::Quarantined { message, change, quarantined } => {
                message.iter().try_for_each(|message| write!(f, "{message}"))?;
                change.iter().try_for_each(|change| writeln!(f, "{change}"))?;
                writeln!(f, "  decision  none: {}", quarantined.by_whom())
            }
        }
    }
}

impl Display for Delivery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { notice, recipient, request, result, attempts, tried, .. } = self;
        writeln!(f, "notice {notice}, {request} to {recipient}: {result}")?;
        let status = match self.last_status {
            Some(status) => format!("last status {status}"),
            None => "no response".to_owned(),
        };
        let count = counted(u64::from(*attempts), "attempt");
        writeln!(f, "  {count}, {status}, finished {}", self.finished)?;
        if tried.is_empty() {
            return Ok(());
        }
        let mut table = Table::new([
            ("attempt", Align::Right),
            ("began", Align::Left),
            ("duration", Align::Right),
            ("result", Align::Left),
        ]);
        let first = usize::from(*attempts).saturating_sub(tried.len()) + 1;
        for (number, Attempt { began, took_ms, status, failure }) in (first..).zip(tried) {
            let result = match status {
                Some(status) => format!("status {status}"),
                None => failure.unwrap_or("no response").to_owned(),
            };
            let duration = Milliseconds(u64::from(*took_ms)).to_string();
            table.add([number.to_string(), began.clone(), duration, result]);
        }
        write!(f, "\n{table}")
    }
}

impl Display for MessageReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.request, self.sender)?;
        match &self.destination {
            Some(destination) => writeln!(f, " to {destination}")?,
            None => writeln!(f)?,
        }
        writeln!(f, "  content   {}", self.says)?;
        if let (Some(expiration), Some(left_ms)) = (&self.expiration, self.expires_in_ms) {
            let distance = Milliseconds(left_ms.unsigned_abs());
            let side = if left_ms < 0 { "before" } else { "after" };
            writeln!(f, "  expires   {expiration}, {distance} {side} its arrival")?;
        }
        match self.kept {
            "damaged" => write!(f, "  message   DAMAGED, does not match its digest")?,
            kept => write!(f, "  message   {kept}")?,
        }
        if let Some(erasure) = &self.erasure {
            write!(f, " {erasure}")?;
        }
        if let (Some(lines), Some(head), Some(body)) =
            (self.header_lines, self.header_bytes, self.body_bytes)
        {
            write!(f, ": {lines} headers of {head} bytes, body of {body} bytes")?;
        }
        writeln!(f, "; hash {}, trace {}", self.hash, self.trace)
    }
}

impl Display for DecisionReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Verdict { outcome, number, why } = &self.verdict;
        writeln!(f, "  decision  {outcome} ({number}): {why}")?;
        if !self.parties.is_empty() {
            write!(f, "\n{}", parties_table(&self.parties))?;
        }
        if !self.postings.is_empty() {
            write!(f, "\n{}", postings_table(&self.postings))?;
        }
        if !self.owes.is_empty() {
            write!(f, "\n{}", notices_table(&self.owes))?;
        }
        Ok(())
    }
}

fn parties_table(parties: &[PartyReport]) -> Table<9> {
    let mut table = Table::new([
        ("participant", Align::Left),
        ("currency", Align::Left),
        ("position before", Align::Right),
        ("after", Align::Right),
        ("cover before", Align::Right),
        ("after", Align::Right),
        ("net debit cap", Align::Right),
        ("notices owed", Align::Right),
        ("status", Align::Left),
    ]);
    for party in parties {
        let status = match (party.active, party.account_active) {
            (true, true) => "active",
            (true, false) => "account inactive",
            (false, _) => "inactive",
        };
        table.add([
            party.name.clone(),
            party.currency.clone(),
            party.position_before.to_string(),
            party.position_after.to_string(),
            party.cover_before.to_string(),
            party.cover_after.to_string(),
            party.cap.map_or_else(|| "none".to_owned(), |cap| cap.to_string()),
            format!("{} of {}", party.notices_owed, party.lane_capacity),
            status.to_owned(),
        ]);
    }
    table
}

fn postings_table(legs: &[PostingLeg]) -> Table<8> {
    let mut table = Table::new([
        ("posting", Align::Left),
        ("amount", Align::Right),
        ("currency", Align::Left),
        ("account", Align::Right),
        ("kind", Align::Left),
        ("owner", Align::Left),
        ("balance before", Align::Right),
        ("after", Align::Right),
    ]);
    for leg in legs {
        table.add([
            leg.side.to_owned(),
            leg.amount.to_string(),
            leg.currency.clone(),
            leg.account.to_string(),
            leg.kind.clone(),
            leg.owner.clone(),
            leg.before.to_string(),
            leg.after.to_string(),
        ]);
    }
    table
}

fn notices_table(notices: &[NoticeReport]) -> Table<4> {
    let mut table = Table::new([
        ("new notice", Align::Right),
        ("request", Align::Left),
        ("recipient", Align::Left),
        ("reports", Align::Left),
    ]);
    for NoticeReport { notice, recipient, request, outcome } in notices {
        table.add([notice.to_string(), (*request).to_owned(), recipient.clone(), outcome.clone()]);
    }
    table
}

/// The request that delivers a notice.
pub(crate) const fn request_of(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Prepare => "POST /transfers",
        NoticeKind::Fulfil | NoticeKind::FulfilCopy => "PUT /transfers/{id}",
        NoticeKind::Committed => "PUT /transfers/{id} COMMITTED",
        NoticeKind::Reserved => "PUT /transfers/{id} RESERVED",
        NoticeKind::AbortedState => "PUT /transfers/{id} ABORTED",
        NoticeKind::Abort | NoticeKind::AbortCopy | NoticeKind::Error => {
            "PUT /transfers/{id}/error"
        }
        NoticeKind::PatchCommitted => "PATCH /transfers/{id} COMMITTED",
        NoticeKind::PatchAborted => "PATCH /transfers/{id} ABORTED",
        NoticeKind::PartiesChanged => "PUT /participants/...",
        NoticeKind::BulkPrepare => "POST /bulkTransfers",
        NoticeKind::BulkResult => "PUT /bulkTransfers/{id}",
        NoticeKind::BulkError => "PUT /bulkTransfers/{id}/error",
    }
}

const OVER_COVER: &str = "refused: the payer's position would exceed its liquidity cover";

/// An outcome as a sentence.
pub(crate) const fn why(outcome: ExplainedOutcome) -> &'static str {
    use ExplainedOutcome::*;
    match outcome {
        Accepted => "accepted",
        Repeated => "duplicate log record: no effect",
        SenderNotFound => "ignored: the sender is not a participant",
        PrepareModified => "refused: the id belongs to another transfer, which is unchanged",
        PrepareResentCommitted => "resend: answered with the stored result, COMMITTED",
        PrepareResentAborted => "resend: answered with the stored result, ABORTED",
        PrepareResentReserved => "resend: answered with the stored state, RESERVED",
        PrepareSourceNotPayer => "refused: the sender is not the payer",
        PrepareAmountPrecision => "refused: the amount has more than 18 digits",
        PreparePayerNotFound => "refused: the payer is not a participant",
        PreparePayerInactive => "refused: the payer is inactive",
        PreparePayeeNotFound => "refused: the payee is not a participant",
        PreparePayeeInactive => "refused: the payee is inactive",
        PrepareExpirationPast => "refused: it had expired on arrival",
        PreparePayerIsPayee => "refused: payer and payee are the same",
        PreparePayerAccountNotFound => "refused: the payer has no account in the currency",
        PreparePayerAccountInactive => "refused: the payer's account is inactive",
        PreparePayeeAccountNotFound => "refused: the payee has no account in the currency",
        PreparePayeeAccountInactive => "refused: the payee's account is inactive",
        PreparePayeeLaneFull => "refused: too many notices are owed to the payee",
        PrepareLiquidityInsufficient => OVER_COVER,
        PrepareCapExceeded => "refused: the payer's position would exceed its net debit cap",
        PrepareReserved => "reserved: the payer's position is within cover and cap",
        FulfilVersionIgnored => "ignored: FSPIOP 1.0 has no RESERVED; the transfer will time out",
        ResponseTransferNotFound => "refused: the transfer does not exist",
        QuoteModified | TransactionRequestModified => "refused: the id has another content, 3106",
        QuoteNotFound => "refused: no such quote, 3205",
        QuoteExpired => "refused: the quote has expired, 3302",
        TransactionRequestNotFound => "refused: no such request from the sender's payee, 3206",
        TransactionRequestExpired => "refused: the transaction request has expired, 3301",
        PrepareDiffersFromQuote => "refused: the transfer differs from its quote",
        BulkAccepted => "accepted: at least one item is reserved",
        BulkRejected => "rejected: no item was accepted, or the payee aborted all of them",
        BulkProcessing => "answered: items are still in flight",
        BulkCompleted => "completed: no item is in flight any more",
        BulkItemNotFound => "refused: it names a transfer that is not in flight in the bulk",
        ResponseOfBulkItem => "refused: an item of a bulk transfer is answered with the bulk",
        ResponseNotFromPayee => "refused: the sender is not the payee; the transfer is unchanged",
        ResponseNotToPayer => "aborted: the payee addressed another FSP than the payer",
        ResponseModified => "refused: it differs from the accepted response",
        ResponseResent => "resend: answered with the stored result",
        ResponseAfterExpiry => "refused: the transfer had expired",
        ResponseStateNotReserved => "refused: the transfer is not RESERVED",
        FulfilAbortedIgnored => "ignored: ABORTED by PUT; the transfer will time out",
        FulfilmentInvalid => "aborted: the fulfilment is missing or does not hash to the condition",
        Committed => "committed: the fulfilment hashes to the condition",
        AbortedWithUnknownCode => "aborted by the payee, with an unknown error code",
        Aborted => "aborted by the payee",
        AbortedByPut => "aborted by the payee, by PUT with ABORTED",
        Expired => "expired: no response before its deadline",
        ApprovalRequired => "refused: such a change needs the approval of a second operator",
        ProposalNotFound => "refused: the proposal does not exist",
        ProposalEnded => "refused: the proposal was decided before",
        ProposalExpired => "refused: the proposal was not decided in time",
        ProposerCannotApprove => "refused: the operator who proposed it cannot approve it",
        ProposalDiffers => "refused: the change differs from the proposed one",
        FundsOutAborted => "aborted: the reserved funds were returned",
        FundsInsufficient => "refused: the outflow exceeds the participant's available liquidity",
        FundsOutNotReserved => "refused: the outflow does not exist or has ended",
        FundsRepeated => "resend: no funds moved",
        ParticipantInactive => "refused: the participant is inactive",
        AccountInactive => "refused: the account is inactive",
        FundsModified => "refused: the id belongs to another movement or transfer",
        DeadLetterNotFound => "refused: the notice is not a dead letter",
        ParticipantNotFound => "refused: the participant does not exist",
        AccountNotFound => "refused: the participant does not have this account",
        AccountKindWrong => "refused: the account is not a SETTLEMENT account",
        CurrencyMismatch => "refused: the currency of the amount differs from that of the account",
        HubAccountsMissing => "refused: the hub has no reconciliation account in the currency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message with its outcome.
    fn explanation(
        state: Option<&'static str>,
        messages: &[(&'static str, ExplainedOutcome)],
    ) -> Explanation {
        let event = |(request, outcome): &(&'static str, ExplainedOutcome)| {
            let message = MessageReport {
                request,
                sender: "bank".into(),
                destination: None,
                says: "5106 \"account closed\"".into(),
                expiration: None,
                expires_in_ms: None,
                trace: String::new(),
                hash: String::new(),
                kept: "none",
                erasure: None,
                header_lines: None,
                header_bytes: None,
                body_bytes: None,
                digest: None,
            };
            let verdict = Verdict::of(*outcome);
            let decision =
                DecisionReport { verdict, parties: vec![], postings: vec![], owes: vec![] };
            let detail = EventDetail::Message { message, decision };
            Event { log_index: 1, time: String::new(), detail }
        };
        Explanation {
            transfer: "one".into(),
            payment: None,
            bulk: None,
            state,
            settlement: None,
            fee_settlement: None,
            events: messages.iter().map(event).collect(),
            left_out: 0,
            notices_pending: vec![],
            dead_letters: vec![],
            under_way: vec![],
            up_to: 1,
            source: Source::Store,
            unread: vec![],
            records: 1,
            seconds: 0.0,
        }
    }

    #[test]
    fn failures_are_explained_and_only_failures() {
        use ExplainedOutcome::*;
        let prepare = ("POST /transfers", PrepareReserved);
        let [quote, again] = [Accepted, QuoteModified].map(|end| ("POST /quotes", end));
        let bulk = |request, outcome| [("POST /bulkTransfers", BulkAccepted), (request, outcome)];
        let (answer, error) = ("PUT /bulkTransfers/{id}", "PUT /bulkTransfers/{id}/error");
        for (state, messages, expected) in [
            (Some("COMMITTED"), &[prepare, ("PUT /transfers/{id}", Committed)][..], None),
            (
                Some("ABORTED"),
                &[
                    prepare,
                    ("POST /transfers", PrepareModified),
                    ("PUT /transfers/{id}/error", Aborted),
                ],
                Some("aborted by the payee: 5106 \"account closed\""),
            ),
            (
                Some("ABORTED"),
                &[("POST /transfers", PrepareCapExceeded)],
                Some("refused: the payer's position would exceed its net debit cap"),
            ),
            (None, &[quote, again], None),
            (None, &[again], Some("refused: the id has another content, 3106")),
            (Some("COMPLETED"), &bulk(answer, ResponseNotFromPayee), None),
            (Some("PROCESSING"), &bulk(answer, ResponseModified), None),
            (
                Some("REJECTED"),
                &bulk(error, BulkRejected),
                Some(
                    "rejected: no item was accepted, or the payee aborted all of them: 5106 \
                     \"account closed\"",
                ),
            ),
        ] {
            let text = explanation(state, messages).to_string();
            let found = text.lines().find_map(|line| line.strip_prefix("why it failed: "));
            assert_eq!(found, expected, "{text}");
        }
    }
}
