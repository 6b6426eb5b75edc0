//! Samples of the reference's metrics, from the measurements of the switch.

use fspiop::endpoint::EndpointType;
use fspiop::route_table::Operation;
use metrics::{HistogramValue, Labels, Number, Sample};
use node::DecisionKind;
use switch::{
    CallResult, NoticeAction, ParticipantTimes, PaymentSpan, RequestKind, added, is_success,
    resource_of,
};

use crate::serve::mojaloop_metrics::row::{DecisionValues, ReferenceSources, histogram, number};

type Value<'a> = &'a HistogramValue;

/// The requests of an operation, by whether their paths have a sub-identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    Short,
    WithSubId,
    All,
}

impl Paths {
    fn include(self, request: RequestKind, operation: Operation) -> bool {
        let has = match self {
            Self::Short => !request.has_sub_id,
            Self::WithSubId => request.has_sub_id,
            Self::All => true,
        };
        has && request.operation == operation
    }
}

/// Requests of an operation, accepted or refused, by `success`.
pub(crate) fn requests(
    now: &ReferenceSources<'_>,
    operation: Operation,
    paths: Paths,
) -> Vec<Sample> {
    let is_one = |(request, _): &(&RequestKind, Value<'_>)| paths.include(**request, operation);
    let accepted = now.times.accepted.iter().filter(is_one).map(|(_, value)| value);
    let refused = now.times.refused.iter().filter(is_one).map(|(_, value)| value);
    by_success(added(accepted), added(refused), &[])
}

/// A sample each for success and failure; none if there was neither. A stage that never failed has
/// a sample without failures, so that a rate of errors is 0.
fn by_success(
    succeeded: HistogramValue,
    failed: HistogramValue,
    others: &[(&'static str, &'static str)],
) -> Vec<Sample> {
    if succeeded.distribution.count() + failed.distribution.count() == 0 {
        return Vec::new();
    }
    let sample = |success: &'static str, value| {
        let mut labels: Labels = vec![("success", success.into())];
        labels.extend(others.iter().map(|(name, value)| (*name, (*value).into())));
        histogram(labels, value)
    };
    vec![sample("true", succeeded), sample("false", failed)]
}

/// The same for values with their results.
fn by_result<'a>(
    results: impl Iterator<Item = (CallResult, Value<'a>)>,
    others: &[(&'static str, &'static str)],
) -> Vec<Sample> {
    let mut sums = [HistogramValue::default(), HistogramValue::default()];
    results.for_each(|(result, value)| sums[result as usize].add_sum(value));
    let [succeeded, failed] = sums;
    by_success(succeeded, failed, others)
}

/// Attempts to deliver notices about transfers, from the first step to the answer.
pub(crate) fn notices(now: &ReferenceSources<'_>) -> Vec<Sample> {
    by_result(now.times.notices.iter().map(|(result, value)| (*result, value)), &[])
}

/// Building the messages of notices, by `success`.
pub(crate) fn built(now: &ReferenceSources<'_>) -> Vec<Sample> {
    by_result(now.times.built.iter().map(|(_, result, value)| (*result, value)), &[])
}

/// The same by `action`.
pub(crate) fn built_by_action(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let of_action = |action: NoticeAction| {
        let results = now.times.built.iter().filter(move |(of, ..)| *of == action);
        let results = results.map(|(_, result, value)| (*result, value));
        by_result(results, &[("action", action.as_str())])
    };
    NoticeAction::ALL.into_iter().flat_map(of_action).collect()
}

/// Deliveries of notices by recipient, action and status.
pub(crate) fn deliveries(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let of_participant = |it: &ParticipantTimes| {
        let sample = |((action, status), value): (&(NoticeAction, u16), Value<'_>)| {
            let status_text = match status {
                0 => "unknown".into(),
                status => status.to_string().into(),
            };
            let labels = vec![
                ("success", success(is_success(*status)).into()),
                ("to", it.name.clone().into()),
                ("dest", it.name.clone().into()),
                ("action", action.as_str().into()),
                ("status", status_text),
            ];
            histogram(labels, value.clone())
        };
        it.deliveries.iter().map(sample).collect::<Vec<_>>()
    };
    now.times.participants.iter().flat_map(of_participant).collect()
}

const fn success(is_success: bool) -> &'static str {
    if is_success { "true" } else { "false" }
}

/// Parts of payments that ended with a delivery.
pub(crate) fn payments(now: &ReferenceSources<'_>, span: PaymentSpan) -> Vec<Sample> {
    let value = &now.times.payments[span as usize];
    match value.distribution.count() {
        0 => Vec::new(),
        _ => vec![histogram(vec![("success", "true".into())], value.clone())],
    }
}

