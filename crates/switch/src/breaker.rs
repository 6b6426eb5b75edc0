//! Circuit breakers: forwards to a participant that does not respond fail at once.
//!
//! ```text
//! closed --5 attempts in a row without an HTTP answer--> open --any HTTP answer--> closed
//! ```
//!
//! While a breaker is open, one forward in each pause is sent as a probe and all others fail
//! without an attempt. The pause is 1 s and doubles with each failed probe up to 10 s. An HTTP
//! response of any status closes the breaker, including a response to a notice. So does a change of
//! the participant's addresses; results of earlier attempts are ignored then.
//!
//! The I/O threads share the breakers, because each of them forwards to every participant.
//!
//! **Costs.** A participant without failures costs one relaxed load per forward and per answer. The
//! lock is taken only for participants with failures.
//!
//! **Bounds.** One word per participant of the registry, and one entry per participant with
//! failures. There are no timers: each forward checks the time of the next probe.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use delivery::MonotonicTime;
use ledger::{PARTICIPANTS_MAX, ParticipantIndex};

/// Attempts in a row without an HTTP answer after which a breaker opens.
const FAILURES_MAX: u32 = 5;
/// Pause before the first probe, in microseconds.
const PAUSE_FIRST_MICROS: u64 = 1_000_000;
/// Longest pause between two probes, in microseconds.
const PAUSE_MAX_MICROS: u64 = 10_000_000;

/// Permission of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Send it.
    Pass,
    /// Send it as a probe; its result decides whether the breaker stays open.
    Probe,
    /// Fail without an attempt.
    Refused,
}

/// The breaker of one participant with failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Breaker {
    /// Attempts in a row without an HTTP answer.
    failures: u32,
    open: Option<OpenState>,
}

/// State of an open breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenState {
    since: MonotonicTime,
    /// When the next probe may be sent.
    next: MonotonicTime,
    pause_micros: u64,
    /// A probe is in progress.
    probing: bool,
}

impl Breaker {
    fn admit(&mut self, now: MonotonicTime) -> Admission {
        match &mut self.open {
            None => Admission::Pass,
            Some(open) if open.probing || now < open.next => Admission::Refused,
            Some(open) => {
                open.probing = true;
                Admission::Probe
            }
        }
    }

    /// Records an attempt without an HTTP response; true if that opens the breaker.
    fn failed(&mut self, admission: Admission, now: MonotonicTime) -> bool {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some(open) if admission == Admission::Probe => {
                let pause_micros = (open.pause_micros * 2).min(PAUSE_MAX_MICROS);
                let next = now.after_micros(pause_micros);
                *open = OpenState { next, pause_micros, probing: false, ..*open };
                false
            }
            // An attempt from before the breaker opened.
            Some(_) => false,
            None if self.failures < FAILURES_MAX => false,
            None => {
                let pause_micros = PAUSE_FIRST_MICROS;
                let next = now.after_micros(pause_micros);
                self.open = Some(OpenState { since: now, next, pause_micros, probing: false });
                true
            }
        }
    }

    /// Records an attempt that was not made.
    fn unmade(&mut self, admission: Admission) {
        if let Some(open) = self.open.as_mut().filter(|_| admission == Admission::Probe) {
            open.probing = false;
        }
    }
}

/// An open breaker, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenBreaker {
    /// The participant that does not respond.
    pub participant: ParticipantIndex,
    /// When it opened, in microseconds of the node's monotonic clock.
    pub since_micros: u64,
    /// Attempts in a row without an HTTP answer.
    pub failures: u32,
}

/// Whether a breaker opened or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    Opened,
    Closed,
    None,
}

/// The breakers of all participants.
#[derive(Debug)]
pub(crate) struct Breakers {
    /// By index in the registry. The lowest bit: the participant has an entry in `troubled`. The
    /// others: the number of changes of its addresses.
    marks: Box<[AtomicU32]>,
    troubled: Mutex<BTreeMap<ParticipantIndex, Breaker>>,
}

const TROUBLED: u32 = 1;

impl Default for Breakers {
    fn default() -> Self {
        let marks = (0..PARTICIPANTS_MAX).map(|_| AtomicU32::new(0)).collect();
        Self { marks, troubled: Mutex::default() }
    }
}

