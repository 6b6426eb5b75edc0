//! What `upesi explain` tells: the life of one transfer as data for a script and as text for
//! people. Nothing is decided here.

use std::fmt::{self, Display, Formatter, Write};

use delivery::{AttemptResult, WaitReason};
use ledger::{Amount, ExplainedOutcome, NoticeKind, Stamp};
use record::attempts::{AttemptEnd, DeliveryAttempt};
use serde::{Serialize, Serializer};

use crate::cli::stdout::moment;
use crate::operate::quarantine::Entry;

/// The life of one transfer.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    pub(crate) transfer: String,
    /// `RESERVED`, `COMMITTED` or `ABORTED`; none if no record made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    pub(crate) events: Vec<Event>,
    /// Decisions in the middle that are not told, nor what became of their notices: those about
    /// messages that came again and again.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
    /// Notices about it that are owed at the end.
    pub(crate) notices_pending: Vec<u64>,
    /// Notices about it that were given up: nothing is tried until an operator asks for it.
    pub(crate) dead_letters: Vec<u64>,
    /// How far these are, where a switch is running that sends them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) under_way: Vec<Underway>,
    /// Last record that this takes account of.
    pub(crate) up_to: u64,
    /// Whether the decisions were noted when they were made, or made again.
    #[serde(flatten)]
    pub(crate) source: Source,
    /// Records in quarantine that cannot be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unread: Vec<String>,
    /// Records read to know this.
    pub(crate) records: u64,
    pub(crate) seconds: f64,
}

/// Where the numbers come from.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub(crate) enum Source {
    /// The store beside the log.
    Store,
    /// Every record was decided again.
    Replay {
        /// Why the store does not do; `None` if nobody wanted it asked.
        #[serde(rename = "store_not_asked", skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// One thing that happened, in the order of the log.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    /// The record; of an expiry, the one whose stamp met the deadline.
    pub(crate) log_index: u64,
    pub(crate) time: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// A participant's message came, and was decided on.
    Message { message: Message, decision: DecisionReport },
    /// The deadline was met.
    Expiry { expiration: String, decision: DecisionReport },
    /// An operator moved funds, or sent a dead letter again.
    Operator { actor: String, reason: String, change: String, decision: DecisionReport },
    /// A callback came to its end.
    Delivery(Delivery),
    /// A record that decides nothing: it broke an invariant, and an operator set it aside.
    SetAside {
        /// If it is a participant's.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
        /// If it is not.
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<String>,
        quarantined: Entry,
    },
}

/// A message as it is stored.
#[derive(Debug, Serialize)]
pub(crate) struct Message {
    /// Method and path.
    pub(crate) request: &'static str,
    pub(crate) sender: String,
    pub(crate) destination: Option<String>,
    /// What it said, as far as the kernel looks at it.
    pub(crate) says: String,
    pub(crate) expiration: Option<String>,
    /// Time left until then; negative when it had passed.
    pub(crate) expires_in_ms: Option<i64>,
    pub(crate) trace: String,
    /// Hash by which a resend is recognised.
    pub(crate) hash: String,
    /// What is left of the message: `stored`, `damaged` if that is not what its digest was taken
    /// of, `erased` or `none`.
    pub(crate) kept: &'static str,
    pub(crate) header_lines: Option<usize>,
    pub(crate) header_bytes: Option<usize>,
    pub(crate) body_bytes: Option<usize>,
    /// BLAKE3 of headers and body as they are stored.
    pub(crate) digest: Option<String>,
}

/// An outcome, for scripts and in words.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) outcome: String,
    pub(crate) number: u16,
    /// The same in words.
    pub(crate) why: &'static str,
}

impl Verdict {
    pub(crate) fn of(outcome: ExplainedOutcome) -> Self {
        let number = outcome.outcome().number();
        Self { outcome: format!("{outcome:?}"), number, why: why(outcome) }
    }
}

/// What the kernel made of it.
#[derive(Debug, Serialize)]
pub(crate) struct DecisionReport {
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    /// The numbers it was made on, and those after it.
    pub(crate) parties: Vec<Party>,
    pub(crate) postings: Vec<Leg>,
    pub(crate) owes: Vec<Owed>,
}

/// A participant's numbers around a decision.
#[derive(Debug, Serialize)]
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) currency: String,
    pub(crate) active: bool,
    pub(crate) account_active: bool,
    pub(crate) position_before: Decimal,
    pub(crate) position_after: Decimal,
    pub(crate) cover_before: Decimal,
    pub(crate) cover_after: Decimal,
    pub(crate) cap: Option<Decimal>,
    /// Callbacks owed to it when the decision was made.
    pub(crate) notices_owed: u32,
    /// How many may be owed before prepares for it are refused.
    pub(crate) lane_capacity: u32,
}