/// Look-ups of the state of a transfer.
pub(crate) fn queries(now: &ReferenceSources<'_>) -> Vec<Sample> {
    by_result(now.times.queries.iter().map(|(result, value)| (*result, value)), &[])
}

/// The message of a transfer that was decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferStep {
    Prepare,
    Fulfil,
    Abort,
    /// A fulfil or an abort.
    Response,
}

/// Decided messages by `success`, and a further label.
pub(crate) fn decisions(
    now: &ReferenceSources<'_>,
    message: TransferStep,
    of: fn(&DecisionValues) -> Value<'_>,
    others: &[(&'static str, &'static str)],
) -> Vec<Sample> {
    use DecisionKind::{
        AbortAccepted, AbortRefused, FulfilAccepted, FulfilRefused, PrepareAccepted, PrepareRefused,
    };
    let (accepted, refused): (&[DecisionKind], &[DecisionKind]) = match message {
        TransferStep::Prepare => (&[PrepareAccepted], &[PrepareRefused]),
        TransferStep::Fulfil => (&[FulfilAccepted], &[FulfilRefused]),
        TransferStep::Abort => (&[AbortAccepted], &[AbortRefused]),
        TransferStep::Response => {
            (&[FulfilAccepted, AbortAccepted], &[FulfilRefused, AbortRefused])
        }
    };
    let sum =
        |kinds: &[DecisionKind]| added(kinds.iter().map(|kind| of(&now.decisions[*kind as usize])));
    by_success(sum(accepted), sum(refused), others)
}

/// Writes of messages to the log, by `queryName`. A failed write stops the node, so none is
/// counted as a failure.
pub(crate) fn writes(
    now: &ReferenceSources<'_>,
    message: TransferStep,
    names: &[&'static str],
) -> Vec<Sample> {
    let of_name = |name: &&'static str| {
        let mut samples = decisions(now, message, |it| &it.write, &[("queryName", name)]);
        // A refused message is written as well.
        merge_failures(&mut samples);
        samples
    };
    names.iter().flat_map(of_name).collect()
}

/// Counts failures as successes.
fn merge_failures(samples: &mut [Sample]) {
    let [succeeded, failed] = samples else { return };
    if let (metrics::Value::Histogram(all), metrics::Value::Histogram(more)) =
        (&mut succeeded.value, &mut failed.value)
    {
        std::sync::Arc::make_mut(all).add_sum(more);
        *more = std::sync::Arc::default();
    }
}

/// Batches, each decided as a whole.
pub(crate) fn batches(
    now: &ReferenceSources<'_>,
    others: &[(&'static str, &'static str)],
) -> Vec<Sample> {
    by_success(now.apply.clone(), HistogramValue::default(), others)
}

/// Messages of an operation that were forwarded to participants.
pub(crate) fn forwards(
    now: &ReferenceSources<'_>,
    operation: Operation,
    others: &[(&'static str, &'static str)],
) -> Vec<Sample> {
    let all = now.times.participants.iter().flat_map(|it| &it.forwards);
    let of_operation = all.filter(|(request, ..)| request.operation == operation);
    by_result(of_operation.map(|(_, result, value)| (*result, value)), others)
}

/// Forwarded messages about parties, by the type of the recipient's endpoint.
pub(crate) fn forwards_by_endpoint(now: &ReferenceSources<'_>) -> Vec<Sample> {
    const REQUESTS: [(Operation, [EndpointType; 2]); 4] = [
        (Operation::PartiesGet, [EndpointType::PartiesGet, EndpointType::PartiesSubIdGet]),
        (Operation::PartiesPut, [EndpointType::PartiesPut, EndpointType::PartiesSubIdPut]),
        (
            Operation::PartiesError,
            [EndpointType::PartiesPutError, EndpointType::PartiesSubIdPutError],
        ),
        (
            Operation::ParticipantsError,
            [EndpointType::ParticipantPutError, EndpointType::ParticipantSubIdPutError],
        ),
    ];
    let of_request = |(operation, endpoints): (Operation, [EndpointType; 2])| {
        endpoints.into_iter().zip([false, true]).flat_map(move |(endpoint, has_sub_id)| {
            let wanted = RequestKind { operation, has_sub_id };
            let all = now.times.participants.iter().flat_map(|it| &it.forwards);
            let found = all.filter(move |(request, ..)| *request == wanted);
            let results = found.map(|(_, result, value)| (*result, value));
            by_result(results, &[("endpointType", endpoint.as_str())])
        })
    };
    REQUESTS.into_iter().flat_map(of_request).collect()
}

