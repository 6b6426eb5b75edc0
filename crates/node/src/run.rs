//! The sequencer's thread.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::{Command, NoticeId, Outcome, ParticipantIndex, Position};
use ports::{Clock, Log};
use sequencer::{CommitError, Committed, Durability, Sequencer};

use crate::directory::Directory;
use crate::inbox::{Inbox, InboxLimits, Question, Refused};
use crate::mailbox::{Event, Mailbox};
use crate::published::Published;
use crate::stages::{self, Moment, WatchedLog};
use crate::view::View;
use crate::{Attached, Handle, Shared, Status, Submission, Tally, Ticket};

/// Longest sleep towards a deadline: a bound on how late a clock that was set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The sequencer's place among the threads that leave marks.
const SEQUENCER: usize = 0;

/// How long a full disk is left alone by deadlines, which would otherwise try it at once again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// The running node. Dropping it does not stop it; call [`Node::stop`].
pub struct Node<M> {
    handle: Handle<M>,
    thread: JoinHandle<()>,
}

/// Starts the sequencer's thread.
///
/// Notices still owed from before are posted at once: delivery begins where it was interrupted.
/// A participant's notices go to mailbox number (participant modulo number of mailboxes).
///
/// # Errors
/// When the thread cannot be started.
pub fn start<L, C, M>(
    sequencer: Sequencer<WatchedLog<L>>,
    clock: C,
    directory: Directory,
    mailboxes: Vec<Arc<Mailbox<M>>>,
    limits: InboxLimits,
) -> std::io::Result<Node<M>>
where
    L: Log + Send + 'static,
    C: Clock + Send + 'static,
    M: Send + Sync + 'static,
{
    assert!(!mailboxes.is_empty(), "somebody delivers notices");
    let shared = Arc::new(Shared {
        inbox: Inbox::new(limits),
        status: Mutex::new(Status::default()),
        view: Published::new(View::of(sequencer.state())),
        directory,
        reader: sequencer.log().reader(),
        stages: sequencer.log().stages(),
        tally: Tally::default(),
        stuck: RwLock::new(Arc::default()),
        mailboxes,
    });
    let handle = Handle { shared: Arc::clone(&shared) };
    let outgoing = shared.mailboxes.iter().map(|_| Vec::new()).collect();
    let runner = Runner {
        sequencer,
        clock,
        shared,
        outgoing,
        unrecorded: VecDeque::new(),
        no_tick_before: 0,
    };
    let thread = std::thread::Builder::new().name("sequencer".into()).spawn(|| runner.run())?;
    Ok(Node { handle, thread })
}

impl<M: Send + Sync + 'static> Node<M> {
    /// Access for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        self.handle.clone()
    }

    /// Whether the thread has ended by itself, which it does only when the log stopped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Commits what is in the inbox, makes it durable, and ends the thread.
    ///
    /// # Errors
    /// Why the log stopped, when it did before this call.
    pub fn stop(self) -> Result<(), String> {
        self.handle.shared.inbox.close();
        if self.thread.join().is_err() {
            return Err("an invariant broke: see the message above; nothing of the batch at that \
                        position was acknowledged"
                .into());
        }
        match self.handle.status().stopped {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }
}

/// Finished deliveries whose record is appended but not durable.
struct Unrecorded {
    position: Position,
    mailbox: usize,
    notices: Vec<NoticeId>,
}

struct Runner<L, C, M> {
    sequencer: Sequencer<WatchedLog<L>>,
    clock: C,
    shared: Arc<Shared<M>>,
    /// Events of the batch at hand, by mailbox.
    outgoing: Vec<Vec<Event<M>>>,
    unrecorded: VecDeque<Unrecorded>,
    /// The disk was full: monotonic microseconds until which no tick is tried.
    no_tick_before: u64,
}

/// Closes the inbox when the thread ends, however it ends.
struct Closing<M>(Arc<Shared<M>>);

impl<M> Drop for Closing<M> {
    fn drop(&mut self) {
        self.0.inbox.close();
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        if std::thread::panicking() {
            status.stopped = Some("an invariant broke".into());
        }
    }
}

impl<L: Log, C: Clock, M> Runner<L, C, M> {
    fn run(mut self) {
        let _closing = Closing(Arc::clone(&self.shared));
        self.post_owed();
        self.publish_status();
        let mut waiting = VecDeque::new();
        let mut batch = Vec::new();
        let mut questions = Vec::new();
        let mut turns = 0;
        while self.shared.inbox.take(&mut waiting, &mut questions, self.patience()) {
            self.add_tick(&mut waiting);
            if let Err(reason) = self.commit_all(&mut waiting, &mut batch) {
                return self.give_up(&reason, waiting, questions);
            }
            if let Err(error) = self.answer(&mut questions) {
                return self.give_up(&error.to_string(), waiting, questions);
            }
            if let Err(error) = self.tend() {
                return self.give_up(&error.to_string(), waiting, questions);
            }
            self.publish_status();
            turns += 1;
            self.shared.tally.turns.store(turns, Ordering::Relaxed);
        }
        if let Err(error) = self.sequencer.sync().and_then(|_| self.tend()) {
            self.give_up(&error.to_string(), waiting, questions);
        }
    }

