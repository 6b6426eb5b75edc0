//! One life of the hub's process, without threads: what `node` does on the sequencer's thread
//! and what `switch` does on its I/O threads, one event at a time.
//!
//! The sequencer, the log, recovery and the kernel in here are the ones that ship. What hands
//! work from one to the other is written once more, because in production it is threads and
//! wake-ups; it keeps their order of steps.

use std::collections::VecDeque;
use std::sync::Arc;

use journal::FileLog;
use ledger::{Command, FinishedDelivery, Notice, NoticeId, Outcome, Position};
use ports::{Log, RecordReader};
use sequencer::{CommitError, Committed, Durability, Sequencer};
use snapshots::{Aside, SnapshotFile};

use crate::archive::HubDisk;
use crate::desk::Desk;
use crate::edge::Edge;
use crate::event::HubEvent;
use crate::pace::Pace;
use crate::plan::SECOND;
use crate::script::Request;
use crate::witness::Witness;

/// How long the sequencer's thread writes nothing by itself after it found the disk full.
const FULL_PAUSE_US: u64 = 100_000;

pub(crate) type Submission = sequencer::Submission<Attached>;

/// What comes back with a command's outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    pub(crate) ticket: Ticket,
    pub(crate) message: Option<Request>,
}

/// Who is told the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ticket {
    Nobody,
    Waiter(u8, Request),
    Deliveries(u8),
}

/// What the sequencer's thread tells an I/O thread.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    Reply {
        request: Request,
        position: u64,
        result: Option<Outcome>,
    },
    Notice {
        notice: Notice,
        message: Option<Request>,
    },
    Withdraw(NoticeId),
    Recorded(Vec<NoticeId>),
    /// A record of finished deliveries was not taken; nothing of it has happened.
    Unrecorded(Vec<FinishedDelivery>),
}

/// The log stopped; the process ends.
#[derive(Debug)]
pub(crate) struct Stopped;

#[derive(Debug)]
struct Unrecorded {
    position: Position,
    edge: u8,
    notices: Vec<NoticeId>,
}

pub(crate) struct Hub {
    pub(crate) life: u32,
    pub(crate) born_us: u64,
    pub(crate) sequencer: Sequencer<FileLog<HubDisk>>,
    /// A state to be stored as a snapshot.
    pub(crate) aside: Option<Aside>,
    /// The last snapshot of this life.
    pub(crate) stored: Option<SnapshotFile>,
    pub(crate) reader: Arc<dyn RecordReader>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) inbox: VecDeque<Submission>,
    mailboxes: Vec<Vec<Mail>>,
    waiting: VecDeque<Submission>,
    batch: Vec<Submission>,
    unrecorded: VecDeque<Unrecorded>,
    awake: bool,
    sleeps: u64,
    /// The disk was full: no records of the hub's own before this moment.
    full_until: u64,
    pace: Pace,
}

impl Hub {
    /// A process that has just recovered its log. What is owed is posted at once.
    pub(crate) fn new(
        desk: &mut Desk,
        life: u32,
        born_us: u64,
        sequencer: Sequencer<FileLog<HubDisk>>,
    ) -> Self {
        let pace = Pace::new(sequencer.state(), desk.clock(born_us));
        let edges = (0..desk.plan.edges).map(|number| Edge::new(desk, number));
        let mut hub = Self {
            life,
            born_us,
            reader: sequencer.log().reader(),
            sequencer,
            aside: None,
            stored: None,
            edges: edges.collect(),
            inbox: VecDeque::new(),
            mailboxes: vec![Vec::new(); usize::from(desk.plan.edges)],
            waiting: VecDeque::new(),
            batch: Vec::new(),
            unrecorded: VecDeque::new(),
            awake: true,
            sleeps: 0,
            full_until: 0,
            pace,
        };
        hub.post_owed(desk);
        desk.hub_after(0, life, HubEvent::Step);
        hub
    }

    /// The log is empty: its first record.
    pub(crate) fn begin_log(&mut self, genesis: Command) {
        let attached = Attached { ticket: Ticket::Nobody, message: None };
        let genesis = Submission::without_payload(genesis, Durability::Synced, attached);
        self.waiting.push_back(genesis.expect("a genesis fits a record"));
    }

