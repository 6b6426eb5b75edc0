//! Detects lanes of this thread that make no progress. The thread, which owns the lanes, checks
//! them at every second sweep, twice a second.

use std::rc::Rc;
use std::time::Duration;

use delivery::{DueAction, LaneProgress};
use node::stall::{GAP_MAX, IdleTimer, Stall};

use crate::directory::Directory;
use crate::outbox::Outbox;
use crate::pool::SWEEP;
use crate::stalled_lanes::StallWatch;
use crate::thread::Thread;
use crate::thread_status::ThreadStatus;

/// Sweeps between two checks.
const SWEEPS: u32 = 2;

/// The lanes of this thread and the last check of each, in their order of first use.
pub(crate) struct LaneWatch {
    outbox: Rc<Outbox>,
    directory: Rc<Directory>,
    thread: Rc<Thread>,
    /// Maximum time of a lane with work and without progress.
    patience: Duration,
    /// Maximum time of an attempt.
    attempt: Duration,
    sweeps: u32,
    lanes: Vec<IdleTimer<LaneObservation>>,
    stalls: StallWatch,
}

/// Pending work of a lane, and its progress.
type LaneObservation = (Option<DueAction>, (u64, u32, u32));

impl LaneWatch {
    /// `patience` is the time without progress, `attempt` that of the longest attempt.
    pub(crate) fn new(
        outbox: &Rc<Outbox>,
        directory: &Rc<Directory>,
        thread: &Rc<Thread>,
        (patience, attempt): (Duration, Duration),
    ) -> Self {
        Self {
            outbox: Rc::clone(outbox),
            directory: Rc::clone(directory),
            thread: Rc::clone(thread),
            patience,
            attempt: attempt + SWEEP * 2,
            sweeps: 0,
            lanes: Vec::new(),
            stalls: StallWatch::default(),
        }
    }

    /// Called at every sweep.
    pub(crate) fn look(&mut self, shown: &ThreadStatus) {
        self.sweeps += 1;
        if self.sweeps < SWEEPS {
            return;
        }
        self.sweeps = 0;
        let passed = (SWEEP * SWEEPS).min(GAP_MAX);
        let stalled = self.stalls.look_at_all(&self.outbox, &self.directory, passed);
        let stuck = self.stuck(passed);
        shown.publish(stuck, stalled);
    }

    /// Stuck lanes.
    fn stuck(&mut self, passed: Duration) -> Vec<Stall> {
        let outbox = self.outbox.state.borrow();
        let delivery = outbox.delivery();
        let parked = delivery.lane_states().map(|lane| u64::from(lane.parked)).sum();
        self.thread.counters.parked.set(parked);
        let may_send = self.outbox.may_send();
        let mut stuck = Vec::new();
        for (at, work) in delivery.work(self.thread.moment()).enumerate() {
            // Without a lease a due attempt waits for the log, which is a stage of its own.
            let work = match work.due {
                Some(DueAction::Attempt) if !may_send => LaneProgress { due: None, ..work },
                _ => work,
            };
            if self.lanes.len() == at {
                self.lanes.push(IdleTimer::default());
            }
            let idle = self.lanes[at].look(work.due.is_some(), (work.due, work.done), passed);
            let due = work.due.filter(|due| self.patience(*due) <= idle);
            stuck.extend(due.map(|due| name(&self.directory, &work, due, idle)));
        }
        stuck
    }

    /// An attempt may take as long as the timeout of a silent participant.
    fn patience(&self, due: DueAction) -> Duration {
        match due {
            DueAction::Attempt | DueAction::Record => self.patience,
            DueAction::Result => self.patience + self.attempt,
        }
    }
}

fn name(directory: &Directory, work: &LaneProgress, due: DueAction, idle: Duration) -> Stall {
    let view = directory.view();
    let name = view.get(work.recipient).map_or("?", |member| member.name.as_str());
    let waiting = work.waiting;
    let detail = match due {
        DueAction::Attempt => format!("{waiting} notices wait, one is due, and none is attempted"),
        DueAction::Record => format!(
            "{waiting} notices wait for room in the window: finished deliveries do not get on \
             record"
        ),
        DueAction::Result => format!("{} attempts under way do not end", work.done.1),
    };
    Stall { stage: format!("lane {name}"), idle, detail, restart_helps: true }
}