    /// Questions about a transfer that ended long ago need its row.
    fn answer(&mut self, questions: &mut Vec<Question>) -> Result<(), CommitError> {
        for question in questions.drain(..) {
            if let Some(transfer) = &question.about {
                self.sequencer.warm(transfer)?;
            }
            (question.ask)(self.sequencer.state());
        }
        Ok(())
    }

    /// The cold side's turn, when everybody has his answer.
    fn tend(&mut self) -> Result<(), CommitError> {
        self.sequencer.tend(self.clock.now())?;
        self.shared.directory.forget(self.sequencer.stored());
        Ok(())
    }

    /// How long to sleep when nobody brings work: until a deadline, or until what has ended can
    /// leave memory.
    fn patience(&self) -> Option<Duration> {
        let rest = self.sequencer.rest_us(self.clock.now()).map(Duration::from_micros);
        [self.until_tick(), rest].into_iter().flatten().min()
    }

    fn until_tick(&self) -> Option<Duration> {
        let now = self.clock.now();
        let wait = self.sequencer.wait_us(now);
        let due = wait.map_or(u64::MAX, |wait| now.monotonic_us.saturating_add(wait));
        self.shared.tally.due_us.store(due, Ordering::Relaxed);
        let wait = wait?;
        if self.withholds_ticks() {
            return Some(SLEEP_MAX);
        }
        let wait = wait.max(self.no_tick_before.saturating_sub(now.monotonic_us));
        Some(Duration::from_micros(wait).min(SLEEP_MAX))
    }

    /// Nobody brought work and a deadline is due: a record that only says what time it is.
    fn add_tick(&self, waiting: &mut VecDeque<Submission<M>>) {
        let now = self.clock.now();
        let due = self.sequencer.wait_us(now) == Some(0) && !self.withholds_ticks();
        if due && waiting.is_empty() && self.no_tick_before <= now.monotonic_us {
            let attached = Attached { ticket: Ticket::None, message: None };
            let tick = Submission::without_payload(Command::Tick, Durability::Synced, attached);
            waiting.push_back(tick.expect("a tick has no fields"));
        }
    }

    fn withholds_ticks(&self) -> bool {
        self.shared.tally.no_ticks.load(Ordering::Relaxed)
    }