/// Messages forwarded by one of the reference's services, by recipient.
pub(crate) fn sent_forwards(
    now: &ReferenceSources<'_>,
    resources: &[fspiop::Resource],
) -> Vec<Sample> {
    let of_participant = |it: &ParticipantTimes| {
        let found = it
            .forwards
            .iter()
            .filter(|(request, ..)| resources.contains(&resource_of(request.operation)));
        sent(it, found.map(|(_, result, value)| (*result, value)))
    };
    now.times.participants.iter().flat_map(of_participant).collect()
}

/// Attempts to deliver notices, by recipient.
pub(crate) fn sent_notices(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let of_participant = |it: &ParticipantTimes| {
        let results = it.deliveries.iter().map(|((_, status), value)| match is_success(*status) {
            true => (CallResult::Succeeded, value),
            false => (CallResult::Failed, value),
        });
        sent(it, results)
    };
    now.times.participants.iter().flat_map(of_participant).collect()
}

fn sent<'a>(
    it: &ParticipantTimes,
    results: impl Iterator<Item = (CallResult, Value<'a>)>,
) -> Vec<Sample> {
    let mut samples = by_result(results, &[]);
    for sample in &mut samples {
        sample.labels.push(("destination", it.name.clone().into()));
    }
    samples
}

/// The value that the reference's service for an operation has in `serviceName`.
fn service_of(operation: Option<Operation>) -> &'static str {
    match operation.map(resource_of) {
        Some(fspiop::Resource::Quotes | fspiop::Resource::BulkQuotes) => "quoting-service",
        Some(
            fspiop::Resource::TransactionRequests
            | fspiop::Resource::Authorizations
            | fspiop::Resource::Transactions,
        ) => "transaction-requests",
        Some(fspiop::Resource::Parties | fspiop::Resource::Participants) => {
            "account-lookup-service"
        }
        Some(fspiop::Resource::BulkTransfers) => "bulk-api-adapter",
        Some(fspiop::Resource::Transfers | fspiop::Resource::Services) | None => "ml-service",
    }
}

fn http_labels(operation: Option<Operation>, status: u16) -> Labels {
    let (method, path) = match operation {
        None => ("other", "other".to_owned()),
        Some(operation) => operation.method_and_path(),
    };
    vec![
        ("serviceName", service_of(operation).into()),
        ("method", method.into()),
        ("status_code", status.to_string().into()),
        ("path", path.into()),
    ]
}

/// The status of accepted requests.
fn accepted_status(operation: Operation) -> u16 {
    let is_put = operation.method_and_path().0 == "PUT";
    if is_put || operation == Operation::ParticipantsBatch { 200 } else { 202 }
}

/// Requests by method, status and path.
pub(crate) fn http_requests(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let mut counts = std::collections::BTreeMap::<(Option<Operation>, u16), u64>::new();
    for (request, value) in &now.times.accepted {
        let key = (Some(request.operation), accepted_status(request.operation));
        *counts.entry(key).or_default() += value.distribution.count();
    }
    for ((operation, status, _), count) in &now.times.refusal_counts {
        *counts.entry((*operation, *status)).or_default() += count;
    }
    let sample = |((operation, status), count): ((Option<Operation>, u16), u64)| {
        number(http_labels(operation, status), Number::Integer(count.into()))
    };
    counts.into_iter().map(sample).collect()
}

/// Durations of accepted requests by method, status and path.
pub(crate) fn http_durations(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let of_operation = |operation: Operation| {
        let accepted = now.times.accepted.iter();
        let own = accepted.filter(|(request, _)| request.operation == operation);
        let sum = added(own.map(|(_, value)| value));
        let labels = || http_labels(Some(operation), accepted_status(operation));
        (sum.distribution.count() != 0).then(|| histogram(labels(), sum))
    };
    Operation::ALL.into_iter().filter_map(of_operation).collect()
}

/// Refused requests by error code and operation.
pub(crate) fn errors(now: &ReferenceSources<'_>) -> Vec<Sample> {
    let mut counts = std::collections::BTreeMap::<(Option<Operation>, u16), u64>::new();
    for ((operation, _, code), count) in &now.times.refusal_counts {
        *counts.entry((*operation, *code)).or_default() += count;
    }
    let sample = |((operation, code), count): ((Option<Operation>, u16), u64)| {
        let text = match operation.map(Operation::method_and_path) {
            None => "other".to_owned(),
            Some((method, path)) => format!("{method} {path}"),
        };
        let labels = vec![
            ("serviceName", service_of(operation).into()),
            ("code", format!("{code:04}").into()),
            ("system", "fspiop".into()),
            ("operation", text.into()),
        ];
        number(labels, Number::Integer(count.into()))
    };
    counts.into_iter().map(sample).collect()
}

/// One number of the process.
pub(crate) fn process(value: Option<Number>) -> Vec<Sample> {
    value.map(|value| number(Labels::new(), value)).into_iter().collect()
}
