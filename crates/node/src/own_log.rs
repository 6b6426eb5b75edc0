//! The standalone node, with a log of its own. It decides a batch in the turn that takes it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ports::{Clock, ClockReading, Log};
use sequencer::{CommitError, Committed, Sequencer};

use crate::directory::Directory;
use crate::inbox::InboxLimits;
use crate::latency_trace::TracedLog;
use crate::mailbox::Mailboxes;
use crate::runner::{LogKind, Node, NodeError, Runner, SequencerOf, Turn, share};
use crate::submission::{Submission, SubmissionRefused};

/// Maximum sleep before a deadline. It bounds the delay until a clock adjustment is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Pause of deadline ticks after the disk was full. Without it they would retry at once.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// How long records of finished deliveries wait for a batch that syncs them. Then they are synced
/// on their own. On a busy node a batch always comes first.
const QUIET: Duration = Duration::from_millis(500);

/// A log of one node.
pub struct OwnLog<L, M> {
    sequencer: Sequencer<TracedLog<L>>,
    batch: Vec<Submission<M>>,
    /// After a full disk: monotonic microseconds before which no tick is tried.
    no_tick_before: u64,
    /// Monotonic microseconds of the last batch.
    last_batch_us: u64,
}

/// A node with a log of its own. [`start`] runs it on a thread.
pub type Standalone<L, C, M> = Runner<OwnLog<L, M>, C, M>;

/// Starts the sequencer's thread over a log of its own: see [`Standalone::new`].
///
/// # Errors
/// When the thread cannot be started.
pub fn start<L, C, M>(
    sequencer: Sequencer<TracedLog<L>>,
    clock: C,
    directory: Directory,
    mailboxes: impl Into<Mailboxes<M>>,
    limits: InboxLimits,
) -> std::io::Result<Node<M>>
where
    L: Log + Send + 'static,
    C: Clock + Send + 'static,
    M: Send + Sync + 'static,
{
    Standalone::new(sequencer, (clock, directory), (mailboxes.into(), limits)).spawn()
}

impl<L: Log, C: Clock, M> Standalone<L, C, M> {
    /// A node that continues the log of `sequencer`.
    ///
    /// Notices owed from earlier runs are posted at once: delivery resumes.
    pub fn new(
        sequencer: Sequencer<TracedLog<L>>,
        (clock, directory): (C, Directory),
        (mailboxes, limits): (Mailboxes<M>, InboxLimits),
    ) -> Self {
        let shared = share(&sequencer, directory, mailboxes, (limits, u64::MAX));
        let kind = OwnLog { sequencer, batch: Vec::new(), no_tick_before: 0, last_batch_us: 0 };
        let mut node = Self::of(kind, clock, shared);
        node.dispatcher.dispatch_owed(node.kind.sequencer.state(), &|_| true);
        node.dispatcher.post();
        node.dispatcher.publish_status(&node.kind.sequencer);
        node
    }

    /// Time until an idle sync, if the log has records that are not durable.
    fn until_idle_sync(&self) -> Option<Duration> {
        let tail = self.kind.sequencer.log().tail();
        (tail.durable < tail.end).then(|| {
            let passed = self.clock.now().monotonic_us.saturating_sub(self.kind.last_batch_us);
            QUIET.saturating_sub(Duration::from_micros(passed))
        })
    }

    /// Syncs records of finished deliveries if no batch has synced them in time.
    fn sync_when_idle(&mut self) -> Result<(), CommitError> {
        if self.until_idle_sync() == Some(Duration::ZERO) {
            let durable = self.kind.sequencer.sync()?;
            self.dispatcher.post_recorded(durable);
            self.dispatcher.post();
        }
        Ok(())
    }

    fn until_tick(&self) -> Option<Duration> {
        let now = self.clock.now();
        let wait = self.publish_due(now)?;
        if self.ticks_are_disabled() {
            return Some(SLEEP_MAX);
        }
        let wait = wait.max(self.kind.no_tick_before.saturating_sub(now.monotonic_us));
        Some(Duration::from_micros(wait).min(SLEEP_MAX))
    }

