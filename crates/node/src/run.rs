//! The sequencer's thread.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::Command;
use ports::{Clock, Log, Now};
use sequencer::{CommitError, Committed, Sequencer};

use crate::directory::Directory;
use crate::handle::{Handle, Shared, Sharing, Status, Tally};
use crate::inbox::{Inbox, InboxLimits, Question};
use crate::mailbox::Mailbox;
use crate::posting::Posting;
use crate::published::Published;
use crate::reading::Reading;
use crate::stages::WatchedLog;
use crate::submission::{Refused, Submission, unattended};
use crate::view::View;

/// Longest sleep towards a deadline: a bound on how late a clock that was set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How long a full disk is left alone by deadlines, which would otherwise try it at once again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// How long notes of deliveries wait for a batch that makes them durable, before it is done for
/// their own sake: on a busy node one always comes.
const QUIET: Duration = Duration::from_millis(500);

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
    let node = Standalone::new(sequencer, (clock, directory), (mailboxes, limits));
    let handle = node.handle();
    let thread = std::thread::Builder::new().name("sequencer".into()).spawn(|| node.run())?;
    Ok(Node { handle, thread })
}

/// What the threads of a node share.
pub(crate) fn share<L: Log, M>(
    sequencer: &Sequencer<WatchedLog<L>>,
    directory: Directory,
    mailboxes: Vec<Arc<Mailbox<M>>>,
    (limits, sharing): (InboxLimits, Sharing),
) -> Arc<Shared<M>> {
    assert!(!mailboxes.is_empty(), "somebody delivers notices");
    Arc::new(Shared {
        inbox: Inbox::new(limits),
        status: Mutex::new(Status::default()),
        view: Published::new(View::of(sequencer.state())),
        directory,
        reader: Arc::new(Reading::of(sequencer.log().reader())),
        stages: sequencer.log().observer().stages(),
        tally: Tally::behind(sequencer.state().position()),
        ills: RwLock::default(),
        sharing,
        cluster: Mutex::new(None),
        mailboxes,
    })
}

impl<M: Send + Sync + 'static> Node<M> {
    /// A node whose thread runs.
    pub(crate) fn of(handle: Handle<M>, thread: JoinHandle<()>) -> Self {
        Self { handle, thread }
    }

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

/// A node that has its log alone, driven turn by turn. [`start`] gives it a thread.
pub struct Standalone<L, C, M> {
    sequencer: Sequencer<WatchedLog<L>>,
    clock: C,
    shared: Arc<Shared<M>>,
    posting: Posting<M>,
    /// Submissions taken from the inbox for the next batches.
    waiting: VecDeque<Submission<M>>,
    batch: Vec<Submission<M>>,
    questions: Vec<Question>,
    /// The disk was full: monotonic microseconds until which no tick is tried.
    no_tick_before: u64,
    /// Monotonic microseconds of the last batch.
    last_batch_us: u64,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A batch was decided.
    Decided,
    /// A batch was refused because the disk is full.
    Full,
    /// No submission waited.
    Rested,
    /// The node was closed, and nothing waits any more.
    Ended,
}

/// Closes the inbox when the thread ends, however it ends.
pub(crate) struct Closing<M>(pub(crate) Arc<Shared<M>>);

impl<M> Drop for Closing<M> {
    fn drop(&mut self) {
        self.0.inbox.end();
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        if std::thread::panicking() {
            status.stopped = Some("an invariant broke".into());
        }
    }
}

impl<L: Log, C: Clock, M> Standalone<L, C, M> {
    /// A node that continues the log of `sequencer`.
    pub fn new(
        sequencer: Sequencer<WatchedLog<L>>,
        (clock, directory): (C, Directory),
        (mailboxes, limits): (Vec<Arc<Mailbox<M>>>, InboxLimits),
    ) -> Self {
        let shared = share(&sequencer, directory, mailboxes, (limits, Sharing::Alone));
        Self {
            sequencer,
            clock,
            posting: Posting::new(Arc::clone(&shared)),
            shared,
            waiting: VecDeque::new(),
            batch: Vec::new(),
            questions: Vec::new(),
            no_tick_before: 0,
            last_batch_us: 0,
        }
    }

