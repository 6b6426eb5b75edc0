//! The sequencer's thread.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::{Command, Position};
use ports::{Clock, Log, Now};
use sequencer::{CommitError, Committed, Durability, Sequencer};

use crate::directory::Directory;
use crate::inbox::{Inbox, InboxLimits, Question, Refused};
use crate::mailbox::Mailbox;
use crate::posting::Posting;
use crate::published::Published;
use crate::reading::Reading;
use crate::stages::WatchedLog;
use crate::view::View;
use crate::{Attached, Handle, Shared, Sharing, Status, Submission, Tally, Ticket};

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
    let shared = share(&sequencer, directory, mailboxes, (limits, Sharing::Alone));
    let handle = Handle { shared: Arc::clone(&shared) };
    let posting = Posting::new(Arc::clone(&shared));
    let runner = Runner { sequencer, clock, shared, posting, no_tick_before: 0, last_batch_us: 0 };
    let thread = std::thread::Builder::new().name("sequencer".into()).spawn(|| runner.run())?;
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
        stages: sequencer.log().stages(),
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

struct Runner<L, C, M> {
    sequencer: Sequencer<WatchedLog<L>>,
    clock: C,
    shared: Arc<Shared<M>>,
    posting: Posting<M>,
    /// The disk was full: monotonic microseconds until which no tick is tried.
    no_tick_before: u64,
    /// Monotonic microseconds of the last batch.
    last_batch_us: u64,
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

impl<L: Log, C: Clock, M> Runner<L, C, M> {
    fn run(mut self) {
        let _closing = Closing(Arc::clone(&self.shared));
        self.posting.resume(self.sequencer.state(), &|_| true);
        self.posting.post();
        self.posting.publish_status(&self.sequencer);
        let mut waiting = VecDeque::new();
        let mut batch = Vec::new();
        let mut questions = Vec::new();
        let mut turns = 0;
        while self.shared.inbox.take(&mut waiting, &mut questions, self.patience()) {
            self.posting.turn_away(self.sequencer.state(), &mut waiting);
            self.add_tick(&mut waiting);
            if let Err(reason) = self.commit_all(&mut waiting, &mut batch) {
                return self.give_up(&reason, waiting, questions);
            }
            if let Err(error) = self.answer(&mut questions) {
                return self.give_up(&error.to_string(), waiting, questions);
            }
            if let Err(error) = self.tend().and_then(|()| self.settle_when_quiet()) {
                return self.give_up(&error.to_string(), waiting, questions);
            }
            self.posting.publish_status(&self.sequencer);
            turns += 1;
            self.shared.tally.turns.store(turns, Ordering::Relaxed);
        }
        if let Err(error) =
            self.sequencer.sync().and_then(|_| self.tend()).and_then(|()| self.sequencer.close())
        {
            self.give_up(&error.to_string(), waiting, questions);
        }
    }

    fn answer(&mut self, questions: &mut Vec<Question>) -> Result<(), CommitError> {
        let now = self.clock.now();
        questions.drain(..).try_for_each(|question| question.answer(&mut self.sequencer, now))
    }

    /// The cold side's turn, when everybody has his answer.
    fn tend(&mut self) -> Result<(), CommitError> {
        self.sequencer.tend(self.clock.now())?;
        self.shared.directory.forget(self.sequencer.stored());
        Ok(())
    }

    /// How long to sleep when nobody brings work: until a deadline, until what has ended can leave
    /// memory, or until notes that wait are made durable.
    fn patience(&self) -> Option<Duration> {
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
            let now = self.clock.now();
            self.last_batch_us = now.monotonic_us;
            match self.sequencer.commit(waiting, batch, now) {
                Ok(committed) => {
                    taken
                        .into_iter()
                        .for_each(|taken| self.posting.mark(&self.sequencer, taken, batch));
                    let last = self.sequencer.state().position().0;
                    self.shared.tally.committed.store(last, Ordering::Release);
                    self.release(&committed, batch);
                    self.publish_due(now);
                    if !waiting.is_empty() {
                        self.tend().map_err(|error| error.to_string())?;
                    }
                }
                Err(CommitError::Full) => {
                    let now = self.clock.now().monotonic_us;
                    self.no_tick_before = now + FULL_PAUSE.as_micros() as u64;
                    self.shared.tally.refused_full.fetch_add(1, Ordering::Relaxed);
                    self.posting.refuse(batch.drain(..), Refused::DiskFull);
                }
                Err(
                    error @ (CommitError::Stopped(_)
                    | CommitError::Poison(_)
                    | CommitError::Store(_)),
                ) => {
                    self.posting.refuse(batch.drain(..), Refused::Stopped);
                    return Err(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Everything that follows from a committed batch, posted at once. A recorded delivery is
    /// told before the notices: one of them may be the same notice, owed again.
    fn release(&mut self, committed: &Committed, batch: &mut Vec<Submission<M>>) {
        let Self { sequencer, posting, .. } = self;
        posting.note_deliveries(committed.first, batch);
        posting.post_recorded(committed.durable);
        let message = |source: Position| {
            let at = source.0.checked_sub(committed.first.0)?;
            batch.get(at as usize)?.attached.message.clone()
        };
        let commands = batch.iter().map(|one| &one.command);
        posting.announce(sequencer, committed.first, commands, (&message, &|_| true));
        posting.reply(batch, sequencer.outcomes());
        posting.post();
    }

    /// The log's tail is unknown: refuse everything, say why, end the thread.
    fn give_up(mut self, reason: &str, waiting: VecDeque<Submission<M>>, questions: Vec<Question>) {
        self.shared.inbox.close();
        self.posting.refuse(waiting.into_iter(), Refused::Stopped);
        drop(questions);
        let (mut late, mut asked) = (VecDeque::new(), Vec::new());
        self.shared.inbox.take(&mut late, &mut asked, None);
        self.posting.refuse(late.into_iter(), Refused::Stopped);
        self.posting.publish_status(&self.sequencer);
        self.posting.say_stopped(reason);
    }
}
