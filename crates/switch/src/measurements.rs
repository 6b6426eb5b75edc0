//! Durations and refusals of one I/O thread, which scrapes read.
//!
//! Bounds: the first [`PARTICIPANTS_MAX`] participants of the registry have histograms of their
//! own, which take memory once they are called; the others share those of `other`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fspiop::route_table::Operation;
use fspiop::{Refusal, Resource};
use http::StatusCode;
use ledger::{ParticipantIndex, TraceId};
use metrics::{
    Counter, Exemplar, Exemplars, Histogram, HistogramValue, Labels, Number, PARTICIPANTS_MAX,
};
use node::ParticipantsView;
use node::latency_trace::monotonic_ns;

/// The measurements of one thread.
#[derive(Debug)]
pub(crate) struct Measurements {
    answers: [AnswerTimes; Operation::COUNT],
    /// Refusals by operation, status and code. A refusal is rare, so the lock is.
    refusals: Mutex<BTreeMap<Refused, u64>>,
    /// By index in the registry; the last one is `other`.
    peers: Box<[OnceLock<Box<PeerTimes>>]>,
    /// Milliseconds of the wall clock at the zero of the monotonic clock.
    wall_offset_ms: u64,
}

/// Operation, status and error code of a refusal; no operation if the path is unknown.
type Refused = (Option<Operation>, u16, u16);

/// Times from the arrival of a request to its synchronous answer.
#[derive(Debug, Default)]
struct AnswerTimes {
    times: Histogram,
    exemplars: Exemplars,
}

/// Times of a participant.
#[derive(Debug, Default)]
struct PeerTimes {
    callbacks: Histogram,
    callbacks_failed: Counter,
    /// Forwarded messages, by resource.
    forwards: [OnceLock<Box<Histogram>>; Resource::ALL.len()],
    forwards_failed: Counter,
}

impl Default for Measurements {
    fn default() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            answers: std::array::from_fn(|_| AnswerTimes::default()),
            refusals: Mutex::default(),
            peers: (0..=PARTICIPANTS_MAX).map(|_| OnceLock::new()).collect(),
            wall_offset_ms: (wall.as_millis() as u64).saturating_sub(monotonic_ns() / 1_000_000),
        }
    }
}

/// The result of a call to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Succeeded,
    Failed,
}

impl CallResult {
    /// Of a participant's answer; `None` without an answer.
    pub(crate) fn of(status: Option<StatusCode>) -> Self {
        match status.is_some_and(|status| status.is_success()) {
            true => Self::Succeeded,
            false => Self::Failed,
        }
    }
}

impl Measurements {
    /// Records an accepted request, which is answered now.
    pub(crate) fn answered(&self, operation: Operation, arrived_ns: u64, trace: TraceId) {
        let AnswerTimes { times, exemplars } = &self.answers[operation as usize];
        let now = monotonic_ns();
        let (nanoseconds, at_ms) = (now - arrived_ns, self.wall_offset_ms + now / 1_000_000);
        times.record(nanoseconds);
        exemplars.record(&Exemplar { trace, nanoseconds, at_ms });
    }

    /// Records a refused request.
    pub(crate) fn refused(&self, operation: Option<Operation>, refusal: &Refusal) {
        let key = (operation, refusal.status.as_u16(), refusal.code.number());
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        *refusals.entry(key).or_default() += 1;
    }

    /// Records one attempt to deliver a notice, which ends now.
    pub(crate) fn called_back(&self, to: ParticipantIndex, began_ns: u64, result: CallResult) {
        let peer = self.peer(to);
        peer.callbacks.record(monotonic_ns() - began_ns);
        peer.callbacks_failed.add(u64::from(result == CallResult::Failed));
    }

    /// Records a forwarded message of a resource, which ends now.
    pub(crate) fn forwarded(
        &self,
        (to, resource): (ParticipantIndex, Resource),
        began_ns: u64,
        result: CallResult,
    ) {
        let peer = self.peer(to);
        let times = peer.forwards[resource as usize].get_or_init(Box::default);
        times.record(monotonic_ns() - began_ns);
        peer.forwards_failed.add(u64::from(result == CallResult::Failed));
    }

    fn peer(&self, participant: ParticipantIndex) -> &PeerTimes {
        self.peers[participant.at().min(PARTICIPANTS_MAX)].get_or_init(Box::default)
    }
}