    fn commit_all(
        &mut self,
        waiting: &mut VecDeque<Submission<M>>,
        batch: &mut Vec<Submission<M>>,
    ) -> Result<(), String> {
        while !waiting.is_empty() {
            let taken = self.shared.stages.now_ns();
            match self.sequencer.commit(waiting, batch, self.clock.now()) {
                Ok(committed) => {
                    taken.into_iter().for_each(|taken| self.mark(taken, batch));
                    let last = self.sequencer.state().position().0;
                    self.shared.tally.committed.store(last, Ordering::Relaxed);
                    self.release(&committed, batch);
                    if !waiting.is_empty() {
                        self.tend().map_err(|error| error.to_string())?;
                    }
                }
                Err(CommitError::Full) => {
                    let now = self.clock.now().monotonic_us;
                    self.no_tick_before = now + FULL_PAUSE.as_micros() as u64;
                    self.shared.tally.refused_full.fetch_add(1, Ordering::Relaxed);
                    self.refuse(batch.drain(..), Refused::DiskFull);
                }
                Err(
                    error @ (CommitError::Stopped(_)
                    | CommitError::Poison(_)
                    | CommitError::Store(_)),
                ) => {
                    self.refuse(batch.drain(..), Refused::Stopped);
                    return Err(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Somebody watches: notes what the batch took.
    fn mark(&self, taken: u64, batch: &[Submission<M>]) {
        let (appended, synced) = self.sequencer.log().written_ns();
        let applied = stages::monotonic_ns();
        let moments = [
            (Moment::Taken, taken),
            (Moment::Appended, appended),
            (Moment::Synced, synced),
            (Moment::Applied, applied),
        ];
        for (transfer, what) in batch.iter().filter_map(|one| stages::inbound_of(&one.command)) {
            self.shared.stages.mark(SEQUENCER, transfer, what, moments);
        }
    }

    /// Everything that follows from a committed batch, posted at once. A recorded delivery is
    /// told before the notices: one of them may be the same notice, owed again.
    fn release(&mut self, committed: &Committed, batch: &mut Vec<Submission<M>>) {
        self.note_deliveries(committed, batch);
        self.post_recorded(committed.durable);
        let Self { sequencer, shared, outgoing, .. } = self;
        let effects = sequencer.effects();
        if effects.register_changed {
            shared.view.publish(View::of(sequencer.state()));
            outgoing.iter_mut().for_each(|events| events.push(Event::RegisterChanged));
        }
        shared.apply_to_directory(committed.first, batch, &effects.outcomes);
        let mailboxes = outgoing.len();
        for notice in &effects.notices {
            let at = notice.source.0.checked_sub(committed.first.0);
            let source = at.and_then(|at| batch.get(at as usize));
            let message = source.and_then(|submission| submission.attached.message.clone());
            outgoing[lane(mailboxes, notice.recipient)]
                .push(Event::Notice { notice: *notice, message });
        }
        for (recipient, notice) in &effects.withdrawn {
            outgoing[lane(mailboxes, *recipient)].push(Event::Withdraw(*notice));
        }
        self.reply(batch);
        self.post();
    }

    fn note_deliveries(&mut self, committed: &Committed, batch: &[Submission<M>]) {
        for (at, submission) in batch.iter().enumerate() {
            if let Ticket::Deliveries { mailbox } = submission.attached.ticket {
                let position = Position(committed.first.0 + at as u64);
                let notices = finished_notices(&submission.command);
                self.unrecorded.push_back(Unrecorded { position, mailbox, notices });
            }
        }
    }

    fn reply(&mut self, batch: &mut Vec<Submission<M>>) {
        for (submission, outcome) in batch.drain(..).zip(self.sequencer.outcomes()) {
            match submission.attached.ticket {
                Ticket::None | Ticket::Deliveries { .. } => {}
                Ticket::Waiter { mailbox, waiter } => {
                    self.outgoing[mailbox].push(Event::Reply { waiter, result: Ok(*outcome) });
                }
                Ticket::Call(call) => call(Ok(*outcome)),
            }
        }
    }

    fn post_recorded(&mut self, durable: Position) {
        while self.unrecorded.front().is_some_and(|entry| entry.position <= durable) {
            let entry = self.unrecorded.pop_front().expect("there is a front");
            self.outgoing[entry.mailbox].push(Event::Recorded(entry.notices));
        }
    }

    fn refuse(&mut self, batch: impl Iterator<Item = Submission<M>>, refused: Refused) {
        for submission in batch {
            match submission.attached.ticket {
                Ticket::None => {}
                Ticket::Waiter { mailbox, waiter } => {
                    self.outgoing[mailbox].push(Event::Reply { waiter, result: Err(refused) });
                }
                Ticket::Deliveries { mailbox } => {
                    if let Command::FinishDeliveries(ends) = submission.command {
                        self.outgoing[mailbox].push(Event::Unrecorded(ends));
                    }
                }
                Ticket::Call(call) => call(Err(refused)),
            }
        }
        self.post();
    }

    /// The log's tail is unknown: refuse everything, say why, end the thread.
    fn give_up(mut self, reason: &str, waiting: VecDeque<Submission<M>>, questions: Vec<Question>) {
        self.shared.inbox.close();
        self.refuse(waiting.into_iter(), Refused::Stopped);
        drop(questions);
        let (mut late, mut asked) = (VecDeque::new(), Vec::new());
        self.shared.inbox.take(&mut late, &mut asked, None);
        self.refuse(late.into_iter(), Refused::Stopped);
        self.publish_status();
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.stopped = Some(reason.into());
    }

    /// What was owed when the last run ended.
    fn post_owed(&mut self) {
        for (notice, is_stale) in self.sequencer.state().notices_to_resume() {
            let lane = lane(self.outgoing.len(), notice.recipient);
            self.outgoing[lane].push(Event::Notice { notice, message: None });
            if is_stale {
                self.outgoing[lane].push(Event::Withdraw(notice.id));
            }
        }
        self.post();
    }

    fn post(&mut self) {
        for (mailbox, events) in self.shared.mailboxes.iter().zip(&mut self.outgoing) {
            mailbox.post(events);
        }
    }

    fn publish_status(&self) {
        let state = self.sequencer.state();
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.counts = self.sequencer.counts();
        status.counters = *state.counters();
        status.position = state.position();
        status.stamp = state.stamp();
        status.in_flight = state.transfers_in_flight() as u64;
        status.ended = state.transfers_ended() as u64;
        status.hot = state.transfers_hot() as u64;
        status.stored = self.sequencer.stored();
        status.cold = self.sequencer.cold_counts();
        status.owed = state.notices_owed_count() as u64;
        status.dead = state.dead_letter_count() as u64;
    }
}

impl<M> Shared<M> {
    fn apply_to_directory(&self, first: Position, batch: &[Submission<M>], outcomes: &[Outcome]) {
        for (at, (submission, outcome)) in batch.iter().zip(outcomes).enumerate() {
            if let (Command::ChangeParties(change), Outcome::Accepted) =
                (&submission.command, outcome)
            {
                self.directory.apply(change, Position(first.0 + at as u64));
            }
        }
    }
}

/// Whose mailbox a participant's notices go to: always the same one, so that they keep order.
fn lane(mailboxes: usize, recipient: ParticipantIndex) -> usize {
    recipient.at() % mailboxes
}

fn finished_notices(command: &Command) -> Vec<NoticeId> {
    match command {
        Command::FinishDeliveries(ends) => ends.iter().map(|end| end.notice).collect(),
        _ => Vec::new(),
    }
}
