//! The protobuf format of Prometheus (`io.prometheus.client.MetricFamily`, length-delimited), the
//! only one with native histograms. Fields have the numbers of its `metrics.proto`.

use prost::Message;

use crate::exemplars::Exemplar;
use crate::family::{Family, HistogramValue, Labels, Sample, Value};
use crate::histogram::{CLASSIC_BOUNDS, COARSE_BUCKETS, Distribution, SCHEMA};
use crate::table::MetricKind;

/// Durations up to this one, in seconds, count as zero. The recorded ones are longer.
const ZERO_THRESHOLD: f64 = 1.0 / (1u128 << 127) as f64;

#[derive(Clone, PartialEq, Message)]
struct FamilyMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<MetricMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct MetricMessage {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelMessage>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<NumberMessage>,
    #[prost(message, optional, tag = "3")]
    counter: Option<NumberMessage>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The value of a counter or a gauge.
#[derive(Clone, PartialEq, Message)]
struct NumberMessage {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<BucketMessage>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<SpanMessage>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketMessage {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    exemplar: Option<ExemplarMessage>,
}

/// A sequence of native buckets without a gap.
#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    /// Empty buckets since the previous span; of the first span, the index of its first bucket.
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct ExemplarMessage {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelMessage>,
    #[prost(double, optional, tag = "2")]
    value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<TimestampMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct TimestampMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// Writes all families.
pub(crate) fn write(families: &[Family]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for family in families {
        let message = family_message(family);
        message.encode_length_delimited(&mut bytes).expect("memory takes all messages");
    }
    bytes
}

fn family_message(Family { metric, samples }: &Family) -> FamilyMessage {
    let kind = match metric.kind {
        MetricKind::Counter => 0,
        MetricKind::Gauge => 1,
        MetricKind::Histogram | MetricKind::CoarseHistogram => 4,
    };
    let metrics = samples.iter().map(|sample| metric_message(metric.kind, sample)).collect();
    FamilyMessage { name: metric.name.into(), help: metric.help.into(), kind: Some(kind), metrics }
}

fn metric_message(kind: MetricKind, Sample { labels, value }: &Sample) -> MetricMessage {
    let mut message = MetricMessage { labels: label_messages(labels), ..Default::default() };
    match value {
        Value::Histogram(value) => message.histogram = Some(histogram_message(kind, value)),
        Value::Number(number) => {
            let number = Some(NumberMessage { value: Some(number.to_f64()) });
            match kind {
                MetricKind::Counter => message.counter = number,
                _ => message.gauge = number,
            }
        }
    }
    message
}

fn label_messages(labels: &Labels) -> Vec<LabelMessage> {
    let message = |(name, value): &(&'static str, std::borrow::Cow<'static, str>)| LabelMessage {
        name: (*name).into(),
        value: value.to_string(),
    };
    labels.iter().map(message).collect()
}

fn histogram_message(kind: MetricKind, value: &HistogramValue) -> HistogramMessage {
    match kind {
        MetricKind::CoarseHistogram => coarse_message(&value.distribution),
        _ => native_message(value),
    }
}

/// Without native buckets.
fn coarse_message(distribution: &Distribution) -> HistogramMessage {
    let counts = distribution.classic();
    let bucket = |at: usize| BucketMessage {
        cumulative_count: Some(counts[at]),
        upper_bound: Some(CLASSIC_BOUNDS[at].0 as f64 / 1e9),
        exemplar: None,
    };
    HistogramMessage {
        count: Some(distribution.count()),
        sum: Some(distribution.sum_ns() as f64 / 1e9),
        buckets: COARSE_BUCKETS.map(bucket).to_vec(),
        ..Default::default()
    }
}

fn native_message(value: &HistogramValue) -> HistogramMessage {
    let HistogramValue { distribution, exemplars } = value;
    let bucket =
        |((count, (bound, _)), exemplar): ((u64, (u64, &str)), &Option<Exemplar>)| BucketMessage {
            cumulative_count: Some(count),
            upper_bound: Some(bound as f64 / 1e9),
            exemplar: exemplar.as_ref().map(exemplar_message),
        };
    let classic = distribution.classic().into_iter().zip(CLASSIC_BOUNDS).zip(exemplars);
    let (positive_spans, positive_deltas) = native_buckets(distribution.native());
    HistogramMessage {
        count: Some(distribution.count()),
        sum: Some(distribution.sum_ns() as f64 / 1e9),
        buckets: classic.map(bucket).collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(0),
        positive_spans,
        positive_deltas,
    }
}

/// The spans of the buckets, and the difference of each count to that of the previous bucket.
fn native_buckets(buckets: impl Iterator<Item = (i32, u64)>) -> (Vec<SpanMessage>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<SpanMessage>::new(), Vec::new());
    let (mut next, mut previous) = (0, 0);
    for (index, count) in buckets {
        match spans.last_mut() {
            Some(span) if index == next => span.length = span.length.map(|length| length + 1),
            _ => spans.push(SpanMessage { offset: Some(index - next), length: Some(1) }),
        }
        deltas.push(count as i64 - previous);
        (next, previous) = (index + 1, count as i64);
    }
    (spans, deltas)
}

fn exemplar_message(exemplar: &Exemplar) -> ExemplarMessage {
    let trace = u128::from_be_bytes(exemplar.trace);
    let label = LabelMessage { name: "trace_id".into(), value: format!("{trace:032x}") };
    let timestamp = TimestampMessage {
        seconds: (exemplar.at_ms / 1_000) as i64,
        nanos: (exemplar.at_ms % 1_000) as i32 * 1_000_000,
    };
    ExemplarMessage {
        labels: vec![label],
        value: Some(exemplar.nanoseconds as f64 / 1e9),
        timestamp: Some(timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_buckets_have_spans_and_deltas() {
        let (spans, deltas) = native_buckets([(-3, 2), (-2, 5), (1, 4)].into_iter());
        let span = |offset, length| SpanMessage { offset: Some(offset), length: Some(length) };
        assert_eq!(spans, [span(-3, 2), span(2, 1)]);
        assert_eq!(deltas, [2, 3, -1]);
    }

    #[test]
    fn coarse_histogram_has_classic_buckets_alone() {
        let histogram = crate::Histogram::default();
        histogram.record(30_000_000);
        let mut value = HistogramValue::default();
        value.add(&histogram);
        let message = histogram_message(MetricKind::CoarseHistogram, &value);
        let buckets: Vec<_> = message
            .buckets
            .iter()
            .map(|bucket| (bucket.upper_bound.unwrap(), bucket.cumulative_count.unwrap()))
            .collect();
        let expected = [(0.01, 0), (0.05, 1), (0.1, 1), (0.5, 1), (1.0, 1), (2.0, 1), (5.0, 1)];
        assert_eq!(buckets, expected);
        assert_eq!((message.count, message.schema), (Some(1), None));
        assert!(message.positive_spans.is_empty() && message.positive_deltas.is_empty());
    }
}
