//! One epoch of the hub's process, without threads: the production code of the sequencer's node and
//! of the outboxes of the I/O threads, one event at a time. Only the wake-ups between them are
//! simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::FileLog;
use ledger::{Command, LogIndex};
use node::latency_trace::TracedLog;
use node::{Directory, InboxLimits, Mailbox, NodeError, ReplyTo, Standalone, Submission, Turn};
use ports::{Clock, ClockReading, Log, RecordReader};
use sequencer::{CommitError, Committed, Sequencer};
use snapshots::{FrozenState, SnapshotFile};

use crate::archive::HubDisk;
use crate::clock::SimClock;
use crate::clock_check::ClockCheck;
use crate::env::SimEnv;
use crate::event::HubEvent;
use crate::external_view::ExternalView;
use crate::faulty_store::FaultyStore;
use crate::io_thread::IoThread;
use crate::outbox_driver::OutboxDriver;
use crate::parameters::SECOND;
use crate::transfers::Request;

/// After it found the disk full, the sequencer's thread may miss deadlines for this long.
const FULL_PAUSE_US: u64 = 100_000;

/// The sequencer of a hub.
pub(crate) type HubSequencer = Sequencer<TracedLog<FileLog<HubDisk>>>;

/// The log stopped; the process ends.
#[derive(Debug)]
pub(crate) struct Stopped;

pub(crate) struct SimHub {
    pub(crate) epoch: u32,
    pub(crate) born_us: u64,
    pub(crate) node: Standalone<FileLog<HubDisk>, SimClock, Request>,
    clock: SimClock,
    /// A state to be stored as a snapshot.
    pub(crate) frozen: Option<FrozenState>,
    /// The last snapshot of this epoch.
    pub(crate) stored: Option<SnapshotFile>,
    pub(crate) reader: Arc<dyn RecordReader>,
    pub(crate) io_threads: Vec<IoThread>,
    pub(crate) awake: bool,
    sleeps: u64,
    /// The disk was full: deadlines may be missed before this moment.
    full_until: u64,
    clock_check: ClockCheck,
}

impl SimHub {
    /// A process that has just recovered its log. Owed notices are posted at once.
    pub(crate) fn new(
        env: &mut SimEnv,
        epoch: u32,
        born_us: u64,
        (sequencer, store): (HubSequencer, &FaultyStore),
    ) -> Self {
        let now = env.clock(born_us);
        let (clock_check, reader) =
            (ClockCheck::new(sequencer.state(), now), sequencer.log().reader());
        let clock = SimClock::default();
        clock.set(now);
        let flags = (0..env.parameters.io_threads).map(|_| Arc::new(AtomicBool::new(false)));
        let threads: Vec<_> = flags.map(|has_mail| (mailbox(&has_mail), has_mail)).collect();
        let mailboxes: Vec<_> = threads.iter().map(|thread| Arc::clone(&thread.0)).collect();
        let limits =
            InboxLimits { submissions_max: env.parameters.inbox_max, ..InboxLimits::default() };
        let parts = (clock.clone(), Directory::new(Arc::new(store.clone())));
        let node = Standalone::new(sequencer, parts, (mailboxes.into(), limits));
        let handle = node.handle();
        let io_thread = |(number, (mailbox, has_mail))| {
            let policy = (env.parameters.policy.clone(), env.random.next());
            IoThread::new(OutboxDriver::new(handle.clone(), (number, mailbox), policy), has_mail)
        };
        let io_threads = threads.into_iter().enumerate().map(io_thread).collect();
        let (frozen, stored, awake, sleeps, full_until) = (None, None, true, 0, 0);
        let mut hub = Self {
            epoch,
            born_us,
            node,
            clock,
            frozen,
            stored,
            reader,
            io_threads,
            awake,
            sleeps,
            full_until,
            clock_check,
        };
        hub.schedule_mail(env, 0);
        env.hub_after(0, epoch, HubEvent::Step);
        hub
    }

    /// The log is empty: its first record.
    pub(crate) fn begin_log(&mut self, genesis: Command) {
        let mut genesis = vec![node::unattended(genesis)];
        self.node.handle().submit(&mut genesis).expect("an empty inbox has room");
    }

    pub(crate) fn sequencer(&self) -> &HubSequencer {
        self.node.sequencer()
    }

    /// The time that the process sees is now.
    pub(crate) fn set_clock(&self, env: &SimEnv) -> ClockReading {
        self.clock.set(env.clock(self.born_us));
        self.clock.now()
    }

