//! Durations and refusals of one I/O thread, which scrapes read.
//!
//! Bounds: the first [`PARTICIPANTS_MAX`] participants of the registry have histograms and counters
//! of their own, which take memory once they are called; the others share those of `other`.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use fspiop::Refusal;
use fspiop::route_table::Operation;
use http::StatusCode;
use ledger::{Notice, NoticeKind, Outcome, ParticipantIndex, Stamp, TraceId};
use metrics::{Counter, Exemplar, Exemplars, Histogram, PARTICIPANTS_MAX, participant_place};
use node::latency_trace::monotonic_ns;

use crate::failure::{REASONS, SendError, reason_of};

/// A histogram that takes memory with its first duration.
#[derive(Debug, Default)]
pub(crate) struct LazyHistogram(OnceLock<Box<Histogram>>);

impl LazyHistogram {
    fn record(&self, nanoseconds: u64) {
        self.0.get_or_init(Box::default).record(nanoseconds);
    }

    /// The histogram, unless it is empty.
    pub(crate) fn get(&self) -> Option<&Histogram> {
        self.0.get().map(|histogram| &**histogram)
    }
}

/// A histogram per result of a call.
pub(crate) type ByResult = [LazyHistogram; CallResult::ALL.len()];

/// A request of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKind {
    /// The requested operation.
    pub operation: Operation,
    /// Whether its path has a sub-identifier.
    pub has_sub_id: bool,
}

impl RequestKind {
    /// The kinds of an operation: without and with a sub-identifier.
    pub(crate) fn of(operation: Operation) -> [Self; 2] {
        [false, true].map(|has_sub_id| Self { operation, has_sub_id })
    }
}

/// The measurements of one thread.
#[derive(Debug)]
pub(crate) struct Measurements {
    /// Whether durations are recorded. Refusals always are.
    is_recording: bool,
    pub(crate) answers: ByRequest<OnceLock<Box<AnswerTimes>>>,
    /// A refusal is rare, so the lock is.
    refusals: Mutex<Refusals>,
    /// By [`participant_place`]; the last one is `other`.
    pub(crate) peers: Box<[OnceLock<Box<PeerTimes>>]>,
    /// Failed calls, in the same order. They are counted without durations too.
    pub(crate) failures: Box<[OnceLock<Box<PeerFailures>>]>,
    /// Building the message of a notice, by [`NoticeAction`].
    pub(crate) built: [ByResult; NoticeAction::COUNT],
    /// Attempts to deliver a notice, from the first step to the answer.
    pub(crate) notices: ByResult,
    /// By [`PaymentSpan`].
    pub(crate) payments: [LazyHistogram; PaymentSpan::COUNT],
    /// Look-ups of a transfer's state for a participant.
    pub(crate) queries: ByResult,
    /// Microseconds of the wall clock at the zero of the monotonic clock.
    wall_offset_us: Counter,
}

/// A value per [`RequestKind`].
#[derive(Debug)]
pub(crate) struct ByRequest<T>([[T; 2]; Operation::COUNT]);

impl<T: Default> Default for ByRequest<T> {
    fn default() -> Self {
        Self(from_fn(|_| Default::default()))
    }
}

impl<T> ByRequest<T> {
    /// The value of a request.
    pub(crate) fn get(&self, request: RequestKind) -> &T {
        &self.0[request.operation as usize][usize::from(request.has_sub_id)]
    }
}

/// Refused requests.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) counts: BTreeMap<Refused, u64>,
    /// Times from their arrival to the answer.
    pub(crate) times: BTreeMap<RequestKind, Box<Histogram>>,
    /// Numbers by the place of the sender among the participants, and error code.
    pub(crate) by_sender: BTreeMap<(usize, u16), u64>,
}

/// Operation, status and error code of a refusal; no operation if the path is unknown.
pub(crate) type Refused = (Option<Operation>, u16, u16);