    /// Access as for other threads.
    pub fn handle(&self) -> Handle<M> {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// The state and the log.
    pub const fn sequencer(&self) -> &Sequencer<WatchedLog<L>> {
        &self.sequencer
    }

    /// The state and the log, between two turns.
    pub const fn sequencer_mut(&mut self) -> &mut Sequencer<WatchedLog<L>> {
        &mut self.sequencer
    }

    /// Posts the notices that were owed before this start. Comes before the first turn.
    pub fn resume(&mut self) {
        self.posting.resume(self.sequencer.state(), &|_| true);
        self.posting.post();
        self.posting.publish_status(&self.sequencer);
    }

    /// Commits one batch of what waits. When nothing is left waiting, it answers questions, evicts
    /// final rows, and syncs what has waited for a batch for too long. Sleeps for up to `patience`
    /// while there is no work; `None` is for ever. `observe` sees each batch before its effects are
    /// posted.
    ///
    /// # Errors
    /// [`CommitError`]: this node must stop. The batch at hand is refused.
    pub fn turn(
        &mut self,
        patience: Option<Duration>,
        observe: &mut impl FnMut(&Sequencer<WatchedLog<L>>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, CommitError> {
        if self.waiting.is_empty() {
            let Self { shared, waiting, questions, .. } = self;
            if !shared.inbox.take(waiting, questions, patience) {
                return Ok(Turn::Ended);
            }
            self.posting.turn_away(self.sequencer.state(), &mut self.waiting);
            self.add_tick();
        }
        let turn = match self.waiting.is_empty() {
            true => Turn::Rested,
            false => self.commit(observe)?,
        };
        if !self.waiting.is_empty() {
            self.tend()?;
            return Ok(turn);
        }
        self.answer()?;
        self.tend()?;
        self.settle_when_quiet()?;
        self.posting.publish_status(&self.sequencer);
        self.shared.tally.turns.fetch_add(1, Ordering::Relaxed);
        Ok(turn)
    }

    fn run(mut self) {
        let _closing = Closing(Arc::clone(&self.shared));
        self.resume();
        if let Err(error) = self.run_to_end() {
            self.give_up(&error.to_string());
        }
    }

    fn run_to_end(&mut self) -> Result<(), CommitError> {
        while self.turn(self.patience(), &mut |_, _, _| {})? != Turn::Ended {}
        self.sequencer.sync()?;
        self.tend()?;
        self.sequencer.close()
    }

    fn answer(&mut self) -> Result<(), CommitError> {
        let now = self.clock.now();
        let Self { questions, sequencer, .. } = self;
        questions.drain(..).try_for_each(|question| question.answer(sequencer, now))
    }

    /// The cold side's turn, when every question has been answered.
    fn tend(&mut self) -> Result<(), CommitError> {
        self.sequencer.tend(self.clock.now())?;
        self.shared.directory.forget(self.sequencer.stored());
        Ok(())
    }

    /// How long to sleep when nobody brings work: until a deadline, until what has ended can leave
    /// memory, or until notes that wait are made durable.
    pub fn patience(&self) -> Option<Duration> {
        let rest = self.sequencer.rest_us(self.clock.now()).map(Duration::from_micros);
        [self.until_tick(), rest, self.until_settled()].into_iter().flatten().min()
    }

    /// While there is something in the log that is not durable.
    fn until_settled(&self) -> Option<Duration> {
        let tail = self.sequencer.log().tail();
        (tail.durable < tail.end).then(|| {
            let passed = self.clock.now().monotonic_us.saturating_sub(self.last_batch_us);
            QUIET.saturating_sub(Duration::from_micros(passed))
        })
    }

    /// No batch came that would have synced the notes of deliveries.
    fn settle_when_quiet(&mut self) -> Result<(), CommitError> {
        if self.until_settled() == Some(Duration::ZERO) {
            let durable = self.sequencer.sync()?;
            self.posting.post_recorded(durable);
            self.posting.post();
        }
        Ok(())
    }

    fn until_tick(&self) -> Option<Duration> {
        let now = self.clock.now();
        let wait = self.publish_due(now)?;
        if self.withholds_ticks() {
            return Some(SLEEP_MAX);
        }
        let wait = wait.max(self.no_tick_before.saturating_sub(now.monotonic_us));
        Some(Duration::from_micros(wait).min(SLEEP_MAX))
    }

    /// Says when the earliest deadline falls due; answers with the microseconds until then.
    fn publish_due(&self, now: Now) -> Option<u64> {
        let wait = self.sequencer.wait_us(now);
        let due_us = wait.map(|wait| now.monotonic_us.saturating_add(wait));
        self.shared.tally.publish_due(self.sequencer.state().next_deadline().zip(due_us));
        wait
    }

    /// Nobody brought work and a deadline is due: a record that only says what time it is.
    fn add_tick(&mut self) {
        let now = self.clock.now();
        let due = self.sequencer.wait_us(now) == Some(0) && !self.withholds_ticks();
        if due && self.waiting.is_empty() && self.no_tick_before <= now.monotonic_us {
            self.waiting.push_back(unattended(Command::Tick));
        }
    }

    fn withholds_ticks(&self) -> bool {
        self.shared.tally.no_ticks.load(Ordering::Relaxed)
    }

    fn commit(
        &mut self,
        observe: &mut impl FnMut(&Sequencer<WatchedLog<L>>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, CommitError> {
        let taken = self.shared.stages.now_ns();
        let now = self.clock.now();
        self.last_batch_us = now.monotonic_us;
        match self.sequencer.commit(&mut self.waiting, &mut self.batch, now) {
            Ok(committed) => {
                observe(&self.sequencer, &committed, &self.batch);
                taken
                    .into_iter()
                    .for_each(|taken| self.posting.mark(&self.sequencer, taken, &self.batch));
                let last = self.sequencer.state().position().0;
                self.shared.tally.committed.store(last, Ordering::Release);
                let Self { sequencer, posting, batch, .. } = self;
                posting.release(sequencer, &committed, batch, &|_| true);
                posting.post();
                self.publish_due(now);
                Ok(Turn::Decided)
            }
            Err(CommitError::Full) => {
                let now = self.clock.now().monotonic_us;
                self.no_tick_before = now + FULL_PAUSE.as_micros() as u64;
                self.shared.tally.refused_full.fetch_add(1, Ordering::Relaxed);
                self.posting.refuse(self.batch.drain(..), Refused::DiskFull);
                Ok(Turn::Full)
            }
            Err(error) => {
                self.posting.refuse(self.batch.drain(..), Refused::Stopped);
                Err(error)
            }
        }
    }

    /// The log's tail is unknown: refuses everything and reports why.
    fn give_up(&mut self, reason: &str) {
        let Self { shared, waiting, questions, posting, .. } = self;
        shared.inbox.close();
        shared.inbox.take(waiting, questions, None);
        posting.refuse(waiting.drain(..), Refused::Stopped);
        questions.clear();
        posting.publish_status(&self.sequencer);
        posting.say_stopped(reason);
    }
}