/// One account that changed.
#[derive(Debug, Serialize)]
pub(crate) struct Leg {
    pub(crate) side: &'static str,
    pub(crate) account: u32,
    pub(crate) kind: String,
    pub(crate) owner: String,
    pub(crate) amount: Decimal,
    pub(crate) currency: String,
    pub(crate) before: Decimal,
    pub(crate) after: Decimal,
}

/// A notice that became owed.
#[derive(Debug, Serialize)]
pub(crate) struct Owed {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// What it reports.
    pub(crate) outcome: String,
}

/// How a delivery ended.
#[derive(Debug, Serialize)]
pub(crate) struct Delivery {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// `delivered`, `dead`, `withdrawn` or `given up`.
    pub(crate) result: &'static str,
    pub(crate) attempts: u16,
    /// HTTP status of the last answer; none when there was no answer.
    pub(crate) last_status: Option<u16>,
    /// When the last attempt ended, by the wall clock.
    pub(crate) finished: String,
    /// Those that were made since the switch that ended it started, the newest of many; none where
    /// the first one delivered it.
    pub(crate) tried: Vec<Attempt>,
}

/// An attempt that has ended.
#[derive(Debug, Serialize)]
pub(crate) struct Attempt {
    /// When it began, by the wall clock.
    pub(crate) began: String,
    pub(crate) took_ms: u32,
    /// HTTP status of the answer; none when there was no answer.
    pub(crate) status: Option<u16>,
    /// Why there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<&'static str>,
}

impl Attempt {
    pub(crate) fn of(tried: &DeliveryAttempt) -> Self {
        let (status, failure) = match tried.end {
            AttemptEnd::Status(status) => (Some(status), None),
            AttemptEnd::TimedOut => (None, Some(TIMED_OUT)),
            AttemptEnd::ConnectFailed => (None, Some(CONNECT_FAILED)),
            AttemptEnd::Broken => (None, Some(BROKEN)),
        };
        let began = moment(Stamp::from_millis(tried.began_ms));
        Self { began, took_ms: tried.took_ms, status, failure }
    }
}

const TIMED_OUT: &str = "no answer in time";
const CONNECT_FAILED: &str = "no connection";
/// The stored form does not tell the two apart.
const BROKEN: &str = "the connection broke, or no message could be made of the records";

/// A callback that has not come to its end, and what was tried since this switch started.
#[derive(Debug, Serialize)]
pub(crate) struct Underway {
    pub(crate) notice: u64,
    pub(crate) recipient: String,
    pub(crate) request: &'static str,
    /// What it waits for.
    pub(crate) waits: &'static str,
    pub(crate) attempts: u32,
    pub(crate) first_attempt: Option<String>,
    /// HTTP status of the last answer; none when there was no answer.
    pub(crate) last_status: Option<u16>,
    /// Why the last attempt had no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure: Option<&'static str>,
    /// When the next attempt may begin, if it waits for that.
    pub(crate) next_attempt: Option<String>,
    /// The attempts that have ended, oldest first; the newest of many.
    pub(crate) tried: Vec<Attempt>,
}

impl Underway {
    pub(crate) fn of(
        underway: &switch::DeliveryStatus,
        (recipient, request): (String, &'static str),
    ) -> Self {
        let at = |ms: u64| moment(Stamp::from_millis(ms));
        Self {
            notice: underway.notice.0,
            recipient,
            request,
            waits: match underway.waits {
                WaitReason::Earlier => "an earlier callback of this transfer to this participant",
                WaitReason::Turn => "its turn among the callbacks to this participant",
                WaitReason::Result => "the answer to an attempt",
                WaitReason::Until(_) => "the end of a pause after a failure",
                WaitReason::Address => {
                    "an address: its recipient has registered none for this request"
                }
                WaitReason::Record => "the record of its end",
            },
            attempts: underway.attempts,
            first_attempt: underway.first_attempt_ms.map(at),
            last_status: underway.last.and_then(AttemptResult::status),
            last_failure: underway.last.and_then(|last| match last {
                AttemptResult::Status(_) => None,
                AttemptResult::TimedOut => Some(TIMED_OUT),
                AttemptResult::ConnectFailed => Some(CONNECT_FAILED),
                AttemptResult::Broken => Some(BROKEN),
                AttemptResult::Unsent => Some("nothing was sent: its message could not be read"),
                AttemptResult::NoAddress => {
                    Some("nothing was sent: no usable address is registered")
                }
            }),
            next_attempt: underway.next_attempt_ms.map(at),
            tried: underway.tried.iter().map(Attempt::of).collect(),
        }
    }
}

/// An amount, a decimal string for scripts.
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

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "transfer {}: {}", self.transfer, self.state.unwrap_or("never made"))?;
        for event in &self.events {
            write!(f, "\nrecord {}, {}: {}", event.log_index, event.time, event.what)?;
        }
        writeln!(f)?;
        if 0 < self.left_out {
            writeln!(
                f,
                "{} more messages about it, between the first and the last ones, decided nothing \
                 new and are left out, with what became of the callbacks that they made owed",
                self.left_out
            )?;
        }
        match &*self.notices_pending {
            [] => writeln!(f, "no pending notices at the end of the log"),
            pending => writeln!(f, "pending notices at the end of the log: {pending:?}"),
        }?;
        if !self.dead_letters.is_empty() {
            writeln!(
                f,
                "given up, a dead letter each: notices {:?}; POST /deadletters/ID/resend of the \
                 admin API sends one again",
                self.dead_letters
            )?;
        }
        self.unread.iter().try_for_each(|unread| writeln!(f, "{unread}"))?;
        let Self { up_to, records, seconds, .. } = self;
        match &self.source {
            Source::Store => write!(
                f,
                "as noted when it was decided, up to record {up_to}; {records} records read in \
                 {:.1} ms",
                seconds * 1e3
            ),
            Source::Replay { why: None } => {
                write!(f, "{records} records decided again in {seconds:.1} s")
            }
            Source::Replay { why: Some(why) } => write!(
                f,
                "{records} records decided again in {seconds:.1} s: the cold store was not asked, \
                 {why}"
            ),
        }
    }
}