    /// The sequencer's thread has slept; a wake-up of an earlier sleep is passed over.
    pub(crate) fn wake(
        &mut self,
        env: &mut SimEnv,
        external: &mut ExternalView,
        sleep: u64,
    ) -> Result<(), Stopped> {
        if self.awake || sleep != self.sleeps {
            return Ok(());
        }
        self.awake = true;
        if self.full_until < env.now {
            self.clock_check.woke(self.sequencer().state(), env.clock(self.born_us));
        }
        self.step(env, external)
    }

    /// One turn of the sequencer's thread, which then works on or goes to sleep.
    pub(crate) fn step(
        &mut self,
        env: &mut SimEnv,
        external: &mut ExternalView,
    ) -> Result<(), Stopped> {
        let now = self.set_clock(env);
        let Self { node, io_threads, clock_check, .. } = self;
        let found = node.sequencer().cold_counts().found;
        let turn = node.turn(Some(Duration::ZERO), &mut |sequencer, committed, batch| {
            clock_check.decided(sequencer.state(), now);
            observe(env, external, (sequencer, committed, batch));
            for (submission, log_index) in batch.iter().zip(committed.first.0..) {
                if let ReplyTo::Waiter { mailbox, waiter } = submission.attached.ticket {
                    io_threads[mailbox].outbox_driver.note_decided(waiter, log_index);
                }
            }
        });
        let took = match turn {
            Ok(Turn::ChangeReply) => {
                let ends = env.parameters.commit_us;
                env.random.between(ends) + env.commit_delay()
            }
            // As a switch ends whose log cannot be begun.
            Ok(Turn::Full) if self.sequencer().state().log_index() == LogIndex(0) => {
                return Err(Stopped);
            }
            Ok(Turn::Full) => {
                env.counts.full += 1;
                self.full_until = env.now + FULL_PAUSE_US;
                SECOND / 1_000
            }
            Ok(Turn::Idle) => 0,
            Ok(Turn::Ended) => unreachable!("an epoch ends with its process"),
            Err(NodeError::Commit(CommitError::Full | CommitError::Stopped(_))) => {
                return Err(Stopped);
            }
            Err(error) => panic!("{error}"),
        };
        env.counts.prefetched += self.sequencer().cold_counts().found - found;
        external.durable(self.sequencer().log().durable_end());
        self.schedule_mail(env, took);
        match turn {
            Ok(Turn::Idle) => self.sleep(env),
            _ => env.hub_after(took, self.epoch, HubEvent::Step),
        }
        Ok(())
    }

    /// Whether nothing is under way in the process.
    pub(crate) fn is_idle(&self) -> bool {
        !self.awake && self.io_threads.iter().all(IoThread::is_idle)
    }

    fn sleep(&mut self, env: &mut SimEnv) {
        self.awake = false;
        self.sleeps += 1;
        if let Some(wait) = self.node.patience() {
            let wait = (wait.as_micros() as u64).max(1);
            env.hub_after(wait, self.epoch, HubEvent::Wake(self.sleeps));
        }
    }

    /// The I/O threads that have mail read it after `wait_us`.
    fn schedule_mail(&mut self, env: &mut SimEnv, wait_us: u64) {
        for (number, io_thread) in self.io_threads.iter().enumerate() {
            if io_thread.has_mail() {
                env.hub_after(wait_us, self.epoch, HubEvent::Mail(number as u8));
            }
        }
    }
}

/// A mailbox whose wake-up sets a flag.
fn mailbox(has_mail: &Arc<AtomicBool>) -> Arc<Mailbox<Request>> {
    let has_mail = Arc::clone(has_mail);
    Arc::new(Mailbox::new(move || has_mail.store(true, Ordering::Relaxed)))
}

/// A batch was committed: its effects are about to be posted.
fn observe(
    env: &mut SimEnv,
    external: &mut ExternalView,
    (sequencer, committed, batch): (&HubSequencer, &Committed, &[Submission<Request>]),
) {
    let (state, effects) = (sequencer.state(), sequencer.effects());
    let records = batch.iter().map(|one| (&one.command, &one.record));
    external.committed(committed, records, (state, effects));
    env.counts.batches += 1;
    env.counts.records += batch.len() as u64;
    let digest = state.digest().0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    env.add_to_trace(digest);
    for (one, outcome) in batch.iter().zip(&effects.outcomes) {
        env.outcomes[usize::from(outcome.number())] += 1;
        let change = one.command.change();
        env.changed.extend(change.map(|change| (change.declaration().name, *outcome)));
    }
}