/// Times from the arrival of a request to its synchronous answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerTimes {
    pub(crate) times: Histogram,
    pub(crate) exemplars: Exemplars,
}

/// Calls that a participant did not accept, by [`REASONS`].
#[derive(Debug, Default)]
pub(crate) struct PeerFailures {
    /// Attempts to deliver a notice; absent before the first attempt.
    pub(crate) callbacks: OnceLock<[Counter; REASONS.len()]>,
    /// Forwarded messages; absent before the first one.
    pub(crate) forwards: OnceLock<[Counter; REASONS.len()]>,
}

/// Times of a participant.
#[derive(Debug, Default)]
pub(crate) struct PeerTimes {
    /// Attempts answered with one of [`USUAL_STATUSES`], by [`NoticeAction`].
    pub(crate) delivered: [[LazyHistogram; USUAL_STATUSES.len()]; NoticeAction::COUNT],
    /// Other attempts, by action and status; 0 without an answer. They are rare.
    others: Mutex<BTreeMap<(NoticeAction, u16), Box<Histogram>>>,
    /// Forwarded messages.
    pub(crate) forwards: OnceLock<Box<ByRequest<ByResult>>>,
}

/// Statuses of nearly all answers to a notice.
pub(crate) const USUAL_STATUSES: [u16; 2] = [200, 202];

impl Measurements {
    /// Measurements with or without durations.
    pub(crate) fn new(is_recording: bool) -> Self {
        Self {
            is_recording,
            answers: ByRequest::default(),
            refusals: Mutex::default(),
            peers: (0..=PARTICIPANTS_MAX).map(|_| OnceLock::new()).collect(),
            failures: (0..=PARTICIPANTS_MAX).map(|_| OnceLock::new()).collect(),
            built: from_fn(|_| ByResult::default()),
            notices: ByResult::default(),
            payments: from_fn(|_| LazyHistogram::default()),
            queries: ByResult::default(),
            wall_offset_us: Counter::default(),
        }
    }
}

/// The result of a call to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// It was answered with a status 2xx.
    Succeeded,
    /// It was answered with another status, or not at all.
    Failed,
}

impl CallResult {
    /// Both results, in order.
    pub const ALL: [Self; 2] = [Self::Succeeded, Self::Failed];

    /// Of a participant's answer; `None` without an answer.
    pub(crate) fn of(status: Option<StatusCode>) -> Self {
        match status.is_some_and(|status| status.is_success()) {
            true => Self::Succeeded,
            false => Self::Failed,
        }
    }
}

/// The reference's name of the event that a notice reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeAction {
    /// A prepare, to the payee.
    Prepare,
    /// A commit, reported with the payee's message.
    Commit,
    /// A commit that the payee announced as RESERVED.
    Reserve,
    /// An abort by the payee.
    Abort,
    /// An error of the hub.
    AbortValidation,
    /// An expiry.
    TimeoutReserved,
    /// An end that the payee waits for, and that is no commit.
    ReservedAborted,
    /// The answer to a prepare that was sent again.
    PrepareDuplicate,
    /// The answer to a fulfil that was sent again.
    FulfilDuplicate,
    /// The answer to an abort that was sent again.
    AbortDuplicate,
    /// A change of the party directory. The reference does not report it by a notice.
    Registration,
}

impl NoticeAction {
    /// Number of actions.
    pub const COUNT: usize = 11;

