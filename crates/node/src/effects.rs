//! Dispatches the effects of a batch to the mailboxes, for both kinds of log.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use ledger::{
    Command, Effects, LogIndex, NoticeId, Outcome, ParticipantIndex, State, TransferMessage,
};
use ports::Log;
use sequencer::{Committed, Sequencer};

use crate::handle::Shared;
use crate::latency_trace::{self, TracePoint, TracedLog};
use crate::mailbox::MailboxEvent;
use crate::participants_view::ParticipantsView;
use crate::submission::{ReplyTo, Submission, SubmissionRefused};

/// The sequencer's place among the threads that leave marks.
const SEQUENCER: usize = 0;

/// Answers that may be owed to a participant beside a full lane, at least.
const OWED_BESIDE_MIN: u32 = 1_000;

/// Where the message is that the record at a log index was made from, if it is at hand.
pub(crate) type MessageOf<'a, M> = &'a dyn Fn(LogIndex) -> Option<Arc<M>>;
/// Whether this node sends to a participant.
pub(crate) type Serves<'a> = &'a dyn Fn(ParticipantIndex) -> bool;

/// Events gathered for the mailboxes.
pub(crate) struct EffectDispatcher<M> {
    shared: Arc<Shared<M>>,
    /// Events of the batch at hand, by mailbox.
    outgoing: Vec<Vec<MailboxEvent<M>>>,
    unrecorded: VecDeque<Unrecorded>,
}

/// Finished deliveries whose record is appended but not durable.
struct Unrecorded {
    log_index: LogIndex,
    mailbox: usize,
    notices: Vec<NoticeId>,
}

