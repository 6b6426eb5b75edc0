//! The outbox of one I/O thread: gathers submissions, reads the mailbox, starts the callbacks that
//! the delivery policy asks for, and records finished deliveries.
//!
//! It does no I/O and reads no clock. Its owner calls it and performs its requests through
//! [`OutboxHost`]. Each I/O thread of the switch owns one. The simulator drives the same code.
//!
//! # When to call it
//! - [`Outbox::flush`] soon after [`Outbox::submit`] and [`OutboxHost::flush_soon`]. One batch then
//!   contains everything that was submitted in between.
//! - [`Outbox::read_mail`], then [`Outbox::start_due_attempts`], when the mailbox was woken.
//! - [`Outbox::attempted`], then [`Outbox::start_due_attempts`], when an attempt has ended.
//! - [`Outbox::start_due_attempts`] at [`Outbox::next_deadline`].
//! - [`Outbox::record_when_idle`], [`RECORD_PATIENCE`] after [`OutboxHost::record_later`].
//!
//! # Costs
//! No call allocates per notice beyond what [`Delivery`] keeps. One record carries up to
//! `RECORD_MAX` finished deliveries.

use std::sync::Arc;
use std::time::Duration;

use delivery::{
    Attempt, AttemptResult, Delivery, DeliveryReport, MonotonicTime, NoticePriority, Policy,
    QueuedNotice, Verdict, Withdrawal,
};
use ledger::{
    Command, DeliveryResult, FinishedDelivery, Notice, NoticeId, Outcome, ParticipantIndex,
};
use ports::ClockReading;
use record::attempts::{AttemptEnd, DeliveryAttempt};
use sequencer::Durability;

use crate::mailbox::{BatchTimes, Mailbox, MailboxEvent};
use crate::submission::{ReplyTo, Submission, SubmissionContext, SubmissionRefused};

/// How long finished deliveries wait for another record that they can join.
pub const RECORD_PATIENCE: Duration = Duration::from_millis(20);
/// Finished deliveries that are recorded without waiting.
const RECORD_BATCH: usize = 64;
/// Maximum number of deliveries in one record.
const RECORD_MAX: usize = 4_096;

/// The operations that an [`Outbox`] leaves to its owner.
///
/// `M` is the message that a command was made from. `P` is the data that the owner keeps of a
/// notice until its delivery has ended.
pub trait OutboxHost<M, P> {
    /// The current time.
    fn now(&self) -> ClockReading;
    /// Hands submissions to the sequencer. Refused ones stay in the vector.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn submit(&mut self, submissions: &mut Vec<Submission<M>>) -> Result<(), SubmissionRefused>;
    /// The times of the batch whose answers follow.
    fn begin_batch(&mut self, _times: BatchTimes) {}

    /// Answers a waiting request.
    fn answer(&mut self, waiter: u32, reply: Result<Outcome, SubmissionRefused>);
    /// Wraps an owed notice. Also returns the size of its message in memory.
    fn wrap_notice(&mut self, notice: Notice, message: Option<Arc<M>>) -> (P, u32);
    /// Starts an attempt and returns at once. Its one result comes back through
    /// [`Outbox::attempted`] within the time limit of an attempt. After a result without an answer
    /// it is unknown whether the participant received the message. Attempts have no order.
    fn start_attempt(&mut self, attempt: Attempt<P>);
    /// Asks for a call of [`Outbox::flush`] after the work at hand: many deliveries have ended.
    fn flush_soon(&mut self);
    /// Asks for a call of [`Outbox::record_when_idle`] after [`RECORD_PATIENCE`].
    fn record_later(&mut self);
    /// Asks for a call of [`Outbox::start_due_attempts`] at this moment.
    fn retry_at(&mut self, due: MonotonicTime);
    /// The participants have changed.
    fn registry_changed(&mut self) {}
    /// A delivery has ended. Returns whether its end must be recorded.
    fn must_record(&mut self, _end: &FinishedDelivery, _delivery: &Delivery<P>) -> bool {
        true
    }
}

