//! Inputs and outputs: entries, attempts, results and verdicts.

use ledger::{
    DeliveryResult, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, Stamp, TransferId,
};

use crate::policy::MonotonicTime;

/// The priority of a notice. It decides whether the notice may be withdrawn and whether it may
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticePriority {
    /// A prepare to the payee, useless once its transfer is final.
    Prepare,
    /// An outcome owed to a participant; always sent.
    Owed,
    /// An expiry, or a response to a registration. It is always sent, but no transfer waits for it:
    /// it goes after the others, with few in flight at once.
    Patient,
}

impl NoticePriority {
    /// The priority of a notice.
    #[must_use]
    pub const fn of(notice: &Notice) -> Self {
        let is_prepare = matches!(notice.kind, NoticeKind::Prepare | NoticeKind::BulkPrepare);
        let is_patient = matches!(notice.outcome, Outcome::Expired) || notice.transfer.is_none();
        match (is_prepare, is_patient) {
            (true, _) => Self::Prepare,
            (false, true) => Self::Patient,
            (false, false) => Self::Owed,
        }
    }
}

/// A notice to be delivered.
#[derive(Clone, Debug)]
pub struct QueuedNotice<M> {
    /// Its number in the log.
    pub notice: NoticeId,
    /// The recipient, which selects the lane.
    pub recipient: ParticipantIndex,
    /// Its transfer. Entries of one transfer stay in order within the lane. Entries without a
    /// transfer have no order, and are not dead letters when they are given up.
    pub transfer: Option<TransferId>,
    /// Time at which it is given up: [`crate::Policy::horizon_micros`] after it became owed.
    pub until: MonotonicTime,
    /// Its priority.
    pub purpose: NoticePriority,
    /// Size of the message, in bytes; counts against [`crate::Policy::bytes_max`].
    pub bytes: u32,
    /// When its transfer was reserved, if the notice reports a commit to the payer. Attempts return
    /// it, for measurements.
    pub reserved_at: Option<Stamp>,
    /// A cheap handle on the message; `None` if it is only in the log.
    pub message: Option<M>,
}

/// The result of [`crate::Delivery::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// Queued, and the message is kept until the delivery ends.
    Held,
    /// Queued without its message, because it has none or the lane's bytes are used up.
    Spilled,
    /// Ignored: the notice is already queued, in flight or unrecorded.
    Repeated,
}

/// An attempt that the driver must make now. Its result goes to [`crate::Delivery::finished`].
#[derive(Clone, Debug)]
pub struct Attempt<M> {
    /// The notice.
    pub notice: NoticeId,
    /// The participant to send it to.
    pub recipient: ParticipantIndex,
    /// The transfer.
    pub transfer: Option<TransferId>,
    /// 1 for the first attempt.
    pub number: u32,
    /// [`QueuedNotice::reserved_at`].
    pub reserved_at: Option<Stamp>,
    /// The message; if `None`, the driver loads it from the log.
    pub message: Option<M>,
}