    /// All actions, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Prepare,
        Self::Commit,
        Self::Reserve,
        Self::Abort,
        Self::AbortValidation,
        Self::TimeoutReserved,
        Self::ReservedAborted,
        Self::PrepareDuplicate,
        Self::FulfilDuplicate,
        Self::AbortDuplicate,
        Self::Registration,
    ];

    /// The name as the reference's label `action` has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Commit => "commit",
            Self::Reserve => "reserve",
            Self::Abort => "abort",
            Self::AbortValidation => "abort-validation",
            Self::TimeoutReserved => "timeout-reserved",
            Self::ReservedAborted => "reserved-aborted",
            Self::PrepareDuplicate => "prepare-duplicate",
            Self::FulfilDuplicate => "fulfil-duplicate",
            Self::AbortDuplicate => "abort-duplicate",
            Self::Registration => "registration",
        }
    }

    /// The action of a notice.
    pub(crate) const fn of(notice: &Notice) -> Self {
        let is_resent = matches!(notice.outcome, Outcome::ResponseResent);
        let is_prepare_resent = matches!(notice.outcome, Outcome::PrepareResentCommitted);
        let is_expiry = matches!(notice.outcome, Outcome::Expired);
        match notice.kind {
            NoticeKind::Prepare => Self::Prepare,
            NoticeKind::Fulfil | NoticeKind::FulfilCopy => Self::Commit,
            NoticeKind::Committed if is_prepare_resent => Self::PrepareDuplicate,
            NoticeKind::Committed | NoticeKind::PatchCommitted if is_resent => {
                Self::FulfilDuplicate
            }
            NoticeKind::Committed | NoticeKind::PatchCommitted => Self::Reserve,
            NoticeKind::Abort | NoticeKind::AbortCopy if is_resent => Self::AbortDuplicate,
            NoticeKind::Abort | NoticeKind::AbortCopy => Self::Abort,
            NoticeKind::Error if is_expiry => Self::TimeoutReserved,
            NoticeKind::Error => Self::AbortValidation,
            NoticeKind::AbortedState if is_resent => Self::AbortDuplicate,
            NoticeKind::Reserved | NoticeKind::AbortedState => Self::PrepareDuplicate,
            NoticeKind::PatchAborted => Self::ReservedAborted,
            NoticeKind::PartiesChanged => Self::Registration,
            NoticeKind::BulkPrepare => Self::Prepare,
            NoticeKind::BulkResult => Self::Commit,
            NoticeKind::BulkError => Self::AbortValidation,
        }
    }
}

/// A part of a payment that ends with the delivery of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentSpan {
    /// From the stamp of a prepare to its delivery to the payee.
    Prepare,
    /// From the stamp of a fulfil to the delivery of the commit to the payer.
    Fulfil,
    /// From the stamp of a prepare to the delivery of the commit to the payer.
    Transfer,
}

impl PaymentSpan {
    /// Number of parts.
    pub const COUNT: usize = 3;
}

/// An attempt to deliver a notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredAttempt<'a> {
    pub(crate) notice: &'a Notice,
    /// When its transfer was reserved, if it reports a commit to the payer.
    pub(crate) reserved_at: Option<Stamp>,
    /// When the attempt began.
    pub(crate) began_ns: u64,
    /// When its message was complete.
    pub(crate) built_ns: u64,
}

impl Measurements {
    /// Records an accepted request, which is answered now, and its trace if it may be shown as an
    /// example.
    pub(crate) fn answered(&self, request: RequestKind, arrived_ns: u64, trace: Option<TraceId>) {
        if !self.is_recording {
            return;
        }
        let AnswerTimes { times, exemplars } =
            &**self.answers.get(request).get_or_init(Box::default);
        let now = monotonic_ns();
        let (nanoseconds, at_ms) = (now - arrived_ns, self.wall(now).millis());
        times.record(nanoseconds);
        if let Some(trace) = trace {
            exemplars.record(&Exemplar { trace, nanoseconds, at_ms });
        }
    }

    /// Records a refused request, which is answered now. `sender` is absent if no participant has
    /// the name that the request states.
    pub(crate) fn refused(
        &self,
        (request, sender): (Option<RequestKind>, Option<ParticipantIndex>),
        arrived_ns: u64,
        refusal: &Refusal,
    ) {
        let operation = request.map(|request| request.operation);
        let code = refusal.code.number();
        let mut refusals = self.refusals();
        *refusals.counts.entry((operation, refusal.status.as_u16(), code)).or_default() += 1;
        if let Some(sender) = sender {
            *refusals.by_sender.entry((place_of(sender), code)).or_default() += 1;
        }
        if let Some(request) = request {
            refusals.times.entry(request).or_default().record(monotonic_ns() - arrived_ns);
        }
    }

