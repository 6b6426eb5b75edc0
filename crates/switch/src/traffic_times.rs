//! The measurements of all I/O threads, added up for a scrape.

use std::collections::BTreeMap;
use std::sync::Arc;

use fspiop::Resource;
use fspiop::route_table::Operation;
use ledger::ParticipantIndex;
use metrics::{
    Histogram, HistogramValue, Labels, Number, OTHER, PARTICIPANTS_MAX, participant_label,
};
use node::ParticipantsView;

use crate::failure::{REASONS, USUAL_REASONS};
use crate::measurements::{
    ByResult, CallResult, Measurements, NoticeAction, PaymentSpan, PeerFailures, PeerTimes,
    Refused, RequestKind, USUAL_STATUSES,
};

/// The measurements of all threads since the start. Histograms without a duration are left out.
#[derive(Clone, Debug, Default)]
pub struct TrafficTimes {
    /// Accepted requests, from their arrival to the synchronous answer.
    pub accepted: BTreeMap<RequestKind, HistogramValue>,
    /// Refused requests, from their arrival to the answer.
    pub refused: BTreeMap<RequestKind, HistogramValue>,
    /// Numbers of refusals by operation, status and error code; no operation for unknown paths.
    pub refusal_counts: BTreeMap<(Option<Operation>, u16, u16), u64>,
    /// Numbers of refusals by the label of their sender, and error code.
    pub refusals_by_sender: BTreeMap<(String, u16), u64>,
    /// Participants in the order of the registry; the last one may be `other`.
    pub participants: Vec<ParticipantTimes>,
    /// Building the messages of notices.
    pub built: Vec<(NoticeAction, CallResult, HistogramValue)>,
    /// Attempts to deliver a notice, from the first step to the answer.
    pub notices: Vec<(CallResult, HistogramValue)>,
    /// Parts of payments, by [`PaymentSpan`].
    pub payments: [HistogramValue; PaymentSpan::COUNT],
    /// Look-ups of a transfer's state for a participant.
    pub queries: Vec<(CallResult, HistogramValue)>,
}

/// The times of a participant.
#[derive(Clone, Debug, Default)]
pub struct ParticipantTimes {
    /// Its label, or [`OTHER`] for several.
    pub name: String,
    /// Attempts to deliver a notice that it did not accept, by reason. Empty without an attempt.
    pub callbacks_failed: BTreeMap<&'static str, u64>,
    /// The same of messages that were forwarded to it.
    pub forwards_failed: BTreeMap<&'static str, u64>,
    /// Attempts to deliver a notice to it, by the status of the answer; 0 without an answer.
    pub deliveries: BTreeMap<(NoticeAction, u16), HistogramValue>,
    /// Messages that were forwarded to it.
    pub forwards: Vec<(RequestKind, CallResult, HistogramValue)>,
}

impl TrafficTimes {
    /// Adds up the threads.
    pub(crate) fn of(threads: &[Arc<Measurements>], view: &ParticipantsView) -> Self {
        let mut sum = Self::default();
        Operation::ALL.iter().for_each(|operation| sum.add_answers(threads, *operation));
        threads.iter().for_each(|thread| sum.add_refusals(thread, view));
        sum.add_participants(threads, view);
        for action in NoticeAction::ALL {
            let results = by_result(threads.iter().map(|thread| &thread.built[action as usize]));
            sum.built.extend(results.map(|(result, value)| (action, result, value)));
        }
        sum.notices = by_result(threads.iter().map(|thread| &thread.notices)).collect();
        sum.queries = by_result(threads.iter().map(|thread| &thread.queries)).collect();
        for (span, value) in sum.payments.iter_mut().enumerate() {
            *value = sum_of(threads.iter().filter_map(|thread| thread.payments[span].get()));
        }
        sum
    }

    fn add_answers(&mut self, threads: &[Arc<Measurements>], operation: Operation) {
        for request in RequestKind::of(operation) {
            let mut value = HistogramValue::default();
            for times in threads.iter().filter_map(|thread| thread.answers.get(request).get()) {
                value.add(&times.times);
                value.add_exemplars(&times.exemplars);
            }
            if value.distribution.count() != 0 {
                self.accepted.insert(request, value);
            }
        }
    }

