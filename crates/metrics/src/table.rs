//! Tables of metrics.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use crate::family::{Family, HistogramValue, Labels, Number, Sample, Value};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases.
    Counter,
    /// Current value.
    Gauge,
    /// Durations in seconds.
    Histogram,
    /// Durations in seconds with the seven buckets of the reference's histograms. No format adds
    /// native buckets, because Prometheus then drops the classic ones, which boards query.
    CoarseHistogram,
}

impl Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram | Self::CoarseHistogram => "histogram",
        })
    }
}

/// The description of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricFamily {
    /// Its type.
    pub kind: MetricKind,
    /// Its name.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
}

impl MetricFamily {
    /// The unit that its name ends in, before `_total`; a count has none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let words = || self.name.split('_');
        let units = ["bytes", "seconds", "milliseconds", "hours"];
        units.into_iter().find(|unit| words().any(|word| word == *unit)).unwrap_or_default()
    }
}

/// A row of a table: a metric, and the function that reads its value from `N`.
pub struct Metric<N> {
    /// The metric.
    pub family: MetricFamily,
    /// Adds its samples.
    pub sample: fn(&N, &mut Samples),
}

/// Makes a table of metrics. The name before `:` is bound to the source of the values.
///
/// ```
/// struct Now {
///     requests: u64,
/// }
/// static TABLE: &[metrics::Metric<Now>] = metrics::metrics! { now: Now;
///     Counter "requests_total" "Requests." now.requests;
/// };
/// let mut families = Vec::new();
/// metrics::collect(TABLE, &Now { requests: 3 }, &mut families);
/// let text = metrics::Exposition::Text.encode(&families);
/// let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\n";
/// assert_eq!(String::from_utf8(text).unwrap(), format!("{expected}requests_total 3\n"));
/// ```
#[macro_export]
macro_rules! metrics {
    ($now:ident: $source:ty; $($kind:ident $name:literal $help:literal $value:expr;)*) => {
        &[$($crate::Metric {
            family: $crate::MetricFamily {
                kind: $crate::MetricKind::$kind,
                name: $name,
                help: $help,
            },
            sample: |$now: &$source, samples| {
                // A row may be constant.
                let _ = $now;
                $crate::MetricValue::sample(&$value, samples)
            },
        }),*]
    };
}

/// Reads the values of a table. A metric without a sample is left out.
pub fn collect<N>(table: &[Metric<N>], now: &N, families: &mut Vec<Family>) {
    for Metric { family, sample } in table {
        let mut samples = Samples::default();
        sample(now, &mut samples);
        if !samples.0.is_empty() {
            families.push(Family { metric: *family, samples: samples.0 });
        }
    }
}

/// The samples of one metric.
#[derive(Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, labels: Labels, value: Number) {
        self.0.push(Sample { labels, value: Value::Number(value) });
    }

    /// Adds a histogram.
    pub fn add_histogram(&mut self, labels: Labels, value: HistogramValue) {
        self.0.push(Sample { labels, value: Value::Histogram(Arc::new(value)) });
    }
}

/// A value of a metric.
pub trait MetricValue {
    /// Adds its samples.
    fn sample(&self, samples: &mut Samples);
}

impl MetricValue for u64 {
    fn sample(&self, samples: &mut Samples) {
        samples.add(Labels::new(), Number::Integer((*self).into()));
    }
}

/// 0 or 1.
impl MetricValue for bool {
    fn sample(&self, samples: &mut Samples) {
        u64::from(*self).sample(samples);
    }
}

/// Seconds.
impl MetricValue for Duration {
    fn sample(&self, samples: &mut Samples) {
        samples.add(Labels::new(), Number::Seconds(*self));
    }
}

/// `None` has no sample.
impl<T: MetricValue> MetricValue for Option<T> {
    fn sample(&self, samples: &mut Samples) {
        self.iter().for_each(|value| value.sample(samples));
    }
}

impl MetricValue for HistogramValue {
    fn sample(&self, samples: &mut Samples) {
        samples.add_histogram(Labels::new(), self.clone());
    }
}

/// One sample per entry, with its labels.
impl MetricValue for Vec<(Labels, HistogramValue)> {
    fn sample(&self, samples: &mut Samples) {
        self.iter()
            .for_each(|(labels, value)| samples.add_histogram(labels.clone(), value.clone()));
    }
}

/// One sample per entry, with its labels.
impl MetricValue for Vec<(Labels, Number)> {
    fn sample(&self, samples: &mut Samples) {
        self.iter().for_each(|(labels, value)| samples.add(labels.clone(), *value));
    }
}
