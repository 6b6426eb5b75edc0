//! Requests that wait for a reply: one slot each, freed when its reply is taken or the waiting task
//! has ended.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ledger::Outcome;
use node::{BatchTimes, SubmissionRefused};

/// The reply to a request that waits for the sequencer.
pub(crate) type Reply = Result<Outcome, SubmissionRefused>;

/// The times of the batch of a reply, if they are reported.
pub(crate) type ReplyTimes = Option<Rc<BatchTimes>>;

/// The requests of one thread that wait for the sequencer.
#[derive(Default)]
pub(crate) struct PendingRequests {
    replies: Rc<PendingReplies<(Reply, ReplyTimes)>>,
    /// Of the batch whose replies are being read.
    batch: RefCell<ReplyTimes>,
}

impl PendingRequests {
    /// A new slot, and the future of its reply.
    pub(crate) fn wait(&self) -> Wait<(Reply, ReplyTimes)> {
        self.replies.wait()
    }

    /// Sets the times of the batch whose replies follow.
    pub(crate) fn begin_batch(&self, times: BatchTimes) {
        self.batch.replace(Some(Rc::new(times)));
    }

    /// Answers a slot, once.
    pub(crate) fn answer(&self, number: u32, reply: Reply) {
        self.replies.answer(number, (reply, self.batch.borrow().clone()));
    }

    /// Number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.replies.len()
    }
}

enum Slot<R> {
    Vacant,
    Waiting(Option<Waker>),
    /// The reply, until it is taken.
    Answered(Option<R>),
    /// The waiting task has ended; the reply is still pending.
    Abandoned,
}

/// Slots for replies to the tasks of one thread.
pub(crate) struct PendingReplies<R>(RefCell<Slots<R>>);

struct Slots<R> {
    slots: Vec<Slot<R>>,
    vacant: Vec<u32>,
}

impl<R> Default for PendingReplies<R> {
    fn default() -> Self {
        Self(RefCell::new(Slots { slots: Vec::new(), vacant: Vec::new() }))
    }
}

impl<R> PendingReplies<R> {
    /// A new slot, and the future of its reply.
    pub(crate) fn wait(self: &Rc<Self>) -> Wait<R> {
        let mut slots = self.0.borrow_mut();
        let number = slots.vacant.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::Vacant);
            (slots.slots.len() - 1) as u32
        });
        slots.slots[number as usize] = Slot::Waiting(None);
        Wait { pending: Rc::clone(self), number }
    }

    /// Answers a slot, once.
    pub(crate) fn answer(&self, number: u32, reply: R) {
        let mut slots = self.0.borrow_mut();
        let slot = &mut slots.slots[number as usize];
        match std::mem::replace(slot, Slot::Answered(Some(reply))) {
            Slot::Waiting(waker) => {
                drop(slots);
                waker.into_iter().for_each(Waker::wake);
            }
            Slot::Abandoned => {
                *slot = Slot::Vacant;
                slots.vacant.push(number);
            }
            Slot::Vacant | Slot::Answered(_) => panic!("a request is answered once"),
        }
    }

    /// Number of replies that are pending or not taken.
    fn len(&self) -> usize {
        let slots = self.0.borrow();
        slots.slots.len() - slots.vacant.len()
    }
}

/// Future of a slot's reply.
pub(crate) struct Wait<R> {
    pending: Rc<PendingReplies<R>>,
    number: u32,
}

impl<R> Wait<R> {
    /// The slot's number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl<R> Future for Wait<R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let mut slots = self.pending.0.borrow_mut();
        match &mut slots.slots[self.number as usize] {
            Slot::Answered(reply) => {
                Poll::Ready(reply.take().expect("a finished future is not polled again"))
            }
            slot => {
                *slot = Slot::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<R> Drop for Wait<R> {
    fn drop(&mut self) {
        let mut slots = self.pending.0.borrow_mut();
        let slot = &mut slots.slots[self.number as usize];
        if matches!(slot, Slot::Waiting(_)) {
            *slot = Slot::Abandoned;
            return;
        }
        *slot = Slot::Vacant;
        slots.vacant.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(wait: &mut Wait<(Reply, ReplyTimes)>) -> Poll<Reply> {
        let polled = Pin::new(wait).poll(&mut Context::from_waker(Waker::noop()));
        polled.map(|(reply, _)| reply)
    }

    #[test]
    fn a_reply_reaches_its_waiter_and_frees_the_slot() {
        let waiters = Rc::new(PendingRequests::default());
        let mut wait = waiters.wait();
        assert_eq!(poll(&mut wait), Poll::Pending);
        waiters.answer(wait.number(), Ok(Outcome::Committed));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(Outcome::Committed)));
        drop(wait);
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn a_slot_whose_client_has_gone_is_free_after_the_reply() {
        let waiters = Rc::new(PendingRequests::default());
        let wait = waiters.wait();
        let number = wait.number();
        drop(wait);
        assert_eq!(waiters.len(), 1, "a reply is still to come for it");
        let other = waiters.wait().number();
        assert_ne!(other, number);
        waiters.answer(other, Err(SubmissionRefused::Stopped));
        waiters.answer(number, Err(SubmissionRefused::Stopped));
        assert_eq!(waiters.len(), 0);
        assert_eq!(waiters.wait().number(), number);
    }
}
