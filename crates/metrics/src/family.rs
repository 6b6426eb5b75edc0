//! The values of a scrape, before they are written in one of the formats.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use crate::exemplars::{Exemplar, Exemplars};
use crate::histogram::{CLASSIC_BOUNDS, Distribution, Histogram};
use crate::table::MetricFamily;

/// Names and values of labels. Values are any text; the formats escape them.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// A metric with its samples.
#[derive(Clone, Debug)]
pub struct Family {
    /// The metric.
    pub metric: MetricFamily,
    /// Its samples, each with different labels; at least one.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The labels.
    pub labels: Labels,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A counter or a gauge.
    Number(Number),
    /// A histogram; families that show the same durations share it.
    Histogram(Arc<HistogramValue>),
}

/// The values of a histogram.
#[derive(Clone, Debug, Default)]
pub struct HistogramValue {
    /// The recorded durations.
    pub distribution: Distribution,
    /// The newest exemplar of each classic bucket, and of the durations above.
    pub exemplars: [Option<Exemplar>; CLASSIC_BOUNDS.len() + 1],
}

impl HistogramValue {
    /// Adds what one thread recorded.
    pub fn add(&mut self, histogram: &Histogram) {
        self.distribution.add(histogram);
    }

    /// Adds the durations of another sum, without its exemplars.
    pub fn add_sum(&mut self, other: &Self) {
        self.distribution.add_sum(&other.distribution);
    }

    /// Adds another sum, and its newer exemplars.
    pub fn merge(&mut self, other: &Self) {
        self.add_sum(other);
        for (found, other) in self.exemplars.iter_mut().zip(other.exemplars) {
            let is_newer = |other: &Exemplar| found.is_none_or(|found| found.at_ms < other.at_ms);
            *found = other.filter(is_newer).or(*found);
        }
    }

    /// Adds the exemplars of one thread.
    pub fn add_exemplars(&mut self, exemplars: &Exemplars) {
        for (bucket, found) in self.exemplars.iter_mut().enumerate() {
            *found = exemplars.newer(bucket, *found);
        }
    }
}

/// A number, exact in the text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer.
    Integer(i128),
    /// A time in seconds.
    Seconds(Duration),
    /// An amount of money, in ten-thousandths.
    TenThousandths(i128),
}

impl Number {
    /// The nearest floating-point number, for formats that have no other numbers.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Seconds(value) => value.as_secs_f64(),
            Self::TenThousandths(value) => value as f64 / 10_000.0,
        }
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Seconds(value) => write!(f, "{}.{:09}", value.as_secs(), value.subsec_nanos()),
            Self::TenThousandths(value) => {
                let sign = if *value < 0 { "-" } else { "" };
                let units = value.unsigned_abs();
                write!(f, "{sign}{}.{:04}", units / 10_000, units % 10_000)
            }
        }
    }
}