/// The outbox of one I/O thread.
pub struct Outbox<M, P> {
    number: usize,
    mailbox: Arc<Mailbox<M>>,
    /// Events being handled; kept for its capacity.
    events: Vec<MailboxEvent<M>>,
    submissions: Vec<Submission<M>>,
    policy: Policy,
    delivery: Delivery<P>,
    finished: Vec<FinishedDelivery>,
    /// Whether a synced record is in flight because a lane waits for it.
    is_record_forced: bool,
    /// Attempts may begin before this moment ([`MailboxEvent::Lease`]).
    lease_us: u64,
    /// Whether other nodes write to the same log and send callbacks too.
    is_shared: bool,
    is_stopping: bool,
}

impl<M, P: Clone> Outbox<M, P> {
    /// The outbox of the thread that owns the mailbox of this number. `first_lease_us` comes from
    /// [`crate::Handle::first_lease_us`], the seed feeds the jitter of retries.
    #[must_use]
    pub fn new(
        (number, mailbox): (usize, Arc<Mailbox<M>>),
        first_lease_us: u64,
        (policy, seed): (Policy, u64),
    ) -> Self {
        Self {
            number,
            mailbox,
            events: Vec::new(),
            submissions: Vec::new(),
            delivery: Delivery::new(policy.clone(), seed),
            policy,
            finished: Vec::new(),
            is_record_forced: false,
            lease_us: first_lease_us,
            is_shared: first_lease_us != u64::MAX,
            is_stopping: false,
        }
    }

    /// Queues a submission for the next flush, which the caller must request.
    pub fn submit(&mut self, submission: Submission<M>) {
        self.submissions.push(submission);
    }

    /// Submits queued submissions, together with the finished deliveries. Finished deliveries alone
    /// are submitted only when there are many.
    pub fn flush(&mut self, host: &mut impl OutboxHost<M, P>) {
        self.hand_over(Durability::Lazy, host);
    }

    /// Records all finished deliveries durably, if there are any.
    pub fn record_now(&mut self, host: &mut impl OutboxHost<M, P>) {
        if !self.finished.is_empty() {
            self.hand_over(Durability::Synced, host);
        }
    }

    /// Records all finished deliveries, because no other record has included them.
    pub fn record_when_idle(&mut self, host: &mut impl OutboxHost<M, P>) {
        self.take_finished(Durability::Lazy, host);
        self.hand_over(Durability::Lazy, host);
        self.start_due_attempts(host);
    }

    /// Handles all events in the mailbox.
    pub fn read_mail(&mut self, host: &mut impl OutboxHost<M, P>) {
        let mut events = std::mem::take(&mut self.events);
        self.mailbox.take(&mut events);
        for event in events.drain(..) {
            self.handle(event, host);
        }
        self.events = events;
    }

    /// Handles one event from the mailbox.
    pub fn handle(&mut self, event: MailboxEvent<M>, host: &mut impl OutboxHost<M, P>) {
        match event {
            MailboxEvent::BatchTimes(times) => host.begin_batch(times),
            MailboxEvent::Reply { waiter, result } => host.answer(waiter, result),
            MailboxEvent::Notice { notice, reserved_at, message } => {
                let Notice { id, recipient, transfer, owed_at, .. } = notice;
                let purpose = NoticePriority::of(&notice);
                let (message, bytes) = host.wrap_notice(notice, message);
                let until = self.policy.until(owed_at, host.now());
                let message = Some(message);
                let entry = QueuedNotice {
                    notice: id,
                    recipient,
                    transfer,
                    until,
                    purpose,
                    bytes,
                    reserved_at,
                    message,
                };
                self.delivery.enqueue(entry);
            }
            MailboxEvent::Withdraw(notice) => {
                if let Withdrawal::Ended(report) = self.delivery.withdraw(notice) {
                    self.finish(&report, host);
                }
            }
            MailboxEvent::Recorded(notices) => {
                self.is_record_forced = false;
                self.delivery.recorded(&notices);
            }
            MailboxEvent::RegistryChanged => host.registry_changed(),
            MailboxEvent::DeliveryRecordRefused(ends) => self.requeue_finished(ends, host),
            MailboxEvent::DeliveredByOtherNode(notices) => {
                self.delivery.delivered_elsewhere(&notices)
            }
            MailboxEvent::LanesLost(lanes) => self.delivery.lose_lanes(&lanes),
            MailboxEvent::LanesGained(lanes) => self.delivery.gain_lanes(&lanes),
            MailboxEvent::Lease(until_us) => self.lease_us = until_us,
        }
    }