impl Display for What {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { message, decision } => write!(f, "{message}{decision}"),
            Self::Expiry { expiration, decision } => {
                writeln!(f, "the deadline {expiration} was met")?;
                write!(f, "{decision}")
            }
            Self::Operator { actor, reason, change, decision } => {
                writeln!(f, "{change}, by {actor}, because: {reason}")?;
                write!(f, "{decision}")
            }
            Self::Delivery(delivery) => write!(f, "{delivery}"),
            Self::SetAside { message, change, quarantined } => {
                message.iter().try_for_each(|message| write!(f, "{message}"))?;
                change.iter().try_for_each(|change| writeln!(f, "{change}"))?;
                writeln!(f, "  decided  nothing: {}", quarantined.by_whom())
            }
        }
    }
}

impl Display for Delivery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { notice, recipient, request, result, attempts, tried, .. } = self;
        let status = match self.last_status {
            Some(status) => format!("last answer {status}"),
            None => "no answer".to_owned(),
        };
        writeln!(
            f,
            "notice {notice}, {request} to {recipient}: {result}\n  \
             {attempts} attempt{}, {status}, the last ended {}",
            if *attempts == 1 { "" } else { "s" },
            self.finished
        )?;
        let told_after = usize::from(*attempts).saturating_sub(tried.len());
        for (number, attempt) in (told_after + 1..).zip(tried) {
            writeln!(f, "  {number:>3}. {attempt}")?;
        }
        Ok(())
    }
}

impl Display for Attempt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { began, took_ms, status, failure } = self;
        write!(f, "{began}: ")?;
        match (status, failure) {
            (Some(status), _) => write!(f, "answer {status} after {took_ms} ms"),
            (None, failure) => {
                write!(f, "{} after {took_ms} ms", failure.unwrap_or("no answer"))
            }
        }
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.request, self.sender)?;
        match &self.destination {
            Some(destination) => writeln!(f, " to {destination}")?,
            None => writeln!(f)?,
        }
        writeln!(f, "  content  {}", self.says)?;
        if let (Some(expiration), Some(left)) = (&self.expiration, self.expires_in_ms) {
            writeln!(f, "  expires  {expiration}, {}", distance(left))?;
        }
        match self.kept {
            "damaged" => write!(f, "  message  DAMAGED, not what was taken in and decided on")?,
            kept => write!(f, "  message  {kept}")?,
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
        writeln!(f, "  decided  {outcome} ({number}): {why}")?;
        for party in &self.parties {
            writeln!(f, "  numbers  {party}")?;
        }
        for leg in &self.postings {
            writeln!(f, "  posted   {leg}")?;
        }
        for owed in &self.owes {
            let Owed { notice, recipient, request, outcome } = owed;
            writeln!(f, "  owes     notice {notice}: {request} to {recipient}, about {outcome}")?;
        }
        Ok(())
    }
}

impl Display for Party {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let changed = |before: Decimal, after: Decimal| match before == after {
            true => format!("{before}"),
            false => format!("{before} -> {after}"),
        };
        let mut text = format!(
            "{}: position {} {}, cover {}",
            self.name,
            changed(self.position_before, self.position_after),
            self.currency,
            changed(self.cover_before, self.cover_after)
        );
        match self.cap {
            Some(cap) => write!(text, ", cap {cap}")?,
            None => text += ", no cap",
        }
        write!(text, "; {} of {} notices owed", self.notices_owed, self.lane_capacity)?;
        if !self.active {
            text += "; switched off";
        }
        if !self.account_active {
            text += "; account switched off";
        }
        f.write_str(&text)
    }
}

