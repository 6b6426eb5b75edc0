//! Dispatches the effects of a batch to the mailboxes, for both kinds of log.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use ledger::{
    Command, Effects, LogIndex, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, Stamp,
    State,
};
use ports::Log;
use record::party_names::PartyKey;
use sequencer::{Committed, Sequencer};

use crate::handle::Shared;
use crate::latency_trace::{self, TracePoint, TracedLog};
use crate::mailbox::{BatchTimes, MailboxEvent};
use crate::participants_view::ParticipantsView;
use crate::stage_times::{DecidedCommands, DecisionKind};
use crate::submission::{ReplyTo, Submission, SubmissionRefused};

/// Number of the sequencer's thread in the latency trace.
const SEQUENCER: usize = 0;

/// Minimum number of notices that may be owed to a participant beyond a full lane.
const BEYOND_LANE_MIN: u32 = 1_000;

/// Finds the source message of the record at a log index, if it is in memory.
pub(crate) type MessageOf<'a, M> = &'a dyn Fn(LogIndex) -> Option<Arc<M>>;
/// Whether this node sends to a participant.
pub(crate) type Serves<'a> = &'a dyn Fn(ParticipantIndex) -> bool;

/// Events gathered for the mailboxes.
pub(crate) struct EffectDispatcher<M> {
    shared: Arc<Shared<M>>,
    /// Events of the current batch, by mailbox.
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
        let outgoing = shared.mailboxes.all.iter().map(|_| Vec::new()).collect();
        Self { shared, outgoing, unrecorded: VecDeque::new() }
    }

    /// Dispatches the last batch: notices, withdrawals, and changes of the read models.
    pub(crate) fn dispatch<'a, L: Log>(
        &mut self,
        sequencer: &Sequencer<TracedLog<L>>,
        first: LogIndex,
        commands: impl Iterator<Item = &'a Command>,
        (message, serves): (MessageOf<'_, M>, Serves<'_>),
    ) {
        let last = sequencer.state().log_index().0;
        self.shared.gauges.committed.store(last, Ordering::Release);
        let (effects, applied_ns) = (sequencer.effects(), latency_trace::monotonic_ns());
        self.shared.position_jumps.add(&effects.position_jumps);
        if effects.registry_changed {
            self.shared.directory.begin(PartyKey::of_state(sequencer.state()));
            self.shared.view.publish(ParticipantsView::of(sequencer.state()));
            self.post_to_all(|| MailboxEvent::RegistryChanged);
        }
        let mut decided = DecidedCommands::default();
        for (at, (command, outcome)) in commands.zip(&effects.outcomes).enumerate() {
            if decided.add(command, *outcome) == Some(DecisionKind::PrepareRefused) {
                let times = &self.shared.stage_times;
                times.count_refusal(sequencer.state(), command, *outcome);
            }
            if let (Some(change), Outcome::Accepted) = (command.party_change(), outcome) {
                self.shared.directory.apply(change, LogIndex(first.0 + at as u64));
            }
        }
        for notice in effects.notices.iter().filter(|notice| serves(notice.recipient)) {
            let (reserved_at, message) = (reserved_at(effects, notice), message(notice.source));
            let event = MailboxEvent::Notice { notice: *notice, reserved_at, message };
            self.post_to_lane(notice.recipient, event);
        }
        for (recipient, notice) in effects.withdrawn.iter().filter(|one| serves(one.0)) {
            self.post_to_lane(*recipient, MailboxEvent::Withdraw(*notice));
        }
        self.record_times((sequencer, applied_ns), &decided);
    }

    /// Releases all effects of a batch of this node's own submissions. `taken_ns` is set while the
    /// latency trace is on, or batch times are reported. Recorded deliveries come before notices,
    /// because a notice may be owed again.
    pub(crate) fn release<L: Log>(
        &mut self,
        sequencer: &Sequencer<TracedLog<L>>,
        committed: &Committed,
        (batch, taken_ns): (&mut Vec<Submission<M>>, Option<u64>),
        serves: Serves<'_>,
    ) {
        let times = taken_ns.map(|taken_ns| self.batch_times(sequencer, taken_ns, batch));
        self.track_deliveries(committed.first, batch);
        self.post_recorded(committed.durable);
        let message = |source: LogIndex| {
            let at = source.0.checked_sub(committed.first.0)?;
            batch.get(at as usize)?.attached.message.clone()
        };
        let commands = batch.iter().map(|one| &one.command);
        self.dispatch(sequencer, committed.first, commands, (&message, serves));
        self.reply((batch, times), committed.first, sequencer.effects());
    }

    /// Records how long the batch took to be decided, and its transfers to be committed.
    fn record_times<L: Log>(
        &self,
        (sequencer, applied_ns): (&Sequencer<TracedLog<L>>, u64),
        decided: &DecidedCommands,
    ) {
        let observer = sequencer.log().observer();
        let ((_, written_ns), times) = (observer.written_ns(), &self.shared.stage_times);
        times.apply.record(applied_ns.saturating_sub(written_ns));
        times.record_decisions(decided, [observer.began_ns(), written_ns, applied_ns]);
        times.record_commits(sequencer.state().stamp(), &sequencer.effects().committed);
    }

    fn track_deliveries(&mut self, first: LogIndex, batch: &[Submission<M>]) {
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

    /// The times of a batch that has just been decided; they are also marked in the latency trace.
    fn batch_times<L: Log>(
        &self,
        sequencer: &Sequencer<TracedLog<L>>,
        taken_ns: u64,
        batch: &[Submission<M>],
    ) -> BatchTimes {
        if self.shared.latency_trace.now_ns().is_some() {
            self.mark(sequencer, taken_ns, batch);
        }
        let (_, durable_ns) = sequencer.log().observer().written_ns();
        BatchTimes { taken_ns, durable_ns, decided_ns: latency_trace::monotonic_ns() }
    }

    /// Posts the times of a batch to a mailbox before its first reply, if they are reported.
    fn report_batch(&mut self, mailbox: usize, times: &mut [Option<BatchTimes>]) {
        if let Some(times) = times.get_mut(mailbox).and_then(Option::take) {
            self.outgoing[mailbox].push(MailboxEvent::BatchTimes(times));
        }
    }

    fn reply(
        &mut self,
        (batch, times): (&mut Vec<Submission<M>>, Option<BatchTimes>),
        first: LogIndex,
        effects: &Effects,
    ) {
        let reports = self.shared.gauges.reports_batches.load(Ordering::Relaxed);
        let mut times = match times.filter(|_| reports) {
            Some(times) => vec![Some(times); self.outgoing.len()],
            None => Vec::new(),
        };
        for (at, (submission, outcome)) in batch.drain(..).zip(&effects.outcomes).enumerate() {
            match submission.attached.ticket {
                ReplyTo::None | ReplyTo::Deliveries { .. } => {}
                ReplyTo::Waiter { mailbox, waiter } => {
                    self.report_batch(mailbox, &mut times);
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

    /// Refuses submissions of senders to whom about two lanes of notices are owed: their endpoints
    /// accept nothing, and each message would add a notice. Submissions that were accepted before
    /// are still answered. Free while fewer notices than that are owed in total.
    pub(crate) fn refuse_overdue_senders(
        &mut self,
        state: &State,
        waiting: &mut VecDeque<Submission<M>>,
    ) {
        let capacity = state.settings().lane_capacity;
        let most = capacity.saturating_mul(2).max(capacity.saturating_add(BEYOND_LANE_MIN));
        if state.notices_owed_count() < most as usize {
            return;
        }
        let is_overdue = |one: &Submission<M>| {
            let source = one.command.payment_source();
            let found = source.and_then(|name| state.registry().sender(name));
            found.is_some_and(|sender| most <= state.notices_owed_to(sender))
        };
        if waiting.iter().any(is_overdue) {
            let (refused, kept): (VecDeque<_>, VecDeque<_>) =
                waiting.drain(..).partition(is_overdue);
            *waiting = kept;
            self.refuse(refused.into_iter(), SubmissionRefused::SenderBacklogFull);
        }
    }

    /// Dispatches everything owed to the participants that this node serves.
    pub(crate) fn dispatch_owed(&mut self, state: &State, serves: Serves<'_>) {
        for (notice, is_stale) in state.notices_to_resume() {
            if !serves(notice.recipient) {
                continue;
            }
            let event = MailboxEvent::Notice { notice, reserved_at: None, message: None };
            self.post_to_lane(notice.recipient, event);
            if is_stale {
                self.post_to_lane(notice.recipient, MailboxEvent::Withdraw(notice.id));
            }
        }
    }

    /// Adds an event for the I/O thread that sends to a participant. It is always the same mailbox,
    /// which keeps the order.
    pub(crate) fn post_to_lane(&mut self, recipient: ParticipantIndex, event: MailboxEvent<M>) {
        let mailbox = recipient.at() % self.shared.mailboxes.with_lanes;
        self.outgoing[mailbox].push(event);
    }

    pub(crate) fn post_to_all(&mut self, event: impl Fn() -> MailboxEvent<M>) {
        self.outgoing.iter_mut().for_each(|events| events.push(event()));
    }

    pub(crate) fn post(&mut self) {
        for (mailbox, events) in self.shared.mailboxes.all.iter().zip(&mut self.outgoing) {
            mailbox.post(events);
        }
    }

    /// Records the times of a batch in the latency trace.
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
            self.shared.latency_trace.mark(SEQUENCER, transfer, what, moments);
        }
    }

    pub(crate) fn publish_status<L: Log>(&self, sequencer: &Sequencer<TracedLog<L>>) {
        let state = sequencer.state();
        let offered = sequencer.offered_to_store().0;
        self.shared.gauges.offered_to_store.store(offered, Ordering::Relaxed);
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.counts = sequencer.counts();
        status.counters = *state.counters();
        status.log_index = state.log_index();
        status.stamp = state.stamp();
        status.in_flight = state.reserved_transfer_count() as u64;
        status.ended = state.final_transfer_count() as u64;
        status.hot = state.hot_transfer_count() as u64;
        status.stored = sequencer.stored();
        status.cold = sequencer.cold_counts();
        status.owed = state.notices_owed_count() as u64;
        status.dead = state.dead_letter_count() as u64;
    }

    pub(crate) fn publish_stopped(&self, reason: &str) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.stopped = Some(reason.into());
    }
}

/// When the transfer was reserved whose commit this notice reports to the payer; `None` for other
/// notices, and for the answer to a message that was sent again.
fn reserved_at(effects: &Effects, notice: &Notice) -> Option<Stamp> {
    let is_commit = matches!(notice.kind, NoticeKind::Fulfil | NoticeKind::Committed)
        && notice.outcome == Outcome::Committed;
    let committed = is_commit.then_some(&effects.committed)?;
    let at = committed.binary_search_by_key(&notice.source, |one| one.source).ok()?;
    Some(committed[at].reserved_at)
}

pub(crate) fn finished_notices(command: &Command) -> Vec<NoticeId> {
    command.finished_deliveries().iter().map(|end| end.notice).collect()
}
