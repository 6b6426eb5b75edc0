//! Bounds on the requests of one participant, over all threads of a switch: how many per second,
//! and how many at a time. A request beyond them is refused with 429, 2003 before its body is read.
//!
//! The rate is measured by the time at which the next request would be due if the participant sent
//! at exactly its rate (generic cell rate algorithm). A pause lets at most one second's requests
//! come at once. A batch counts as its registrations or transfers, and a large body as one request
//! per 4 KiB: it is accepted, and delays later requests.
//!
//! Costs: none without bounds; otherwise a look-up of the participant, a reading of the clock and
//! two or three atomic operations per request. Memory: 16 bytes for each possible participant.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{PARTICIPANTS_MAX, ParticipantIndex};

const SECOND_NS: u64 = 1_000_000_000;

/// Bounds on the requests of one participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParticipantLimits {
    /// Requests per second; `None` for no limit.
    pub rate: Option<NonZeroU32>,
    /// Requests that are being received or answered at a time; `None` for no limit.
    pub in_progress: Option<NonZeroU32>,
}

/// The requests of all participants, counted by all threads together.
#[derive(Debug)]
pub struct ParticipantUsage {
    limits: ParticipantLimits,
    participants: Box<[Usage]>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Time at which the next request is due, in nanoseconds of the switch's clock.
    due_ns: AtomicU64,
    in_progress: AtomicU32,
}

/// A request in progress, until it is dropped.
pub(crate) struct RequestInProgress {
    usage: Arc<ParticipantUsage>,
    participant: ParticipantIndex,
}

impl ParticipantUsage {
    /// The counts of a new switch; `None` without bounds.
    #[must_use]
    pub fn new(limits: ParticipantLimits) -> Option<Arc<Self>> {
        if limits == ParticipantLimits::default() {
            return None;
        }
        let participants = (0..PARTICIPANTS_MAX).map(|_| Usage::default()).collect();
        Some(Arc::new(Self { limits, participants }))
    }

    /// Counts a request that arrived at a time.
    ///
    /// # Errors
    /// 429, 2003 beyond a bound. The request is not counted.
    pub(crate) fn begin(
        self: &Arc<Self>,
        participant: ParticipantIndex,
        now_ns: u64,
    ) -> Result<RequestInProgress, Refusal> {
        let Some(own) = self.participants.get(participant.at()) else {
            return Err(Refusal::unavailable());
        };
        let before = own.in_progress.fetch_add(1, Ordering::Relaxed);
        // From here on a refusal takes the count back.
        let begun = RequestInProgress { usage: Arc::clone(self), participant };
        if let Some(most) = self.limits.in_progress.filter(|most| most.get() <= before) {
            let what = format!("a participant may have {most} requests in progress");
            return Err(too_many(&what));
        }
        match self.limits.rate {
            Some(rate) if !own.take_turn(rate, now_ns) => {
                Err(too_many(&format!("a participant may send {rate} requests per second")))
            }
            _ => Ok(begun),
        }
    }
}

impl ParticipantUsage {
    /// Counts further requests of a participant, which one request contains. They are not refused:
    /// later requests wait for them.
    pub(crate) fn add(&self, participant: ParticipantIndex, requests: usize, now_ns: u64) {
        let own = self.participants.get(participant.at());
        if let (Some(own), Some(rate)) = (own, self.limits.rate) {
            let time = (SECOND_NS / u64::from(rate.get())).saturating_mul(requests as u64);
            let next = |due: u64| Some(due.max(now_ns).saturating_add(time));
            let _never_fails = own.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }
}

impl Usage {
    /// Whether the rate allows a request now.
    fn take_turn(&self, rate: NonZeroU32, now_ns: u64) -> bool {
        let interval = SECOND_NS / u64::from(rate.get());
        let next = |due: u64| {
            let due = due.max(now_ns);
            (due - now_ns <= SECOND_NS - interval).then(|| due + interval)
        };
        self.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let own = &self.usage.participants[self.participant.at()];
        own.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, detail);
    Refusal { status: StatusCode::TOO_MANY_REQUESTS, ..refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(rate: u32, in_progress: u32) -> Arc<ParticipantUsage> {
        let [rate, in_progress] = [rate, in_progress].map(NonZeroU32::new);
        ParticipantUsage::new(ParticipantLimits { rate, in_progress }).expect("it has bounds")
    }

    /// How many of `count` requests at one time are accepted.
    fn accepted(usage: &Arc<ParticipantUsage>, participant: u32, count: usize, now: u64) -> usize {
        let participant = ParticipantIndex(participant);
        (0..count).filter(|_| usage.begin(participant, now).is_ok()).count()
    }

    #[test]
    fn the_rate_holds_over_time_and_after_a_pause() {
        let usage = usage(10, 0);
        let hour = 3_600 * SECOND_NS;
        assert_eq!(accepted(&usage, 1, 100, hour), 10);
        assert_eq!(accepted(&usage, 1, 100, hour + SECOND_NS / 2), 5);
        assert_eq!(accepted(&usage, 1, 100, hour + SECOND_NS), 5);
        assert_eq!(accepted(&usage, 1, 100, 2 * hour), 10, "a pause earns one second");
        assert_eq!(accepted(&usage, 2, 100, hour), 10, "another one has its own rate");
        assert_eq!(accepted(&usage, 1, 100, hour), 0, "a clock of another thread that lags");
    }

    #[test]
    fn a_request_with_many_rows_delays_later_ones() {
        let usage = usage(10, 0);
        let participant = ParticipantIndex(1);
        let hour = 3_600 * SECOND_NS;
        assert_eq!(accepted(&usage, 1, 1, hour), 1);
        usage.add(participant, 99, hour);
        assert_eq!(accepted(&usage, 1, 5, hour + 8 * SECOND_NS), 0);
        assert_eq!(accepted(&usage, 1, 100, hour + 10 * SECOND_NS), 10);
        assert_eq!(accepted(&usage, 2, 100, hour), 10, "another one has its own rate");
        usage.add(participant, usize::MAX, hour);
        assert_eq!(accepted(&usage, 1, 1, hour + 20 * SECOND_NS), 0);
    }

    #[test]
    fn ended_requests_make_room_and_refused_ones_take_none() {
        let usage = usage(0, 2);
        let participant = ParticipantIndex(7);
        let begin = || usage.begin(participant, 0);
        let (first, second) = (begin().expect("room"), begin().expect("room"));
        let refusal = begin().err().expect("no room");
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refusal.description.contains("2 requests in progress"), "{refusal}");
        drop(first);
        let _third = begin().expect("room again");
        assert!(begin().is_err());
        drop(second);
        assert!(begin().is_ok());
    }

    #[test]
    fn a_participant_beyond_the_table_is_refused() {
        let usage = usage(1, 1);
        assert!(usage.begin(ParticipantIndex(PARTICIPANTS_MAX as u32), 0).is_err());
    }
}
