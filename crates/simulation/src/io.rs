//! One I/O thread: the production outbox. Its actions are collected in order; the simulated network
//! and clock carry them out.

use std::collections::BTreeMap;
use std::sync::Arc;

use delivery::{Attempt, Delivery, MonotonicTime, Policy};
use ledger::{Command, FinishedDelivery, Notice, Outcome};
use node::outbox::{Outbox, OutboxHost};
use node::{Handle, Mailbox, ReplyTo, Submission, SubmissionContext, SubmissionRefused};
use ports::ClockReading;
use sequencer::Durability;

use crate::transfers::Request;

/// A notice on its way out, with its message when that is still in memory.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) notice: Notice,
    pub(crate) message: Option<Request>,
}

/// One thing that an I/O thread did.
#[derive(Debug)]
pub(crate) enum Act {
    /// It answered a request, whose command is the record at this position if it was decided.
    Answer(Request, Option<u64>, Option<Outcome>),
    /// It learned of a notice owed.
    Owe(Notice),
    /// It began an attempt.
    Attempt(Attempt<Parcel>),
    /// It queued the end of a delivery for a record.
    End(FinishedDelivery),
    /// It submitted commands; the number of refused ones.
    Submit(usize),
    /// It wants to flush.
    Flush,
    /// It wants to record the ends of deliveries.
    Record,
    /// It wants to try something at this moment.
    Retry(MonotonicTime),
}

pub(crate) struct Io {
    number: usize,
    handle: Handle<Request>,
    pub(crate) outbox: Outbox<Request, Parcel>,
    /// Requests that wait for an answer, and where each was recorded.
    waiters: BTreeMap<u32, (Request, Option<u64>)>,
    next_waiter: u32,
}

/// The thread as its outbox sees it.
pub(crate) struct Host<'a> {
    pub(crate) now: ClockReading,
    handle: &'a Handle<Request>,
    waiters: &'a mut BTreeMap<u32, (Request, Option<u64>)>,
    acts: Vec<Act>,
}

impl Io {
    pub(crate) fn new(
        handle: Handle<Request>,
        (number, mailbox): (usize, Arc<Mailbox<Request>>),
        policy: (Policy, u64),
    ) -> Self {
        let outbox = Outbox::new((number, mailbox), handle.first_lease_us(), policy);
        Self { number, handle, outbox, waiters: BTreeMap::new(), next_waiter: 0 }
    }

    /// A request comes in; its command goes with the next flush.
    pub(crate) fn request(&mut self, request: Request, command: Command) {
        let record = sequencer::encode(&command, Some(&request.payload()));
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.waiters.insert(waiter, (request, None));
        let ticket = ReplyTo::Waiter { mailbox: self.number, waiter };
        self.outbox.submit(Submission {
            command,
            record: record.expect("a request fits a record"),
            durability: Durability::Synced,
            attached: SubmissionContext { ticket, message: Some(Arc::new(request)) },
        });
    }

    /// The command of a waiting request was decided as the record at `position`.
    pub(crate) fn note_decided(&mut self, waiter: u32, log_index: u64) {
        self.waiters.get_mut(&waiter).expect("the request waits").1 = Some(log_index);
    }

    /// Lets the thread work; gives what it did.
    pub(crate) fn work(
        &mut self,
        now: ClockReading,
        work: impl FnOnce(&mut Outbox<Request, Parcel>, &mut Host<'_>),
    ) -> Vec<Act> {
        let Self { handle, outbox, waiters, .. } = self;
        let mut host = Host { now, handle, waiters, acts: Vec::new() };
        work(outbox, &mut host);
        host.acts
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_idle() && self.waiters.is_empty()
    }
}

impl OutboxHost<Request, Parcel> for Host<'_> {
    fn now(&self) -> ClockReading {
        self.now
    }

    fn submit(
        &mut self,
        submissions: &mut Vec<Submission<Request>>,
    ) -> Result<(), SubmissionRefused> {
        let taken = self.handle.submit(submissions);
        self.acts.push(Act::Submit(submissions.len()));
        taken
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, SubmissionRefused>) {
        let waiting = self.waiters.remove(&waiter);
        let (request, log_index) = waiting.expect("a request is answered once");
        self.acts.push(Act::Answer(request, log_index, reply.ok()));
    }

    fn wrap_notice(&mut self, notice: Notice, message: Option<Arc<Request>>) -> (Parcel, u32) {
        self.acts.push(Act::Owe(notice));
        let message = message.map(|message| *message);
        let bytes = message.map_or(0, |message| message.payload().len() as u32);
        (Parcel { notice, message }, bytes)
    }

    fn start_attempt(&mut self, attempt: Attempt<Parcel>) {
        self.acts.push(Act::Attempt(attempt));
    }

    fn flush_soon(&mut self) {
        self.acts.push(Act::Flush);
    }

    fn record_later(&mut self) {
        self.acts.push(Act::Record);
    }

    fn retry_at(&mut self, due: MonotonicTime) {
        self.acts.push(Act::Retry(due));
    }

    fn must_record(&mut self, end: &FinishedDelivery, _: &Delivery<Parcel>) -> bool {
        self.acts.push(Act::End(*end));
        true
    }
}
