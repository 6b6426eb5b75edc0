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
pub(crate) struct OutgoingNotice {
    pub(crate) notice: Notice,
    pub(crate) message: Option<Request>,
}

/// One thing that an I/O thread did.
#[derive(Debug)]
pub(crate) enum IoAction {
    /// It answered a request, whose command is the record at this position if it was decided.
    Reply(Request, Option<u64>, Option<Outcome>),
    /// It learned of a notice owed.
    NoticeOwed(Notice),
    /// It began an attempt.
    Attempt(Attempt<OutgoingNotice>),
    /// It queued the end of a delivery for a record.
    DeliveryFinished(FinishedDelivery),
    /// It submitted commands; the number of refused ones.
    Submit(usize),
    /// It wants to flush.
    Flush,
    /// It wants to record the ends of deliveries.
    Record,
    /// It wants to try something at this moment.
    Retry(MonotonicTime),
}

pub(crate) struct OutboxDriver {
    number: usize,
    handle: Handle<Request>,
    pub(crate) outbox: Outbox<Request, OutgoingNotice>,
    /// Requests that wait for an answer, and where each was recorded.
    waiters: BTreeMap<u32, (Request, Option<u64>)>,
    next_waiter: u32,
}

/// The thread as its outbox sees it.
pub(crate) struct Host<'a> {
    pub(crate) now: ClockReading,
    handle: &'a Handle<Request>,
    waiters: &'a mut BTreeMap<u32, (Request, Option<u64>)>,
    actions: Vec<IoAction>,
}

impl OutboxDriver {
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
        work: impl FnOnce(&mut Outbox<Request, OutgoingNotice>, &mut Host<'_>),
    ) -> Vec<IoAction> {
        let Self { handle, outbox, waiters, .. } = self;
        let mut host = Host { now, handle, waiters, actions: Vec::new() };
        work(outbox, &mut host);
        host.actions
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_idle() && self.waiters.is_empty()
    }
}

impl OutboxHost<Request, OutgoingNotice> for Host<'_> {
    fn now(&self) -> ClockReading {
        self.now
    }

    fn submit(
        &mut self,
        submissions: &mut Vec<Submission<Request>>,
    ) -> Result<(), SubmissionRefused> {
        let taken = self.handle.submit(submissions);
        self.actions.push(IoAction::Submit(submissions.len()));
        taken
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, SubmissionRefused>) {
        let waiting = self.waiters.remove(&waiter);
        let (request, log_index) = waiting.expect("a request is answered once");
        self.actions.push(IoAction::Reply(request, log_index, reply.ok()));
    }

    fn wrap_notice(
        &mut self,
        notice: Notice,
        message: Option<Arc<Request>>,
    ) -> (OutgoingNotice, u32) {
        self.actions.push(IoAction::NoticeOwed(notice));
        let message = message.map(|message| *message);
        let bytes = message.map_or(0, |message| message.payload().len() as u32);
        (OutgoingNotice { notice, message }, bytes)
    }

    fn start_attempt(&mut self, attempt: Attempt<OutgoingNotice>) {
        self.actions.push(IoAction::Attempt(attempt));
    }

    fn flush_soon(&mut self) {
        self.actions.push(IoAction::Flush);
    }

    fn record_later(&mut self) {
        self.actions.push(IoAction::Record);
    }

    fn retry_at(&mut self, due: MonotonicTime) {
        self.actions.push(IoAction::Retry(due));
    }

    fn must_record(&mut self, end: &FinishedDelivery, _: &Delivery<OutgoingNotice>) -> bool {
        self.actions.push(IoAction::DeliveryFinished(*end));
        true
    }
}
