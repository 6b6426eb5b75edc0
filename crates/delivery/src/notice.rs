//! What goes in and what comes out: entries, attempts, results, verdicts.

use ledger::{DeliveryResult, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, TransferId};

use crate::policy::MonotonicTime;

/// Why a notice is sent, which decides whether it may be withdrawn and whether it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticePriority {
    /// A prepare on its way to the payee: of no use once its transfer is final.
    Prepare,
    /// An outcome owed to a participant: sent whatever happens.
    Owed,
    /// An outcome that time alone brought about, or an answer to a registration: sent whatever
    /// happens, but no transfer waits for it. It goes after the others, and few are under way at
    /// once.
    Patient,
}

impl NoticePriority {
    /// Why this notice is sent.
    #[must_use]
    pub const fn of(notice: &Notice) -> Self {
        let is_prepare = matches!(notice.kind, NoticeKind::Prepare);
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
    /// Who gets it: selects the lane.
    pub recipient: ParticipantIndex,
    /// The transfer it is about: entries of one transfer stay in order within the lane. Entries
    /// about none have no order, and are no dead letters when they are given up.
    pub transfer: Option<TransferId>,
    /// When its delivery is given up: [`crate::Policy::horizon_micros`] after it became owed.
    pub until: MonotonicTime,
    /// Whether it may be withdrawn, and whether it may wait.
    pub purpose: NoticePriority,
    /// Size of the message, in bytes; counts against [`crate::Policy::bytes_max`].
    pub bytes: u32,
    /// A cheap handle on the message, or `None` when it is only in the log.
    pub message: Option<M>,
}

/// What [`crate::Delivery::enqueue`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// Queued, and the message is kept until the delivery ends.
    Held,
    /// Queued without its message, because none was given or the lane's bytes are used up.
    Spilled,
    /// Nothing: the notice is queued, in flight or unrecorded already.
    Repeated,
}

/// An attempt the driver must make now, and answer with [`crate::Delivery::finished`].
#[derive(Clone, Debug)]
pub struct Attempt<M> {
    /// The notice.
    pub notice: NoticeId,
    /// The participant to send it to.
    pub recipient: ParticipantIndex,
    /// The transfer it is about.
    pub transfer: Option<TransferId>,
    /// 1 for the first attempt.
    pub number: u32,
    /// The message; `None` means that the driver loads it from the log.
    pub message: Option<M>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The recipient answered with this HTTP status.
    Status(u16),
    /// No answer in time.
    TimedOut,
    /// No connection (refused, unreachable, name not resolved, TLS refused).
    ConnectFailed,
    /// The connection broke before the answer was complete.
    Broken,
    /// Nothing was sent, for no fault of the recipient: what was to be sent could not be read, or
    /// may be sent by this node no more. It counts as no attempt.
    Unsent,
    /// Nothing was sent: the recipient has registered no address for this request, or one that
    /// cannot be called. It counts as no attempt, and says nothing about the recipient's health.
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
            | Self::Broken
            | Self::Unsent
            | Self::NoAddress => None,
        }
    }

    /// What follows from it. Redirections and the statuses of a gateway, a deployment or an access
    /// rule that is wrong for a while are tried again. A number that is no final HTTP status shows
    /// a broken peer, and is tried again too.
    pub(crate) const fn consequence(self) -> Consequence {
        match self {
            Self::Status(200..=299) => Consequence::Deliver,
            Self::Status(401 | 403 | 404 | 408 | 409 | 421 | 425 | 429) => Consequence::Retry,
            Self::Status(400..=499 | 501) => Consequence::GiveUp,
            Self::Status(_) | Self::TimedOut | Self::ConnectFailed | Self::Broken => {
                Consequence::Retry
            }
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

/// What becomes of a notice after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The delivery has ended, well or not. To be recorded.
    Ended(DeliveryReport),
    /// Another attempt follows, not before this moment, unless the lane opens: then a notice whose
    /// probe was not answered goes at once.
    RetryAt(MonotonicTime),
    /// It waits until the recipient registers an address.
    Parked,
    /// Nothing: another node makes the next attempt.
    Left,
}

/// The end of a delivery, as it goes into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The notice.
    pub notice: NoticeId,
    /// The participant it was for.
    pub recipient: ParticipantIndex,
    /// The transfer it was about.
    pub transfer: Option<TransferId>,
    /// How it ended.
    pub result: DeliveryResult,
    /// Attempts made.
    pub attempts: u32,
    /// How the last one ended; none when the delivery ended before it was tried.
    pub last: Option<AttemptResult>,
    /// When the first attempt was handed out, if there was one.
    pub first_attempt: Option<MonotonicTime>,
    /// When the delivery ended.
    pub finished: MonotonicTime,
}

impl DeliveryReport {
    /// Attempts as they are recorded: 65,535 for more.
    #[must_use]
    pub fn attempts_recorded(&self) -> u16 {
        u16::try_from(self.attempts).unwrap_or(u16::MAX)
    }

    /// The HTTP status of the last answer, 0 when there was none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.last.and_then(AttemptResult::status).unwrap_or(0)
    }
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    /// When it was handed out.
    pub began: MonotonicTime,
    /// When its result came.
    pub ended: MonotonicTime,
    /// How it ended; never [`AttemptResult::Unsent`] or [`AttemptResult::NoAddress`].
    pub result: AttemptResult,
}

/// How far a notice is that is not done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Attempts begun.
    pub attempts: u32,
    /// When the first one was handed out.
    pub first_attempt: Option<MonotonicTime>,
    /// How the last one ended.
    pub last: Option<AttemptResult>,
    /// What it waits for.
    pub waits: WaitReason,
}

/// What a notice waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// An earlier notice of its transfer to the same recipient.
    Earlier,
    /// Its turn: others are before it, or the window is full.
    Turn,
    /// The end of an attempt.
    Result,
    /// The end of a pause: its own, or its recipient's, who did not answer.
    Until(MonotonicTime),
    /// An address that its recipient has not registered.
    Address,
    /// Its delivery has ended, and is not on record yet.
    Record,
}

/// What [`crate::Delivery::withdraw`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// It is not sent, or not sent again. To be recorded.
    Ended(DeliveryReport),
    /// Kept: it is owed whatever happens, has ended already, or is under way; in the last case no
    /// attempt follows the one that is made.
    Kept,
    /// Not here: never queued, or finished and recorded.
    Unknown,
}