/// The measurements of all threads, by labels.
#[derive(Clone, Debug, Default)]
pub struct TrafficTimes {
    /// From the arrival of a request to its synchronous answer; `method` and `route`.
    pub answers: Vec<(Labels, HistogramValue)>,
    /// Refused requests; `method`, `route`, `status` and `code`.
    pub refusals: Vec<(Labels, Number)>,
    /// Attempts to deliver a notice, to the participant's answer or the failure; `participant`.
    pub callbacks: Vec<(Labels, HistogramValue)>,
    /// Attempts without a success; `participant`.
    pub callbacks_failed: Vec<(Labels, Number)>,
    /// Forwarded messages, to the participant's answer or the failure; `participant`, `resource`.
    pub forwards: Vec<(Labels, HistogramValue)>,
    /// Forwarded messages without a success; `participant`.
    pub forwards_failed: Vec<(Labels, Number)>,
}

impl TrafficTimes {
    /// Adds up the threads.
    pub(crate) fn of(threads: &[Arc<Measurements>], view: &ParticipantsView) -> Self {
        let mut sum = Self::default();
        Operation::ALL.iter().for_each(|operation| sum.add_answers(threads, *operation));
        sum.add_refusals(threads);
        (0..=PARTICIPANTS_MAX).for_each(|at| sum.add_peer(threads, (at, view)));
        sum
    }

    fn add_answers(&mut self, threads: &[Arc<Measurements>], operation: Operation) {
        let mut value = HistogramValue::default();
        for thread in threads {
            let AnswerTimes { times, exemplars } = &thread.answers[operation as usize];
            value.add(times);
            value.add_exemplars(exemplars);
        }
        if value.distribution.count() != 0 {
            self.answers.push((route_labels(Some(operation)), value));
        }
    }

    fn add_refusals(&mut self, threads: &[Arc<Measurements>]) {
        let mut sums: BTreeMap<Refused, u64> = BTreeMap::new();
        for thread in threads {
            let refusals = thread.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.iter().for_each(|(key, count)| *sums.entry(*key).or_default() += count);
        }
        for ((operation, status, code), count) in sums {
            let mut labels = route_labels(operation);
            labels.push(("status", status.to_string().into()));
            labels.push(("code", format!("{code:04}").into()));
            self.refusals.push((labels, Number::Integer(count.into())));
        }
    }

    fn add_peer(&mut self, threads: &[Arc<Measurements>], (at, view): (usize, &ParticipantsView)) {
        let peers: Vec<&PeerTimes> =
            threads.iter().filter_map(|thread| thread.peers[at].get()).map(|it| &**it).collect();
        if peers.is_empty() {
            return;
        }
        let named = || Some(view.get(ParticipantIndex(at as u32))?.name.as_str().to_owned());
        let name =
            (at < PARTICIPANTS_MAX).then(named).flatten().unwrap_or_else(|| "other".to_owned());
        let labels: Labels = vec![("participant", name.into())];
        let failed = |of: fn(&PeerTimes) -> &Counter| {
            Number::Integer(peers.iter().map(|peer| i128::from(of(peer).get())).sum())
        };
        let callbacks = sum_of(peers.iter().map(|peer| &peer.callbacks));
        if callbacks.distribution.count() != 0 {
            self.callbacks.push((labels.clone(), callbacks));
            self.callbacks_failed.push((labels.clone(), failed(|peer| &peer.callbacks_failed)));
        }
        let before = self.forwards.len();
        for resource in Resource::ALL {
            let of = peers.iter().filter_map(|peer| peer.forwards[resource as usize].get());
            let forwards = sum_of(of.map(|it| &**it));
            if forwards.distribution.count() != 0 {
                let mut labels = labels.clone();
                labels.push(("resource", resource.as_str().into()));
                self.forwards.push((labels, forwards));
            }
        }
        if before < self.forwards.len() {
            self.forwards_failed.push((labels, failed(|peer| &peer.forwards_failed)));
        }
    }
}

fn sum_of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> HistogramValue {
    let mut sum = HistogramValue::default();
    histograms.for_each(|histogram| sum.add(histogram));
    sum
}

fn route_labels(operation: Option<Operation>) -> Labels {
    let (method, route) = match operation {
        None => ("other", "other".to_owned()),
        Some(operation) => operation.method_and_path(),
    };
    vec![("method", method.into()), ("route", route.into())]
}