impl Breakers {
    /// Permission to send a forward; `None` if it must fail at once.
    pub(crate) fn admit(
        &self,
        participant: ParticipantIndex,
        now: MonotonicTime,
    ) -> Option<BreakerPermit<'_>> {
        let mark = self.mark(participant);
        let admission = match mark & TROUBLED {
            0 => Admission::Pass,
            _ => match self.lock().get_mut(&participant) {
                None => Admission::Pass,
                Some(breaker) => breaker.admit(now),
            },
        };
        let passage =
            BreakerPermit { breakers: self, participant, epoch: mark & !TROUBLED, admission };
        (admission != Admission::Refused).then_some(passage)
    }

    /// Records an HTTP response of the participant.
    pub(crate) fn answered(&self, participant: ParticipantIndex) -> BreakerChange {
        match self.mark(participant) & TROUBLED {
            0 => BreakerChange::None,
            _ => self.close(participant, 0),
        }
    }

    /// Resets the breaker, because the addresses of the participant have changed.
    pub(crate) fn address_changed(&self, participant: ParticipantIndex) -> BreakerChange {
        self.close(participant, TROUBLED + 1)
    }

    pub(crate) fn is_open(&self, participant: ParticipantIndex) -> bool {
        self.mark(participant) & TROUBLED != 0
            && self.lock().get(&participant).is_some_and(|breaker| breaker.open.is_some())
    }

    /// Open breakers, the oldest first.
    pub(crate) fn open(&self) -> Vec<OpenBreaker> {
        let shown = |(participant, breaker): (&ParticipantIndex, &Breaker)| {
            let since_micros = breaker.open?.since.0;
            let (participant, failures) = (*participant, breaker.failures);
            Some(OpenBreaker { participant, since_micros, failures })
        };
        let mut open: Vec<_> = self.lock().iter().filter_map(shown).collect();
        open.sort_by_key(|one| (one.since_micros, one.participant));
        open
    }

    fn failed(&self, passage: &BreakerPermit<'_>, now: MonotonicTime) -> BreakerChange {
        let mut troubled = self.lock();
        let Some(mark) = self.marks.get(passage.participant.at()) else {
            return BreakerChange::None;
        };
        let epoch = mark.load(Ordering::Relaxed) & !TROUBLED;
        if epoch != passage.epoch {
            return BreakerChange::None;
        }
        mark.store(epoch | TROUBLED, Ordering::Relaxed);
        let breaker = troubled.entry(passage.participant).or_default();
        match breaker.failed(passage.admission, now) {
            true => BreakerChange::Opened,
            false => BreakerChange::None,
        }
    }

    /// Forgets a participant's failures and adds to its mark.
    fn close(&self, participant: ParticipantIndex, added: u32) -> BreakerChange {
        let mut troubled = self.lock();
        let Some(mark) = self.marks.get(participant.at()) else { return BreakerChange::None };
        let epoch = mark.load(Ordering::Relaxed) & !TROUBLED;
        mark.store(epoch.wrapping_add(added), Ordering::Relaxed);
        match troubled.remove(&participant).and_then(|breaker| breaker.open) {
            Some(_) => BreakerChange::Closed,
            None => BreakerChange::None,
        }
    }

    fn mark(&self, participant: ParticipantIndex) -> u32 {
        self.marks.get(participant.at()).map_or(0, |mark| mark.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ParticipantIndex, Breaker>> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one attempt. If it is dropped without a result, the attempt counts as not made.
#[derive(Debug)]
pub(crate) struct BreakerPermit<'a> {
    breakers: &'a Breakers,
    participant: ParticipantIndex,
    /// The mark's upper bits when the attempt began.
    epoch: u32,
    admission: Admission,
}

impl BreakerPermit<'_> {
    pub(crate) fn is_probe(&self) -> bool {
        self.admission == Admission::Probe
    }

    /// The attempt ended without an HTTP answer.
    pub(crate) fn failed(self, now: MonotonicTime) -> BreakerChange {
        self.breakers.failed(&self, now)
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        if self.is_probe()
            && let Some(breaker) = self.breakers.lock().get_mut(&self.participant)
            && self.breakers.mark(self.participant) & !TROUBLED == self.epoch
        {
            breaker.unmade(self.admission);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: ParticipantIndex = ParticipantIndex(3);
    const OTHER: ParticipantIndex = ParticipantIndex(4);

    const fn seconds(seconds: u64) -> MonotonicTime {
        MonotonicTime(seconds * 1_000_000)
    }

    fn fail(breakers: &Breakers, now: MonotonicTime) -> BreakerChange {
        breakers.admit(SILENT, now).expect("it may be sent").failed(now)
    }

    /// A set with one breaker that opened at 100 s.
    fn opened() -> Breakers {
        let breakers = Breakers::default();
        for _ in 1..FAILURES_MAX {
            assert_eq!(fail(&breakers, seconds(100)), BreakerChange::None);
        }
        assert!(!breakers.is_open(SILENT));
        assert_eq!(fail(&breakers, seconds(100)), BreakerChange::Opened);
        assert!(breakers.is_open(SILENT));
        breakers
    }

    #[test]
    fn it_opens_for_one_participant_after_failures_in_a_row() {
        let breakers = opened();
        assert!(breakers.admit(SILENT, seconds(100)).is_none());
        assert!(breakers.admit(OTHER, seconds(100)).is_some());
        let open = breakers.open();
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].participant, open[0].failures), (SILENT, FAILURES_MAX));
        assert_eq!(open[0].since_micros, seconds(100).0);
    }

    #[test]
    fn response_between_failures_restarts_the_count() {
        let breakers = Breakers::default();
        for _ in 0..10 {
            for _ in 1..FAILURES_MAX {
                assert_eq!(fail(&breakers, seconds(1)), BreakerChange::None);
            }
            assert_eq!(breakers.answered(SILENT), BreakerChange::None);
        }
        assert_eq!(breakers.open(), []);
    }

    #[test]
    fn one_probe_goes_in_each_pause_and_pauses_grow_up_to_a_bound() {
        let breakers = opened();
        let mut now = seconds(100);
        for pause in [1, 2, 4, 8, 10, 10, 10] {
            let due = MonotonicTime(now.0 + pause * 1_000_000);
            assert!(breakers.admit(SILENT, MonotonicTime(due.0 - 1)).is_none(), "{pause} s");
            let probe = breakers.admit(SILENT, due).expect("a probe");
            assert!(probe.is_probe());
            assert!(breakers.admit(SILENT, seconds(10_000)).is_none(), "one at a time");
            // The pause begins with the end of the probe.
            now = MonotonicTime(due.0 + 20_000_000);
            assert_eq!(probe.failed(now), BreakerChange::None);
        }
    }

    #[test]
    fn any_response_closes_it() {
        let breakers = opened();
        assert_eq!(breakers.answered(OTHER), BreakerChange::None);
        assert_eq!(breakers.answered(SILENT), BreakerChange::Closed);
        assert_eq!(breakers.answered(SILENT), BreakerChange::None);
        let passage = breakers.admit(SILENT, seconds(100)).expect("it may be sent");
        assert!(!passage.is_probe());
        assert_eq!(breakers.open(), []);
    }

    #[test]
    fn a_probe_that_was_not_made_leaves_its_place_to_the_next() {
        let breakers = opened();
        drop(breakers.admit(SILENT, seconds(101)).expect("a probe"));
        assert!(breakers.admit(SILENT, seconds(101)).expect("a probe").is_probe());
    }

    #[test]
    fn attempts_from_before_it_opened_change_no_pause() {
        let breakers = Breakers::default();
        let early: Vec<_> =
            (0..20).map(|_| breakers.admit(SILENT, seconds(1)).expect("closed")).collect();
        let changes = early.into_iter().map(|passage| passage.failed(seconds(21)));
        let opened = changes.filter(|change| matches!(change, BreakerChange::Opened));
        assert_eq!(opened.count(), 1);
        assert!(breakers.admit(SILENT, seconds(22)).expect("after one pause").is_probe());
    }

    #[test]
    fn another_address_closes_it_and_results_of_the_old_one_are_ignored() {
        let breakers = opened();
        let probe = breakers.admit(SILENT, seconds(101)).expect("a probe");
        assert_eq!(breakers.address_changed(SILENT), BreakerChange::Closed);
        assert_eq!(probe.failed(seconds(102)), BreakerChange::None);
        for _ in 1..FAILURES_MAX {
            assert_eq!(fail(&breakers, seconds(103)), BreakerChange::None);
        }
        assert!(!breakers.is_open(SILENT));
        assert_eq!(fail(&breakers, seconds(103)), BreakerChange::Opened);
        // The probe belongs to the breaker's earlier open period.
        let early = breakers.admit(SILENT, seconds(104)).expect("a probe");
        assert_eq!(breakers.address_changed(SILENT), BreakerChange::Closed);
        (0..FAILURES_MAX)
            .for_each(|_| assert_ne!(fail(&breakers, seconds(105)), BreakerChange::Closed));
        let probe = breakers.admit(SILENT, seconds(106)).expect("a probe");
        drop(early);
        assert!(breakers.admit(SILENT, seconds(107)).is_none(), "one at a time");
        drop(probe);
    }

    #[test]
    fn a_participant_outside_the_register_is_never_held_back() {
        let breakers = Breakers::default();
        let nobody = ParticipantIndex(u32::MAX);
        for _ in 0..20 {
            let passage = breakers.admit(nobody, seconds(1)).expect("it may be sent");
            assert_eq!(passage.failed(seconds(1)), BreakerChange::None);
        }
        assert_eq!(breakers.answered(nobody), BreakerChange::None);
        assert_eq!(breakers.address_changed(nobody), BreakerChange::None);
    }
}
