//! The I/O threads of the hub, over a simulated network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delivery::{Attempt, AttemptResult, Verdict};
use ledger::{
    Command, DeliveryResult, FinishedDelivery, Notice, NoticeId, NoticeKind, Outcome,
    ParticipantIndex,
};
use node::outbox::{Outbox, RECORD_PATIENCE};
use ports::{Log, LogError, OwnedPayload};

use crate::env::{AttemptParams, SimEnv};
use crate::event::{Callback, HubEvent};
use crate::external_view::ExternalView;
use crate::hub::{SimHub, Stopped};
use crate::outbox_driver::{Host, IoAction, OutboxDriver, OutgoingNotice};
use crate::transfers::Request;

/// Records, per thousand, that are read from the log although the notice does not need them.
const CHECKED_PER_MILLE: u32 = 20;

pub(crate) struct IoThread {
    pub(crate) outbox_driver: OutboxDriver,
    has_mail: Arc<AtomicBool>,
    flushing: bool,
    recording: bool,
    retry_at: Option<u64>,
}

impl IoThread {
    pub(crate) const fn new(outbox_driver: OutboxDriver, has_mail: Arc<AtomicBool>) -> Self {
        Self { outbox_driver, has_mail, flushing: false, recording: false, retry_at: None }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outbox_driver.is_idle() && !self.has_mail()
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Relaxed)
    }
}

impl SimHub {
    /// A request whose command is to be committed.
    pub(crate) fn request(&mut self, env: &mut SimEnv, request: Request, command: Command) {
        let thread = env.random.below(self.io_threads.len() as u64) as u8;
        self.io_thread(thread).outbox_driver.request(request, command);
        self.flush_soon(env, thread);
    }

    /// Something happens within the process.
    pub(crate) fn handle(
        &mut self,
        env: &mut SimEnv,
        external: &mut ExternalView,
        event: HubEvent,
    ) -> Result<(), Stopped> {
        match event {
            HubEvent::Step => return self.step(env, external),
            HubEvent::Wake(sleep) => return self.wake(env, external, sleep),
            HubEvent::Flush(thread) => {
                self.io_thread(thread).flushing = false;
                self.work((env, external), thread, |outbox, host| outbox.flush(host));
            }
            HubEvent::Record(thread) => {
                self.io_thread(thread).recording = false;
                self.work((env, external), thread, |outbox, host| outbox.record_when_idle(host));
            }
            HubEvent::Mail(thread) => {
                self.io_thread(thread).has_mail.store(false, Ordering::Relaxed);
                self.work((env, external), thread, |outbox, host| {
                    outbox.read_mail(host);
                    outbox.start_due_attempts(host);
                });
            }
            HubEvent::Retry(thread) => {
                self.io_thread(thread).retry_at.take_if(|due| *due <= env.now);
                self.work((env, external), thread, |outbox, host| outbox.start_due_attempts(host));
            }
            HubEvent::Attempted(thread, notice, result) => {
                self.attempted((env, external), thread, (notice, result));
            }
            HubEvent::PauseAsked(thread, fsp, micros) => {
                let now = self.set_clock(env);
                self.io_thread(thread).outbox_driver.outbox.pause_asked(index_of(fsp), micros, now);
            }
            HubEvent::Addressed(fsp) => {
                for thread in 0..self.io_threads.len() as u8 {
                    self.work((env, external), thread, |outbox, host| {
                        outbox.address_changed(index_of(fsp), host.now);
                        outbox.start_due_attempts(host);
                    });
                }
            }
        }
        Ok(())
    }

    /// An attempt to deliver a notice ended.
    fn attempted(
        &mut self,
        (env, external): (&mut SimEnv, &mut ExternalView),
        thread: u8,
        (notice, result): (NoticeId, AttemptResult),
    ) {
        let (now, mut verdict) = (self.set_clock(env), Verdict::LaneLost);
        let actions = self.io_thread(thread).outbox_driver.work(now, |outbox, host| {
            verdict = outbox.attempted(notice, result, host);
        });
        let is_sent = !matches!(result, AttemptResult::Unsent | AttemptResult::NoAddress);
        match verdict {
            Verdict::Ended(report) if is_sent => external.attempted(notice, Some(report.result)),
            // Nothing was sent, so that no slot is taken.
            Verdict::Ended(report) => {
                external.attempted(notice, None);
                external.ended_quietly(notice, report.result);
            }
            Verdict::RetryAt(_) => external.attempted(notice, None),
            Verdict::Parked => {
                env.counts.parked += 1;
                external.attempted(notice, None);
                external.parked(notice);
            }
            Verdict::LaneLost => unreachable!("there is no other node that a lane could go to"),
        }
        for action in actions {
            match action {
                IoAction::DeliveryFinished(end) => self.check_end(env, thread, &end),
                action => self.carry_out((env, external), thread, action),
            }
        }
        self.work((env, external), thread, |outbox, host| outbox.start_due_attempts(host));
    }

    fn io_thread(&mut self, number: u8) -> &mut IoThread {
        &mut self.io_threads[usize::from(number)]
    }

