//! Metrics: recording on the threads that serve transfers, and the formats that Prometheus reads.
//!
//! A metric is declared once, as a row of a [`metrics!`] table. A scrape reads the values of all
//! rows into [`Family`] values, and one of the three encoders writes them ([`Exposition`]): the
//! text format, OpenMetrics, or protobuf with native histograms.
//!
//! A [`Histogram`] or [`Counter`] belongs to one thread, which records without locks, without
//! read-modify-write instructions and without allocation. Scrapes add up the values of all threads.

mod counter;
mod exemplars;
mod exposition;
mod family;
mod histogram;
mod protobuf;
mod table;
mod text;

pub use counter::Counter;
pub use exemplars::{Exemplar, Exemplars};
pub use exposition::Exposition;
pub use family::{Family, HistogramValue, Labels, Number, Sample, Value};
pub use histogram::{CLASSIC_BOUNDS, Distribution, Histogram};
pub use table::{Metric, MetricFamily, MetricKind, MetricValue, Samples, collect};

/// Number of participants with series of their own: the first ones of the registry. The others
/// share those of [`OTHER`].
pub const PARTICIPANTS_MAX: usize = 500;

/// Value of the label `participant` of the series that several participants share. A participant of
/// this name is always one of them: two series with the same labels would make a scrape fail.
pub const OTHER: &str = "other";
