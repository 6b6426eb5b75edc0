//! Requests that wait for the sequencer: one slot each, freed when its reply is taken or the client
//! has disconnected.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ledger::Outcome;
use node::{BatchTimes, SubmissionRefused};

/// The reply to a waiting request.
pub(crate) type Reply = Result<Outcome, SubmissionRefused>;

/// The times of the batch of a reply, if they are reported.
pub(crate) type ReplyTimes = Option<Rc<BatchTimes>>;

enum Slot {
    Vacant,
    Waiting(Option<Waker>),
    Answered(Reply, ReplyTimes),
    /// The client has disconnected; the reply is still pending.
    Abandoned,
}

/// The waiting requests of one thread.
#[derive(Default)]
pub(crate) struct PendingRequests {
    slots: RefCell<Slots>,
    /// Of the batch whose replies are being read.
    batch: RefCell<ReplyTimes>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

impl PendingRequests {
    /// A new slot, and the future of its reply.
    pub(crate) fn wait(self: &Rc<Self>) -> Wait {
        let mut slots = self.slots.borrow_mut();
        let number = slots.vacant.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::Vacant);
            (slots.slots.len() - 1) as u32
        });
        slots.slots[number as usize] = Slot::Waiting(None);
        Wait { waiters: Rc::clone(self), number }
    }

    /// Sets the times of the batch whose replies follow.
    pub(crate) fn begin_batch(&self, times: BatchTimes) {
        self.batch.replace(Some(Rc::new(times)));
    }

    /// Answers a slot, once.
    pub(crate) fn answer(&self, number: u32, reply: Reply) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[number as usize];
        match std::mem::replace(slot, Slot::Answered(reply, self.batch.borrow().clone())) {
            Slot::Waiting(waker) => {
                drop(slots);
                waker.into_iter().for_each(Waker::wake);
            }
            Slot::Abandoned => {
                *slot = Slot::Vacant;
                slots.vacant.push(number);
            }
            Slot::Vacant | Slot::Answered(..) => panic!("a request is answered once"),
        }
    }

    /// Number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        let slots = self.slots.borrow();
        slots.slots.len() - slots.vacant.len()
    }
}

/// Future of a slot's reply.
pub(crate) struct Wait {
    waiters: Rc<PendingRequests>,
    number: u32,
}

impl Wait {
    /// The slot's number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Future for Wait {
    type Output = (Reply, ReplyTimes);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slots = self.waiters.slots.borrow_mut();
        match &mut slots.slots[self.number as usize] {
            Slot::Answered(reply, times) => Poll::Ready((*reply, times.take())),
            slot => {
                *slot = Slot::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut slots = self.waiters.slots.borrow_mut();
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

    fn poll(wait: &mut Wait) -> Poll<Reply> {
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