impl<M> Attempt<M> {
    /// The same attempt with its message in another form.
    pub fn map<N>(self, form: impl FnOnce(M) -> N) -> Attempt<N> {
        let Self { notice, recipient, transfer, number, reserved_at, message } = self;
        Attempt { notice, recipient, transfer, number, reserved_at, message: message.map(form) }
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The recipient answered with this HTTP status.
    Status(u16),
    /// No answer in time.
    TimedOut,
    /// No connection (refused, unreachable, name not resolved).
    ConnectFailed,
    /// No encrypted connection, for this reason.
    TlsFailed(&'static str),
    /// The recipient broke a rule of HTTP/2.
    Http2Failed(&'static str),
    /// The connection broke before the answer was complete.
    Broken,
    /// Nothing was sent, for reasons other than the recipient: the message could not be read, or
    /// this node may no longer send it. It does not count as an attempt.
    Unsent,
    /// Nothing was sent: the recipient has no address for this request, or one that may not be
    /// called. It does not count as an attempt or as a failure of the recipient.
    NoAddress,
}

impl AttemptResult {
    /// The HTTP status, when there was an answer.
    #[must_use]
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            Self::TimedOut
            | Self::ConnectFailed
            | Self::TlsFailed(_)
            | Self::Http2Failed(_)
            | Self::Broken
            | Self::Unsent
            | Self::NoAddress => None,
        }
    }

    /// The consequence. Redirections, and statuses of a gateway, deployment or access rule that may
    /// be wrong for a while, are retried. A number that is not a final HTTP status shows a broken
    /// peer and is retried as well.
    pub(crate) const fn consequence(self) -> Consequence {
        match self {
            Self::Status(200..=299) => Consequence::Deliver,
            Self::Status(401 | 403 | 404 | 408 | 409 | 421 | 425 | 429) => Consequence::Retry,
            Self::Status(400..=499 | 501) => Consequence::GiveUp,
            Self::Status(_)
            | Self::TimedOut
            | Self::ConnectFailed
            | Self::TlsFailed(_)
            | Self::Http2Failed(_)
            | Self::Broken => Consequence::Retry,
            Self::Unsent => Consequence::Wait,
            Self::NoAddress => Consequence::Park,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    Deliver,
    Retry,
    GiveUp,
    Wait,
    Park,
}

/// The decision about a notice after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The delivery has ended, delivered or not. It must be recorded.
    Ended(DeliveryReport),
    /// Another attempt follows at this time, or at once if the lane opens and its probe was
    /// unanswered.
    RetryAt(MonotonicTime),
    /// It waits until the recipient registers an address.
    Parked,
    /// Dropped: another node makes the next attempt.
    LaneLost,
}

/// The end of a delivery, as recorded in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The notice.
    pub notice: NoticeId,
    /// The recipient.
    pub recipient: ParticipantIndex,
    /// The transfer.
    pub transfer: Option<TransferId>,
    /// The result.
    pub result: DeliveryResult,
    /// Attempts made.
    pub attempts: u32,
    /// The result of the last attempt; `None` if there was none.
    pub last: Option<AttemptResult>,
    /// Time of the first attempt, if there was one.
    pub first_attempt: Option<MonotonicTime>,
    /// Time at which the delivery ended.
    pub finished: MonotonicTime,
}

impl DeliveryReport {
    /// Attempts as recorded, at most 65,535.
    #[must_use]
    pub fn attempts_recorded(&self) -> u16 {
        u16::try_from(self.attempts).unwrap_or(u16::MAX)
    }

    /// The HTTP status of the last response; 0 if there was none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.last.and_then(AttemptResult::status).unwrap_or(0)
    }
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    /// Time at which it was handed out.
    pub began: MonotonicTime,
    /// Time of its result.
    pub ended: MonotonicTime,
    /// Its result; never [`AttemptResult::Unsent`] or [`AttemptResult::NoAddress`].
    pub result: AttemptResult,
}

/// The progress of an unfinished notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Attempts begun.
    pub attempts: u32,
    /// Time of the first attempt.
    pub first_attempt: Option<MonotonicTime>,
    /// The result of the last attempt.
    pub last: Option<AttemptResult>,
    /// The reason why it waits.
    pub waits: WaitReason,
}

/// The reason why a notice waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// An earlier notice of its transfer to the same recipient.
    Earlier,
    /// For its turn: others are ahead of it, or the window is full.
    Turn,
    /// The end of an attempt.
    Result,
    /// The end of a pause, its own or that of its silent recipient.
    Until(MonotonicTime),
    /// An address that its recipient has not registered.
    Address,
    /// The durable record of its ended delivery.
    Record,
}

/// The result of [`crate::Delivery::withdraw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// It is not sent, or not sent again. The end must be recorded.
    Ended(DeliveryReport),
    /// It must be sent, has ended, or is in flight. No attempt follows one in flight.
    Kept,
    /// Unknown: never queued, or finished and recorded.
    Unknown,
}