    /// Takes what there is room for; the rest stays in `submissions`.
    pub(crate) fn submit(&mut self, desk: &mut Desk, submissions: &mut Vec<Submission>) {
        let room = desk.plan.inbox_max - self.inbox.len();
        let taken = room.min(submissions.len());
        self.inbox.extend(submissions.drain(..taken));
        desk.tally.refused += submissions.len() as u64;
        if !self.awake {
            self.awake = true;
            desk.hub_after(1, self.life, HubEvent::Step);
        }
    }

    pub(crate) fn take_mail(&mut self, edge: u8) -> Vec<Mail> {
        std::mem::take(&mut self.mailboxes[usize::from(edge)])
    }

    /// The sequencer's thread has slept; a wake-up of an earlier sleep is passed over.
    pub(crate) fn wake(
        &mut self,
        desk: &mut Desk,
        witness: &mut Witness,
        sleep: u64,
    ) -> Result<(), Stopped> {
        if self.awake || sleep != self.sleeps {
            return Ok(());
        }
        self.awake = true;
        if self.full_until < desk.now {
            self.pace.woke(self.sequencer.state(), desk.clock(self.born_us));
        }
        self.step(desk, witness)
    }

    /// Commits one batch of what waits, or goes to sleep.
    pub(crate) fn step(&mut self, desk: &mut Desk, witness: &mut Witness) -> Result<(), Stopped> {
        if self.waiting.is_empty() {
            self.waiting.append(&mut self.inbox);
            self.add_tick(desk);
        }
        let now = desk.clock(self.born_us);
        if self.waiting.is_empty() {
            self.sequencer.tend(now).expect("a store in memory takes everything");
            self.sleep(desk);
            return Ok(());
        }
        let found = self.sequencer.cold_counts().found;
        let took = match self.sequencer.commit(&mut self.waiting, &mut self.batch, now) {
            Ok(committed) => {
                self.pace.decided(self.sequencer.state(), now);
                self.release(desk, witness, &committed);
                desk.tally.thawed += self.sequencer.cold_counts().found - found;
                self.sequencer.tend(now).expect("a store in memory takes everything");
                let ends = desk.plan.commit_us;
                desk.random.between(ends) + desk.drag()
            }
            // As a switch ends whose log cannot be begun.
            Err(CommitError::Full) if self.sequencer.state().position() == Position(0) => {
                return Err(Stopped);
            }
            Err(CommitError::Full) => {
                desk.tally.full += 1;
                self.full_until = desk.now + FULL_PAUSE_US;
                self.refuse();
                SECOND / 1_000
            }
            Err(CommitError::Stopped(_)) => return Err(Stopped),
            Err(error @ (CommitError::Poison(_) | CommitError::Store(_))) => panic!("{error}"),
        };
        self.post(desk, took);
        desk.hub_after(took, self.life, HubEvent::Step);
        Ok(())
    }