    /// Starts every attempt that may start now.
    pub fn start_due_attempts(&mut self, host: &mut impl OutboxHost<M, P>) {
        if self.is_shared {
            // Another node may already own a lane. The event about that is read first.
            self.read_mail(host);
        }
        let now = host.now();
        if !self.may_send(now) {
            return;
        }
        while let Some(attempt) = self.delivery.poll(MonotonicTime(now.monotonic_us)) {
            host.start_attempt(attempt);
        }
        while let Some(report) = self.delivery.next_lapsed() {
            self.finish(&report, host);
        }
        let due = self.delivery.next_deadline();
        if self.delivery.starved() && !std::mem::replace(&mut self.is_record_forced, true) {
            self.force_record(host);
        }
        if let Some(due) = due {
            host.retry_at(due);
        }
    }

    /// An attempt that [`OutboxHost::start_attempt`] started has ended.
    pub fn attempted(
        &mut self,
        notice: NoticeId,
        result: AttemptResult,
        host: &mut impl OutboxHost<M, P>,
    ) -> Verdict {
        let verdict =
            self.delivery.finished(notice, result, MonotonicTime(host.now().monotonic_us));
        if let Verdict::Ended(report) = &verdict {
            self.finish(report, host);
        }
        verdict
    }

    /// The recipient of an attempt asked for a pause.
    pub fn pause_asked(&mut self, recipient: ParticipantIndex, micros: u64, now: ClockReading) {
        self.delivery.pause_asked(recipient, micros, MonotonicTime(now.monotonic_us));
    }

    /// A participant has another address.
    pub fn address_changed(&mut self, recipient: ParticipantIndex, now: ClockReading) {
        self.delivery.address_changed(recipient, MonotonicTime(now.monotonic_us));
    }

    /// No attempt begins from now on.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Whether an attempt may begin depends on the time.
    #[must_use]
    pub fn needs_lease(&self) -> bool {
        self.lease_us != u64::MAX
    }

    /// Whether an attempt may begin now: on a shared log only within the lease.
    #[must_use]
    pub fn may_send(&self, now: ClockReading) -> bool {
        !self.is_stopping && now.monotonic_us < self.lease_us
    }

    /// Due time of the next attempt. `None` without the right to send: the next lease ends the
    /// wait.
    #[must_use]
    pub fn next_deadline(&self, now: ClockReading) -> Option<MonotonicTime> {
        self.delivery.next_deadline().filter(|_| self.may_send(now))
    }

