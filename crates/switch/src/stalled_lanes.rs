//! Detects stalled lanes: notices to a participant are pending and none is delivered.
//!
//! A stalled lane is not the hub's fault and does not change its health. The lane is listed
//! for operators, counted in the metrics, and reported in one log line when it stalls and one when
//! it recovers. The thread that owns the lanes checks them twice a second.
//!
//! A lane recovers with the next delivered notice, or when none is pending.
//!
//! **Bounds.** One entry per lane of the thread. The list for operators has at most
//! [`STALLED_SHOWN_MAX`] lanes, those with the most pending notices.

use std::time::Duration;

use delivery::{AttemptResult, LaneState};
use ledger::ParticipantIndex;
use node::stall::IdleTimer;

use crate::directory::Directory;
use crate::outbox::Outbox;

/// Time without a delivered notice after which a lane with pending notices is stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(5);
/// Stalled lanes that one thread lists; all of them are counted.
const STALLED_SHOWN_MAX: usize = 100;

/// A participant with pending notices and no deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledLane {
    /// Its name.
    pub participant: String,
    /// Pending notices.
    pub owed: u64,
    /// Time since the last delivery, or since notices are pending.
    pub idle: Duration,
    /// Result of the last attempt; `None` before the first has ended.
    pub last: Option<AttemptResult>,
}

/// Stalled lanes of one thread, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledLanes {
    /// Their number.
    pub count: u64,
    /// Pending notices of all of them.
    pub owed: u64,
    /// The lanes with the most pending notices, in this order.
    pub shown: Vec<StalledLane>,
}

impl StalledLanes {
    /// Adds the lanes of another thread.
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.owed += other.owed;
        self.shown.extend(other.shown);
        self.keep_most_owed();
    }

    fn keep_most_owed(&mut self) {
        self.shown.sort_by(|one, other| {
            (other.owed, &one.participant).cmp(&(one.owed, &other.participant))
        });
        self.shown.truncate(STALLED_SHOWN_MAX);
    }
}

/// The lanes of one thread.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    /// In the order of [`delivery::Delivery::lane_states`].
    lanes: Vec<WatchedLane>,
}

#[derive(Clone, Copy, Debug, Default)]
struct WatchedLane {
    deliveries: IdleTimer<u64>,
    /// Duration of the stall at the last check; zero if it is not stalled.
    stalled: Duration,
}

/// Result of a check of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaneObservation {
    participant: ParticipantIndex,
    owed: u64,
    idle: Duration,
    last: Option<AttemptResult>,
    change: Option<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Stalled,
    Recovered,
}

impl StallWatch {
    /// Checks a lane, `passed` after the last check. `None` for a lane that is not stalled and was
    /// not before.
    fn look(&mut self, at: usize, lane: &LaneState, passed: Duration) -> Option<LaneObservation> {
        if self.lanes.len() <= at {
            self.lanes.resize(at + 1, WatchedLane::default());
        }
        let watched = &mut self.lanes[at];
        let owed = owed(lane);
        let idle = watched.deliveries.look(0 < owed, lane.delivered, passed);
        let stalled = if idle < STALLED_AFTER { Duration::ZERO } else { idle };
        let before = std::mem::replace(&mut watched.stalled, stalled);
        let (idle, change) = match (before.is_zero(), stalled.is_zero()) {
            (true, true) => return None,
            (true, false) => (stalled, Some(Change::Stalled)),
            (false, true) => (before, Some(Change::Recovered)),
            (false, false) => (stalled, None),
        };
        Some(LaneObservation { participant: lane.recipient, owed, idle, last: lane.last, change })
    }

    /// Checks all lanes of the thread, logs changes, and returns the stalled lanes.
    /// Without a lease to send, no lane counts as stalled.
    pub(crate) fn look_at_all(
        &mut self,
        outbox: &Outbox,
        directory: &Directory,
        passed: Duration,
    ) -> StalledLanes {
        let passed = if outbox.may_send() { passed } else { Duration::ZERO };
        let outbox = outbox.state.borrow();
        let delivery = outbox.delivery();
        let seen = delivery.lane_states().enumerate();
        let seen = seen.filter_map(|(at, lane)| self.look(at, &lane, passed));
        let mut stalled = StalledLanes::default();
        for seen in seen {
            let view = directory.view();
            let name = view.get(seen.participant).map_or("?", |member| member.name.as_str());
            report(name, &seen);
            if seen.change != Some(Change::Recovered) {
                stalled.count += 1;
                stalled.owed += seen.owed;
                let LaneObservation { owed, idle, last, .. } = seen;
                stalled.shown.push(StalledLane { participant: name.to_owned(), owed, idle, last });
            }
        }
        stalled.keep_most_owed();
        stalled
    }
}

