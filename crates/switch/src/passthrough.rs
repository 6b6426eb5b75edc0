//! A switch that forwards transfers without deciding them: the upper bound for benchmarks.
//!
//! Listener, parser, checks, forwarder and connections are the real ones. A transfer is not
//! submitted to the sequencer: it is answered and its notice sent at once, without record, kernel,
//! log or another thread. Everything else (onboarding, the directory) is processed as usual, so
//! that the same load can be run on both. No money moves in this mode.

use std::cell::Cell;
use std::sync::Arc;

use ledger::{
    Command, FspName, LogIndex, Notice, NoticeId, NoticeKind, Outcome, TraceId, TransferId,
    TransferMessage,
};
use node::{Mailbox, MailboxEvent, ParticipantsView};
use ports::ClockReading;

use crate::message::ForwardedMessage;

/// Whether transfers are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// By the node: recorded, then decided.
    #[default]
    ChangeReply,
    /// Forwarded without a decision; for benchmarks only.
    Passthrough,
}

/// Notice numbers start far above those of the node, which still creates some notices.
const FIRST_NOTICE: u64 = 1 << 63;

/// Creates the notices of a pass-through switch.
pub(crate) struct Passthrough {
    mailbox: Arc<Mailbox<ForwardedMessage>>,
    next: Cell<u64>,
}

/// The fields of a message about a transfer that make a notice.
pub(crate) struct PassthroughMessage {
    kind: NoticeKind,
    transfer: TransferId,
    recipient: Option<FspName>,
    trace: TraceId,
}

impl PassthroughMessage {
    /// `None` if the command is of another kind and is processed as usual.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        use TransferMessage::{Abort, Fulfil, Prepare};
        let (kind, transfer, recipient, trace) = match command.message()? {
            Prepare(it) => (NoticeKind::Prepare, it.id, Some(it.payee), it.trace),
            Fulfil(it) => (NoticeKind::Fulfil, it.id, it.destination, it.trace),
            Abort(it) => (NoticeKind::Abort, it.id, it.destination, it.trace),
        };
        Some(Self { kind, transfer, recipient, trace })
    }
}

/// Whether a notice was created here. The node does not know it and must not get its delivery
/// report; the node still creates the notices of registrations.
pub(crate) fn is_passthrough_notice(notice: NoticeId) -> bool {
    FIRST_NOTICE <= notice.0
}

impl Passthrough {
    pub(crate) fn new(mailbox: Arc<Mailbox<ForwardedMessage>>) -> Self {
        Self { mailbox, next: Cell::new(FIRST_NOTICE) }
    }

    /// Forwards a message; the caller answers at once.
    pub(crate) fn forward(
        &self,
        view: &ParticipantsView,
        now: ClockReading,
        message_fields: &PassthroughMessage,
        message: ForwardedMessage,
    ) {
        let number = self.next.replace(self.next.get() + 1);
        // An unknown recipient is not called, as in the real switch.
        let Some(recipient) = message_fields.recipient.and_then(|name| view.find(&name)) else {
            return;
        };
        let notice = Notice {
            id: NoticeId(number),
            recipient: recipient.index,
            transfer: Some(message_fields.transfer),
            kind: message_fields.kind,
            source: LogIndex(0),
            outcome: Outcome::Accepted,
            at: now.wall,
            owed_at: now.wall,
            trace: message_fields.trace,
        };
        let message = Some(Arc::new(message));
        let event = MailboxEvent::Notice { notice, reserved_at: None, message };
        self.mailbox.post(&mut vec![event]);
    }
}