    /// Whether nothing is under way in the process.
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.is_empty()
            && self.waiting.is_empty()
            && self.mailboxes.iter().all(Vec::is_empty)
            && self.edges.iter().all(Edge::is_idle)
    }

    fn sleep(&mut self, desk: &mut Desk) {
        self.awake = false;
        self.sleeps += 1;
        let now = desk.clock(self.born_us);
        let least = self.full_until.saturating_sub(desk.now).max(1);
        let tick = self.sequencer.wait_us(now).map(|wait| wait.clamp(least, SECOND));
        if let Some(wait) = [tick, self.sequencer.rest_us(now)].into_iter().flatten().min() {
            desk.hub_after(wait, self.life, HubEvent::Wake(self.sleeps));
        }
    }

    /// Nobody brought work and a deadline is due: a record that only says what time it is.
    fn add_tick(&mut self, desk: &Desk) {
        let due = self.sequencer.wait_us(desk.clock(self.born_us)) == Some(0);
        if due && self.full_until <= desk.now && self.waiting.is_empty() {
            let attached = Attached { ticket: Ticket::Nobody, message: None };
            let tick = Submission::without_payload(Command::Tick, Durability::Synced, attached);
            self.waiting.push_back(tick.expect("a tick has no fields"));
        }
    }

    /// Everything that follows from a committed batch, put into the mailboxes.
    fn release(&mut self, desk: &mut Desk, witness: &mut Witness, committed: &Committed) {
        let state = self.sequencer.state();
        let effects = self.sequencer.effects();
        let batch = self.batch.iter().map(|one| (&one.command, &one.record));
        witness.committed(committed, batch, (state, effects));
        desk.tally.batches += 1;
        desk.tally.records += self.batch.len() as u64;
        let digest = state.digest().0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        desk.mark(digest);
        for outcome in &effects.outcomes {
            desk.outcomes[usize::from(outcome.number())] += 1;
        }
        self.note_deliveries(committed);
        let effects = self.sequencer.effects();
        for notice in &effects.notices {
            let at = notice.source.0.checked_sub(committed.first.0);
            let source = at.and_then(|at| self.batch.get(at as usize));
            let message = source.and_then(|submission| submission.attached.message);
            let lane = notice.recipient.at() % self.mailboxes.len();
            self.mailboxes[lane].push(Mail::Notice { notice: *notice, message });
        }
        for (recipient, notice) in &effects.withdrawn {
            let lane = recipient.at() % self.mailboxes.len();
            self.mailboxes[lane].push(Mail::Withdraw(*notice));
        }
        self.reply(committed);
    }

    /// Deliveries whose record is durable are told first: a dead letter that this same batch owes
    /// again must find its lane rid of it.
    fn note_deliveries(&mut self, committed: &Committed) {
        for (at, submission) in self.batch.iter().enumerate() {
            if let Ticket::Deliveries(edge) = submission.attached.ticket {
                let position = Position(committed.first.0 + at as u64);
                let ends = ends_of(&submission.command).iter();
                let notices = ends.map(|end| end.notice).collect();
                self.unrecorded.push_back(Unrecorded { position, edge, notices });
            }
        }
        while self.unrecorded.front().is_some_and(|entry| entry.position <= committed.durable) {
            let entry = self.unrecorded.pop_front().expect("there is a front");
            self.mailboxes[usize::from(entry.edge)].push(Mail::Recorded(entry.notices));
        }
    }

    fn reply(&mut self, committed: &Committed) {
        let outcomes = self.sequencer.outcomes();
        for (at, (submission, outcome)) in self.batch.drain(..).zip(outcomes).enumerate() {
            if let Ticket::Waiter(edge, request) = submission.attached.ticket {
                let (position, result) = (committed.first.0 + at as u64, Some(*outcome));
                let reply = Mail::Reply { request, position, result };
                self.mailboxes[usize::from(edge)].push(reply);
            }
        }
    }

    fn refuse(&mut self) {
        for submission in self.batch.drain(..) {
            match submission.attached.ticket {
                Ticket::Nobody => {}
                Ticket::Waiter(edge, request) => {
                    let reply = Mail::Reply { request, position: 0, result: None };
                    self.mailboxes[usize::from(edge)].push(reply);
                }
                Ticket::Deliveries(edge) => {
                    let ends = ends_of(&submission.command).to_vec();
                    self.mailboxes[usize::from(edge)].push(Mail::Unrecorded(ends));
                }
            }
        }
    }

    /// What was owed when the last life ended; prepares of transfers that have ended since are
    /// withdrawn at once.
    fn post_owed(&mut self, desk: &mut Desk) {
        for (notice, is_stale) in self.sequencer.state().notices_to_resume() {
            let lane = notice.recipient.at() % self.mailboxes.len();
            self.mailboxes[lane].push(Mail::Notice { notice, message: None });
            if is_stale {
                self.mailboxes[lane].push(Mail::Withdraw(notice.id));
            }
        }
        self.post(desk, 0);
    }

    fn post(&mut self, desk: &mut Desk, wait_us: u64) {
        for (edge, mail) in self.mailboxes.iter().enumerate() {
            if !mail.is_empty() {
                desk.hub_after(wait_us, self.life, HubEvent::Mail(edge as u8));
            }
        }
    }
}

fn ends_of(command: &Command) -> &[FinishedDelivery] {
    match command {
        Command::FinishDeliveries(ends) => ends,
        _ => &[],
    }
}