    /// Refused requests.
    pub(crate) fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an attempt whose message could not be built.
    pub(crate) fn not_built(&self, notice: &Notice, began_ns: u64) {
        if !self.is_recording {
            return;
        }
        let times = &self.built[NoticeAction::of(notice) as usize];
        times[CallResult::Failed as usize].record(monotonic_ns() - began_ns);
    }

    /// Records one attempt to deliver a notice, which ends now.
    pub(crate) fn called_back(
        &self,
        attempt: &MeasuredAttempt<'_>,
        ended: Result<StatusCode, &SendError>,
    ) {
        let MeasuredAttempt { notice, reserved_at, began_ns, built_ns } = *attempt;
        count_failure(&self.failures_of(notice.recipient).callbacks, ended);
        if !self.is_recording {
            return;
        }
        let status = ended.ok();
        let (now, action) = (monotonic_ns(), NoticeAction::of(notice));
        let result = CallResult::of(status);
        if action != NoticeAction::Registration {
            self.built[action as usize][CallResult::Succeeded as usize].record(built_ns - began_ns);
            self.notices[result as usize].record(now - began_ns);
        }
        let status = status.map_or(0, |status| status.as_u16());
        self.peer(notice.recipient).called_back((action, status), now - built_ns);
        if result == CallResult::Succeeded {
            self.delivered(notice, reserved_at, self.wall(now));
        }
    }

    /// Records the parts of a payment that end with a delivery.
    fn delivered(&self, notice: &Notice, reserved_at: Option<Stamp>, now: Stamp) {
        let record = |span: PaymentSpan, since: Stamp| {
            let micros = now.0.saturating_sub(since.0);
            self.payments[span as usize].record(micros.saturating_mul(1_000));
        };
        if let Some(reserved_at) = reserved_at {
            record(PaymentSpan::Transfer, reserved_at);
            record(PaymentSpan::Fulfil, notice.at);
        } else if notice.kind == NoticeKind::Prepare {
            record(PaymentSpan::Prepare, notice.at);
        }
    }

    /// Records a forwarded message, whose sending ends now.
    pub(crate) fn forwarded(
        &self,
        (to, request): (ParticipantIndex, RequestKind),
        began_ns: u64,
        ended: Result<StatusCode, &SendError>,
    ) {
        count_failure(&self.failures_of(to).forwards, ended);
        if !self.is_recording {
            return;
        }
        let result = CallResult::of(ended.ok());
        let forwards = self.peer(to).forwards.get_or_init(Box::default);
        forwards.get(request)[result as usize].record(monotonic_ns() - began_ns);
    }

    /// Records a look-up of a transfer's state, which ends now.
    pub(crate) fn queried(&self, began_ns: u64, result: CallResult) {
        if !self.is_recording {
            return;
        }
        self.queries[result as usize].record(monotonic_ns() - began_ns);
    }

    /// Compares the clocks, because the wall clock may be set.
    pub(crate) fn set_wall(&self, wall: Stamp) {
        self.wall_offset_us.set(wall.0.saturating_sub(monotonic_ns() / 1_000));
    }

    fn wall(&self, monotonic_ns: u64) -> Stamp {
        Stamp(self.wall_offset_us.get() + monotonic_ns / 1_000)
    }

    fn peer(&self, participant: ParticipantIndex) -> &PeerTimes {
        self.peers[place_of(participant)].get_or_init(Box::default)
    }

    fn failures_of(&self, participant: ParticipantIndex) -> &PeerFailures {
        self.failures[place_of(participant)].get_or_init(Box::default)
    }
}

