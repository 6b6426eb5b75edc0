//! Messages as the I/O threads hold them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use ledger::Notice;

/// A recorded message as it will be forwarded.
#[derive(Clone, Debug)]
pub struct Message {
    /// Headers, already those of the outgoing message.
    pub headers: HeaderMap,
    /// The body, byte for byte as received.
    pub body: Bytes,
}

/// A notice on its way out, with the message it is made from while that is in memory: the first
/// attempt that passes the message on takes it, so that nothing is copied; a later one reads it
/// from the log.
#[derive(Debug)]
pub(crate) struct OutgoingNotice {
    pub(crate) notice: Notice,
    pub(crate) message: RefCell<Option<Arc<Message>>>,
}

impl OutgoingNotice {
    pub(crate) fn new(notice: Notice, message: Option<Arc<Message>>) -> Rc<Self> {
        Rc::new(Self { notice, message: RefCell::new(message) })
    }
}