    /// Attempts that have not ended.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.delivery.lane_states().map(|lane| lane.in_flight).sum()
    }

    /// The lanes.
    #[must_use]
    pub const fn delivery(&self) -> &Delivery<P> {
        &self.delivery
    }

    /// Whether nothing waits to be submitted.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.submissions.is_empty() && self.finished.is_empty()
    }

    fn hand_over(&mut self, deliveries: Durability, host: &mut impl OutboxHost<M, P>) {
        let many = RECORD_BATCH <= self.finished.len();
        if many || deliveries == Durability::Synced || !self.submissions.is_empty() {
            self.take_finished(deliveries, host);
        }
        if self.submissions.is_empty() {
            return;
        }
        if let Err(refused) = host.submit(&mut self.submissions) {
            let mut left = std::mem::take(&mut self.submissions);
            left.drain(..).for_each(|submission| self.refuse(submission, refused, host));
            self.submissions = left;
        }
    }

    /// Moves the finished deliveries into records.
    fn take_finished(&mut self, durability: Durability, host: &impl OutboxHost<M, P>) {
        while !self.finished.is_empty() {
            let count = self.finished.len().min(RECORD_MAX);
            let ends: Vec<_> = self.finished.drain(..count).collect();
            let attempts = self.retried_attempts(&ends, host);
            self.push_record(ends, attempts.as_deref(), durability);
        }
    }

    fn push_record(
        &mut self,
        ends: Vec<FinishedDelivery>,
        attempts: Option<&[u8]>,
        durability: Durability,
    ) {
        let attached = SubmissionContext {
            ticket: ReplyTo::Deliveries { mailbox: self.number },
            message: None,
        };
        let command = Command::FinishDeliveries(ends);
        let record = sequencer::encode(&command, attempts);
        let record = record.expect("a bounded number of deliveries fits a record");
        self.submissions.push(Submission { command, record, durability, attached });
    }

    /// The encoded attempts of deliveries that failed or took more than one attempt, which is rare.
    /// They are recorded next to the ends.
    fn retried_attempts(
        &self,
        ends: &[FinishedDelivery],
        host: &impl OutboxHost<M, P>,
    ) -> Option<Vec<u8>> {
        let easy = |end: &&FinishedDelivery| {
            end.attempts == 0 || (end.attempts == 1 && end.result == DeliveryResult::Delivered)
        };
        let attempts = |end: &FinishedDelivery| {
            (end.notice, recorded_attempts(self.delivery.ended_attempts(end.notice), host.now()))
        };
        let all: Vec<_> = ends.iter().filter(|end| !easy(end)).map(attempts).collect();
        (!all.is_empty()).then(|| record::attempts::write(&all))
    }

    /// Handles a refused submission: a request is refused, a record of deliveries is kept.
    fn refuse(
        &mut self,
        left: Submission<M>,
        refused: SubmissionRefused,
        host: &mut impl OutboxHost<M, P>,
    ) {
        match left.attached.ticket {
            ReplyTo::Waiter { waiter, .. } => host.answer(waiter, Err(refused)),
            ReplyTo::Call(call) => call(Err(refused)),
            ReplyTo::Deliveries { .. } => {
                if let Command::FinishDeliveries(ends) = left.command {
                    self.requeue_finished(ends, host);
                }
            }
            ReplyTo::None => {}
        }
    }

    /// Requeues the deliveries of a refused record.
    fn requeue_finished(&mut self, ends: Vec<FinishedDelivery>, host: &mut impl OutboxHost<M, P>) {
        self.finished.splice(0..0, ends);
        self.is_record_forced = false;
        host.record_later();
    }

    /// Makes a record, even an empty one, when a lane waits only for the record of its finished
    /// deliveries. It syncs everything appended before it.
    fn force_record(&mut self, host: &mut impl OutboxHost<M, P>) {
        if self.finished.is_empty() {
            self.push_record(Vec::new(), None, Durability::Synced);
        }
        self.hand_over(Durability::Synced, host);
    }

    fn finish(&mut self, report: &DeliveryReport, host: &mut impl OutboxHost<M, P>) {
        let end = FinishedDelivery {
            notice: report.notice,
            result: report.result,
            attempts: report.attempts_recorded(),
            status: report.status(),
            finished_ms: host.now().wall.millis(),
        };
        if !host.must_record(&end, &self.delivery) {
            return self.delivery.recorded(&[end.notice]);
        }
        self.finished.push(end);
        if self.finished.len() == 1 {
            host.record_later();
        } else if self.finished.len().is_multiple_of(RECORD_BATCH) {
            host.flush_soon();
        }
    }
}

/// Attempts as they are recorded and shown, on the wall clock of `now`.
#[must_use]
pub fn recorded_attempts(
    attempts: &[delivery::EndedAttempt],
    now: ClockReading,
) -> Vec<DeliveryAttempt> {
    let recorded = |one: &delivery::EndedAttempt| {
        let took_ms = one.ended.0.saturating_sub(one.began.0) / 1_000;
        let end = match one.result {
            AttemptResult::Status(status) => AttemptEnd::Status(status),
            AttemptResult::TimedOut => AttemptEnd::TimedOut,
            AttemptResult::ConnectFailed | AttemptResult::TlsFailed(_) => AttemptEnd::ConnectFailed,
            AttemptResult::Http2Failed(_) | AttemptResult::Broken => AttemptEnd::Broken,
            AttemptResult::Unsent | AttemptResult::NoAddress => return None,
        };
        let took_ms = u32::try_from(took_ms).unwrap_or(u32::MAX);
        Some(DeliveryAttempt { began_ms: wall_ms(one.began, now), took_ms, end })
    };
    attempts.iter().filter_map(recorded).collect()
}

/// Milliseconds since the Unix epoch of a time on the monotonic clock.
#[must_use]
pub fn wall_ms(moment: MonotonicTime, now: ClockReading) -> u64 {
    (now.wall.millis() + moment.0 / 1_000).saturating_sub(now.monotonic_us / 1_000)
}