impl Display for Leg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { side, account, kind, owner, amount, currency, before, after } = self;
        write!(
            f,
            "{side:<6} {amount} {currency} to account {account}, {kind} of {owner}: {before} -> \
             {after}"
        )
    }
}

/// How long it is until then, or has been since, for people.
fn distance(left_ms: i64) -> String {
    let ms = left_ms.unsigned_abs();
    let far = match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..600_000 => format!("{} s", ms / 1_000),
        600_000..36_000_000 => format!("{} min", ms / 60_000),
        36_000_000..864_000_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    };
    if left_ms < 0 { format!("{far} before it came") } else { format!("{far} after it came") }
}

/// The request that a notice becomes.
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
    }
}

/// An outcome in words, for whoever asks why.
const fn why(outcome: ExplainedOutcome) -> &'static str {
    use ExplainedOutcome::*;
    match outcome {
        Accepted => "accepted",
        Repeated => "the same record was applied before; nothing happened",
        SenderNotFound => "ignored: the sender is not a participant; nothing happened",
        PrepareModified => "refused: another transfer has this id; the stored one is untouched",
        PrepareResentCommitted => "sent again: answered with the stored end, COMMITTED",
        PrepareResentAborted => "sent again: answered with the stored end, ABORTED",
        PrepareResentReserved => "sent again: answered with the stored state, RESERVED",
        PrepareSourceNotPayer => "refused: the sender is not the payer",
        PrepareAmountPrecision => "refused: the amount has more than 18 digits",
        PreparePayerNotFound => "refused: the payer is no participant",
        PreparePayerInactive => "refused: the payer is switched off",
        PreparePayeeNotFound => "refused: the payee is no participant",
        PreparePayeeInactive => "refused: the payee is switched off",
        PrepareExpirationPast => "refused: it had expired when it came",
        PreparePayerIsPayee => "refused: payer and payee are the same",
        PreparePayerAccountNotFound => "refused: the payer has no account in the currency",
        PreparePayerAccountInactive => "refused: the payer's account is switched off",
        PreparePayeeAccountNotFound => "refused: the payee has no account in the currency",
        PreparePayeeAccountInactive => "refused: the payee's account is switched off",
        PreparePayeeLaneFull => "refused: too many notices are owed to the payee",
        PrepareLiquidityInsufficient => {
            "refused: with the amount the payer's position would be above its cover"
        }
        PrepareCapExceeded => {
            "refused: with the amount the payer's position would be above its cap"
        }
        PrepareReserved => "reserved: with the amount the payer is within cover and cap",
        FulfilVersionIgnored => "passed over: version 1.0 knows no RESERVED; left to time out",
        ResponseTransferNotFound => "refused: there is no such transfer",
        ResponseNotFromPayee => "refused: the sender is not the payee; the transfer is untouched",
        ResponseNotToPayer => "aborted: the payee addressed an FSP other than the payer",
        ResponseModified => "refused: it differs from the answer already taken",
        ResponseResent => "sent again: answered with the stored end",
        ResponseAfterExpiry => "refused: the transfer had expired",
        ResponseStateNotReserved => "refused: the transfer is not RESERVED",
        FulfilAbortedIgnored => "passed over: ABORTED by PUT is left to time out",
        FulfilmentInvalid => "aborted: the fulfilment is missing or does not hash to the condition",
        Committed => "committed: the fulfilment hashes to the condition",
        AbortedWithUnknownCode => {
            "aborted by the payee, with a code that the protocol does not know"
        }
        Aborted => "aborted by the payee",
        AbortedByPut => "aborted by the payee, by PUT with ABORTED",
        Expired => "expired: no answer ended it before its deadline",
        FundsOutAborted => "aborted: the reserved funds were given back",
        FundsInsufficient => "refused: the outflow is more than the participant can spare",
        FundsOutNotReserved => "refused: there is no such outflow, or it has ended",
        FundsRepeated => "sent again: nothing moved",
        ParticipantInactive => "refused: the participant is switched off",
        AccountInactive => "refused: the account is switched off",
        FundsModified => "refused: the id belongs to something else",
        DeadLetterNotFound => "refused: it is no dead letter",
        ParticipantNotFound => "refused: there is no such participant",
        AccountNotFound => "refused: the participant has no such account",
        AccountKindWrong => "refused: the account is not a SETTLEMENT account",
        CurrencyMismatch => "refused: the amount is not in the currency of the account",
        HubAccountsMissing => "refused: the hub has no reconciliation account in the currency",
    }
}