    fn add_refusals(&mut self, thread: &Measurements, view: &ParticipantsView) {
        let refusals = thread.refusals();
        for ((at, code), count) in &refusals.by_sender {
            let label = participant_at(view, *at).unwrap_or(OTHER).to_owned();
            *self.refusals_by_sender.entry((label, *code)).or_default() += count;
        }
        for (key, count) in &refusals.counts {
            *self.refusal_counts.entry(*key).or_default() += count;
        }
        for (request, times) in &refusals.times {
            self.refused.entry(*request).or_default().add(times);
        }
    }

    fn add_participants(&mut self, threads: &[Arc<Measurements>], view: &ParticipantsView) {
        let mut others = vec![PARTICIPANTS_MAX];
        for at in 0..PARTICIPANTS_MAX {
            match participant_at(view, at) {
                None => others.push(at),
                Some(name) => self.add_participant(threads, (name, &[at])),
            }
        }
        self.add_participant(threads, (OTHER, &others));
    }

    /// Adds the times of one participant, or the sums of several, by their indexes.
    fn add_participant(&mut self, threads: &[Arc<Measurements>], (name, all): (&str, &[usize])) {
        let mut times = ParticipantTimes { name: name.to_owned(), ..Default::default() };
        let places = || threads.iter().flat_map(|thread| all.iter().map(move |at| (thread, *at)));
        let failures = places().filter_map(|(thread, at)| thread.failures[at].get());
        failures.for_each(|failures| times.add_failures(failures));
        let peers: Vec<&PeerTimes> = places()
            .filter_map(|(thread, at)| thread.peers[at].get())
            .map(|peer| &**peer)
            .collect();
        if peers.is_empty() && times.callbacks_failed.is_empty() && times.forwards_failed.is_empty()
        {
            return;
        }
        peers.iter().for_each(|peer| times.add_deliveries(peer));
        let forwards: Vec<_> = peers.iter().filter_map(|peer| peer.forwards.get()).collect();
        for request in Operation::ALL.into_iter().flat_map(RequestKind::of) {
            let results = by_result(forwards.iter().map(|peer| peer.get(request)));
            times.forwards.extend(results.map(|(result, value)| (request, result, value)));
        }
        self.participants.push(times);
    }
}

/// The label of the participant at a place ([`metrics::participant_place`]); `None` without a
/// participant, or if it shares the series of [`OTHER`].
#[must_use]
pub fn participant_at(view: &ParticipantsView, place: usize) -> Option<&str> {
    let index = (place < PARTICIPANTS_MAX).then_some(ParticipantIndex(place as u32 + 1))?;
    view.get(index).map(|member| participant_label(member.name.as_str()))
}

impl ParticipantTimes {
    fn add_failures(&mut self, failures: &PeerFailures) {
        for (counts, counters) in [
            (&mut self.callbacks_failed, &failures.callbacks),
            (&mut self.forwards_failed, &failures.forwards),
        ] {
            let Some(counters) = counters.get() else { continue };
            for (at, (reason, counter)) in REASONS.iter().zip(counters).enumerate() {
                let count = counter.get();
                if at < USUAL_REASONS || count != 0 {
                    *counts.entry(*reason).or_default() += count;
                }
            }
        }
    }

    fn add_deliveries(&mut self, peer: &PeerTimes) {
        for action in NoticeAction::ALL {
            for (at, status) in USUAL_STATUSES.into_iter().enumerate() {
                if let Some(histogram) = peer.delivered[action as usize][at].get() {
                    self.deliveries.entry((action, status)).or_default().add(histogram);
                }
            }
        }
        for (key, histogram) in &*peer.others() {
            self.deliveries.entry(*key).or_default().add(histogram);
        }
    }

    fn labels(&self) -> Labels {
        vec![("participant", self.name.clone().into())]
    }
}

/// The values of Upesi's own metrics.
impl TrafficTimes {
    /// Accepted requests by `method` and `route`.
    #[must_use]
    pub fn answers(&self) -> Vec<(Labels, HistogramValue)> {
        let mut sums: BTreeMap<Operation, HistogramValue> = BTreeMap::new();
        for (request, value) in &self.accepted {
            sums.entry(request.operation).or_default().merge(value);
        }
        sums.into_iter().map(|(operation, sum)| (route_labels(Some(operation)), sum)).collect()
    }

