//! Recorded messages and outgoing notices in the memory of the I/O threads.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use ledger::{Notice, NoticeKind};

/// A recorded message in its forwarded form.
#[derive(Clone, Debug)]
pub struct ForwardedMessage {
    /// Headers of the outgoing message.
    pub headers: HeaderMap,
    /// The body, byte for byte as received.
    pub body: Bytes,
}

/// A notice to be delivered, with its source message while that is in memory. The first attempt
/// that forwards the message takes it, so that it is not copied; later attempts read it from the
/// log.
#[derive(Debug)]
pub(crate) struct OutgoingNotice {
    pub(crate) notice: Notice,
    pub(crate) message: RefCell<Option<Arc<ForwardedMessage>>>,
}

impl OutgoingNotice {
    pub(crate) fn new(notice: Notice, message: Option<Arc<ForwardedMessage>>) -> Rc<Self> {
        Rc::new(Self { notice, message: RefCell::new(message) })
    }

    /// Whether the message is sent as its sender wrote it.
    pub(crate) const fn is_forwarded(&self) -> bool {
        matches!(self.notice.kind, NoticeKind::Prepare | NoticeKind::Fulfil | NoticeKind::Abort)
    }

    /// The notice and its message, for an attempt of another thread.
    pub(crate) fn for_another_thread(&self) -> LentNotice {
        let message = match self.is_forwarded() {
            true => self.message.take(),
            false => self.message.borrow().clone(),
        };
        LentNotice { notice: self.notice, message }
    }
}

/// A notice on its way to another thread.
#[derive(Debug)]
pub(crate) struct LentNotice {
    notice: Notice,
    message: Option<Arc<ForwardedMessage>>,
}

impl LentNotice {
    pub(crate) fn received(self) -> Rc<OutgoingNotice> {
        OutgoingNotice::new(self.notice, self.message)
    }
}