fn place_of(participant: ParticipantIndex) -> usize {
    participant_place(participant.at())
}

fn count_failure(
    counters: &OnceLock<[Counter; REASONS.len()]>,
    ended: Result<StatusCode, &SendError>,
) {
    let counters = counters.get_or_init(Default::default);
    if let Some(reason) = reason_of(ended) {
        counters[reason].add(1);
    }
}

impl PeerTimes {
    fn called_back(&self, (action, status): (NoticeAction, u16), nanoseconds: u64) {
        match USUAL_STATUSES.iter().position(|usual| *usual == status) {
            Some(at) => self.delivered[action as usize][at].record(nanoseconds),
            None => self.others().entry((action, status)).or_default().record(nanoseconds),
        }
    }

    /// Attempts with other statuses.
    pub(crate) fn others(&self) -> MutexGuard<'_, BTreeMap<(NoticeAction, u16), Box<Histogram>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ledger::{LogIndex, NoticeId};
    use metrics::HistogramValue;

    use super::*;

    fn notice(kind: NoticeKind, outcome: Outcome) -> Notice {
        Notice {
            id: NoticeId(1),
            recipient: ParticipantIndex(1),
            transfer: None,
            kind,
            source: LogIndex(1),
            outcome,
            at: Stamp(2_500_000),
            owed_at: Stamp(2_500_000),
            trace: [0; 16],
        }
    }

    #[test]
    fn actions_have_the_names_of_the_reference() {
        for (kind, outcome, action) in [
            (NoticeKind::Prepare, Outcome::PrepareReserved, "prepare"),
            (NoticeKind::Fulfil, Outcome::Committed, "commit"),
            (NoticeKind::Committed, Outcome::Committed, "reserve"),
            (NoticeKind::PatchCommitted, Outcome::Committed, "reserve"),
            (NoticeKind::PatchAborted, Outcome::FulfilmentInvalid, "reserved-aborted"),
            (NoticeKind::Abort, Outcome::Aborted, "abort"),
            (NoticeKind::Error, Outcome::Expired, "timeout-reserved"),
            (NoticeKind::Error, Outcome::PrepareCapExceeded, "abort-validation"),
            (NoticeKind::Committed, Outcome::PrepareResentCommitted, "prepare-duplicate"),
            (NoticeKind::Committed, Outcome::ResponseResent, "fulfil-duplicate"),
            (NoticeKind::AbortCopy, Outcome::ResponseResent, "abort-duplicate"),
            (NoticeKind::PartiesChanged, Outcome::Accepted, "registration"),
        ] {
            let found = NoticeAction::of(&notice(kind, outcome));
            assert_eq!(found.as_str(), action, "{kind:?} {outcome:?}");
        }
        for (at, action) in NoticeAction::ALL.into_iter().enumerate() {
            assert_eq!(action as usize, at);
        }
    }

    #[test]
    fn payments_end_with_the_delivery() {
        let measurements = Measurements::new(true);
        let commit = notice(NoticeKind::Fulfil, Outcome::Committed);
        let prepare = notice(NoticeKind::Prepare, Outcome::PrepareReserved);
        let resent = notice(NoticeKind::Committed, Outcome::PrepareResentCommitted);
        let now = Stamp(3_000_000);
        measurements.delivered(&commit, Some(Stamp(1_000_000)), now);
        measurements.delivered(&prepare, None, now);
        measurements.delivered(&resent, None, now);
        let found =
            [PaymentSpan::Prepare, PaymentSpan::Fulfil, PaymentSpan::Transfer].map(|span| {
                let mut value = HistogramValue::default();
                value.add(measurements.payments[span as usize].get().unwrap());
                (value.distribution.count(), value.distribution.sum_ns() / 1_000_000)
            });
        assert_eq!(found, [(1, 500), (1, 500), (1, 2_000)]);
    }
}