    /// Refused requests by `method`, `route`, `status` and `code`.
    #[must_use]
    pub fn refusals(&self) -> Vec<(Labels, Number)> {
        let sample = |(refused, count): (&Refused, &u64)| {
            let (operation, status, code) = *refused;
            let mut labels = route_labels(operation);
            labels.push(("status", status.to_string().into()));
            labels.push(("code", format!("{code:04}").into()));
            (labels, Number::Integer((*count).into()))
        };
        self.refusal_counts.iter().map(sample).collect()
    }

    /// Refused requests by `participant` and `code`, without those of unknown senders.
    #[must_use]
    pub fn refusals_by_sender(&self) -> Vec<(Labels, Number)> {
        let sample = |((sender, code), count): (&(String, u16), &u64)| {
            let code = format!("{code:04}").into();
            let labels = vec![("participant", sender.clone().into()), ("code", code)];
            (labels, Number::Integer((*count).into()))
        };
        self.refusals_by_sender.iter().map(sample).collect()
    }

    /// Attempts to deliver a notice, by `participant`.
    #[must_use]
    pub fn callbacks(&self) -> Vec<(Labels, HistogramValue)> {
        let called = self.participants.iter().filter(|it| !it.deliveries.is_empty());
        called.map(|it| (it.labels(), added(it.deliveries.values()))).collect()
    }

    /// Attempts without a success, by `participant` and `reason`.
    #[must_use]
    pub fn callbacks_failed(&self) -> Vec<(Labels, Number)> {
        self.failures(|participant| &participant.callbacks_failed)
    }

    /// Forwarded messages, by `participant` and `resource`.
    #[must_use]
    pub fn forwards(&self) -> Vec<(Labels, HistogramValue)> {
        let of_participant = |it: &ParticipantTimes| {
            let mut sums: BTreeMap<&'static str, HistogramValue> = BTreeMap::new();
            for (request, _, value) in &it.forwards {
                let resource = resource_of(request.operation).as_str();
                sums.entry(resource).or_default().add_sum(value);
            }
            let labels = it.labels();
            sums.into_iter().map(move |(resource, sum)| {
                let mut labels = labels.clone();
                labels.push(("resource", resource.into()));
                (labels, sum)
            })
        };
        self.participants.iter().flat_map(of_participant).collect()
    }

    /// Forwarded messages without a success, by `participant` and `reason`.
    #[must_use]
    pub fn forwards_failed(&self) -> Vec<(Labels, Number)> {
        self.failures(|participant| &participant.forwards_failed)
    }

    fn failures(
        &self,
        counts: impl Fn(&ParticipantTimes) -> &BTreeMap<&'static str, u64>,
    ) -> Vec<(Labels, Number)> {
        let of_participant = |it| {
            let counts: &BTreeMap<_, _> = counts(it);
            counts.iter().map(|(reason, count)| {
                let mut labels = it.labels();
                labels.push(("reason", (*reason).into()));
                (labels, Number::Integer((*count).into()))
            })
        };
        self.participants.iter().flat_map(of_participant).collect()
    }
}

/// The resource of an operation of the API.
#[must_use]
pub fn resource_of(operation: Operation) -> Resource {
    let has = |resource: &Resource| resource.routes().iter().any(|row| row.operation == operation);
    Resource::ALL.into_iter().find(has).expect("operations of the API belong to a resource")
}

/// Whether a status is 2xx.
#[must_use]
pub const fn is_success(status: u16) -> bool {
    matches!(status, 200..=299)
}

/// The sum of several histograms, without exemplars.
pub fn added<'a>(values: impl Iterator<Item = &'a HistogramValue>) -> HistogramValue {
    let mut sum = HistogramValue::default();
    values.for_each(|value| sum.add_sum(value));
    sum
}

/// The results of which there are durations.
fn by_result<'a>(
    threads: impl Iterator<Item = &'a ByResult> + Clone,
) -> impl Iterator<Item = (CallResult, HistogramValue)> {
    let sums = CallResult::ALL.into_iter().filter_map(move |result| {
        let mut recorded = threads.clone().filter_map(|of| of[result as usize].get()).peekable();
        recorded.peek().is_some().then(|| (result, sum_of(recorded)))
    });
    sums.collect::<Vec<_>>().into_iter()
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