    /// An I/O thread works; what follows from it is on its way.
    fn work(
        &mut self,
        (env, external): (&mut SimEnv, &mut ExternalView),
        thread: u8,
        work: impl FnOnce(&mut Outbox<Request, OutgoingNotice>, &mut Host<'_>),
    ) {
        let now = self.set_clock(env);
        for action in self.io_thread(thread).outbox_driver.work(now, work) {
            self.carry_out((env, external), thread, action);
        }
    }

    fn carry_out(
        &mut self,
        (env, external): (&mut SimEnv, &mut ExternalView),
        thread: u8,
        action: IoAction,
    ) {
        match action {
            IoAction::Reply(request, log_index, outcome) => {
                if let Some(outcome) = outcome {
                    assert_ne!(outcome, Outcome::Repeated, "no record is applied twice");
                    external.note_acknowledged(log_index.expect("an answered request was decided"));
                }
                env.answer(request, outcome);
            }
            IoAction::NoticeOwed(_) => {}
            IoAction::Attempt(attempt) => self.run_attempt((env, external), thread, attempt),
            IoAction::DeliveryFinished(end) => {
                let is_withdrawn = end.result == DeliveryResult::Withdrawn;
                env.counts.withdrawn += u64::from(is_withdrawn);
                env.counts.lapsed += u64::from(!is_withdrawn);
                external.ended_quietly(end.notice, end.result);
                self.check_end(env, thread, &end);
            }
            IoAction::Submit(refused) => {
                env.counts.refused += refused as u64;
                if !std::mem::replace(&mut self.awake, true) {
                    env.hub_after(1, self.epoch, HubEvent::Step);
                }
            }
            IoAction::Flush => self.flush_soon(env, thread),
            IoAction::Record => {
                if !std::mem::replace(&mut self.io_thread(thread).recording, true) {
                    let wait = RECORD_PATIENCE.as_micros() as u64;
                    env.hub_after(wait, self.epoch, HubEvent::Record(thread));
                }
            }
            IoAction::Retry(due) => {
                let due = self.born_us + due.0;
                if self.io_thread(thread).retry_at.is_none_or(|set| due < set) {
                    self.io_thread(thread).retry_at = Some(due);
                    let wait = due.saturating_sub(env.now);
                    env.hub_after(wait, self.epoch, HubEvent::Retry(thread));
                }
            }
        }
    }

    fn flush_soon(&mut self, env: &mut SimEnv, thread: u8) {
        if !std::mem::replace(&mut self.io_thread(thread).flushing, true) {
            let wait = env.random.below(20);
            env.hub_after(wait, self.epoch, HubEvent::Flush(thread));
        }
    }

    fn check_end(&self, env: &mut SimEnv, thread: u8, end: &FinishedDelivery) {
        let delivery = self.io_threads[usize::from(thread)].outbox_driver.outbox.delivery();
        env.check_end(
            self.epoch,
            (&self.notice(end.notice), end),
            delivery.ended_attempts(end.notice),
        );
    }

    fn run_attempt(
        &self,
        (env, external): (&mut SimEnv, &mut ExternalView),
        thread: u8,
        attempt: Attempt<OutgoingNotice>,
    ) {
        let id = attempt.notice;
        external.attempt(id, self.sequencer().log().durable_end());
        let outgoing = attempt
            .message
            .unwrap_or_else(|| OutgoingNotice { notice: self.notice(id), message: None });
        if !env.has_address(&outgoing.notice) {
            let event = HubEvent::Attempted(thread, id, AttemptResult::NoAddress);
            return env.hub_after(1, self.epoch, event);
        }
        let source = match outgoing.message {
            None if needs_message(outgoing.notice.kind) || env.random.chance(CHECKED_PER_MILLE) => {
                self.load(env, &outgoing.notice)
            }
            known => Ok(known),
        };
        let Ok(source) = source else {
            let event = HubEvent::Attempted(thread, id, AttemptResult::Unsent);
            return env.hub_after(1, self.epoch, event);
        };
        env.attempt(AttemptParams {
            epoch: self.epoch,
            thread,
            to: attempt.recipient.0 as u8 - 1,
            notice: id,
            callback: Box::new(Callback { notice: outgoing.notice, source }),
        });
    }

    /// A notice without its message, which its lane had no room for.
    fn notice(&self, id: NoticeId) -> Notice {
        *self.sequencer().state().notice(id).expect("a notice that is sent is owed")
    }

    /// The message that a notice is made from, out of the log; an error when the disk is gone.
    fn load(&self, env: &mut SimEnv, notice: &Notice) -> Result<Option<Request>, LogError> {
        env.counts.reloads += 1;
        let record = self.reader.read(notice.source)?;
        let record = record.expect("the record of a notice is durable");
        let OwnedPayload::Stored(payload) = record.payload else {
            panic!("{notice:?} is made from a record without a message");
        };
        match Request::parse(&payload) {
            // The message about an operator's change is made from the change.
            None if notice.kind == NoticeKind::PartiesChanged => Ok(None),
            request => Ok(Some(request.expect("the log keeps messages as they came"))),
        }
    }
}

/// The participant that an FSP is.
fn index_of(fsp: u8) -> ParticipantIndex {
    ParticipantIndex(u32::from(fsp) + 1)
}

/// Whether the HTTP message of such a notice is made from the record it names. The other notices
/// contain all that their message needs.
fn needs_message(kind: NoticeKind) -> bool {
    use NoticeKind::*;
    match kind {
        Prepare | Fulfil | Abort | FulfilCopy | AbortCopy | Committed => true,
        Reserved | AbortedState | Error | PatchCommitted | PatchAborted => false,
        PartiesChanged | BulkPrepare | BulkResult | BulkError => true,
    }
}
