//! The outbox of this thread, and the signals that wake its tasks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use node::{Handle, Mailbox};
use ports::ClockReading;
use tokio::sync::Notify;

use crate::message::{ForwardedMessage, OutgoingNotice};
use crate::thread::Thread;

/// Submissions to the sequencer and callbacks to participants.
pub(crate) struct Outbox {
    pub(crate) state: RefCell<node::outbox::Outbox<ForwardedMessage, Rc<OutgoingNotice>>>,
    pub(crate) flush: Notify,
    pub(crate) record: Notify,
    pub(crate) retry: Rc<Notify>,
    thread: Rc<Thread>,
}

impl Outbox {
    pub(crate) fn new(
        thread: &Rc<Thread>,
        handle: &Handle<ForwardedMessage>,
        mailbox: &Arc<Mailbox<ForwardedMessage>>,
        policy: (delivery::Policy, u64),
    ) -> Rc<Self> {
        let place = (thread.number, Arc::clone(mailbox));
        let state = node::outbox::Outbox::new(place, handle.first_lease_us(), policy);
        Rc::new(Self {
            state: RefCell::new(state),
            flush: Notify::new(),
            record: Notify::new(),
            retry: Rc::default(),
            thread: Rc::clone(thread),
        })
    }

    /// Queues a submission; it is sent together with all others of this round of sockets.
    pub(crate) fn submit(&self, submission: node::Submission<ForwardedMessage>) {
        self.state.borrow_mut().submit(submission);
        self.flush.notify_one();
    }

    /// Whether an attempt may start now: on a shared log only within the lease.
    pub(crate) fn may_send(&self) -> bool {
        let state = self.state.borrow();
        match state.needs_lease() {
            true => state.may_send(self.thread.now()),
            false => state.may_send(ClockReading::default()),
        }
    }
}
