//! A switch that decides nothing: the ceiling against which the real one is measured.
//!
//! Listener, parser, checks, forwarder and connections are the real ones. Where a transfer would
//! go to the sequencer it is answered at once and its notice sent on: no record, no kernel, no
//! log, no other thread. Everything else (onboarding, the directory) takes the usual way, so that
//! the same load can be put on both. What a null switch forwards is not money.

use std::cell::Cell;
use std::sync::Arc;

use ledger::{
    Command, FspName, LogIndex, Notice, NoticeId, NoticeKind, Outcome, TraceId, TransferId,
    TransferMessage,
};
use node::{Mailbox, MailboxEvent, ParticipantsView};
use ports::ClockReading;

use crate::message::Message;

/// Whether transfers are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// By the node: recorded, then decided.
    #[default]
    Real,
    /// Not at all; only for measuring.
    Null,
}

/// Numbers of notices begin far above those of the node, which still makes some.
const FIRST_NOTICE: u64 = 1 << 63;

/// Makes the notices of a null switch.
pub(crate) struct Passthrough {
    mailbox: Arc<Mailbox<Message>>,
    next: Cell<u64>,
}

/// A message about a transfer: what of it makes a notice.
pub(crate) struct PassthroughMessage {
    kind: NoticeKind,
    transfer: TransferId,
    recipient: Option<FspName>,
    trace: TraceId,
}

impl PassthroughMessage {
    /// `None` when the command is of another kind and takes the usual way.
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

/// Whether a notice was made here. The node, which still makes those of registrations and waits
/// to hear of them, does not know it.
pub(crate) fn made(notice: NoticeId) -> bool {
    FIRST_NOTICE <= notice.0
}

impl Passthrough {
    pub(crate) fn new(mailbox: Arc<Mailbox<Message>>) -> Self {
        Self { mailbox, next: Cell::new(FIRST_NOTICE) }
    }

    /// Sends a message on; the caller answers at once.
    pub(crate) fn owe(
        &self,
        view: &ParticipantsView,
        now: ClockReading,
        passing: &PassthroughMessage,
        message: Message,
    ) {
        let number = self.next.replace(self.next.get() + 1);
        // A recipient that the register does not know is not called, as by the real switch.
        let Some(recipient) = passing.recipient.and_then(|name| view.find(&name)) else { return };
        let notice = Notice {
            id: NoticeId(number),
            recipient: recipient.index,
            transfer: Some(passing.transfer),
            kind: passing.kind,
            source: LogIndex(0),
            outcome: Outcome::Accepted,
            at: now.wall,
            owed_at: now.wall,
            trace: passing.trace,
        };
        let event = MailboxEvent::Notice { notice, message: Some(Arc::new(message)) };
        self.mailbox.post(&mut vec![event]);
    }
}