    /// Publishes when the earliest deadline falls due; returns the microseconds until then.
    fn publish_due(&self, now: ClockReading) -> Option<u64> {
        let wait = self.kind.sequencer.wait_us(now);
        let due_us = wait.map(|wait| now.monotonic_us.saturating_add(wait));
        self.shared.gauges.publish_due(self.kind.sequencer.state().next_deadline().zip(due_us));
        wait
    }

    fn ticks_are_disabled(&self) -> bool {
        self.shared.gauges.no_ticks.load(Ordering::Relaxed)
    }

    /// Releases the effects of a batch.
    fn release(&mut self, committed: &Committed, taken_ns: Option<u64>, now: ClockReading) {
        let OwnLog { sequencer, batch, .. } = &mut self.kind;
        self.dispatcher.release(sequencer, committed, (batch, taken_ns), &|_| true);
        self.dispatcher.post();
        self.publish_due(now);
    }
}

impl<L: Log, C: Clock, M> LogKind<C, M> for OwnLog<L, M> {
    type Log = L;

    fn sequencer(&self) -> &Sequencer<TracedLog<L>> {
        &self.sequencer
    }

    fn sequencer_mut(&mut self) -> &mut Sequencer<TracedLog<L>> {
        &mut self.sequencer
    }

    /// Takes nothing while submissions of an earlier turn wait.
    fn take(node: &mut Runner<Self, C, M>, patience: Option<Duration>) -> Result<bool, NodeError> {
        if !node.taken.submissions.is_empty() {
            return Ok(true);
        }
        let is_open = node.take_from_inbox(true, patience);
        node.admit();
        Ok(is_open)
    }

    fn tick_is_due(node: &mut Runner<Self, C, M>) -> bool {
        let (kind, now) = (&node.kind, node.clock.now());
        kind.sequencer.wait_us(now) == Some(0)
            && kind.no_tick_before <= now.monotonic_us
            && !node.ticks_are_disabled()
    }

    fn commit(
        node: &mut Runner<Self, C, M>,
        observe: &mut impl FnMut(&SequencerOf<Self, C, M>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, NodeError> {
        if node.taken.submissions.is_empty() {
            return Ok(Turn::Idle);
        }
        let taken_ns = node.shared.batch_start_ns();
        let now = node.clock.now();
        let OwnLog { sequencer, batch, no_tick_before, last_batch_us } = &mut node.kind;
        *last_batch_us = now.monotonic_us;
        match sequencer.commit(&mut node.taken.submissions, batch, now) {
            Ok(committed) => {
                observe(sequencer, &committed, batch);
                node.release(&committed, taken_ns, now);
                Ok(Turn::ChangeReply)
            }
            Err(CommitError::Full) => {
                *no_tick_before = node.clock.now().monotonic_us + FULL_PAUSE.as_micros() as u64;
                node.shared.gauges.refused_full.fetch_add(1, Ordering::Relaxed);
                node.dispatcher.refuse(batch.drain(..), SubmissionRefused::DiskFull);
                Ok(Turn::Full)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Also syncs records that have waited too long for a batch.
    fn rest(node: &mut Runner<Self, C, M>) -> Result<(), NodeError> {
        let now = node.clock.now();
        for query in node.taken.queries.drain(..) {
            query.answer(&mut node.kind.sequencer, now)?;
        }
        node.run_maintenance()?;
        node.sync_when_idle()?;
        node.dispatcher.publish_status(&node.kind.sequencer);
        Ok(())
    }

    /// Until the next deadline, eviction or idle sync.
    fn patience(node: &Runner<Self, C, M>) -> Option<Duration> {
        let rest =
            node.kind.sequencer.next_maintenance_us(node.clock.now()).map(Duration::from_micros);
        [node.until_tick(), rest, node.until_idle_sync()].into_iter().flatten().min()
    }

    fn end(node: &mut Runner<Self, C, M>) -> Result<bool, NodeError> {
        node.kind.sequencer.sync()?;
        node.run_maintenance()?;
        node.kind.sequencer.close()?;
        Ok(true)
    }

    /// The batch that failed.
    fn undecided(&mut self) -> Vec<Submission<M>> {
        std::mem::take(&mut self.batch)
    }
}
