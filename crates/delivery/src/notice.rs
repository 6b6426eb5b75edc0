//! What goes in and what comes out: entries, attempts, results, verdicts.

use ledger::{Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, TransferId};

use crate::policy::Moment;

/// Why a notice is sent, which decides whether it may be withdrawn and whether it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A prepare on its way to the payee: of no use once its transfer is final.
    Prepare,
    /// An outcome owed to a participant: sent whatever happens.
    Owed,
    /// An outcome that time alone brought about: sent whatever happens, but nobody's next message
    /// waits for it, so it goes behind those and few are under way at once.
    Patient,
}

impl Purpose {
    /// Why this notice is sent.
    #[must_use]
    pub const fn of(notice: &Notice) -> Self {
        match (notice.kind, notice.outcome) {
            (NoticeKind::Prepare, _) => Self::Prepare,
            (_, Outcome::Expired) => Self::Patient,
            _ => Self::Owed,
        }
    }
}

/// A notice to be delivered.
#[derive(Clone, Debug)]
pub struct Entry<M> {
    /// Its number in the log.
    pub notice: NoticeId,
    /// Who gets it: selects the lane.
    pub recipient: ParticipantIndex,
    /// The transfer it is about: entries of one transfer stay in order within the lane.
    pub transfer: TransferId,
    /// Whether it may be withdrawn, and whether it may wait.
    pub purpose: Purpose,
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
    pub transfer: TransferId,
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
}

impl AttemptResult {
    /// The HTTP status, when there was an answer.
    #[must_use]
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            Self::TimedOut | Self::ConnectFailed | Self::Broken | Self::Unsent => None,
        }
    }

    /// What follows from it. A number that is no final HTTP status shows a broken peer: retry.
    pub(crate) const fn consequence(self) -> Consequence {
        match self {
            Self::Status(200..=299) => Consequence::Deliver,
            Self::Status(408 | 425 | 429) => Consequence::Retry,
            Self::Status(300..=499) => Consequence::GiveUp,
            Self::Status(_) | Self::TimedOut | Self::ConnectFailed | Self::Broken => {
                Consequence::Retry
            }
            Self::Unsent => Consequence::Wait,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    Deliver,
    Retry,
    GiveUp,
    Wait,
}

/// What becomes of a notice after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done (2xx). To be recorded.
    Delivered(Report),
    /// Another attempt follows, not before this moment.
    RetryAt(Moment),
    /// Nothing: another node makes the next attempt.
    Left,
    /// A dead letter: a final refusal, or the last attempt failed. To be recorded.
    Dead(Report),
}

/// The end of a delivery, as it goes into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The notice.
    pub notice: NoticeId,
    /// The participant it was for.
    pub recipient: ParticipantIndex,
    /// The transfer it was about.
    pub transfer: TransferId,
    /// Attempts made, from 1 to [`crate::Policy::attempts_max`].
    pub attempts: u32,
    /// How the last one ended.
    pub last: AttemptResult,
    /// When the first attempt was handed out.
    pub first_attempt: Moment,
    /// When the last attempt ended.
    pub finished: Moment,
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// When it was handed out.
    pub began: Moment,
    /// When its result came.
    pub ended: Moment,
    /// How it ended; never [`AttemptResult::Unsent`].
    pub result: AttemptResult,
}

/// How far a notice is that is not done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Attempts begun.
    pub attempts: u32,
    /// When the first one was handed out.
    pub first_attempt: Option<Moment>,
    /// How the last one ended.
    pub last: Option<AttemptResult>,
    /// What it waits for.
    pub waits: Waits,
}

/// What a notice waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// An earlier notice of its transfer to the same recipient.
    Earlier,
    /// Its turn: others are before it, or the window is full.
    Turn,
    /// The end of an attempt.
    Result,
    /// The end of a pause: its own, or its recipient's, who did not answer.
    Until(Moment),
    /// Its delivery has ended, and is not on record yet.
    Record,
}

/// What [`crate::Delivery::withdraw`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// Dropped, never attempted. To be recorded as finished without an attempt.
    Dropped,
    /// Kept: it is owed, or an attempt was made, so that the recipient may know of it.
    Kept,
    /// Not here: never queued, or finished and recorded.
    Unknown,
}