impl<M> EffectDispatcher<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Self {
        let outgoing = shared.mailboxes.iter().map(|_| Vec::new()).collect();
        Self { shared, outgoing, unrecorded: VecDeque::new() }
    }

    /// Notices and withdrawals of the last batch, and what it changed beside the kernel.
    pub(crate) fn announce<'a, L: Log>(
        &mut self,
        sequencer: &Sequencer<TracedLog<L>>,
        first: LogIndex,
        commands: impl Iterator<Item = &'a Command>,
        (message, serves): (MessageOf<'_, M>, Serves<'_>),
    ) {
        let last = sequencer.state().log_index().0;
        self.shared.tally.committed.store(last, Ordering::Release);
        let effects = sequencer.effects();
        if effects.register_changed {
            self.shared.view.publish(ParticipantsView::of(sequencer.state()));
            self.tell_all(|| MailboxEvent::RegisterChanged);
        }
        for (at, (command, outcome)) in commands.zip(&effects.outcomes).enumerate() {
            if let (Command::ChangeParties(change), Outcome::Accepted) = (command, outcome) {
                self.shared.directory.apply(change, LogIndex(first.0 + at as u64));
            }
        }
        for notice in effects.notices.iter().filter(|notice| serves(notice.recipient)) {
            let event = MailboxEvent::Notice { notice: *notice, message: message(notice.source) };
            self.tell(notice.recipient, event);
        }
        for (recipient, notice) in effects.withdrawn.iter().filter(|one| serves(one.0)) {
            self.tell(*recipient, MailboxEvent::Withdraw(*notice));
        }
    }

    /// Everything that follows from a batch of this node's own submissions, which it took at
    /// `taken_ns` if somebody watches. Durable ends of deliveries come before the notices: one of
    /// them may be the same notice, owed again.
    pub(crate) fn release<L: Log>(
        &mut self,
        sequencer: &Sequencer<TracedLog<L>>,
        committed: &Committed,
        (batch, taken_ns): (&mut Vec<Submission<M>>, Option<u64>),
        serves: Serves<'_>,
    ) {
        if let Some(taken_ns) = taken_ns {
            self.mark(sequencer, taken_ns, batch);
        }
        self.note_deliveries(committed.first, batch);
        self.post_recorded(committed.durable);
        let message = |source: LogIndex| {
            let at = source.0.checked_sub(committed.first.0)?;
            batch.get(at as usize)?.attached.message.clone()
        };
        let commands = batch.iter().map(|one| &one.command);
        self.announce(sequencer, committed.first, commands, (&message, serves));
        self.reply(batch, committed.first, sequencer.effects());
    }

    fn note_deliveries(&mut self, first: LogIndex, batch: &[Submission<M>]) {
        for (at, submission) in batch.iter().enumerate() {
            if let ReplyTo::Deliveries { mailbox } = submission.attached.ticket {
                let log_index = LogIndex(first.0 + at as u64);
                let notices = finished_notices(&submission.command);
                self.unrecorded.push_back(Unrecorded { log_index, mailbox, notices });
            }
        }
    }

    pub(crate) fn post_recorded(&mut self, durable: LogIndex) {
        while self.unrecorded.front().is_some_and(|entry| entry.log_index <= durable) {
            let entry = self.unrecorded.pop_front().expect("there is a front");
            self.outgoing[entry.mailbox].push(MailboxEvent::Recorded(entry.notices));
        }
    }

    fn reply(&mut self, batch: &mut Vec<Submission<M>>, first: LogIndex, effects: &Effects) {
        for (at, (submission, outcome)) in batch.drain(..).zip(&effects.outcomes).enumerate() {
            match submission.attached.ticket {
                ReplyTo::None | ReplyTo::Deliveries { .. } => {}
                ReplyTo::Waiter { mailbox, waiter } => {
                    self.outgoing[mailbox]
                        .push(MailboxEvent::Reply { waiter, result: Ok(*outcome) });
                }
                ReplyTo::Call(call) => {
                    let record = LogIndex(first.0 + at as u64);
                    call(Ok(effects.decided(record, *outcome)));
                }
            }
        }
    }

    pub(crate) fn refuse(
        &mut self,
        batch: impl Iterator<Item = Submission<M>>,
        refused: SubmissionRefused,
    ) {
        for submission in batch {
            match submission.attached.ticket {
                ReplyTo::None => {}
                ReplyTo::Waiter { mailbox, waiter } => {
                    self.outgoing[mailbox]
                        .push(MailboxEvent::Reply { waiter, result: Err(refused) });
                }
                ReplyTo::Deliveries { mailbox } => {
                    if let Command::FinishDeliveries(ends) = submission.command {
                        self.outgoing[mailbox].push(MailboxEvent::DeliveryRecordRefused(ends));
                    }
                }
                ReplyTo::Call(call) => call(Err(refused)),
            }
        }
        self.post();
    }

    /// Refuses what comes from those to whom more is owed than fits two lanes. Their endpoints take
    /// nothing, and an answer to each message of theirs would be owed beside the rest; what was
    /// taken from them before is answered. Costs nothing while less than that is owed in all.
    pub(crate) fn turn_away(&mut self, state: &State, waiting: &mut VecDeque<Submission<M>>) {
        let capacity = state.settings().lane_capacity;
        let most = capacity.saturating_mul(2).max(capacity.saturating_add(OWED_BESIDE_MIN));
        if state.notices_owed_count() < most as usize {
            return;
        }
        let is_owed = |one: &Submission<M>| {
            let source = one.command.message().map(TransferMessage::source);
            let found = source.and_then(|name| state.register().sender(name));
            found.is_some_and(|sender| most <= state.notices_owed_to(sender))
        };
        if waiting.iter().any(is_owed) {
            let (away, kept): (VecDeque<_>, VecDeque<_>) = waiting.drain(..).partition(is_owed);
            *waiting = kept;
            self.refuse(away.into_iter(), SubmissionRefused::SenderBacklogFull);
        }
    }

    /// What is owed to those whom this node serves.
    pub(crate) fn resume(&mut self, state: &State, serves: Serves<'_>) {
        for (notice, is_stale) in state.notices_to_resume() {
            if !serves(notice.recipient) {
                continue;
            }
            self.tell(notice.recipient, MailboxEvent::Notice { notice, message: None });
            if is_stale {
                self.tell(notice.recipient, MailboxEvent::Withdraw(notice.id));
            }
        }
    }

    /// An event for whoever sends to a participant: always the same mailbox, so that they keep
    /// order.
    pub(crate) fn tell(&mut self, recipient: ParticipantIndex, event: MailboxEvent<M>) {
        let mailbox = recipient.at() % self.outgoing.len();
        self.outgoing[mailbox].push(event);
    }

    pub(crate) fn tell_all(&mut self, event: impl Fn() -> MailboxEvent<M>) {
        self.outgoing.iter_mut().for_each(|events| events.push(event()));
    }

    pub(crate) fn post(&mut self) {
        for (mailbox, events) in self.shared.mailboxes.iter().zip(&mut self.outgoing) {
            mailbox.post(events);
        }
    }

    /// Somebody watches: notes what the batch took.
    fn mark<L: Log>(
        &self,
        sequencer: &Sequencer<TracedLog<L>>,
        taken: u64,
        batch: &[Submission<M>],
    ) {
        let (appended, synced) = sequencer.log().observer().written_ns();
        let applied = latency_trace::monotonic_ns();
        let moments = [
            (TracePoint::Taken, taken),
            (TracePoint::Appended, appended),
            (TracePoint::Synced, synced),
            (TracePoint::Applied, applied),
        ];
        for (transfer, what) in
            batch.iter().filter_map(|one| latency_trace::inbound_of(&one.command))
        {
            self.shared.stages.mark(SEQUENCER, transfer, what, moments);
        }
    }

    pub(crate) fn publish_status<L: Log>(&self, sequencer: &Sequencer<TracedLog<L>>) {
        let state = sequencer.state();
        let offered = sequencer.offered_to_store().0;
        self.shared.tally.offered_to_store.store(offered, Ordering::Relaxed);
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.counts = sequencer.counts();
        status.counters = *state.counters();
        status.log_index = state.log_index();
        status.stamp = state.stamp();
        status.in_flight = state.transfers_in_flight() as u64;
        status.ended = state.transfers_ended() as u64;
        status.hot = state.transfers_hot() as u64;
        status.stored = sequencer.stored();
        status.cold = sequencer.cold_counts();
        status.owed = state.notices_owed_count() as u64;
        status.dead = state.dead_letter_count() as u64;
    }

    pub(crate) fn say_stopped(&self, reason: &str) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.stopped = Some(reason.into());
    }
}

pub(crate) fn finished_notices(command: &Command) -> Vec<NoticeId> {
    command.finished_deliveries().iter().map(|end| end.notice).collect()
}