/// Notices whose delivery has not ended, including those that wait for an endpoint.
fn owed(lane: &LaneState) -> u64 {
    [lane.waiting, lane.backing_off, lane.in_flight, lane.parked].map(u64::from).iter().sum()
}

fn report(name: &str, seen: &LaneObservation) {
    let (owed, seconds) = (seen.owed, seen.idle.as_secs());
    match seen.change {
        None => {}
        Some(Change::Stalled) => tracing::warn!(
            participant = name,
            owed,
            seconds,
            last_attempt = described(seen.last),
            "lane stalled: no notice is delivered"
        ),
        Some(Change::Recovered) => {
            tracing::info!(participant = name, owed, seconds, "lane recovered");
        }
    }
}

/// Result of an attempt, as text.
#[must_use]
pub fn described(last: Option<AttemptResult>) -> String {
    match last {
        None => "not ended".to_owned(),
        Some(AttemptResult::Status(status)) => format!("HTTP status {status}"),
        Some(AttemptResult::TimedOut) => "no answer in time".to_owned(),
        Some(AttemptResult::ConnectFailed) => "no connection".to_owned(),
        Some(AttemptResult::TlsFailed(reason)) => format!("TLS: {reason}"),
        Some(AttemptResult::Http2Failed(reason)) => reason.to_owned(),
        Some(AttemptResult::Broken) => "connection broken".to_owned(),
        Some(AttemptResult::NoAddress) => "no address is registered".to_owned(),
        Some(AttemptResult::Unsent) => "not sent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use delivery::LaneMode;

    use super::*;

    const LOOK: Duration = Duration::from_millis(500);

    fn lane(owed: u32, delivered: u64) -> LaneState {
        LaneState {
            recipient: ParticipantIndex(1),
            waiting: owed,
            in_flight: 0,
            unrecorded: 0,
            parked: 0,
            paused_until: delivery::MonotonicTime::default(),
            backing_off: 0,
            spilled: 0,
            bytes: 0,
            consecutive_failures: 0,
            mode: LaneMode::Open,
            delivered,
            last: None,
        }
    }

    /// The changes seen, with the look of each; `lane` gives the lane as of each look.
    fn changes(looks: usize, lane: impl Fn(usize) -> LaneState) -> Vec<(usize, Change)> {
        let mut watch = StallWatch::default();
        let look = |at| Some((at, watch.look(0, &lane(at), LOOK)?.change?));
        (0..looks).filter_map(look).collect()
    }

    #[test]
    fn a_lane_without_a_delivery_is_stalled_once_and_recovers_once() {
        let dead_until = |until| move |at| lane(3, u64::from(until <= at));
        let found = changes(100, dead_until(40));
        assert_eq!(found, [(10, Change::Stalled), (40, Change::Recovered), (50, Change::Stalled)]);
        let emptied = |at| lane(if at < 40 { 3 } else { 0 }, 7);
        assert_eq!(changes(100, emptied), [(10, Change::Stalled), (40, Change::Recovered)]);
    }

    #[test]
    fn a_lane_that_delivers_or_has_nothing_to_do_is_not_stalled() {
        assert_eq!(changes(100, |_| lane(0, 0)), []);
        assert_eq!(changes(100, |at| lane(1_000, at as u64 / 9)), []);
        // Nothing is pending for a moment: the time starts again with the next notice.
        assert_eq!(changes(100, |at| lane(u32::from(!at.is_multiple_of(9)), 0)), []);
    }

    #[test]
    fn notices_in_flight_and_between_attempts_are_owed_and_those_delivered_are_not() {
        let counted = LaneState { waiting: 1, backing_off: 2, in_flight: 4, ..lane(0, 0) };
        assert_eq!(owed(&LaneState { unrecorded: 8, ..counted }), 7);
    }

    #[test]
    fn the_list_is_bounded_and_the_counts_are_not() {
        let one = |number: u64| StalledLane {
            participant: format!("dfsp{number}"),
            owed: number,
            idle: STALLED_AFTER,
            last: None,
        };
        let of = |numbers: std::ops::Range<u64>| StalledLanes {
            count: numbers.end - numbers.start,
            owed: numbers.clone().sum(),
            shown: numbers.map(one).collect(),
        };
        let mut all = of(0..80);
        all.add(of(80..160));
        assert_eq!((all.count, all.owed), (160, (0..160).sum()));
        assert_eq!(all.shown.len(), STALLED_SHOWN_MAX);
        assert_eq!(all.shown[0], one(159));
    }
}
