//! Whether the lanes of this thread get on. The thread looks for itself, for the lanes are its
//! own, at every second sweep: twice a second, a glance at each lane.

use std::sync::PoisonError;
use std::time::Duration;

use delivery::{Due, LaneWork};
use node::progress::{GAP_MAX, Still, Stuck};

use crate::Wedge;
use crate::edge::Edge;
use crate::pool::SWEEP;
use crate::stalled::StallWatch;

/// Sweeps between two looks, so that a look counts for as much as a pause can.
const SWEEPS: u32 = 2;

/// What was seen of each lane, in their order of first use.
#[derive(Debug, Default)]
pub(crate) struct LaneWatch {
    sweeps: u32,
    lanes: Vec<Still<Seen>>,
    stalls: StallWatch,
}

/// What a lane has to do, and what it had done.
type Seen = (Option<Due>, (u64, u32, u32));

impl LaneWatch {
    /// To be called at every sweep.
    pub(crate) fn look(&mut self, edge: &Edge) {
        self.sweeps += 1;
        if self.sweeps < SWEEPS {
            return;
        }
        self.sweeps = 0;
        let passed = (SWEEP * SWEEPS).min(GAP_MAX);
        self.stalls.look_at_all(edge, passed);
        let outbox = edge.outbox.borrow();
        let delivery = outbox.delivery();
        let parked = delivery.lane_states().map(|lane| u64::from(lane.parked)).sum();
        edge.counters.parked.set(parked);
        let mut stuck = Vec::new();
        for (at, work) in delivery.work(edge.moment()).enumerate() {
            // Without a lease an attempt that is due waits for the log, which has a stage of its
            // own.
            let work = match work.due {
                Some(Due::Attempt) if !edge.may_send() => LaneWork { due: None, ..work },
                _ => work,
            };
            if self.lanes.len() == at {
                self.lanes.push(Still::default());
            }
            let idle = self.lanes[at].look(work.due.is_some(), (work.due, work.done), passed);
            let due = work.due.filter(|due| patience(edge, *due) <= idle);
            stuck.extend(due.map(|due| name(edge, &work, due, idle)));
        }
        *edge.shown.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
    }
}

/// An attempt may take all the time that a silent participant is given.
fn patience(edge: &Edge, due: Due) -> Duration {
    let attempt = edge.options.pool.connect + edge.options.pool.answer + SWEEP * 2;
    match due {
        Due::Attempt | Due::Record => edge.options.patience,
        Due::Result => edge.options.patience + attempt,
    }
}

fn name(edge: &Edge, work: &LaneWork, due: Due, idle: Duration) -> Stuck {
    let view = edge.view();
    let name = view.get(work.recipient).map_or("?", |member| member.name.as_str());
    let waiting = work.waiting;
    let detail = match due {
        Due::Attempt => format!("{waiting} notices wait, one is due, and none is attempted"),
        Due::Record => format!(
            "{waiting} notices wait for room in the window: finished deliveries do not get on \
             record"
        ),
        Due::Result => format!("{} attempts under way do not end", work.done.1),
    };
    Stuck { stage: format!("lane {name}"), idle, detail, restart_helps: true }
}

/// Stops the last thread if that was asked for.
pub(crate) fn wedge(edge: &Edge) {
    let last = edge.handle.mailboxes() == edge.number + 1;
    while last && edge.options.wedge == Some(Wedge::Thread) {
        std::thread::park();
    }
}
